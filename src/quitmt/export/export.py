"""Exports pools and outcomes as a file of training data: read, filter, choose, format, write."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from os import PathLike, fspath

from quitmt.errors import InputError, UsageError, setting, unknown
from quitmt.export import choose, filters
from quitmt.export.choose import Margin, Strategy
from quitmt.export.entries import ExportEntry, RankedPool, read_entries
from quitmt.export.filters import DUPLICATE, RATIO, Filters
from quitmt.export.formats import FORMATS, Format, Row, Voice, rows, voice
from quitmt.export.writers import Writer, open_writer
from quitmt.files.locks import same_file
from quitmt.files.pools import Seen
from quitmt.loops.iterate import iterate
from quitmt.types import Ranked, StopReason

Paths = str | PathLike[str] | Sequence[str | PathLike[str]]


@dataclass(frozen=True, slots=True)
class ExportSettings:
    """Settings of an export. docs/training-data.md gives the reasons for the defaults."""

    format: str = "dpo"
    score: str | None = None
    """Name of the score to use in pools; optional if they have only one."""
    rejected: str = choose.REJECTED
    min_margin: str | float = choose.MARGIN
    pairs: int = 1
    """Maximum pairs per source."""
    filters: str | None = None
    """Comma-separated names of ``filters.FILTERS``, or none; all filters by default."""
    max_ratio: float = RATIO
    prompt: str | None = None
    """A prompt template. Without one, the prompt is the source itself."""
    chat: bool = False
    languages: tuple[str | None, str | None] = (None, None)
    about: bool = True
    """Whether to add columns about a row's origin to those that trainers read."""
    targets: str | None = None
    """The second file of a parallel corpus."""


@dataclass(slots=True)
class Summary:
    sources: int = 0
    gave: int = 0
    """Sources that gave at least one row."""
    rows: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    """The reasons why the others gave none, as the end of a sentence: "have no scored candidate"."""

    def add(self, rows: int, reason: str | None = None) -> None:
        self.sources += 1
        self.rows += rows
        if rows:
            self.gave += 1
        else:
            self.reasons[reason or "gave nothing"] += 1

    def lines(self, unit: str) -> list[str]:
        """The summary as lines of text.

        >>> summary = Summary(3, 2, 4, Counter({"failed": 1}))
        >>> summary.lines("pairs")
        ['2 of 3 sources gave 4 pairs', '1 gave none: 1 failed']
        """
        lines = [f"{self.gave} of {self.sources} sources gave {self.rows} {unit}"]
        if self.reasons:
            lines.append(f"{self.sources - self.gave} gave none: {self.why()}")
        return lines

    def why(self) -> str:
        return ", ".join(f"{count} {reason}" for reason, count in self.reasons.most_common())


def export(
    inputs: Paths, output: str | PathLike[str], settings: ExportSettings | None = None, **more: object
) -> Summary:
    """Writes training data to a new file. ``more`` are fields of the settings: ``format="sft", chat=True``."""
    return next(iterate(_once(inputs, output, replace(settings or ExportSettings(), **more))))  # type: ignore[arg-type]


async def _once(inputs: Paths, output: str | PathLike[str], settings: ExportSettings) -> AsyncIterator[Summary]:
    paths = [inputs] if isinstance(inputs, str | PathLike) else list(inputs)
    yield await ExportJob(settings).run([fspath(path) for path in paths], fspath(output))


class ExportJob:
    """Checked settings and the objects made from them."""

    def __init__(self, settings: ExportSettings) -> None:
        if settings.format not in FORMATS:
            raise unknown("format", settings.format, FORMATS)
        if settings.pairs < 1:
            raise UsageError(f"{setting('export.pairs')} must be at least 1, not {settings.pairs}")
        self.settings = settings
        self.format: Format = FORMATS[settings.format]
        self.strategy, self.margin = Strategy.parse(settings.rejected), Margin.parse(str(settings.min_margin))
        names = filters.parse(settings.filters, settings.languages[1])
        self.voice: Voice = voice(settings.prompt, settings.languages, chat=settings.chat)
        self.filters: Filters = filters.make(names, settings.languages[1], settings.max_ratio)
        self._seen = Seen() if DUPLICATE in names else None

    async def run(self, inputs: Sequence[str], output: str) -> Summary:
        settings = self.settings
        if not inputs:
            raise UsageError("no input files", hint="give files of pools or outcomes")
        for path in inputs:
            if any(same_file(path, other) for other in (output, settings.targets) if other):
                raise UsageError(f"{path} is an input and would be overwritten", hint="write to another file")
        columns = self.format.columns(about=settings.about)
        async with aclosing(read_entries(inputs, settings.score)) as entries:
            return await self._write(
                entries, lambda: open_writer(output, columns, self.voice, targets=settings.targets)
            )

    async def _write(self, entries: AsyncIterator[ExportEntry], opened: Callable[[], Writer]) -> Summary:
        summary, writer = Summary(), opened()
        try:
            async for entry in entries:
                made = self.rows(entry)
                if isinstance(made, str):
                    summary.add(0, made)
                    continue
                for row in made:
                    writer.write(row)
                summary.add(len(made))
            if not summary.rows:
                raise InputError(_nothing(summary))
            writer.finish()
        except BaseException:
            writer.abandon()
            raise
        return summary

    def rows(self, entry: ExportEntry) -> list[Row] | str:
        """The rows of a source, or the reason why it gives none."""
        if entry.stop == StopReason.FAILED:
            return "failed"
        if not entry.source.strip():
            return "have no source"
        if not entry.listed and self.format.needs != "best":
            hint = f"translate or rerank again with {setting('run.nbest', '64')}, or keep the pools"
            raise InputError(f"outcome {entry.id} has no n-best list, which {self.settings.format} needs", hint=hint)
        chosen = self._choose(entry.source, entry.ranked)
        if isinstance(chosen, str):
            return chosen
        if self._seen is not None and self._seen.seen(f"{entry.source}\0{chosen[0].text}"):
            return "are duplicates"
        return rows(self.settings.format, entry, chosen, self.voice)

    def _choose(self, source: str, ranked: RankedPool) -> list[Ranked] | str:
        if self.format.needs == "all":
            return choose.everything(source, ranked, self.filters, at_least=self.format.at_least)
        if self.format.needs == "best":
            return choose.best(source, ranked, self.filters)
        return choose.pairs(source, ranked, self.filters, self.strategy, self.margin, self.settings.pairs)


def _nothing(summary: Summary) -> str:
    if not summary.sources:
        return "the input is empty"
    return f"none of {summary.sources} sources gave a row: {summary.why()}"
