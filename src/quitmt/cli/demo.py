"""``quitmt demo``: compares greedy decoding, all candidates, QUIT and the default on a few sentences."""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quitmt.engine.driver import in_order
from quitmt.files.lines import read_lines
from quitmt.plan import Recipe
from quitmt.plan.build import Built
from quitmt.plan.precedence import preset
from quitmt.types import Outcome, Segment

DESCRIPTION = """\
Translate a few sentences with the embedded model by four methods and compare their costs: greedy decoding, all 512
candidates of the paper, QUIT as published, and quitmt's default."""

SENTENCES = (
    "The minister stepped down over a tax scandal.",
    "The players were booed off the pitch after losing at home.",
    "He shrugged and went back to his newspaper.",
    "The boy skinned his knee playing in the yard.",
    "Residents were told to boil their water until further notice.",
)
"""Five of 98 sentences that we wrote for this. Greedy decoding and all 512 candidates differ in 22 of the 98. These
include two where the default chooses the same as all 512 candidates, one where it doesn't, and two where reranking only
costs time (with other random numbers, it helped the first of these)."""

PAPER = preset("paper")
SAMPLES = {name: value for name, value in PAPER.items() if not name.startswith("stop.")}
METHODS: Mapping[str, Mapping[str, Any]] = {
    "greedy": {**SAMPLES, "model.temperature": 0.0, "stop.rule": "fixed:1"},
    "all 512": {**SAMPLES, "stop.rule": "full"},
    "QUIT": PAPER,
    "default": {},
}
"""Row → fields of its recipe."""
REFERENCE = "all 512"
LEAST = 3
"""Minimum number of sentences for a statement about greedy decoding."""


@dataclass(frozen=True, slots=True)
class Shown:
    method: str
    outcome: Outcome
    seconds: float


def add_parser(commands: Any) -> None:
    parser = commands.add_parser("demo", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "file", nargs="?", metavar="FILE", help="your own sentences, one per line [default: five of ours]"
    )
    parser.set_defaults(act=act)


def act(args: argparse.Namespace) -> int:
    sentences = asyncio.run(_sentences(args.file)) if args.file else SENTENCES
    methods = {name: Recipe().changed(fields).build() for name, fields in METHODS.items()}
    asyncio.run(_show(methods, sentences))
    return 0


async def _sentences(path: str) -> list[str]:
    return [line async for line in read_lines(path) if line.strip()]


async def _show(methods: Mapping[str, Built], sentences: Sequence[str]) -> None:
    columns = []
    for name, built in methods.items():
        await _run(name, built, ["One two three four."])  # compiles everything outside of the measured time
        columns.append(await _run(name, built, sentences))
    rows = list(zip(*columns, strict=True))
    for number, row in enumerate(rows, start=1):
        print(f"{number}. {row[0].outcome.source}")
        print("\n".join(described(row)), end="\n\n")
    print(summary(rows))


async def _run(method: str, built: Built, sentences: Sequence[str]) -> list[Shown]:
    """Translate all sentences in one batch; each is charged its share of the processor time."""
    segments = [Segment(str(number), sentence) for number, sentence in enumerate(sentences, start=1)]
    start = time.process_time()  # of all threads, but not of other processes
    outcomes = [finished.outcome async for finished in in_order(built.driver().run(segments))]
    taken = time.process_time() - start
    shares = [outcome.seconds.generate + outcome.seconds.rerank for outcome in outcomes]
    return [
        Shown(method, outcome, taken * share / sum(shares)) for outcome, share in zip(outcomes, shares, strict=True)
    ]


def described(rows: Sequence[Shown]) -> list[str]:
    """One line per method."""
    reference = next(row.outcome.translation for row in rows if row.method == REFERENCE)
    return [
        f"   {row.method:<8}{row.outcome.cost:>5}  {row.seconds:6.2f} s  "
        f"{'=' if row.outcome.translation == reference else '≠'}  {row.outcome.translation}"
        for row in rows
    ]


def summary(rows: Sequence[Sequence[Shown]]) -> str:
    """Compare quality and cost of the methods."""
    methods = {column[0].method: column for column in zip(*rows, strict=True)}
    reference = methods[REFERENCE]
    lines = [f"= marks the choice of all 512 candidates. In {len(rows)} sentences:"]
    for name, column in methods.items():
        used, took = candidates(column), seconds(column)
        lines.append(
            f"   {name:<8} same {same(column, reference)} of {len(rows)} times, {used:>5} candidates "
            f"({used / candidates(reference):.1%}), {took:.1f} CPU s ({took / seconds(reference):.0%})"
        )
    return "\n".join([*lines, closing(methods)])


def closing(methods: Mapping[str, Sequence[Shown]]) -> str:
    """Compare the default with greedy decoding and with all candidates."""
    default, greedy, reference = methods["default"], methods["greedy"], methods[REFERENCE]
    changed = len(default) - same(default, greedy)
    slower, faster = seconds(default) / seconds(greedy), seconds(reference) / seconds(default)
    text = (
        f"The default changed {changed} of {len(default)} greedy translations. It took {slower:.1f} times as long as "
        f"greedy decoding, and was {faster:.1f} times as fast as {REFERENCE}."
    )
    known = len(greedy) >= LEAST and same(greedy, reference) > 0
    if known and same(greedy, reference) >= same(default, reference):
        text += " Greedy decoding agreed with them at least as often, so it is enough for such sentences."
    return text


def same(column: Sequence[Shown], other: Sequence[Shown]) -> int:
    """The number of equal translations."""
    return sum(one.outcome.translation == two.outcome.translation for one, two in zip(column, other, strict=True))


def candidates(column: Sequence[Shown]) -> int:
    return sum(one.outcome.cost for one in column)


def seconds(column: Sequence[Shown]) -> float:
    return sum(one.seconds for one in column)
