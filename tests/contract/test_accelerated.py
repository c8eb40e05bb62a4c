"""The contract of rerankers for accelerated MBR: the winner after n candidates is that of the method on those n."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from quitmt import rerank
from quitmt.devices import Hardware
from quitmt.protocols import Reranker
from quitmt.rerank.accelerated import Accelerated
from quitmt.rerank.cells import Cells
from quitmt.types import Candidate, Segment, Standing
from tests.comet.folders import make_folder
from tests.contract import test_neural_rerankers as neural
from tests.contract import test_rerankers as contract
from tests.neural.tiny_sentence import make_sentence_model

pools = contract.pools
tolerance = neural.tolerance
test_a_standing_after_each_stride_and_after_the_last = contract.test_a_standing_after_each_stride_and_after_the_last
test_growing_in_steps_changes_nothing = contract.test_growing_in_steps_changes_nothing
test_batched_is_the_same_as_alone = contract.test_batched_is_the_same_as_alone
test_the_best_is_the_best_of_those_there = contract.test_the_best_is_the_best_of_those_there
test_ties_go_to_the_lowest_index = contract.test_ties_go_to_the_lowest_index
test_no_candidates_is_no_standing = contract.test_no_candidates_is_no_standing

CHRF = ["prune", "lowrank", "sample", "aggregate", "aggregate:top=0", "lowrank+prune", "sample:top=5+exact"]
COMET = ["prune", "lowrank", "centroid:centroids=6", "centroid:centroids=6,weighted=yes", "aggregate:top=4"]


@pytest.fixture(scope="module")
def comet(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"mbr:comet:{make_folder(tmp_path_factory.mktemp('models'), 'regression')}"


@pytest.fixture(scope="module")
def embedding(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"mbr:embedding:{make_sentence_model(tmp_path_factory.mktemp('models') / 'sentence')}"


@pytest.fixture(
    scope="module",
    params=[("chrf", variant) for variant in CHRF]
    + [("comet", variant) for variant in COMET]
    + [("embedding", variant) for variant in COMET],
    ids="|".join,
)
def reranker(request: pytest.FixtureRequest, comet: str, embedding: str) -> Reranker[Any]:
    utility, variant = request.param
    if utility == "chrf":
        return rerank.load("mbr:chrf", variant=variant)
    return rerank.load(
        {"comet": comet, "embedding": embedding}[utility], hardware=Hardware(device="cpu"), variant=variant
    )


def test_the_winner_after_n_is_that_of_the_method_on_those_n(
    reranker: Accelerated[Any], make_pool: Callable[[int, int], list[str]]
) -> None:
    """With a pool of its own for each n, by the method itself."""
    segment, texts = Segment("a", "The old cat slept near the house."), make_pool(7, 40)
    pool = [Candidate(text) for text in texts]
    for standing in contract.grow(reranker, pool, [8, 20]):
        cells: Cells[Any] = Cells(segment, reranker.utility)
        cells.add(pool[: standing.size])
        reranker.utility.encode([(cells.arena, cells.new)])
        cells.made_room()
        estimates = reranker.method.estimate(cells, standing.size)
        assert len(estimates) == len(set(texts[: standing.size]))
        assert standing.score == pytest.approx(estimates.max(), abs=1e-5)
        assert standing.best == cells.first[int(estimates.argmax())]


def test_the_segment_s_id_decides_the_random_numbers_and_nothing_else_does(
    reranker: Accelerated[Any], make_pool: Callable[[int, int], list[str]]
) -> None:
    pool = [Candidate(text) for text in make_pool(3, 40)]
    source = contract.SEGMENTS[0].source

    def found(name: str) -> list[Standing]:
        return contract.grow(reranker, pool, [], Segment(name, source))

    assert found("x") == found("x")
    if reranker.signature.endswith("|sample,1/8,seed:0"):
        assert found("x") != found("y")
