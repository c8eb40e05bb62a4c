"""Segments whose time is up: there is always the best so far, and it takes nothing from the others. No clock here."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quitmt import rerank, stop
from quitmt.engine.engine import Engine
from quitmt.engine.slots import AT_ONCE
from quitmt.errors import GenerationError
from quitmt.protocols import Reranker, RerankerTraits, Update
from quitmt.types import Candidate, Draw, Finished, Request, Segment, StopReason

SEGMENT = Segment("s", "source")


def length_qe() -> Reranker:
    return rerank.qe(lambda source, text: len(text), name="length")


def begun(rule: str = "full", **settings: float) -> tuple[Engine, Reranker, Request]:
    """An engine with one segment that has been asked for."""
    reranker = length_qe()
    engine = Engine(reranker, stop.load(rule, **{"k": 4, "w": 2, "n": 512, **settings}), anytime=True)
    engine.admit(SEGMENT)
    [request] = engine.requests()
    return engine, reranker, request


def arrive(engine: Engine, start: int, texts: Sequence[str]) -> None:
    engine.feed(Draw(SEGMENT, start, tuple(Candidate(text, tokens=1) for text in texts)))


def reranked(engine: Engine, reranker: Reranker) -> list[Finished]:
    updates = engine.updates()
    engine.settle(updates, reranker.extend(updates))
    return engine.finished()


def test_with_a_snapshot_it_is_finished_at_once() -> None:
    engine, reranker, _ = begun()
    arrive(engine, 0, ["a", "bbb", "cc", "d"])
    assert reranked(engine, reranker) == []
    arrive(engine, 4, ["eeeee", "ffffff", "g", "h", "i"])  # a step that waits, and a candidate without its step
    assert engine.expire("s")
    [finished] = engine.finished()
    assert (finished.outcome.stop, finished.outcome.translation) == (StopReason.DEADLINE, "bbb")
    assert (finished.outcome.size, finished.outcome.trajectory, len(finished.candidates)) == (4, (3.0,), 4)
    assert not engine.has_updates and engine.active == 0 and engine.requests() == []
    assert engine.wasted.candidates == 5
    arrive(engine, 9, ["too late"])
    assert engine.wasted.candidates == 6


def test_while_it_is_reranked_it_waits_for_that() -> None:
    engine, reranker, _ = begun()
    arrive(engine, 0, ["a", "bbb", "cc", "d"])
    updates = engine.updates()
    assert engine.expire("s") and engine.finished() == []
    arrive(engine, 4, ["eeeee"] * 4)
    engine.settle(updates, reranker.extend(updates))
    [finished] = engine.finished()
    assert (finished.outcome.stop, finished.outcome.translation, finished.outcome.size) == ("deadline", "bbb", 4)
    assert engine.wasted.candidates == 4 and engine.requests() == []


def test_without_a_snapshot_what_is_there_is_reranked_even_if_it_is_less_than_a_step() -> None:
    engine, reranker, _ = begun()
    arrive(engine, 0, ["a", "bbb", "cc"])
    assert not engine.has_updates
    assert engine.expire("s") and engine.finished() == []
    arrive(engine, 3, ["not wanted any more"])
    [finished] = reranked(engine, reranker)
    assert (finished.outcome.stop, finished.outcome.translation) == (StopReason.DEADLINE, "bbb")
    assert (finished.outcome.size, finished.outcome.trajectory) == (3, (3.0,))
    assert engine.wasted.candidates == 1


def test_with_nothing_at_all_the_first_that_arrive_will_do() -> None:
    engine, reranker, request = begun()
    assert not engine.expire("s") and engine.finished() == [] and not engine.served(request)
    arrive(engine, 1, ["out of order"])  # the pool has no gaps, not even now
    assert not engine.has_updates
    arrive(engine, 0, ["a"])
    assert engine.served(request)
    [finished] = reranked(engine, reranker)
    assert (finished.outcome.stop, finished.outcome.translation) == (StopReason.DEADLINE, "out of order")
    assert finished.outcome.size == 2


def test_a_segment_that_was_not_asked_for_yet_is_asked_for_a_step() -> None:
    reranker = length_qe()
    engine = Engine(reranker, stop.load("full", k=4), anytime=True)
    engine.admit(SEGMENT)
    assert not engine.expire("s")
    [request] = engine.requests()
    assert (request.start, request.stop) == (0, 4)
    arrive(engine, 0, ["a", "bb"])
    [finished] = reranked(engine, reranker)
    assert (finished.outcome.stop, finished.outcome.translation) == (StopReason.DEADLINE, "bb")


def test_a_failure_counts_only_where_there_is_nothing_to_return() -> None:
    error = GenerationError("the server is on fire")
    engine, reranker, _ = begun()
    engine.expire("s")
    engine.feed(Draw(SEGMENT, 0, (), error=error))
    assert [one.outcome.stop for one in engine.finished()] == [StopReason.FAILED]
    engine, reranker, request = begun()
    arrive(engine, 0, ["a"])
    engine.expire("s")
    assert engine.served(request)
    engine.feed(Draw(SEGMENT, 1, (), error=error))
    assert [one.outcome.stop for one in reranked(engine, reranker)] == [StopReason.DEADLINE]


def test_a_stop_reason_of_the_rule_is_not_a_deadline() -> None:
    engine, reranker, _ = begun("quit", n=64)
    arrive(engine, 0, ["a"] * 8)
    updates = engine.updates()
    engine.expire("s")
    engine.settle(updates, reranker.extend(updates))
    assert [one.outcome.stop for one in engine.finished()] == [StopReason.STABLE]


def test_a_rule_does_not_see_a_part_of_a_step() -> None:
    engine, reranker, _ = begun("quit", n=64)
    arrive(engine, 0, ["a"] * 7)  # with the eighth, two equal steps would be stable
    engine.expire("s")
    [finished] = reranked(engine, reranker)
    assert (finished.outcome.stop, finished.outcome.trajectory) == (StopReason.DEADLINE, (1.0, 1.0))


def test_a_recorded_pool_that_was_used_whole_is_exhausted() -> None:
    engine, reranker, _ = begun()
    engine.feed(Draw(SEGMENT, 0, (Candidate("a"), Candidate("bb")), ended=True))
    engine.expire("s")
    assert [one.outcome.stop for one in reranked(engine, reranker)] == [StopReason.EXHAUSTED]


def test_expiring_twice_or_too_late_is_nothing() -> None:
    engine, reranker, _ = begun()
    arrive(engine, 0, ["a"])
    engine.expire("s")
    engine.expire("s")
    assert len(reranked(engine, reranker)) == 1
    assert engine.expire("s") and engine.expire("who?") and engine.finished() == []


def test_those_whose_time_is_up_are_reranked_first() -> None:
    engine = Engine(length_qe(), stop.load("full", k=2, n=8), anytime=True)
    for name in "abc":
        engine.admit(Segment(name, "x"))
    for request in engine.requests():
        engine.feed(Draw(request.segment, 0, (Candidate(request.segment.id),) * 2))
    engine.expire("c")
    [update] = engine.updates(1)
    assert update.candidates[0].text == "c"


@pytest.mark.parametrize(("rule", "k"), [("full", 8), ("fixed:300", 5), ("quit", 8), ("full", 100), ("full", 1)])
def test_little_is_asked_for_and_reranked_at_a_time(rule: str, k: int) -> None:
    reranker = length_qe()
    engine = Engine(reranker, stop.load(rule, k=k, w=64, n=512), anytime=True)
    engine.admit(SEGMENT)
    requested = 0
    while engine.active:
        for request in engine.requests():
            assert request.start == requested and request.stop - request.start <= AT_ONCE
            requested = request.stop
            arrive(engine, request.start, ["a" * index for index in range(request.start, request.stop)])
        updates = engine.updates()
        assert all(len(update.candidates) <= max(k, AT_ONCE) for update in updates)
        engine.settle(updates, reranker.extend(updates))
    assert engine.wasted.candidates == 0


def test_the_next_candidates_are_asked_for_while_the_last_ones_are_reranked() -> None:
    engine, _, request = begun()
    arrive(engine, 0, ["a"] * request.stop)
    engine.updates()
    assert [(request.start, request.stop) for request in engine.requests()] == [(AT_ONCE, 2 * AT_ONCE)]


class Dear:
    """A reranker that pays for each snapshot."""

    signature = "dear"
    traits = RerankerTraits(snapshots_cost=True)

    def __init__(self) -> None:
        self.inner, self.sizes = length_qe(), list[int]()

    def open(self, segment: Segment) -> object:
        return self.inner.open(segment)

    def extend(self, updates: Sequence[Update]) -> Sequence[object]:
        found = self.inner.extend(updates)
        self.sizes += [snapshot.size for snapshots in found for snapshot in snapshots]  # type: ignore[union-attr]
        return found


def test_a_dear_reranker_gives_no_snapshot_before_the_budget_unless_time_is_up() -> None:
    for expire, sizes in ((False, [128]), (True, [64])):
        dear = Dear()
        engine = Engine(dear, stop.load("full", n=128), anytime=True)  # type: ignore[arg-type]
        engine.admit(SEGMENT)
        while requests := engine.requests():
            arrive(engine, requests[0].start, ["a"] * (requests[0].stop - requests[0].start))
            assert engine.has_updates is (requests[0].stop == 128)
            if expire and requests[0].stop == 64:
                engine.expire("s")
        [finished] = reranked(engine, dear)  # type: ignore[arg-type]
        assert dear.sizes == sizes and finished.outcome.size == sizes[0]
        assert finished.outcome.stop is (StopReason.DEADLINE if expire else StopReason.BUDGET)


def scramble(
    pools: dict[str, list[str]],
    rule: str,
    rng: random.Random,
    expiring: float,
    anytime: bool = True,
    speculate: bool = False,
    **settings: float,
) -> tuple[dict[str, Finished], set[str], int, Engine]:
    """Play segments with everything that can happen next in random order; some expire at any moment.

    What finished, what was told to expire before it had, how many candidates arrived in all, and the engine.
    """
    reranker = length_qe()
    engine = Engine(reranker, stop.load(rule, **settings), anytime=anytime, speculate=speculate)
    for name in pools:
        engine.admit(Segment(name, "x"))
    draws: list[Draw] = []
    fed = 0
    under_way: list[Update] = []
    finished: dict[str, Finished] = {}
    expired: set[str] = set()
    while engine.active or under_way:
        for request in engine.requests():
            texts = pools[request.segment.id]
            draws += [
                Draw(request.segment, index, (Candidate(texts[index]),), ended=index == len(texts) - 1)
                for index in range(request.start, min(request.stop, len(texts)))
            ]
        moves = ["draw"] * bool(draws) + ["settle"] * bool(under_way)
        moves += ["rerank"] * (engine.has_updates and not under_way)
        if rng.random() < expiring:
            name = rng.choice(list(pools))
            if name not in finished:
                expired.add(name)
            engine.expire(name)
        elif not moves:
            raise AssertionError("the engine is stuck")
        else:
            match rng.choice(moves):
                case "draw":
                    engine.feed(draws.pop(rng.randrange(len(draws))))
                    fed += 1
                case "rerank":
                    under_way = engine.updates(rng.choice([None, 1, 2]))
                case "settle":
                    engine.settle(under_way, reranker.extend(under_way))
                    under_way = []
        for one in engine.finished():
            assert one.segment.id not in finished
            finished[one.segment.id] = one
    return finished, expired, fed, engine


pools = st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=90), min_size=1, max_size=4)


@settings(max_examples=150)
@given(
    pools, st.sampled_from(["quit", "full", "fixed:7"]), st.integers(1, 9), st.integers(0, 9999), st.booleans(),
    st.booleans(),
)  # fmt: skip
def test_expiring_at_any_moment(
    sizes: list[list[int]], rule: str, k: int, seed: int, anytime: bool, speculate: bool
) -> None:
    texts = {str(number): ["x" * size for size in pool] for number, pool in enumerate(sizes)}
    method = {"k": k, "w": 2, "alpha": 0.5, "n": 80}
    found, expired, fed, engine = scramble(texts, rule, random.Random(seed), 0.05, anytime, speculate, **method)
    undisturbed, *_ = scramble(texts, rule, random.Random(seed + 1), 0.0, anytime=False, **method)
    assert found.keys() == texts.keys()
    assert engine.wasted.candidates == fed - sum(one.outcome.size for one in found.values())
    for name, one in found.items():
        outcome, whole = one.outcome, undisturbed[name].outcome
        if name not in expired or outcome.stop is not StopReason.DEADLINE:
            assert outcome == whole and one.candidates == undisturbed[name].candidates
            continue
        lengths = sizes[int(name)][: outcome.size]
        assert 1 <= outcome.size == len(one.candidates) <= whole.size
        assert outcome.index == lengths.index(max(lengths)) and outcome.score == max(lengths)
        assert outcome.translation == texts[name][outcome.index]
        ends = [*range(k, outcome.size, k), outcome.size]
        assert outcome.trajectory == tuple(max(lengths[:end]) for end in ends)
