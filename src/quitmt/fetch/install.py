"""Installs a pair: fetches and tests all its files, then moves them into the store at once.

Until then the files are in a neighbouring folder (``.en-de.part``), which the next attempt continues. Only one process
at a time works on a pair; others get an error.

Invariant: the store always has either the complete old model of a pair or the complete new one. If a process is killed
while it replaces a model, the old one is left aside, where ``store`` finds it.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from quitmt.bergamot import store
from quitmt.errors import ModelError, OutputError, QuitmtError, UsageError
from quitmt.fetch.download import Bar, Pause, download, packed_name, writing
from quitmt.fetch.index import PATH, Published, address, read
from quitmt.fetch.transfer import Clock
from quitmt.files.locks import InUse, open_alone

_REPLACE = "quitmt models get {} --architecture {} --replace"


class Silent:
    """A progress bar that shows nothing."""

    def __init__(self, name: str, total: int | None, present: int) -> None: ...
    def update(self, count: int) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Installed:
    """The result of ``get``. ``fresh`` says whether anything was fetched."""

    pair: str
    folder: Path
    fresh: bool

    @property
    def name(self) -> str:
        """The name for ``--model``. Names of the included models always refer to those."""
        return f"bergamot:{self.folder}" if self.pair in store.EMBEDDED else f"embedded:{self.pair}"


def get(
    pair: str,
    *,
    architecture: str | None = None,
    replace: bool = False,
    url: str | None = None,
    bar: Bar = Silent,
    pause: Pause = time.sleep,
    clock: Clock = time.monotonic,
) -> Installed:
    """Fetch the model of a pair such as ``en-de``, unless it is installed already.

    By default it is the model that Firefox uses. Another installed model of the pair is replaced only if ``replace`` is
    true.
    """
    if not store.is_pair(pair):
        raise UsageError(f"{pair!r} is not a language pair", hint="write it as en-de")
    folder = store.place(pair)
    try:
        index = read(url, clock)
    except ModelError as error:
        if store.has(pair) and architecture is None and not replace:
            return Installed(pair, store.folder(pair), fresh=False)
        hint = (
            f"offline: on another machine, download the model and vocabulary files that {address(url)}/{PATH} lists "
            f"for {pair}, unpack them with gunzip, and put them into {folder}"
        )
        raise ModelError(error.args[0], hint=error.hint or hint) from None
    model = index.choose(pair, architecture)
    with writing(folder.parent):
        folder.parent.mkdir(parents=True, exist_ok=True)
    with _alone(pair):
        with writing(folder.parent):
            _put_back(pair)
        if _is_here(model, replace=replace):
            return Installed(pair, folder, fresh=False)
        _install(model, folder, bar, pause, clock)
    return Installed(pair, folder, fresh=True)


def _is_here(model: Published, *, replace: bool) -> bool:
    pair = model.pair
    if not store.has(pair):
        return False
    known = store.manifest(pair)
    if replace:
        return False
    if known and (known.hash, known.architecture) == (model.model.hash or "", model.architecture):
        return True
    present = known.architecture if known else "added manually"
    hint = _REPLACE.format(pair, model.architecture)
    raise UsageError(f"{store.folder(pair)} already has a model ({present})", hint=hint)


def _install(model: Published, folder: Path, bar: Bar, pause: Pause, clock: Clock) -> None:
    staging = folder.with_name(f".{folder.name}.part")
    with writing(staging):
        staging.mkdir(exist_ok=True)
        _clear(staging, {packed_name(file) for file in model.files})
    for file in model.files:
        download(file, staging, bar, pause, clock)
    _try(model, staging)
    known = store.Manifest(
        model.architecture, model.status, model.model.hash or "", model.model.url, dict(model.metrics)
    )
    with writing(folder):
        _clear(staging, {file.name for file in model.files})
        text = json.dumps(asdict(known), ensure_ascii=False, indent=2)
        (staging / store.MANIFEST).write_text(text + "\n", "utf-8")
        _move(staging, model.pair)


def _clear(folder: Path, wanted: set[str]) -> None:
    for path in folder.iterdir():
        if path.name not in wanted:
            path.unlink()


def _try(model: Published, staging: Path) -> None:
    """Load the model, because the index has no checksums of vocabularies and quitmt may not support the model."""
    from quitmt.bergamot.models import load

    try:
        load(f"bergamot:{staging}")
    except QuitmtError as error:
        with suppress(OSError):
            shutil.rmtree(staging)
        raise ModelError(f"the model published for {model.pair} cannot be used: {error}") from None


def _move(staging: Path, pair: str) -> None:
    """Swap the folders by two renames. Between them ``store`` uses the folder that was set aside."""
    folder, aside = store.place(pair), store.aside(pair)
    if folder.exists():
        folder.rename(aside)
    staging.rename(folder)
    shutil.rmtree(aside, ignore_errors=True)


def _put_back(pair: str) -> None:
    """Restore the model that a killed process set aside, unless the new one is in place."""
    folder, aside = store.place(pair), store.aside(pair)
    if folder.exists():
        shutil.rmtree(aside, ignore_errors=True)
    elif aside.exists():
        aside.rename(folder)


@contextmanager
def _alone(pair: str) -> Iterator[None]:
    lock = store.root() / f".{pair}.lock"
    try:
        with writing(lock.parent):
            descriptor = open_alone(lock, os.O_RDWR)
    except InUse:
        raise OutputError(f"another process is fetching {pair}", hint="wait until it has ended") from None
    try:
        yield
    finally:
        with suppress(OSError):
            lock.unlink()
        os.close(descriptor)
