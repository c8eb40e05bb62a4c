"""Which names of a study are functions (``names.refuse_functions``). Nothing is imported to find that out."""

from __future__ import annotations

from collections.abc import Iterator

from quitmt import generate, stop
from quitmt.lab.study.settings import Study
from quitmt.metrics.registry import EVALUATORS
from quitmt.names import is_function
from quitmt.plan.files import in_reranker


def in_study(study: Study) -> Iterator[tuple[str, str]]:
    """Every function, with the field that names it."""
    if study.model.pools is None and is_function(study.model.name, generate.BACKENDS):
        yield "[model], name", study.model.name
    yield from (("[rerank], rerankers", spec) for spec in study.rerank.rerankers if in_reranker(spec))
    for field, given in (("[rules], beyond", study.rules.beyond), ("[live], rules", study.live.rules)):
        yield from ((field, spec) for spec in given if is_function(spec, stop.RULES))
    yield from (("[evaluate], metrics", spec) for spec in study.evaluate.metrics if is_function(spec, EVALUATORS))
