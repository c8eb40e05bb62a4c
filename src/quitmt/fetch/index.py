"""The index of published models: one JSON file with every pair, its architectures, files and measured quality.

    {"generated", "baseUrl", "models": {"en-de": [{"architecture", "releaseStatus", "files": {"model": {"path",
     "uncompressedSize", "uncompressedHash"}, "vocab": {"path"} or "srcVocab" and "trgVocab"}, "metrics"}]}}

It comes from the network, so nothing in it is trusted: an entry of another form is left out, and no text of it becomes
the name of a file. The last index that could be read is kept beside the models, to be able to say something offline.
"""

from __future__ import annotations

import gzip
import http.client
import json
import math
import os
import time
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from io import BytesIO
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlsplit

from quitmt.bergamot import store
from quitmt.errors import ModelError, UsageError, unknown
from quitmt.fetch.transfer import Allowance, Clock, TooMuch, chunks, opened, reason

URL = "https://storage.googleapis.com/moz-fx-translations-data--303e-prod-translations-data"
VARIABLE = "QUITMT_MODELS_URL"
"""The environment variable that names a mirror of it: http://, https:// or file://."""
PATH = "db/models.json"
LAST = "index.json"
MOST_BYTES = 16 << 20
"""Of the index, packed or not."""
ARCHITECTURES = ("base", "base-memory", "tiny")
"""From the best and slowest to the quickest."""
_NAMES = {"model": "model.bin", "vocab": "vocab.spm", "srcVocab": "srcvocab.spm", "trgVocab": "trgvocab.spm"}
"""What the files are called here. The lexical shortlist is not needed: we compute all logits."""


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """One file to fetch; ``size`` and ``hash`` (SHA-256) are of what is in it, where the index has them."""

    name: str
    url: str
    size: int | None = None
    hash: str | None = None


@dataclass(frozen=True, slots=True)
class Published:
    """One model of the index."""

    pair: str
    architecture: str
    status: str
    files: tuple[RemoteFile, ...]
    metrics: Mapping[str, float]

    @property
    def model(self) -> RemoteFile:
        return self.files[0]

    @property
    def rank(self) -> tuple[int, int]:
        """Lower is preferred: what Firefox uses on desktops, then on telephones, then tries; then the better one."""
        released = {"Release": 0, "Release Desktop": 0}.get(self.status, 1 if self.status.startswith("Release") else 2)
        known = self.architecture in ARCHITECTURES
        return released, ARCHITECTURES.index(self.architecture) if known else len(ARCHITECTURES)


@dataclass(frozen=True, slots=True)
class Index:
    """All models that are published, the preferred one of each pair first."""

    url: str
    generated: str
    models: Mapping[str, tuple[Published, ...]]

    def choose(self, pair: str, architecture: str | None = None) -> Published:
        """The model of a pair: of the architecture that is asked for, or the preferred one."""
        if pair not in self.models:
            raise self._unknown(pair)
        found = [model for model in self.models[pair] if architecture in (None, model.architecture)]
        if not found:
            raise unknown(f"architecture of {pair}", str(architecture), (one.architecture for one in self.models[pair]))
        return found[0]

    def _unknown(self, pair: str) -> UsageError:
        source, _, target = pair.partition("-")
        steps = [step for step in (f"{source}-en", f"en-{target}") if step in self.models]
        near = steps if len(steps) == 2 else get_close_matches(pair, self.models, n=4, cutoff=0.6)
        hint = f"there is {' and '.join(near)}; " if near else ""
        return UsageError(f"no model is published for {pair}", hint=f"{hint}quitmt models list shows all")


def address(url: str | None = None) -> str:
    return (url or os.environ.get(VARIABLE) or URL).rstrip("/")


def read(url: str | None = None, clock: Clock = time.monotonic) -> Index:
    """The index as it is now."""
    base = address(url)
    content = _content(f"{base}/{PATH}", Allowance(clock))
    index = _index(base, content)
    _keep(base, content)
    return index


def last_known() -> Index | None:
    """The last index that could be read on this machine."""
    try:
        kept = json.loads((store.root() / LAST).read_text("utf-8"))
        return _index(kept["url"], kept["index"].encode())
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError, ModelError):
        return None


def _content(url: str, allowance: Allowance) -> bytes:
    try:
        with opened(url) as response:
            content = b"".join(chunks(response, allowance, MOST_BYTES))
        if content[:2] != b"\x1f\x8b":
            return content
        with gzip.open(BytesIO(content)) as unpacked:
            content = unpacked.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise TooMuch(MOST_BYTES)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise ModelError(f"the index of models at {url} is damaged") from None
    except TooMuch as error:
        raise ModelError(f"the index of models at {url} is damaged: {error}") from None
    except (OSError, ValueError, http.client.HTTPException) as error:  # ValueError: no address at all
        if isinstance(error, HTTPError):
            error.close()
        raise ModelError(f"cannot read the index of models at {url}: {reason(error)}") from None
    return content


def _keep(base: str, content: bytes) -> None:
    path = store.root() / LAST
    new = path.with_name(f".{LAST}.{os.getpid()}")
    with suppress(OSError):  # whoever fetches something will hear of it
        path.parent.mkdir(parents=True, exist_ok=True)
        new.write_text(json.dumps({"url": base, "index": content.decode()}), "utf-8")
        new.replace(path)


def _index(base: str, content: bytes) -> Index:
    try:
        found = json.loads(content)
        models, generated = found["models"], str(found.get("generated", ""))
        files = base if base != URL else _trusted(str(found.get("baseUrl", base)), base)
        listed = {pair: _models(pair, entries, files) for pair, entries in models.items() if store.is_pair(pair)}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        hint = f"{VARIABLE} must name a server of the same form as {URL}"
        raise ModelError(f"what is at {base}/{PATH} is no index of models", hint=hint) from None
    return Index(base, generated, {pair: models for pair, models in sorted(listed.items()) if models})


def _trusted(new: str, base: str) -> str:
    """Where the index says its files are, if that is no step down from https."""
    return new.rstrip("/") if urlsplit(new).scheme == urlsplit(base).scheme else base


def _models(pair: str, entries: Any, base: str) -> tuple[Published, ...]:
    found = (_model(pair, entry, base) for entry in entries if isinstance(entry, dict))
    return tuple(sorted((model for model in found if model), key=lambda model: model.rank))


def _model(pair: str, entry: Mapping[str, Any], base: str) -> Published | None:
    """None for an entry that we cannot use."""
    files = entry.get("files")
    if not isinstance(files, dict):
        return None
    vocabularies = ["vocab"] if "vocab" in files else ["srcVocab", "trgVocab"]
    found = [_file(_NAMES[kind], files.get(kind), base) for kind in ("model", *vocabularies)]
    complete = tuple(file for file in found if file)
    if len(complete) < len(found):
        return None
    measured = entry.get("metrics")
    flores = measured.get("flores200-plus") if isinstance(measured, dict) else None
    metrics = {
        str(name): float(value)
        for name, value in (flores.items() if isinstance(flores, dict) else ())
        if isinstance(value, int | float) and math.isfinite(value)
    }
    return Published(pair, str(entry.get("architecture", "")), str(entry.get("releaseStatus") or ""), complete, metrics)


def _file(name: str, entry: Any, base: str) -> RemoteFile | None:
    if not isinstance(entry, dict) or not isinstance(entry.get("path"), str):
        return None
    size, digest = entry.get("uncompressedSize"), entry.get("uncompressedHash")
    return RemoteFile(
        name,
        f"{base}/{quote(entry['path'].lstrip('/'))}",
        size if type(size) is int and size > 0 else None,
        digest.lower() if isinstance(digest, str) and digest else None,
    )
