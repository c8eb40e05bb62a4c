"""The pure engine: nested pools, committed in order whatever arrives when."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quitmt import rerank, stop
from quitmt.engine.engine import Engine
from quitmt.errors import GenerationError, InputError
from quitmt.protocols import Reranker, RerankerTraits
from quitmt.types import Candidate, Draw, Finished, Segment, StopReason

SEGMENT = Segment("s", "source")


def length_qe() -> Reranker:
    return rerank.qe(lambda source, text: len(text), name="length")


def crank(engine: Engine, reranker: Reranker) -> list[Finished]:
    """Rerank until there is nothing left to rerank."""
    while updates := engine.updates():
        engine.settle(updates, reranker.extend(updates))
    return engine.finished()


def play(
    texts: list[str], spec: str, shuffle: random.Random | None = None, speculate: bool = False, **settings: float
) -> Finished:
    """Run one segment over a pool; with ``shuffle``, candidates arrive one by one in random order."""
    reranker = length_qe()
    engine = Engine(reranker, stop.load(spec, **settings), speculate=speculate)
    engine.admit(SEGMENT)
    for _ in range(1000):
        for request in engine.requests():
            indices = list(range(request.start, min(request.stop, len(texts))))
            draws = [Draw(SEGMENT, i, (Candidate(texts[i]),)) for i in indices]
            if shuffle:
                shuffle.shuffle(draws)
                draws += shuffle.sample(draws, len(draws) // 2)  # some arrive twice
            draws.append(Draw(SEGMENT, min(request.stop, len(texts)), (), ended=request.stop >= len(texts)))
            for draw in draws:
                engine.feed(draw)
                if finished := crank(engine, reranker):
                    return finished[0]
    raise AssertionError("the engine never finished")


lengths = st.lists(st.integers(0, 6), min_size=1, max_size=60)


@settings(max_examples=60)
@given(lengths, st.integers(1, 9), st.integers(2, 5), st.integers(1, 60), st.integers(0, 999))
def test_arrival_order_does_not_matter(sizes: list[int], k: int, w: int, n: int, seed: int) -> None:
    texts = ["x" * size for size in sizes]
    in_order = play(texts, "quit", k=k, w=w, alpha=0.5, n=n)
    assert play(texts, "quit", random.Random(seed), k=k, w=w, alpha=0.5, n=n) == in_order


@settings(max_examples=60)
@given(lengths, st.integers(1, 9), st.integers(2, 5), st.integers(1, 60), st.integers(0, 999))
def test_speculation_changes_no_outcome(sizes: list[int], k: int, w: int, n: int, seed: int) -> None:
    texts = ["x" * size for size in sizes]
    in_order = play(texts, "quit", k=k, w=w, alpha=0.5, n=n)
    assert play(texts, "quit", random.Random(seed), speculate=True, k=k, w=w, alpha=0.5, n=n) == in_order


def test_speculation_asks_before_the_stop_reason_and_counts_what_was_for_nothing() -> None:
    reranker = length_qe()
    engine = Engine(reranker, stop.load("quit", k=2, w=2, n=12), speculate=True)
    engine.admit(SEGMENT)
    engine.requests()
    engine.feed(Draw(SEGMENT, 0, (Candidate("a"),) * 4))
    updates = engine.updates()
    assert [(request.start, request.stop) for request in engine.requests()] == [(4, 8)]
    engine.feed(Draw(SEGMENT, 4, (Candidate("b", tokens=5), Candidate("c", tokens=7))))
    engine.settle(updates, reranker.extend(updates))
    [finished] = engine.finished()
    assert (finished.outcome.size, finished.outcome.stop) == (4, StopReason.STABLE)
    engine.feed(Draw(SEGMENT, 6, (Candidate("d", tokens=1),)))
    assert (engine.wasted.candidates, engine.wasted.tokens) == (3, 13)
    assert engine.requests() == []


def test_speculation_reranks_nothing_beyond_a_stop_reason() -> None:
    reranker = length_qe()
    engine = Engine(reranker, stop.load("quit", k=2, w=2, alpha=0, n=12), speculate=True)
    engine.admit(SEGMENT)
    for start in (0, 4):
        engine.requests()
        engine.feed(Draw(SEGMENT, start, (Candidate("a" * start),) * 3 + (Candidate("b" * (start + 1)),)))
    [update] = engine.updates()
    assert len(update.candidates) == 4
    engine.settle([update], reranker.extend([update]))
    [update] = engine.updates()
    assert len(update.candidates) == 4


def test_nothing_is_wasted_without_speculation() -> None:
    reranker = length_qe()
    engine = Engine(reranker, stop.load("quit", k=2, w=2, n=12))
    engine.admit(SEGMENT)
    while requests := engine.requests():
        for request in requests:
            engine.feed(Draw(SEGMENT, request.start, (Candidate("a", tokens=1),) * (request.stop - request.start)))
        crank(engine, reranker)
    assert (engine.active, engine.wasted.candidates) == (0, 0)


@given(lengths, st.integers(1, 9), st.integers(2, 5), st.integers(1, 60))
def test_trajectory_is_the_best_score_after_each_step(sizes: list[int], k: int, w: int, n: int) -> None:
    outcome = play(["x" * size for size in sizes], "quit", k=k, w=w, alpha=0.5, n=n).outcome
    steps = [*range(k, outcome.size, k), outcome.size]
    assert outcome.trajectory == tuple(max(sizes[:step]) for step in steps)
    assert outcome.index == sizes.index(max(sizes[: outcome.size]))
    assert outcome.score == max(sizes[: outcome.size])


def test_asks_reach_to_the_end_of_the_window_and_come_once() -> None:
    engine = Engine(length_qe(), stop.load("quit", k=8, w=4, n=80))
    engine.admit(SEGMENT)
    [request] = engine.requests()
    assert (request.start, request.stop) == (0, 32)
    assert engine.requests() == []


def test_a_recorded_pool_that_ends() -> None:
    finished = play(["a", "bb", "c"], "quit", k=2, w=4, n=100)
    assert (finished.outcome.stop, finished.outcome.size) == (StopReason.EXHAUSTED, 3)
    assert finished.outcome.trajectory == (2, 2)


def test_a_pool_as_long_as_the_budget_is_a_budget_not_exhausted() -> None:
    assert play(["a", "bb", "c", "dddd"], "full", k=2, n=4).outcome.stop is StopReason.BUDGET


def test_a_failure_keeps_what_was_known() -> None:
    reranker = length_qe()
    engine = Engine(reranker, stop.load("quit", k=2, w=2, n=8))
    engine.admit(SEGMENT)
    engine.requests()
    engine.feed(Draw(SEGMENT, 0, (Candidate("a"), Candidate("bb")), seconds=1.5))
    assert crank(engine, reranker) == []
    engine.feed(Draw(SEGMENT, 2, (), error=GenerationError("the server is on fire")))
    [finished] = engine.finished()
    assert (finished.outcome.stop, finished.outcome.translation) == (StopReason.FAILED, "bb")
    assert finished.outcome.error == "the server is on fire"
    assert finished.outcome.seconds.generate == 1.5
    assert engine.active == 0


def test_a_failure_during_reranking_is_not_undone_by_its_result() -> None:
    reranker = length_qe()
    engine = Engine(reranker, stop.load("full", k=2, n=4))
    engine.admit(SEGMENT)
    engine.requests()
    engine.feed(Draw(SEGMENT, 0, (Candidate("a"), Candidate("bb"))))
    updates = engine.updates()
    engine.feed(Draw(SEGMENT, 2, (), error=GenerationError("gone")))
    engine.settle(updates, reranker.extend(updates))
    assert [one.outcome.stop for one in engine.finished()] == [StopReason.FAILED]


def test_late_candidates_of_a_stopped_segment_are_ignored() -> None:
    reranker = length_qe()
    engine = Engine(reranker, stop.load("fixed:2", k=2))
    engine.admit(SEGMENT)
    engine.requests()
    engine.feed(Draw(SEGMENT, 0, (Candidate("a"), Candidate("bb"))))
    assert len(crank(engine, reranker)) == 1
    engine.feed(Draw(SEGMENT, 2, (Candidate("ccc"),)))
    assert engine.updates() == [] and engine.finished() == []


def test_whole_steps_are_reranked_before_the_window_is_complete() -> None:
    engine = Engine(length_qe(), stop.load("quit", k=2, w=4, n=8))
    engine.admit(SEGMENT)
    engine.requests()
    engine.feed(Draw(SEGMENT, 0, (Candidate("a"), Candidate("b"), Candidate("c"))))
    [update] = engine.updates()
    assert len(update.candidates) == 2  # the third waits for its step


def test_rerank_seconds_are_shared_by_candidates(make_pool: Callable[[int, int], list[str]]) -> None:
    reranker = length_qe()
    engine = Engine(reranker, stop.load("full", k=2, n=512))
    for name, size in (("a", 6), ("b", 2)):
        engine.admit(Segment(name))
        engine.requests()
        engine.feed(Draw(Segment(name), 0, tuple(map(Candidate, make_pool(0, size))), ended=True))
    updates = engine.updates()
    engine.settle(updates, reranker.extend(updates), seconds=4.0)
    assert {one.segment.id: one.outcome.seconds.rerank for one in engine.finished()} == {"a": 3.0, "b": 1.0}


def test_two_segments_of_one_id_are_refused() -> None:
    engine = Engine(length_qe(), stop.load("full"))
    engine.admit(SEGMENT)
    with pytest.raises(InputError, match="two segments have the id 's'"):
        engine.admit(SEGMENT)


def test_the_end_may_be_known_before_all_have_arrived() -> None:
    reranker = length_qe()
    engine = Engine(reranker, stop.load("full", k=2, n=8))
    engine.admit(SEGMENT)
    engine.requests()
    engine.feed(Draw(SEGMENT, 2, (Candidate("ccc"),), ended=True))
    assert crank(engine, reranker) == []
    engine.feed(Draw(SEGMENT, 0, (Candidate("a"), Candidate("bb"))))
    [finished] = crank(engine, reranker)
    assert (finished.outcome.size, finished.outcome.translation) == (3, "ccc")


def fed(engine: Engine, texts: list[str]) -> None:
    for request in engine.requests():
        engine.feed(
            Draw(request.segment, request.start, tuple(Candidate(text) for text in texts[request.start : request.stop]))
        )


def test_a_rule_that_cannot_stop_early_costs_one_snapshot_of_a_dear_reranker() -> None:
    texts = [f"text {number % 7}" for number in range(32)]
    for spec, strides in (("full", {32}), ("quit", {8})):
        engine = Engine(rerank.load("mbr:chrf", variant="prune"), stop.load(spec, k=8, w=2, n=32))
        engine.admit(SEGMENT)
        fed(engine, texts)
        assert {update.stride for update in engine.updates()} == strides


def test_updates_may_be_taken_few_at_a_time() -> None:
    reranker = length_qe()
    engine = Engine(reranker, stop.load("full", k=2, n=4))
    for name in "abc":
        engine.admit(Segment(name, "x"))
    fed(engine, ["1", "22", "333", "4444"])
    sizes = []
    while updates := engine.updates(2):
        sizes.append(len(updates))
        engine.settle(updates, reranker.extend(updates))
    assert sizes == [2, 1] and [one.outcome.index for one in engine.finished()] == [3, 3, 3]


def test_a_segment_without_the_source_that_its_reranker_needs() -> None:
    reranker = length_qe()
    reranker.traits = RerankerTraits(needs_source=True)  # type: ignore[attr-defined]
    engine = Engine(reranker, stop.load("full", n=4))
    engine.admit(Segment("s", ""))
    (finished,) = engine.finished()
    assert finished.outcome.error == "segment s has no source, which qe:function:length needs"
    assert engine.requests() == []
