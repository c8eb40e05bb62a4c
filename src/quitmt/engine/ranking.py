"""The distinct candidates of a segment with their scores: what n-best lists and kept scores are made of.

Each distinct text is there once. Nothing is scored here: the reranker's own scores are put beside their texts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from quitmt.types import Candidate, Finished, Ranked, at


def listed(
    scored: Iterable[tuple[int, float]], anchors: Sequence[Candidate], samples: Sequence[Candidate]
) -> list[Ranked]:
    """From (index, score), the best first. Of several with one text the first counts; those after the samples do not.

    >>> samples = [Candidate("a"), Candidate("b"), Candidate("a")]
    >>> [(one.text, one.count) for one in listed([(2, 0.9), (0, 0.9), (1, 0.5)], (), samples)]
    [('a', 2), ('b', 1)]
    """
    counts = Counter(sample.text for sample in samples)
    origins = {anchor.text: anchor.origin for anchor in reversed(anchors)}
    found: dict[str, Ranked] = {}
    for index, score in scored:
        if index >= len(samples):
            continue
        one = at(index, anchors, samples)
        if one.text not in found:
            origin = origins.get(one.text, "")
            found[one.text] = Ranked(index, one.text, score, counts[one.text], _log_probability(one), origin)
    return list(found.values())


def _log_probability(one: Candidate) -> float | None:
    """Of a recorded candidate it is among the recorded scores."""
    return (one.scores or {}).get("log_probability") if one.log_probability is None else one.log_probability


def with_scores(finished: Finished, name: str) -> Finished:
    """Its candidates with the reranker's scores under a name, where it has one: samples of one text have one score."""
    scores = {one.text: one.score for one in finished.ranked}

    def scored(one: Candidate) -> Candidate:
        known = scores.get(one.text)
        return one if known is None else replace(one, scores={**(one.scores or {}), name: known})

    return replace(
        finished,
        candidates=tuple(map(scored, finished.candidates)),
        anchors=tuple(map(scored, finished.anchors)),
    )
