"""``quitmt demo``: a few sentences by greedy decoding, all candidates, QUIT and the default, side by side."""

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
Translate a few sentences with the embedded model in four ways, and see what each costs: greedy decoding, all 512
candidates of the paper, QUIT as published, and quitmt's default."""

SENTENCES = (
    "The minister stepped down over a tax scandal.",
    "The players were booed off the pitch after losing at home.",
    "He shrugged and went back to his newspaper.",
    "The boy skinned his knee playing in the yard.",
    "Residents were told to boil their water until further notice.",
)
"""Ours, from 98 that we wrote for this. Greedy decoding and all 512 candidates differ in 22 of them. Here are two of
those where the default finds what all 512 find, one where only all 512 find it, and two where reranking only costs: by
other random numbers, the first of these was one that it helps."""

PAPER = preset("paper")
SAMPLES = {name: value for name, value in PAPER.items() if not name.startswith("stop.")}
WAYS: Mapping[str, Mapping[str, Any]] = {
    "greedy": {**SAMPLES, "model.temperature": 0.0, "stop.rule": "fixed:1"},
    "all 512": {**SAMPLES, "stop.rule": "full"},
    "QUIT": PAPER,
    "default": {},
}
"""What each row is, as the fields of a recipe."""
REFERENCE = "all 512"
LEAST = 3
"""Sentences, before anything is said of greedy decoding."""


@dataclass(frozen=True, slots=True)
class Shown:
    way: str
    outcome: Outcome
    seconds: float


def add_parser(commands: Any) -> None:
    parser = commands.add_parser("demo", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", metavar="FILE", help="sentences of yours, a line each (a few of ours)")
    parser.set_defaults(act=act)


def act(args: argparse.Namespace) -> int:
    sentences = asyncio.run(_sentences(args.file)) if args.file else SENTENCES
    ways = {name: Recipe().changed(fields).build() for name, fields in WAYS.items()}
    asyncio.run(_show(ways, sentences))
    return 0


async def _sentences(path: str) -> list[str]:
    return [line async for line in read_lines(path) if line.strip()]


async def _show(ways: Mapping[str, Built], sentences: Sequence[str]) -> None:
    columns = []
    for name, built in ways.items():
        await _run(name, built, ["One two three four."])  # what is compiled on first use is no sentence's cost
        columns.append(await _run(name, built, sentences))
    rows = list(zip(*columns, strict=True))
    for number, row in enumerate(rows, start=1):
        print(f"{number}. {row[0].outcome.source}")
        print("\n".join(described(row)), end="\n\n")
    print(summary(rows))


async def _run(way: str, built: Built, sentences: Sequence[str]) -> list[Shown]:
    """All of them in one batch, as people translate; each is charged its share of the processor's time."""
    segments = [Segment(str(number), sentence) for number, sentence in enumerate(sentences, start=1)]
    start = time.process_time()  # of all threads, and of nobody else on the machine
    outcomes = [finished.outcome async for finished in in_order(built.driver().run(segments))]
    taken = time.process_time() - start
    shares = [outcome.seconds.generate + outcome.seconds.rerank for outcome in outcomes]
    return [Shown(way, outcome, taken * share / sum(shares)) for outcome, share in zip(outcomes, shares, strict=True)]


def described(rows: Sequence[Shown]) -> list[str]:
    """A line for each way."""
    reference = next(row.outcome.translation for row in rows if row.way == REFERENCE)
    return [
        f"   {row.way:<8}{row.outcome.cost:>5}  {row.seconds:6.2f} s  "
        f"{'=' if row.outcome.translation == reference else '≠'}  {row.outcome.translation}"
        for row in rows
    ]


def summary(rows: Sequence[Sequence[Shown]]) -> str:
    """What was gained, and what it cost."""
    ways = {column[0].way: column for column in zip(*rows, strict=True)}
    reference = ways[REFERENCE]
    lines = [f"= is what all 512 candidates of the paper choose. Of {len(rows)} sentences:"]
    for name, column in ways.items():
        used, took = candidates(column), seconds(column)
        lines.append(
            f"   {name:<8} the same {same(column, reference)} of {len(rows)} times, {used:>5} candidates "
            f"({used / candidates(reference):.1%}), {took:.1f} CPU s ({took / seconds(reference):.0%})"
        )
    return "\n".join([*lines, closing(ways)])


def closing(ways: Mapping[str, Sequence[Shown]]) -> str:
    """What the default gained over greedy decoding, and what it cost beside that and beside all candidates."""
    default, greedy, reference = ways["default"], ways["greedy"], ways[REFERENCE]
    changed = len(default) - same(default, greedy)
    dearer, cheaper = seconds(default) / seconds(greedy), seconds(reference) / seconds(default)
    told = (
        f"The default changed {changed} of {len(default)} greedy translations. It took {dearer:.1f} times as long as "
        f"greedy decoding, and {cheaper:.1f} times less than {REFERENCE}."
    )
    known = len(greedy) >= LEAST and same(greedy, reference) > 0
    if known and same(greedy, reference) >= same(default, reference):
        told += " Greedy decoding chose what they choose at least as often: for such sentences it is enough."
    return told


def same(column: Sequence[Shown], other: Sequence[Shown]) -> int:
    """How many translations are the same in both."""
    return sum(one.outcome.translation == two.outcome.translation for one, two in zip(column, other, strict=True))


def candidates(column: Sequence[Shown]) -> int:
    return sum(one.outcome.cost for one in column)


def seconds(column: Sequence[Shown]) -> float:
    return sum(one.seconds for one in column)
