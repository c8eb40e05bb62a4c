"""``quitmt translate``: lines in, lines out."""

from __future__ import annotations

import argparse
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from quitmt.cli import options, results
from quitmt.cli.inputs import Sentences, TextInput, parse_shard, shard_of
from quitmt.cli.run import Run, Source, add_support, begin, execute, recipe_of
from quitmt.engine.driver import Item
from quitmt.errors import UsageError, setting
from quitmt.files.lines import STDIN, count_lines, name_of
from quitmt.plan.build import build
from quitmt.plan.recipe import Recipe
from quitmt.plan.resolve import resolve
from quitmt.protocols import RerankerTraits, traits_of
from quitmt.rerank.anchors import TEXTS

DESCRIPTION = """\
Translate lines of text. Each line gets a few candidates at a time, which are reranked, until more candidates would
not help. One line in is one line out, in order. A blank line stays blank."""

EXAMPLES = """\
examples:
  echo "The weather is nice today." | quitmt translate
  quitmt translate news.en -o news.pt --jsonl news.outcomes.jsonl
  quitmt translate news.en -o news.pt --resume              # after a crash or Ctrl-C
  quitmt translate news.en -o news.pt --run-deadline 600    # finish within ten minutes
  quitmt translate news.en --rerank qe:likelihood -w 4 -o news.pt
  quitmt translate news.en --filter qe:likelihood --keep 32 -o news.pt       # MBR among the 32 best by QE
  quitmt translate --src pt --tgt en carta.pt               # the other direction
  quitmt translate letter.en --split -o letter.pt           # lines that are paragraphs
  quitmt translate news.en -o news.pt --recipe my.toml      # settings from a file (quitmt recipe)
  quitmt translate news.en --shard 3/8 -o news.3.pt         # the third of eight parts; join them with cat
  quitmt translate news.en --stop full --keep-pools pools.jsonl -o full.pt   # sample once, replay with rerank"""


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "translate",
        description=DESCRIPTION,
        epilog=options.models() + options.names() + EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("input", nargs="?", metavar="FILE", help="text, one segment per line [default: stdin]")
    parser.add_argument(
        "--anchors-from", action="append", default=[], metavar="FILE",
        help="your own translations, one per line, as additional candidates; may be repeated",
    )  # fmt: skip
    add_support(parser)
    options.add_recipe(parser, "model", "rerank", "stop", "run")
    parser.add_argument(
        "--split",
        action="store_true",
        help="translate lines sentence by sentence, because most translation models are trained on single sentences",
    )
    parser.add_argument(
        "--shard", type=parse_shard, metavar="I/N",
        help="translate only part I of N of the file; concatenate the outputs of all parts for the whole file",
    )  # fmt: skip
    options.add_output(parser)
    parser.set_defaults(act=act)


def act(args: argparse.Namespace) -> int:
    prepared = prepare(args)
    return 0 if prepared is None else execute(*prepared, args.words)


def prepare(args: argparse.Namespace) -> tuple[Run, AsyncIterator[tuple[Item, int]]] | None:
    """Open everything; None if there is nothing to do."""
    _check_arguments(args)
    path = args.input = args.input or STDIN
    recipe = recipe_of(args)
    _check_recipe(args, recipe)
    shard = shard_of(path, args.shard)
    lines = len(shard.lines) if args.shard else count_lines(path)
    if results.is_finished(args, lines):
        return None
    built = build(resolve(recipe))
    if args.shard:
        built = built.without_order()
    _check_input(path)
    if args.anchors_from and not traits_of(built.reranker, RerankerTraits).takes_anchors:
        raise UsageError(f"--anchors-from: {built.recipe.rerank.name} scores samples only, no anchors")
    split, shard_name = args.split, shard.name
    source = Source(
        "lines",
        f"{name_of(path)}{f', part {shard_name}' if shard_name else ''}",
        [path, *args.anchors_from, *args.support_from],
        # A part of a file that has grown is a different part.
        ({"--split": True} if split else {}) | ({"--shard": shard_name} if shard_name else {}),
        segments=None if split else lines,
        # With --split, the number of sentences is unknown, but a run with a deadline must know that there is an end.
        expected=lines if not split or built.recipe.run.run_deadline is not None else None,
        before=shard.lines.start,
    )
    run = begin(args, recipe.stop, built, source)
    run.outputs.sentences = Sentences(*built.recipe.model.languages) if split else None
    text = TextInput(path, args.anchors_from, args.support_from, shard, run.outputs.sentences)
    return run, text.items(run.driver.signature, built.recipe.model.context)


def _check_arguments(args: argparse.Namespace) -> None:
    if args.input is None and args.jsonl not in (None, STDIN) and not _may_overwrite(args.jsonl):
        raise UsageError(
            f"--jsonl would overwrite {args.jsonl}",
            hint="if that is the input, name it first; if not, name the input, or -",
        )
    if args.split and (args.anchors_from or args.support_from):
        flag = "--anchors-from" if args.anchors_from else "--support-from"
        raise UsageError(f"{flag} goes by lines, and --split by sentences", hint="split both files first")
    if args.split and args.nbest_text:
        hint = "split the file first, or use --jsonl, which has the sentences of each line"
        raise UsageError("--nbest-text goes by lines, and --split by sentences", hint=hint)


def _check_recipe(args: argparse.Namespace, recipe: Recipe) -> None:
    if recipe.rerank.support == TEXTS and not args.support_from:
        raise UsageError(f"{setting('rerank.support', TEXTS)} needs the texts", hint="give --support-from FILE")
    if args.shard and recipe.stop.max_cost is not None:
        resolve(recipe).refuse_pacing("a part (--shard) does not know what the other parts cost")


def _check_input(path: str) -> None:
    if path == STDIN and sys.stdin is None:
        raise UsageError("standard input is closed", hint="name a file to translate")
    if path == STDIN and sys.stdin.isatty():
        print("quitmt: reading from the terminal: one segment per line, Ctrl-D to end", file=sys.stderr)


def _may_overwrite(path: str) -> bool:
    """Whether a file is missing, empty, or full of outcomes, so that new outcomes may overwrite it."""
    try:
        with Path(path).open("rb") as file:
            start = file.read(1 << 20)
        return not start or b'"trajectory"' in start
    except OSError:
        return True
