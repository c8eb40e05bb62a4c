"""Reads the sources to export, with their distinct candidates sorted best first.

A JSON line with ``candidates`` is a pool, one with ``translation`` is an outcome. A file may contain both.
"""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from quitmt.errors import InputError, setting, unknown
from quitmt.files.lines import name_of, read_lines
from quitmt.files.pools import Columns, columns_of, id_of, parse_object
from quitmt.types import Ranked, StopReason

ABOUT = ("log_probability", "tokens")
"""Scores in pools that don't measure quality. They are used only if named."""


_FIELDS = attrgetter("index", "text", "score", "count", "log_probability", "origin")


@dataclass(frozen=True, slots=True)
class RankedPool:
    """The distinct, scored candidates of one source, best first. Each field is a column of ``Ranked`` values.
    Exports pick only a few candidates, so ``Ranked`` objects are made on demand."""

    indexes: Sequence[int] = ()
    texts: Sequence[str] = ()
    scores: Sequence[float] = ()
    counts: Sequence[int] = ()
    log_probabilities: Sequence[float | None] = ()
    origins: Sequence[str] = ()

    @classmethod
    def of(cls, ranked: Sequence[Ranked]) -> RankedPool:
        return cls(*zip(*map(_FIELDS, ranked), strict=True))

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, place: int) -> Ranked:
        return Ranked(
            self.indexes[place],
            self.texts[place],
            self.scores[place],
            self.counts[place],
            self.log_probabilities[place],
            self.origins[place],
        )

    @property
    def weights(self) -> list[int]:
        """The number of samples with each text; an anchor that isn't a sample counts once."""
        return [count or 1 for count in self.counts]


@dataclass(frozen=True, slots=True)
class ExportEntry:
    """One source. ``listed`` is false for an outcome without an n-best list, where only the translation is known."""

    id: str
    source: str
    ranked: RankedPool
    """Ties are ordered as in rerankers."""
    size: int
    stop: str = ""
    signature: str = ""
    listed: bool = True


async def read_entries(paths: Iterable[str], score: str | None = None) -> AsyncGenerator[ExportEntry]:
    """Reads all files in order. ``score`` names the score to use in pools; it is optional if they have only one."""
    for path in paths:
        number = 0
        async for line in read_lines(path):
            number += 1
            if not line.strip():
                continue
            try:
                yield entry_of(parse_object(line, "pool or an outcome"), score)
            except InputError as error:
                hint = error.hint and error.hint.replace("POOLS", "-" if path == "-" else shlex.quote(path))
                raise InputError(f"{name_of(path)}, line {number}: {error.args[0]}", hint=hint) from None


def entry_of(fields: dict[str, Any], score: str | None = None) -> ExportEntry:
    if "candidates" in fields:
        return _from_pool(columns_of(fields), score)
    if "translation" in fields:
        return _from_outcome(fields)
    raise InputError('neither a pool (with "candidates") nor an outcome (with a "translation")')


def _from_pool(pool: Columns, score: str | None) -> ExportEntry:
    name, anchors, samples = _score_name(pool.scores, score), len(pool.anchors), len(pool.texts)
    # Anchors come first, because sorting is stable and rerankers give ties to anchors.
    texts = [*pool.anchors, *pool.texts]
    scores = [*pool.anchor_scores.get(name, [None] * anchors), *pool.scores[name]]
    known = range(len(texts)) if None not in scores else [place for place, one in enumerate(scores) if one is not None]
    firsts = {texts[place]: place for place in reversed(known)}  # the first candidate with each text
    order = sorted(sorted(firsts.values()), key=scores.__getitem__, reverse=True)  # type: ignore[arg-type]
    counts, origins = Counter(pool.texts), dict(zip(reversed(pool.anchors), reversed(pool.origins), strict=True))
    log_probabilities = [
        *(pool.anchor_scores.get("log_probability") or [None] * anchors),
        *(pool.scores.get("log_probability") or [None] * samples),
    ]
    distinct = list(map(texts.__getitem__, order))
    ranked = RankedPool(
        [place - anchors if place >= anchors else -1 - place for place in order],
        distinct,
        list(map(float, map(scores.__getitem__, order))),  # type: ignore[arg-type]
        list(map(counts.__getitem__, distinct)),
        list(map(log_probabilities.__getitem__, order)),
        [origins.get(text, "") for text in distinct],
    )
    return ExportEntry(pool.id, pool.source, ranked, samples, pool.stop, pool.generator)


def _score_name(scores: Mapping[str, object], wanted: str | None) -> str:
    if wanted is not None and wanted in scores:
        return wanted
    known = [name for name in scores if name not in ABOUT]
    if not known:
        words = (("rerank.name", "mbr:chrf"), ("stop.rule", "full"), ("export.keep_pools", "scored.jsonl"))
        hint = f"score it with: quitmt rerank POOLS {' '.join(setting(*word) for word in words)}"
        raise InputError("the pool has no scores", hint=hint)
    if wanted is not None:
        error = unknown("score", wanted, known)
        raise InputError(f"the pool has no score {wanted!r}", hint=error.hint)
    if len(known) > 1:
        listed = ", ".join(sorted(known))
        raise InputError("the pool has several scores", hint=f"give {setting('export.score')}, one of {listed}")
    return known[0]


def _from_outcome(fields: Mapping[str, Any]) -> ExportEntry:
    stop, size = _text(fields, "stop"), fields.get("size", 0)
    if not isinstance(size, int):
        raise InputError(f'"size" must be a whole number, not {size!r}')
    nbest = fields.get("nbest")
    if nbest is None:
        ranked = _alone(fields)
    elif isinstance(nbest, list):
        ranked = [_ranked(one) for one in nbest]
    else:
        raise InputError('"nbest" must be a list')
    if stop == StopReason.FAILED:
        ranked = []
    known = {"id": id_of(dict(fields)), "source": _text(fields, "source"), "signature": _text(fields, "signature")}
    return ExportEntry(ranked=RankedPool.of(ranked), size=size, stop=stop, listed=nbest is not None, **known)


def _alone(fields: Mapping[str, Any]) -> list[Ranked]:
    """The translation as the only candidate, if it was scored."""
    text, score, index = _text(fields, "translation"), fields.get("score"), fields.get("index")
    if score is None or not isinstance(index, int):
        return []
    return [Ranked(index, text, _number(score, "score"), 1, None, _text(fields, "origin"))]


def _ranked(fields: object) -> Ranked:
    if not isinstance(fields, dict):
        raise InputError("an entry of the n-best list isn't a JSON object")
    index, count, log_probability = fields.get("index"), fields.get("count"), fields.get("log_probability")
    if not isinstance(index, int) or not isinstance(count, int):
        raise InputError('an entry of the n-best list has no "index" or "count"')
    known = None if log_probability is None else _number(log_probability, "log_probability")
    return Ranked(
        index, _text(fields, "text"), _number(fields.get("score"), "score"), count, known, _text(fields, "origin")
    )


def _text(fields: Mapping[str, Any], name: str) -> str:
    found = fields.get(name, "")
    if not isinstance(found, str):
        raise InputError(f'"{name}" must be a text, not {type(found).__name__}')
    return found


def _number(value: object, name: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise InputError(f'"{name}" must be a finite number, not {value!r}')
    return float(value)
