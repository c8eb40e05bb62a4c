"""The contract of rerankers for accelerated MBR: the winner after n candidates is that of the method on those n."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from quitmt import rerank
from quitmt.metrics.devices import Hardware
from quitmt.rerank.accelerated import Accelerated
from quitmt.rerank.cells import Cells
from quitmt.rerank.lowrank import LowRank
from quitmt.types import Candidate, Segment, Snapshot
from tests.comet.folders import make_folder
from tests.contract.rerankers import SEGMENTS, AnchoredContract, CloseContract, Make, grow
from tests.metrics.neural.tiny_sentence import make_sentence_model

CHRF = ["prune", "lowrank", "aggregate", "aggregate:top=0"]
COMET = ["prune", "lowrank", "centroid:centroids=6", "centroid:centroids=6,weighted=yes", "aggregate:top=4"]
EMBEDDING = ["centroid:centroids=6", "aggregate:top=4"]


class AcceleratedContract(AnchoredContract):
    """What accelerated MBR guarantees besides."""

    def test_the_winner_after_n_is_that_of_the_method_on_those_n(
        self, reranker: Accelerated[Any], make_pool: Callable[[int, int], list[str]]
    ) -> None:
        """With a pool of its own for each n, by the method itself."""
        texts = make_pool(7, 40)
        pool = [Candidate(text) for text in texts]
        for snapshot in grow(reranker, pool, [8, 20]):
            cells: Cells[Any] = Cells(SEGMENTS[0], reranker.utility, others=reranker.support == "others")
            cells.extend(pool[: snapshot.size])
            reranker.utility.encode([(cells.arena, cells.new)])
            cells.make_room()
            estimates = reranker.method.estimate(cells, snapshot.size)
            assert len(estimates) == len(set(texts[: snapshot.size]))
            expected = Snapshot(snapshot.size, cells.first[int(estimates.argmax())], float(estimates.max()))
            self.assert_same([snapshot], [expected])

    def test_the_segment_s_content_decides_the_random_numbers_and_nothing_else_does(
        self, reranker: Accelerated[Any], make_pool: Callable[[int, int], list[str]]
    ) -> None:
        pool = [Candidate(text) for text in make_pool(3, 40)]

        def found(name: str, context: str = "") -> list[Snapshot]:
            return grow(reranker, pool, segment=Segment(name, SEGMENTS[0].source, context))

        assert found("x") == found("x") == found("y")
        if isinstance(reranker.method, LowRank):
            assert found("x") != found("x", "It rained.")


class TestChrf(AcceleratedContract):
    @pytest.fixture(scope="class", params=CHRF)
    @classmethod
    def make(cls, request: pytest.FixtureRequest) -> Make:
        return lambda: rerank.load("mbr:chrf", variant=request.param)


class TestChrfOfOthers(AcceleratedContract):
    @pytest.fixture(scope="class", params=CHRF)
    @classmethod
    def make(cls, request: pytest.FixtureRequest) -> Make:
        return lambda: apart(rerank.load("mbr:chrf", variant=request.param))


def apart(reranker: Any) -> Accelerated[Any]:
    """The same, where a sample is not its own judge."""
    return Accelerated(reranker.utility, reranker.method, "others")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("models")
    return {
        "comet": f"mbr:comet:{make_folder(folder, 'regression')}",
        "embedding": f"mbr:embedding:{make_sentence_model(folder / 'sentence')}",
    }


class TestNeural(CloseContract, AcceleratedContract):
    tells_good = False  # seeded models

    @pytest.fixture(scope="class", params=[*product(["comet"], COMET), *product(["embedding"], EMBEDDING)])
    @classmethod
    def make(cls, request: pytest.FixtureRequest, models: dict[str, str]) -> Make:
        name, kind = request.param
        return lambda: rerank.load(models[name], hardware=Hardware(device="cpu"), variant=kind)


class TestNeuralOfOthers(CloseContract, AcceleratedContract):
    @pytest.fixture(
        scope="class", params=[("comet", "prune"), ("comet", "centroid:centroids=6"), ("embedding", "aggregate:top=4")]
    )
    @classmethod
    def make(cls, request: pytest.FixtureRequest, models: dict[str, str]) -> Make:
        name, kind = request.param
        return lambda: apart(rerank.load(models[name], hardware=Hardware(device="cpu"), variant=kind))
