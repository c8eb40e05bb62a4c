"""Where the results of a run go: outputs and the journal beside them, opened before any work is done."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from quitmt._version import __version__
from quitmt.cli.run import Outputs
from quitmt.engine.driver import Driver
from quitmt.errors import OutputError, UsageError
from quitmt.files.journal import Journal
from quitmt.files.outputs import STDOUT, Output
from quitmt.recipe.build import Built


def tell(built: Built, *, quiet: bool) -> None:
    """Which rule a wish was granted by."""
    if built.granted and not quiet:
        print(f"quitmt: stopping by {built.granted}", file=sys.stderr)


def settings_of(built: Built, driver: Driver) -> dict[str, Any]:
    """What changes the results, for the journal: the fields of the recipe, and the signature of what it came to."""
    found = {
        f"{section}.{name}": value
        for section, fields in built.recipe.of_results().items()
        for name, value in fields.items()
    }
    return {**found, "what produces the results": driver.signature}


def open_results(
    args: argparse.Namespace, settings: dict[str, Any], budget: int, inputs: list[str]
) -> tuple[Outputs, Journal | None]:
    """Open everything that will be written, before any work is done; ``settings`` are for the journal."""
    _check_paths(args, [*inputs, *(path for path in (args.recipe, getattr(args, "stop.profile")) if path)])
    journal = _open_journal(args, settings)
    outputs = Outputs(budget)
    try:
        _open_outputs(args, outputs)
    except OutputError:
        outputs.close()
        if journal:
            journal.close(done=False)
        raise
    return outputs, journal


def _named(args: argparse.Namespace) -> list[str]:
    paths = (args.output, args.jsonl, getattr(args, "keep_pools", None))
    return [path for path in paths if path and path != STDOUT]


def _check_paths(args: argparse.Namespace, inputs: list[str]) -> None:
    files = [path for path in _named(args) if Path(path).is_file() or not Path(path).exists()]
    written = [os.path.realpath(path) for path in [*files, *(f"{path}.journal" for path in files[:1])]]
    for path in inputs:
        if os.path.realpath(path) in written:
            raise UsageError(f"{path} is an input of this run and would be overwritten", hint="write to another file")
    if len(set(written)) < len(written):
        raise UsageError("two outputs would go to the same file", hint="OUTPUT.journal is one of them")
    if args.show and args.jsonl == STDOUT:
        raise UsageError("--show and --jsonl both want the main output", hint="give --jsonl a FILE")


def _open_journal(args: argparse.Namespace, settings: dict[str, Any]) -> Journal | None:
    """The journal beside the first file that is written; none if everything goes to standard output."""
    # A device such as /dev/null keeps nothing that could be continued.
    files = [path for path in _named(args) if Path(path).is_file() or not Path(path).exists()]
    if not files:
        if args.resume:
            raise UsageError("--resume needs a file to continue", hint="write the output to one with -o FILE")
        return None
    pools = bool(getattr(args, "keep_pools", None))
    settings = {**settings, "--keep-pools": pools, "version": __version__}
    journal = Journal.beside(files[0], settings, keep_candidates=pools)
    done = journal.start(resume=args.resume)
    if done and not args.quiet:
        print(f"quitmt: continuing after {done} finished segments", file=sys.stderr)
    elif args.resume and not args.quiet and Path(files[0]).is_file():
        print("quitmt: no unfinished run is there to resume: starting from the beginning", file=sys.stderr)
    return journal


def _open_outputs(args: argparse.Namespace, outputs: Outputs) -> None:
    pools = getattr(args, "keep_pools", None)
    if args.jsonl == STDOUT:
        outputs.outcomes = Output(args.output)
    else:
        outputs.outcomes = Output(args.jsonl) if args.jsonl else None
        main = Output(args.output)
        outputs.show, outputs.text = (main, None) if args.show else (None, main)
    outputs.pools = Output(pools) if pools else None
