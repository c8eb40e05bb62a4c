"""Sentence embeddings against a straightforward computation with transformers, and what goes wrong with their files."""

from __future__ import annotations

import json
import shutil

import huggingface_hub
import huggingface_hub.constants
import numpy as np
import pytest
import torch
import transformers
from tests.comet.folders import add_to_hub
from tests.metrics.neural import watch
from tests.metrics.neural.tiny_sentence import LONGEST, MEAN, make_sentence_model, rewrite, write
from tokenizers import Tokenizer
from torch import nn

from quitmt.errors import ModelError
from quitmt.metrics.devices import Hardware
from quitmt.metrics.neural.sentence import SentenceEncoder

CPU = Hardware(device="cpu")
TEXTS = [
    "o gato velho dormiu perto da casa", "o gato", "", " ", "uma casa nova e um cão que espera há muito tempo " * 9,
    "O GATO", "die alte Katze", "猫", "😀👍🏽", "um [PAD] gato", "a\nb", "x" * 300,
]  # fmt: skip
OLD = {"cls": "pooling_mode_cls_token", "max": "pooling_mode_max_tokens", "mean": "pooling_mode_mean_tokens"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_sentence_model(tmp_path_factory.mktemp("models") / "mean")


@pytest.fixture
def copy(folder, tmp_path):
    return shutil.copytree(folder, tmp_path / "copy")


def expected(folder, texts, *modes, longest=LONGEST):
    """One text at a time, without padding, in float64."""
    network = transformers.BertModel.from_pretrained(folder, add_pooling_layer=False).double().eval()
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    found = []
    for text in texts:
        ids = tokenizer.encode(text).ids
        ids = ids if len(ids) <= longest else [*ids[: longest - 1], ids[-1]]  # [SEP] stays
        with torch.no_grad():
            states = network(torch.tensor([ids])).last_hidden_state[0]
        pools = {"cls": states[0], "max": states.max(dim=0).values, "mean": states.mean(dim=0)}
        found.append(torch.cat([pools[mode] for mode in modes]).numpy())
    return np.array(found)


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def embedded(model, texts=TEXTS, hardware=CPU):
    encoder = SentenceEncoder(str(model), hardware)
    return encoder.embed(encoder.tokenize(texts))


@pytest.mark.parametrize("modes", [("mean",), ("cls",), ("max",), ("cls", "mean")])
def test_every_pooling_in_either_way_of_saying_it(copy, modes):
    write(copy / "1_Pooling" / "config.json", {OLD[mode]: True for mode in modes})
    found = embedded(copy)
    np.testing.assert_allclose(found, unit(expected(copy, TEXTS, *modes)), rtol=0, atol=1e-5)
    write(copy / "1_Pooling" / "config.json", {"pooling_mode": modes[0] if len(modes) == 1 else modes})
    assert np.array_equal(embedded(copy), found)


@pytest.mark.parametrize("tokens", [1, 30, 4096])
def test_padding_and_batches_make_no_difference(folder, tokens):
    found = embedded(folder, hardware=Hardware(device="cpu", batch_tokens=tokens))
    np.testing.assert_allclose(found, unit(expected(folder, TEXTS, "mean")), rtol=0, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0, rtol=1e-12)


def test_no_texts_have_no_vectors(folder):
    assert embedded(folder, []).shape == (0, 32)


def test_long_texts_are_cut(copy):
    rewrite(copy / "sentence_bert_config.json", max_seq_length=7)
    encoder = SentenceEncoder(str(copy), CPU)
    assert encoder.longest == max(map(len, encoder.tokenize(TEXTS))) == 7
    np.testing.assert_allclose(embedded(copy), unit(expected(copy, TEXTS, "mean", longest=7)), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("said", "allowed", "longest"), [(None, 40, 40), (None, 512, 64), (100, 512, 64), (None, 1e30, 64)]
)
def test_where_the_length_comes_from(copy, said, allowed, longest):
    """The model says it, or its tokenizer; the network has 64 positions."""
    write(copy / "sentence_bert_config.json", {"max_seq_length": said})
    rewrite(copy / "tokenizer_config.json", model_max_length=int(allowed))
    assert SentenceEncoder(str(copy), CPU).longest == longest
    (copy / "sentence_bert_config.json").unlink()
    assert SentenceEncoder(str(copy), CPU).longest == min(int(allowed), 64)


def test_a_model_of_long_ago_names_its_settings_otherwise(copy):
    (copy / "sentence_bert_config.json").rename(copy / "sentence_distilbert_config.json")
    assert SentenceEncoder(str(copy), CPU).longest == LONGEST


def test_a_roberta_counts_positions_from_padding(copy):
    vocabulary = Tokenizer.from_file(str(copy / "tokenizer.json")).get_vocab_size()
    config = transformers.RobertaConfig(
        vocab_size=vocabulary, hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=64,
        max_position_embeddings=18, type_vocab_size=1, pad_token_id=1,
    )  # fmt: skip
    transformers.RobertaModel(config).save_pretrained(copy)
    encoder = SentenceEncoder(str(copy), CPU)
    assert encoder.longest == 16
    assert np.isfinite(encoder.embed(encoder.tokenize(TEXTS))).all()


def test_case_is_the_tokenizer_s_affair_unless_the_model_says_otherwise(folder, tmp_path):
    assert np.array_equal(*embedded(folder, ["O Gato", "o gato"])[:, None])
    cased = make_sentence_model(tmp_path / "cased", uncased=False)
    assert abs(np.subtract(*embedded(cased, ["O Gato", "o gato"]))).max() > 0.01
    rewrite(cased / "sentence_bert_config.json", do_lower_case=True)
    assert np.array_equal(*embedded(cased, ["O Gato", "o gato"])[:, None])


def test_a_default_prompt_stands_before_each_text(copy):
    write(copy / "config_sentence_transformers.json", {"prompts": {"x": "casa "}, "default_prompt_name": "x"})
    wanted = unit(expected(copy, [f"casa {text}" for text in TEXTS], "mean"))
    np.testing.assert_allclose(embedded(copy), wanted, rtol=0, atol=1e-5)
    write(copy / "config_sentence_transformers.json", {"prompts": {"x": "casa "}, "default_prompt_name": None})
    np.testing.assert_allclose(embedded(copy), unit(expected(copy, TEXTS, "mean")), rtol=0, atol=1e-5)


@pytest.mark.parametrize("parts", [("Dense",), ("Normalize", "Dense", "Normalize")])
def test_dense_layers_come_after_pooling(tmp_path, parts):
    folder = make_sentence_model(tmp_path / "dense", parts=parts)
    weights = torch.load(next(folder.glob("*_Dense")) / "pytorch_model.bin", weights_only=True)
    pooled = expected(folder, TEXTS, "mean")
    pooled = unit(pooled) if parts[0] == "Normalize" else pooled
    wanted = np.tanh(pooled @ weights["linear.weight"].double().numpy().T + weights["linear.bias"].double().numpy())
    np.testing.assert_allclose(embedded(folder), unit(wanted), rtol=0, atol=1e-5)


def test_a_plain_encoder_is_averaged(copy):
    for name in ("modules.json", "sentence_bert_config.json", "1_Pooling/config.json"):
        (copy / name).unlink()
    wanted = unit(expected(copy, TEXTS, "mean", longest=64))
    np.testing.assert_allclose(embedded(copy), wanted, rtol=0, atol=1e-5)


def test_the_encoder_of_a_t5_goes_without_its_decoder(copy):
    vocabulary = Tokenizer.from_file(str(copy / "tokenizer.json")).get_vocab_size()
    config = transformers.T5Config(vocab_size=vocabulary, d_model=16, d_kv=4, d_ff=32, num_layers=2, num_heads=4)
    transformers.T5EncoderModel(config).save_pretrained(copy)
    assert embedded(copy).shape == (len(TEXTS), 16)


def test_an_encoder_in_a_folder_of_its_own(folder, copy):
    (copy / "0_Transformer").mkdir()
    for path in copy.glob("*.*"):
        if path.name != "modules.json":
            path.rename(copy / "0_Transformer" / path.name)
    modules = json.loads((copy / "modules.json").read_text())
    write(copy / "modules.json", [{**modules[0], "path": "0_Transformer"}, *modules[1:]])
    np.testing.assert_array_equal(embedded(copy), embedded(folder))


def test_a_vocabulary_in_place_of_a_tokenizer_file(folder, copy):
    tokens = Tokenizer.from_file(str(copy / "tokenizer.json")).get_vocab()
    (copy / "vocab.txt").write_text("\n".join(sorted(tokens, key=tokens.__getitem__)) + "\n")
    (copy / "tokenizer.json").unlink()
    rewrite(copy / "tokenizer_config.json", strip_accents=False)
    np.testing.assert_array_equal(embedded(copy), embedded(folder))


def test_a_lack_of_memory_halves_the_batches(folder):
    encoder = SentenceEncoder(str(folder), CPU)
    wanted = encoder.embed(encoder.tokenize(TEXTS))
    with watch.out_of_memory(watch.rows_above(2, nn.Embedding)):
        np.testing.assert_allclose(encoder.embed(encoder.tokenize(TEXTS)), wanted, rtol=0, atol=1e-5)


def test_half_precision(folder):
    found = embedded(folder, hardware=Hardware(device="cpu", dtype="bfloat16"))
    np.testing.assert_allclose(found, embedded(folder), rtol=0, atol=0.05)
    assert abs(found - embedded(folder)).max() > 1e-5


# The fingerprint


def test_models_that_differ_in_a_setting_differ_in_fingerprint(folder, copy):
    seen = [SentenceEncoder(str(one), CPU).fingerprint for one in (folder, copy)]
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
        seen.append(SentenceEncoder(str(copy), CPU).fingerprint)
    assert len(set(seen)) == 6


def test_models_that_differ_in_a_weight_differ_in_fingerprint(tmp_path):
    folder = make_sentence_model(tmp_path / "dense", parts=("Dense",))
    before, path = SentenceEncoder(str(folder), CPU).fingerprint, folder / "2_Dense" / "pytorch_model.bin"
    weights = torch.load(path, weights_only=True)
    weights["linear.bias"][0] += 1e-3
    torch.save(weights, path)
    assert SentenceEncoder(str(folder), CPU).fingerprint != before


# What goes wrong


def problem(model):
    with pytest.raises(ModelError) as caught:
        SentenceEncoder(str(model), CPU)
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
    """Also if it lacks a file that others have: the hub need not be asked whether there is one."""
    add_to_hub(offline, "some/model", folder)
    np.testing.assert_array_equal(embedded("some/model"), embedded(folder))


def test_a_cached_encoder_whose_pooling_is_not_known(folder, offline):
    add_to_hub(offline, "some/model", folder)
    next(offline.rglob("modules.json")).unlink()
    assert "some/model is not in the cache, and the hub cannot be reached" in problem("some/model")


def test_a_cached_encoder_in_a_folder_of_its_own(folder, offline):
    add_to_hub(offline, "some/model", folder)
    path = next(offline.rglob("modules.json"))
    modules = json.loads(path.read_text())
    write(path, [{**modules[0], "path": "0_Transformer"}, *modules[1:]])
    assert problem("some/model") == (
        "some/model has its encoder in 0_Transformer, which works only from a folder of yours "
        "(`hf download some/model --local-dir FOLDER`, and name that folder)"
    )


@pytest.mark.parametrize("mode", ["lasttoken", "weightedmean", "mean_sqrt_len_tokens"])
def test_a_pooling_that_we_do_not_have(copy, mode):
    names = {"lasttoken": "pooling_mode_lasttoken", "weightedmean": "pooling_mode_weightedmean_tokens"}
    write(copy / "1_Pooling" / "config.json", {**MEAN, names.get(mode, f"pooling_mode_{mode}"): True})
    assert problem(copy) == f"{copy} pools by {mode!r} (quitmt has cls, max, mean)"
    write(copy / "1_Pooling" / "config.json", {"pooling_mode": mode})
    assert problem(copy) == f"{copy} pools by {mode!r} (quitmt has cls, max, mean)"


@pytest.mark.parametrize(
    ("kinds", "said"),
    [
        (["Transformer", "Pooling", "LSTM"], "has a part of the kind LSTM (quitmt has Transformer, Pooling, Dense"),
        (["StaticEmbedding"], "has a part of the kind StaticEmbedding"),
        (["Transformer"], "has the parts Transformer (they must begin with Transformer and Pooling)"),
        (["Transformer", "Pooling", "Pooling"], "has the parts Transformer, Pooling, Pooling"),
        ([], "has the parts of nothing"),
    ],
)
def test_parts_that_we_do_not_have(copy, kinds, said):
    write(copy / "modules.json", [{"type": f"x.{kind}", "path": ""} for kind in kinds])
    assert said in problem(copy)


@pytest.mark.parametrize(
    "name", ["modules.json", "1_Pooling/config.json", "sentence_bert_config.json", "config.json", "tokenizer.json"]
)
def test_files_that_cannot_be_read(copy, name):
    for content in ("{", '"text"', "[7]"):
        (copy / name).write_text(content)
        assert problem(copy) == f"{name} of {copy} cannot be read"


@pytest.mark.parametrize("name", ["model.safetensors", "1_Pooling/config.json", "config.json", "tokenizer.json"])
def test_files_that_are_missing(copy, name):
    (copy / name).unlink()
    assert f"has no {name} (embedding takes a folder" in problem(copy)


def test_weights_that_are_cut_off_or_missing(copy):
    path = copy / "model.safetensors"
    whole = path.read_bytes()
    for size in (0, 100, 10_000):
        path.write_bytes(whole[:size])
        assert problem(copy).startswith(f"the weights of {copy} cannot be loaded: ")
    path.write_bytes(whole)
    rewrite(copy / "config.json", num_hidden_layers=3)
    assert f"{copy} lacks weights of its network, such as encoder.layer.2" in problem(copy)


def test_a_prompt_that_is_left_out_of_pooling(copy):
    write(copy / "config_sentence_transformers.json", {"prompts": {"x": "casa "}, "default_prompt_name": "x"})
    rewrite(copy / "1_Pooling" / "config.json", include_prompt=False)
    assert problem(copy) == f"{copy} leaves its prompt out of pooling (quitmt does not have that)"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"activation_function": "torch.nn.modules.activation.GELU"},
            "with the activation torch.nn.modules.activation.GELU",
        ),
        ({"use_residual": True}, "with a residual connection"),
        ({"in_features": None}, "2_Dense/config.json of"),
        ({"out_features": 13}, "do not fit the network"),
    ],
)
def test_dense_layers_that_we_do_not_have_or_that_do_not_fit(tmp_path, settings, said):
    folder = make_sentence_model(tmp_path / "dense", parts=("Dense",))
    rewrite(folder / "2_Dense" / "config.json", **settings)
    assert said in problem(folder)


def test_a_dense_layer_that_is_damaged(tmp_path):
    folder = make_sentence_model(tmp_path / "dense", parts=("Dense",))
    (folder / "2_Dense" / "pytorch_model.bin").write_bytes(b"something else")
    assert problem(folder) == f"2_Dense/pytorch_model.bin of {folder} cannot be read"
    (folder / "2_Dense" / "pytorch_model.bin").unlink()
    assert f"{folder} has no 2_Dense/model.safetensors" in problem(folder)


def test_numbers_that_are_not_finite(copy):
    network = transformers.BertModel.from_pretrained(copy, add_pooling_layer=False)
    with torch.no_grad():
        network.embeddings.word_embeddings.weight.fill_(torch.inf)
    network.save_pretrained(copy)
    assert "computes numbers that are not finite in torch.float32 (its weights may be damaged)" in problem(copy)
