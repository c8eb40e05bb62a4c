"""BLEU, chrF++ and TER against their definition, sacrebleu's sentence scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU, CHRF, TER

from quitmt.errors import RerankError
from quitmt.metrics import chrf
from quitmt.metrics.words import TOKENIZERS, Bleu, ChrfPlus, Ter
from quitmt.types import Segment

WORDS = st.sampled_from(["o", "gato", "(gato)", "gato.", "casa,", "!", "“a", "é", "日本語", "99.5%", "don't", "&amp;"])
TEXTS = st.one_of(st.lists(WORDS, max_size=9).map(" ".join), st.text("ab.,- \u3000é", max_size=12))
POOLS = st.lists(TEXTS, min_size=1, max_size=8, unique=True)


def everything(utility: Any, texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    arena = utility.open(Segment("s"))
    for start in range(0, len(texts), 3):  # as pools grow
        utility.encode([(arena, texts[start : start + 3])])
    return utility.compare(arena, range(len(texts)), range(len(texts)))


def by_sacrebleu(metric: Any, texts: list[str]) -> np.ndarray:
    return np.array([[metric.sentence_score(h, [r]).score / 100 for r in texts] for h in texts])


@given(POOLS)
@settings(max_examples=100)
def test_chrf_plus_plus_equals_sacrebleu(texts: list[str]) -> None:
    forward, backward = everything(ChrfPlus(), texts)
    np.testing.assert_allclose(forward, by_sacrebleu(CHRF(word_order=2), texts), rtol=0, atol=1e-14)
    np.testing.assert_array_equal(backward, forward.T)


def test_other_orders_of_chrf_plus_plus() -> None:
    texts = ["o gato dormiu hoje.", "o gato, hoje", "um gato dormiu", "x"]
    metric = CHRF(char_order=3, word_order=4, beta=1)
    np.testing.assert_allclose(everything(ChrfPlus(3, 1, 4), texts)[0], by_sacrebleu(metric, texts), atol=1e-14)


@given(POOLS, st.sampled_from(TOKENIZERS))
@settings(max_examples=100)
def test_bleu_equals_sacrebleu(texts: list[str], tokenize: str) -> None:
    forward, backward = everything(Bleu(tokenize), texts)
    expected = by_sacrebleu(BLEU(tokenize=tokenize, effective_order=True), texts)
    np.testing.assert_allclose(forward, expected, rtol=0, atol=1e-14)
    np.testing.assert_array_equal(backward, forward.T)


@given(POOLS)
@settings(max_examples=40)
def test_ter_is_one_minus_sacrebleus(texts: list[str]) -> None:
    forward, _ = everything(Ter(), texts)
    np.testing.assert_array_equal(forward, 1 - by_sacrebleu(TER(), texts))


def test_known_values() -> None:
    forward, _ = everything(Ter(), ["a b c d", "a b c x", "z y x w v u"])
    assert forward[0].tolist() == [1.0, 0.75, 0.0]
    assert forward[2, 0] == pytest.approx(-0.5), "more edits than words: below 0"
    forward, _ = everything(Bleu(), ["", "a b c d e", "a b c d", "f"])
    assert forward[2, 2] == 1.0 and forward[2, 1] == pytest.approx(np.exp(1 - 5 / 4)) and not forward[0].any()
    assert forward[3, 1] == 0.0


def test_a_text_that_is_too_long_fails_its_own_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chrf, "MOST_FEATURES", 1000)
    utility = Bleu("none")
    arena = utility.open(Segment("s"))
    utility.encode([(arena, ["a " * (1000 // 4 + 1)])])
    with pytest.raises(RerankError):
        utility.compare(arena, range(1), range(1))
