"""Guarantees about quality: chains of rules, what is scored, and whether they are kept where the truth is known."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from quitmt import rerank
from quitmt.calibrate import choose, profile, quality
from quitmt.calibrate.choose import PoolOrigin, TooSmall
from quitmt.calibrate.observe import Observed, observe
from quitmt.calibrate.quality import QualityRequest
from quitmt.calibrate.winners import JudgedRules, in_order_of, winners
from quitmt.errors import InputError, UsageError
from quitmt.evaluate.metrics import Progress, Scores, TestSet
from quitmt.plan import choose as plan_choose
from quitmt.plan.choose import Scored
from quitmt.protocols import RerankerTraits
from quitmt.types import Candidate, RecordedPool, Segment

REQUEST = QualityRequest(0.1, step=4, budget=16, rules=("fixed",))
SOURCE = PoolOrigin("embedded:en-pt|t:1.2|seed:7", "qe:recorded:q", "en", "pt")


class Counting:
    """A metric whose scores stand in the texts, and that counts what it is asked."""

    name, needs_source, needs_reference, lower_is_better = "counted", True, True, False

    def __init__(self) -> None:
        self.requested = list[tuple[str, str, str]]()

    def signature_for(self, references: int) -> str:
        return f"counted|refs:{references}"

    def evaluate(
        self, test_set: TestSet, systems: Sequence[Sequence[str]], progress: Progress | None = None
    ) -> list[Scores]:
        assert test_set.sources is not None
        self.requested += zip(test_set.sources, systems[0], test_set.references[0], strict=True)
        values = np.array([float(text.partition(" ")[0]) for text in systems[0]])
        return [Scores(values, float(values.mean()))]


def pools(segments: int, seed: int = 0) -> list[RecordedPool]:
    """Sixteen candidates each, whose reranking scores are close to their quality."""
    rng = np.random.default_rng(seed)
    found = []
    for number in range(segments):
        good = 50 + 15 * rng.normal() + 2 * rng.normal(size=16)
        scores = good + rng.normal(size=16)
        candidates = tuple(Candidate(f"{q:.6f} x", scores={"q": float(s)}) for q, s in zip(good, scores, strict=True))
        found.append(RecordedPool(Segment(str(number), f"s{number}"), candidates))
    return found


def observed(own: Sequence[RecordedPool]) -> list[Observed]:
    return observe(rerank.load("qe:recorded:q"), own)


def judged(rng: np.random.Generator, segments: int, means: Sequence[float], noise: Sequence[float]) -> JudgedRules:
    """Rules with these mean differences and spreads."""
    whole = rng.normal(50, 10, segments)
    apart = np.array([mean + spread * rng.normal(size=segments) for mean, spread in zip(means, noise, strict=True)])
    return JudgedRules("m", "m", whole, (whole + apart,))


def test_a_chain_ends_at_the_first_rule_that_fails() -> None:
    rng = np.random.default_rng(0)
    one = judged(rng, 200, [0, 0, -3, 0], [0.1, 0.1, 0.1, 0.1])
    [found] = quality.tested([one], REQUEST)
    assert found.passed == 2  # the last one is as good as the first, and comes after one that is not
    assert found.needed[1] <= 200 and np.isinf(found.needed[3])
    assert found.differences["m"][2] == pytest.approx(-3 / one.whole.std(), rel=0.05)


def test_every_metric_must_agree() -> None:
    rng = np.random.default_rng(0)
    good, bad = judged(rng, 200, [0, 0], [0.1, 0.1]), judged(rng, 200, [0, -3], [0.1, 0.1])
    assert [one.passed for one in quality.tested([good], REQUEST)] == [2]
    assert [one.passed for one in quality.tested([good, replace(bad, metric="n")], REQUEST)] == [1]


def test_chains_share_the_error() -> None:
    assert replace(REQUEST, rules=("fixed", "headroom")).error == pytest.approx(0.025)
    assert REQUEST.error == pytest.approx(0.05)


def test_the_guarantee_is_kept_where_the_truth_is_known() -> None:
    """Rules get worse one after the other, and from the fourth on they break the guarantee. What only looks good breaks
    it often, so the test could fail."""
    means, noise = [0, -0.2, -0.6, -1.05, -1.1, -1.2], [0.5, 2, 4, 5, 5, 5]
    broken = careless = 0
    for seed in range(150):
        one = judged(np.random.default_rng(seed), 80, means, noise)
        [found] = quality.tested([one], REQUEST)
        broken += found.passed > 3
        careless += bool((found.differences["m"][3:] > -0.1).any())
    assert broken <= 15  # 7.5 are guaranteed; the 99.5th percentile of a binomial
    assert careless > 56


def test_each_translation_is_scored_once() -> None:
    own = pools(6)
    own[0] = replace(own[0], candidates=own[0].candidates[:1] * 16)
    anchor = Candidate("99 best", scores={"q": 1e6}, origin="greedy")
    own[1] = replace(own[1], anchors=(anchor,))
    seen = observed(own)
    found = choose.replayed(seen, replace(REQUEST, rules=("headroom:top=999", "fixed")))
    metric = Counting()
    one = winners(seen, own, found).judged(metric, [[f"r{i}" for i in range(6)]])
    assert len(metric.requested) == len(set(metric.requested))
    assert [text for source, text, _ in metric.requested if source == "s0"] == [own[0].candidates[0].text]
    assert [text for source, text, _ in metric.requested if source == "s1"] == ["99 best"]
    assert all(reference == f"r{source[1:]}" for source, _, reference in metric.requested)
    fixed = one.chosen[1]
    for segment, pool in enumerate(own):
        first = max(pool.candidates[:4], key=lambda c: (c.scores or {})["q"])
        expected = 99 if segment == 1 else float(first.text.partition(" ")[0])
        assert fixed[-1, segment] == pytest.approx(expected)
    assert (fixed[0] == one.whole).all()


def calibrated(segments: int, request: QualityRequest, gap: bool = False) -> profile.Profile:
    own = pools(segments)
    seen = observed(own)
    found = choose.replayed(seen, request)
    one = winners(seen, own, found).judged(Counting(), [["r"] * segments])
    if gap:
        one.chosen[0][-1, 3] = np.nan
    return quality.calibrate(seen, found, [one], request, SOURCE)


def test_the_cheapest_that_is_proven(tmp_path: Path) -> None:
    request = replace(REQUEST, rules=("headroom:top=200,minimum=4", "fixed"))
    found = calibrated(150, request)
    proven = [point for point in found.curve if point.proven]
    assert found.rule == min(proven, key=lambda point: point.mean_size).rule
    chosen = next(point for point in found.curve if point.rule == found.rule)
    assert chosen.mean_size < 16 and abs((chosen.quality or {})["counted"]) < 0.1
    assert str(found.guarantee) == (
        "with 95% confidence, the mean quality is equivalent to the whole pool's within 0.1 sd by counted"
    )
    path = str(tmp_path / "p.json")
    profile.write(found, path)
    assert profile.read(path) == found
    scored = Scored("qe:recorded:q", RerankerTraits("qe", running_best=True), k=4, n=16)
    assert str(plan_choose.choose(scored, plan_choose.Target(), found)) == f"{found.rule}: {found.guarantee}"


def test_better_is_no_failure() -> None:
    """Never worse costs no more than equivalent, and says so."""
    sure, enough = (calibrated(150, replace(REQUEST, not_worse=not_worse)) for not_worse in (False, True))
    sizes = {point.rule: point.mean_size for point in sure.curve}
    assert sizes[enough.rule] <= sizes[sure.rule]
    assert "is not worse than the whole pool's by more than 0.1 sd by counted" in str(enough.guarantee)


def test_segments_without_a_score_are_left_out() -> None:
    assert calibrated(60, REQUEST, gap=True).guarantee.segments == 59


def test_too_few_segments() -> None:
    with pytest.raises(TooSmall, match="49 segments are too few: at least 50 are needed, and 100 to 300 for"):
        calibrated(49, REQUEST)
    with pytest.raises(TooSmall, match=r"60 segments are too few .* fixed:\d+, with \d+ of 16 candidates, would need"):
        calibrated(60, replace(REQUEST, margin=0.01))


def test_one_score_for_all_has_no_margin() -> None:
    own = pools(60)
    seen = observed(own)
    found = choose.replayed(seen, REQUEST)
    one = JudgedRules("m", "m", np.full(60, 3.0), (np.full((len(found[0].specs), 60), 3.0),))
    with pytest.raises(InputError, match="m gives all segments the same score"):
        quality.calibrate(seen, found, [one], REQUEST, SOURCE)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0.02", "equivalent=0.02 has no unit"),
        ("sd", "equivalent must be a number above 0 with its unit"),
        ("-1sd", "equivalent must be a number above 0 with its unit"),
        ("nansd", "equivalent must be a number above 0 with its unit"),
    ],
)
def test_bad_margins(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        quality.margin_in(text, "equivalent")
    assert quality.margin_in("0.02sd", "equivalent") == 0.02


def test_bad_requests() -> None:
    for settings in ({"confidence": 95.0}, {"rules": ("headroom:share=0.1",)}):
        with pytest.raises(UsageError):
            replace(REQUEST, **settings)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def known() -> profile.Profile:
    return calibrated(60, REQUEST)


def test_references_go_by_the_numbers_of_lines() -> None:
    own = [RecordedPool(Segment(name, ""), (Candidate("x"),)) for name in ("3", "1", "2")]
    assert in_order_of(own, ["a", "b", "c"], "f") == ["c", "a", "b"]
    named = [replace(pool, segment=Segment(f"n{pool.segment.id}", "")) for pool in own]
    assert in_order_of(named, ["a", "b", "c"], "f") == ["a", "b", "c"]
    with pytest.raises(InputError, match="f has 2 lines, but there are 3 pools"):
        in_order_of(own, ["a", "b"], "f")


@pytest.mark.parametrize(
    ("where", "name", "value"),
    [
        ("guarantee", "margin", "x"),
        ("guarantee", "not_worse", 1),
        ("guarantee", "confidence", None),
        ("guarantee", "metrics", {"m": "15"}),
        ("guarantee", "metrics", {"m": float("inf")}),
        ("guarantee", "signatures", {"m": 1}),
        ("curve", "quality", {"m": None}),
        ("curve", "segments", 3.5),
    ],
)
def test_damaged_profiles(known: profile.Profile, tmp_path: Path, where: str, name: str, value: object) -> None:
    fields = json.loads(known.to_json())
    part = fields[where]
    (part[0] if isinstance(part, list) else part)[name] = value
    path = tmp_path / "p.json"
    path.write_text(json.dumps(fields))
    with pytest.raises(InputError, match="is not a profile"):
        profile.read(str(path))
