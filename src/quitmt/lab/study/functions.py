"""Which names in a study are functions: code of whoever wrote the study, which runs when the study does.

What is not one of our own names is taken for a function, ``module:attribute``. Nothing is imported to find that out.
"""

from __future__ import annotations

from collections.abc import Iterator

from quitmt import generate, stop
from quitmt.errors import UsageError
from quitmt.evaluate.metrics import TABLE
from quitmt.lab.study import Study
from quitmt.metrics.scorer import KINDS
from quitmt.rerank import specs
from quitmt.rerank.terms import parse

METRICS = frozenset({name.partition(":")[2] for name in specs.RERANKERS} | {*KINDS})
"""What ``mbr:`` and ``qe:`` know by themselves."""


def refuse(study: Study, where: str) -> None:
    """Refuse a study that names a function, by the field that does."""
    for field, spec in named(study):
        raise UsageError(
            f"{where}, {field}: {spec!r} names a function, and functions are not allowed",
            hint="allow them only if you trust whoever wrote the study: it runs their code",
        )


def named(study: Study) -> Iterator[tuple[str, str]]:
    """Every function, with the field that names it."""
    if study.model.pools is None and _foreign(study.model.name, frozenset(generate.BACKENDS)):
        yield "[model], name", study.model.name
    for spec in study.rerank.rerankers:
        if any(_foreign(term, METRICS) or _answers(term) for term in _terms(spec)):
            yield "[rerank], rerankers", spec
    rules = frozenset(stop.RULES)
    for field, given in (("[rules], beyond", study.rules.beyond), ("[live], rules", study.live.rules)):
        for spec in given:
            if _foreign(spec, rules):
                yield field, spec
    for spec in study.evaluate.metrics:
        if _foreign(spec, frozenset(TABLE)):
            yield "[evaluate], metrics", spec


def _foreign(spec: str, known: frozenset[str]) -> bool:
    name, colon, _ = spec.partition(":")
    return bool(colon) and name not in known


def _terms(spec: str) -> list[str]:
    """The metrics behind ``mbr:`` and ``qe:``, without their weights."""
    return list(parse(spec.partition(":")[2]).metrics)


def _answers(term: str) -> bool:
    """``vote:module:attribute``: a function that finds the answer in a text."""
    return term.startswith("vote:")
