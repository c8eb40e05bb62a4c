"""``quitmt export``: training data from scored candidates."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from quitmt.cli import options
from quitmt.errors import UsageError
from quitmt.export import ExportSettings, export
from quitmt.export.choose import MARGIN, REJECTED
from quitmt.export.export import default_entry
from quitmt.export.filters import FILTERS, RATIO
from quitmt.export.formats import FORMATS
from quitmt.files.outputs import STDOUT

DESCRIPTION = """\
Make training data of scored candidates: of pools that were kept with their scores (--keep-pools), or of outcomes with
n-best lists (--jsonl with --nbest). The name of the output says what it is: .parquet, .jsonl or .jsonl.gz."""

EXAMPLES = """\
examples:
  quitmt translate mono.en -o mono.pt --keep-pools pools.jsonl.gz
  quitmt export pools.jsonl.gz --as parallel -o mono.tsv --tgt pt                       # a distilled corpus
  quitmt export pools.jsonl.gz --as parallel -o train.en --targets train.pt             # … as two files
  quitmt export pools.jsonl.gz --as dpo -o pairs.parquet --chat --prompt instruct --src en --tgt pt
  quitmt export pools.jsonl.gz --as dpo -o pairs.jsonl --rejected greedy --min-margin 1sd
  quitmt export outcomes.jsonl --as sft -o sft.jsonl --llama-factory                    # needs no n-best lists"""
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
    parser.add_argument("inputs", nargs="+", metavar="FILE", help="pools or outcomes, as JSON lines; - is stdin")
    parser.add_argument("--as", dest="format", required=True, metavar="FORMAT", help="one of the formats below")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="a new file; - is stdout, in JSON lines")
    parser.add_argument("--targets", metavar="FILE", help="parallel: the second of two text files")
    _add_choice(parser.add_argument_group("which candidates"))
    _add_form(parser.add_argument_group("how they are written"))
    parser.add_argument("-q", "--quiet", action="store_true", help="no summary")
    parser.set_defaults(act=act)


def _add_choice(group: Any) -> None:
    group.add_argument("--score", metavar="NAME", help="the score of the pools to go by, where they have several")
    group.add_argument(
        "--rejected", metavar="HOW", default=REJECTED,
        help=f"dpo, kto: worst, quantile:Q (of the samples), different (by chrF) or greedy ({REJECTED})",
    )  # fmt: skip
    group.add_argument(
        "--min-margin", metavar="M", default=MARGIN,
        help="dpo, kto: how much better the chosen one must be, in units of the score, or as 1sd, in standard "
        f"deviations of the source's candidates ({MARGIN})",
    )  # fmt: skip
    group.add_argument("--pairs", type=int, metavar="N", default=1, help="dpo, kto: pairs per source at most (1)")
    group.add_argument("--filters", metavar="LIST", help="some of the filters below, with commas, or none (all)")
    group.add_argument(
        "--max-ratio", type=float, metavar="R", default=RATIO, help=f"of the filter length ({RATIO:g})"
    )  # fmt: skip


def _add_form(group: Any) -> None:
    group.add_argument(
        "--prompt", metavar="NAME", help="a prompt template, or a file with one (the prompt is the source itself)"
    )
    group.add_argument("--chat", action="store_true", help="prompts and completions as messages of a chat")
    group.add_argument("--src", metavar="LANG", help="source language, for templates that name it")
    group.add_argument("--tgt", metavar="LANG", help="target language, for the same, and for the filter language")
    group.add_argument(
        "--trainer-columns", action="store_true", help="only the columns that trainers read, without scores and origins"
    )
    group.add_argument(
        "--llama-factory", metavar="NAME", nargs="?", const="",
        help="add an entry NAME to the dataset_info.json beside the output (NAME: that of the file)",
    )  # fmt: skip


def act(args: argparse.Namespace) -> int:
    if args.output == STDOUT and args.llama_factory is not None:
        raise UsageError("--llama-factory needs a file", hint="give -o FILE")
    entry = default_entry(args.output) if args.llama_factory == "" else args.llama_factory
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
        entry,
    )
    summary = export(args.inputs, args.output, settings)
    if not args.quiet:
        for line in summary.told(ROWS[args.format]):
            print(f"quitmt: {line}", file=sys.stderr)
    return 0
