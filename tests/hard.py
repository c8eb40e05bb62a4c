"""The whole suite, in random order, where tests fail that count on luck: on a busy or a poor machine.

    make test-hard                                           # each condition serially and in processes side by side
    python -m tests.hard --only one-core signals -- tests/serve
    python -m tests.hard --only signals+busy --runs 1 --seed 7 --serial    # two conditions at once, as a run before

Each run prints its seed and the command that repeats it. The seed is that of the order of files and of the tests in
each, of Hypothesis and of Python's hashes. As a pytest plug-in (``-p tests.hard``) this module makes the order.
"""

from __future__ import annotations

import argparse
import os
import random
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from time import monotonic

import pytest

PATIENCE_SECONDS = 1800
"""A test that takes longer hangs: its stack is printed, and the run ends."""
SIDE_BY_SIDE = ["--numprocesses", str(max(2, min(4, os.cpu_count() or 1))), "--dist", "loadfile"]

UNSHARE = ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"])]
LOOPBACK = (
    "import fcntl, os, socket, struct, sys; "
    "fcntl.ioctl(socket.socket(), 0x8914, struct.pack('16sh14x', b'lo', 1)); os.execvp(sys.argv[1], sys.argv[1:])"
)


@dataclass(frozen=True)
class Condition:
    told: str
    prefix: Sequence[str] = ()
    """The command that runs another one under this condition."""
    variables: dict[str, str] = field(default_factory=dict)


CONDITIONS = {
    "one-core": Condition("one core", ["taskset", "--cpu-list", str(min(os.sched_getaffinity(0)))]),
    "busy": Condition("four busy loops beside it"),
    "signals": Condition("SIGINT and SIGHUP ignored", ["sh", "-c", 'trap "" INT HUP; exec "$@"', "sh"]),
    "locale": Condition("LC_ALL=C", variables={"LC_ALL": "C"}),
    "zone": Condition("a time zone of quarters of an hour", variables={"TZ": "Asia/Kathmandu"}),
    "no-network": Condition("no network but this machine", [*UNSHARE, "--net", sys.executable, "-c", LOOPBACK]),
    "descriptors": Condition("256 open files", ["sh", "-c", 'ulimit -n 256; exec "$@"', "sh"]),
    "home": Condition(
        "an empty home folder that cannot be written",
        [*UNSHARE, "--mount", "sh", "-c", 'mount -t tmpfs -o ro none "$HOME" && exec "$@"', "sh"],
    ),
}


@dataclass
class Run:
    conditions: str
    seed: int
    serial: bool
    arguments: Sequence[str]
    result: str = ""
    failed: bool = False
    tests: list[str] = field(default_factory=list)

    @property
    def repeat(self) -> str:
        mode = "--serial" if self.serial else "--parallel"
        words = ["--only", self.conditions, "--runs", "1", "--seed", str(self.seed), mode, "--", *self.arguments]
        return shlex.join(["python", "-m", "tests.hard", *words])

    def __str__(self) -> str:
        return f"{self.conditions}, {'serially' if self.serial else 'in parallel'}, seed {self.seed}"

    def work(self) -> None:
        conditions = [CONDITIONS[name] for name in self.conditions.split("+")]
        prefix = [word for one in conditions for word in one.prefix]
        variables = {"PYTHONHASHSEED": str(self.seed), "HARD_SEED": str(self.seed)}
        for one in conditions:
            variables |= one.variables
        with ExitStack() as stack:
            if "home" in self.conditions.split("+"):
                variables["HOME"] = stack.enter_context(tempfile.TemporaryDirectory())
            if "busy" in self.conditions.split("+"):
                stack.enter_context(_busy_loops(4))
            environment = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")} | variables
            tried = subprocess.run([*prefix, "true"], env=environment, capture_output=True, text=True, check=False)
            if tried.returncode:
                self.result = f"not possible here: {tried.stderr.strip()}"
                return
            self._pytest(prefix, environment)

    def _pytest(self, prefix: Sequence[str], environment: dict[str, str]) -> None:
        began = monotonic()
        command = [
            *[sys.executable, "-m", "pytest", "-p", "tests.hard", "-p", "no:cacheprovider", "-rfE"],
            *["--hypothesis-profile", "any", f"--hypothesis-seed={self.seed}"],
            *["-o", f"faulthandler_timeout={PATIENCE_SECONDS}", "-o", "faulthandler_exit_on_timeout=true"],
            *([] if self.serial else SIDE_BY_SIDE),
            *self.arguments,
        ]
        with subprocess.Popen(
            [*prefix, *command], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                print(line, end="", flush=True)
                self.result = line.strip() or self.result
                if line.startswith(("FAILED ", "ERROR ")):
                    self.tests.append(line.strip())
        self.failed = process.returncode != 0
        self.result = f"{self.result} (exit code {process.returncode}, {monotonic() - began:.0f} s)"


@contextmanager
def _busy_loops(count: int) -> Iterator[None]:
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for one in loops:
            one.kill()
            one.wait()


def main(words: Sequence[str] | None = None) -> int:
    conditions = "; ".join(f"{name}: {one.told}" for name, one in CONDITIONS.items())
    parser = argparse.ArgumentParser("python -m tests.hard", description=f"Conditions: {conditions}.")
    parser.add_argument("--only", nargs="+", default=list(CONDITIONS), metavar="CONDITION", help="some, or A+B at once")
    parser.add_argument("--runs", type=int, default=2, help="under each condition [default: %(default)s]")
    parser.add_argument("--seed", type=int, help="of the first run; it grows by 1 [default: random]")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--serial", action="store_true", help="all runs in one process [default: alternating]")
    mode.add_argument("--parallel", action="store_true", help="all runs in processes side by side")
    parser.add_argument("arguments", nargs="*", metavar="-- PYTEST'S ARGUMENTS")
    given = parser.parse_args(words)
    if unknown := {name for one in given.only for name in one.split("+")} - set(CONDITIONS):
        parser.error(f"unknown condition {', '.join(sorted(unknown))}")
    seed = random.SystemRandom().randrange(2**31) if given.seed is None else given.seed
    runs = []
    for number in range(given.runs):
        for index, name in enumerate(given.only):
            serial = not given.parallel and (given.serial or (number + index) % 2 == 0)
            run = Run(name, seed + len(runs), serial, given.arguments)
            runs.append(run)
            print(f"\n=== {run}\n=== to repeat it: {run.repeat}", flush=True)
            run.work()
            print(f"=== {run}: {run.result}", flush=True)
    print("\n=== all runs")
    for run in runs:
        print(f"{'FAILED' if run.failed else 'passed' if run.result[:3] != 'not' else '-':7}{run}: {run.result}")
        for test in run.tests:
            print(f"         {test}")
        if run.failed:
            print(f"         to repeat it: {run.repeat}")
    return int(any(run.failed for run in runs))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files in random order, and the tests of each: they share what they set up."""
    rng = random.Random(os.environ["HARD_SEED"])
    files: dict[str, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.nodeid.partition("::")[0], []).append(item)
    for tests in files.values():
        rng.shuffle(tests)
    mixed = list(files.values())
    rng.shuffle(mixed)
    items[:] = [item for tests in mixed for item in tests]


if __name__ == "__main__":
    sys.exit(main())
