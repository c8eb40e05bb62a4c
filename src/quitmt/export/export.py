"""From files of pools and outcomes to a file of training data: read, filter, choose, format, write."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from os import PathLike, fspath
from pathlib import Path

from quitmt.errors import InputError, UsageError, setting, unknown
from quitmt.export import choose, filters, llama_factory
from quitmt.export.choose import Chosen, Margin, Strategy
from quitmt.export.entries import ExportEntry, read_entries
from quitmt.export.filters import DUPLICATE, RATIO, Filters
from quitmt.export.formats import FORMATS, Format, Row, rows
from quitmt.export.summary import Summary
from quitmt.export.voice import Voice, voice
from quitmt.export.writers import Writer, open_writer
from quitmt.files.locks import same_file
from quitmt.files.pools import Seen
from quitmt.loops.iterate import iterate
from quitmt.types import Ranked, StopReason

Paths = str | PathLike[str] | Sequence[str | PathLike[str]]


@dataclass(frozen=True, slots=True)
class ExportSettings:
    """How training data is made; the defaults and their reasons are in docs/training-data.md."""

    format: str = "dpo"
    score: str | None = None
    """Of the pools, by its name; may be left out where they have only one."""
    rejected: str = choose.REJECTED
    min_margin: str | float = choose.MARGIN
    pairs: int = 1
    """At most, of a source."""
    filters: str | None = None
    """Some of ``filters.FILTERS``, with commas, or none; all of them by default."""
    max_ratio: float = RATIO
    prompt: str | None = None
    """A prompt template; the source itself is the prompt without one."""
    chat: bool = False
    languages: tuple[str | None, str | None] = (None, None)
    about: bool = True
    """Whether there are columns that say where a row comes from, besides those that trainers read."""
    targets: str | None = None
    """The second file of a parallel corpus."""
    llama_factory: str | None = None
    """The name of the entry in ``dataset_info.json``."""


def export(
    inputs: Paths, output: str | PathLike[str], settings: ExportSettings | None = None, **more: object
) -> Summary:
    """Write training data to a new file. ``more`` are fields of the settings: ``format="sft", chat=True``."""
    return next(iterate(_once(inputs, output, settings, more)))


async def export_async(
    inputs: Paths, output: str | PathLike[str], settings: ExportSettings | None = None, **more: object
) -> Summary:
    return await anext(_once(inputs, output, settings, more))


async def _once(
    inputs: Paths, output: str | PathLike[str], settings: ExportSettings | None, more: dict[str, object]
) -> AsyncIterator[Summary]:
    paths = [inputs] if isinstance(inputs, str | PathLike) else list(inputs)
    job = ExportJob(replace(settings or ExportSettings(), **more))  # type: ignore[arg-type]
    yield await job.run([fspath(path) for path in paths], fspath(output))


class ExportJob:
    """Settings that were found to be right, and what they come to."""

    def __init__(self, settings: ExportSettings) -> None:
        if settings.format not in FORMATS:
            raise unknown("format", settings.format, FORMATS)
        if settings.pairs < 1:
            raise UsageError(f"{setting('export.pairs')} must be a whole number of at least 1, not {settings.pairs}")
        self.settings = settings
        self.format: Format = FORMATS[settings.format]
        self.strategy, self.margin = Strategy.parse(settings.rejected), Margin.parse(str(settings.min_margin))
        names = filters.parse(settings.filters, settings.languages[1])
        self.voice: Voice = voice(settings.prompt, settings.languages, chat=settings.chat)
        self.filters: Filters = filters.make(names, settings.languages[1], settings.max_ratio)
        self._seen = Seen() if DUPLICATE in names else None

    async def run(self, inputs: Sequence[str], output: str) -> Summary:
        own = self.settings
        if not inputs:
            raise UsageError("there is nothing to export", hint="name a file of pools or outcomes")
        for path in inputs:
            if any(same_file(path, other) for other in (output, own.targets) if other):
                raise UsageError(f"{path} is an input and would be overwritten", hint="write to another file")
        named = own.llama_factory
        info = llama_factory.check(named, output, own.format, chat=own.chat) if named is not None else None
        columns = self.format.columns(about=own.about)
        async with aclosing(read_entries(inputs, own.score)) as entries:
            summary = await self._write(entries, lambda: open_writer(output, columns, self.voice, targets=own.targets))
        if info is not None:
            llama_factory.write(info, output)
        return summary

    async def _write(self, entries: AsyncIterator[ExportEntry], opened: Callable[[], Writer]) -> Summary:
        summary, writer = Summary(), opened()
        try:
            async for entry in entries:
                found = self.rows(entry)
                if isinstance(found, str):
                    summary.add(0, found)
                    continue
                for row in found:
                    writer.write(row)
                summary.add(len(found))
            if not summary.rows:
                raise InputError(_nothing(summary))
            writer.finish()
        except BaseException:
            writer.abandon()
            raise
        return summary

    def rows(self, entry: ExportEntry) -> list[Row] | str:
        """What a source gives, or why it gives nothing."""
        if entry.stop == StopReason.FAILED:
            return "failed"
        if not entry.source.strip():
            return "have no source"
        if not entry.listed and self.format.needs != "best":
            hint = f"translate or rerank again with {setting('run.nbest', '64')}, or keep the pools"
            raise InputError(f"outcome {entry.id} has no n-best list, which {self.settings.format} needs", hint=hint)
        chosen = self._choose(entry)
        if isinstance(chosen, str):
            return chosen
        choice, candidates = chosen
        if self._seen is not None and self._seen.seen(f"{entry.source}\0{candidates[0].text}"):
            return "are duplicates"
        return rows(self.settings.format, entry, choice, candidates, self.voice)

    def _choose(self, entry: ExportEntry) -> tuple[Chosen, Sequence[Ranked]] | str:
        source, ranked = entry.source, entry.ranked
        if self.format.needs == "all":
            found = choose.everything(source, ranked, self.filters, at_least=self.format.at_least)
            return found if isinstance(found, str) else (Chosen(), found)
        if self.format.needs == "best":
            choice = choose.best(source, ranked, self.filters)
        else:
            choice = choose.pairs(source, ranked, self.filters, self.strategy, self.margin, self.settings.pairs)
        return choice.reason or "" if choice.chosen is None else (choice, [choice.chosen])


def _nothing(summary: Summary) -> str:
    if not summary.sources:
        return "there is nothing in the input"
    return f"none of {summary.sources} sources gave a row: {summary.why()}"


def default_entry(output: str) -> str:
    """A name for an entry of LLaMA-Factory."""
    return Path(output).name.partition(".")[0]
