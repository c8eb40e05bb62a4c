"""Shows a run: a progress bar, warnings and a summary on standard error, and outcomes with ``--show``."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence

from tqdm import tqdm

from quitmt.engine.slots import Observer
from quitmt.types import Finished, Outcome, Segment, Snapshot, StopReason
from quitmt.warnings import ADVICE, LOST, SEVERAL, kind

REDRAW_SECONDS = 0.2
SPLIT = "the model may leave some out, because it was trained on single sentences; use --split"
FIRST = 5
"""How many segments with the same warning are named."""
NAMED = 12
"""How many lost characters are named, most frequent first."""
BARS = "▁▂▃▄▅▆▇█"
WIDTH = 64

MEANINGS = {
    StopReason.STABLE: "the best score stopped moving",
    StopReason.DECIDED: "enough by the rule",
    StopReason.BUDGET: "all candidates used",
    StopReason.EXHAUSTED: "the recorded pool ended",
    StopReason.DEADLINE: "time was up",
}
"""Stop reasons in a few words; failures have an error message."""


class Warnings:
    """Counts the warnings of a run, and keeps the first segments with each."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._first: dict[str, list[tuple[int, str]]] = {}
        self._named: dict[str, Counter[str]] = {}
        """Warning → the characters it names, such as lost ones."""

    def add(self, outcome: Outcome, position: int) -> None:
        for text in outcome.warnings:
            warning = kind(text)
            self._counts[warning] += 1
            self._named.setdefault(warning, Counter()).update(
                text.partition(": ")[2].split() if warning == LOST else ()
            )
            first = self._first.setdefault(warning, [])
            first.append((position, outcome.id))
            first.sort()  # segments finish in any order
            del first[FIRST:]

    def lines(self) -> Iterator[str]:
        """One line per kind of warning: how many segments have it, the first of them, and advice."""
        for warning, advice in (ADVICE | {SEVERAL: SPLIT}).items():
            if count := self._counts[warning]:
                first = [name for _, name in self._first[warning]]
                more = ", …" if count > len(first) else ""
                lost = self._named[warning]
                named = " ".join(sorted(lost, key=lambda one: (-lost[one], one))[:NAMED])
                where = f"{warning}{f' ({named})' if named else ''} in {count} segment{'s' * (count > 1)}"
                yield f"{where} ({', '.join(first)}{more}): {advice}"


class Bill:
    """Adds up the seconds and tokens of a run."""

    def __init__(self) -> None:
        self._generate = self._rerank = 0.0
        self._tokens: int | None = 0
        """None once the tokens of any candidate are unknown."""

    def add(self, finished: Finished) -> None:
        outcome = finished.outcome
        self._generate += outcome.seconds.generate
        self._rerank += outcome.seconds.rerank
        used = [*finished.anchors, *finished.candidates]
        if self._tokens is None or len(used) < outcome.cost or any(one.tokens is None for one in used):
            self._tokens = None
        else:
            self._tokens += sum(one.tokens or 0 for one in used)

    def line(self) -> str | None:
        """None if nothing was generated, as with recorded pools."""
        if not self._generate:
            return None
        tokens = f", {self._tokens:,} tokens" if self._tokens else ""
        return f"{self._generate:.1f} s generating and {self._rerank:.1f} s reranking{tokens}"


class Progress:
    """Counts outcomes, and draws a bar if standard error is a terminal."""

    def __init__(
        self,
        budget: int,
        *,
        total: int | None = None,
        quiet: bool = False,
        of: tuple[str, str] = ("lines", "the input"),
        requested: float | str | None = None,
    ) -> None:
        """``of`` is the unit of the segments and their file; ``requested`` is the average cost that the user asked
        for."""
        self._budget, self._of, self._items, self._requested = budget, of, 0, requested
        self._quiet = quiet
        self.stops: Counter[StopReason] = Counter()
        self.used = 0
        self._copied = 0
        self._possible = 0
        self._bar = tqdm(
            total=total,
            unit="segment",
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
        self._bill = Bill()

    @property
    def segments(self) -> int:
        return sum(self.stops.values())

    @property
    def failed(self) -> int:
        return self.stops[StopReason.FAILED]

    @property
    def first_error(self) -> str | None:
        """The error of the failed segment that comes first in the input; segments finish in any order."""
        return self._first[1] if self._first else None

    @property
    def observer(self) -> Observer | None:
        """For the driver: updates the bar while segments are in flight."""
        return None if self._bar.disable else self._observe

    def _observe(self, segment: Segment, snapshot: Snapshot, *_: object) -> None:
        self._in_flight[segment.id] = snapshot.size
        if time.monotonic() - self._drawn > REDRAW_SECONDS:
            self._drawn = time.monotonic()
            candidates = self.used + sum(self._in_flight.values())
            self._bar.set_postfix_str(f"{candidates:,} candidates, {self._saved():.0%} saved")

    def say(self, message: str) -> None:
        """Print a message above the bar, if there is one."""
        if not self._quiet and sys.stderr is not None:
            tqdm.write(f"quitmt: {message}", file=sys.stderr)

    def wait(self, reason: str | None) -> None:
        """Show why the run is waiting: in the bar, or once if there is no bar."""
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
        self._copied += outcome.copied and not outcome.error
        if outcome.cost or outcome.error:  # blank lines and copies cost nothing, so they don't count
            self.stops[outcome.stop] += 1
            self.used += outcome.cost
            failed = outcome.stop is StopReason.FAILED  # the rest of its budget was not saved
            possible = outcome.cost if failed else (outcome.budget or self._budget) + outcome.anchors
            self._possible += possible
            if outcome.cost:
                self._bill.add(finished)
        if outcome.error and (self._first is None or position < self._first[0]):
            self._first = position, outcome.error
        if outcome.effort:
            self._evaluations += outcome.effort.evaluations
            self._pairs += outcome.effort.possible
        self._bar.update()

    def _saved(self) -> float:
        """The share of available candidates that were not used; a recorded pool may have fewer than the budget."""
        return 1 - self.used / self._possible if self._possible else 0.0

    def close(self, *, summary: bool = True) -> None:
        self._bar.close()
        if not self._quiet and sys.stderr is not None:
            for line in self._warnings.lines():
                print(f"quitmt: {line}", file=sys.stderr)
            self._warnings = Warnings()  # close may be called twice
            if summary and not self.segments:
                what, file = self._of
                print(f"quitmt: {f'all {what} of {file} are blank' if self._items else f'{file} has no {what}'}",
                      file=sys.stderr)  # fmt: skip
        if summary and not self._quiet and self.segments:
            print(f"quitmt: {self._summary()}", file=sys.stderr)
            if paid := self._bill.line():
                print(f"quitmt: {paid}", file=sys.stderr)

    def _summary(self) -> str:
        """The mean number of candidates, the share that was saved, and the stop reasons."""
        mean, most = self.used / self.segments, self._possible / self.segments
        possible = f"{most:.0f}" if most.is_integer() else f"{most:.1f}"
        of, saved = (f" of {possible}", f" ({self._saved():.1%} saved)") if self.used < self._possible else ("", "")
        stops = ", ".join(f"{count} {explained(stop)}" for stop, count in self.stops.most_common())
        compared = self._evaluations / self._pairs if self._pairs else 0.0
        share = f"; {compared:.1%} of all pairs compared" if self._pairs else ""
        many = "s" if self.segments > 1 else ""
        target = f", target {self._requested:g}" if isinstance(self._requested, int | float) else ""
        used = f"{mean:.1f}{of} candidates per segment{saved}{target}"
        copied = f"; {self._copied} more copied from equal segments" if self._copied else ""
        return f"{self.segments} segment{many}, {used}; {stops}{share}{copied}"


def explained(stop: StopReason) -> str:
    """A stop reason with its meaning."""
    return f"{stop.value} ({MEANINGS[stop]})" if stop in MEANINGS else stop.value


def sparkline(values: Sequence[float], width: int = WIDTH) -> str:
    """Draw one bar per value, scaled from the lowest to the highest; longer sequences are thinned out evenly.

    >>> sparkline([0.1, 0.4, 0.8, 0.8])
    '▁▄██'
    """
    if len(values) > width:
        values = [values[round(i * (len(values) - 1) / (width - 1))] for i in range(width)]
    low, high = min(values, default=0.0), max(values, default=0.0)
    span = high - low
    return "".join(BARS[int((value - low) / span * (len(BARS) - 1) + 0.5) if span else -1] for value in values)


def describe(outcome: Outcome, budget: int) -> str:
    """Describe an outcome in a few lines; ``budget`` is the run's, for outcomes that have none."""
    lines = [f"{outcome.id}. {outcome.source}".rstrip(), f"   → {outcome.translation}".rstrip()]
    if outcome.copied and not outcome.error:
        lines.append("   copied from an equal segment")
    elif outcome.cost or outcome.error:
        reason = f"{outcome.stop.value}: {outcome.error or MEANINGS[outcome.stop]}"
        anchors = f" and {outcome.anchors} anchor{'s' * (outcome.anchors > 1)}" if outcome.anchors else ""
        chosen = f" · chose {outcome.origin}" if outcome.origin else ""
        lines.append(f"   {outcome.size} of {outcome.budget or budget} candidates{anchors}{chosen} · {reason}")
    if outcome.trajectory:
        lines.append(f"   {sparkline(outcome.trajectory)} {outcome.trajectory[0]:.4f} → {outcome.trajectory[-1]:.4f}")
    if outcome.warnings:
        lines.append(f"   warnings: {', '.join(outcome.warnings)}")
    return "\n".join(lines) + "\n"
