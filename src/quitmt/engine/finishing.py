"""Finishing touches to outcomes: n-best lists, scores of all candidates, and warnings.

Nothing is scored here. N-best lists contain each distinct text once, with the reranker's own score.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from quitmt import protocols
from quitmt.loops.faults import FAULTS
from quitmt.protocols import Generator, GeneratorTraits, Reranker, traits_of
from quitmt.types import Candidate, Finished, Ranked, StopReason, at
from quitmt.warnings import APART, PARTLY, warnings

log = logging.getLogger(__name__)


def listed(
    scored: Iterable[tuple[int, float]], anchors: Sequence[Candidate], samples: Sequence[Candidate]
) -> list[Ranked]:
    """Make the n-best list from (index, score) pairs, best first.

    If several candidates have the same text, the first one counts. Indices beyond the samples are ignored.

    >>> samples = [Candidate("a"), Candidate("b"), Candidate("a")]
    >>> [(one.text, one.count) for one in listed([(2, 0.9), (0, 0.9), (1, 0.5)], (), samples)]
    [('a', 2), ('b', 1)]
    """
    counts = Counter(sample.text for sample in samples)
    origins = {anchor.text: anchor.origin for anchor in reversed(anchors)}
    entries: dict[str, Ranked] = {}
    for index, score in scored:
        if index >= len(samples):
            continue
        one = at(index, anchors, samples)
        if one.text not in entries:
            origin = origins.get(one.text, "")
            entries[one.text] = Ranked(index, one.text, score, counts[one.text], _log_probability(one), origin)
    return list(entries.values())


def _log_probability(one: Candidate) -> float | None:
    """A recorded candidate has it among its recorded scores."""
    return (one.scores or {}).get("log_probability") if one.log_probability is None else one.log_probability


def with_scores(finished: Finished, name: str) -> Finished:
    """Store the reranker's scores in the candidates under ``name``; candidates with the same text get the same
    score."""
    scores = {one.text: one.score for one in finished.ranked}

    def scored(one: Candidate) -> Candidate:
        known = scores.get(one.text)
        return one if known is None else replace(one, scores={**(one.scores or {}), name: known})

    return replace(
        finished,
        candidates=tuple(map(scored, finished.candidates)),
        anchors=tuple(map(scored, finished.anchors)),
    )


def with_warnings(finished: Finished, generator: Generator, reranker: Reranker[Any]) -> Finished:
    """Add warnings about the translation to the outcome, if there is a translation."""
    outcome, traits = finished.outcome, traits_of(generator, GeneratorTraits)
    if outcome.index is None or outcome.stop is StopReason.FAILED or not (outcome.source and traits.translates):
        return finished
    texts = {outcome.source, *(candidate.text for candidate in (*finished.candidates, *finished.anchors))}
    unknown, cuts = "", list[int]()
    try:
        unknown = protocols.unknown(generator, outcome.source)
        cuts = protocols.cut(reranker, texts)
    except FAULTS as raised:  # a failing warning must not cost a translation
        log.debug("finding warnings failed", exc_info=raised)
    phrases = warnings(outcome.source, outcome.translation, sentence_level=traits.sentence_level, unknown=unknown)
    if outcome.score is not None and outcome.score < (protocols.apart(reranker) or -math.inf):
        phrases = (*phrases, APART)
    if cuts:
        phrases = (*phrases, f"{PARTLY}: {len(cuts)} of {len(texts)} texts, {max(cuts)} tokens left out")
    return replace(finished, outcome=replace(outcome, warnings=phrases)) if phrases else finished
