"""MetricX against its published arithmetic, computed here from the whole logits of a tiny seeded mT5."""

from __future__ import annotations

import json
import shutil

import huggingface_hub.constants
import numpy as np
import pytest
import sentencepiece
import torch
import transformers
from safetensors.torch import load_file, save_file
from tests.comet.folders import add_to_hub
from tests.metrics.neural.tiny_metricx import make_metricx

from quitmt.errors import ModelError, UsageError
from quitmt.metrics import metricx as module
from quitmt.metrics.devices import Hardware
from quitmt.metrics.metricx import Metricx, MetricxQe
from quitmt.metrics.neural import tokenization
from quitmt.metrics.scorer import KINDS, Example

CPU = Hardware(device="cpu")
EXAMPLES = [
    Example("The weather is nice today.", "O tempo está bom hoje.", "Hoje o tempo está bom."),
    Example("The weather is nice today.", "O tempo está mau.", "Hoje o tempo está bom."),
    Example("The cat.", "O gato.", "O gato."),
    Example("The old house was sold.", "Das alte Haus wurde verkauft.", "Man hat das alte Haus verkauft."),
    Example("今天天气很好。", "今日は天気がいいです。", "天気がいい。"),
    Example("", "", ""),
    Example("No.", "Não. " * 900, "Não."),
    Example("The cat sleeps. " * 400, "O gato dorme.", "Dorme."),
    Example("The dog is waiting at the door.", "O cão espera à porta.", "O cão está à porta."),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_metricx(tmp_path_factory.mktemp("metricx") / "model")


@pytest.fixture(scope="module")
def spiece(folder):
    return (folder / "spiece.model").read_bytes()


@pytest.fixture(scope="module")
def network(folder):
    return transformers.MT5ForConditionalGeneration.from_pretrained(folder).eval()


def published(network, spiece, example, *, with_reference=True):
    """The number of errors, by the logits of all tokens; the tokens by SentencePiece itself."""
    text = f"source: {example.source} candidate: {example.translation}"
    if with_reference:
        text += f" reference: {example.reference}"
    ids = sentencepiece.SentencePieceProcessor(model_proto=spiece).encode(text)[: 1536 - 1]
    with torch.no_grad():
        start = torch.zeros((1, 1), dtype=torch.long)
        logits = network(input_ids=torch.tensor([ids]), decoder_input_ids=start).logits
    return float(logits[0, 0, 250089].clamp(0, 25))


@pytest.mark.parametrize("batch_tokens", [1, 200, 100_000])
@pytest.mark.parametrize("kind", [Metricx, MetricxQe])
def test_scores_are_the_published_ones_negated(kind, batch_tokens, folder, network, spiece):
    expected = [published(network, spiece, one, with_reference=kind is Metricx) for one in EXAMPLES]
    found = kind(str(folder), Hardware(device="cpu", batch_tokens=batch_tokens)).score(EXAMPLES)
    np.testing.assert_allclose(-found, expected, rtol=0, atol=1e-4)
    assert len({round(one, 2) for one in expected}) > 4


def test_scores_are_clamped(folder, network):
    metric = Metricx(str(folder), CPU)
    for factor, bound in ((1000.0, -25.0), (-1000.0, 0.0)):
        metric._answer = network.lm_head.weight[250089].detach() * factor
        assert set(metric.score(EXAMPLES)) == {bound}


def test_kinds_say_that_lower_is_better():
    assert {name for name, kind in KINDS.items() if kind.lower_is_better} == {"metricx", "metricx-qe"}


def test_equal_examples_are_scored_once_and_the_longest_first(folder, monkeypatch):
    metric = Metricx(str(folder), Hardware(device="cpu", batch_tokens=1))
    lengths, inner = [], metric._errors
    monkeypatch.setattr(metric, "_errors", lambda batch: lengths.append(len(batch[0])) or inner(batch))
    found = metric.score([*EXAMPLES, *EXAMPLES[::-1]])
    np.testing.assert_array_equal(found[len(EXAMPLES) :], found[: len(EXAMPLES)][::-1])
    assert len(lengths) == len(EXAMPLES) and lengths == sorted(lengths, reverse=True) and lengths[0] == 1535


def test_a_lack_of_memory_halves_the_batches(folder, monkeypatch):
    metric = Metricx(str(folder), CPU)
    expected, inner = metric.score(EXAMPLES), metric._errors

    def errors(batch):
        if len(batch) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return inner(batch)

    monkeypatch.setattr(metric, "_errors", errors)
    np.testing.assert_allclose(metric.score(EXAMPLES), expected, rtol=0, atol=1e-4)


def test_progress_and_nothing(folder):
    told: list[int] = []
    metric = Metricx(str(folder), Hardware(device="cpu", batch_tokens=300))
    metric.score([*EXAMPLES, *EXAMPLES[:4]], told.append)
    assert sum(told) == len(EXAMPLES) + 4
    assert metric.score([]).shape == (0,)


def test_a_reference_is_needed(folder):
    with pytest.raises(UsageError, match=r"MetricX needs a reference \(metricx-qe does without\)"):
        Metricx(str(folder), CPU).score([Example("a", "b")])
    assert MetricxQe(str(folder), CPU).score([Example("a", "b")]).shape == (1,)


def test_the_signature_names_model_weights_and_precision(folder):
    assert Metricx(str(folder), CPU).signature.startswith(f"metricx|{folder}|w:")
    assert MetricxQe(str(folder), Hardware(device="cpu", dtype="bfloat16")).signature.endswith("|bfloat16")


def test_the_tokenizer_comes_from_the_hub_if_the_folder_has_none(folder, spiece, tmp_path, monkeypatch):
    """With nothing but the one file in the cache: no configuration that would tell its kind."""
    expected = Metricx(str(folder), CPU).score(EXAMPLES)
    bare, cache = tmp_path / "bare", tmp_path / "cache"
    shutil.copytree(folder, bare, ignore=lambda *_: ["spiece.model"])
    (tmp_path / "mt5").mkdir()
    (tmp_path / "mt5" / "spiece.model").write_bytes(spiece)
    add_to_hub(cache, "google/mt5-xl", tmp_path / "mt5")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(cache))
    np.testing.assert_array_equal(Metricx(str(bare), CPU).score(EXAMPLES), expected)


def test_a_tokenizer_file_is_the_same(folder, tmp_path):
    expected = Metricx(str(folder), CPU).score(EXAMPLES)
    other = tmp_path / "other"
    shutil.copytree(folder, other, ignore=lambda *_: ["spiece.model"])
    tokenizer = tokenization.load(str(folder), "T5", "spiece.model", purpose="a test", extra_ids=0)
    tokenizer.save(str(other / "tokenizer.json"))
    np.testing.assert_array_equal(Metricx(str(other), CPU).score(EXAMPLES), expected)


# What goes wrong


def problem(model):
    with pytest.raises(ModelError) as caught:
        Metricx(str(model), CPU)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def copy(folder, tmp_path):
    return shutil.copytree(folder, tmp_path / "copy")


def rewrite(copy, **settings):
    path = copy / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **settings}))


def test_a_model_of_another_kind(copy):
    rewrite(copy, model_type="t5")
    assert problem(copy) == f"{copy} is of the kind t5, and MetricX is an mT5"


def test_a_vocabulary_without_the_answer(copy):
    rewrite(copy, vocab_size=250089)
    assert "has a vocabulary of 250089, too small" in problem(copy)


@pytest.mark.parametrize("size", [0, 100, 10_000])
def test_weights_that_were_cut_off(copy, size):
    path = copy / "model.safetensors"
    path.write_bytes(path.read_bytes()[:size])
    assert problem(copy).startswith(f"the weights of {copy} cannot be loaded: ")


def test_missing_files(copy, monkeypatch, tmp_path):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    (copy / "spiece.model").unlink()
    assert problem(copy).startswith("google/mt5-xl is not in the cache, and the hub cannot be reached")
    (copy / "model.safetensors").unlink()
    assert problem(copy).startswith(f"the folder {copy} has no model.safetensors")
    (copy / "config.json").unlink()
    assert problem(copy).startswith(f"the folder {copy} has no config.json (MetricX takes a folder")
    assert problem("google/metricx-24-hybrid-xxl-v2p6").startswith("google/metricx-24-hybrid-xxl-v2p6 is not in the")


def test_settings_that_are_no_json(copy):
    (copy / "config.json").write_text("{")
    assert problem(copy).startswith(f"config.json of {copy} cannot be read")


def test_the_constants_are_the_published_ones():
    assert (module.ANSWER, module.LONGEST, module.WORST) == (250089, 1536, 25.0)


def test_weights_that_are_not_there_are_not_made_up(copy):
    weights = load_file(copy / "model.safetensors")
    save_file({name: one for name, one in weights.items() if "decoder.block.0" not in name}, copy / "model.safetensors")
    assert problem(copy).startswith(f"{copy} lacks weights of its network, such as decoder.block.0.")


def test_loading_says_nothing(copy, capfd):
    Metricx(str(copy), Hardware())
    assert capfd.readouterr() == ("", "")
