"""``quitmt lab``: studies of stopping rules on full pools, and their reports."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from tqdm import tqdm

from quitmt.errors import UsageError
from quitmt.lab import study

DESCRIPTION = """\
Study stopping rules on your own model and test set: sample full pools once, replay every rule on them, evaluate, and
report. Finished work is kept: an interrupted run continues where it was, and a changed setting redoes only what depends
on it."""

EXAMPLES = """\
examples:
  quitmt lab init study.toml --tsv news.tsv    # a study file with every setting explained
  quitmt lab run study.toml                    # study/report.html, tables and figures
  quitmt lab live study.toml                   # also run rules live: measured seconds beside estimated ones"""


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "lab",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    init = actions.add_parser("init", help="write a study file with every setting explained")
    init.add_argument(
        "study", nargs="?", default="study.toml", metavar="FILE", help="file to write [default: study.toml]"
    )
    init.add_argument("--tsv", default="NEWS.tsv", metavar="FILE", help="test set with source <tab> reference per line")
    init.add_argument(
        "--limit", type=int, default=200, metavar="N", help="number of segments, from the first [default: 200]"
    )
    init.add_argument("--output", default="study", metavar="FOLDER", help="folder for the results [default: study]")
    init.set_defaults(act=write_template)
    for name, what in (("run", "sample, replay, evaluate, report"), ("live", "do the same, and run rules live")):
        action = actions.add_parser(name, help=what)
        action.add_argument("study", metavar="STUDY.toml")
        action.add_argument(
            "--allow-functions",
            action="store_true",
            help="run the functions (MODULE:NAME) that the study names",
        )
        action.add_argument("-q", "--quiet", action="store_true", help="no progress bars")
        action.set_defaults(act=run)


def write_template(args: argparse.Namespace) -> int:
    path = Path(args.study)
    if path.exists():
        raise UsageError(f"{path} already exists", hint="name another file")
    if args.limit < 1:
        raise UsageError(f"--limit must be 1 or more, not {args.limit}")
    try:
        path.write_text(study.template(args.tsv, limit=args.limit, output=args.output), "utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None
    print(f"quitmt: wrote {path}; run it with: quitmt lab run {path}", file=sys.stderr)
    return 0


def run(args: argparse.Namespace) -> int:
    from quitmt.lab import pipeline
    from quitmt.lab.report import publish

    settings = study.load(args.study, allow_functions=args.allow_functions)
    quiet = args.quiet or sys.stderr is None or not sys.stderr.isatty()

    def bar(what: str, total: int, unit: str) -> Any:
        return tqdm(
            desc=what, total=total, unit=f" {unit}", disable=quiet, file=sys.stderr, dynamic_ncols=True, delay=0.3
        )

    results = pipeline.run(settings, bar, live=args.action == "live")
    report = publish.publish(results, Path(settings.output))
    print(f"quitmt: {report}", file=sys.stderr)
    return 0
