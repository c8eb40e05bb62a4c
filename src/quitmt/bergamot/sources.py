"""What the decoder sees of a source: encoded once, for all who decode it at the same time.

Invariant: an encoded source lives as long as somebody decodes it, so that nothing has to be forgotten here.
"""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakValueDictionary

from quitmt.bergamot.models import Model
from quitmt.bergamot.network import Memory
from quitmt.errors import GenerationError
from quitmt.types import Segment

SOURCE_TOKENS = 4096
"""A longer source would hold up all others for minutes, and such a model makes nothing of it."""
LENGTH_FACTOR, LENGTH_EXTRA = 3, 10
"""A candidate is cut off at 3 tokens for each of the source's, and 10."""


@dataclass(slots=True, weakref_slot=True, eq=False)
class EncodedSource:
    """A source sentence, encoded."""

    memory: Memory
    limit: int
    """The most tokens that a candidate may have."""


class Sources:
    """The sources that are being decoded. Not for several threads at once."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._kept: WeakValueDictionary[str, EncodedSource] = WeakValueDictionary()

    def encoded(self, segment: Segment) -> EncodedSource:
        found = self._kept.get(segment.source)
        if found is None:
            tokens = self._model.source.encode(segment.source)
            if len(tokens) > SOURCE_TOKENS:
                raise GenerationError(
                    f"segment {segment.id}: its source has {len(tokens)} tokens, more than {SOURCE_TOKENS}",
                    hint="split it into shorter ones",
                )
            (memory,) = self._model.network.encode([tokens])
            found = self._kept[segment.source] = EncodedSource(memory, LENGTH_FACTOR * len(tokens) + LENGTH_EXTRA)
        return found
