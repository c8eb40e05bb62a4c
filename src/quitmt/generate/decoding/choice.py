"""Chooses the next token from logits in torch, with the cut-offs of ``quitmt.sampling`` and one random number each.

Many candidates may share one row of logits, because they share their beginning. A choice is the inverse of the row's
cumulative distribution, summed in float64, so it depends only on the row and the candidate's random number.

torch is imported by those who call this, never by this module at import.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from quitmt.sampling import Sampling

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]


def cut_off(logits: Any, sampling: Sampling) -> Any:
    """Logits after the temperature, with -inf for tokens that are cut off; ties stay or go together."""
    import torch

    logits = logits / sampling.temperature
    if sampling.top_k is not None and sampling.top_k < logits.shape[-1]:
        logits = _keep(logits, torch.topk(logits, sampling.top_k, dim=-1).values[:, -1:])
    if sampling.top_p is not None and sampling.top_p < 1:
        ranked = logits.sort(dim=-1, descending=True).values
        before = ranked.softmax(dim=-1).cumsum(dim=-1) - ranked.softmax(dim=-1)
        last = (before < sampling.top_p).sum(dim=-1, keepdim=True).clamp(min=1) - 1
        logits = _keep(logits, ranked.gather(-1, last))
    if sampling.min_p:
        probabilities = logits.softmax(dim=-1)
        least = sampling.min_p * probabilities.amax(dim=-1, keepdim=True)
        logits = logits.masked_fill(probabilities < least, -torch.inf)
    if sampling.epsilon is not None:
        peak = logits.amax(dim=-1, keepdim=True)
        logits = logits.masked_fill((logits.softmax(dim=-1) < sampling.epsilon) & (logits < peak), -torch.inf)
    return logits


def choose(logits: Any, barred: Any, sampling: Sampling, rows: Integers, numbers: Reals) -> tuple[Integers, Reals]:
    """The next token of each candidate, and its log-probability under the unmodified model.

    ``logits`` are the model's, (rows, vocabulary); ``barred`` is a mask of tokens that are never chosen; candidate i
    uses row ``rows[i]`` and the random number ``numbers[i]`` in [0, 1).
    """
    import torch

    logits = logits.float()
    if logits.device.type == "mps":  # has no float64
        logits, barred = logits.cpu(), barred.cpu()
    allowed = logits.masked_fill(barred, -torch.inf)
    places = torch.from_numpy(rows).to(logits.device)
    if sampling.greedy:
        tokens = _first_of_largest(allowed)[places]
    else:
        tokens = _invert(cut_off(allowed, sampling), rows, numbers)
    log_probabilities = logits[places, tokens].double() - logits.double().logsumexp(dim=-1)[places]
    return tokens.cpu().numpy(), log_probabilities.cpu().numpy()


def _keep(logits: Any, floor: Any) -> Any:
    return logits.masked_fill(logits < floor, float("-inf"))


def _first_of_largest(logits: Any) -> Any:
    """The first maximum of each row; torch's argmax may return any of them."""
    import torch

    places = torch.arange(logits.shape[-1], device=logits.device)
    largest = logits == logits.amax(dim=-1, keepdim=True)
    return torch.where(largest, places, logits.shape[-1]).amin(dim=-1)


def _invert(logits: Any, rows: Integers, numbers: Reals) -> Any:
    """For each candidate, the token at which its row's cumulative distribution passes its random number."""
    import torch

    cumulative = (logits - logits.amax(dim=-1, keepdim=True)).exp().cumsum(dim=-1, dtype=torch.float64)
    places = _places(rows)
    grid = np.zeros((len(cumulative), int(places.max()) + 1))
    grid[rows, places] = numbers
    total = cumulative[:, -1:]
    below = torch.nextafter(total, torch.zeros_like(total))
    wanted = torch.minimum(torch.from_numpy(grid).to(logits.device) * total, below)
    chosen = torch.searchsorted(cumulative, wanted, right=True)
    return chosen[torch.from_numpy(rows).to(logits.device), torch.from_numpy(places).to(logits.device)]


def _places(rows: Integers) -> Integers:
    """The number of equal entries before each entry.

    >>> _places(np.array([2, 0, 2, 2, 0])).tolist()
    [0, 0, 1, 2, 1]
    """
    order = np.argsort(rows, kind="stable")
    ordered = rows[order]
    places = np.empty_like(rows)
    places[order] = np.arange(len(rows)) - np.searchsorted(ordered, ordered)
    return places
