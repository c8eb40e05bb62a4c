"""The decoding loop of Hugging Face models, seq2seq and causal alike.

A *walker* is an unfinished candidate, on a row of the batch. There is one row per distinct prefix, not per candidate: a
segment's candidates start together on one row, and a row splits when its walkers choose different tokens. Rows whose
walkers have all finished are dropped. So the source or prompt and all shared prefixes are computed once, and greedy
decoding needs one row however many candidates are requested.

Invariants: a walker's next token depends only on its prefix and its random number (seed, content, index, position). So
candidates don't depend on pieces or batches, provided that the model gives the same logits in batches of other shapes.
In float32 only the last digits differ, which matters only if a random number falls on the border of two tokens. (With
tiny random models on a CPU and batches of 256 and 37, no candidate of 12,288 differed in float32, and 23 of 3,072 in
bfloat16. GPUs were not tested.) Log-probabilities differ in their last digits.

torch is imported by those who call this, never by this module at import.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from quitmt.generate.decoding.choice import choose
from quitmt.generate.worker import Piece
from quitmt.sampling import Sampling
from quitmt.streams import stream, uniforms
from quitmt.types import Segment


@dataclass(frozen=True, slots=True)
class Opening:
    """The common beginning of a segment's candidates, computed once and kept until the segment is closed."""

    logits: Any
    """Logits of the first token: (1, vocabulary)."""
    cache: Any
    """The model's cache after the beginning, for one row."""
    limit: int
    """Maximum tokens per candidate."""
    memory: Any = None
    """The encoder's states of the source: (1, tokens, width); None without an encoder."""
    forced: int = 0
    """Number of forced first tokens, such as the target language."""

    @property
    def bytes(self) -> int:
        tensors = [self.logits, *([] if self.memory is None else [self.memory]), *cached_tensors(self.cache)]
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


class Rows(Protocol):
    """A batch that is being decoded."""

    def select(self, parents: Any) -> None:
        """Let row i continue the former row ``parents[i]``."""
        ...

    def advance(self, tokens: Any) -> Any:
        """Append a token to each row; return the logits of the next."""
        ...


class Decoder(Protocol):
    """A model, as the loop sees it."""

    mixes: bool
    """Whether a batch may hold several segments."""

    def open(self, segment: Segment) -> Opening: ...

    def begin(self, openings: Sequence[Opening]) -> Rows:
        """Start with one row per opening; the openings stay unchanged."""
        ...

    def read(self, segment: Segment, tokens: list[int]) -> str:
        """The text of a candidate."""
        ...


@dataclass(frozen=True, slots=True)
class Ends:
    """Tokens that end a candidate, and masks of those that are never chosen, at the first position and after it."""

    tokens: Collection[int]
    barred_first: Any
    barred: Any


@dataclass(slots=True)
class Walker:
    """An unfinished candidate."""

    piece: int
    index: int
    limit: int
    tokens: list[int]
    log_probability: float = 0.0


class Walk:
    """Decodes the candidates of some pieces from their openings to their ends."""

    def __init__(
        self,
        decoder: Decoder,
        sampling: Sampling,
        ends: Ends,
        pieces: Sequence[Piece],
        openings: Mapping[Segment, Opening],
    ) -> None:
        self._sampling, self._ends, self._pieces = sampling, ends, pieces
        segments = list(dict.fromkeys(piece.request.segment for piece in pieces))
        self._first = [openings[segment] for segment in segments]
        self._rows = decoder.begin(self._first)
        requested = [piece.request.segment for piece in pieces]
        self._keys = np.array([stream(sampling.seeded(segment.seed).seed, segment.content) for segment in requested])
        self.walkers = [
            Walker(place, index, openings[piece.request.segment].limit, [])
            for place, piece in enumerate(pieces)
            for index in range(piece.request.start, piece.request.stop)
        ]
        row_of = [segments.index(piece.request.segment) for piece in pieces]
        self._start_rows = np.array([row_of[walker.piece] for walker in self.walkers], np.int64)

    def run(self) -> list[list[Walker]]:
        """Decode; return the finished walkers of each piece."""
        import torch

        logits, walkers, rows = torch.cat([opening.logits for opening in self._first]), self.walkers, self._start_rows
        position = 0
        while True:
            barred = self._ends.barred if position else self._ends.barred_first
            tokens, steps = choose(logits, barred, self._sampling, rows, self._numbers(walkers, position))
            going = self._take(walkers, tokens, steps)
            if not going.any():
                break
            walkers = [walker for walker, goes_on in zip(walkers, going.tolist(), strict=True) if goes_on]
            logits, rows = self._divide(len(logits), rows[going], tokens[going], logits.shape[-1])
            position += 1
        by_piece: list[list[Walker]] = [[] for _ in self._pieces]
        for walker in self.walkers:
            by_piece[walker.piece].append(walker)
        return by_piece

    def _numbers(self, walkers: list[Walker], position: int) -> npt.NDArray[np.float64]:
        if self._sampling.greedy:
            return np.zeros(len(walkers))
        keys = self._keys[[walker.piece for walker in walkers]]
        return uniforms(keys, [walker.index for walker in walkers], np.full(len(walkers), position))

    def _take(
        self, walkers: list[Walker], tokens: npt.NDArray[np.int64], steps: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.bool_]:
        """Append the chosen tokens; return which walkers go on."""
        wanted = [piece.wanted() for piece in self._pieces]
        going = np.empty(len(walkers), np.bool_)
        for place, (walker, token, step) in enumerate(zip(walkers, tokens.tolist(), steps.tolist(), strict=True)):
            walker.tokens.append(token)
            walker.log_probability += step
            ended = token in self._ends.tokens or len(walker.tokens) >= walker.limit
            going[place] = wanted[walker.piece] and not ended
        return going

    def _divide(
        self, before: int, rows: npt.NDArray[np.int64], tokens: npt.NDArray[np.int64], vocabulary: int
    ) -> tuple[Any, npt.NDArray[np.int64]]:
        """Make one row per distinct (row, token); return the next logits and each walker's row."""
        import torch

        prefixes, new_rows = np.unique(rows * vocabulary + tokens, return_inverse=True)
        parents, chosen = np.divmod(prefixes, vocabulary)
        if not np.array_equal(parents, np.arange(before)):
            self._rows.select(torch.from_numpy(parents))
        return self._rows.advance(torch.from_numpy(chosen)), new_rows


def cached_tensors(cache: Any) -> Iterator[Any]:
    """All keys and values in a cache."""
    for part in (getattr(cache, "self_attention_cache", cache), getattr(cache, "cross_attention_cache", None)):
        for layer in getattr(part, "layers", ()):
            yield from (tensor for tensor in (layer.keys, layer.values) if tensor is not None)
