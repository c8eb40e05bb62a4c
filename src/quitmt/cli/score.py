"""``quitmt score``: score translations by any metrics. ``quitmt compare`` uses the same output formats.

If a metric fails or the run is interrupted, the scores of finished metrics are written.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import chain
from typing import Any

from quitmt.cli import scoring
from quitmt.evaluate.report import Report, numbers, to_fields
from quitmt.files.outputs import STDOUT, Output

FAILED = 1
FORMATS = ("text", "json", "csv")

DESCRIPTION = """\
Score translations, one per line, against references, sources or both. One table compares
several systems. sacrebleu's metrics combine several references themselves; models and functions average over them."""

EXAMPLES = """\
examples:
  quitmt score -t news.pt -r news.ref.pt
  quitmt score -t full.pt quit.pt -r news.ref.pt -m chrf++ bleu
  quitmt score -s news.en -t quit.outcomes.jsonl -r ref1.pt ref2.pt -m comet metricx --dtype bfloat16
  quitmt score -s news.en -t quit.pt -m kiwi                           # needs no reference
  quitmt score -s news.en -t quit.pt -m gemba:openai:MODEL --src en --tgt pt --base-url http://localhost:8000/v1
  quitmt score -t quit.pt -r news.ref.pt -m my_metrics:length_ratio    # a function in ./my_metrics.py
  quitmt score -t full.pt quit.pt -r news.ref.pt --format json --segments -o scores.json   # for quitmt compare"""


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "score",
        description=DESCRIPTION,
        epilog=scoring.NAMES + EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "-t",
        "--translations",
        nargs="+",
        required=True,
        metavar="FILE",
        help="translations, one file per system: one per line, or quitmt outcomes (--jsonl); may be gzipped",
    )
    scoring.add_judging(parser)
    add_result(parser)
    parser.add_argument("--segments", action="store_true", help="also write the scores of single segments")
    parser.set_defaults(act=act)


def add_result(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default="text",
        help="output format; json and csv have exact numbers [default: text]",
    )
    parser.add_argument("-o", "--output", metavar="FILE", default=STDOUT, help="output file [default: stdout]")
    parser.add_argument("-q", "--quiet", action="store_true", help="hide progress bars and warnings")


def act(args: argparse.Namespace) -> int:
    work = scoring.prepare(args, args.translations)
    render = {"text": as_text, "json": as_json, "csv": as_csv}[args.format]
    output = Output(args.output)
    failure: str | None = None
    with closing(output):
        try:
            work.load()
            failure = work.run()
        finally:
            if work.report.columns:
                for line in render(work.report, segments=args.segments):
                    output.write(line)
    return conclude(failure)


def conclude(failure: str | None) -> int:
    if failure:
        print(f"quitmt: {failure}", file=sys.stderr)
    return FAILED if failure else 0


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
    for name in report.columns:
        yield from report.warnings(name)
    yield from signatures(report)
    if segments:
        yield ""
        yield "\t".join(("segment", "system", *report.columns))
        for number in range(report.segments):
            for system in report.systems:
                scores = ((c.scores[system].segments[number], c.decimals) for c in report.columns.values())
                cells = ("-" if math.isnan(score) else f"{score:.{decimals}f}" for score, decimals in scores)
                yield "\t".join((str(number + 1), system, *cells))


def signatures(report: Report) -> Iterator[str]:
    for name, column in report.columns.items():
        yield f"{name} {column.arrow} {'lower' if column.lower_is_better else 'higher'} is better; {column.signature}"


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Align the first column left, the others right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        yield "  ".join(cells).rstrip()


def as_json(report: Report, *, segments: bool) -> Iterator[str]:
    fields = to_fields(report, segments=segments)
    yield json.dumps(fields, ensure_ascii=False, indent=None if segments else 2, allow_nan=False)


def as_csv(report: Report, *, segments: bool) -> Iterator[str]:
    """One row per score. The segment is empty for a whole system; the score is empty for a segment without one."""
    yield csv_line(("system", "metric", "segment", "score"))
    for system in report.systems:
        for name, column in report.columns.items():
            scores = column.scores[system]
            single = enumerate(numbers(scores), start=1) if segments else ()
            for number, score in chain((("", scores.system),), single):
                yield csv_line((system, name, number, score))


def csv_line(cells: Sequence[object]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(cells)
    return text.getvalue()
