"""The prefixes that candidates share, each computed once.

``Nodes`` stores the prefixes of all segments, so that a batch can mix segments; a ``Trie`` describes those of one
segment. For the small models a node takes about 3.5 KB: the decoder's state after the prefix, the vector that predicts
the next token, and the masses of the vocabulary's blocks (see ``output``), but no probabilities.

Invariants: a node's numbers depend only on its prefix, so forgetting and recomputing it changes nothing; a slot belongs
to one trie until it is freed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from quitmt.bergamot.architecture import Architecture
from quitmt.bergamot.distribution import Shape, stage_one
from quitmt.bergamot.output import OutputLayer
from quitmt.bergamot.sources import EncodedSource
from quitmt.streams import Words

NOWHERE = -1
"""The parent of a root."""

Slots = npt.NDArray[np.int64]


@dataclass(slots=True)
class Trie:
    """The prefixes of one segment. ``children`` maps node · vocabulary + token to the child node."""

    source: EncodedSource
    key: Words
    number: int
    root: int = NOWHERE
    children: dict[int, int] = field(default_factory=dict)
    slots: list[int] = field(default_factory=list)
    texts: dict[int, str] = field(default_factory=dict)
    """Texts of prefixes that are complete candidates."""
    walkers: int = 0
    """Number of unfinished candidates; a trie that has any can't be forgotten."""


def bytes_per_node(architecture: Architecture, blocks: int) -> int:
    """Bytes per slot, not counting scalars."""
    return 4 * (architecture.width * (architecture.decoder_layers + 1) + blocks)


class Nodes:
    """The store: arrays with one entry per slot. Memory is allocated as slots are first used."""

    def __init__(self, architecture: Architecture, blocks: int, slots: int) -> None:
        width, layers = architecture.width, architecture.decoder_layers
        self.cells = np.empty((slots, layers, width), np.float32)
        self.vectors = np.empty((slots, width), np.float32)
        self.masses = np.empty((slots, blocks), np.float32)
        self.peaks, self.floors = np.empty(slots, np.float32), np.empty(slots, np.float32)
        self.normalisers = np.empty(slots, np.float64)
        self.log_probabilities = np.empty(slots, np.float64)
        """Log-probability of the prefix at temperature 1."""
        self.parents, self.tokens = np.empty(slots, np.int64), np.empty(slots, np.int64)
        self.depths, self.owners = np.empty(slots, np.int64), np.empty(slots, np.int64)
        self.ready = np.empty(slots, np.bool_)
        self._free: list[int] = []
        self._touched = 0

    @property
    def used(self) -> int:
        return self._touched - len(self._free)

    def add(self, trie: Trie, parent: int, token: int, log_probability: float) -> int:
        """Create a node for ``parent`` followed by ``token``; it is computed later."""
        slot = self._free.pop() if self._free else self._fresh()
        root = parent == NOWHERE
        self.parents[slot], self.tokens[slot], self.owners[slot] = parent, token, trie.number
        self.depths[slot] = 0 if root else self.depths[parent] + 1
        self.log_probabilities[slot] = log_probability + (0.0 if root else self.log_probabilities[parent])
        self.ready[slot] = False
        trie.slots.append(slot)
        return slot

    def _fresh(self) -> int:
        """An unused slot; doubles the arrays if there is none."""
        if self._touched == len(self.ready):
            for name, value in vars(self).items():
                if isinstance(value, np.ndarray):
                    setattr(self, name, np.concatenate([value, np.empty_like(value)]))
        self._touched += 1
        return self._touched - 1

    def free(self, slots: Iterable[int]) -> None:
        self._free.extend(slots)

    def states_before(self, slots: Slots) -> npt.NDArray[np.float32]:
        """The decoder's state before each node's token; zero for a root."""
        cells = np.ascontiguousarray(self.cells[self.parents[slots]].transpose(1, 0, 2))
        cells[:, self.parents[slots] == NOWHERE] = 0
        return cells

    def learn(
        self, slots: Slots, cells: npt.NDArray[np.float32], vectors: npt.NDArray[np.float32], shape: Shape
    ) -> None:
        """Store the results of computed nodes."""
        self.cells[slots], self.vectors[slots] = cells.transpose(1, 0, 2), vectors
        self.masses[slots], self.peaks[slots], self.floors[slots] = shape.masses, shape.peaks, shape.floors
        self.normalisers[slots] = shape.normalisers
        self.ready[slots] = True

    def choose(
        self, slots: Slots, uniforms: npt.NDArray[np.float64], output: OutputLayer, rate: float
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """Choose the next token after each prefix; also return its log-probability at temperature 1."""
        distinct, which = np.unique(slots, return_inverse=True)
        blocks, targets = stage_one(self.masses[slots], uniforms)
        vectors, peaks, floors = self.vectors[distinct], self.peaks[distinct], self.floors[distinct]
        tokens, logits = output.pick(vectors, rate, which, blocks, targets, peaks, floors)
        return tokens, logits - self.normalisers[slots]

    def path(self, slot: int) -> list[int]:
        """The tokens of a prefix."""
        tokens = []
        while self.parents[slot] != NOWHERE:
            tokens.append(int(self.tokens[slot]))
            slot = int(self.parents[slot])
        return tokens[::-1]
