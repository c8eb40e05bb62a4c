"""Pools that begin with anchors: nothing is reranked without them, and a deadline has them to return."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quitmt import rerank, stop
from quitmt.engine.engine import Engine
from quitmt.protocols import Reranker, RerankerTraits, Update
from quitmt.types import Candidate, Draw, Finished, Segment, Snapshot, StopReason

SEGMENT = Segment("s", "source")
ANCHORS = (Candidate("o gato dorme", origin="greedy"), Candidate("um gato dorme", origin="beam:2"))
WORDS = "o gato dorme na casa velha".split()


def samples(count: int, seed: int = 0) -> list[Candidate]:
    rng = random.Random(seed)
    return [Candidate(" ".join(rng.choice(WORDS) for _ in range(3))) for _ in range(count)]


def crank(engine: Engine, reranker: Reranker) -> list[Finished]:
    while updates := engine.updates():
        engine.settle(updates, reranker.extend(updates))
    return engine.finished()


def started(spec: str = "fixed:8", reranker: str = "mbr:chrf", segment: Segment = SEGMENT) -> tuple[Engine, Reranker]:
    scorer = rerank.load(reranker)
    engine = Engine(scorer, stop.load(spec, k=4, n=8), anchored=True, anytime=True)
    engine.admit(segment)
    return engine, scorer


@settings(max_examples=15)
@given(st.randoms(use_true_random=False), st.integers(0, 5))
def test_whenever_anchors_arrive(shuffle: random.Random, seed: int) -> None:
    pool = samples(8, seed)
    engine, scorer = started()
    [request] = engine.requests()
    draws = [Draw(SEGMENT, index, (one,)) for index, one in enumerate(pool)]
    draws.insert(shuffle.randrange(9), Draw(SEGMENT, 0, (), anchors=ANCHORS))
    finished: list[Finished] = []
    for number, draw in enumerate(draws):
        assert not engine.served(request)
        engine.feed(draw)
        finished += crank(engine, scorer)
        assert number == 8 or not finished
    assert engine.served(request)
    [one] = finished
    [(*_, last)] = scorer.extend([Update(scorer.open(SEGMENT), pool, 8, ANCHORS)])
    assert isinstance(last, Snapshot)
    assert (one.outcome.index, one.outcome.score) == (last.best, last.score)
    assert one.anchors == ANCHORS and one.candidates == pool
    assert one.outcome.anchors == 2 and one.outcome.cost == 10
    origin = "" if last.best >= 0 else ANCHORS[-1 - last.best].origin
    assert one.outcome.origin == origin


def test_the_users_own_come_after_the_generators_and_cost_nothing() -> None:
    segment = Segment("s", "source", anchors=("mine", "and mine"))
    engine, scorer = started(segment=segment)
    engine.requests()
    engine.feed(Draw(segment, 0, tuple(samples(8)), anchors=ANCHORS))
    [one] = crank(engine, scorer)
    assert [anchor.origin for anchor in one.anchors] == ["greedy", "beam:2", "given", "given"]
    assert one.outcome.anchors == 2


def test_the_users_own_without_any_of_the_generators() -> None:
    scorer = rerank.qe(lambda source, text: len(text), name="length")
    engine = Engine(scorer, stop.load("fixed:4", k=4, n=4))
    segment = Segment("s", "source", anchors=("the longest of all of them",))
    engine.admit(segment)
    engine.requests()
    engine.feed(Draw(segment, 0, tuple(samples(4))))
    [one] = crank(engine, scorer)
    assert (one.outcome.index, one.outcome.origin, one.outcome.anchors) == (-1, "given", 0)
    assert one.outcome.translation == "the longest of all of them"


def test_time_is_up_and_only_anchors_are_there() -> None:
    engine, _ = started()
    engine.requests()
    engine.feed(Draw(SEGMENT, 0, (), anchors=ANCHORS))
    assert engine.expire("s")
    [one] = engine.finished()
    assert (one.outcome.stop, one.outcome.translation, one.outcome.index) == (StopReason.DEADLINE, "o gato dorme", -1)
    assert one.outcome.score is None and one.outcome.size == 0 and one.outcome.origin == "greedy"


@pytest.mark.parametrize("scoring", [False, True])
def test_time_is_up_while_samples_are_scored(scoring: bool) -> None:
    engine, _ = started()
    engine.requests()
    engine.feed(Draw(SEGMENT, 0, tuple(samples(4)), anchors=ANCHORS))
    assert engine.updates()
    engine.expire("s")
    engine.abandon("s", "the deadline", scoring=scoring)
    assert [one.outcome.origin for one in engine.finished()] == (["greedy"] if scoring else [])


def test_what_an_earlier_run_drew_is_of_no_use_without_its_anchors() -> None:
    for anchors, start in ((None, 0), (ANCHORS, 4)):
        scorer = rerank.load("mbr:chrf")
        engine = Engine(scorer, stop.load("fixed:8", k=4, n=8), anchored=True)
        engine.admit(SEGMENT, samples(4), anchors=anchors)
        [request] = engine.requests()
        assert (request.start, request.stop) == (start, 8)


class Unaware:
    """A reranker that was written before there were anchors."""

    signature = "unaware"
    traits = RerankerTraits()

    def open(self, segment: Segment) -> None:
        return None

    def extend(self, updates: list[Update[None]]) -> list[list[Snapshot]]:
        raise AssertionError("nothing can be scored")


def test_anchors_that_a_reranker_knows_nothing_of_are_refused() -> None:
    engine: Engine[None] = Engine(Unaware(), stop.load("fixed:8", k=4, n=8), anchored=True)  # type: ignore[arg-type]
    engine.admit(SEGMENT)
    engine.requests()
    engine.feed(Draw(SEGMENT, 0, tuple(samples(8)), anchors=ANCHORS))
    [one] = engine.finished()
    assert one.outcome.error == ("segment s has anchors, and unaware scores samples only (give anchors='none')")
