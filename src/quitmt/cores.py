"""How many processors there are for this process, and how many threads one computation may use."""

from __future__ import annotations

import os
from collections.abc import Mapping


def cores() -> int:
    """That this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads(environment: Mapping[str, str] = os.environ) -> int:
    """As many as there are cores, or fewer by ``OMP_NUM_THREADS``, which Ray sets to the processors of a worker."""
    told = environment.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return min(cores(), int(told)) if told.isdecimal() and int(told) else cores()
