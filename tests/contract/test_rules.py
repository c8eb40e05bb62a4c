"""What every stopping rule must do: never stop where its horizon says it cannot, never go beyond its budget."""

from __future__ import annotations

import random

import pytest

from quitmt import stop
from quitmt.types import Standing, Verdict


@pytest.mark.parametrize("spec", ["quit", "full", "fixed:24", "race", "headroom"])
@pytest.mark.parametrize(("k", "w", "n"), [(8, 2, 64), (5, 3, 48), (7, 4, 30)])
def test_a_rule_keeps_to_its_horizon(spec: str, k: int, w: int, n: int) -> None:
    rule = stop.load(spec, k=k, w=w, n=n, alpha=0.2)
    for seed in range(50):
        rng, watch, size, verdict = random.Random(seed), rule.open(), 0, None
        while verdict is None:
            horizon = watch.horizon(size)
            assert size < horizon <= rule.budget
            while size < horizon:
                size = min(size + rule.step, rule.budget)
                verdict = watch.observe(Standing(size, 0, rng.random()))
                assert verdict is None or size == horizon
        assert verdict in (Verdict.STABLE, Verdict.DECIDED) or size == rule.budget


@pytest.mark.parametrize("spec", ["quit", "full", "fixed:24", "race", "headroom"])
def test_segments_do_not_share_a_watch(spec: str) -> None:
    rule = stop.load(spec, k=8, w=2, n=64, alpha=0.5)
    first, second = rule.open(), rule.open()
    first.observe(Standing(8, 0, 0.0))
    assert second.observe(Standing(8, 0, 1.0)) is None
    alone = rule.open()
    alone.observe(Standing(8, 0, 1.0))
    assert second.observe(Standing(16, 0, 1.0)) == alone.observe(Standing(16, 0, 1.0))


@pytest.mark.parametrize("spec", ["quit", "full", "fixed:24", "race", "headroom"])
def test_the_signature_names_every_setting(spec: str) -> None:
    signatures = {stop.load(spec, k=k, n=n).signature for k in (4, 8) for n in (64, 512)}
    assert len(signatures) == (2 if spec == "fixed:24" else 4)
