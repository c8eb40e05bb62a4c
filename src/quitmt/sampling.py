"""Sampling settings, the same for every engine.

The cut-offs apply after the temperature, in this order: ``top_k`` keeps the k most probable tokens; ``top_p`` keeps the
fewest most probable tokens whose total probability reaches p; ``min_p`` keeps tokens with at least this share of the
highest probability; ``epsilon`` keeps tokens with at least this probability. An engine that lacks a setting refuses it,
because a substitute would be another distribution under the same name.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace

from quitmt.defaults import PAPER_TEMPERATURE
from quitmt.errors import UsageError, setting
from quitmt.signature import field

SEEDS_PER_SEGMENT = 1 << 20


@dataclass(frozen=True, slots=True)
class Sampling:
    """Temperature 0 takes the most probable token (the first of equals). With ``beam`` nothing is sampled: the
    candidates are the hypotheses of a beam search of that size, in descending order, and then the sequence ends."""

    temperature: float = PAPER_TEMPERATURE
    top_k: int | None = None
    top_p: float | None = None
    epsilon: float | None = None
    seed: int = 0
    min_p: float | None = None
    beam: int | None = None
    derived: bool = False
    """Whether the seed is derived from the samples' seed, so that these candidates don't resemble the samples."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise UsageError(f"{setting('model.temperature')} must be 0 or more, not {self.temperature}")
        if self.top_k is not None and self.top_k < 1:
            raise UsageError(f"{setting('model.top_k')} must be 1 or more, not {self.top_k}")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise UsageError(f"{setting('model.top_p')} must be above 0 and at most 1, not {self.top_p}")
        if self.epsilon is not None and not 0 <= self.epsilon < 1:
            raise UsageError(f"{setting('model.epsilon')} must be at least 0 and below 1, not {self.epsilon}")
        if self.min_p is not None and not 0 <= self.min_p <= 1:
            raise UsageError(f"{setting('model.min_p')} must be at least 0 and at most 1, not {self.min_p}")
        if self.beam is not None and self.beam < 1:
            raise UsageError(f"a beam must have a size of 1 or more, not {self.beam}")

    @property
    def signature(self) -> str:
        if self.beam is not None:
            return f"beam:{self.beam}"
        cuts = {"k": self.top_k, "p": self.top_p, "m": self.min_p, "e": self.epsilon}
        set_cuts = {name: cut for name, cut in cuts.items() if cut is not None}
        fields = {"t": self.temperature, **set_cuts, "seed": self.seed}
        return "|".join(f"{name}:{field(value)}" for name, value in fields.items())

    @property
    def greedy(self) -> bool:
        return self.temperature == 0

    @property
    def cut(self) -> bool:
        """Whether any cut-off applies."""
        return self.greedy or any(value is not None for value in (self.top_k, self.top_p, self.min_p, self.epsilon))

    @property
    def rate(self) -> float:
        """The factor for logits: the inverse temperature."""
        return 1.0 if self.greedy else 1 / self.temperature

    def refuse(self, engine: str, *lacking: str) -> None:
        """Raise if a setting is used that the engine lacks."""
        for name in lacking:
            if name == "beam" and self.beam is not None:
                raise UsageError(f"{engine} has no beam search")
            if getattr(self, name) is not None:
                raise UsageError(f"{engine} cannot sample with {setting(f'model.{name}')}", hint="leave it out")

    def seeded(self, seed: int | None) -> Sampling:
        """These settings with a segment's own seed, if it has one."""
        if seed is None:
            return self
        return replace(self, seed=derived_seed(seed) if self.derived else seed)

    def seed_of(self, content: bytes, index: int) -> int:
        """The seed of one candidate, for engines that take one seed per call.

        A hash gives each content (``Segment.content``) its own range of seeds, in which indices follow each other.
        Engines sample choice i of a call with seed + i, so each candidate keeps its seed however candidates are split
        into calls. Seeds have 53 bits, because some servers read numbers as floating point, where rounding would make
        seeds equal.

        >>> Sampling(seed=1).seed_of(b"a", 5) - Sampling(seed=1).seed_of(b"a", 0)
        5
        """
        digest = hashlib.blake2b(b"%d\0%b" % (self.seed, content), digest_size=8).digest()
        return (int.from_bytes(digest) >> 31) * SEEDS_PER_SEGMENT + index


def derived_seed(seed: int) -> int:
    """A seed that gives different candidates.

    >>> derived_seed(0) != 0
    True
    """
    digest = hashlib.blake2b(f"{seed} anchors".encode(), digest_size=4).digest()
    return int.from_bytes(digest) >> 1
