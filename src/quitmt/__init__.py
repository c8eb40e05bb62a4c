"""Translate by sampling and reranking, and stop as soon as more candidates would not help.

Names are imported when they are first used (PEP 562), so ``import quitmt`` is quick and imports no model's library.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from quitmt._version import __version__

if TYPE_CHECKING:
    from quitmt.api import (
        Moment,
        Translator,
        best_of,
        best_of_async,
        rerank_pool,
        rerank_pool_async,
        translate,
        translate_async,
        watch,
        watch_async,
    )
    from quitmt.errors import QuitmtError
    from quitmt.rerank import mbr, qe, vote  # type: ignore[no-redef]  # functions, not the modules of that name
    from quitmt.rewards import group_reward, reward
    from quitmt.stop.fixed import Fixed
    from quitmt.stop.window import Quit
    from quitmt.types import Candidate, Draw, Outcome, Request, Segment, Snapshot, StopReason

_HOMES = {
    "quitmt.api": (
        "Moment",
        "Translator",
        "best_of",
        "best_of_async",
        "rerank_pool",
        "rerank_pool_async",
        "translate",
        "translate_async",
        "watch",
        "watch_async",
    ),
    "quitmt.errors": ("QuitmtError",),
    "quitmt.rerank": ("mbr", "qe", "vote"),
    "quitmt.rewards": ("group_reward", "reward"),
    "quitmt.stop.fixed": ("Fixed",),
    "quitmt.stop.window": ("Quit",),
    "quitmt.types": ("Request", "Candidate", "Draw", "Outcome", "Segment", "Snapshot", "StopReason"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Candidate",
    "Draw",
    "Fixed",
    "Moment",
    "Outcome",
    "Quit",
    "QuitmtError",
    "Request",
    "Segment",
    "Snapshot",
    "StopReason",
    "Translator",
    "__version__",
    "best_of",
    "best_of_async",
    "group_reward",
    "mbr",
    "qe",
    "rerank_pool",
    "rerank_pool_async",
    "reward",
    "translate",
    "translate_async",
    "vote",
    "watch",
    "watch_async",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'quitmt' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
