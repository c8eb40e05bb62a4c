"""A child process for each mutant: it changes the code, and runs tests until one fails."""

from __future__ import annotations

import inspect
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import types
from collections import deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _pytest.runner import runtestprotocol
from benchmarks.mutation.changes import Mutant, mutated
from benchmarks.mutation.reach import Finder, Statements, run_pytest

SLOWEST = 3.0
STALLED = 30.0
"""Seconds in which a child used no processor at all: it waits for something that will never happen."""
LIMIT, COMPILING = 20.0, 40.0
"""CPU seconds of a child, which are many more than its tests take, and those beyond that for one that compiles."""

SURVIVED, KILLED, BROKEN = range(3)
RESULTS = ("survived", "killed", "broken")
"""By a child's exit code. A child that failed outside of a test is broken: fix this script."""
COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")


@dataclass
class Job:
    mutant: Mutant
    tests: list[str]
    compiles: bool
    path: str
    code: types.CodeType
    """Of the module."""
    functions: dict[types.CodeType, types.CodeType] | None


Record = Callable[[Job, str, str], None]


def make_job(mutant: Mutant, src: Path, statements: Statements, tests: dict[str, Any], seconds: float) -> Job:
    path = str(src / "quitmt" / mutant.file)
    source = Path(path).read_text("utf-8")
    numbers, compiles = statements.at(mutant)
    chosen, total = [], 0.0
    for name, (cost, hits) in sorted(tests.items(), key=lambda test: test[1][0]):
        if cost <= SLOWEST and not numbers.isdisjoint(hits) and (not chosen or total + cost <= seconds):
            chosen.append(name)
            total += cost
    old, new = (compile(text, path, "exec", dont_inherit=True) for text in (source, mutated(source, mutant)))
    return Job(mutant, chosen, compiles, path, new, replaced(old, new))


def replaced(old: types.CodeType, new: types.CodeType) -> dict[types.CodeType, types.CodeType] | None:
    """The old and the new code of functions; none if the mutant takes effect while a module is imported."""
    if old == new:
        return {}
    found, is_function = {}, bool(old.co_flags & inspect.CO_OPTIMIZED)
    if is_function:
        if old.co_freevars != new.co_freevars:
            return None
        found[old] = new
    elif _without_nested(old) != _without_nested(new):
        return None
    for one, other in zip(old.co_consts, new.co_consts, strict=False):
        if isinstance(one, types.CodeType) and isinstance(other, types.CodeType) and one != other:
            nested = replaced(one, other)
            if not is_function and (nested is None or one.co_name in COMPREHENSIONS):
                return None
            found |= nested or {}
    return found


def _without_nested(code: types.CodeType) -> types.CodeType:
    consts = tuple(one for one in code.co_consts if not isinstance(one, types.CodeType))
    return code.replace(co_consts=consts, co_linetable=b"")


def compile_again(core: Collection[str]) -> None:
    """Have numba ignore what it compiled earlier from these files."""
    from numba.core.dispatcher import Dispatcher

    enable = Dispatcher.enable_caching

    def enable_elsewhere(dispatcher: Any) -> None:
        if dispatcher.py_func.__code__.co_filename not in core:
            enable(dispatcher)

    Dispatcher.enable_caching = enable_elsewhere


def run_items(session: Any, names: list[str], told: Path) -> int:
    """Run tests until one fails, whose name is written down."""
    items = {item.nodeid: item for item in session.items}
    chosen = [items[name] for name in names if name in items]
    for item, following in zip(chosen, [*chosen[1:], None], strict=True):
        if any(report.failed for report in runtestprotocol(item, log=False, nextitem=following)):
            told.write_text(item.nodeid, "utf-8")
            return KILLED
    return SURVIVED


@dataclass
class Loop:
    """A pytest plugin that runs something else in place of all tests."""

    run: Callable[[Any], None]

    def pytest_runtestloop(self, session: Any) -> bool:
        self.run(session)
        return True


def run_imported(job: Job, core: Collection[str], told: Path) -> int:
    """In a process that has not imported the core: import and collect what the job needs."""
    if job.compiles:
        compile_again(core)
    sys.meta_path.insert(0, Finder({job.path: job.code}))
    codes: list[int] = []
    files = sorted({name.partition("::")[0] for name in job.tests})
    run_pytest(Loop(lambda session: codes.append(run_items(session, job.tests, told))), files)
    return codes[0] if codes else KILLED  # else it could not be imported


def run_patched(job: Job, core: Collection[str], session: Any, functions: dict[Any, list[Any]], told: Path) -> int:
    """In a process that has collected all tests."""
    if job.compiles:
        compile_again(core)
    assert any(old in functions for old in job.functions or ())
    for old, new in (job.functions or {}).items():
        for function in functions.get(old, ()):
            function.__code__ = new
    return run_items(session, job.tests, told)


def fork(run: Callable[[Path], int], folder: Path, seconds: float | None = None) -> int:
    """A child process that has a folder of its own, and so many CPU seconds; its exit code is what ``run`` gives."""
    pid = os.fork()
    if pid:
        return pid
    code = BROKEN
    try:
        null = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(null, number)
        os.environ["PYTEST_DEBUG_TEMPROOT"] = tempfile.tempdir = str(folder)
        if seconds is not None:
            resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds)))
        code = run(folder / "killed by")
    finally:
        os._exit(code)


def cpu_ticks(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]


def watch(jobs: Iterable[tuple[Job, Callable[[Path], int]]], most: int, record: Record) -> None:
    """Run ``most`` jobs at a time, each in a child process of its own."""
    running: dict[int, tuple[Job, Path]] = {}
    active: dict[int, tuple[list[str], float]] = {}
    waiting = deque(jobs)
    while waiting or running:
        while waiting and len(running) < most:
            job, call = waiting.popleft()
            folder = Path(tempfile.mkdtemp(prefix="mutant-"))
            running[pid := fork(call, folder, LIMIT + COMPILING * job.compiles)] = job, folder
            active[pid] = [], time.monotonic()
        time.sleep(0.02)
        for pid, (job, folder) in list(running.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                del running[pid]
                result = "timeout" if os.WIFSIGNALED(status) else RESULTS[os.WEXITSTATUS(status)]
                told = folder / "killed by"
                record(job, result, told.read_text("utf-8") if told.exists() else "")
                shutil.rmtree(folder, ignore_errors=True)
            elif (ticks := cpu_ticks(pid)) != active[pid][0]:
                active[pid] = ticks, time.monotonic()
            elif time.monotonic() - active[pid][1] > STALLED:
                os.kill(pid, signal.SIGKILL)
