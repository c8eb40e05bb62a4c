"""Encoded sources, shared by all samplers and searches that decode them at the same time.

Invariant: an encoded source is kept as long as it is used, so nothing has to be freed explicitly.
"""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakValueDictionary

from quitmt.bergamot.models import LoadedModel
from quitmt.bergamot.network import Memory
from quitmt.errors import GenerationError
from quitmt.types import Segment

SOURCE_TOKENS = 4096
"""Maximum tokens per source. A longer one would delay all others for minutes, and these models can't translate it."""
LENGTH_FACTOR, LENGTH_EXTRA = 3, 10
"""Maximum tokens per candidate: 3 times the source's plus 10."""


@dataclass(slots=True, weakref_slot=True, eq=False)
class EncodedSource:
    """A source sentence, encoded."""

    memory: Memory
    limit: int
    """Maximum tokens per candidate."""


class Sources:
    """The sources that are being decoded. Not thread-safe."""

    def __init__(self, model: LoadedModel) -> None:
        self._model = model
        self._kept: WeakValueDictionary[str, EncodedSource] = WeakValueDictionary()

    def encoded(self, segment: Segment) -> EncodedSource:
        found = self._kept.get(segment.source)
        if found is None:
            tokens = self._model.source.encode(segment.source)
            if len(tokens) > SOURCE_TOKENS:
                raise GenerationError(
                    f"segment {segment.id}: its source has {len(tokens)} tokens, more than {SOURCE_TOKENS}",
                    hint="split it into shorter segments",
                )
            (memory,) = self._model.network.encode([tokens])
            found = self._kept[segment.source] = EncodedSource(memory, LENGTH_FACTOR * len(tokens) + LENGTH_EXTRA)
        return found
