"""Loops compiled by numba: without the GIL, and kept on disk so that only the first process compiles them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(**options: Any) -> Callable[[Function], Function]:
    """Compile a function on first use, or load what an earlier process compiled."""
    settings = {"nogil": True, "error_model": "numpy", **options}

    def decorate(function: Function) -> Function:
        try:
            return cast(Function, njit(cache=True, **settings)(function))
        except RuntimeError:  # no folder for the cache can be written, as in some containers: compile every time
            return cast(Function, njit(**settings)(function))

    return decorate
