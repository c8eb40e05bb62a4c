"""``quitmt translate``: lines in, lines out."""

from __future__ import annotations

import argparse
import sys
import zlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from quitmt.cli import options, results
from quitmt.cli.progress import Progress
from quitmt.cli.run import Run
from quitmt.cli.splitting import Lines
from quitmt.engine.driver import Item
from quitmt.engine.items import Context, item
from quitmt.errors import UsageError
from quitmt.files.lines import STDIN, count_lines, read_lines
from quitmt.passages import split
from quitmt.recipe.build import build

DESCRIPTION = """\
Translate lines of text: sample a few candidates at a time, rerank them, and stop when the best score has stopped
moving. One line out for each line in, in order; a blank line stays blank."""

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
  quitmt translate news.en --stop full --keep-pools pools.jsonl -o full.pt   # sample once, replay with rerank"""


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "translate",
        description=DESCRIPTION,
        epilog=options.models() + options.names() + EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("input", nargs="?", metavar="FILE", help="text, a segment a line (stdin)")
    options.add_recipe(parser, "model", "rerank", "stop", "run")
    parser.add_argument(
        "--split",
        action="store_true",
        help="translate a line of several sentences sentence by sentence; most translation models know only sentences",
    )
    options.add_output(parser, pools=True)
    parser.set_defaults(prepare=prepare)


def prepare(args: argparse.Namespace) -> tuple[Run, AsyncIterator[tuple[Item, int]]]:
    if args.input is None and args.jsonl not in (None, STDIN) and not is_outcomes(args.jsonl):
        raise UsageError(
            f"--jsonl would overwrite {args.jsonl}",
            hint="if that is the input, name it first; if not, name the input, or -",
        )
    args.input = args.input or STDIN
    if args.split:
        split("Is it installed?", None)
    built = build(options.recipe_of(args))
    results.tell(built, quiet=args.quiet)
    lines = None if args.split else count_lines(args.input)
    progress = Progress(built.rule.budget, total=lines, quiet=args.quiet)
    driver = built.driver(progress.observer)
    if args.input == STDIN and sys.stdin is None:
        raise UsageError("standard input is closed", hint="name a file to translate")
    if args.input == STDIN and sys.stdin.isatty():
        print("quitmt: reading from the terminal; a line each, Ctrl-D ends", file=sys.stderr)
    inputs = [args.input, *([built.recipe.stop.profile] if built.recipe.stop.profile else [])]
    settings = results.settings_of(built, driver) | ({"--split": True} if args.split else {})
    outputs, journal = results.open_results(args, settings, built.rule.budget, inputs)
    outputs.generator = built.generator.signature
    context, run = built.recipe.model.context, Run(driver, outputs, progress, journal, lines)
    if args.split:
        outputs.lines = Lines(*built.recipe.model.languages)
        return run, outputs.lines.items(args.input, driver.signature, context)
    return run, items(args.input, driver.signature, context)


def is_outcomes(path: str) -> bool:
    """Whether a file may be overwritten with outcomes: it is not there, empty, or was written by quitmt."""
    try:
        with Path(path).open("rb") as file:
            start = file.read(1 << 20)
        return not start or b'"trajectory"' in start
    except OSError:
        return True


async def items(path: str, signature: str, context: int = 0) -> AsyncIterator[tuple[Item, int]]:
    """The lines as segments, each with the ``context`` lines before it; a blank line begins a new document."""
    number, before = 0, Context(context)
    async for line in read_lines(path):
        number += 1
        yield item(number, line, signature, before), zlib.crc32(line.encode())
