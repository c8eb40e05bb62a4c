"""A worker as Ray runs it: an async callable class, one part a call, several calls at once."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from quitmt.batch.tally import PartTally
from quitmt.batch.worker import Broken, PartWorker, Work
from quitmt.errors import QuitmtError

SAY_SECONDS = 5.0


class RayCounters:
    """The numbers of a job for Ray's dashboard and for Prometheus."""

    def __init__(self) -> None:
        from ray.util.metrics import Counter

        self._segments = Counter("quitmt_segments", "Segments with an outcome.")
        self._failed = Counter("quitmt_failed_segments", "Segments that failed.")
        self._candidates = Counter("quitmt_candidates", "Candidates that were generated.")
        self._saved = Counter("quitmt_candidates_saved", "Candidates of full budgets that were not needed.")

    def add(self, tally: PartTally) -> None:
        for counter, value in (
            (self._segments, tally.rows),
            (self._failed, tally.failed),
            (self._candidates, tally.candidates),
            (self._saved, tally.possible - tally.candidates),
        ):
            if value > 0:  # Ray refuses 0
                counter.inc(value)


class Looker:
    """Tells the board and the dashboard."""

    def __init__(self, board: Any) -> None:
        self._board, self._metrics = board, RayCounters()

    def row(self, fields: Mapping[str, Any], budget: int) -> None:
        self._metrics.add(PartTally.of([fields], budget))

    def part(self, number: int, tally: PartTally) -> None:
        self._board.part.remote(number, tally.to_fields())

    async def begin_row(self, number: int, row: str) -> None:
        with suppress(Exception):  # a board that was lost comes back
            await self._board.row.remote(number, row)


class PartActor:
    """Built again by Ray when its process has ended."""

    def __init__(self, work: Work, board: Any) -> None:
        self._board = board
        self._worker = PartWorker(work, Looker(board))
        board.started.remote()

    async def __call__(self, batch: Mapping[str, Any]) -> dict[str, list[Any]]:
        number = int(batch["part"][0])
        try:
            suspicion = None
            with suppress(Exception):  # a board that was lost comes back
                suspicion = await self._board.begin.remote(number)
            tally = (await self._worker.do(number, suspicion, retry=bool(batch["retry"][0]))).to_fields()
        except Broken as error:
            self._say(self._board.broke, str(error))
            os._exit(1)  # Ray tries a worker that raises for ever; one that is gone it replaces
        except QuitmtError as error:
            self._say(self._board.refused, str(error.args[0]), error.hint)
            raise
        self._board.finished.remote(number, tally)
        return {"part": [number], "tally": [json.dumps(tally)]}

    def _say(self, method: Any, *words: Any) -> None:
        """Wait until it was heard."""
        import ray

        with suppress(Exception):
            ray.get(method.remote(*words), timeout=SAY_SECONDS)
