"""Mutation testing of the core: change one expression of the source, run the tests that reach it, and see if one fails.

    python -m benchmarks.mutants run --src c5a34ee --tests c5a34ee --out before.jsonl
    python -m benchmarks.mutants run --src c5a34ee --tests . --same before.jsonl --out after.jsonl
    python -m benchmarks.mutants run --src . --tests . --same before.jsonl --moved-from c5a34ee --out after.jsonl
    python -m benchmarks.mutants table before.jsonl after.jsonl [--survivors]

``--src`` and ``--tests`` are checkouts or commits. ``--same`` takes the mutants of another run, so that two test suites
are measured by the same ones. If the source changed in between, ``--moved-from`` names the source of the other run:
mutants move with their lines, and those of changed lines are left out. Results keep the old positions, for ``table``.
A run that was interrupted continues where it stopped.

1. One run of the core's tests with a counter at each statement tells which tests reach it, and their CPU seconds. Tests
   that fail here are left out; tests of more than ``SLOWEST`` seconds too.
2. A process that has collected all tests forks a child for each mutant. The child replaces the code of the function,
   then runs the tests that reach it, the cheapest first, up to ``--seconds`` of them, until one fails. Mutants of
   defaults, classes and constants take effect on import, so their child imports and collects everything itself.

A mutant is killed, survived, or reached by no test ("untested"). One that hangs, computes without end or crashes the
process ("timeout") counts as killed.
"""

from __future__ import annotations

import argparse
import difflib
import gc
import importlib
import json
import os
import subprocess
import sys
import tempfile
import types
from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import asdict, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.mutation.changes import Mutant, sample
from benchmarks.mutation.children import Job, Loop, Record, fork, make_job, run_imported, run_items, run_patched, watch
from benchmarks.mutation.reach import Statements, find_reached, run_pytest, warming


def checkout(name: str) -> Path:
    """A folder with a checkout; that of a commit is made if need be."""
    if Path(name).is_dir():
        return Path(name).resolve()
    folder = Path(".cache", "mutants", name).resolve()
    if not folder.exists():
        folder.mkdir(parents=True)
        packed = subprocess.run(["git", "archive", name], check=True, capture_output=True).stdout
        subprocess.run(["tar", "-x", "-C", folder], input=packed, check=True)
    return folder


def prepare() -> None:
    """Import once what takes long and is not tested. Let hypothesis neither shrink nor remember what it finds."""
    import numba.core.dispatcher
    import sacrebleu
    import scipy.stats
    from hypothesis.database import DirectoryBasedExampleDatabase
    from hypothesis.internal.conjecture.engine import ConjectureRunner

    assert numba and sacrebleu and scipy
    DirectoryBasedExampleDatabase.save = lambda *_: None  # type: ignore[method-assign]
    ConjectureRunner.shrink_interesting_examples = lambda _: None  # type: ignore[method-assign]


def run(args: argparse.Namespace) -> None:
    src, tests, out = checkout(args.src) / "src", checkout(args.tests), Path(args.out).resolve()
    mutants = list(read(args.same)) if args.same else sample(src, args.mutants, args.seed)
    places = moved(mutants, checkout(args.moved_from) / "src" if args.moved_from else src, src)
    done = read(out) if out.exists() else {}
    statements, reach = Statements(src), out.with_suffix(".reach.json")
    sys.path[:0] = [str(src), str(tests)]
    os.environ |= {"PYTHONPATH": str(src), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    os.chdir(tests)
    prepare()
    if not reach.exists():
        if not (pid := os.fork()):
            find_reached(statements, reach)
            os._exit(0)
        os.waitpid(pid, 0)
    found = json.loads(reach.read_text("utf-8"))
    print(f"{len(found['tests'])} tests; left out, since they fail on --src: {found['failed']}", file=sys.stderr)
    left = {places[one]: one for one in mutants if one in places and one not in done}
    jobs = [make_job(one, src, statements, found["tests"], args.seconds) for one in left]
    with out.open("a", encoding="utf-8") as file:

        def record(job: Job, result: str, by: str) -> None:
            print(json.dumps({**asdict(left[job.mutant]), "result": result, "by": by}), file=file, flush=True)

        run_jobs(jobs, list(statements.trees), warming(statements, found["tests"]), args.jobs, record)


def moved(mutants: Collection[Mutant], old: Path, new: Path) -> dict[Mutant, Mutant]:
    """The mutants of an old source at their places in a new one, without those of lines that changed or went away."""
    lines: dict[str, dict[int, int]] = {}
    for file in {one.file for one in mutants}:
        if not (new / "quitmt" / file).exists():
            continue
        texts = [(src / "quitmt" / file).read_text("utf-8").splitlines() for src in (old, new)]
        blocks = difflib.SequenceMatcher(None, *texts, autojunk=False).get_matching_blocks()
        lines[file] = {one.a + i + 1: one.b + i + 1 for one in blocks for i in range(one.size)}
    found = {}
    for one in mutants:
        first, last = (lines.get(one.file, {}).get(line) for line in (one.line, one.end_line))
        if first and last and last - first == one.end_line - one.line:
            found[one] = replace(one, line=first, end_line=last)
    return found


def run_jobs(jobs: list[Job], core: Collection[str], warming: list[str], most: int, record: Record) -> None:
    """First those that take effect on import. Then, in a session that has collected all tests, those that leave kernels
    as they are, which a few tests load beforehand. Last those whose children compile kernels again."""
    for job in jobs:
        if not job.tests:
            record(job, "untested", "")
    jobs = [job for job in jobs if job.tests]

    def in_session(session: Any) -> None:
        for path in core:  # some are imported late, and a function must be there to be changed
            importlib.import_module(
                "quitmt." + path.rpartition("/quitmt/")[2][:-3].replace("/", ".").removesuffix(".__init__")
            )
        functions: dict[types.CodeType, list[Any]] = defaultdict(list)
        gc.unfreeze()  # the tests' conftest freezes all objects, which hides them from get_objects
        for one in gc.get_objects():
            if type(one) is types.FunctionType and one.__code__.co_filename in core:
                functions[one.__code__].append(one)
        patched = [(job, partial(run_patched, job, core, session, functions)) for job in jobs if job.functions]

        def warm(told: Path) -> int:
            run_items(session, warming, told)
            watch([one for one in patched if not one[0].compiles], most, record)
            return 0

        os.waitpid(fork(warm, Path(tempfile.gettempdir())), 0)
        watch([one for one in patched if one[0].compiles], most, record)

    watch([(job, partial(run_imported, job, core)) for job in jobs if not job.functions], most, record)
    run_pytest(Loop(in_session))


def read(path: str | Path) -> dict[Mutant, dict[str, str]]:
    """Mutants in the order of the file, and what became of them."""
    rows = [json.loads(line) for line in Path(path).read_text("utf-8").splitlines()]
    return {Mutant(**{one.name: row[one.name] for one in fields(Mutant)}): row for row in rows}


def show(args: argparse.Namespace) -> None:
    runs = [read(path) for path in args.results]
    shared = [mutant for mutant in runs[0] if all(mutant in run for run in runs)]
    killed = [{one for one in shared if run[one]["result"] in ("killed", "timeout")} for run in runs]
    print(
        "| | mutants |"
        + "".join(f" {Path(path).stem} |" for path in args.results)
        + "\n|---|"
        + "---:|" * (len(runs) + 1)
    )
    for package in [*sorted({one.package for one in shared}), ""]:
        own = {one for one in shared if package in ("", one.package)}
        print(f"| {package or 'all'} | {len(own)} |" + "".join(f" {len(own & one)} |" for one in killed))
    for place, path in enumerate(args.results):
        left = Counter(runs[place][one]["result"] for one in shared)
        print(f"\n{Path(path).stem}: " + ", ".join(f"{count} {result}" for result, count in left.most_common()))
    for title, some in (
        ("Killed by the first only", killed[0] - killed[-1]),
        ("By the last only", killed[-1] - killed[0]),
    ):
        print(f"\n{title}: {len(some)}", *sorted(map(str, some)), sep="\n")
    if args.survivors:
        print("\nNot killed by the last:", *sorted(str(one) for one in shared if one not in killed[-1]), sep="\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    running = commands.add_parser("run", help="run mutants")
    running.set_defaults(do=run)
    running.add_argument("--src", default=".", help="checkout or commit whose source is changed [default: .]")
    running.add_argument("--tests", default=".", help="checkout or commit whose tests are run [default: .]")
    running.add_argument("--out", required=True, help="file for the results, which is continued if it exists")
    running.add_argument("--same", help="results of another run, whose mutants are taken")
    running.add_argument("--moved-from", help="checkout or commit that --same was run on, if --src differs from it")
    running.add_argument("--mutants", type=int, default=300, help="size of the sample [default: 300]")
    running.add_argument("--seed", type=int, default=0, help="seed of the sample [default: 0]")
    running.add_argument("--seconds", type=float, default=6.0, help="CPU seconds of tests per mutant [default: 6]")
    running.add_argument("--jobs", type=int, default=2, help="mutants at a time [default: 2]")
    table = commands.add_parser("table", help="compare runs of the same mutants")
    table.set_defaults(do=show)
    table.add_argument("results", nargs="+", help="results of run")
    table.add_argument("--survivors", action="store_true", help="list mutants that no test of the last one kills")
    args = parser.parse_args()
    args.do(args)


if __name__ == "__main__":
    main()
