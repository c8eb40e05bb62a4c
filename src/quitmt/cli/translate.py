"""``quitmt translate``: lines in, lines out."""

from __future__ import annotations

import argparse
import json
import sys
import zlib
from collections import deque
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from quitmt import generate, rerank
from quitmt.cli import options, results
from quitmt.cli.progress import Progress
from quitmt.cli.run import Run
from quitmt.corpus import item
from quitmt.engine.driver import Driver, Item
from quitmt.errors import UsageError
from quitmt.files.lines import STDIN, count_lines, read_lines
from quitmt.sampling import Sampling
from quitmt.types import Segment

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
  quitmt translate news.en --stop full --keep-pools pools.jsonl -o full.pt   # sample once, replay with rerank"""


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "translate",
        help="translate lines of text",
        description=DESCRIPTION,
        epilog=options.listed("models", generate.MODELS) + options.NAMES + EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("input", nargs="?", metavar="FILE", help="text, a segment a line (stdin)")
    add_model(parser)
    options.add_method(parser)
    options.add_deadlines(parser)
    options.add_scoring(parser, device=False)
    options.add_output(parser, pools=True)
    parser.set_defaults(prepare=prepare)


def add_model(parser: argparse.ArgumentParser) -> None:
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
    group.add_argument("--max-tokens", type=int, metavar="N", help="of a candidate, at most (as the model allows)")
    group = parser.add_argument_group("engine (quitmt models lists them)")
    group.add_argument(
        "--base-url", metavar="URL", help="openai: where the server is, such as http://localhost:8000/v1"
    )
    group.add_argument("--api", choices=("chat", "completions"), help="openai: which of the server's interfaces (chat)")
    group.add_argument("--concurrency", type=int, metavar="N", help="openai: requests in flight at most (256)")
    group.add_argument("--timeout", type=float, metavar="SECONDS", help="openai: for one request (120)")
    group.add_argument("--prompt", metavar="NAME", help="chat models: a template by name or file (follows the model)")
    group.add_argument(
        "--logprobs", action="store_true", default=None, help="openai: ask for log-probabilities, for --keep-pools"
    )
    group.add_argument("--no-clean", dest="clean", action="store_false", default=None, help="keep answers as they are")
    group.add_argument("--context", type=int, default=0, metavar="N", help="chat models: show N lines before (0)")
    group.add_argument("--device", help="hf, ct2, and scoring models: cpu, cuda, mps (the best there is)")
    group.add_argument("--dtype", help="hf, vllm: float32, bfloat16, … (what is fast there)")
    group.add_argument("--compute-type", metavar="TYPE", help="ct2: int8, float16, … (as the model was converted)")
    group.add_argument("--batch", type=int, metavar="N", help="hf: candidates decoded together (as memory allows)")
    group.add_argument(
        "--engine-args",
        type=json_object,
        metavar="JSON",
        help="vllm: passed on to the engine, such as '{\"tensor_parallel_size\": 2}'",
    )
    group.add_argument(
        "--speculate",
        action="store_true",
        help="ask for the next window while the last one is being reranked: keeps an engine busy, wastes some tokens",
    )


def json_object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError(f"{text!r} is not a JSON object")
    return found


ENGINE_OPTIONS = (
    "base_url", "api", "concurrency", "timeout", "prompt", "clean", "device", "dtype", "batch", "max_tokens",
    "engine_args",
    "compute_type",
    "logprobs",
)  # fmt: skip


def prepare(args: argparse.Namespace) -> tuple[Run, AsyncIterator[tuple[Item, int]]]:
    if args.input is None and args.jsonl not in (None, STDIN) and not is_outcomes(args.jsonl):
        raise UsageError(
            f"--jsonl would overwrite {args.jsonl}",
            hint="if that is the input, name it first; if not, name the input, or -",
        )
    args.input = args.input or STDIN
    if args.context < 0:
        raise UsageError(f"--context must be 0 or more, not {args.context}")
    rule, deadlines = options.rule_of(args), options.deadlines_of(args)
    args.model, args.src, args.tgt = generate.resolve(args.model, args.src, args.tgt)
    generator = generate.load(
        args.model,
        Sampling(args.temperature, args.top_k, args.top_p, args.epsilon, args.seed),
        languages=(args.src, args.tgt),
        options=engine_options(args),
    )
    reranker = options.reranker_of(args, (args.src, args.tgt), shared=("device",))
    backend = generate.BACKENDS[args.model.partition(":")[0]]
    in_flight = backend.in_flight if args.in_flight is None else args.in_flight
    lines = count_lines(args.input)
    progress = Progress(rule.budget, total=lines, quiet=args.quiet)
    driver = Driver(
        generator,
        reranker,
        rule,
        in_flight=in_flight,
        observer=progress.observer,
        speculate=args.speculate,
        deadlines=deadlines,
    )
    if args.context and "prompt" not in backend.options:
        raise UsageError(f"--context goes with chat models, not with {args.model}")
    if args.input == STDIN and sys.stdin is None:
        raise UsageError("standard input is closed", hint="name a file to translate")
    if args.input == STDIN and sys.stdin.isatty():
        print("quitmt: reading from the terminal; a line each, Ctrl-D ends", file=sys.stderr)
    settings = {**settings_of(args), "what produces the results": driver.signature}
    if args.figures is not None:
        languages = (args.src, args.tgt)
        args.figures.warn(generator.signature, reranker.signature, languages, args.step, args.budget)
    outputs, journal = results.open_results(args, settings, rule.budget, [args.input])
    outputs.generator = generator.signature
    return Run(driver, outputs, progress, journal, lines), items(args.input, driver.signature, args.context)


def engine_options(args: argparse.Namespace) -> dict[str, Any]:
    """What goes to the engine. --device does not, if the engine has none and a reranker has."""
    given = {name: getattr(args, name) for name in ENGINE_OPTIONS}
    backend = generate.BACKENDS.get(args.model.partition(":")[0])
    if backend and "device" not in backend.options and rerank.is_neural(args.rerank, args.filter):
        del given["device"]
    return given


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
    number, before = 0, deque[str](maxlen=context)
    async for line in read_lines(path):
        number += 1
        segment = Segment(str(number), line, "\n".join(before))
        yield item(number, segment, signature), zlib.crc32(line.encode())
        if line.strip():
            before.append(line)
        else:
            before.clear()


def settings_of(args: argparse.Namespace) -> dict[str, Any]:
    """Everything that changes the results, by the name the user knows it by."""
    return {
        "--model": args.model,
        "--temperature": args.temperature,
        "--top-k": args.top_k,
        "--top-p": args.top_p,
        "--epsilon": args.epsilon,
        "--seed": args.seed,
        "--max-tokens": args.max_tokens,
        "--api": args.api,
        "--prompt": args.prompt,
        "--no-clean": args.clean is False,
        "--context": args.context,
        "--dtype": args.dtype,
        "--compute-type": args.compute_type,
        **options.method_settings(args),
    }
