"""The thread that engines share: turns, failures, and what nobody waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from quitmt.errors import GenerationError, UsageError
from quitmt.generate.worker import Batches, Piece, Worker
from quitmt.types import Candidate, Draw, Request, Segment

ONE, TWO = Segment("1"), Segment("2")


class Engine:
    """Draws what it is asked for, at most ``batch`` at once."""

    batch = 4

    def sample(self, pieces: Sequence[Piece]) -> list[Draw]:
        if any(piece.request.segment.id == "broken" for piece in pieces):
            raise ZeroDivisionError("division by zero\nin the middle")
        return [Draw(one.request.segment, one.request.start, (Candidate("a"),) * one.count) for one in pieces]

    def forget(self, segment: Segment) -> None: ...


async def collect(worker: Worker, *requests: Request) -> list[Draw]:
    return [one async for one in worker.draw(requests)]


def test_a_long_ask_is_answered_piece_by_piece_and_does_not_keep_other_engines_waiting() -> None:
    worker = Worker(Batches(Engine()), "test")
    other = worker.beside(Batches(Engine()))

    async def work() -> tuple[list[Draw], list[Draw]]:
        pieces, others = list[Draw](), list[Draw]()
        async for one in worker.draw([Request(ONE, 0, 1_000_000)]):
            pieces.append(one)
            others = others or await collect(other, Request(TWO, 0, 9))
            worker.close(ONE)
        return pieces, others

    pieces, others = asyncio.run(work())
    assert len(pieces[0].candidates) == 4 and sum(len(one.candidates) for one in pieces) < 1_000_000
    assert [(one.start, len(one.candidates)) for one in others] == [(0, 4), (4, 4), (8, 1)]


def test_a_failure_is_one_sentence_and_later_asks_go_on() -> None:
    worker = Worker(Batches(Engine()), "test")
    [failed] = asyncio.run(collect(worker, Request(Segment("broken"), 0, 2)))
    assert isinstance(failed.error, GenerationError)
    assert str(failed.error) == "sampling segment 'broken' failed: division by zero"
    [drawn] = asyncio.run(collect(worker, Request(ONE, 0, 2)))
    assert len(drawn.candidates) == 2


def test_a_range_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(UsageError, match="cannot draw candidates 3 to 2 of segment '1'"):
        asyncio.run(collect(Worker(Batches(Engine()), "test"), Request(ONE, 3, 2)))
