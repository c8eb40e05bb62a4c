"""The cosine of sentence embeddings: as a utility, in every kind of MBR, and as a metric with references."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.metrics.neural.tiny_sentence import LONGEST, make_sentence_model

from quitmt import rerank
from quitmt.errors import MissingExtra, ModelError, UsageError
from quitmt.evaluate import metrics
from quitmt.evaluate.metrics import TestSet
from quitmt.metrics import embedding as module
from quitmt.metrics import scorer
from quitmt.metrics.devices import Hardware
from quitmt.metrics.embedding import Embedding, EmbeddingUtility
from quitmt.metrics.scorer import Example
from quitmt.protocols import Update
from quitmt.rerank import specs
from quitmt.types import Candidate, Segment

CPU = Hardware(device="cpu")
SEGMENT, OTHER = Segment("a", "The old cat slept."), Segment("b", "A dog ate.")
TEXTS = [
    "o gato velho dormiu perto da casa", "o gato", "", "uma casa nova e um cão que espera à porta há muito tempo",
    "o gato velho dormiu longe da casa", "die alte Katze", "O Gato", "猫", "o cão", "casa", "um gato",
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_sentence_model(tmp_path_factory.mktemp("models") / "tiny", parts=("Normalize",))


@pytest.fixture(scope="module")
def embedding(folder):
    return Embedding(str(folder), CPU)


@pytest.fixture
def utility(embedding):
    return EmbeddingUtility(embedding)


@pytest.fixture
def sequences(embedding, monkeypatch):
    """How many sequences each call gave to the encoder."""
    counts, inner = [], embedding.embed
    monkeypatch.setattr(embedding, "embed", lambda texts, *a: counts.append(len(texts)) or inner(texts, *a))
    return counts


@pytest.fixture(scope="module")
def wanted(folder):
    """The library's own vectors."""
    from sentence_transformers import SentenceTransformer

    library = SentenceTransformer(str(folder), device="cpu")
    return lambda texts: library.encode(list(texts), normalize_embeddings=True).astype(np.float64)


def cosines(wanted, texts):
    vectors = wanted(texts)
    return vectors @ vectors.T


def encoded(utility, texts=TEXTS, segment=SEGMENT):
    arena = utility.open(segment)
    utility.encode([(arena, texts)])
    return arena


# The utility


def test_all_pairs_have_their_cosines(wanted, utility):
    forward, backward = utility.compare(encoded(utility), range(len(TEXTS)), range(len(TEXTS)))
    np.testing.assert_allclose(forward, cosines(wanted, TEXTS), rtol=0, atol=1e-6)
    np.testing.assert_array_equal(forward, forward.T)
    np.testing.assert_array_equal(backward, forward)
    np.testing.assert_allclose(np.diag(forward), 1.0, rtol=0, atol=1e-6)


def test_any_part_of_the_square_is_bitwise_the_same(utility, make_pool):
    texts, rng = list(dict.fromkeys([*make_pool(3, 90), *TEXTS])), random.Random(5)
    arena = encoded(utility, texts)
    whole, _ = utility.compare(arena, range(len(texts)), range(len(texts)))
    for _ in range(40):
        rows, columns = (range(*sorted(rng.choices(range(len(texts) + 1), k=2))) for _ in range(2))
        part = whole[np.ix_(rows, columns)]
        forward, backward = utility.compare(arena, rows, columns)
        np.testing.assert_array_equal(forward, part)
        np.testing.assert_array_equal(backward, part)
        numbers = np.array(rng.choices(range(len(texts)), k=7))
        np.testing.assert_array_equal(
            utility.block(arena, numbers, columns), whole[numbers, columns.start : columns.stop]
        )


def test_pairs_are_bitwise_the_same_however_many_at_once(utility, monkeypatch):
    arena, rng = encoded(utility), np.random.default_rng(1)
    whole, _ = utility.compare(arena, range(len(TEXTS)), range(len(TEXTS)))
    rows, columns = rng.integers(0, len(TEXTS), (2, 50))
    for size in (1, 7, 4096):
        monkeypatch.setattr(module, "PAIRS_AT_ONCE", size)
        np.testing.assert_array_equal(utility.pairs(arena, rows, columns), whole[rows, columns])
    assert utility.pairs(arena, rows[:0], columns[:0]).shape == (0,)


def test_the_product_with_a_mean_is_the_mean_of_the_cosines(utility):
    arena, rng = encoded(utility), np.random.default_rng(2)
    whole, _ = utility.compare(arena, range(len(TEXTS)), range(len(TEXTS)))
    weights = rng.dirichlet(np.ones(8), 3)
    found = utility.against(arena, range(8), weights)
    np.testing.assert_allclose(found, whole[:8, :8] @ weights.T, rtol=0, atol=1e-7)
    np.testing.assert_array_equal(found[1], found[6])  # o gato, O Gato


def test_vectors_are_those_of_the_library(wanted, utility):
    np.testing.assert_allclose(utility.vectors(encoded(utility)), wanted(TEXTS), rtol=0, atol=1e-6)


def test_texts_of_the_same_tokens_are_encoded_once_a_segment_and_call(utility, sequences):
    arena, other = utility.open(SEGMENT), utility.open(OTHER)
    utility.encode([(arena, ["o gato", "casa", "O GATO"]), (other, ["CASA", "um cão"])])
    utility.encode([(arena, ["o  Gato", "rua"])])
    utility.encode([(arena, ["Casa"])])
    assert sequences == [3, 1, 0]
    vectors = utility.vectors(arena)
    np.testing.assert_array_equal(vectors[[0, 1]], vectors[[3, 5]])


def test_encoding_that_fails_leaves_everything_as_it_was(embedding, utility, monkeypatch):
    arena, other = encoded(utility, TEXTS[:2]), utility.open(OTHER)

    def fail(*_):
        raise ModelError("no memory")

    with monkeypatch.context() as patch:
        patch.setattr(embedding, "embed", fail)
        with pytest.raises(ModelError):
            utility.encode([(other, TEXTS[:1]), (arena, TEXTS[2:])])
    assert EmbeddingUtility.traits.encodes_whole and len(arena.vectors) == 2 and not other.known
    utility.encode([(arena, TEXTS[2:])])
    np.testing.assert_allclose(utility.vectors(arena), utility.vectors(encoded(utility)), rtol=0, atol=1e-6)


# In MBR


def snapshots(reranker, texts, cuts=()):
    state, found = reranker.open(SEGMENT), []
    for start, stop in zip([0, *cuts], [*cuts, len(texts)], strict=True):
        [result] = reranker.extend([Update(state, [Candidate(text) for text in texts[start:stop]], 8)])
        assert isinstance(result, list), result
        found += result
    return found


@pytest.mark.parametrize("variant", ["exact", "aggregate:top=0", "aggregate", "centroid:centroids=9", "prune"])
def test_texts_that_the_model_cannot_tell_apart_are_ties(folder, variant):
    """Whichever batch each was encoded in, the first wins."""
    reranker = rerank.load(f"mbr:embedding:{folder}", hardware=CPU, variant=variant)
    pool = ["um cão", "Casa velha", "um gato de rua", "rua", "casa velha", "casa nova", "CASA VELHA", "CASA velha"]
    assert {one.best for one in snapshots(reranker, pool, [3, 5, 6])[-1:]} == {1}


@pytest.mark.parametrize("variant", ["aggregate:top=0", "centroid:centroids=5,weighted=yes"])
def test_means_of_vectors_are_exact(folder, make_pool, variant):
    pool = make_pool(4, 64)
    exact, found = (
        snapshots(rerank.load(f"mbr:embedding:{folder}", hardware=CPU, variant=kind), pool)
        for kind in ("exact", variant)
    )
    assert [(one.size, one.best) for one in found] == [(one.size, one.best) for one in exact]
    assert [one.score for one in found] == pytest.approx([one.score for one in exact], abs=1e-6)


@pytest.mark.parametrize("variant", ["prune", "lowrank", "centroid:centroids=5", "aggregate"])
def test_every_kind_of_mbr(folder, make_pool, variant):
    reranker, pool = rerank.load(f"mbr:embedding:{folder}", hardware=CPU, variant=variant), make_pool(6, 64)
    exact = snapshots(rerank.load(f"mbr:embedding:{folder}", hardware=CPU), pool)[-1]
    found = snapshots(reranker, pool)[-1]
    assert found.size == 64 and found.score == pytest.approx(exact.score, abs=0.1)


# As a metric


def test_scores_are_cosines_and_texts_are_encoded_once(embedding, wanted, sequences):
    examples = [Example("", row, column) for row in TEXTS[:5] for column in TEXTS]
    told: list[int] = []
    found = embedding.score(examples, told.append)
    np.testing.assert_allclose(found.reshape(5, -1), cosines(wanted, TEXTS)[:5], rtol=0, atol=1e-6)
    assert sequences[0] == len(TEXTS) - 1 and sum(told) == len(examples)  # o gato, O Gato
    assert embedding.score([]).shape == (0,)
    with pytest.raises(UsageError, match="embedding needs a reference"):
        embedding.score([Example("a", "b")])


def test_a_metric_of_systems_needs_no_source(folder):
    metric = metrics.load(f"embedding:{folder}", metrics.Setup(CPU))
    assert (metric.needs_source, metric.needs_reference, metric.lower_is_better) == (False, True, False)
    [same, other] = metric.evaluate(TestSet(None, (("o gato", "casa"),)), [["o gato", "casa"], ["um cão", "Casa"]])
    assert same.system == pytest.approx(1.0, abs=1e-6) and other.system < 0.99
    assert other.segments[1] == pytest.approx(1.0, abs=1e-6)


def test_scoring_from_the_command_line(quitmt, folder, tmp_path):
    (tmp_path / "system").write_text("o gato\ncasa\n")
    (tmp_path / "reference").write_text("o cão\ncasa\n")
    ran = quitmt(
        "score", "-t", tmp_path / "system", "-r", tmp_path / "reference", "-m", f"embedding:{folder}", "--device", "cpu"
    )
    assert ran.code == 0 and "Embedding:tiny" in ran.out


def test_reranking_from_the_command_line(quitmt, folder, tmp_path):
    """Pools without sources will do, and the options of scoring models apply."""
    pools = tmp_path / "pools.jsonl"
    pools.write_text('{"id": "1", "candidates": ["rua", "casa velha", "casa velha", "casa nova"]}\n')
    ran = quitmt("rerank", pools, "--rerank", f"mbr:embedding:{folder}", "--stop", "full", "--batch-tokens", 64, "-q")
    assert (ran.code, ran.out) == (0, "casa velha\n")


# Its name


def test_by_its_name(folder):
    assert isinstance(scorer.load(f"embedding:{folder}", CPU), Embedding)
    spec = specs.parse(f"mbr:embedding:{folder}")
    assert isinstance(spec.utility(CPU), EmbeddingUtility)
    assert spec.neural and not spec.needs_source
    assert specs.parse("mbr:comet").needs_source and specs.parse("qe:0.5*kiwi+recorded:x").needs_source
    with pytest.raises(UsageError, match=r"Embedding needs a reference \(reranker='mbr:embedding' has"):
        rerank.load("qe:embedding")


def test_the_signature_names_model_weights_length_and_precision(folder, tmp_path):
    first = Embedding(str(folder), CPU).signature
    assert first == f"embedding|{folder}|w:{first.split('w:')[1][:8]}|tokens:{LONGEST}|float32"
    assert Embedding(str(folder), Hardware(device="cpu", dtype="bfloat16")).signature.endswith("|bfloat16")
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    assert Embedding(str(copy), CPU).signature == first.replace(str(folder), str(copy))


def test_the_missing_extra(folder, monkeypatch):
    monkeypatch.setattr("quitmt.names.importlib.util.find_spec", lambda *_: None)
    with pytest.raises(MissingExtra, match=r"needs sentence_transformers \(pip install 'quitmt\[embedding\]'\)"):
        rerank.load(f"mbr:embedding:{folder}")
