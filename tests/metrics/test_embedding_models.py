"""Models of sentence embeddings: their settings and files, compared with the library's own vectors."""

from __future__ import annotations

import shutil

import huggingface_hub.constants
import numpy as np
import pytest
import torch
import transformers
from tests.comet.folders import add_to_hub
from tests.metrics.neural import watch
from tests.metrics.neural.tiny_sentence import make_sentence_model, rewrite, write
from torch import nn

from quitmt.errors import ModelError
from quitmt.metrics import scorer
from quitmt.metrics.devices import Hardware
from quitmt.metrics.embedding import Embedding

CPU = Hardware(device="cpu")
TEXTS = [
    "o gato velho dormiu perto da casa", "o gato", "", " ", "uma casa nova e um cão que espera há muito tempo " * 9,
    "O GATO", "die alte Katze", "猫", "😀👍🏽", "um [PAD] gato", "a\nb", "x" * 300,
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_sentence_model(tmp_path_factory.mktemp("models") / "mean")


@pytest.fixture
def copy(folder, tmp_path):
    return shutil.copytree(folder, tmp_path / "copy")


def expected(model, texts=TEXTS):
    """By the library, one text at a time."""
    from sentence_transformers import SentenceTransformer

    library = SentenceTransformer(str(model), device="cpu")
    return np.array([library.encode(text, normalize_embeddings=True) for text in texts], np.float64)


def embedded(model, texts=TEXTS, hardware=CPU):
    embedding = Embedding(str(model), hardware)
    tokenized = embedding.tokenize(texts)
    distinct = dict(zip(tokenized, texts, strict=True))
    vectors = dict(zip(distinct, embedding.embed(distinct), strict=True))
    return np.array([vectors[tokens] for tokens in tokenized], np.float64)


@pytest.mark.parametrize("mode", ["mean", "cls", "max", "lasttoken", "weightedmean"])
def test_every_pooling(copy, mode):
    write(copy / "1_Pooling" / "config.json", {"word_embedding_dimension": 32, "pooling_mode": mode})
    np.testing.assert_allclose(embedded(copy), expected(copy), rtol=0, atol=1e-5)


@pytest.mark.parametrize("tokens", [1, 30, 4096])
def test_padding_and_batches_make_no_difference(folder, tokens):
    found = embedded(folder, hardware=Hardware(device="cpu", batch_tokens=tokens))
    np.testing.assert_allclose(found, expected(folder), rtol=0, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0, rtol=0, atol=1e-6)


def test_no_texts_have_no_vectors(folder):
    embedding = Embedding(str(folder), CPU)
    assert len(embedding.embed({})) == 0 and embedding.tokenize([]) == []


def test_long_texts_are_cut(copy):
    rewrite(copy / "sentence_bert_config.json", max_seq_length=7)
    embedding = Embedding(str(copy), CPU)
    assert max(map(len, embedding.tokenize(TEXTS))) == embedding.cuts.limit == 7
    assert len(embedding.cuts.among(TEXTS)) == 3 and "tokens:7|" in embedding.signature
    assert embedding.cuts.among(["o gato", "die alte Katze"]) == [7]
    np.testing.assert_allclose(embedded(copy), expected(copy), rtol=0, atol=1e-5)


def test_lower_case_by_a_setting(tmp_path):
    cased = make_sentence_model(tmp_path / "cased", uncased=False)
    assert abs(np.subtract(*embedded(cased, ["O Gato", "o gato"]))).max() > 0.01
    rewrite(cased / "sentence_bert_config.json", do_lower_case=True)
    assert np.array_equal(*embedded(cased, ["O Gato", "o gato"])[:, None])


def test_a_default_prompt_stands_before_each_text(copy):
    plain = embedded(copy)
    write(copy / "config_sentence_transformers.json", {"prompts": {"x": "casa "}, "default_prompt_name": "x"})
    found = embedded(copy)
    np.testing.assert_allclose(found, expected(copy), rtol=0, atol=1e-5)
    assert abs(found - plain).max() > 0.01


@pytest.mark.parametrize("parts", [("Dense",), ("Normalize", "Dense", "Normalize")])
def test_dense_layers(tmp_path, parts):
    folder = make_sentence_model(tmp_path / "dense", parts=parts)
    found = embedded(folder)
    np.testing.assert_allclose(found, expected(folder), rtol=0, atol=1e-5)
    assert found.shape[1] == 12
    assert embedded(folder, hardware=Hardware(device="cpu", dtype="bfloat16")).shape == found.shape


def test_a_plain_encoder_is_averaged(copy):
    for name in ("modules.json", "sentence_bert_config.json", "1_Pooling/config.json"):
        (copy / name).unlink()
    np.testing.assert_allclose(embedded(copy), expected(copy), rtol=0, atol=1e-5)


def test_a_lack_of_memory_halves_the_batches(folder):
    embedding = Embedding(str(folder), CPU)
    texts = dict(zip(embedding.tokenize(TEXTS), TEXTS, strict=True))
    wanted = embedding.embed(texts)
    with watch.out_of_memory(watch.rows_above(2, nn.Embedding)):
        np.testing.assert_allclose(embedding.embed(texts), wanted, rtol=0, atol=1e-5)


def test_half_precision(folder):
    found = embedded(folder, hardware=Hardware(device="cpu", dtype="bfloat16"))
    np.testing.assert_allclose(found, embedded(folder), rtol=0, atol=0.05)
    assert abs(found - embedded(folder)).max() > 1e-5


# The signature


def weights(model):
    return Embedding(str(model), CPU).signature.split("|w:")[1].split("|")[0]


def test_models_that_differ_in_a_setting_differ_in_signature(folder, copy):
    seen = [weights(folder), weights(copy)]
    assert seen[0] == seen[1]
    write(copy / "config_sentence_transformers.json", {})
    for name, settings in (
        ("1_Pooling/config.json", {"pooling_mode_cls_token": True}),
        ("sentence_bert_config.json", {"max_seq_length": 9}),
        ("sentence_bert_config.json", {"do_lower_case": True}),
        ("config.json", {"layer_norm_eps": 1e-6}),
        ("config_sentence_transformers.json", {"prompts": {"x": "casa "}, "default_prompt_name": "x"}),
    ):
        rewrite(copy / name, **settings)
        seen.append(weights(copy))
    assert len(set(seen)) >= 5


def test_models_that_differ_in_a_weight_differ_in_signature(tmp_path):
    folder = make_sentence_model(tmp_path / "dense", parts=("Dense",))
    before, path = weights(folder), folder / "2_Dense" / "pytorch_model.bin"
    saved = torch.load(path, weights_only=True)
    saved["linear.bias"][0] += 1e-3
    torch.save(saved, path)
    assert weights(folder) != before


# What goes wrong


def problem(model):
    with pytest.raises(ModelError) as caught:
        scorer.load(f"embedding:{model}", CPU)
    message = str(caught.value)
    assert "\n" not in message and len(message) < 400
    return message


@pytest.fixture
def offline(tmp_path, monkeypatch):
    root = tmp_path / "cache"
    root.mkdir()
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(root))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.chdir(tmp_path)
    return root


def test_a_cached_model_does_without_the_hub(folder, offline):
    """Also if it lacks a file that others have: nothing asks the hub whether there is one."""
    add_to_hub(offline, "some/model", folder)
    np.testing.assert_array_equal(embedded("some/model"), embedded(folder))


def test_a_model_that_is_not_cached(offline):
    assert "some/model is not in the cache, and the hub cannot be reached" in problem("some/model")


def test_a_folder_that_is_not_there():
    assert "the folder ./none is not there" in problem("./none")


@pytest.mark.parametrize("name", ["modules.json", "1_Pooling/config.json", "config.json", "model.safetensors"])
def test_files_that_cannot_be_read(copy, name):
    (copy / name).write_text("{")
    assert problem(copy).startswith(f"{copy} cannot be loaded: ")


def test_missing_weights_are_not_made_up(copy):
    rewrite(copy / "config.json", num_hidden_layers=3)
    assert f"{copy} lacks weights of its network, such as encoder.layer.2" in problem(copy)


def test_numbers_that_are_not_finite(copy):
    network = transformers.BertModel.from_pretrained(copy, add_pooling_layer=False)
    with torch.no_grad():
        network.embeddings.word_embeddings.weight.fill_(torch.inf)
    network.save_pretrained(copy)
    assert "computes numbers that are not finite in torch.float32 (its weights may be damaged)" in problem(copy)


def test_loading_prints_nothing(folder, capfd):
    Embedding(str(folder), CPU)
    assert capfd.readouterr() == ("", "")
