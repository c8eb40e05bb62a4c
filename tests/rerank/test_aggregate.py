"""Reference aggregation: against fastchrf for chrF, against the head itself for COMET."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fastchrf
import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from tests.comet.folders import make_folder
from tests.rerank.tables import QuickTable, Vectors, filled, noisy, stand

from quitmt import rerank
from quitmt.errors import RerankError, UsageError
from quitmt.metrics.chrf import Chrf
from quitmt.metrics.comet import Comet, CometUtility
from quitmt.metrics.devices import Hardware
from quitmt.metrics.function import FunctionUtility
from quitmt.protocols import Update
from quitmt.rerank import variants
from quitmt.rerank.aggregate import Aggregate
from quitmt.rerank.cells import Cells
from quitmt.types import Candidate, Segment

Pool = Callable[[int, int], list[str]]


def estimates(texts: list[str], cuts: tuple[int, ...] = ()) -> list[float]:
    """Of all candidates, duplicates too; the arena grows at the cuts, and is asked at each of them."""
    utility = Chrf()
    cells: Cells[Any] = Cells(Segment("s"), utility)
    for start, stop in zip((0, *cuts), (*cuts, len(texts)), strict=True):
        cells.extend([Candidate(text) for text in texts[start:stop]])
        if cells.new:
            utility.encode([(cells.arena, cells.new)])
        cells.make_room()
        found = Aggregate(0).estimate(cells, stop)
    return [float(found[number]) for number in cells.order]


def by_fastchrf(texts: list[str]) -> list[float]:
    return [score / 100 for score in fastchrf.aggregate_chrf([texts], [texts])[0]]


@pytest.mark.parametrize("size", [1, 2, 40, 300])
def test_against_fastchrf(size: int, make_pool: Pool) -> None:
    texts = make_pool(3, size)
    np.testing.assert_allclose(estimates(texts), by_fastchrf(texts), rtol=0, atol=1e-12)
    assert size < 40 or len(set(texts)) < size


@given(st.lists(st.text(st.sampled_from("ab 猫犬é\u3000\n"), max_size=12), min_size=1, max_size=12))
@example(["", ""])
@example(["", "a", "aaaaaaa"])
@example(["abc", "abcdefgh", "ab", "abc"])
@example(["猫が好きです。", "猫は好きです。", "犬が好き", "犬が好き", "🐈猫"])
def test_short_empty_and_other_scripts_against_fastchrf(texts: list[str]) -> None:
    np.testing.assert_allclose(estimates(texts), by_fastchrf(texts), rtol=0, atol=1e-12)


@given(st.lists(st.sampled_from(["", "a", "ab", "abab", "o gato velho", "o gato"]), min_size=1, max_size=14), st.data())
def test_growing_in_any_steps_changes_nothing(texts: list[str], data: st.DataObject) -> None:
    cuts = tuple(sorted(data.draw(st.sets(st.integers(1, len(texts) - 1), max_size=4)))) if len(texts) > 1 else ()
    assert estimates(texts, cuts) == estimates(texts)


def test_a_part_of_the_arena_is_the_support(make_pool: Pool) -> None:
    texts, utility = make_pool(5, 60), Chrf()
    cells: Cells[Any] = Cells(Segment("s"), utility)
    cells.extend([Candidate(text) for text in texts])
    utility.encode([(cells.arena, cells.new)])
    cells.make_room()
    found = Aggregate(0).estimate(cells, 25)
    expected = by_fastchrf(texts[:25])
    np.testing.assert_allclose([found[number] for number in cells.order[:25]], expected, rtol=0, atol=1e-12)
    assert cells.evaluations == len(set(texts[:25]))


def test_weights_that_are_no_counts() -> None:
    utility = Chrf()
    arena, texts = utility.open(Segment("s")), ["o gato velho", "o gato", "um cão"]
    utility.encode([(arena, texts)])
    found = utility.against(arena, range(3), np.array([[0.5, 0.25, 0.25], [0.0, 0.0, 1.0], [0.2, 0.2, 0.6]]))
    for column, copies in enumerate(([2, 1, 1], [0, 0, 1], [1, 1, 3])):
        support = [text for text, times in zip(texts, copies, strict=True) for _ in range(times)]
        expected = np.array(fastchrf.aggregate_chrf([texts], [support])[0]) / 100
        np.testing.assert_allclose(found[:, column], expected, rtol=0, atol=1e-12)


def winner(variant: str, texts: list[str]) -> tuple[int, float, int]:
    reranker: Any = rerank.load("mbr:chrf", variant=variant)
    state = reranker.open(Segment("s"))
    [[snapshot]] = reranker.extend([Update(state, [Candidate(text) for text in texts], len(texts))])
    return snapshot.best, snapshot.score, reranker.effort(state).evaluations


def test_then_exact_among_the_top(make_pool: Pool) -> None:
    differ = 0
    for seed in range(15):
        texts = make_pool(seed, 4) + make_pool(seed + 50, 4)
        distinct = list(dict.fromkeys(texts))
        exact = np.array(fastchrf.pairwise_chrf([distinct], [texts])[0]).mean(axis=1) / 100
        coarse = np.array(fastchrf.aggregate_chrf([distinct], [texts])[0]) / 100
        for variant, top in (("aggregate", 20), ("aggregate:top=3", 3), ("aggregate:top=1", 1)):
            short = sorted(np.argsort(-coarse, kind="stable")[:top])
            best = max(short, key=lambda number: exact[number])
            index, score, evaluations = winner(variant, texts)
            assert texts[index] == distinct[best]
            assert score == pytest.approx(exact[best], abs=1e-12)
            assert evaluations == len(distinct) + len(short) * len(distinct)
        index, score, evaluations = winner("aggregate:top=0", texts)
        assert texts[index] == distinct[int(coarse.argmax())] and evaluations == len(distinct)
        assert score == pytest.approx(coarse.max(), abs=1e-12)
        differ += int(coarse.argmax() != exact.argmax())
    assert differ  # or the top would not matter


def test_a_utility_that_is_linear_in_the_reference_loses_nothing() -> None:
    utility = Vectors(np.random.default_rng(1).standard_normal((40, 6)))
    order = np.random.default_rng(2).integers(0, 40, 90)
    texts = list(dict.fromkeys(order.tolist()))
    found = Aggregate(0).estimate(filled(utility, order), 90)
    np.testing.assert_allclose(found, utility.matrix[np.ix_(texts, order)].mean(axis=1), atol=1e-12)


def test_comet_is_the_head_on_the_mean_vector(tmp_path: Any, make_pool: Pool) -> None:
    comet = Comet(str(make_folder(tmp_path, "regression")), Hardware(device="cpu"))
    utility, texts, source = CometUtility(comet), make_pool(1, 50), "The old cat slept near the house."
    cells: Cells[Any] = Cells(Segment("s", source), utility)
    cells.extend([Candidate(text) for text in texts])
    utility.encode([(cells.arena, cells.new)])
    cells.make_room()
    distinct = list(dict.fromkeys(texts))
    vectors, mean, its = comet.embed(distinct), comet.embed(texts).mean(dim=0), comet.embed([source])
    shape = (len(distinct), -1)
    expected = comet.head.direct(vectors, mean.expand(shape), its.expand(shape))
    found = Aggregate(0).estimate(cells, len(texts))
    np.testing.assert_allclose(found, expected.numpy(), rtol=0, atol=1e-5)
    assert float(torch.std(expected)) > 1e-3 and len(distinct) < len(texts)


@pytest.mark.parametrize("utility", [FunctionUtility(lambda h, r: 1.0, name="mine"), QuickTable(noisy(1, 3))])
@pytest.mark.parametrize("variant", ["aggregate", "aggregate:top=0"])
def test_a_utility_that_knows_no_means_is_refused(utility: Any, variant: str) -> None:
    method = variants.load(variant)
    assert method
    with pytest.raises(
        UsageError, match=r"an aggregate needs a utility with counts or vectors of texts, and .* neither"
    ):
        stand(utility, method, "012")


def test_no_number_is_refused() -> None:
    utility = Vectors(np.random.default_rng(1).standard_normal((4, 3)))
    utility.rows[2] = np.inf
    with (
        np.errstate(invalid="ignore"),
        pytest.raises(RerankError, match="segment s: the utility of candidate 0 and a mean of candidates is"),
    ):
        stand(utility, Aggregate(0), range(4))
