"""Candidates ordered by score, and the name under which pools keep scores."""

from __future__ import annotations

import math
from collections.abc import Iterable


def best_first(scored: Iterable[tuple[int, float]]) -> list[tuple[int, float]]:
    """Sort (index, score), best first; ties go to anchors in their order, then to the lowest index. Scores that are not
    finite are left out.

    >>> best_first([(0, 0.5), (1, 0.7), (2, 0.7), (3, -math.inf), (-2, 0.7), (-1, 0.7)])
    [(-1, 0.7), (-2, 0.7), (1, 0.7), (2, 0.7), (0, 0.5)]
    """
    finite = (one for one in scored if math.isfinite(one[1]))
    return sorted(finite, key=lambda one: (-one[1], one[0] >= 0, abs(one[0])))


def score_name(reranker: str) -> str | None:
    """Name under which a pool keeps a reranker's scores, so that ``qe:recorded:NAME`` finds them; None for scores that
    come from the pool itself. Arguments such as model folders are not part of the name.

    >>> score_name("qe:kiwi"), score_name("qe:kiwi:some/model"), score_name("mbr:chrf:order=4")
    ('kiwi', 'kiwi', 'mbr:chrf')
    >>> score_name("qe:0.7*metricx+0.3*kiwi"), score_name("qe:recorded:kiwi")
    ('0.7metricx,0.3kiwi', None)
    """
    kind, _, rest = reranker.partition(":")
    if rest.startswith("recorded:") and "+" not in rest:
        return None
    terms = [term.strip().replace("*", "") for term in rest.split("+")]
    short = ",".join(_short(term) for term in terms)
    return short if kind == "qe" else f"{kind}:{short}"


def _short(term: str) -> str:
    name, _, argument = term.partition(":")
    return f"{name}:{argument}" if name.endswith("recorded") else name
