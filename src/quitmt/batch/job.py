"""A job: what is translated by which recipe and where to, and the manifest that keeps two jobs out of one folder.

The folder of a job holds its results, ``part-000000.parquet`` and so on, and in ``_quitmt`` what it needs to go on:

    manifest.json         the settings and the inputs, with a fingerprint of each
    plan.json             how many rows each part has; written when the whole input was read and found good
    input/                the rows of each part
    distinct/             with ``distinct``: the outcomes of the distinct rows, before they are given to all
    refill                with ``distinct``: results are older than these outcomes, and must be written again
    total.json            with ``distinct``: what the job came to, once all the above is not needed any more
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from quitmt._version import __version__
from quitmt.batch import rows
from quitmt.batch.columns import SUFFIXES
from quitmt.batch.rows import InputColumns
from quitmt.batch.storage import InputFile, Location, matches
from quitmt.errors import InputError, UsageError, setting, unknown
from quitmt.files.settings import as_read_back, difference
from quitmt.plan import Recipe, resolve

ROWS_PER_FILE = 1000
OWN = "_quitmt"


@dataclass(frozen=True, slots=True)
class BatchJob:
    inputs: tuple[str, ...]
    """Paths, addresses and patterns of either."""
    output: str
    recipe: Recipe = field(default_factory=Recipe)
    columns: InputColumns = field(default_factory=InputColumns)
    input_format: str | None = None
    output_format: str = "parquet"
    rows_per_file: int = ROWS_PER_FILE
    distinct: bool = False
    """Whether a source that occurs several times is translated once."""

    def __post_init__(self) -> None:
        if self.output_format not in SUFFIXES:
            raise unknown("output format", self.output_format, SUFFIXES)
        if self.rows_per_file < 1:
            told = f"must be a whole number of at least 1, not {self.rows_per_file}"
            raise UsageError(f"{setting('batch.rows_per_file')} {told}")
        if self.recipe.run.run_deadline is not None:
            hint = "a job goes on where it ended, so end it when you like"
            raise UsageError(f"{setting('run.run_deadline')} does not go with a job of many workers", hint=hint)

    @property
    def nbest(self) -> int:
        """How many of the best candidates each row of the output has."""
        return self.recipe.run.nbest or 0

    @property
    def folder(self) -> Folder:
        return Folder(self.output, self.output_format, self.distinct)

    def files(self) -> tuple[list[InputFile], str]:
        """The inputs and their format; refused where ids by file and line would not be unique."""
        found = [file for pattern in self.inputs for file in matches(pattern)]
        names: dict[str, str] = {}
        places: set[str] = set()
        for file in found:
            if file.place.url in places:
                raise UsageError(f"{file.place.url} is an input twice")
            places.add(file.place.url)
            if names.setdefault(file.name, file.place.url) != file.place.url and self.columns.id is None:
                hint = "name both by one pattern, such as 'data/*/*.txt', or name a column with ids"
                raise UsageError(f"two inputs are called {file.name}, so that ids would not be unique", hint=hint)
        return found, rows.format_of(found, self.input_format)

    def settings(self) -> dict[str, Any]:
        """What the results depend on, by names of settings."""
        recipe = {
            f"{section}.{name}": value
            for section, fields in resolve(self.recipe, installed=False).recipe.of_results().items()
            for name, value in fields.items()
        }
        own = {
            "rows_per_file": self.rows_per_file,
            "output_format": self.output_format,
            "distinct": self.distinct,
            "input_format": self.input_format,
            "no_header": not self.columns.header,
            **{rows.SETTINGS[use]: name for use, name in self.columns.wanted.items()},
        }
        recipe["run.nbest"] = self.nbest
        if self.recipe.stop.profile is not None:
            recipe["the checksum of the profile"] = zlib.crc32(Path(self.recipe.stop.profile).read_bytes())
        return as_read_back({**recipe, **{f"batch.{name}": one for name, one in own.items()}, "version": __version__})


@dataclass(frozen=True, slots=True)
class Folder:
    """Where everything of a job lies. Travels to the workers."""

    output: str
    output_format: str
    distinct: bool = False

    @property
    def place(self) -> Location:
        return Location(self.output)

    @property
    def own(self) -> Location:
        return self.place / OWN

    def name(self, part: int) -> str:
        return f"part-{part:06d}{SUFFIXES[self.output_format]}"

    def result(self, part: int) -> Location:
        return self.place / self.name(part)

    @property
    def finished(self) -> Location:
        """The folder that workers write to."""
        return self.own / "distinct" if self.distinct else self.place

    def worked(self, part: int) -> Location:
        return self.finished / self.name(part)

    def rows(self, part: int) -> Location:
        return self.own / "input" / f"part-{part:06d}.parquet"

    @property
    def refill(self) -> Location:
        return self.own / "refill"

    @property
    def total(self) -> Location:
        return self.own / "total.json"

    def make(self) -> None:
        """Everything that will be written to is there after it, and can be."""
        for folder in (self.place, self.own, self.own / "input", self.finished):
            folder.make_folder()


def claim(job: BatchJob, files: Sequence[InputFile]) -> None:
    """Make the folder this job's: refused if it holds another one, or files of others.

    A job whose input was refused never began: whoever has mended the input, or the settings, may start over.
    """
    folder, now = job.folder, job.settings()
    prints = {file.name: _fingerprint(file) for file in files}
    manifest = folder.own / "manifest.json"
    results = [name for name in folder.place.names() if name.startswith("part-")]
    if manifest.exists() and (results or (folder.own / "plan.json").exists()):
        _refuse_other(job, _manifest(manifest), now, prints)
        return
    if results:
        hint = "choose another folder, or empty it"
        raise UsageError(f"{job.output} holds {min(results)}, which is no result of this job", hint=hint)
    folder.make()
    manifest.write(json.dumps({"settings": now, "inputs": prints}, ensure_ascii=False, indent=1).encode())


def _manifest(place: Location) -> Mapping[str, Any]:
    try:
        found = json.loads(place.read())
        if isinstance(found["settings"], dict) and isinstance(found["inputs"], dict):
            return found  # type: ignore[no-any-return]
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, InputError):
            raise
    raise InputError(f"{place.url} is damaged", hint="delete the folder to start over")


def _refuse_other(job: BatchJob, before: Mapping[str, Any], now: Mapping[str, Any], prints: Mapping[str, Any]) -> None:
    if other := difference(before["settings"], now):
        raise UsageError(
            f"cannot go on: {other.since(f'the job that {job.output} holds')}",
            hint="give the same settings, or another output",
        )
    if changed := difference(before["inputs"], prints):
        was, is_now = changed.was, changed.now
        what = "is new" if was is None else "is missing" if is_now is None else "has changed"
        raise InputError(
            f"cannot go on: the input {changed.name} {what} since the job that {job.output} holds was begun",
            hint="give the same inputs, or another output",
        )


def _fingerprint(file: InputFile) -> list[int]:
    """Of its length, its beginning and its end: cheap, whatever the size."""
    return [file.place.size(), zlib.crc32(file.place.edges())]
