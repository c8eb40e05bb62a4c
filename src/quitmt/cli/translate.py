"""``quitmt translate``: lines in, lines out."""

from __future__ import annotations

import argparse
import sys
import zlib
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

from quitmt.cli import options, results, shard
from quitmt.cli.beside import LinesBeside, add_support, with_support
from quitmt.cli.progress import Progress
from quitmt.cli.run import Run
from quitmt.cli.shard import WHOLE, Shard
from quitmt.cli.splitting import Lines
from quitmt.engine.driver import Item
from quitmt.engine.items import Context, item
from quitmt.errors import UsageError, setting
from quitmt.files.lines import STDIN, count_lines, name_of, read_lines
from quitmt.plan.build import build
from quitmt.plan.resolve import resolve
from quitmt.protocols import GeneratorTraits, RerankerTraits, traits_of
from quitmt.rerank.anchors import TEXTS
from quitmt.rerank.ranked import score_name
from quitmt.types import Segment

DESCRIPTION = """\
Translate lines of text. Each line gets a few candidates at a time. They are reranked, and the line stops as soon as
more candidates would not help. One line in is one line out, in order. A blank line stays blank."""

EXAMPLES = """\
examples:
  echo "The weather is nice today." | quitmt translate
  quitmt translate news.en -o news.pt --jsonl news.outcomes.jsonl
  quitmt translate news.en -o news.pt --resume              # after a crash or Ctrl-C
  quitmt translate news.en -o news.pt --run-deadline 600    # done in ten minutes, as well as that allows
  quitmt translate news.en --rerank qe:likelihood -w 4 -o news.pt
  quitmt translate news.en --filter qe:likelihood --keep 32 -o news.pt       # MBR among the 32 best by QE
  quitmt translate --src pt --tgt en carta.pt               # the other direction
  quitmt translate letter.en --split -o letter.pt           # lines that are paragraphs
  quitmt translate news.en -o news.pt --recipe my.toml      # a run that is described in a file (quitmt recipe)
  quitmt translate news.en --shard 3/8 -o news.3.pt         # the third of eight parts; cat puts them together
  quitmt translate news.en --stop full --keep-pools pools.jsonl -o full.pt   # sample once, replay with rerank"""


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "translate",
        description=DESCRIPTION,
        epilog=options.models() + options.names() + EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("input", nargs="?", metavar="FILE", help="text, one segment per line (stdin)")
    parser.add_argument(
        "--anchors-from", action="append", default=[], metavar="FILE",
        help="translations that you have already, a line each: they are candidates too; may be repeated",
    )  # fmt: skip
    add_support(parser)
    options.add_recipe(parser, "model", "rerank", "stop", "run")
    parser.add_argument(
        "--split",
        action="store_true",
        help="translate a line of several sentences sentence by sentence; most translation models know only sentences",
    )
    parser.add_argument(
        "--shard", type=shard.parse, metavar="I/N",
        help="translate only part I of N of the file, with the ids of the whole: the outputs of all parts, one after "
        "the other, are the output of the whole",
    )  # fmt: skip
    options.add_output(parser)
    parser.set_defaults(prepare=prepare)


def prepare(args: argparse.Namespace) -> tuple[Run, AsyncIterator[tuple[Item, int]]] | None:
    """None if there is nothing to do."""
    if args.input is None and args.jsonl not in (None, STDIN) and not is_outcomes(args.jsonl):
        raise UsageError(
            f"--jsonl would overwrite {args.jsonl}",
            hint="if that is the input, name it first; if not, name the input, or -",
        )
    args.input = args.input or STDIN
    if args.split and (args.anchors_from or args.support_from):
        flag = "--anchors-from" if args.anchors_from else "--support-from"
        raise UsageError(f"{flag} goes by lines, and --split by sentences", hint="split both files first")
    recipe = with_support(options.recipe_of(args), args.support_from)
    if recipe.rerank.support == TEXTS and not args.support_from:
        raise UsageError(f"{setting('rerank.support', TEXTS)} needs the texts", hint="give --support-from FILE")
    if args.shard and recipe.stop.max_cost is not None:
        resolve(recipe).refuse_pacing("a part (--shard) does not know what the other parts cost")
    part = shard.part_of(args.input, args.shard)
    lines = len(part.lines) if args.shard else count_lines(args.input)
    if results.is_finished(args, lines):
        return None
    built = build(resolve(recipe))
    segments = None if args.split else lines
    shares_beginnings = traits_of(built.generator, GeneratorTraits).shares_beginnings
    of = "lines", f"{name_of(args.input)}{f', part {part.name}' if part.name else ''}"
    more: dict[str, Any] = {"quiet": args.quiet, "shares_beginnings": shares_beginnings, "of": of}
    progress = Progress(built.rule.budget, total=segments, requested=built.recipe.stop.max_cost, **more)
    results.check_nbest(args, built)
    driver = built.driver(progress.observer, ranked=bool(args.keep_pools))
    if args.input == STDIN and sys.stdin is None:
        raise UsageError("standard input is closed", hint="name a file to translate")
    if args.input == STDIN and sys.stdin.isatty():
        print("quitmt: reading from the terminal; a line each, Ctrl-D ends", file=sys.stderr)
    takes_anchors = traits_of(built.reranker, RerankerTraits).takes_anchors
    if args.anchors_from and not takes_anchors:
        raise UsageError(f"--anchors-from: {built.recipe.rerank.name} scores samples only, no anchors")
    beside = [*args.anchors_from, *args.support_from]
    inputs = [args.input, *beside, *([built.recipe.stop.profile] if built.recipe.stop.profile else [])]
    settings = results.settings_of(built, driver) | ({"--split": True} if args.split else {}) | part.settings
    outputs, journal = results.open_results(args, settings, built.rule.budget, inputs, before=part.lines.start)
    outputs.opening = [*results.opening(built, recipe.stop), *outputs.opening]
    outputs.generator, outputs.score_name = built.generator.signature, score_name(built.recipe.rerank.name)
    context, run = built.recipe.model.context, Run(driver, outputs, progress, journal, segments)
    if args.split:
        if built.recipe.run.run_deadline is not None:  # there is an end, so there can be drafts
            run.expected = lines
        outputs.lines = Lines(*built.recipe.model.languages)
        return run, outputs.lines.items(args.input, driver.signature, context, part)
    return run, items(args.input, driver.signature, context, args.anchors_from, part, args.support_from)


def is_outcomes(path: str) -> bool:
    """Whether a file may be overwritten with outcomes: it is not there, empty, or was written by quitmt."""
    try:
        with Path(path).open("rb") as file:
            start = file.read(1 << 20)
        return not start or b'"trajectory"' in start
    except OSError:
        return True


async def items(
    path: str,
    signature: str,
    context: int = 0,
    anchors: Sequence[str] = (),
    part: Shard = WHOLE,
    support: Sequence[str] = (),
) -> AsyncIterator[tuple[Item, int]]:
    """The lines of a part as segments, each with the ``context`` lines before it, and with the same line of the files
    of ``anchors`` and of ``support``; a blank line begins a new document, or is nothing."""
    number = skip = part.skipped(context)
    before = Context(context)
    drafts, judges = LinesBeside(anchors, skip), LinesBeside(support, skip)
    async with aclosing(read_lines(path, skip)) as lines, drafts, judges:
        async for line in lines:
            if number >= part.lines.stop:
                break
            number += 1
            own, texts = await drafts.next(number), await judges.next(number)
            one = item(number, Segment(str(number), line, anchors=own, support=texts), signature, before)
            if number > part.lines.start:
                yield one, zlib.crc32("\n".join([line, *own, *(f"\0{text}" for text in texts)]).encode())
        else:
            await judges.end(number)
