"""``quitmt export``: makes training data from scored candidates."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from quitmt.cli import options
from quitmt.export import ExportSettings, export
from quitmt.export.choose import MARGIN, REJECTED
from quitmt.export.filters import FILTERS, RATIO
from quitmt.export.formats import FORMATS

DESCRIPTION = """\
Make training data from scored candidates: from pools with scores (--keep-pools) or from outcomes with n-best lists
(--jsonl with --nbest). The name of the output determines its format: .parquet, .jsonl or .jsonl.gz."""

EXAMPLES = """\
examples:
  quitmt translate mono.en -o mono.pt --keep-pools pools.jsonl.gz
  quitmt export pools.jsonl.gz --as parallel -o mono.tsv --tgt pt                       # a distilled corpus
  quitmt export pools.jsonl.gz --as parallel -o train.en --targets train.pt             # the same as two files
  quitmt export pools.jsonl.gz --as dpo -o pairs.parquet --chat --prompt instruct --src en --tgt pt
  quitmt export pools.jsonl.gz --as dpo -o pairs.jsonl --rejected greedy --min-margin 1sd
  quitmt export outcomes.jsonl --as sft -o sft.jsonl                                    # needs no n-best lists"""
ROWS = {"sft": "rows", "parallel": "lines", "dpo": "pairs", "kto": "rows", "ranked": "rows", "reward": "rows"}


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "export",
        description=DESCRIPTION,
        epilog=options.listed("formats", {name: one.meaning for name, one in FORMATS.items()})
        + options.listed("filters", FILTERS)
        + EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("inputs", nargs="+", metavar="FILE", help="pools or outcomes as JSON lines; - means stdin")
    parser.add_argument("--as", dest="format", required=True, metavar="FORMAT", help="one of the formats below")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="new file; - means JSON lines on stdout")
    parser.add_argument("--targets", metavar="FILE", help="parallel: second of two text files")
    _add_choice(parser.add_argument_group("choice of candidates"))
    _add_form(parser.add_argument_group("output format"))
    parser.add_argument("-q", "--quiet", action="store_true", help="show no summary")
    parser.set_defaults(act=act)


def _add_choice(group: Any) -> None:
    group.add_argument("--score", metavar="NAME", help="score of the pools to use, if they have several")
    group.add_argument(
        "--rejected", metavar="HOW", default=REJECTED,
        help=f"dpo, kto: worst, quantile:Q (of the samples) or greedy [default: {REJECTED}]",
    )  # fmt: skip
    group.add_argument(
        "--min-margin", metavar="M", default=MARGIN,
        help="dpo, kto: minimum difference of the scores, or as 1sd in standard deviations of the source's candidates "
        f"[default: {MARGIN}]",
    )  # fmt: skip
    group.add_argument(
        "--pairs", type=int, metavar="N", default=1, help="dpo, kto: maximum pairs per source [default: 1]"
    )
    group.add_argument("--filters", metavar="LIST", help="comma-separated filters, or none [default: all]")
    group.add_argument(
        "--max-ratio", type=float, metavar="R", default=RATIO,
        help=f"maximum length ratio for the filter length [default: {RATIO:g}]",
    )  # fmt: skip


def _add_form(group: Any) -> None:
    group.add_argument("--prompt", metavar="NAME", help="prompt template, or a file with one [default: the source]")
    group.add_argument("--chat", action="store_true", help="write prompts and completions as chat messages")
    group.add_argument("--src", metavar="LANG", help="source language, for templates")
    group.add_argument("--tgt", metavar="LANG", help="target language, for templates and the filter language")
    group.add_argument("--trainer-columns", action="store_true", help="write only the columns that trainers read")


def act(args: argparse.Namespace) -> int:
    settings = ExportSettings(
        args.format,
        args.score,
        args.rejected,
        args.min_margin,
        args.pairs,
        args.filters,
        args.max_ratio,
        args.prompt,
        args.chat,
        (args.src, args.tgt),
        not args.trainer_columns,
        args.targets,
    )
    summary = export(args.inputs, args.output, settings)
    if not args.quiet:
        for line in summary.lines(ROWS[args.format]):
            print(f"quitmt: {line}", file=sys.stderr)
    return 0
