"""Turns a caller's input into checked segments and candidates."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import replace

from quitmt.engine.driver import Item
from quitmt.errors import InputError
from quitmt.files.durable import is_writable
from quitmt.types import Candidate, Finished, Segment, StopReason


def item(number: int, source: str | Segment, signature: str = "", context: Context | None = None) -> Item:
    """Line ``number`` (from 1) as a segment. A blank line is finished already, with an empty translation."""
    segment = segment_of(source, number)
    if context is not None:
        segment = context.of(segment)
    if segment.source.strip():
        return segment
    return Finished.without_candidates(segment, StopReason.STABLE, signature)


class Context:
    """Gives each segment the ``size`` previous texts as context, unless it has its own context. A blank line starts a
    new document."""

    def __init__(self, size: int) -> None:
        self._before: deque[str] = deque(maxlen=size)

    def of(self, segment: Segment) -> Segment:
        with_context = segment if segment.context else replace(segment, context="\n".join(self._before))
        if segment.source.strip():
            self._before.append(segment.source)
        else:
            self._before.clear()
        return with_context


def segment_of(source: object, number: int) -> Segment:
    """Turn a text into a segment; a segment stays as it is."""
    if isinstance(source, str):
        return Segment(str(number), source)
    if isinstance(source, Segment):
        return source
    raise TypeError(f"source {number} must be a text or a Segment, not {source!r:.80}")


def pool_of(candidates: object) -> tuple[Candidate, ...]:
    """Check a caller's list of candidates for one source."""
    if isinstance(candidates, str | bytes | Mapping) or not isinstance(candidates, Iterable):
        raise TypeError(f"expected a list of candidates, such as ['one', 'two'], not {candidates!r:.80}")
    pool = tuple(Candidate(one) if isinstance(one, str) else one for one in candidates)
    if not pool:
        raise InputError("the pool has no candidates")
    for number, one in enumerate(pool, start=1):
        if not isinstance(one, Candidate) or not isinstance(one.text, str):
            value = one.text if isinstance(one, Candidate) else one
            raise TypeError(f"candidate {number} must be a text or a Candidate, not {value!r:.80}")
        if not is_writable(one.text):
            raise InputError(f"candidate {number} has half of a surrogate pair, which is not Unicode text")
    return pool
