"""Beam search with Hugging Face models: transformers' own, in our loop, so that a source is encoded once for all.

In each step the best continuations of a segment's hypotheses are looked at, a few times as many as the beam has places.
Those among the best k that end are finished hypotheses, and the best k of these are kept, by log-probability divided by
their number of tokens. The best k of the others go on, until they cannot be better any more as far as their present
length tells. That is what ``generate(num_beams=k, num_return_sequences=k, length_penalty=1, early_stopping=False)``
does, whatever a model's own settings say.

torch is imported by those who call this, never by this module at import.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from quitmt.generate.decoding.walk import Decoder, Ends, Opening

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Hypothesis:
    tokens: tuple[int, ...]
    log_probability: float
    score: float


@dataclass(slots=True)
class Beam:
    """The search of one segment; a row is a hypothesis under way."""

    size: int
    limit: int
    given: int
    """Tokens before the first, which count in a hypothesis's length."""
    wanted: Callable[[], bool]
    paths: list[tuple[int, ...]] = field(default_factory=lambda: [()])
    scores: Reals = field(default_factory=lambda: np.zeros(1))
    finished: list[Hypothesis] = field(default_factory=list)
    """The best first."""

    def extend(self, tokens: Integers, steps: Reals, ends: Ends) -> tuple[Integers, Integers]:
        """One more token, of (rows, choices) the likeliest in their order; the rows that go on, and their tokens."""
        totals = self.scores[:, None] + steps
        most = max(2, 1 + len(ends.tokens)) * self.size
        order = np.argsort(-totals, axis=None, kind="stable")[:most]
        rows, places = np.unravel_index(order[np.isfinite(totals.reshape(-1)[order])], totals.shape)
        on: list[int] = []
        length = len(self.paths[0]) + 1
        for rank, (row, place) in enumerate(zip(rows.tolist(), places.tolist(), strict=True)):
            if int(tokens[row, place]) not in ends.tokens and length < self.limit:
                on.append(rank)
            elif rank < self.size:
                total = float(totals[row, place])
                path = (*self.paths[row], int(tokens[row, place]))
                self.finished.append(Hypothesis(path, total, total / (length + self.given)))
        self.finished = sorted(self.finished, key=lambda one: -one.score)[: self.size]
        rows, chosen, self.scores = rows[on], tokens[rows[on], places[on]], totals[rows[on], places[on]]
        rows, chosen, self.scores = rows[: self.size], chosen[: self.size], self.scores[: self.size]
        self.paths = [(*self.paths[row], token) for row, token in zip(rows.tolist(), chosen.tolist(), strict=True)]
        return (rows, chosen) if self._goes_on(length) else (rows[:0], chosen[:0])

    def _goes_on(self, length: int) -> bool:
        if not self.paths or not self.wanted():
            return False
        full = len(self.finished) == self.size
        return not full or float(self.scores[0]) / (length + self.given) > self.finished[-1].score


def search(
    decoder: Decoder, ends: Ends, size: int, openings: Sequence[Opening], wanted: Sequence[Callable[[], bool]]
) -> list[list[Hypothesis]]:
    """The hypotheses of each opening; of one that is no longer wanted, whatever was found until then."""
    import torch

    beams = [Beam(size, one.limit, one.given, requested) for one, requested in zip(openings, wanted, strict=True)]
    rows, logits = decoder.begin(openings), torch.cat([opening.logits for opening in openings])
    under_way, first = list(beams), True
    while under_way:
        barred = ends.barred_first if first else ends.barred
        tokens, steps = _likeliest(logits, barred, max(2, 1 + len(ends.tokens)) * size)
        parents, chosen, place = list[Integers](), list[Integers](), 0
        for beam in under_way:
            count = len(beam.paths)
            kept, taken = beam.extend(tokens[place : place + count], steps[place : place + count], ends)
            parents.append(kept + place)
            chosen.append(taken)
            place += count
        under_way = [beam for beam, kept in zip(under_way, parents, strict=True) if len(kept)]
        if under_way:
            rows.select(torch.from_numpy(np.concatenate(parents)))
            logits, first = rows.advance(torch.from_numpy(np.concatenate(chosen))), False
    return [beam.finished for beam in beams]


def _likeliest(logits: Any, barred: Any, count: int) -> tuple[Integers, Reals]:
    """The likeliest tokens of each row, and their log-probabilities; -inf for what is barred."""
    import torch

    logits = logits.float()
    if logits.device.type == "mps":  # has no float64
        logits, barred = logits.cpu(), barred.cpu()
    allowed = logits.masked_fill(barred, -torch.inf)
    top = allowed.topk(min(count, logits.shape[-1]), dim=-1)
    steps = top.values.double() - logits.double().logsumexp(dim=-1, keepdim=True)
    return top.indices.cpu().numpy(), steps.cpu().numpy()
