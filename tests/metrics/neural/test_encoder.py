"""The encoders of COMET checkpoints against transformers, layer by layer."""

from __future__ import annotations

import shutil
from functools import cache

import numpy as np
import pytest
import torch
import transformers
from tests.comet.examples import EXAMPLES
from tests.comet.folders import CHECKPOINTS, make_folder
from tests.metrics.neural import watch

from quitmt.metrics.devices import Hardware
from quitmt.metrics.neural import checkpoint
from quitmt.metrics.neural.encoder import Encoder, sparsemax

CPU = Hardware(device="cpu", batch_tokens=600)
TEXTS = ["O gato dorme no sofá, e o cão espera.", "猫", "", "The old house.", "O gato <pad> dorme."]


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    root = tmp_path_factory.mktemp("checkpoints")
    return {
        "XLMRoberta": checkpoint.load(str(make_folder(root, "regression")), "regression_metric"),
        "XLMRobertaXL": checkpoint.load(str(make_folder(root, "xcomet")), "xcomet_metric"),
    }


@cache
def network(kind, pretrained):
    config = getattr(transformers, f"{kind}Config").from_pretrained(pretrained)
    return getattr(transformers, f"{kind}Model")(config, add_pooling_layer=False).eval()


def hidden_states(kind, loaded, ids):
    """The states of all layers, as transformers gives them."""
    theirs = network(kind, loaded.pretrained)
    theirs.load_state_dict(loaded.part("encoder.model."), strict=False)
    with torch.no_grad():
        return theirs(torch.tensor([ids]), output_hidden_states=True).hidden_states


@pytest.mark.parametrize(("kind", "layers"), [("XLMRoberta", 4), ("XLMRobertaXL", 3)])
def test_a_layer_is_that_of_transformers_without_computing_those_above(kind, layers, loaded):
    """XLM-R-XL has one more norm after its last layer, which must not come after any other."""
    for layer in range(layers):
        encoder = Encoder(loaded[kind], CPU, pool="cls", layer=layer)
        sequences = encoder.tokenize(TEXTS)
        with watch.layers() as computed:
            found = list(encoder.encode(sequences, layer=layer))
        assert len(computed) == layer
        for batch, (vectors, states) in found:
            for row, index in enumerate(batch):
                expected = hidden_states(kind, loaded[kind], sequences[index])[layer][0]
                torch.testing.assert_close(vectors[row], expected[0], rtol=0, atol=1e-5)
                torch.testing.assert_close(states[row, : len(expected)], expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "settings", "layers"),
    [
        ("XLMRoberta", {"pool": "avg"}, 2),
        ("XLMRobertaXL", {"pool": "cls"}, 1),
        ("XLMRobertaXL", {"pool": "cls", "tagged": 2}, 2),
    ],
)
def test_layers_above_the_last_weight_of_a_mix_are_not_computed_unless_a_tagger_reads_them(
    kind, settings, layers, loaded
):
    encoder = Encoder(loaded[kind], CPU, layer="mix", **settings)
    with watch.layers() as computed:
        list(encoder.encode(encoder.tokenize(TEXTS)))
    assert len(computed) == layers


def vectors(folder, layer):
    encoder = Encoder(checkpoint.load(str(folder), "regression_metric"), CPU, pool="avg", layer=layer)
    found = {
        index: vector
        for batch, (made, _) in encoder.encode(encoder.tokenize(TEXTS))
        for index, vector in zip(batch, made, strict=True)
    }
    return torch.stack([found[index] for index in range(len(TEXTS))])


@pytest.mark.parametrize("layer", [0, 2, 3])
def test_a_single_layer_is_a_mix_with_all_weight_on_it(tmp_path, layer):
    folder = make_folder(tmp_path, "regression")
    single = vectors(folder, layer)
    path = folder / "checkpoints" / "model.ckpt"
    saved = torch.load(path, weights_only=True)
    for index in range(4):
        saved["state_dict"][f"layerwise_attention.scalar_parameters.{index}"].fill_(5.0 if index == layer else 0.0)
    saved["state_dict"]["layerwise_attention.gamma"].fill_(1.0)
    torch.save(saved, path)
    torch.testing.assert_close(vectors(folder, "mix"), single, rtol=0, atol=1e-5)


def test_the_average_is_over_all_tokens(loaded):
    encoder = Encoder(loaded["XLMRoberta"], CPU, pool="avg", layer=3)
    sequences = encoder.tokenize(TEXTS[:4])
    for batch, (vectors, _) in encoder.encode(sequences):
        for row, index in enumerate(batch):
            expected = hidden_states("XLMRoberta", loaded["XLMRoberta"], sequences[index])[3][0].mean(dim=0)
            torch.testing.assert_close(vectors[row], expected, rtol=0, atol=1e-5)


def test_what_comes_then_is_within_the_attempt_that_is_halved(loaded):
    encoder = Encoder(loaded["XLMRoberta"], CPU, pool="cls", layer=1)
    sequences, sizes = encoder.tokenize(TEXTS), []

    def then(batch, vectors, states):
        sizes.append(len(batch))
        if len(batch) > 1:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return len(vectors), states.shape[1]

    found = {index: made for [index], made in encoder.encode(sequences, layer=1, then=then)}
    assert found == {index: (1, len(ids)) for index, ids in enumerate(sequences)}
    assert sizes[0] == len(TEXTS)


def test_the_encoder_s_files_are_told_apart_by_their_bytes(tmp_path):
    made = []
    for number, name in enumerate(("config.json", "config.json", "tokenizer.json")):
        folder = make_folder(tmp_path / str(number), "regression")
        path = folder / "encoder" / name
        path.write_text(path.read_text() + " " * number)
        made.append(Encoder(checkpoint.load(str(folder), "regression_metric"), CPU, pool="cls", layer=0).files)
    assert len(set(made)) == 3
    shutil.copytree(folder, tmp_path / "copy")
    assert (
        Encoder(checkpoint.load(str(tmp_path / "copy"), "regression_metric"), CPU, pool="cls", layer=0).files == made[2]
    )


def test_a_tokenizer_from_sentencepiece_is_the_same_as_from_its_file(loaded):
    """The two encoders have the same vocabulary, each in one of the two kinds of files."""
    assert not (CHECKPOINTS / "encoder-xl" / "tokenizer.json").exists()
    texts = sorted({text for example in EXAMPLES for text in example})
    first, second = (Encoder(one, CPU, pool="cls", layer=0).tokenize(texts) for one in loaded.values())
    assert first == second
    assert max(map(len, first)) == 510 and min(map(len, first)) == 2


def test_texts_are_joined_and_cut_to_what_the_network_takes(loaded):
    encoder = Encoder(loaded["XLMRoberta"], CPU, pool="cls", layer=0)
    assert encoder.join([0, 7, 2], [0, 8, 9, 2], of="a text") == [0, 7, 2, 2, 8, 9, 2]
    assert encoder.join([0, 7, 2], [0, 2], [0, 1, 5, 2], of="a text") == [0, 7, 2, 2, 2, 2, 5, 2]
    assert encoder.join([0, *[7] * 300, 2], [0, *[8] * 300, 2], of="a text") == [0, *[7] * 300, 2, 2, *[8] * 209]
    assert encoder.cuts.among(["a text"]) == [92]


@pytest.mark.parametrize(
    ("scores", "expected"),
    [([1.0, 0.5, -2.0], [0.75, 0.25, 0]), ([0.0, 0, 0, 0], [0.25] * 4), ([5.0, 1, 1], [1, 0, 0]), ([3.0], [1])],
)
def test_sparsemax(scores, expected):
    np.testing.assert_allclose(sparsemax(torch.tensor(scores)).numpy(), expected, atol=1e-7)


def test_sparsemax_is_the_nearest_point_of_the_simplex():
    rng = torch.Generator().manual_seed(3)
    for _ in range(20):
        scores = torch.randn(6, generator=rng) * 2
        found = sparsemax(scores)
        assert found.min() >= 0 and float(found.sum()) == pytest.approx(1, abs=1e-6)
        others = torch.distributions.Dirichlet(torch.full((6,), 0.5)).sample((200,))
        assert ((others - scores) ** 2).sum(dim=1).min() >= ((found - scores) ** 2).sum() - 1e-6
