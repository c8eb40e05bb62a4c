"""The rule for a target: by a profile, by what is known of the reranker, or by pacing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from quitmt import stop
from quitmt.calibrate.choose import calibrate
from quitmt.calibrate.profile import Profile
from quitmt.errors import UsageError
from quitmt.plan.choose import Choice, Scored, Target, choose, loss_in, price, unsteered
from quitmt.protocols import RerankerTraits
from quitmt.rerank import specs
from quitmt.stop.fixed import Fixed
from quitmt.stop.headroom import Headroom
from quitmt.stop.learned import Level
from quitmt.stop.loss import Loss
from quitmt.stop.steering import Steered
from tests.calibrate.test_choose import REQUEST, SOURCE, invented

MBR, FASTER = RerankerTraits("mbr", gives_rivals=True), RerankerTraits("mbr")
QE = RerankerTraits("qe", running_best=True)


@pytest.fixture(scope="module")
def known() -> Profile:
    return calibrate(invented(150), REQUEST, SOURCE)


def chosen(
    reranker: str,
    traits: RerankerTraits,
    target: Target,
    profile: Profile | None = None,
    *,
    steer: bool = True,
    **numbers: int,
) -> Choice:
    return choose(Scored(reranker, traits, specs.entry_of(reranker), **numbers), target, profile, steer=steer)


def test_a_profile_gives_other_points_of_its_curve(known: Profile) -> None:
    settings = {"k": 4, "n": 64}
    assert chosen("qe:recorded:q", QE, Target(), known, **settings).rule == stop.load(known.rule, **settings)
    cheap = known.within_cost(20.0)
    assert cheap is not None and cheap.mean_size <= 20
    assert all(point.mean_loss >= cheap.mean_loss for point in known.curve if point.mean_size <= 20)
    assert chosen("qe:recorded:q", QE, Target(max_cost=20.0), known, **settings).rule == stop.load(
        cheap.rule, **settings
    )
    small = known.within_loss(0.1 * known.spread)
    assert small is not None and small.mean_loss <= 0.1 * known.spread
    assert chosen("qe:recorded:q", QE, Target("0.1sd"), known, **settings).rule == stop.load(small.rule, **settings)
    with pytest.raises(UsageError, match="no rule of the profile keeps to 1 candidates per segment"):
        chosen("qe:recorded:q", QE, Target(max_cost=1.0), known, **settings)


def test_auto_without_a_profile() -> None:
    assert chosen("mbr:my:utility", MBR, Target("0.002")).rule == stop.load("loss:most=0.002")
    assert chosen("mbr:my:utility", MBR, Target()).rule == stop.load("loss")
    assert chosen("qe:kiwi", QE, Target()).spec == "headroom:top=auto,reach=16,prior_top=0.899,prior_room=0.0301"
    xl = chosen("qe:kiwi:Unbabel/wmt23-cometkiwi-da-xl", QE, Target()).rule
    assert isinstance(xl, Headroom) and xl.prior == Level(0.81, 0.131)
    for unknown in ("qe:kiwi:my/model", "qe:metricx", "qe:my:reward", "qe:0.5*kiwi+0.5*likelihood", "qe:recorded:q"):
        assert chosen(unknown, QE, Target(), k=1).rule == stop.load("headroom:reach=16")
    assert chosen("mbr:chrf", FASTER, Target(max_cost=99.5)).rule == stop.load("fixed:99")
    assert chosen("mbr:chrf", FASTER, Target(max_cost=1e6), n=64).rule == stop.load("fixed:64", n=64)
    with pytest.raises(UsageError, match="rule='auto' does not know what qe:kiwi loses with k=8 n=512"):
        chosen("qe:kiwi", QE, Target("0.1"))
    with pytest.raises(UsageError, match="rule='auto' does not know what mbr:chrf, which is not exact MBR, loses"):
        chosen("mbr:chrf", FASTER, Target("0.1"))
    with pytest.raises(UsageError, match="how much the scores of this reranker vary is not known"):
        chosen("mbr:my:utility", MBR, Target("0.1sd"))


@pytest.mark.parametrize("reranker", ["mbr:chrf", "qe:likelihood"])
def test_auto_knows_our_own_rerankers(reranker: str) -> None:
    """By figures that come with quitmt: a smaller loss and a larger cost are more careful."""
    traits, kind = (MBR, Loss) if reranker.startswith("mbr") else (QE, Headroom)
    shape = {"k": 4, "n": 256} if kind is Loss else {}
    strict, loose = (chosen(reranker, traits, Target(loss), **shape).rule for loss in ("0.02sd", "0.2sd"))
    assert type(strict) is type(loose) is kind
    assert strict.threshold < loose.threshold  # type: ignore[attr-defined]
    costs = (40, 10) if kind is Loss else (200, 50)
    dear, cheap = (chosen(reranker, traits, Target(max_cost=cost), **shape).rule for cost in costs)
    assert dear.threshold < cheap.threshold  # type: ignore[attr-defined]


@pytest.mark.parametrize("settings", [{"k": 64}, {"n": 64}])
def test_known_curves_hold_for_their_own_steps(settings: Any) -> None:
    """A rule that looks every 64 candidates cannot cost 30 on average, whatever it costs at every 8."""
    requested = Target(max_cost=30)
    assert chosen("mbr:chrf", MBR, requested, steer=False, **settings).rule == stop.load("fixed:30", **settings)
    assert isinstance(chosen("mbr:chrf", MBR, requested, **settings).rule, Fixed if "k" in settings else Steered)
    with pytest.raises(UsageError, match="does not know what qe:likelihood loses with k="):
        chosen("qe:likelihood", QE, Target("0.1"), **settings)


@pytest.mark.parametrize("text", ["0", "-1", "x", "sd", "nan", "1e999"])
def test_bad_losses(text: str) -> None:
    with pytest.raises(UsageError, match="max_loss must be a number above 0"):
        loss_in(text, 1.0)


def test_a_cost_without_a_curve_is_paced() -> None:
    """The rule for the reranker, where there is one and room for it; else a fixed number."""

    def rule_of(reranker: str, traits: RerankerTraits, cost: float | str) -> Any:
        return chosen(reranker, traits, Target(max_cost=cost)).rule

    assert rule_of("mbr:my:utility", MBR, 64) == Steered(stop.load_threshold("loss", k=8, n=512), 64)
    kiwi = "headroom:reach=16,prior_top=0.899,prior_room=0.0301"
    room = stop.load_threshold(kiwi, k=8, n=512)
    assert rule_of("qe:kiwi", QE, 64) == Steered(room, 64)
    assert rule_of("qe:kiwi", QE, "3000tokens") == Steered(room, 3000, tokens=True)
    assert rule_of("qe:my:reward", QE, 99.5).rule.learns
    plain = rule_of("mbr:my:utility", replace(MBR, judges_itself=True), 24)
    assert "new:0.1" in plain.signature and plain.rule.minimum == 8
    assert rule_of("qe:my:reward", QE, 15) == stop.load("fixed:15")
    assert rule_of("qe:my:reward", QE, 600) == stop.load("fixed:512")
    with pytest.raises(UsageError, match="a price in tokens is for runs over many segments, by exact mbr: or qe:"):
        rule_of("mbr:chrf", FASTER, "3000tokens")


def test_prices() -> None:
    assert [price(cost) for cost in (60, "60", "3e3tokens", " 5 tokens ")] == [
        (60, False), (60, False), (3000, True), (5, True)
    ]  # fmt: skip
    for bad in ("tokens", "60 candidates", "x", ""):
        with pytest.raises(UsageError, match="must be a number of candidates, as 60, or of tokens, as 3000tokens"):
            price(bad)
    for none in ("0tokens", "nan", "-1", "inf"):
        with pytest.raises(UsageError, match="must be at least 1"):
            price(none)


def test_a_profile_counts_candidates(known: Profile) -> None:
    with pytest.raises(UsageError, match="the curve of a profile is in candidates"):
        chosen("qe:recorded:q", QE, Target(max_cost="3000tokens"), known, k=4, n=64)


def test_a_top_is_not_learned_without_an_order(caplog: pytest.LogCaptureFixture) -> None:
    known = unsteered(chosen("qe:kiwi", QE, Target(), k=1).rule)
    assert isinstance(known, Headroom) and (known.top, known.share) == (0.899, pytest.approx(0.0301 / 12))
    assert not caplog.text
    assert unsteered(chosen("qe:my:reward", QE, Target(), k=1).rule) == stop.load("fixed:12", k=1)
    assert "can't be learned without an order of segments: every segment gets 12 candidates" in caplog.text


def test_requests_are_not_paced(caplog: pytest.LogCaptureFixture) -> None:
    rule = chosen("qe:kiwi", QE, Target(max_cost=64)).rule
    assert unsteered(rule) == stop.load("fixed:64")
    assert "requests are not paced" in caplog.text
    assert unsteered(stop.load("quit")) == stop.load("quit")
    with pytest.raises(UsageError):
        unsteered(chosen("qe:kiwi", QE, Target(max_cost="64tokens")).rule)


def test_wishes_exclude_each_other() -> None:
    with pytest.raises(UsageError, match="two different targets"):
        Target("0.1", 5.0)
    with pytest.raises(UsageError, match="max_cost must be at least 1 candidate"):
        Target(max_cost=0.5)
