"""COMET as an MBR utility, CometKiwi and xCOMET: what is computed once, in how much memory, and what is signed."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest
import torch
from tests.comet.folders import make_folder, rewrite
from tests.metrics.neural import watch
from torch import nn

from quitmt.errors import UsageError
from quitmt.metrics import comet as module
from quitmt.metrics import scorer
from quitmt.metrics.comet import Comet, CometUtility
from quitmt.metrics.devices import Hardware
from quitmt.metrics.kiwi import Kiwi
from quitmt.metrics.scorer import Example
from quitmt.metrics.xcomet import LABELS, Xcomet, span_points
from quitmt.rerank import specs
from quitmt.types import Candidate, Segment

CPU = Hardware(device="cpu")
SEGMENT = Segment("a", "The old cat slept near the house.")
OTHER = Segment("b", "A dog ate little today.")
TEXTS = [
    "o gato velho dormiu perto da casa", "o gato", "", "uma casa nova e um cão que espera à porta há muito tempo",
    "o gato velho dormiu longe da casa", "die alte Katze", "A dog ate little today.", "猫", "o cão", "casa", "um gato",
]  # fmt: skip


@pytest.fixture(scope="module", params=["regression", "regression-norm"])
def comet(request, tmp_path_factory):
    return Comet(str(make_folder(tmp_path_factory.mktemp("checkpoints"), request.param)), CPU)


@pytest.fixture(scope="module")
def expected(comet):
    """The scores of all ordered pairs of TEXTS."""
    return square(comet, SEGMENT, TEXTS)


@pytest.fixture(scope="module")
def kiwi(tmp_path_factory):
    return Kiwi(str(make_folder(tmp_path_factory.mktemp("checkpoints"), "unified")), CPU)


@pytest.fixture(scope="module")
def xcomet(tmp_path_factory):
    return Xcomet(str(make_folder(tmp_path_factory.mktemp("checkpoints"), "xcomet")), CPU)


@pytest.fixture
def tokenized(monkeypatch):
    """Which texts were given to the encoder of a metric."""

    def watch(metric):
        seen: list[str] = []
        inner = metric.encoder.tokenize
        monkeypatch.setattr(metric.encoder, "tokenize", lambda texts: seen.extend(texts) or inner(texts))
        return seen

    return watch


def square(comet, segment, texts):
    """The scores of all ordered pairs, each by itself: row as translation, column as reference."""
    examples = [Example(segment.source, row, column) for row in texts for column in texts]
    return comet.score(examples).reshape(len(texts), len(texts))


def encoded(utility, texts=TEXTS, segment=SEGMENT):
    arena = utility.open(segment)
    utility.encode([(arena, texts)])
    return arena


# The utility


PARTS = [
    (range(11), range(11)),
    (range(4, 7), range(11)),  # rows among the columns, columns after them too
    (range(4, 11), range(11)),
    (range(11), range(3, 5)),  # columns among the rows
    (range(4), range(6, 11)),  # apart
    (range(6, 11), range(4)),
    (range(2, 7), range(4, 10)),  # overlapping
    (range(4, 10), range(2, 7)),
    (range(5, 6), range(5, 6)),
    (range(3, 3), range(5)),
]


@pytest.mark.parametrize("rows_a_tile", [1, 3, 64])
def test_pairs_have_the_scorer_s_scores_in_every_part_of_the_square(comet, expected, rows_a_tile, monkeypatch):
    monkeypatch.setattr(module, "ROWS_PER_TILE", rows_a_tile)
    utility, rng = CometUtility(comet), random.Random(5)
    arena = encoded(utility)
    others = [tuple(range(*sorted(rng.choices(range(12), k=2))) for _ in range(2)) for _ in range(30)]
    for rows, columns in PARTS + others:
        forward, backward = utility.compare(arena, rows, columns)
        assert forward.shape == backward.shape == (len(rows), len(columns))
        np.testing.assert_allclose(forward, expected[np.ix_(rows, columns)], rtol=0, atol=1e-5)
        np.testing.assert_allclose(backward, expected.T[np.ix_(rows, columns)], rtol=0, atol=1e-5)
    assert abs(expected - expected.T).max() > 0.01  # it matters which is the reference


def test_each_text_is_encoded_once_and_each_source_once_a_segment(comet, tokenized):
    utility, seen = CometUtility(comet), tokenized(comet)
    arena, other = utility.open(SEGMENT), utility.open(OTHER)
    utility.encode([(arena, TEXTS[:6]), (other, TEXTS[3:8])])  # OTHER's source is among its texts
    assert sorted(seen) == sorted({*TEXTS[:8], SEGMENT.source, OTHER.source})
    seen.clear()
    utility.encode([(arena, TEXTS[6:]), (other, TEXTS[8:])])
    assert sorted(seen) == sorted(TEXTS[6:])
    seen.clear()
    utility.compare(arena, range(11), range(11))
    assert seen == []


@pytest.mark.parametrize(("rows_a_tile", "most"), [(1, 66), (4, 16 + 32 + 33)])
def test_each_unordered_pair_goes_through_the_head_once(comet, rows_a_tile, most, monkeypatch):
    """Within a tile of rows, pairs come both ways round: 11 texts in tiles of 4 are 4×4 + 4×8 + 3×11 pairs."""
    monkeypatch.setattr(module, "ROWS_PER_TILE", rows_a_tile)
    utility, sizes, inner = CometUtility(comet), [], comet.head.both

    def both(texts, parts, rows, columns):
        sizes.append(len(rows) * len(columns))
        return inner(texts, parts, rows, columns)

    arena = encoded(utility)
    monkeypatch.setattr(comet.head, "both", both)
    utility.compare(arena, range(11), range(11))
    assert sum(sizes) == most
    sizes.clear()
    utility.compare(arena, range(8, 11), range(11))  # new ones with themselves and all before
    assert sum(sizes) <= 3 * 11


def test_tiles_bound_the_memory_of_the_head(comet, expected, monkeypatch):
    monkeypatch.setattr(module, "PAIRS_PER_TILE", 16)
    utility, sizes, inner = CometUtility(comet), [], comet.head.both
    arena = encoded(utility)
    monkeypatch.setattr(comet.head, "both", lambda *args: sizes.append(len(args[2]) * len(args[3])) or inner(*args))
    numbers, size = np.arange(len(TEXTS)), len(TEXTS)
    forward, _ = utility.compare(arena, range(size), range(size))
    assert max(sizes) <= 16 < sum(sizes)
    pairs = utility.pairs(arena, np.repeat(numbers, size), np.tile(numbers, size)).reshape(size, size)
    block, against = utility.block(arena, numbers, range(size)), utility.against(arena, range(size), np.eye(size))
    for found in (forward, pairs, block, against, square(comet, SEGMENT, TEXTS)):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


# Memory


def test_too_large_batches_are_halved_and_nothing_is_lost(comet, monkeypatch):
    expected = comet.embed(TEXTS)
    monkeypatch.setattr(comet.encoder.batcher, "tokens", 4096)
    with watch.out_of_memory(watch.tokens_above(60)):
        torch.testing.assert_close(comet.embed(TEXTS), expected, rtol=0, atol=1e-5)
    assert comet.encoder.batcher.tokens < 120  # for good


def test_what_fails_to_encode_changes_no_arena(comet, monkeypatch):
    """Also when it fails late: the head's parts of the second segment."""
    utility, inner, calls = CometUtility(comet), comet.head.parts, []
    assert utility.traits.encodes_whole

    def parts(own, source):
        calls.append(len(own))
        if len(calls) == 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return inner(own, source)

    arena, other = encoded(utility, TEXTS[:2]), utility.open(OTHER)
    monkeypatch.setattr(comet.head, "parts", parts)
    with pytest.raises(torch.OutOfMemoryError):
        utility.encode([(arena, TEXTS[2:4]), (other, TEXTS)])
    assert len(arena.vectors) == len(arena.parts[0]) == 2
    assert other.source is None and other.vectors is None and other.parts is None


# CometKiwi and xCOMET


def test_heads_and_taggers_run_within_the_batch_that_is_halved(kiwi, xcomet, monkeypatch):
    examples = [Example(SEGMENT.source, row, column) for row in TEXTS[:6] for column in TEXTS[:2]]

    def tagger(part, given):
        return isinstance(part, nn.Linear) and part.out_features == len(LABELS) and len(given) > 2

    head = watch.rows_above(2, nn.Sequential)
    for metric, part in ((kiwi, head), (xcomet, head), (xcomet, tagger)):
        expected = metric.score(examples)
        monkeypatch.setattr(metric.encoder.batcher, "tokens", 4096)
        with watch.out_of_memory(part):
            np.testing.assert_allclose(metric.score(examples), expected, rtol=0, atol=1e-5)
        assert metric.encoder.batcher.tokens < 4096


def test_kiwi_scores_identical_pairs_once(kiwi):
    pairs = [Example("The cat.", "O gato."), Example("The cat.", "O cão."), Example("A cat.", "O gato.")]
    with watch.batches() as read:
        found = kiwi.score([*pairs, *pairs[::-1], Example("The cat.", "O gato.", "a reference makes no difference")])
    assert {rows for rows, _ in read} == {3} and len(set(found[:3])) == 3
    np.testing.assert_array_equal(found[3:], [found[2], found[1], found[0], found[0]])


def test_padding_changes_no_score_and_is_little(kiwi, make_pool, monkeypatch):
    examples = [Example(SEGMENT.source, text) for text in TEXTS + make_pool(1, 40)]
    monkeypatch.setattr(kiwi.encoder.batcher, "tokens", 1)
    alone = kiwi.score(examples)
    monkeypatch.setattr(kiwi.encoder.batcher, "tokens", 100_000)
    np.testing.assert_allclose(kiwi.score(examples), alone, rtol=0, atol=1e-5)
    assert alone.std() > 0.01
    monkeypatch.setattr(kiwi.encoder.batcher, "tokens", 256)
    kiwi.encoder.batcher.real_tokens = kiwi.encoder.batcher.padded_tokens = 0
    kiwi.score(examples)
    assert 0 < kiwi.encoder.batcher.padding < 0.1


def test_the_estimator_is_the_scorer(kiwi):
    pairs = [(SEGMENT, Candidate(text)) for text in TEXTS]
    expected = kiwi.score([Example(SEGMENT.source, text) for text in TEXTS])
    np.testing.assert_array_equal(scorer.ScorerEstimator(kiwi).score(pairs), expected)


def test_xcomet_reads_each_translation_with_its_source_once(xcomet, monkeypatch):
    counts, inner = [], xcomet.encoder.encode
    monkeypatch.setattr(
        xcomet.encoder, "encode", lambda sequences, *a, **b: counts.append(len(sequences)) or inner(sequences, *a, **b)
    )
    texts = TEXTS[3:7]
    xcomet.score([Example(SEGMENT.source, row, column) for row in texts for column in texts])
    assert counts == [4 + 16 + 16]


def test_xcomet_forgets_between_blocks(xcomet, monkeypatch):
    examples = [Example(SEGMENT.source, row, column) for row in TEXTS[:5] for column in TEXTS[:3]]
    whole = xcomet.score(examples)
    monkeypatch.setattr("quitmt.metrics.xcomet.EXAMPLES_AT_ONCE", 5)
    np.testing.assert_allclose(xcomet.score(examples), whole, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("labels", "points"),
    [
        ([0, 0, 0], 0), ([1, 0], 1), ([0, 2, 0], 5), ([0, 3, 0], 10), ([0, 1, 3, 2, 0], 1), ([3, 1, 0, 1, 0], 11),
        ([0, 0, 3], 0), ([3, 3, 3], 0), ([2, 0, 3], 5), ([1, 0, 1, 0, 1, 0], 3), ([], 0),
    ],
)  # fmt: skip
def test_spans_cost_what_their_first_token_says_if_they_end(labels, points):
    assert span_points(np.array(labels, np.int64)) == points


# Signatures


@pytest.mark.parametrize(
    ("make", "name", "file", "changes"),
    [
        (
            Comet, "regression", "encoder/tokenizer.json",
            [
                {"pool": "cls"}, {"layer": 2}, {"layer_norm": True}, {"layer_transformation": "softmax"},
                {"activations": "Sigmoid"}, {"final_activation": "Sigmoid"},
            ],
        ),
        (
            Kiwi, "unified", "encoder/config.json",
            [{"sent_layer": 1}, {"input_segments": ["mt", "src", "ref"]}],
        ),
        (Xcomet, "xcomet", "encoder-xl/config.json", [{"word_layer": 1}]),
    ],
)  # fmt: skip
def test_checkpoints_that_score_differently_have_different_signatures(make, name, file, changes, tmp_path):
    folder = make_folder(tmp_path, name)

    def signature():
        return make(str(folder), CPU).signature

    seen = [signature()]
    rewrite(folder, nr_frozen_epochs=0.9)  # a setting of training makes no difference
    assert signature() == seen[0]
    for settings in changes:
        rewrite(folder, **settings)
        seen.append(signature())
    (folder / file).write_text((folder / file).read_text() + "\n")
    seen.append(signature())
    path = folder / "checkpoints" / "model.ckpt"
    saved = torch.load(path, weights_only=True)
    saved["state_dict"]["estimator.ff.0.bias"][0] += 1e-3
    torch.save(saved, path)
    seen.append(signature())
    assert len(set(seen)) == len(changes) + 3


def test_the_signature_names_model_weights_and_precision(comet):
    assert re.fullmatch(r"comet\|/.+/regression(-norm)?\|w:[0-9a-f]{8}\|float32", comet.signature)


# Names and references


def test_a_reference_is_needed(comet, xcomet):
    with pytest.raises(UsageError, match="COMET needs a reference"):
        comet.score([Example("a", "b", "c"), Example("a", "b")])
    with pytest.raises(UsageError, match=r"xCOMET needs a reference \(xcomet-qe needs none\)"):
        xcomet.score([Example("a", "b")])


def test_a_scorer_by_its_name(tmp_path):
    folder = make_folder(tmp_path, "regression")
    assert isinstance(scorer.load(f"comet:{folder}", CPU), Comet)
    assert isinstance(specs.parse(f"mbr:comet:{folder}").utility(CPU), CometUtility)
