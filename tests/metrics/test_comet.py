"""COMET as an MBR utility and CometKiwi as an estimator: what is computed once, and what goes wrong."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
import torch
import yaml
from tests.comet.folders import make_folder

from quitmt.errors import ModelError, UsageError
from quitmt.metrics import comet as module
from quitmt.metrics import scorer
from quitmt.metrics.comet import Comet, CometUtility
from quitmt.metrics.devices import Hardware
from quitmt.metrics.kiwi import Kiwi
from quitmt.metrics.scorer import Example
from quitmt.metrics.xcomet import Xcomet, XcometQe, span_points
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
def kiwi(tmp_path_factory):
    return Kiwi(str(make_folder(tmp_path_factory.mktemp("checkpoints"), "unified")), CPU)


@pytest.fixture(scope="module")
def xcomet_folder(tmp_path_factory):
    return str(make_folder(tmp_path_factory.mktemp("checkpoints"), "xcomet"))


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


def test_all_ordered_pairs_have_the_scorer_s_scores(comet):
    utility, expected = CometUtility(comet), square(comet, SEGMENT, TEXTS)
    forward, backward = utility.compare(encoded(utility), range(len(TEXTS)), range(len(TEXTS)))
    np.testing.assert_allclose(forward, expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(backward, expected.T, rtol=0, atol=1e-5)
    assert abs(expected - expected.T).max() > 0.01  # it matters which is the reference


@pytest.mark.parametrize("rows_a_tile", [1, 3, 64])
@pytest.mark.parametrize(
    ("rows", "columns"),
    [
        (range(4, 7), range(11)),  # rows among the columns, columns after them too
        (range(4, 11), range(11)),
        (range(11), range(3, 5)),  # columns among the rows
        (range(4), range(6, 11)),  # apart
        (range(6, 11), range(4)),
        (range(2, 7), range(4, 10)),  # overlapping
        (range(4, 10), range(2, 7)),
        (range(5, 6), range(5, 6)),
        (range(3, 3), range(5)),
    ],
)
def test_any_part_of_the_square_can_be_compared(comet, rows, columns, rows_a_tile, monkeypatch):
    monkeypatch.setattr(module, "ROWS_A_TILE", rows_a_tile)
    utility, expected = CometUtility(comet), square(comet, SEGMENT, TEXTS)
    forward, backward = utility.compare(encoded(utility), rows, columns)
    assert forward.shape == backward.shape == (len(rows), len(columns))
    np.testing.assert_allclose(forward, expected[np.ix_(rows, columns)], rtol=0, atol=1e-5)
    np.testing.assert_allclose(backward, expected.T[np.ix_(rows, columns)], rtol=0, atol=1e-5)


def test_random_parts_of_a_larger_square(comet, make_pool):
    texts = list(dict.fromkeys(make_pool(3, 60)))
    utility, expected, rng = CometUtility(comet), square(comet, SEGMENT, texts), random.Random(5)
    arena = encoded(utility, texts)
    for _ in range(30):
        rows, columns = (range(*sorted(rng.choices(range(len(texts) + 1), k=2))) for _ in range(2))
        forward, backward = utility.compare(arena, rows, columns)
        np.testing.assert_allclose(forward, expected[np.ix_(rows, columns)], rtol=0, atol=1e-5)
        np.testing.assert_allclose(backward, expected.T[np.ix_(rows, columns)], rtol=0, atol=1e-5)


def test_texts_may_come_in_steps_and_with_other_segments(comet):
    utility = CometUtility(comet)
    arena, other = utility.open(SEGMENT), utility.open(OTHER)
    utility.encode([(arena, TEXTS[:3]), (other, TEXTS[2:6])])
    utility.encode([(other, TEXTS[6:])])
    utility.encode([(arena, TEXTS[3:4]), (other, [])])
    utility.encode([(arena, TEXTS[4:])])
    for one, segment, texts in ((arena, SEGMENT, TEXTS), (other, OTHER, TEXTS[2:])):
        forward, _ = utility.compare(one, range(len(texts)), range(len(texts)))
        np.testing.assert_allclose(forward, square(comet, segment, texts), rtol=0, atol=1e-5)


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
    monkeypatch.setattr(module, "ROWS_A_TILE", rows_a_tile)
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


def test_tiles_bound_the_memory_of_the_head(comet, make_pool, monkeypatch):
    monkeypatch.setattr(module, "PAIRS_A_TILE", 128)
    utility, sizes, inner = CometUtility(comet), [], comet.head.both
    texts = list(dict.fromkeys(make_pool(4, 150)))
    arena = encoded(utility, texts)
    monkeypatch.setattr(comet.head, "both", lambda *args: sizes.append(len(args[2]) * len(args[3])) or inner(*args))
    forward, _ = utility.compare(arena, range(len(texts)), range(len(texts)))
    assert max(sizes) <= 128
    np.testing.assert_allclose(forward, square(comet, SEGMENT, texts), rtol=0, atol=1e-5)


# Memory


def limit(monkeypatch, encoder, most):
    """Let batches of more than ``most`` tokens fail, as on a small GPU."""
    inner, sizes = encoder._vectors, []

    def vectors(batch, layer):
        size = len(batch) * max(map(len, batch))
        if size > most:
            raise torch.OutOfMemoryError("CUDA out of memory")
        sizes.append(size)
        return inner(batch, layer)

    monkeypatch.setattr(encoder, "_vectors", vectors)
    return sizes


def test_too_large_batches_are_halved_and_nothing_is_lost(comet, monkeypatch):
    expected = comet.embed(TEXTS)
    monkeypatch.setattr(comet.encoder.batcher, "tokens", 4096)
    sizes = limit(monkeypatch, comet.encoder, 60)
    torch.testing.assert_close(comet.embed(TEXTS), expected, rtol=0, atol=1e-5)
    assert len(sizes) > 2 and comet.encoder.batcher.tokens < 120
    comet.embed(TEXTS[:2])
    assert comet.encoder.batcher.tokens < 120  # for good


def test_one_text_that_does_not_fit_is_an_error(comet, monkeypatch):
    monkeypatch.setattr(comet.encoder.batcher, "tokens", 4096)
    limit(monkeypatch, comet.encoder, 20)
    with pytest.raises(ModelError, match=r"no memory for one text of \d\d+ tokens \(take a smaller model"):
        comet.embed(TEXTS)


def test_other_failures_are_not_taken_for_a_lack_of_memory(comet, monkeypatch):
    def fail(batch, layer):
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr(comet.encoder, "_vectors", fail)
    with pytest.raises(RuntimeError, match="shapes"):
        comet.embed(TEXTS)


@pytest.fixture
def small(comet, monkeypatch):
    """Let the head fail with more than some pairs at once, and keep what it took."""

    def limit_to(most):
        taken = []

        def limited(name, size):
            inner = getattr(comet.head, name)

            def call(*args):
                if size(*args) > most:
                    raise torch.OutOfMemoryError("CUDA out of memory")
                taken.append(size(*args))
                return inner(*args)

            monkeypatch.setattr(comet.head, name, call)

        limited("both", lambda texts, parts, rows, columns: len(rows) * len(columns))
        limited("grid", lambda texts, theirs, references, others: len(texts) * len(references))
        limited("rows", lambda texts, *rest: len(texts))
        limited("direct", lambda texts, *rest: len(texts))
        return taken

    return limit_to


@pytest.mark.parametrize("most", [1, 3, 40])
def test_too_large_tiles_are_halved_and_nothing_is_lost(comet, most, small, monkeypatch):
    monkeypatch.setattr(comet, "tiles", module.Tiles())
    expected = square(comet, SEGMENT, TEXTS)
    numbers, size = np.arange(len(TEXTS)), len(TEXTS)
    arena = encoded(CometUtility(comet))
    down, across = np.repeat(numbers, size), np.tile(numbers, size)
    taken = small(most)
    for compute in (
        lambda utility: utility.compare(arena, range(size), range(size))[0],
        lambda utility: utility.compare(arena, range(size), range(size))[1].T,
        lambda utility: utility.block(arena, numbers, range(size)),
        lambda utility: utility.pairs(arena, down, across).reshape(size, size),
        lambda utility: utility.against(arena, range(size), np.eye(size)),
        lambda utility: square(comet, SEGMENT, TEXTS),
    ):
        utility = CometUtility(comet)
        np.testing.assert_allclose(compute(utility), expected, rtol=0, atol=1e-5)
        assert max(taken) <= most
        taken.clear()
    utility.compare(arena, range(size), range(size))
    left = utility.tiles.pairs
    assert most / 2 <= left <= most
    utility.compare(arena, range(size), range(size))
    assert utility.tiles.pairs == left  # for good, and no less than needed


def test_one_pair_that_does_not_fit_is_an_error(comet, small):
    utility = CometUtility(comet)
    arena = encoded(utility)
    small(0)
    with pytest.raises(ModelError, match=r"no memory to compare one pair of texts \(take a smaller model"):
        utility.compare(arena, range(11), range(11))


def test_other_failures_of_the_head_are_not_taken_for_a_lack_of_memory(comet, monkeypatch):
    utility = CometUtility(comet)
    arena = encoded(utility)
    monkeypatch.setattr(comet.head, "both", lambda *args: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        utility.compare(arena, range(11), range(11))
    assert utility.tiles.pairs == module.PAIRS_A_TILE


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


def test_heads_and_taggers_run_within_the_batch_that_is_halved(kiwi, xcomet_folder, monkeypatch):
    xcomet = Xcomet(xcomet_folder, CPU)
    examples = [Example(SEGMENT.source, row, column) for row in TEXTS for column in TEXTS[:3]]
    for metric, name in ((kiwi, "_head"), (xcomet, "_head"), (xcomet, "_tagger")):
        expected, inner = metric.score(examples), getattr(metric, name)

        def limited(values, inner=inner):
            if len(values) > 2:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return inner(values)

        with monkeypatch.context() as patch:
            patch.setattr(metric.encoder.batcher, "tokens", 4096)
            patch.setattr(metric, name, limited)
            np.testing.assert_allclose(metric.score(examples), expected, rtol=0, atol=1e-5)


def test_kiwi_scores_identical_pairs_once(kiwi, monkeypatch):
    counts, inner = [], kiwi.encoder.encode
    monkeypatch.setattr(
        kiwi.encoder, "encode", lambda sequences, *a, **b: counts.append(len(sequences)) or inner(sequences, *a, **b)
    )
    pairs = [Example("The cat.", "O gato."), Example("The cat.", "O cão."), Example("A cat.", "O gato.")]
    found = kiwi.score([*pairs, *pairs[::-1], Example("The cat.", "O gato.", "a reference makes no difference")])
    assert counts == [3] and len(set(found[:3])) == 3
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


def test_xcomet_reads_each_translation_with_its_source_once(xcomet_folder, monkeypatch):
    metric = Xcomet(xcomet_folder, CPU)
    counts, inner = [], metric.encoder.encode
    monkeypatch.setattr(
        metric.encoder, "encode", lambda sequences, *a, **b: counts.append(len(sequences)) or inner(sequences, *a, **b)
    )
    texts = TEXTS[3:7]
    metric.score([Example(SEGMENT.source, row, column) for row in texts for column in texts])
    assert counts == [4 + 16 + 16]


def test_xcomet_forgets_between_blocks(xcomet_folder, monkeypatch):
    metric = Xcomet(xcomet_folder, CPU)
    examples = [Example(SEGMENT.source, row, column) for row in TEXTS for column in TEXTS[:3]]
    whole = metric.score(examples)
    monkeypatch.setattr("quitmt.metrics.xcomet.EXAMPLES_AT_ONCE", 5)
    np.testing.assert_allclose(metric.score(examples), whole, rtol=0, atol=1e-5)


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
    ("make", "name", "settings"),
    [
        (Comet, "regression", {"pool": "cls"}),
        (Comet, "regression", {"layer": 2}),
        (Comet, "regression", {"layer_norm": True}),
        (Comet, "regression", {"layer_transformation": "softmax"}),
        (Comet, "regression", {"activations": "Sigmoid"}),
        (Comet, "regression", {"final_activation": "Sigmoid"}),
        (Kiwi, "unified", {"sent_layer": 1}),
        (Kiwi, "unified", {"input_segments": ["mt", "src", "ref"]}),
        (Xcomet, "xcomet", {"word_layer": 1}),
    ],
)
def test_checkpoints_that_differ_in_a_setting_differ_in_signature(make, name, settings, tmp_path):
    folder = make_folder(tmp_path, name)
    before = make(str(folder), CPU).signature
    rewrite(folder, nr_frozen_epochs=0.9)  # that of training makes no difference
    assert make(str(folder), CPU).signature == before
    rewrite(folder, **settings)
    assert make(str(folder), CPU).signature != before


@pytest.mark.parametrize(
    ("make", "name", "encoder", "file"),
    [
        (Comet, "regression", "encoder", "tokenizer.json"),
        (Kiwi, "unified", "encoder", "config.json"),
        (Xcomet, "xcomet", "encoder-xl", "config.json"),
    ],
)
def test_checkpoints_that_differ_in_the_encoder_s_files_differ_in_signature(make, name, encoder, file, tmp_path):
    folder = make_folder(tmp_path, name)
    before, path = make(str(folder), CPU).signature, folder / encoder / file
    path.write_text(path.read_text() + "\n")
    assert make(str(folder), CPU).signature != before


# Settings and damage


@pytest.fixture
def folder(tmp_path):
    return make_folder(tmp_path, "regression")


def rewrite(folder, **settings):
    """Change settings of a checkpoint, in both places that have them."""
    path, file = folder / "checkpoints" / "model.ckpt", folder / "hparams.yaml"
    saved = torch.load(path, weights_only=True)
    saved["hyper_parameters"].update(settings)
    torch.save(saved, path)
    file.write_text(yaml.safe_dump({**yaml.safe_load(file.read_text()), **settings}))


def problem(make, *args):
    with pytest.raises(ModelError) as caught:
        make(*args, CPU)
    message = str(caught.value)
    assert "\n" not in message and len(message) < 400
    return message


def test_a_reference_is_needed(comet, xcomet_folder):
    with pytest.raises(UsageError, match="COMET needs a reference"):
        comet.score([Example("a", "b", "c"), Example("a", "b")])
    with pytest.raises(UsageError, match=r"xCOMET needs a reference \(xcomet-qe does without\)"):
        Xcomet(xcomet_folder, CPU).score([Example("a", "b")])


def test_a_folder_without_settings(folder):
    (folder / "hparams.yaml").unlink()
    assert problem(Comet, str(folder)).startswith(f"the folder {folder} has no hparams.yaml (COMET takes a folder")


def test_a_folder_without_weights(folder):
    (folder / "checkpoints" / "model.ckpt").unlink()
    assert f"the folder {folder} has no checkpoints/model.ckpt" in problem(Comet, str(folder))


def test_a_folder_without_anything_below(folder, tmp_path):
    (tmp_path / "empty").mkdir()
    assert "empty has no hparams.yaml" in problem(Comet, str(tmp_path / "empty"))
    assert "nowhere is not there" in problem(Comet, str(tmp_path / "nowhere"))


@pytest.mark.parametrize("size", [0, 1000, 100_000, 300_000])
def test_weights_that_were_cut_off(folder, size):
    path = folder / "checkpoints" / "model.ckpt"
    path.write_bytes(path.read_bytes()[:size])
    message = problem(Comet, str(folder))
    assert message.startswith("checkpoints/model.ckpt of") and "may be cut off" in message


def test_weights_that_are_something_else(folder):
    path = folder / "checkpoints" / "model.ckpt"
    path.write_text("<html>not found</html>")
    assert "model.ckpt of" in problem(Comet, str(folder))
    torch.save([1, 2, 3], path)
    assert "holds no weights" in problem(Comet, str(folder))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"a: [1, 2", "cannot be read"),
        (b"\xff\xfe\x00\x01", "cannot be read"),
        (b"a: 2021-13-45", "cannot be read"),
        (b"a: " + b"[" * 5000, "cannot be read"),
        (b"text", "holds no settings"),
        (b"class_identifier: [a]", "holds no settings"),
    ],
)
def test_settings_that_are_no_yaml(folder, content, said):
    (folder / "hparams.yaml").write_bytes(content)
    message = problem(Comet, str(folder))
    assert message.startswith(f"hparams.yaml of {folder}") and said in message


@pytest.mark.parametrize(("make", "title"), [(Kiwi, "CometKiwi"), (Xcomet, "xCOMET"), (XcometQe, "xCOMET")])
def test_a_checkpoint_of_another_class_says_where_it_goes(folder, make, title):
    message = problem(make, str(folder))
    assert f"is a checkpoint of class regression_metric, and {title} needs" in message
    assert message.endswith(f"(it goes with comet:{folder})")


def test_a_checkpoint_of_a_class_that_we_do_not_have(folder):
    (folder / "hparams.yaml").write_text("class_identifier: ranking_metric\n")
    assert "class ranking_metric" in problem(Comet, str(folder))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"encoder_model": "RemBERT"}, r"has the encoder RemBERT (quitmt has XLM-RoBERTa, XLM-RoBERTa-XL)"),
        ({"pool": "max"}, r"pools by 'max' (quitmt has avg, cls)"),
        ({"layer": 4}, "takes layer 4, and its encoder has 0 to 3"),
        ({"activations": "Mystery"}, "unknown activation 'Mystery'"),
        ({"activations": "Linear"}, "unknown activation 'Linear'"),
        ({"hidden_sizes": [96, 33]}, "do not fit the network"),
        ({"hidden_sizes": [96, 32, 16]}, "fit the network"),
        ({"encoder_model": "XLM-RoBERTa-XL"}, "lacks weights of its network, such as "),
    ],
)
def test_settings_that_we_do_not_have_or_that_do_not_fit(folder, settings, said):
    rewrite(folder, **settings)
    assert said in problem(Comet, str(folder))


@pytest.mark.parametrize("name", ["hidden_sizes", "pretrained_model", "pool"])
def test_settings_that_are_missing(folder, name):
    path, file = folder / "checkpoints" / "model.ckpt", folder / "hparams.yaml"
    saved = torch.load(path, weights_only=True)
    del saved["hyper_parameters"][name]
    torch.save(saved, path)
    settings = yaml.safe_load(file.read_text())
    settings.pop(name)
    file.write_text(yaml.safe_dump(settings))
    assert f"has no setting {name}" in problem(Comet, str(folder))


def test_another_encoder_than_the_weights_are_for(folder):
    config = folder / "encoder" / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "num_hidden_layers": 5}))
    assert "has no mix of 6 layers (its encoder may be another one)" in problem(Comet, str(folder))


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
def test_files_of_the_encoder_that_cannot_be_read(folder, name):
    (folder / "encoder" / name).write_text("{")
    assert problem(Comet, str(folder)) == f"{name} of {folder / 'encoder'} cannot be read"


def test_a_sentencepiece_model_that_cannot_be_read(tmp_path):
    folder = make_folder(tmp_path, "xcomet")
    (folder / "encoder-xl" / "sentencepiece.bpe.model").write_bytes(b"something else")
    assert "sentencepiece.bpe.model of " in problem(Xcomet, str(folder))


@pytest.mark.parametrize("layer", [0, 2, 3])
def test_a_single_layer_is_a_mix_with_all_weight_on_it(folder, layer):
    rewrite(folder, layer=layer)
    single = Comet(str(folder), CPU).embed(TEXTS)
    path = folder / "checkpoints" / "model.ckpt"
    saved = torch.load(path, weights_only=True)
    for index in range(4):
        saved["state_dict"][f"layerwise_attention.scalar_parameters.{index}"].fill_(5.0 if index == layer else 0.0)
    saved["state_dict"]["layerwise_attention.gamma"].fill_(1.0)
    torch.save(saved, path)
    rewrite(folder, layer="mix")
    torch.testing.assert_close(Comet(str(folder), CPU).embed(TEXTS), single, rtol=0, atol=1e-5)


def test_the_signature_tells_weights_and_precision_apart(folder):
    first = Comet(str(folder), CPU).signature
    path = folder / "checkpoints" / "model.ckpt"
    saved = torch.load(path, weights_only=True)
    saved["state_dict"]["estimator.ff.0.bias"][0] += 1e-3
    torch.save(saved, path)
    assert first == f"comet|{folder}|w:{first.split('w:')[1][:8]}|float32"
    assert Comet(str(folder), CPU).signature != first


# The names they go by


def test_a_scorer_by_its_name(folder):
    assert isinstance(scorer.load(f"comet:{folder}", CPU), Comet)
    assert isinstance(scorer.utility(f"comet:{folder}", CPU), CometUtility)


@pytest.mark.parametrize(
    ("make", "spec", "said"),
    [
        (scorer.utility, "kiwi", r"CometKiwi scores without a reference .* \(take qe:kiwi\)"),
        (scorer.estimator, "comet", r"COMET needs a reference \(mbr:comet"),
        (scorer.load, "comte", r"unknown metric 'comte' \(did you mean 'comet'\?\)"),
    ],
)
def test_a_metric_in_the_wrong_place(make, spec, said):
    with pytest.raises(UsageError, match=said):
        make(spec, CPU)
