"""What is done before the clock of a run starts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

from quitmt.engine.deadlines import Clock
from quitmt.errors import GenerationError, QuitmtError
from quitmt.loops.call import in_thread
from quitmt.loops.faults import FAULTS, is_cancellation
from quitmt.protocols import Reranker, StoppingRule, Update
from quitmt.types import Candidate, Segment

log = logging.getLogger(__name__)


async def try_out(reranker: Reranker[Any], rule: StoppingRule) -> None:
    """Use both once, so that what is compiled or loaded on first use is there. If one fails, the segments will tell."""
    try:
        await in_thread(_try_out, reranker, rule)
    except FAULTS as error:
        if is_cancellation(error):
            raise
        log.debug("warming up failed", exc_info=error)


def _try_out(reranker: Reranker[Any], rule: StoppingRule) -> None:
    """A pool that grows, and the rule sees it as if it could stop there: rules and growing have kernels too."""
    state, watch = reranker.open(Segment("warm-up", "One two.", support=("One.",))), rule.open()
    for text in ("One.", "One, two, three, four, five, six, seven."):
        [snapshots] = reranker.extend([Update(state, [Candidate(text)], 1)])
    if not isinstance(snapshots, QuitmtError):
        watch.observe(replace(snapshots[-1], size=watch.horizon(0)))


async def in_time(work: Coroutine[Any, Any, None], seconds: float | None, clock: Clock) -> None:
    """Wait for it, but not longer than the whole run may take."""
    task = asyncio.create_task(work)
    timer = None if seconds is None else clock.call_at(clock.time() + seconds, task.cancel)
    try:
        await task
    except asyncio.CancelledError as error:
        if is_cancellation(error):
            raise
        message = f"the generator did not answer within the run's deadline of {seconds or 0:.15g} s"
        raise GenerationError(message, hint="is its server running?") from None
    finally:
        task.cancel()
        if timer:
            timer.cancel()
