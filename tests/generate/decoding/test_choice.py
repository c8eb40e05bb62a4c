"""How a token is chosen from logits; transformers' own warpers are the oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from quitmt.generate.decoding.choice import choose, cut_off  # noqa: E402
from quitmt.sampling import Sampling  # noqa: E402

WARPERS = {"top_k": "TopK", "top_p": "TopP", "min_p": "MinP", "epsilon": "Epsilon"}


@pytest.mark.parametrize(
    "setting",
    [
        {},
        {"top_k": 7},
        {"top_p": 0.6},
        {"min_p": 0.1},
        {"epsilon": 0.02},
        {"top_k": 30, "top_p": 0.8},
        {"top_p": 0.9, "min_p": 0.02},
        {"top_k": 40, "top_p": 0.9, "min_p": 0.03, "epsilon": 0.01},
    ],
)
def test_cut_offs_are_those_of_transformers(setting: dict[str, Any]) -> None:
    theirs = transformers.LogitsProcessorList([transformers.TemperatureLogitsWarper(1.3)])
    theirs += [getattr(transformers, f"{WARPERS[name]}LogitsWarper")(value) for name, value in setting.items()]
    logits = torch.randn(50, 120, generator=torch.Generator().manual_seed(5)) * 2
    ours = cut_off(logits, Sampling(1.3, **setting)).softmax(-1)
    assert torch.allclose(ours, theirs(None, logits).softmax(-1), atol=1e-6)
    assert bool((ours > 0).sum(-1).min() >= 1)


def test_a_choice_follows_the_distribution() -> None:
    logits = torch.randn(3, 40, generator=torch.Generator().manual_seed(8)) * 2
    barred = torch.zeros(40, dtype=torch.bool)
    barred[4] = True
    count = 20_000
    rows, numbers = np.repeat(np.arange(3), count), np.tile((np.arange(count) + 0.5) / count, 3)
    tokens, steps = choose(logits, barred, Sampling(1.4), rows, numbers)
    expected = (logits.masked_fill(barred, -torch.inf) / 1.4).softmax(-1)
    for row in range(3):
        shares = np.bincount(tokens[rows == row], minlength=40) / count
        assert np.allclose(shares, expected[row].numpy(), atol=1.5 / count)
    assert np.allclose(steps, logits.log_softmax(-1)[rows, tokens].numpy(), atol=1e-5)


def test_a_choice_is_never_what_cannot_be() -> None:
    logits = torch.full((1, 6), -torch.inf)
    logits[0, 1:3] = 0.0
    barred = torch.zeros(6, dtype=torch.bool)
    tokens, _ = choose(logits, barred, Sampling(1.0), np.zeros(2, np.int64), np.array([0.0, np.nextafter(1.0, 0.0)]))
    assert tokens.tolist() == [1, 2]
    assert choose(logits, barred, Sampling(0.0), np.zeros(1, np.int64), np.zeros(1))[0].tolist() == [1]
