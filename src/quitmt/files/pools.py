"""Recorded pools in files: JSONL (one segment a line) or plain text (N lines a source).

    {"id": "7", "source": "…", "candidates": ["…", …], "scores": {"NAME": [0.7, …]}, "generator": "…"}

Source, scores, generator (the signature of what sampled it) and stop (why it has no more candidates, as in an outcome)
are optional, and a score may be null where a candidate has none; a "reference" is for evaluation and is not read here.
Candidates that are not samples are a list of their own, also optional, in their order:

    {…, "anchors": ["…", …], "origins": ["greedy", "beam:4", …], "anchor_scores": {"NAME": [0.8, …]}}

Pseudo-references to use instead of the samples are a list too: {…, "support": ["…", …]}.

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
from quitmt.rerank.terms import parse
from quitmt.types import GIVEN, Candidate, RecordedPool, Segment

HOW = "quitmt translate --keep-pools FILE writes such JSON lines; plain text needs --num-candidates N"
_LARGEST = sys.float_info.max


def reads_texts(reranker: str) -> bool:
    """Whether a reranker by this name reads texts, and not only scores that were recorded with them."""
    kind, _, rest = reranker.partition(":")
    return kind != "qe" or not all(metric.startswith("recorded:") for metric in parse(rest).metrics)


async def read_pools(path: str, *, texts: bool = True) -> AsyncIterator[RecordedPool]:
    """The pools of a JSONL file; blank lines are skipped, an id may occur once. Unless ``texts`` are needed, pools may
    hold scores only."""
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
                raise InputError(f"{name_of(path)} has no recorded pools: line 1 is no JSON object", hint=HOW) from None
            raise InputError(f"{name_of(path)}, line {number}: {error}") from None
        yield pool


async def read_plain_pools(path: str, num_candidates: int, sources: str | None = None) -> AsyncIterator[RecordedPool]:
    """Pools of ``num_candidates`` lines each, and the file with their sources, a line each."""
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
    """What a line of JSON says of a pool, checked, as the lists that stand there."""

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
    """A pool of scores with a text for each candidate. Without its source, so that nothing compares the two."""
    count = max((len(values) for values in _lists(fields.get("scores"))), default=0)
    anchors = max((len(values) for values in _lists(fields.get("anchor_scores"))), default=0)
    found = {**fields, "source": "", "candidates": [f"#{index}" for index in range(count)]}
    return {**found, "anchors": [f"#{-1 - index}" for index in range(anchors)]} if anchors else found


def _lists(scores: Any) -> Iterable[list[Any]]:
    return [values for values in scores.values() if isinstance(values, list)] if isinstance(scores, dict) else []


def _pool_of(found: Columns) -> RecordedPool:
    anchors = (
        replace(one, origin=origin)
        for one, origin in zip(_candidates(found.anchors, found.anchor_scores), found.origins, strict=True)
    )
    segment = Segment(found.id, found.source, support=tuple(found.support))
    return RecordedPool(segment, _candidates(found.texts, found.scores), found.generator, tuple(anchors), found.stop)


def parse_object(line: str, what: str) -> dict[str, Any]:
    """A line as a JSON object with nothing in it that could not be written again."""
    try:
        fields = _DECODER.decode(line)
    except json.JSONDecodeError as error:
        raise InputError(f"not JSON: {error.msg} at character {error.pos + 1}") from None
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError("a number has too many digits") from None
    except RecursionError:
        raise InputError(f"not a {what}: nested too deeply") from None
    if not isinstance(fields, dict):
        raise InputError(f"a {what} must be a JSON object, not {type(fields).__name__}")
    if "\\ud" in line or "\\uD" in line:
        _check_text(fields)
    return fields


def columns_of(fields: dict[str, Any]) -> Columns:
    if fields.get("candidates") == []:
        raise InputError("the pool has no candidates")
    number, source = id_of(fields), _text(fields, "source")
    texts = _texts(fields, "candidates")
    scores, generator = _scores(fields, "scores", len(texts)), _text(fields, "generator")
    anchors = _texts(fields, "anchors") if fields.get("anchors") is not None else []
    anchor_scores = _scores(fields, "anchor_scores", len(anchors)) if anchors else {}
    origins, support = _origins(fields, len(anchors)), _support(fields)
    stop = _text(fields, "stop")
    return Columns(number, source, texts, scores, generator, anchors, origins, anchor_scores, support, stop)


def _candidates(texts: list[str], scores: dict[str, list[float | None]]) -> tuple[Candidate, ...]:
    if not scores:
        return tuple(Candidate(text) for text in texts)
    names, columns = list(scores), zip(*scores.values(), strict=True)
    if any(None in values for values in scores.values()):
        return tuple(Candidate(t, scores=_known(names, c)) for t, c in zip(texts, columns, strict=True))
    return tuple(Candidate(t, scores=dict(zip(names, c, strict=True))) for t, c in zip(texts, columns, strict=True))


def _known(names: list[str], values: Iterable[float | None]) -> dict[str, float]:
    return {name: value for name, value in zip(names, values, strict=True) if value is not None}


def _origins(fields: dict[str, Any], count: int) -> list[str]:
    if fields.get("anchors") is None:
        return []
    origins = fields.get("origins") or [GIVEN] * count
    if not isinstance(origins, list) or not all(isinstance(one, str) and one for one in origins):
        raise InputError('"origins" must be a list of texts, one for each anchor')
    if len(origins) != count:
        raise InputError(f"there are {len(origins)} origins for {count} anchors")
    return origins


def _support(fields: dict[str, Any]) -> list[str]:
    """Blank texts are none, as blank lines of a file are."""
    found = fields.get("support")
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise InputError('"support" must be a list of texts')
    return [text for text in found if text.strip()]


def format_pool(recorded: RecordedPool) -> str:
    """A pool as a line of JSON that ``read_pools`` reads back, with whatever numbers its candidates have."""
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
    """Log-probabilities and tokens that all of them have, and scores that any of them has."""
    scores: dict[str, list[Any]] = {}
    if candidates and all(c.log_probability is not None for c in candidates):
        scores["log_probability"] = [c.log_probability for c in candidates]
    if candidates and all(c.tokens is not None for c in candidates):
        scores["tokens"] = [c.tokens for c in candidates]
    for name in sorted({name for c in candidates for name in c.scores or ()}):
        scores[name] = [(c.scores or {}).get(name) for c in candidates]
    return scores


def id_of(fields: dict[str, Any]) -> str:
    found = fields.get("id")
    if isinstance(found, str) or (isinstance(found, int) and not isinstance(found, bool)):
        return str(found)
    raise InputError('the pool has no "id"' if found is None else f'"id" must be a text or a whole number, not {found}')


def _text(fields: dict[str, Any], name: str) -> str:
    found = fields.get(name)
    if found is None or isinstance(found, str):
        return found or ""
    raise InputError(f'"{name}" must be a text, not {type(found).__name__}')


def _texts(fields: dict[str, Any], name: str) -> list[str]:
    texts = fields.get(name)
    if not isinstance(texts, list):
        hint = "scores without texts are enough for qe:recorded:NAME" if name == "candidates" else None
        raise InputError(f'the pool has no list of "{name}"', hint=hint)
    if not set(map(type, texts)) <= {str}:
        index, text = next((index, one) for index, one in enumerate(texts) if not isinstance(one, str))
        raise InputError(f"{name[:-1]} {index} is not a text but {json.dumps(text)[:40]}")
    return texts


def _scores(fields: dict[str, Any], name_of_all: str, count: int) -> dict[str, list[float | None]]:
    scores, of_what = fields.get(name_of_all), "anchor" if name_of_all == "anchor_scores" else "candidate"
    if scores is None:
        return {}
    if not isinstance(scores, dict):
        raise InputError(f'"{name_of_all}" must be an object of lists, one a name')
    for name, values in scores.items():
        if not isinstance(values, list) or len(values) != count:
            found = len(values) if isinstance(values, list) else "no"
            raise InputError(f"the scores {name!r} are {found} for {count} {of_what}s")
        if set(map(type, values)) == {float} and all(map(isfinite, values)):
            continue  # nearly always, and much quicker than one by one
        for index, value in enumerate(values):
            if value is not None and (type(value) not in (int, float) or not abs(value) <= _LARGEST):
                raise InputError(f"the score {name!r} of {of_what} {index} is {value!r}, not a finite number")
    return scores


def _refuse_constant(name: str) -> NoReturn:
    raise InputError(f"a score is {name}, not a finite number")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
"""Made once: ``json.loads`` would make one per line."""


def _check_text(value: Any) -> None:
    """JSON can escape half of a surrogate pair, which is not text and could not be written again."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InputError("a text has half of a surrogate pair, which is not Unicode text") from None
    elif isinstance(value, dict):
        for key, inner in value.items():
            _check_text(key)
            _check_text(inner)
    elif isinstance(value, list):
        for inner in value:
            _check_text(inner)


class Seen:
    """Which ids have occurred, in 8 bytes each: a set of a few recent hashes and a sorted array of the others."""

    RECENT = 1 << 16

    def __init__(self) -> None:
        self._recent: set[int] = set()
        self._sorted = np.empty(0, np.int64)

    def seen(self, text: str) -> bool:
        """Whether it was there before; remembers it."""
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
