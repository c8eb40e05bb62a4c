"""A job (inputs, recipe, output) and the manifest that keeps two jobs out of one folder.

The output folder of a job holds the results, ``part-000000.parquet`` and so on. Its subfolder ``_quitmt`` holds what a
rerun needs:

    manifest.json         the settings, and a fingerprint of each input
    plan.json             the rows per part; written once the whole input was read without errors
    input/                the rows of each part
    distinct/             with ``distinct``: the outcomes of the distinct rows
    refill                with ``distinct``: a mark that results are older than these outcomes
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
STATE_FOLDER = "_quitmt"


@dataclass(frozen=True, slots=True)
class BatchJob:
    inputs: tuple[str, ...]
    """Paths, addresses and patterns."""
    output: str
    recipe: Recipe = field(default_factory=Recipe)
    columns: InputColumns = field(default_factory=InputColumns)
    input_format: str | None = None
    output_format: str = "parquet"
    rows_per_file: int = ROWS_PER_FILE
    distinct: bool = False
    """Whether each distinct source is translated only once."""

    def __post_init__(self) -> None:
        if self.output_format not in SUFFIXES:
            raise unknown("output format", self.output_format, SUFFIXES)
        if self.rows_per_file < 1:
            raise UsageError(f"{setting('batch.rows_per_file')} must be at least 1, not {self.rows_per_file}")
        if self.recipe.run.run_deadline is not None:
            hint = "stop the job whenever you like; the same command continues it"
            raise UsageError(f"batch jobs don't support {setting('run.run_deadline')}", hint=hint)

    @property
    def nbest(self) -> int:
        """Number of best candidates in each row of the output."""
        return self.recipe.run.nbest or 0

    @property
    def folder(self) -> Folder:
        return Folder(self.output, self.output_format, self.distinct)

    def files(self) -> tuple[list[InputFile], str]:
        """Lists the inputs and their format. Inputs whose ids by file and line would not be unique are refused."""
        files = [file for pattern in self.inputs for file in matches(pattern)]
        names: dict[str, str] = {}
        places: set[str] = set()
        for file in files:
            if file.place.url in places:
                raise UsageError(f"{file.place.url} is given as an input twice")
            places.add(file.place.url)
            if names.setdefault(file.name, file.place.url) != file.place.url and self.columns.id is None:
                hint = "match both with one pattern, such as 'data/*/*.txt', or name a column with ids"
                raise UsageError(f"two inputs are called {file.name}, so ids would not be unique", hint=hint)
        return files, rows.format_of(files, self.input_format)

    def settings(self) -> dict[str, Any]:
        """All settings that the results depend on, by name."""
        recipe = {
            f"{section}.{name}": value
            for section, fields in resolve(self.recipe, installed=False).recipe.of_results().items()
            for name, value in fields.items()
        }
        batch = {
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
        return as_read_back({**recipe, **{f"batch.{name}": one for name, one in batch.items()}, "version": __version__})


@dataclass(frozen=True, slots=True)
class Folder:
    """The locations of a job's files. Sent to the workers."""

    output: str
    output_format: str
    distinct: bool = False

    @property
    def place(self) -> Location:
        return Location(self.output)

    @property
    def state(self) -> Location:
        return self.place / STATE_FOLDER

    def name(self, part: int) -> str:
        return f"part-{part:06d}{SUFFIXES[self.output_format]}"

    def result(self, part: int) -> Location:
        return self.place / self.name(part)

    @property
    def finished(self) -> Location:
        """The folder that workers write to."""
        return self.state / "distinct" if self.distinct else self.place

    def worked(self, part: int) -> Location:
        return self.finished / self.name(part)

    def rows(self, part: int) -> Location:
        return self.state / "input" / f"part-{part:06d}.parquet"

    @property
    def refill(self) -> Location:
        return self.state / "refill"

    def make(self) -> None:
        """Makes all folders that the job writes to."""
        for folder in (self.place, self.state, self.state / "input", self.finished):
            folder.make_folder()


def claim(job: BatchJob, files: Sequence[InputFile]) -> None:
    """Makes the folder this job's own. A folder that holds another job or unrelated results is refused.

    If the input of an earlier job in the folder was refused, that job never began, so any job may take the folder over.
    """
    folder, now = job.folder, job.settings()
    prints = {file.name: _fingerprint(file) for file in files}
    manifest = folder.state / "manifest.json"
    results = [name for name in folder.place.names() if name.startswith("part-")]
    if manifest.exists() and (results or (folder.state / "plan.json").exists()):
        _refuse_other(job, _manifest(manifest), now, prints)
        return
    if results:
        hint = "choose another folder, or empty it"
        raise UsageError(f"{job.output} holds {min(results)}, which isn't from this job", hint=hint)
    folder.make()
    manifest.write(json.dumps({"settings": now, "inputs": prints}, ensure_ascii=False, indent=1).encode())


def _manifest(place: Location) -> Mapping[str, Any]:
    try:
        manifest = json.loads(place.read())
        if isinstance(manifest["settings"], dict) and isinstance(manifest["inputs"], dict):
            return manifest  # type: ignore[no-any-return]
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, InputError):
            raise
    raise InputError(f"{place.url} is damaged", hint="delete the folder to start over")


def _refuse_other(job: BatchJob, before: Mapping[str, Any], now: Mapping[str, Any], prints: Mapping[str, Any]) -> None:
    if other := difference(before["settings"], now):
        raise UsageError(
            f"cannot continue: {other.since(f'the job that {job.output} holds')}",
            hint="give the same settings, or another output",
        )
    if changed := difference(before["inputs"], prints):
        was, is_now = changed.was, changed.now
        change = "is new" if was is None else "is missing" if is_now is None else "has changed"
        raise InputError(
            f"cannot continue: the input {changed.name} {change} since the job in {job.output} began",
            hint="give the same inputs, or another output",
        )


def _fingerprint(file: InputFile) -> list[int]:
    """The size and a checksum of the beginning and the end: cheap for files of any size."""
    return [file.place.size(), zlib.crc32(file.place.edges())]
