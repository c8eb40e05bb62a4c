"""Options that several commands share, and the settings they add up to."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from textwrap import fill
from typing import Any

from quitmt import rerank, stop
from quitmt.calibrate import auto
from quitmt.calibrate import profile as profiles
from quitmt.calibrate.auto import Wish
from quitmt.devices import Hardware
from quitmt.engine.deadlines import Deadlines
from quitmt.errors import UsageError
from quitmt.files.outputs import STDOUT
from quitmt.protocols import Reranker, StoppingRule
from quitmt.rerank import RERANKERS
from quitmt.rerank.filtered import KEEP
from quitmt.rerank.variants import METHODS
from quitmt.stop import RULES


def listed(title: str, entries: Mapping[str, str]) -> str:
    """A section of the help that explains names."""
    lines = [f"{title}:"]
    for name, meaning in entries.items():
        lines.append(fill(meaning, 100, initial_indent=f"  {name:<18} ", subsequent_indent=" " * 21))
    return "\n".join(lines) + "\n\n"


NAMES = listed("rerankers", RERANKERS) + listed("kinds of MBR (--mbr)", METHODS) + listed("stopping rules", RULES)


STEP, BUDGET = 8, 512


def add_method(parser: argparse.ArgumentParser) -> None:
    add_reranker(parser)
    group = parser.add_argument_group("when to stop")
    group.add_argument(
        "--stop", metavar="NAME", help="quit, the default, or another of the list below, or auto: by the wishes here"
    )
    group.add_argument(
        "--max-loss",
        metavar="L",
        help="auto: the mean loss to aim at, in units of the score, or as 0.02sd, in its standard deviations",
    )
    group.add_argument("--max-cost", type=float, metavar="N", help="auto: so many candidates a segment, on average")
    group.add_argument("--profile", metavar="FILE", help="auto: the rule that keeps the promise of quitmt calibrate")
    add_steps(group)
    group.add_argument("-w", "--window", type=int, default=8, metavar="W", help="quit: steps a window (8)")
    group.add_argument(
        "--alpha", type=float, default=1e-3, help="quit: how far the best score moves in a stable window (0.001)"
    )
    group.add_argument(
        "--single-step-window", action="store_true", help="allow -w 1, which always stops at the first step"
    )
    add_languages(parser)


def add_reranker(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("reranking")
    group.add_argument("--rerank", default="mbr:chrf", metavar="NAME", help="mbr:chrf, or another of the list below")
    group.add_argument(
        "--mbr", default="exact", metavar="KIND", help="with mbr: exact, or one of the faster kinds in the list below"
    )
    group.add_argument(
        "--filter", metavar="NAME", help="with mbr: only among the candidates that this qe: reranker likes best"
    )
    group.add_argument("--keep", type=int, metavar="M", help=f"with --filter: how many candidates it keeps ({KEEP})")


def add_steps(group: Any) -> None:
    group.add_argument("-k", "--step", type=int, metavar="K", help=f"candidates a step ({STEP})")
    group.add_argument("-n", "--budget", type=int, metavar="N", help=f"candidates at most ({BUDGET})")


def add_languages(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("languages")
    group.add_argument("--src", metavar="LANG", help="source language (the model's, or en)")
    group.add_argument("--tgt", metavar="LANG", help="target language (the model's, or pt)")


def add_deadlines(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "deadlines", "When time is up, a segment stops with the best translation so far, and its outcome says deadline."
    )
    group.add_argument("--deadline", type=float, metavar="SECONDS", help="of each segment, from when it is begun")
    group.add_argument(
        "--run-deadline",
        type=float,
        metavar="SECONDS",
        help="of the whole run, from when the models are loaded; every line of a file gets its share of the time, and "
        "what is not begun in time fails, for --resume to take up",
    )


def deadlines_of(args: argparse.Namespace) -> Deadlines:
    return Deadlines(args.deadline, args.run_deadline)


def add_scoring(parser: argparse.ArgumentParser, *, device: bool) -> None:
    """For rerankers that are scoring models; ``device`` is False where another option of that name serves them too."""
    group = parser.add_argument_group("scoring models (comet, kiwi, xcomet, metricx, embedding)")
    if device:
        group.add_argument("--device", help="where they run: cpu, cuda, mps (the best there is)")
    group.add_argument("--metric-dtype", metavar="TYPE", help="their number format (float32): bfloat16, float16")
    group.add_argument("--batch-tokens", type=int, metavar="N", help="tokens they read at a time (as memory allows)")


def add_output(parser: argparse.ArgumentParser, *, pools: bool = False) -> None:
    group = parser.add_argument_group("output")
    group.add_argument("-o", "--output", metavar="FILE", default=STDOUT, help="translations, a line each (stdout)")
    group.add_argument(
        "--jsonl",
        metavar="FILE",
        nargs="?",
        const=STDOUT,
        help="full outcomes as JSON lines to FILE as well; without FILE: in place of the translations",
    )
    if pools:
        group.add_argument("--keep-pools", metavar="FILE", help="record the sampled candidates, for quitmt rerank")
    group.add_argument("--show", action="store_true", help="for people: score curves and why each segment stopped")
    group.add_argument(
        "--resume",
        action="store_true",
        help="continue a run that was interrupted or killed, and retry what failed; needs a FILE to write to",
    )
    group.add_argument("-q", "--quiet", action="store_true", help="no progress bar and no summary")
    group.add_argument("--in-flight", type=int, metavar="N", help="segments worked on at the same time")


def rule_of(args: argparse.Namespace) -> StoppingRule:
    """The rule, by its name or by what the user wishes for; ``args`` then have the settings it was made with, and as
    ``figures`` the profile it was chosen by."""
    wish = Wish(args.max_loss, args.max_cost)
    wishes = args.profile is not None or wish != Wish()
    if args.stop is None:
        args.stop = "auto" if wishes else "quit"
    elif wishes and args.stop != "auto":
        raise UsageError(f"--max-loss, --max-cost and --profile go with --stop auto, not with {args.stop}")
    known = profiles.read(args.profile) if args.profile is not None else None
    args.step = args.step if args.step is not None else known.step if known else STEP
    args.budget = args.budget if args.budget is not None else known.budget if known else BUDGET
    args.figures = None
    if args.stop == "auto":
        exact = args.mbr == "exact" and args.filter is None
        granted = auto.rule(args.rerank, wish, known, exact=exact, k=args.step, n=args.budget)
        args.figures = granted.profile
        if not args.quiet:
            print(f"quitmt: stopping by {granted}", file=sys.stderr)
        return granted.rule
    return stop.load(
        args.stop, k=args.step, w=args.window, alpha=args.alpha, n=args.budget, single=args.single_step_window
    )


SCORING = ("device", "metric_dtype", "batch_tokens")


def reranker_of(
    args: argparse.Namespace, languages: tuple[str | None, str | None], *, shared: tuple[str, ...] = ()
) -> Reranker[Any]:
    """For every command the same, so that replaying a run means what the run meant.

    Settings of scoring models are refused where there is none, except those ``shared`` with others who take them.
    """
    given: dict[str, Any] = {"filter": args.filter, "keep": args.keep, "variant": args.mbr}
    if rerank.is_neural(args.rerank, args.filter):
        hardware = Hardware(args.device, args.metric_dtype, args.batch_tokens)
        return rerank.load(args.rerank, languages=languages, hardware=hardware, **given)
    for name in SCORING:
        if name not in shared and getattr(args, name) is not None:
            option = f"--{name.replace('_', '-')}"
            raise UsageError(f"{option} goes with scoring models such as mbr:comet, not with {args.rerank}")
    return rerank.load(args.rerank, languages=languages, **given)


def method_settings(args: argparse.Namespace) -> dict[str, Any]:
    """What changes the results, by the name the user knows it by."""
    return {
        "--rerank": args.rerank,
        "--mbr": args.mbr,
        "--filter": args.filter,
        "--keep": args.keep,
        "--metric-dtype": args.metric_dtype,
        "--stop": args.stop,
        "--max-loss": args.max_loss,
        "--max-cost": args.max_cost,
        "-k": args.step,
        "-w": args.window,
        "--alpha": args.alpha,
        "-n": args.budget,
        "--src": args.src,
        "--tgt": args.tgt,
    }
