"""Beam search with Hugging Face models: the algorithm of transformers in our own loop, which encodes a source once.

Each step looks at the most probable continuations of a segment's hypotheses, a few times the beam's size k. Finished
hypotheses are those among the best k that end; the search keeps the best k of them by log-probability divided by their
number of tokens. The best k of the unfinished ones go on until, at their current length, none could beat the finished
ones. This gives the results of ``generate(num_beams=k, num_return_sequences=k, length_penalty=1,
early_stopping=False)`` whatever the model's generation settings are.

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
    """The search for one segment; each row is an unfinished hypothesis."""

    size: int
    limit: int
    forced: int
    """Number of forced first tokens, which count in a hypothesis's length."""
    wanted: Callable[[], bool]
    paths: list[tuple[int, ...]] = field(default_factory=lambda: [()])
    scores: Reals = field(default_factory=lambda: np.zeros(1))
    finished: list[Hypothesis] = field(default_factory=list)
    """In descending order."""

    def extend(self, tokens: Integers, steps: Reals, ends: Ends) -> tuple[Integers, Integers]:
        """Extend the hypotheses by one token. ``tokens`` and ``steps`` (rows, choices) are the most probable next
        tokens and their log-probabilities, in descending order. Return the rows that go on, and their new tokens."""
        totals = self.scores[:, None] + steps
        most = max(2, 1 + len(ends.tokens)) * self.size
        order = np.argsort(-totals, axis=None, kind="stable")[:most]
        rows, places = np.unravel_index(order[np.isfinite(totals.reshape(-1)[order])], totals.shape)
        unfinished: list[int] = []
        length = len(self.paths[0]) + 1
        for rank, (row, place) in enumerate(zip(rows.tolist(), places.tolist(), strict=True)):
            if int(tokens[row, place]) not in ends.tokens and length < self.limit:
                unfinished.append(rank)
            elif rank < self.size:
                total = float(totals[row, place])
                path = (*self.paths[row], int(tokens[row, place]))
                self.finished.append(Hypothesis(path, total, total / (length + self.forced)))
        self.finished = sorted(self.finished, key=lambda one: -one.score)[: self.size]
        best = unfinished[: self.size]
        rows, places = rows[best], places[best]
        chosen, self.scores = tokens[rows, places], totals[rows, places]
        self.paths = [(*self.paths[row], token) for row, token in zip(rows.tolist(), chosen.tolist(), strict=True)]
        return (rows, chosen) if self._goes_on(length) else (rows[:0], chosen[:0])

    def _goes_on(self, length: int) -> bool:
        if not self.paths or not self.wanted():
            return False
        full = len(self.finished) == self.size
        return not full or float(self.scores[0]) / (length + self.forced) > self.finished[-1].score


def search(
    decoder: Decoder, ends: Ends, size: int, openings: Sequence[Opening], wanted: Sequence[Callable[[], bool]]
) -> list[list[Hypothesis]]:
    """The hypotheses of each opening. The search for an opening that is no longer wanted ends early."""
    import torch

    beams = [Beam(size, one.limit, one.forced, requested) for one, requested in zip(openings, wanted, strict=True)]
    rows, logits = decoder.begin(openings), torch.cat([opening.logits for opening in openings])
    unfinished, first = list(beams), True
    while unfinished:
        barred = ends.barred_first if first else ends.barred
        tokens, steps = _most_probable(logits, barred, max(2, 1 + len(ends.tokens)) * size)
        parents, chosen, place = list[Integers](), list[Integers](), 0
        for beam in unfinished:
            count = len(beam.paths)
            kept, taken = beam.extend(tokens[place : place + count], steps[place : place + count], ends)
            parents.append(kept + place)
            chosen.append(taken)
            place += count
        unfinished = [beam for beam, kept in zip(unfinished, parents, strict=True) if len(kept)]
        if unfinished:
            rows.select(torch.from_numpy(np.concatenate(parents)))
            logits, first = rows.advance(torch.from_numpy(np.concatenate(chosen))), False
    return [beam.finished for beam in beams]


def _most_probable(logits: Any, barred: Any, count: int) -> tuple[Integers, Reals]:
    """The most probable tokens of each row, and their log-probabilities; -inf for barred tokens."""
    import torch

    logits = logits.float()
    if logits.device.type == "mps":  # has no float64
        logits, barred = logits.cpu(), barred.cpu()
    allowed = logits.masked_fill(barred, -torch.inf)
    top = allowed.topk(min(count, logits.shape[-1]), dim=-1)
    steps = top.values.double() - logits.double().logsumexp(dim=-1, keepdim=True)
    return top.indices.cpu().numpy(), steps.cpu().numpy()
