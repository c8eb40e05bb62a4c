"""``quitmt batch``: translates files on one or many machines."""

from __future__ import annotations

import argparse
import math
import shlex
import sys
import time
from typing import TYPE_CHECKING, Any

from quitmt.batch.job import ROWS_PER_FILE  # needs no extra
from quitmt.cli import options
from quitmt.errors import MissingExtra, counted
from quitmt.types import StopReason
from quitmt.warnings import ADVICE

if TYPE_CHECKING:
    from quitmt.batch.plan import BatchPlan
    from quitmt.batch.run import BatchSummary
    from quitmt.batch.tally import PartTally

DESCRIPTION = """\
Translate files of any size with Ray, on this machine or a cluster. Reads Parquet, JSON lines, CSV, TSV and plain text;
writes Parquet or JSON lines. Each worker has its own engine. After any interruption, rerun the same command to
continue: every row is translated exactly once. For one machine and one file, quitmt translate is simpler."""

EXAMPLES = """\
examples:
  quitmt batch 'corpus/*.txt.gz' --output out --workers 2
  quitmt batch 'corpus/*.parquet' --source-column text --id-column doc --output out --recipe my.toml
  quitmt batch 'corpus/*.txt' --output out --distinct --text corpus.pt     # each distinct line once; also plain text
  quitmt batch 's3://bucket/en/*.parquet' --output s3://bucket/pt --address auto --workers 2-8 --gpus-per-worker 1
  quitmt batch 'corpus/*.txt' --output out --retry-failed                  # translate failed rows again"""

LINE_SECONDS = 30.0
"""Seconds between progress lines if standard error isn't a terminal."""
LEAST_HOURS = 0.01
"""Smaller costs aren't shown."""


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "batch",
        description=f"{DESCRIPTION}\n\n{EXAMPLES}",  # the lists at the end are long
        epilog=options.models() + options.names(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "inputs", nargs="+", metavar="INPUT", help="files, folders, addresses such as s3://…, or patterns of them"
    )
    parser.add_argument("-o", "--output", required=True, metavar="DIR", help="folder for the results")
    _add_columns(parser)
    _add_results(parser)
    _add_workers(parser)
    options.add_recipe(parser, "model", "rerank", "stop", "run")
    parser.add_argument("-q", "--quiet", action="store_true", help="show no progress and no summary")
    parser.set_defaults(act=act)


def _add_columns(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("input")
    group.add_argument(
        "--input-format", metavar="FORMAT",
        help="parquet, jsonl, csv, tsv or text [default: by the file name extensions]",
    )  # fmt: skip
    group.add_argument(
        "--source-column", default="source", metavar="NAME", help="column of the texts [default: source]"
    )
    group.add_argument(
        "--id-column", metavar="NAME", help="column of ids, unique in all files [default: FILE:LINE as the id]"
    )
    group.add_argument("--context-column", metavar="NAME", help="column of the preceding text, for chat models")
    group.add_argument("--no-header", action="store_true", help="csv and tsv without a header; columns are 1, 2, 3, …")
    group.add_argument("--distinct", action="store_true", help="translate each distinct text only once")


def _add_results(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("results")
    group.add_argument(
        "--output-format", default="parquet", metavar="FORMAT", help="parquet or jsonl [default: parquet]"
    )
    group.add_argument(
        "--rows-per-file", type=int, default=ROWS_PER_FILE, metavar="N",
        help=f"rows per output file; fewer rows mean less rework after a crash [default: {ROWS_PER_FILE}]",
    )  # fmt: skip
    group.add_argument("--text", metavar="FILE", help="also write plain translations to FILE, in the input's order")
    group.add_argument("--retry-failed", action="store_true", help="translate failed rows again")


def _add_workers(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("workers")
    group.add_argument(
        "--workers", default="1", metavar="N", help="number of workers, or a range for Ray such as 2-8 [default: 1]"
    )
    group.add_argument(
        "--gpus-per-worker", type=float, default=0.0, metavar="G",
        help="GPUs per worker; 0.5 lets two workers share a GPU [default: 0]",
    )  # fmt: skip
    group.add_argument(
        "--cpus-per-worker", type=float, default=1.0, metavar="C",
        help="cores per worker; use 0.25 for workers that mostly wait for servers [default: 1]",
    )  # fmt: skip
    group.add_argument(
        "--address", metavar="HOST:PORT", help="Ray cluster; auto means this machine's cluster [default: a new Ray]"
    )
    group.add_argument("--working-dir", metavar="DIR", help="folder with your own code, copied to every worker")


def act(args: argparse.Namespace) -> int:
    try:
        import fsspec  # noqa: F401  # not part of a plain install
        import pyarrow  # noqa: F401

        from quitmt.batch.cluster import WorkerPool
        from quitmt.batch.job import BatchJob
        from quitmt.batch.plan import refuse_output_as_input
        from quitmt.batch.rows import InputColumns
        from quitmt.batch.run import run
    except ImportError as error:
        raise MissingExtra(f"quitmt batch needs {error.name}", hint="pip install 'quitmt[batch]'") from None
    columns = InputColumns(args.source_column, args.id_column, args.context_column, not args.no_header)
    job = BatchJob(
        tuple(args.inputs),
        args.output,
        options.recipe_of(args),
        columns,
        args.input_format,
        args.output_format,
        args.rows_per_file,
        args.distinct,
    )
    refuse_output_as_input(job)
    pool = WorkerPool.sized(
        args.workers,
        gpus=args.gpus_per_worker,
        cpus=args.cpus_per_worker,
        address=args.address,
        working_dir=args.working_dir,
        debug=args.debug,
    )
    progress = BatchProgress(quiet=args.quiet)
    try:
        summary = run(job, pool, progress, retry_failed=args.retry_failed, text=args.text)
    except KeyboardInterrupt:
        progress.close()
        print("quitmt: interrupted; rerun the same command to continue", file=sys.stderr)
        return 130
    finally:
        progress.close()
    return _report(summary, args)


def _report(summary: BatchSummary, args: argparse.Namespace) -> int:
    total, plan = summary.total, summary.plan
    if not args.quiet:
        for line in summary_lines(plan, total, summary.seconds, summary.workers, args.gpus_per_worker):
            print(f"quitmt: {line}", file=sys.stderr)
    if not total.failed:
        return 0
    first = "; the first error" if total.failed > 1 else ""
    print(f"quitmt: {counted(total.failed, 'segment')} failed{first}: {total.error}", file=sys.stderr)
    again = args.words if args.retry_failed else [*args.words, "--retry-failed"]
    print(f"quitmt: to translate them again: {shlex.join(['quitmt', *again])}", file=sys.stderr)
    return 1


def summary_lines(plan: BatchPlan, total: PartTally, seconds: float, workers: int, gpus: float) -> list[str]:
    """The results of a job, its cost, and the cost of full budgets."""
    from quitmt.cli.progress import explained

    lines = []
    once = f", {plan.distinct:,} of them distinct" if plan.distinct < plan.rows else ""
    rows, files = counted(plan.rows, "row"), counted(len(plan.parts), "file")
    stops = ", ".join(f"{count:,} {explained(StopReason(stop))}" for stop, count in total.stops.most_common())
    lines.append(f"{rows}{once}, in {files}; {stops or 'nothing to translate'}")
    if total.possible:
        full = f"full budgets would have taken {total.possible:,}"
        lines.append(f"{total.candidates:,} candidates; {full} ({total.saved:.1%} saved)")
    if seconds:
        hours = seconds * workers / 3600
        of_gpus = f", {hours * gpus:.2f} GPU hours" if gpus else ""
        spent = f", at most {hours:.2f} worker hours{of_gpus}" if hours >= LEAST_HOURS else ""
        lines.append(f"{counted(round(seconds), 'second')} in this run{spent}")
    lines += [f"{warning} in {counted(total.warnings[warning], 'row')}: {advice}"
              for warning, advice in ADVICE.items() if total.warnings[warning]]  # fmt: skip
    if len(total.signatures) > 1:
        lines.append("several model versions made the results; compare their signatures")
    return lines


class BatchProgress:
    """A progress bar on a terminal; otherwise a line every half minute."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet, self._printed = quiet, time.monotonic()
        self._bar: Any = None
        self._total = self._before = 0
        self._begun = 0.0

    def say(self, message: str) -> None:
        if not self._quiet:
            print(f"quitmt: {message}", file=sys.stderr)

    def planned(self, plan: BatchPlan, done: PartTally) -> None:
        from tqdm import tqdm

        self._total, self._before, self._begun = plan.distinct, done.rows, time.monotonic()
        if done.rows:
            message = f"continuing after {done.rows:,} of {plan.distinct:,} segments"
            self.say(message if done.rows < plan.distinct else "this job is already complete")
        terminal = sys.stderr is not None and sys.stderr.isatty()
        self._bar = tqdm(
            total=plan.distinct, initial=done.rows, unit="segment", disable=self._quiet or not terminal,
            file=sys.stderr, dynamic_ncols=True, smoothing=0.05,
        )  # fmt: skip

    def progress(self, total: PartTally) -> None:
        if self._bar is None:
            return
        if not self._bar.disable:
            failed = f", {total.failed} failed" if total.failed else ""
            self._bar.set_postfix_str(f"{total.candidates:,} candidates, {total.saved:.0%} saved{failed}")
            self._bar.update(total.rows - self._bar.n)
        elif time.monotonic() - self._printed > LINE_SECONDS:
            self._printed = time.monotonic()
            self.say(self.line(total, time.monotonic() - self._begun))

    def line(self, total: PartTally, seconds: float) -> str:
        rate = (total.rows - self._before) / seconds if seconds else 0.0
        minutes = (self._total - total.rows) / rate / 60 if rate else 0.0
        left = f", about {counted(math.ceil(minutes), 'minute')} left" if rate else ""
        done = f"{total.rows:,} of {self._total:,} segments, {rate:.1f} per second{left}"
        return f"{done}; {total.candidates:,} candidates, {total.saved:.0%} saved; {total.failed:,} failed"

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None
