"""The simulated server: nothing lost or made twice, cases that can be done by hand, and the outcomes of a live run."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from quitmt import rerank
from quitmt.engine.driver import Driver, in_order
from quitmt.generate.recorded import RecordedGenerator
from quitmt.stop.fixed import Fixed
from quitmt.stop.window import Quit
from quitmt.types import Candidate, RecordedPool, Segment, Snapshot

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
from simulation import fleet
from simulation.loop import RerankCost, Result, simulate
from simulation.replay import Recording, StepAtATime, match_alpha, record, stopping_sizes
from simulation.server import PUBLISHED_STEPS, SERVERS, Server, fit, parse_server
from simulation.study import SCHEDULINGS, SPECULATIVE, WINDOW, Case, Study

MakePool = Callable[[int, int], list[str]]
BUDGET, STEP = 64, 4
SERVER = Server(base=1.0, per_token=0.1, per_kv_token=0.001, max_sequences=40, kv_tokens=100_000)
FAST = Server(base=1.0, per_token=0.001, per_kv_token=0.0, max_sequences=40, kv_tokens=100_000)
"""More sequences cost it next to nothing."""
COST = RerankCost(fixed=0.5, per_candidate=0.01, per_pair=0.001)


@pytest.fixture(scope="module")
def recording() -> Recording:
    rng = np.random.default_rng(1)
    words = "um dois três quatro cinco seis sete oito".split()
    pools = [
        RecordedPool(
            Segment(str(number), "source text " * (number + 1)),
            tuple(Candidate(" ".join(rng.choice(words[: 3 + number], rng.integers(1, 9)))) for _ in range(BUDGET)),
        )
        for number in range(5)
    ]
    return record(pools, rerank.load("mbr:chrf"), STEP, BUDGET)


def by_hand(lengths: list[list[int]]) -> Recording:
    """Pools whose candidates have these tokens; the scores never move."""
    pools = [RecordedPool(Segment(str(i)), (Candidate("x"),) * len(tokens)) for i, tokens in enumerate(lengths)]
    snapshots = [[Snapshot(size, 0, 0.5) for size in range(1, len(tokens) + 1)] for tokens in lengths]
    return Recording(pools, np.array(lengths), snapshots, 1)


def quit_rule(scheduling: str, window: int = 4, alpha: float = 0.02) -> StepAtATime | Quit:
    rule = Quit(STEP, window, alpha, BUDGET)
    return StepAtATime(rule) if scheduling == SCHEDULINGS[0] else rule


def run(
    recording: Recording,
    scheduling: str,
    *,
    segments: int = 40,
    in_flight: int = 6,
    server: Server = SERVER,
    **options: object,
) -> Result:
    speculate, rule = scheduling == SPECULATIVE, quit_rule(scheduling)
    pools = [number % len(recording.pools) for number in range(segments)]
    return simulate(pools, recording, rule, server, COST, in_flight=in_flight, speculate=speculate, **options)


def test_one_sequence_by_hand() -> None:
    server = Server(1.0, 0.1, 0.01, max_sequences=8, kv_tokens=1000, template_tokens=5)
    result = simulate([0], by_hand([[3]]), Fixed(1, 1), server, RerankCost(fixed=2.0), in_flight=1)
    # Three steps; 1 + 5 tokens computed in the first, then 1; 5, 6 and 7 tokens held. Then the reranking.
    assert result.seconds == pytest.approx((1 + 0.6 + 0.05) + (1 + 0.1 + 0.06) + (1 + 0.1 + 0.07) + 2)
    assert (result.tokens, result.sizes) == (3, [1])


def test_two_sequences_by_hand() -> None:
    server = Server(1.0, 0.1, 0.01, max_sequences=8, kv_tokens=1000, template_tokens=5, prefix_block=4)
    result = simulate([0], by_hand([[1, 2]]), Fixed(2, 2), server, RerankCost(), in_flight=1)
    # The second sequence computes the last block only, 1 token of 5; the first one leaves after a step.
    assert result.seconds == pytest.approx((1 + 0.1 * (2 + 5 + 1) + 0.01 * 10) + (1 + 0.1 + 0.01 * 6))


def test_beyond_the_knee_and_one_slot() -> None:
    server = Server(1.0, 0.1, 0.0, max_sequences=1, kv_tokens=9, template_tokens=1, knee=1, per_token_beyond=1.0)
    result = simulate([0], by_hand([[1, 1]]), Fixed(2, 2), server, RerankCost(), in_flight=1)
    assert result.seconds == pytest.approx(2 * (1 + 0.2 + 1))  # one after the other, each with a prompt token


def test_the_kv_cache_limits_who_runs() -> None:
    lengths = by_hand([[10] * 8])
    free, tight = (Server(1.0, 0.0, 0.0, max_sequences=8, kv_tokens=n, template_tokens=10) for n in (160, 80))
    seconds = [simulate([0], lengths, Fixed(8, 8), s, RerankCost(), in_flight=1).seconds for s in (free, tight)]
    assert seconds == [10, 20]


@pytest.mark.parametrize("replicas", [1, 3])
@pytest.mark.parametrize("scheduling", SCHEDULINGS)
def test_every_candidate_asked_for_is_generated_once_or_aborted(
    recording: Recording, scheduling: str, replicas: int
) -> None:
    result = run(recording, scheduling, replicas=replicas)
    assert result.requested == result.arrived + result.aborted
    assert len(result.latencies) == len(result.sizes) == 40
    if scheduling == SPECULATIVE:
        assert result.requested > sum(result.sizes) and 0 < result.wasted_share < 1
    else:
        assert (result.requested, result.aborted) == (sum(result.sizes), 0)
        assert result.tokens == result.used_tokens and result.wasted_share == 0


@pytest.mark.parametrize("oldest_first", [False, True])
@pytest.mark.parametrize("in_flight", [1, 5, 100])
@pytest.mark.parametrize("scheduling", SCHEDULINGS)
def test_outcomes_are_those_of_a_live_run(
    recording: Recording, scheduling: str, in_flight: int, oldest_first: bool
) -> None:
    async def live() -> list[int]:
        driver = Driver(RecordedGenerator(recording.pools), rerank.load("mbr:chrf"), quit_rule(WINDOW))
        segments = [pool.segment for pool in recording.pools]
        return [one.outcome.size async for one in in_order(driver.run(segments))]

    expected = asyncio.run(live())
    assert len(set(expected)) > 1
    assert run(recording, scheduling, segments=5, in_flight=in_flight, oldest_first=oldest_first).sizes == expected
    assert stopping_sizes(recording.scores, STEP, 4, 0.02).tolist() == expected


def test_more_in_flight_is_never_slower(recording: Recording) -> None:
    rates = [run(recording, WINDOW, segments=60, in_flight=count).rate for count in (1, 2, 4, 8)]
    assert rates == sorted(rates)


def test_more_replicas_are_faster_and_use_the_same_candidates(recording: Recording) -> None:
    one, four = (run(recording, WINDOW, in_flight=20, replicas=count) for count in (1, 4))
    assert four.seconds < one.seconds and four.sizes == one.sizes and four.tokens == one.tokens


def test_a_window_at_once_beats_k_at_a_time_when_the_server_is_empty(recording: Recording) -> None:
    k, window, speculative = (run(recording, scheduling, in_flight=1, server=FAST).rate for scheduling in SCHEDULINGS)
    assert k < window < speculative


def test_a_run_is_reproducible(recording: Recording) -> None:
    assert run(recording, SPECULATIVE, replicas=2) == run(recording, SPECULATIVE, replicas=2)


def test_the_fit_is_close_to_the_published_steps() -> None:
    _, largest = fit()
    assert largest < 0.03
    held, steps = PUBLISHED_STEPS["chat-128-128"]
    assert SERVERS["h100"].step_seconds(64, 64 * held) == pytest.approx(steps[64] / 1000, rel=0.03)


def test_server_settings_can_be_changed() -> None:
    assert parse_server("h100,max_sequences=256").max_sequences == 256
    assert parse_server("cpu,base=0.2").base == 0.2
    with pytest.raises(SystemExit, match="no speed"):
        parse_server("h100,speed=9")
    with pytest.raises(SystemExit, match="must be one of"):
        parse_server("tpu")


def test_alpha_is_found_for_a_mean_size(recording: Recording) -> None:
    wanted = stopping_sizes(recording.scores, STEP, 4, 0.02).mean()
    alpha = match_alpha(recording.scores, STEP, 4, wanted)
    assert stopping_sizes(recording.scores, STEP, 4, alpha).mean() == wanted


def test_the_study_runs_each_setting_once(recording: Recording, capsys: pytest.CaptureFixture[str]) -> None:
    study = Study(SERVER, rounds=2, least=10, seed=0)
    case = Case("MBR", recording, COST, STEP, 4, 0.02, BUDGET)
    assert study.run(case, WINDOW, 3) is study.run(case, WINDOW, 3)
    full = Case("MBR", recording, COST, STEP, 4, None, BUDGET)
    assert set(study.run(full, SPECULATIVE, 3).sizes) == {BUDGET}
    assert capsys.readouterr().err.count("in flight") == 2


def test_a_batch_keeps_its_place_until_its_last_segment_is_done() -> None:
    recording = by_hand([[1], [10], [1], [10]])

    def seconds(**more: int) -> float:
        return simulate([0, 1, 2, 3], recording, Fixed(1, 1), FAST, RerankCost(), in_flight=2, **more).seconds

    assert seconds(batch=2) > 1.3 * seconds(), "a short one's place stays empty beside a long one"
    assert seconds(batch=1) == seconds()


def test_a_corpus_takes_what_its_workers_take() -> None:
    recording = by_hand([[4], [6]])
    worker = fleet.measure(recording, Fixed(1, 1), FAST, RerankCost(), batch=2, under_way=1, least=20)
    assert worker.mean_size == 1 and round(worker.rate, 2) == 0.33, "two in six steps of a second"
    assert worker.hours(3600, 1) == 2 * worker.hours(3600, 2) - worker.ends / 3600
