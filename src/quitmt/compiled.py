"""Loops compiled by numba: they run without the GIL, and are cached on disk so that only the first process compiles
them.

numba takes long to import, and many processes never need it. So a decorated function is a ``_Stub`` at first: its first
call imports numba, compiles the function and replaces the stub in the module that defines it.

Invariant: when numba compiles a function, the kernels that it calls are compiled already. They are looked up by their
global names, so a kernel calls another by its name (``f``, imported if necessary), never by its module (``kernels.f``).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache, update_wrapper
from threading import RLock
from typing import Any, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])

_making = RLock()  # two threads may make the first call at the same time; reentrant, as kernels compile others


class _Stub:
    def __init__(self, function: Callable[..., Any], make: Callable[[Callable[..., Any]], Any]) -> None:
        update_wrapper(self, function)
        self._function = function
        self._make = make
        self._made: Any = None

    def __call__(self, *arguments: Any) -> Any:
        return (self._made if self._made is not None else self.made())(*arguments)

    def made(self) -> Any:
        """The compiled function. It also replaces the stubs of this function and of the kernels it calls."""
        with _making:
            if self._made is None:
                names = self._function.__globals__
                made = self._make(self._function)
                for name in self._function.__code__.co_names:
                    found = names.get(name)
                    if isinstance(found, _Stub) and found is not self:
                        names[name] = found.made()
                if names.get(self._function.__name__) is self:  # calls by that name no longer go through the stub
                    names[self._function.__name__] = made
                self._made = made  # last, because other threads call it as soon as it is set
            return self._made


@cache
def _numba() -> Any:
    """numba, configured to compile for the same processor on every x86-64 machine with AVX2.

    Code compiled for the host's processor rounds sums depending on the width of its vectors, so it would occasionally
    sample a different token, and different machines of a cluster would give different results. Wider vectors aren't
    faster here (docs/decisions/0003). The environment variable ``NUMBA_CPU_NAME`` overrides this.
    """
    import llvmlite.binding
    import numba
    import numba.extending

    features = llvmlite.binding.get_host_cpu_features()
    if "NUMBA_CPU_NAME" not in os.environ and features.get("avx2") and features.get("fma"):
        # numba rereads its settings from the environment whenever they change there
        os.environ |= {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": ""}
        cast(Any, numba.config).reload_config()
    return numba


def kernel(**options: Any) -> Callable[[Function], Function]:
    """Compile a function on first use, or load what an earlier process compiled."""
    settings = {"nogil": True, "error_model": "numpy", **options}

    def make(function: Callable[..., Any]) -> Any:
        njit = _numba().njit
        try:
            return njit(cache=True, **settings)(function)
        except RuntimeError:  # no writable cache folder, as in some containers: compile in every process
            return njit(**settings)(function)

    def decorate(function: Function) -> Function:
        return cast(Function, _Stub(function, make))

    return decorate


def intrinsic(function: Callable[..., Any]) -> Any:
    """Decorates a function that kernels can call. It returns its signature and a function that generates LLVM code
    (``numba.extending.intrinsic``)."""

    def make(function: Callable[..., Any]) -> Any:
        return _numba().extending.intrinsic(function)

    return _Stub(function, make)
