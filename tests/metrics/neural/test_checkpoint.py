"""COMET checkpoints that are damaged, incomplete or of another kind: each is refused in one sentence."""

from __future__ import annotations

import json

import pytest
import torch
from tests.comet.folders import make_folder, rewrite

from quitmt.errors import ModelError
from quitmt.metrics.comet import Comet
from quitmt.metrics.devices import Hardware
from quitmt.metrics.kiwi import Kiwi
from quitmt.metrics.xcomet import Xcomet, XcometQe

CPU = Hardware(device="cpu")


@pytest.fixture
def folder(tmp_path):
    return make_folder(tmp_path, "regression")


def problem(make, folder):
    with pytest.raises(ModelError) as caught:
        make(str(folder), CPU)
    message = str(caught.value)
    assert "\n" not in message and len(message) < 400
    return message


@pytest.mark.parametrize("name", ["hparams.yaml", "checkpoints/model.ckpt"])
def test_files_that_are_missing(folder, name):
    (folder / name).unlink()
    assert f"has no {name}" in problem(Comet, folder)


@pytest.mark.parametrize("size", [0, 1000, 100_000, 300_000])
def test_weights_that_were_cut_off(folder, size):
    path = folder / "checkpoints" / "model.ckpt"
    path.write_bytes(path.read_bytes()[:size])
    message = problem(Comet, folder)
    assert message.startswith("checkpoints/model.ckpt of") and "may be cut off" in message


def test_weights_that_are_something_else(folder):
    path = folder / "checkpoints" / "model.ckpt"
    path.write_text("<html>not found</html>")
    assert "model.ckpt of" in problem(Comet, folder)
    torch.save([1, 2, 3], path)
    assert "holds no weights" in problem(Comet, folder)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"a: [1, 2", "cannot be read"),
        (b"\xff\xfe\x00\x01", "cannot be read"),
        (b"a: 2021-13-45", "cannot be read"),
        (b"a: " + b"[" * 1000, "cannot be read"),
        (b"text", "holds no settings"),
        (b"class_identifier: [a]", "holds no settings"),
    ],
)
def test_settings_that_are_no_yaml(folder, content, said):
    (folder / "hparams.yaml").write_bytes(content)
    message = problem(Comet, folder)
    assert message.startswith(f"hparams.yaml of {folder}") and said in message


@pytest.mark.parametrize(("make", "title"), [(Kiwi, "CometKiwi"), (Xcomet, "xCOMET"), (XcometQe, "xCOMET")])
def test_a_checkpoint_of_another_class_says_where_it_goes(folder, make, title):
    message = problem(make, folder)
    assert f"is a checkpoint of class regression_metric, and {title} needs" in message
    assert message.endswith(f"(it goes with comet:{folder})")


def test_a_checkpoint_of_a_class_that_we_do_not_have(folder):
    (folder / "hparams.yaml").write_text("class_identifier: ranking_metric\n")
    assert "class ranking_metric" in problem(Comet, folder)


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
    assert said in problem(Comet, folder)


def test_an_estimator_that_does_not_read_sources(tmp_path):
    folder = make_folder(tmp_path, "unified")
    rewrite(folder, input_segments=["mt", "ref"])
    assert problem(Kiwi, folder).endswith("does not read sources (take a checkpoint of CometKiwi)")


@pytest.mark.parametrize("name", ["hidden_sizes", "pretrained_model", "pool"])
def test_settings_that_are_missing(folder, name):
    rewrite(folder, **{name: None})
    assert f"has no setting {name}" in problem(Comet, folder)


def test_another_encoder_than_the_weights_are_for(folder):
    config = folder / "encoder" / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "num_hidden_layers": 5}))
    assert "has no mix of 6 layers (its encoder may be another one)" in problem(Comet, folder)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
def test_files_of_the_encoder_that_cannot_be_read(folder, name):
    (folder / "encoder" / name).write_text("{")
    assert problem(Comet, folder) == f"{name} of {folder / 'encoder'} cannot be read"


def test_a_sentencepiece_model_that_cannot_be_read(tmp_path):
    folder = make_folder(tmp_path, "xcomet")
    (folder / "encoder-xl" / "sentencepiece.bpe.model").write_bytes(b"something else")
    assert "sentencepiece.bpe.model of " in problem(Xcomet, folder)
