"""What a run tells on standard error: a progress bar on a terminal, and a closing line."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from tqdm import tqdm

from quitmt.cli.show import MEANINGS
from quitmt.engine.slots import Observer
from quitmt.types import Finished, Outcome, Segment, Snapshot, StopReason
from quitmt.warnings import ADVICE, LOST, SEVERAL, kind

REDRAW_SECONDS = 0.2
UNIT = " segments"
SPLIT = "the model was trained on single sentences and may leave some out; --split translates them one by one"
FIRST = 5
"""Segments that are named of those with a warning."""
NAMED = 12
"""Lost characters that are named, the most frequent first."""


class Bar(tqdm):  # type: ignore[type-arg]  # not subscriptable when it runs
    """Says 2.50 segments/s, and 1.64s/segment where tqdm would say 1.64s/ segments."""

    @staticmethod
    def format_meter(*values: Any, **named: Any) -> str:
        return str(tqdm.format_meter(*values, **named)).replace(f"s/{UNIT}", f"s/{UNIT[1:-1]}")


class Warnings:
    """Counts the warnings of a run, and keeps the first segments that have each."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._first: dict[str, list[tuple[int, str]]] = {}
        self._named: dict[str, Counter[str]] = {}
        """The characters that were lost."""

    def add(self, outcome: Outcome, position: int) -> None:
        for told in outcome.warnings:
            warning = kind(told)
            self._counts[warning] += 1
            self._named.setdefault(warning, Counter()).update(
                told.partition(": ")[2].split() if warning == LOST else ()
            )
            first = self._first.setdefault(warning, [])
            first.append((position, outcome.id))
            first.sort()  # segments finish in any order
            del first[FIRST:]

    def lines(self) -> Iterator[str]:
        """One for each warning: how many, the first of them, and what to make of it."""
        for warning, advice in (ADVICE | {SEVERAL: SPLIT}).items():
            if count := self._counts[warning]:
                first = [name for _, name in self._first[warning]]
                more = ", …" if count > len(first) else ""
                lost = self._named[warning]
                named = " ".join(sorted(lost, key=lambda one: (-lost[one], one))[:NAMED])
                where = f"{warning}{f' ({named})' if named else ''} in {count} segment{'s' * (count > 1)}"
                yield f"{where} ({', '.join(first)}{more}): {advice}"


class Bill:
    """What a run cost in seconds and tokens, and what its full budgets would have cost by an estimate."""

    def __init__(self, *, shares_beginnings: bool = False) -> None:
        self._even = not shares_beginnings
        """Whether further candidates would cost as much as these."""
        self._generate = self._rerank = 0.0
        self._all_seconds = self._all_tokens = 0.0
        self._tokens: int | None = 0
        """None as soon as one candidate's are not known."""

    def add(self, finished: Finished, possible: int) -> None:
        """``possible`` candidates might have been generated for it."""
        outcome = finished.outcome
        self._generate += outcome.seconds.generate
        self._rerank += outcome.seconds.rerank
        self._all_seconds += outcome.seconds.generate / outcome.cost * possible
        used = [*finished.anchors, *finished.candidates]
        if self._tokens is None or len(used) < outcome.cost or any(one.tokens is None for one in used):
            self._tokens = None
        else:
            tokens = sum(one.tokens or 0 for one in used)
            self._tokens += tokens
            self._all_tokens += tokens / outcome.cost * possible

    def line(self) -> str | None:
        """None where nothing was generated: a recorded pool has been paid for."""
        if not self._generate:
            return None
        tokens = f", {self._tokens:,} tokens" if self._tokens else ""
        paid = f"{self._generate:.1f} s generating and {self._rerank:.1f} s reranking{tokens}"
        if self._all_seconds <= self._generate:
            return paid
        seconds = f"{self._all_seconds:.1f} s generating" if self._even else ""
        rest = [told for told in (seconds, f"{self._all_tokens:,.0f} tokens" if self._tokens else "") if told]
        return f"{paid}; all candidates would take about {', '.join(rest)} (estimate)" if rest else paid


class Progress:
    """Counts outcomes; draws a bar only where somebody is looking."""

    def __init__(
        self,
        budget: int,
        *,
        total: int | None = None,
        quiet: bool = False,
        shares_beginnings: bool = False,
        of: tuple[str, str] = ("lines", "the input"),
        requested: float | str | None = None,
    ) -> None:
        """``of`` is what the segments are, and the file that has them; ``asked`` what they should cost on average."""
        self._budget, self._of, self._items, self._requested = budget, of, 0, requested
        self._quiet = quiet
        self.stops: Counter[StopReason] = Counter()
        self.used = 0
        self._possible = 0
        self._bar = Bar(
            total=total,
            unit=UNIT,
            disable=quiet or sys.stderr is None or not sys.stderr.isatty(),
            file=sys.stderr,
            dynamic_ncols=True,
            smoothing=0.05,
            delay=0.3,
        )
        self._evaluations = self._pairs = 0
        self._first: tuple[int, str] | None = None
        self._in_flight: dict[str, int] = {}
        self._drawn = 0.0
        self._waiting = False
        self._warnings = Warnings()
        self._bill = Bill(shares_beginnings=shares_beginnings)

    @property
    def segments(self) -> int:
        return sum(self.stops.values())

    @property
    def failed(self) -> int:
        return self.stops[StopReason.FAILED]

    @property
    def first_error(self) -> str | None:
        """Of the first failed one in the order of the input; segments finish in any order."""
        return self._first[1] if self._first else None

    @property
    def observer(self) -> Observer | None:
        """For the driver: keeps the bar alive while segments are under way."""
        return None if self._bar.disable else self._observe

    def _observe(self, segment: Segment, snapshot: Snapshot, *_: object) -> None:
        self._in_flight[segment.id] = snapshot.size
        if time.monotonic() - self._drawn > REDRAW_SECONDS:
            self._drawn = time.monotonic()
            candidates = self.used + sum(self._in_flight.values())
            self._bar.set_postfix_str(f"{candidates:,} candidates, {self._saved():.0%} saved")

    def say(self, message: str) -> None:
        """Above the bar, if there is one."""
        if not self._quiet and sys.stderr is not None:
            tqdm.write(f"quitmt: {message}", file=sys.stderr)

    def wait(self, reason: str | None) -> None:
        """Say what the run waits for: in the bar, or where there is none, once."""
        if reason is None:
            self._waiting = False
        elif not self._bar.disable:
            self._bar.set_postfix_str(reason)
        elif not (self._waiting or self._quiet):
            self._waiting = True
            print(f"quitmt: waiting: {reason}", file=sys.stderr)

    def add(self, finished: Finished, position: int = 0) -> None:
        outcome = finished.outcome
        self._items += 1
        self._warnings.add(outcome, position)
        self._in_flight.pop(outcome.id, None)
        if outcome.cost or outcome.error:  # a blank line costs nothing and says nothing about costs
            self.stops[outcome.stop] += 1
            self.used += outcome.cost
            failed = outcome.stop is StopReason.FAILED  # what it did not take was not saved
            possible = outcome.cost if failed else (outcome.budget or self._budget) + outcome.anchors
            self._possible += possible
            if outcome.cost:
                self._bill.add(finished, possible)
        if outcome.error and (self._first is None or position < self._first[0]):
            self._first = position, outcome.error
        if outcome.effort:
            self._evaluations += outcome.effort.evaluations
            self._pairs += outcome.effort.possible
        self._bar.update()

    def _saved(self) -> float:
        """Of the candidates that there were to use: a recorded pool may have fewer than the budget."""
        return 1 - self.used / self._possible if self._possible else 0.0

    def close(self, *, summary: bool = True) -> None:
        self._bar.close()
        if not self._quiet and sys.stderr is not None:
            for line in self._warnings.lines():
                print(f"quitmt: {line}", file=sys.stderr)
            self._warnings = Warnings()  # it may be closed twice
            if summary and not self.segments:
                what, file = self._of
                print(f"quitmt: {f'all {what} of {file} are blank' if self._items else f'{file} has no {what}'}",
                      file=sys.stderr)  # fmt: skip
        if summary and not self._quiet and self.segments:
            print(f"quitmt: {self._summary()}", file=sys.stderr)
            if paid := self._bill.line():
                print(f"quitmt: {paid}", file=sys.stderr)

    def _summary(self) -> str:
        """How many candidates segments took, of how many, and why they stopped."""
        mean, most = self.used / self.segments, self._possible / self.segments
        possible = f"{most:.0f}" if most.is_integer() else f"{most:.1f}"
        saved = f", of {possible} at most ({self._saved():.1%} saved)" if self.used < self._possible else ""
        stops = ", ".join(f"{count} {told(stop)}" for stop, count in self.stops.most_common())
        compared = self._evaluations / self._pairs if self._pairs else 0.0
        share = f"; {compared:.1%} of all pairs compared, identical candidates once" if self._pairs else ""
        many = "s" if self.segments > 1 else ""
        requested = f" (asked for {self._requested:g})" if isinstance(self._requested, int | float) else ""
        return f"{self.segments} segment{many}, {mean:.1f} candidates each on average{requested}{saved}; {stops}{share}"


def told(stop: StopReason) -> str:
    """A stop reason and, in a few words, what it means."""
    return f"{stop.value} ({MEANINGS[stop]})" if stop in MEANINGS else stop.value
