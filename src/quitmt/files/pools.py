"""Recorded pools in files: JSONL (one segment per line) or plain text (N lines per source).

    {"id": "7", "source": "…", "candidates": ["…", …], "scores": {"NAME": [0.7, …]}, "generator": "…"}

Optional: source, scores, generator (the signature of the sampler) and stop (why there are no more candidates, as in an
outcome). A score may be null if a candidate has none. A "reference" is for evaluation and is not read here. Candidates
that aren't samples are in a separate, optional list, in their order:

    {…, "anchors": ["…", …], "origins": ["greedy", "beam:4", …], "anchor_scores": {"NAME": [0.8, …]}}

So are pseudo-references that judge the candidates instead of the samples: {…, "support": ["…", …]}.

A pool may hold scores without texts: "candidates" is missing then, and the scores say how many there are. Only
``qe:recorded`` can rerank such pools, and all pools of a file must be alike.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, NoReturn

import numpy as np

from quitmt.errors import InputError
from quitmt.files.lines import name_of, read_lines
from quitmt.types import GIVEN, Candidate, RecordedPool, Segment

HOW = "quitmt translate --keep-pools FILE writes such JSON lines; plain text needs --num-candidates N"
_LARGEST = sys.float_info.max


async def read_pools(path: str, *, texts: bool = True) -> AsyncIterator[RecordedPool]:
    """Read the pools of a JSONL file. Blank lines are skipped, and ids must be unique. Unless ``texts`` are needed,
    pools may hold scores only."""
    ids, number, scores_only = Seen(), 0, None
    async for line in read_lines(path):
        number += 1
        if not line.strip():
            continue
        try:
            fields = parse_object(line, "pool")
            lacks_texts = not texts and fields.get("candidates") is None and bool(fields.get("scores"))
            if scores_only is None:
                scores_only = lacks_texts
            if lacks_texts != scores_only:
                having, before = ("only scores", "texts") if lacks_texts else ("texts", "only scores")
                raise InputError(f"this pool has {having}, but those before it have {before}")
            pool = _pool_of(columns_of(_with_placeholders(fields) if lacks_texts else fields))
            if ids.seen(pool.segment.id):
                raise InputError(f"the id {pool.segment.id!r} occurs a second time")
        except InputError as error:
            if number == 1 and not line.lstrip().startswith("{"):
                raise InputError(
                    f"{name_of(path)} has no recorded pools: line 1 is not a JSON object", hint=HOW
                ) from None
            raise InputError(f"{name_of(path)}, line {number}: {error}") from None
        yield pool


async def read_plain_pools(path: str, num_candidates: int, sources: str | None = None) -> AsyncIterator[RecordedPool]:
    """Read pools of ``num_candidates`` lines each, and their sources from another file, one per line."""
    source_lines = read_lines(sources) if sources else None
    count, candidates = 0, list[Candidate]()
    async for line in read_lines(path):
        candidates.append(Candidate(line))
        if len(candidates) == num_candidates:
            count += 1
            source = "" if source_lines is None else await anext(source_lines, None)
            if source is None:
                raise InputError(f"{sources} has {count - 1} lines, fewer than there are pools in {name_of(path)}")
            yield RecordedPool(Segment(str(count), source), tuple(candidates))
            candidates = []
    if candidates:
        lines = count * num_candidates + len(candidates)
        raise InputError(f"{name_of(path)} has {lines} lines, which is not a multiple of {num_candidates}")
    if source_lines is not None and await anext(source_lines, None) is not None:
        raise InputError(f"{sources} has more than {count} lines, but {name_of(path)} has only {count} pools")


@dataclass(frozen=True, slots=True)
class Columns:
    """The checked fields of a pool, with scores as columns."""

    id: str
    source: str
    texts: list[str]
    scores: dict[str, list[float | None]]
    generator: str
    anchors: list[str]
    origins: list[str]
    anchor_scores: dict[str, list[float | None]]
    support: list[str]
    stop: str


def parse_pool(line: str) -> RecordedPool:
    return _pool_of(columns_of(parse_object(line, "pool")))


def _with_placeholders(fields: dict[str, Any]) -> dict[str, Any]:
    """Add a placeholder text per candidate to a pool of scores, and drop its source: nothing may compare the two."""
    count = max((len(values) for values in _lists(fields.get("scores"))), default=0)
    anchors = max((len(values) for values in _lists(fields.get("anchor_scores"))), default=0)
    filled = {**fields, "source": "", "candidates": [f"#{index}" for index in range(count)]}
    return {**filled, "anchors": [f"#{-1 - index}" for index in range(anchors)]} if anchors else filled


def _lists(scores: Any) -> Iterable[list[Any]]:
    return [values for values in scores.values() if isinstance(values, list)] if isinstance(scores, dict) else []


def _pool_of(columns: Columns) -> RecordedPool:
    anchors = _candidates(columns.anchors, columns.anchor_scores)
    return RecordedPool(
        Segment(columns.id, columns.source, support=tuple(columns.support)),
        _candidates(columns.texts, columns.scores),
        columns.generator,
        tuple(replace(one, origin=origin) for one, origin in zip(anchors, columns.origins, strict=True)),
        columns.stop,
    )


def parse_object(line: str, kind: str) -> dict[str, Any]:
    """Parse a line as a JSON object that can be written again."""
    try:
        fields = _DECODER.decode(line)
    except json.JSONDecodeError as error:
        raise InputError(f"not JSON: {error.msg} at character {error.pos + 1}") from None
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError("a number has too many digits") from None
    except RecursionError:
        raise InputError(f"not a {kind}: nested too deeply") from None
    if not isinstance(fields, dict):
        raise InputError(f"a {kind} must be a JSON object, not {type(fields).__name__}")
    if "\\ud" in line or "\\uD" in line:
        _check_text(fields)
    return fields


def columns_of(fields: dict[str, Any]) -> Columns:
    if fields.get("candidates") == []:
        raise InputError("the pool has no candidates")
    pool_id, source, texts = id_of(fields), _text(fields, "source"), _texts(fields, "candidates")
    scores, generator = _scores(fields, "scores", len(texts)), _text(fields, "generator")
    anchors, origins, anchor_scores = list[str](), list[str](), dict[str, list[float | None]]()
    if fields.get("anchors") is not None:
        anchors = _texts(fields, "anchors")
        anchor_scores = _scores(fields, "anchor_scores", len(anchors)) if anchors else {}
        origins = _origins(fields, len(anchors))
    support = [] if fields.get("support") is None else fields["support"]
    if not isinstance(support, list) or not all(isinstance(one, str) for one in support):
        raise InputError('"support" must be a list of texts')
    support = [text for text in support if text.strip()]
    stop = _text(fields, "stop")
    return Columns(pool_id, source, texts, scores, generator, anchors, origins, anchor_scores, support, stop)


def _candidates(texts: list[str], columns: dict[str, list[Any]]) -> tuple[Candidate, ...]:
    if not columns:
        return tuple(Candidate(text) for text in texts)
    rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
    if any(None in values for values in columns.values()):
        rows = ({name: value for name, value in row.items() if value is not None} for row in rows)
    return tuple(Candidate(text, scores=row) for text, row in zip(texts, rows, strict=True))


def _origins(fields: dict[str, Any], count: int) -> list[str]:
    origins = fields.get("origins") or [GIVEN] * count
    if not isinstance(origins, list) or not all(isinstance(one, str) and one for one in origins):
        raise InputError('"origins" must be a list of texts, one per anchor')
    if len(origins) != count:
        raise InputError(f"there are {len(origins)} origins for {count} anchors")
    return origins


def format_pool(recorded: RecordedPool) -> str:
    """Format a pool as a line of JSON that ``read_pools`` can read, with all numbers that its candidates have."""
    segment, candidates, anchors = recorded.segment, recorded.candidates, recorded.anchors
    pool: dict[str, Any] = {"id": segment.id, "source": segment.source, "candidates": [c.text for c in candidates]}
    if scores := _numbers(candidates):
        pool["scores"] = scores
    if anchors:
        pool |= {"anchors": [c.text for c in anchors], "origins": [c.origin or GIVEN for c in anchors]}
        if scores := _numbers(anchors):
            pool["anchor_scores"] = scores
    if segment.support:
        pool["support"] = list(segment.support)
    if recorded.generator:
        pool["generator"] = recorded.generator
    if recorded.stop:
        pool["stop"] = recorded.stop
    return json.dumps(pool, ensure_ascii=False)


def _numbers(candidates: Sequence[Candidate]) -> dict[str, list[Any]]:
    """Log-probabilities and tokens if all candidates have them, and scores if any candidate has them."""
    scores: dict[str, list[Any]] = {}
    for name in ("log_probability", "tokens"):
        values = [getattr(one, name) for one in candidates]
        if values and None not in values:
            scores[name] = values
    for name in sorted({name for c in candidates for name in c.scores or ()}):
        scores[name] = [(c.scores or {}).get(name) for c in candidates]
    return scores


def id_of(fields: dict[str, Any]) -> str:
    value = fields.get("id")
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return str(value)
    raise InputError('the pool has no "id"' if value is None else f'"id" must be a text or a whole number, not {value}')


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    if value is None or isinstance(value, str):
        return value or ""
    raise InputError(f'"{name}" must be a text, not {type(value).__name__}')


def _texts(fields: dict[str, Any], name: str) -> list[str]:
    texts = fields.get(name)
    if not isinstance(texts, list):
        hint = "scores without texts are enough for qe:recorded:NAME" if name == "candidates" else None
        raise InputError(f'the pool has no list of "{name}"', hint=hint)
    if not set(map(type, texts)) <= {str}:
        index, text = next((index, one) for index, one in enumerate(texts) if not isinstance(one, str))
        raise InputError(f"{name[:-1]} {index} is not a text but {json.dumps(text)[:40]}")
    return texts


def _scores(fields: dict[str, Any], field: str, count: int) -> dict[str, list[float | None]]:
    scores, kind = fields.get(field), "anchor" if field == "anchor_scores" else "candidate"
    if scores is None:
        return {}
    if not isinstance(scores, dict):
        raise InputError(f'"{field}" must be an object of lists, one per name')
    for name, values in scores.items():
        if not isinstance(values, list) or len(values) != count:
            number = len(values) if isinstance(values, list) else "no"
            raise InputError(f"there are {number} scores {name!r} for {count} {kind}s")
        if set(map(type, values)) == {float} and all(map(isfinite, values)):
            continue  # the usual case, checked quickly
        for index, value in enumerate(values):
            if value is not None and (type(value) not in (int, float) or not abs(value) <= _LARGEST):
                raise InputError(f"the score {name!r} of {kind} {index} is {value!r}, not a finite number")
    return scores


def _refuse_constant(name: str) -> NoReturn:
    raise InputError(f"a score is {name}, not a finite number")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
"""Made once, because ``json.loads`` would make one per line."""


def _check_text(value: Any) -> None:
    """Refuse half of a surrogate pair, which JSON can escape but UTF-8 can't represent."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InputError("a text has half of a surrogate pair, which is not Unicode text") from None
    elif isinstance(value, dict | list):
        for inner in [*value, *value.values()] if isinstance(value, dict) else value:
            _check_text(inner)


class Seen:
    """Remembers ids in 8 bytes each: recent hashes in a small set, all others in a sorted array."""

    RECENT = 1 << 16

    def __init__(self) -> None:
        self._recent: set[int] = set()
        self._sorted = np.empty(0, np.int64)

    def seen(self, text: str) -> bool:
        """Remember an id; returns whether it was there before."""
        key = hash(text)
        place = int(np.searchsorted(self._sorted, key)) if len(self._sorted) else 0
        if key in self._recent or (place < len(self._sorted) and self._sorted[place] == key):
            return True
        self._recent.add(key)
        if len(self._recent) == self.RECENT:
            new = np.fromiter(self._recent, np.int64, self.RECENT)
            self._sorted = np.sort(np.concatenate([self._sorted, new]))
            self._recent.clear()
        return False
