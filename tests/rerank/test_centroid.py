"""CentroidMBR: exact while there are few texts, centroids beyond; a utility without vectors is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.cluster.vq import kmeans2
from tests.comet.folders import make_folder
from tests.rerank.tables import Floats, QuickTable, Vectors, filled, noisy, stand

from quitmt import rerank
from quitmt.errors import RerankError, UsageError
from quitmt.metrics.chrf import Chrf
from quitmt.metrics.comet import CometUtility
from quitmt.metrics.devices import Hardware
from quitmt.metrics.function import FunctionUtility
from quitmt.protocols import Update
from quitmt.rerank.centroid import Centroid
from quitmt.types import Candidate, Segment


class Curved(Vectors):
    """Not linear in the reference, so that it matters where the centroids are, and how many."""

    def __init__(self, vectors: Floats) -> None:
        super().__init__(vectors)
        self.matrix = self.utilities(self.rows, self.rows)

    def utilities(self, hypotheses: Floats, references: Floats) -> Floats:
        found: Floats = np.exp(-((hypotheses[:, None] - references[None]) ** 2).sum(axis=2))
        return found

    def against(self, arena: list[int], rows: range, weights: Floats) -> Floats:
        texts = self.rows[arena]
        return self.utilities(texts[rows.start : rows.stop], weights @ texts[: weights.shape[1]])


def clustered(seed: int, size: int) -> Floats:
    rng = np.random.default_rng(seed)
    found: Floats = rng.normal(0, 1, (5, 4))[rng.choice(5, size, p=[0.5, 0.2, 0.1, 0.1, 0.1])]
    return found + rng.normal(0, 0.1, (size, 4))


@pytest.mark.parametrize("texts", [1, 2, 11, 12])
def test_with_no_more_texts_than_centroids_it_is_exact(texts: int) -> None:
    utility = Curved(clustered(1, texts))
    order = [*range(texts), *np.random.default_rng(1).integers(0, texts, 40).tolist()]  # some often, some not
    cells = filled(utility, order)
    for weighted in (False, True):
        estimates = Centroid(12, weighted=weighted).estimate(cells, len(order))
        np.testing.assert_allclose(estimates, utility.matrix[:, order].mean(axis=1), rtol=1e-12)
    assert cells.evaluations == texts**2
    if texts > 2:
        assert abs(estimates - utility.matrix.mean(axis=1)).max() > 1e-3  # duplicates count


@pytest.mark.parametrize("weighted", [False, True])
def test_beyond_that_centroids_are_the_references(weighted: bool) -> None:
    utility, size = Curved(clustered(2, 100)), 100
    cells = filled(utility, range(size))
    estimates = Centroid(5, weighted=weighted).estimate(cells, size)
    _, labels = kmeans2(utility.rows, 5, iter=10, minit="++", rng=cells.random(0, size))
    centroids = np.array([utility.rows[labels == label].mean(axis=0) for label in range(5)])
    weights = np.bincount(labels) if weighted else np.ones(5)
    expected = utility.utilities(utility.rows, centroids) @ weights / weights.sum()
    np.testing.assert_allclose(estimates, expected, rtol=1e-9)
    assert cells.evaluations == size * 5 and not utility.requested
    assert len(set(np.bincount(labels))) > 1  # so that weights matter


def test_weighted_centroids_are_exact_if_the_utility_is_linear() -> None:
    utility, order = Vectors(clustered(3, 60)), np.random.default_rng(3).integers(0, 60, 200)
    texts = list(dict.fromkeys(order.tolist()))
    expected = utility.matrix[np.ix_(texts, order)].mean(axis=1)
    estimates = Centroid(8, weighted=True).estimate(filled(utility, order), 200)
    np.testing.assert_allclose(estimates, expected, rtol=1e-9, atol=1e-12)
    alike = Centroid(8).estimate(filled(utility, order), 200)
    assert abs(alike - expected).max() > 1e-3


def test_it_finds_a_good_one_and_the_same_each_time() -> None:
    for seed in range(6):
        utility = Curved(clustered(seed, 150))
        expected = utility.matrix.mean(axis=1)
        best = stand(utility, Centroid(20, weighted=True), range(150)).best
        assert expected.max() - expected[best] < 0.2 * expected.std()
        assert best == stand(utility, Centroid(20, weighted=True), range(150)).best


def test_clusters_that_stay_empty_have_no_say(monkeypatch: pytest.MonkeyPatch) -> None:
    import scipy.cluster.vq

    utility, labels = Curved(clustered(4, 30)), np.array([0, 3, 3] * 10)  # 1, 2 and 4 are empty
    monkeypatch.setattr(scipy.cluster.vq, "kmeans2", lambda *given, **more: (None, labels))
    centroids = np.array([utility.rows[labels == label].mean(axis=0) for label in (0, 3)])
    expected = utility.utilities(utility.rows, centroids).mean(axis=1)
    estimates = Centroid(5).estimate(filled(utility, range(30)), 30)
    np.testing.assert_allclose(estimates, expected, rtol=1e-12)


@pytest.mark.parametrize("places", [1, 2, 8, 9])
def test_more_texts_than_vectors(places: int) -> None:
    """Texts that the encoder cannot tell apart: there may be fewer places than centroids."""
    utility = Curved(clustered(5, places)[np.arange(40) % places])
    estimates = Centroid(8, weighted=True).estimate(filled(utility, range(40)), 40)
    np.testing.assert_allclose(estimates, utility.matrix.mean(axis=1), atol=1e-12 if places <= 8 else 0.02)


def test_no_number_is_refused() -> None:
    utility = Curved(clustered(6, 20))
    inner = utility.utilities
    utility.utilities = lambda h, r: np.where(np.arange(len(h))[:, None] == 7, np.nan, inner(h, r))  # type: ignore[method-assign]
    with pytest.raises(RerankError, match="segment s: the utility of candidate 8 and a mean of candidates is nan"):
        stand(utility, Centroid(4), [0, *range(20)])


@pytest.mark.parametrize("utility", [Chrf(), FunctionUtility(lambda h, r: 1.0, name="mine"), QuickTable(noisy(1, 3))])
def test_a_utility_without_vectors_is_refused(utility: Any) -> None:
    with pytest.raises(
        UsageError, match=r"centroids need a utility with vectors of texts, and .* has none .take mbr:co"
    ):
        stand(utility, Centroid(), "abc")


@pytest.mark.parametrize("settings", [{"centroids": 0}, {"iterations": 0}])
def test_settings_that_make_no_sense(settings: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="centroids and iterations must be 1 or more"):
        Centroid(**settings)


# With COMET


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder: Path = make_folder(tmp_path_factory.mktemp("models"), "regression")
    return f"mbr:comet:{folder}"


def winner(spec: str, variant: str, texts: list[str]) -> tuple[int, float]:
    reranker = rerank.load(spec, hardware=Hardware(device="cpu"), variant=variant)
    pool = [Candidate(text) for text in texts]
    state = reranker.open(Segment("s", "The old cat slept near the house."))
    [[snapshot]] = reranker.extend([Update(state, pool, len(pool))])
    assert not isinstance(snapshot, Exception)
    return snapshot.best, snapshot.score


def test_comet_with_few_texts_is_exact(spec: str, make_pool: Callable[[int, int], list[str]]) -> None:
    texts = make_pool(1, 20) * 2
    exact, few = winner(spec, "exact", texts), winner(spec, "centroid", texts)
    assert few[0] == exact[0] and few[1] == pytest.approx(exact[1], abs=1e-5)


def test_comet_with_many_texts(spec: str, make_pool: Callable[[int, int], list[str]]) -> None:
    texts = list(dict.fromkeys(make_pool(1, 60)))
    reranker: Any = rerank.load(spec, hardware=Hardware(device="cpu"))
    utility: CometUtility = reranker.utility
    cells = filled(utility, [])
    cells.extend([Candidate(text) for text in texts])
    utility.encode([(cells.arena, cells.new)])
    cells.make_room()
    exact = cells.mean(cells.block(np.arange(len(texts)), range(len(texts))), len(texts))
    estimates = Centroid(16, weighted=True).estimate(cells, len(texts))
    assert np.corrcoef(exact, estimates)[0, 1] > 0.95
    assert exact.max() - exact[estimates.argmax()] < 0.3 * exact.std()
