"""``quitmt translate``: lines in, lines out."""

from __future__ import annotations

import argparse
import sys
import zlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from quitmt import generate, rerank
from quitmt.cli import options
from quitmt.cli.progress import Progress
from quitmt.cli.run import Run
from quitmt.corpus import item
from quitmt.engine.driver import Driver, Item
from quitmt.files.lines import STDIN, read_lines

DESCRIPTION = """\
Translate lines of text: sample a few candidates at a time, rerank them, and stop when the best score has stopped
moving. One line out for each line in, in order; a blank line stays blank."""

EXAMPLES = """\
examples:
  echo "The weather is nice today." | quitmt translate
  quitmt translate news.en -o news.pt --jsonl news.outcomes.jsonl
  quitmt translate news.en -o news.pt --resume              # after a crash or Ctrl-C
  quitmt translate news.en --rerank qe:likelihood -w 4 -o news.pt
  quitmt translate --src pt --tgt en carta.pt               # the other direction
  quitmt translate news.en --stop full --keep-pools pools.jsonl -o full.pt   # sample once, replay with rerank"""


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "translate",
        help="translate lines of text",
        description=DESCRIPTION,
        epilog=options.listed("models", generate.MODELS) + options.NAMES + EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("input", nargs="?", default=STDIN, metavar="FILE", help="text, a segment a line (stdin)")
    group = parser.add_argument_group("sampling")
    group.add_argument(
        "--model",
        metavar="NAME",
        help="embedded:en-pt, or as --src and --tgt say, or another of the list below",
    )
    group.add_argument("--temperature", type=float, default=1.2, help="of sampling (1.2); 0 is greedy")
    group.add_argument("--top-k", type=int, metavar="N", help="sample only among the N most probable tokens")
    group.add_argument("--top-p", type=float, metavar="P", help="… the fewest tokens that have probability P together")
    group.add_argument("--epsilon", type=float, metavar="E", help="… tokens with a probability of at least E")
    group.add_argument("--seed", type=int, default=0, help="of the random numbers (0); same seed, same candidates")
    options.add_method(parser)
    options.add_output(parser, pools=True)
    parser.set_defaults(prepare=prepare)


def prepare(args: argparse.Namespace) -> tuple[Run, AsyncIterator[tuple[Item, int]]]:
    rule = options.rule_of(args)
    args.model, args.src, args.tgt = generate.resolve(args.model, args.src, args.tgt)
    generator = generate.load(
        args.model,
        temperature=args.temperature,
        top_k=args.top_k,
        top_p=args.top_p,
        epsilon=args.epsilon,
        seed=args.seed,
    )
    reranker = rerank.load(args.rerank, languages=(args.src, args.tgt))
    in_flight = 16 if args.in_flight is None else args.in_flight
    progress = Progress(rule.budget, total=count_lines(args.input), quiet=args.quiet)
    driver = Driver(generator, reranker, rule, in_flight=in_flight, observer=progress.observer)
    if args.input == STDIN and sys.stdin.isatty():
        print("quitmt: reading from the terminal; a line each, Ctrl-D ends", file=sys.stderr)
    outputs, journal = options.open_results(args, settings_of(args), rule.budget, [args.input])
    return Run(driver, outputs, progress, journal), items(args.input, driver.signature)


async def items(path: str, signature: str) -> AsyncIterator[tuple[Item, int]]:
    number = 0
    async for line in read_lines(path):
        number += 1
        yield item(number, line, signature), zlib.crc32(line.encode())


def settings_of(args: argparse.Namespace) -> dict[str, Any]:
    """Everything that changes the results, by the name the user knows it by."""
    return {
        "--model": args.model,
        "--temperature": args.temperature,
        "--top-k": args.top_k,
        "--top-p": args.top_p,
        "--epsilon": args.epsilon,
        "--seed": args.seed,
        **options.method_settings(args),
    }


def count_lines(path: str) -> int | None:
    """For the time left on the progress bar; only where looking ahead costs next to nothing."""
    if path == STDIN or path.endswith(".gz") or not Path(path).is_file():
        return None
    with Path(path).open("rb") as file:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 20), b""))
