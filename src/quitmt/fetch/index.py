"""The index of published models: one JSON file with every pair, its architectures, files and measured quality.

    {"generated", "baseUrl", "models": {"en-de": [{"architecture", "releaseStatus", "files": {"model": {"path",
     "uncompressedSize", "uncompressedHash"}, "vocab": {"path"} or "srcVocab" and "trgVocab"}, "metrics"}]}}

The index comes from the network, so it isn't trusted: malformed entries are skipped, and its text is never used as a
file name.
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
"""The environment variable for a mirror's address: http://, https:// or file://."""
PATH = "db/models.json"
MOST_BYTES = 16 << 20
"""Maximum size of the index, compressed or not."""
ARCHITECTURES = ("base", "base-memory", "tiny")
"""From the best and slowest to the fastest."""
_NAMES = {"model": "model.bin", "vocab": "vocab.spm", "srcVocab": "srcvocab.spm", "trgVocab": "trgvocab.spm"}
"""Local file names. The lexical shortlist isn't needed, because quitmt computes all logits."""


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """One file to fetch; ``size`` and ``hash`` (SHA-256) describe the decompressed file, if the index has them."""

    name: str
    url: str
    size: int | None = None
    hash: str | None = None


@dataclass(frozen=True, slots=True)
class Published:
    """One model in the index."""

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
        """Lower is preferred: first by release (desktop, mobile, experimental), then by quality."""
        released = {"Release": 0, "Release Desktop": 0}.get(self.status, 1 if self.status.startswith("Release") else 2)
        known = self.architecture in ARCHITECTURES
        return released, ARCHITECTURES.index(self.architecture) if known else len(ARCHITECTURES)


@dataclass(frozen=True, slots=True)
class Index:
    """All published models; the preferred one of each pair comes first."""

    url: str
    generated: str
    models: Mapping[str, tuple[Published, ...]]

    def choose(self, pair: str, architecture: str | None = None) -> Published:
        """The model of a pair with the requested architecture; by default the preferred one."""
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
    """Fetch the current index."""
    base = address(url)
    return _index(base, _content(f"{base}/{PATH}", Allowance(clock)))


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
    except (EOFError, zlib.error, gzip.BadGzipFile, TooMuch) as error:
        raise ModelError(f"the index of models at {url} is damaged: {error}") from None
    except (OSError, ValueError, http.client.HTTPException) as error:  # ValueError: not an address
        if isinstance(error, HTTPError):
            error.close()
        raise ModelError(f"cannot read the index of models at {url}: {reason(error)}") from None
    return content


def _index(base: str, content: bytes) -> Index:
    try:
        found = json.loads(content)
        models, generated = found["models"], str(found.get("generated", ""))
        files = base if base != URL else _trusted(str(found.get("baseUrl", base)), base)
        listed = {pair: _models(pair, entries, files) for pair, entries in models.items() if store.is_pair(pair)}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        hint = f"{VARIABLE} must name a server of the same form as {URL}"
        raise ModelError(f"{base}/{PATH} is not an index of models", hint=hint) from None
    return Index(base, generated, {pair: models for pair, models in sorted(listed.items()) if models})


def _trusted(new: str, base: str) -> str:
    """The address for downloading files: the index's own if it has the scheme of ``base``, so https stays https."""
    return new.rstrip("/") if urlsplit(new).scheme == urlsplit(base).scheme else base


def _models(pair: str, entries: Any, base: str) -> tuple[Published, ...]:
    found = (_model(pair, entry, base) for entry in entries if isinstance(entry, dict))
    return tuple(sorted((model for model in found if model), key=lambda model: model.rank))


def _model(pair: str, entry: Mapping[str, Any], base: str) -> Published | None:
    """Parse an entry; None if quitmt can't use it."""
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
