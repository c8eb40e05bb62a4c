"""MBR and QE on anchored pools as the definitions say it, in plain loops: what every reranker is compared with."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Utility = Callable[[str, str], float]
Ranked = tuple[int, float]


def mbr(utility: Utility, samples: Sequence[str], anchors: Sequence[str] = (), support: str = "all") -> Ranked:
    """The index of the best candidate and its score; sums in index order, without the first copy of a text where a
    sample does not judge itself."""
    found: list[tuple[float, int, int]] = []  # the sum, how many judges, whose
    votes = 2 if support == "anchor" and anchors else 0

    def added(hypothesis: str, judges: Sequence[str]) -> float:
        total = votes * utility(hypothesis, anchors[0]) if votes else 0.0
        for judge in judges:
            total += utility(hypothesis, judge)
        return total

    for place, anchor in enumerate(anchors):
        if anchor not in samples:
            found.append((added(anchor, samples), len(samples) + votes, -1 - place))
    for index, sample in enumerate(samples):
        judges = list(samples)
        if support != "all":
            judges.remove(sample)
        if judges or votes:
            found.append((added(sample, judges), len(judges) + votes, index))
    if not found:
        return 0, utility(samples[0], samples[0])
    best = found[0]
    for one in found[1:]:
        # All have the same judges with "all": sums say more than means, which are rounded.
        if one[0] > best[0] if support == "all" else one[0] / one[1] > best[0] / best[1]:
            best = one
    return best[2], best[0] / best[1]


def qe(scores: Sequence[float], anchor_scores: Sequence[float] = ()) -> Ranked:
    indexed = [(-1 - place, score) for place, score in enumerate(anchor_scores)] + list(enumerate(scores))
    return max(indexed, key=lambda one: one[1])  # the first of equals


def filtered(
    utility: Utility,
    samples: Sequence[tuple[str, float]],
    anchors: Sequence[tuple[str, float]],
    keep: int,
    support: str,
) -> Ranked:
    """With (text, quality) of each candidate."""
    everyone = [(-1 - place, *anchor) for place, anchor in enumerate(anchors)]
    everyone += [(index, *sample) for index, sample in enumerate(samples)]
    kept = sorted(everyone, key=lambda one: -one[2])[:keep]  # stable: the first of equals
    if all(index < 0 for index, _, _ in kept):
        index, text, _ = kept[0]
        return index, utility(text, text)
    few = sorted((index, text) for index, text, _ in kept if index >= 0)
    own = sorted(((index, text) for index, text, _ in kept if index < 0), reverse=True)
    best, score = mbr(utility, [text for _, text in few], [text for _, text in own], support)
    return (few[best][0] if best >= 0 else own[-1 - best][0]), score
