"""``quitmt score``: how good translations are, by any metrics. What it shares with ``quitmt compare`` is here as well.

Everything that can be wrong with files and settings is found before a metric is loaded, and every metric is loaded
before one is run. If one fails then, or the run is interrupted, the scores of those that have finished are written.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import io
import json
import logging
import os
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from typing import Any

from tqdm import tqdm

from quitmt.cli import options
from quitmt.corpus import one_line
from quitmt.errors import InputError, QuitmtError, UsageError
from quitmt.evaluate.metrics import METRICS, Metric, TestSet, find
from quitmt.evaluate.report import Report, to_fields
from quitmt.files.lines import STDIN, read_lines
from quitmt.files.outputs import STDOUT, Output
from quitmt.metrics.scorer import Hardware

log = logging.getLogger(__name__)

FAILED = 1
FORMATS = ("text", "json", "csv")

DESCRIPTION = """\
Score translations, one a line, against references, sources or both. Several systems stand beside each other in one
table; several references count as sacrebleu counts them, and as the mean over them for models and functions."""

EXAMPLES = """\
examples:
  quitmt score -t news.pt -r news.ref.pt
  quitmt score -t full.pt quit.pt -r news.ref.pt -m chrf++ bleu
  quitmt score -s news.en -t quit.outcomes.jsonl -r ref1.pt ref2.pt -m comet metricx --dtype bfloat16
  quitmt score -s news.en -t quit.pt -m kiwi                           # needs no reference
  quitmt score -t quit.pt -r news.ref.pt -m my_metrics:length_ratio    # a function in ./my_metrics.py
  quitmt score -t full.pt quit.pt -r news.ref.pt --format json --segments -o scores.json   # for quitmt compare"""

NAMES = options.listed("metrics (NAME, or NAME:MODEL for another checkpoint of a neural one)", METRICS)


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "score",
        help="score translations by chrF++, COMET, … or a function of yours",
        description=DESCRIPTION,
        epilog=NAMES + EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "-t",
        "--translations",
        nargs="+",
        required=True,
        metavar="FILE",
        help="of one system each: text, a translation a line, or outcomes of quitmt (--jsonl); gzip or not",
    )
    add_judging(parser)
    add_result(parser)
    parser.add_argument("--segments", action="store_true", help="the scores of single segments as well")
    parser.set_defaults(act=act)


def add_judging(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-s", "--sources", metavar="FILE", help="what was translated, a segment a line")
    parser.add_argument(
        "-r", "--references", nargs="+", default=[], metavar="FILE", help="one or more, a segment a line"
    )
    parser.add_argument("-m", "--metrics", nargs="+", metavar="NAME", help="chrf++, or others of the list below")
    group = parser.add_argument_group("neural metrics")
    group.add_argument("--device", help="cpu, cuda, mps (the best there is)")
    group.add_argument("--dtype", help="float32, bfloat16, … (float32)")
    group.add_argument("--batch-tokens", type=int, metavar="N", help="tokens scored together (as suits the device)")


def add_result(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--format", choices=FORMATS, default="text", help="of the result (text); the others are exact")
    parser.add_argument("-o", "--output", metavar="FILE", default=STDOUT, help="where to (stdout)")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress bars and no remarks")


def act(args: argparse.Namespace) -> int:
    scoring = prepare(args, args.translations)
    render = {"text": as_text, "json": as_json, "csv": as_csv}[args.format]
    output = Output(args.output)
    failure: str | None = None
    with closing(output):
        try:
            scoring.load()
            failure = scoring.run()
        finally:
            if scoring.report.columns:
                for line in render(scoring.report, segments=args.segments):
                    output.write(line)
    return conclude(failure)


def conclude(failure: str | None) -> int:
    if failure:
        print(f"quitmt: {failure}", file=sys.stderr)
    return FAILED if failure else 0


@dataclass(slots=True)
class Scoring:
    """Systems on their way to a report."""

    specs: Sequence[str]
    hardware: Hardware
    test_set: TestSet
    systems: dict[str, list[str]]
    report: Report
    metrics: deque[Metric]
    quiet: bool

    def load(self) -> None:
        for spec in self.specs:
            entry, argument = find(spec)
            metric = entry.make(argument, self.hardware)
            if metric.name in {other.name for other in self.metrics}:
                raise UsageError(f"two metrics would both be called {metric.name}", hint="score them in two runs")
            self.metrics.append(metric)

    def run(self) -> str | None:
        """Fill the report, metric by metric; what to say if one fails, which ends it."""
        texts = list(self.systems.values())
        while self.metrics:
            metric = self.metrics.popleft()  # its memory is free for the next one when it has finished
            with self._bar(metric.name, len(texts) * len(texts[0])) as bar:
                try:
                    self.report.add(metric, metric.evaluate(self.test_set, texts, bar.update))
                except Exception as error:
                    log.debug("%s failed", metric.name, exc_info=error)
                    if isinstance(error, QuitmtError):
                        return str(error)
                    return f"{metric.name} failed: {type(error).__name__}: {' '.join(str(error).split())}"
        return None

    def _bar(self, name: str, total: int) -> Any:
        return tqdm(
            desc=name,
            total=total,
            unit=" segments",
            disable=self.quiet or sys.stderr is None or not sys.stderr.isatty(),
            file=sys.stderr,
            dynamic_ncols=True,
            leave=False,
            delay=0.3,
        )


def prepare(args: argparse.Namespace, translations: Sequence[str]) -> Scoring:
    """Check everything that costs little to check, and read the files."""
    specs = args.metrics or ["chrf++"]
    _refuse_twice("metric", specs)
    _refuse_twice("file", translations)
    for spec in specs:
        entry, _ = find(spec)
        if entry.needs_source and args.sources is None:
            raise UsageError(f"the metric {spec} needs the sources", hint="-s FILE")
        if entry.needs_reference and not args.references:
            raise UsageError(f"the metric {spec} needs a reference", hint="-r FILE")
    hardware = Hardware(args.device, args.dtype, args.batch_tokens)
    inputs = [*([] if args.sources is None else [args.sources]), *args.references, *translations]
    check_paths(args.output, inputs)
    sources = None if args.sources is None else tuple(read_texts(args.sources))
    references = tuple(tuple(read_texts(path)) for path in args.references)
    systems = {path: read_translations(path, quiet=args.quiet) for path in translations}
    everything = ([] if sources is None else [sources]) + [*references, *systems.values()]
    check_sizes({path: len(texts) for path, texts in zip(inputs, everything, strict=True)})
    report = Report(tuple(systems))
    return Scoring(specs, hardware, TestSet(sources, references), systems, report, deque(), args.quiet)


def check_paths(output: str, inputs: Iterable[str]) -> None:
    for path in inputs:
        if path == STDIN:
            raise UsageError("standard input cannot be scored", hint="name a file")
        if output != STDOUT and os.path.realpath(path) == os.path.realpath(output):
            raise UsageError(f"{path} is an input of this run and would be overwritten", hint="write to another file")


def check_sizes(sizes: dict[str, int]) -> None:
    (first, expected), *_ = sizes.items()
    for path, size in sizes.items():
        if not size:
            raise InputError(f"{path} is empty")
        if size != expected:
            raise InputError(f"{path} has {size} lines, but {first} has {expected}")


def _refuse_twice(kind: str, names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"the {kind} {name} is named twice")


def read_texts(path: str) -> list[str]:
    async def collect() -> list[str]:
        return [line async for line in read_lines(path)]

    return asyncio.run(collect())


def read_translations(path: str, *, quiet: bool = False) -> list[str]:
    """A translation a line, or outcomes: the first line tells."""
    lines = read_texts(path)
    if not lines or outcome_fields(lines[0]) is None:
        return lines
    translations, failed = [], 0
    for number, line in enumerate(lines, start=1):
        outcome = outcome_fields(line)
        if outcome is None:
            raise InputError(f"{path}, line {number}: not an outcome with a translation, as those before it")
        translations.append(one_line(outcome["translation"]))
        failed += outcome.get("stop") == "failed"
    if failed and not quiet:
        print(f"quitmt: {path}: {failed} segments failed and are scored with what they have", file=sys.stderr)
    return translations


def outcome_fields(line: str) -> dict[str, Any] | None:
    """The fields of an outcome, if that is what a line is."""
    if not line.lstrip().startswith("{"):
        return None
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and isinstance(found.get("translation"), str) else None


def as_text(report: Report, *, segments: bool) -> Iterator[str]:
    rows = [["", *(f"{name} {column.arrow}" for name, column in report.columns.items())]]
    for system in report.systems:
        row = [system]
        for column in report.columns.values():
            score = column.scores[system].system
            mark = "*" if len(report.systems) > 1 and score == column.best else " "
            row.append(f"{score:.{column.decimals}f}{mark}")
        rows.append(row)
    rows[0][1:] = [f"{title} " for title in rows[0][1:]]  # above the numbers, not above their marks
    yield from aligned(rows)
    yield ""
    if len(report.systems) > 1:
        yield "* the best"
    yield from signatures(report)
    if segments:
        yield ""
        yield "\t".join(("segment", "system", *report.columns))
        for number in range(report.segments):
            for system in report.systems:
                scores = (f"{c.scores[system].segments[number]:.{c.decimals}f}" for c in report.columns.values())
                yield "\t".join((str(number + 1), system, *scores))


def signatures(report: Report) -> Iterator[str]:
    for name, column in report.columns.items():
        yield f"{name} {column.arrow} {'lower' if column.lower_is_better else 'higher'} is better; {column.signature}"


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        yield "  ".join(cells).rstrip()


def as_json(report: Report, *, segments: bool) -> Iterator[str]:
    yield json.dumps(to_fields(report, segments=segments), ensure_ascii=False, indent=None if segments else 2)


def as_csv(report: Report, *, segments: bool) -> Iterator[str]:
    """A row a score; those of whole systems have no segment."""
    yield csv_line(("system", "metric", "segment", "score"))
    for system in report.systems:
        for name, column in report.columns.items():
            scores = column.scores[system]
            single = enumerate(scores.segments.tolist(), start=1) if segments else ()
            for number, score in chain((("", scores.system),), single):
                yield csv_line((system, name, number, score))


def csv_line(cells: Sequence[object]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(cells)
    return text.getvalue()
