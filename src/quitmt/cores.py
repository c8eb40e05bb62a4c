"""The number of processors for this process and of threads per computation."""

from __future__ import annotations

import os
from collections.abc import Mapping


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads(environment: Mapping[str, str] = os.environ) -> int:
    """One thread per core, or fewer if ``OMP_NUM_THREADS`` says so. Ray sets it to a worker's processors."""
    limit = environment.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return min(cores(), int(limit)) if limit.isdecimal() and int(limit) else cores()
