"""The worker as Ray runs it: an async callable class. Each call works on one part; several calls run at once."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from quitmt.batch.tally import PartTally
from quitmt.batch.worker import Broken, Observer, PartWorker, Work
from quitmt.errors import QuitmtError

REPORT_TIMEOUT_SECONDS = 5.0


class BoardObserver(Observer):
    def __init__(self, board: Any) -> None:
        self._board = board

    def part(self, number: int, tally: PartTally) -> None:
        self._board.part.remote(number, tally.to_fields())

    async def begin_row(self, number: int, row: str) -> None:
        with suppress(Exception):  # Ray restarts a lost board
            await self._board.row.remote(number, row)


class PartActor:
    """Ray builds a new one when its process has ended."""

    def __init__(self, work: Work, board: Any) -> None:
        self._board = board
        self._worker = PartWorker(work, BoardObserver(board))
        board.started.remote()

    async def __call__(self, batch: Mapping[str, Any]) -> dict[str, list[Any]]:
        number = int(batch["part"][0])
        try:
            suspicion = None
            with suppress(Exception):  # Ray restarts a lost board
                suspicion = await self._board.begin.remote(number)
            tally = (await self._worker.do(number, suspicion, retry=bool(batch["retry"][0]))).to_fields()
        except Broken as error:
            self._report(self._board.broke, str(error))
            os._exit(1)  # Ray retries an actor that raises forever, but replaces one whose process has ended
        except QuitmtError as error:
            self._report(self._board.refused, str(error.args[0]), error.hint)
            raise
        self._board.finished.remote(number, tally)
        return {"part": [number], "tally": [json.dumps(tally)]}

    def _report(self, method: Any, *values: Any) -> None:
        """Waits until the board has received the message."""
        import ray

        with suppress(Exception):
            ray.get(method.remote(*values), timeout=REPORT_TIMEOUT_SECONDS)
