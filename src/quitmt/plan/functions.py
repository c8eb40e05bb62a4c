"""Which names of a recipe are functions (``names.refuse_functions``). Nothing is imported to find that out."""

from __future__ import annotations

from collections.abc import Iterator

from quitmt import generate, stop
from quitmt.errors import UsageError
from quitmt.metrics.scorer import KINDS
from quitmt.names import is_function
from quitmt.recipe.recipe import Recipe
from quitmt.rerank import specs
from quitmt.rerank.terms import parse

METRICS = frozenset({name.partition(":")[2] for name in specs.RERANKERS} | {*KINDS})
"""What ``mbr:`` and ``qe:`` know by themselves."""


def in_recipe(recipe: Recipe) -> Iterator[tuple[str, str]]:
    """Every function, with the field that names it."""
    if recipe.model.name is not None and is_function(recipe.model.name, generate.BACKENDS):
        yield "model.name", recipe.model.name
    for field, spec in (("rerank.name", recipe.rerank.name), ("rerank.filter", recipe.rerank.filter)):
        if spec is not None and in_reranker(spec):
            yield field, spec
    if recipe.stop.rule is not None and is_function(recipe.stop.rule, stop.RULES):
        yield "stop.rule", recipe.stop.rule


def in_reranker(spec: str) -> bool:
    """Whether one of the metrics behind ``mbr:`` or ``qe:`` is a function, or finds answers by one (``vote:``)."""
    try:
        metrics = parse(spec.partition(":")[2]).metrics
    except UsageError:  # whoever builds it will say what is wrong
        return False
    return any(is_function(metric, METRICS) or metric.startswith("vote:") for metric in metrics)
