"""Kernels become real at their first call: in whatever thread, with those they call, under every name they have."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from quitmt.compiled import _Promise, kernel

LOW = """
from quitmt.compiled import intrinsic, kernel

@intrinsic
def popcount(_, word):
    from numba import types
    return types.uint64(types.uint64), lambda context, builder, signature, arguments: builder.ctpop(arguments[0])

@kernel()
def bits(word):
    return popcount(word)
"""

HIGH = """
from low import bits as count
from quitmt.compiled import kernel

@kernel()
def total(words):
    result = 0
    for word in words:
        result += count(word)
    return result
"""

FIRST_CALLS = """
import sys, threading
import numpy as np
import high, low
from high import total

assert "numba" not in sys.modules
words, results, ready = np.arange(100, dtype=np.uint64), [], threading.Barrier(2)

def call():
    ready.wait()
    results.append(total(words))

threads = [threading.Thread(target=call) for _ in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print({int(result) for result in results} == {sum(n.bit_count() for n in range(100))}, len(results))
print(*(type(kernel).__name__ for kernel in (low.bits, high.count, high.total, total)))
"""


def run(code: str, folder: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.stderr == ""
    return done.stdout


def test_the_first_call_may_come_from_two_threads_and_reaches_other_modules(tmp_path: Path) -> None:
    (tmp_path / "low.py").write_text(LOW)
    (tmp_path / "high.py").write_text(HIGH)
    assert run(FIRST_CALLS, tmp_path).splitlines() == [
        "True 2",
        # whoever looks a kernel up in its module has the real one; a name taken before goes on working
        "CPUDispatcher CPUDispatcher CPUDispatcher _Promise",
    ]


def test_nobody_calls_a_kernel_before_those_that_it_calls_are_made() -> None:
    makings, began = [], threading.Event()

    def make_slowly(function: Callable[[], str]) -> Callable[[], str]:
        makings.append(function)
        began.set()
        time.sleep(0.3)  # the other thread calls meanwhile
        return function

    names: dict[str, Any] = {}
    exec("def inner(): return 'made'\ndef outer(): return type(inner).__name__", names)
    names["inner"] = _Promise(names["inner"], make_slowly)
    outer = _Promise(names["outer"], lambda function: function)
    with ThreadPoolExecutor(1) as thread:
        first = thread.submit(outer)
        assert began.wait(60)
        assert outer() == first.result() == "function"
    assert len(makings) == 1


def test_it_is_compiled_as_its_options_say() -> None:
    @kernel(fastmath={"contract"}, inline="always")
    def twice(x: float) -> float:
        return 2 * x

    made = twice.made()  # type: ignore[attr-defined]
    assert twice(1.5) == made(1.5) == 3.0
    options = made.targetoptions
    assert options["nogil"] and options["error_model"] == "numpy" and options["nopython"]
    assert options["fastmath"] == {"contract"} and options["inline"] == "always"
    assert type(made._cache).__name__ == "FunctionCache"  # kept on disk


def test_what_has_no_place_for_a_cache_is_compiled_all_the_same() -> None:
    names: dict[str, Any] = {"kernel": kernel}
    exec("@kernel()\ndef triple(x):\n    return 3 * x", names)
    assert names["triple"](2) == 6


@pytest.mark.parametrize("chosen", [None, "generic"])
def test_every_x86_machine_with_avx2_compiles_for_the_same_processor(chosen: str | None) -> None:
    """So that a sum is rounded alike on all of them; whoever names a processor is obeyed."""
    import llvmlite.binding

    code = (
        "from quitmt.compiled import kernel\n"
        "@kernel()\ndef one():\n    return 1.0\n"
        "import os\n"
        "assert one() == 1\n"
        "os.environ['NUMBA_DEBUG_CACHE'] = '0'\n"  # numba reads its environment again
        "@kernel()\ndef two():\n    return 2.0\n"
        "assert two() == 2\n"
        "import numba.core.registry as registry\n"
        "print(registry.cpu_target.target_context.codegen()._get_host_cpu_name())\n"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_CPU")}
    environment |= {"NUMBA_CPU_NAME": chosen} if chosen else {}
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-"], input=code, env=environment, capture_output=True, text=True
    )
    usual = "haswell" if llvmlite.binding.get_host_cpu_features().get("avx2") else llvmlite.binding.get_host_cpu_name()
    assert ran.stdout.strip() == (chosen or usual), ran.stderr
