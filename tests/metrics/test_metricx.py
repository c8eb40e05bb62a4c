"""MetricX against its published arithmetic, computed here from the whole logits of a tiny seeded mT5."""

from __future__ import annotations

import json
import re
import shutil
from copy import deepcopy

import huggingface_hub.constants
import numpy as np
import pytest
import sentencepiece
import torch
import transformers
from tests.comet.folders import add_to_hub
from tests.metrics.neural import watch
from tests.metrics.neural.tiny_metricx import make_metricx

from quitmt.errors import ModelError, UsageError
from quitmt.metrics.devices import Hardware
from quitmt.metrics.metricx import Metricx, MetricxQe
from quitmt.metrics.neural import tokenization
from quitmt.metrics.registry import SCORING_MODELS
from quitmt.metrics.scorer import Example

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


@pytest.fixture(scope="module")
def errors(network, spiece):
    """The published scores of all examples."""
    return {
        kind: [published(network, spiece, one, with_reference=kind is Metricx) for one in EXAMPLES]
        for kind in (Metricx, MetricxQe)
    }


@pytest.fixture(scope="module")
def metric(folder):
    return Metricx(str(folder), CPU)


@pytest.mark.parametrize("batch_tokens", [1, 200, 100_000])
@pytest.mark.parametrize("kind", [Metricx, MetricxQe])
def test_scores_are_the_published_ones_negated(kind, batch_tokens, folder, errors):
    few = 6 if batch_tokens > 1000 else len(EXAMPLES)  # padding all to the longest would take long
    found = kind(str(folder), Hardware(device="cpu", batch_tokens=batch_tokens)).score(EXAMPLES[:few])
    np.testing.assert_allclose(-found, errors[kind][:few], rtol=0, atol=1e-4)
    assert len({round(one, 2) for one in errors[kind]}) > 4


def test_scores_are_clamped(copy, network):
    extreme = deepcopy(network)
    for factor, bound in ((1000.0, -25.0), (-1.0, 0.0)):
        with torch.no_grad():
            extreme.lm_head.weight[250089] *= factor
        extreme.save_pretrained(copy)
        assert set(Metricx(str(copy), CPU).score(EXAMPLES[:4])) == {bound}


def test_kinds_say_that_lower_is_better():
    assert {name for name, kind in SCORING_MODELS.items() if kind.lower_is_better} == {"metricx", "metricx-qe"}


def test_equal_examples_are_scored_once_and_the_longest_first(folder):
    metric = Metricx(str(folder), Hardware(device="cpu", batch_tokens=1))
    with watch.batches() as read:
        found = metric.score([*EXAMPLES, *EXAMPLES[::-1]])
    lengths = [length for _, length in read if length > 1]  # the decoder reads one token
    np.testing.assert_array_equal(found[len(EXAMPLES) :], found[: len(EXAMPLES)][::-1])
    assert len(lengths) == len(EXAMPLES) and lengths == sorted(lengths, reverse=True) and lengths[0] == 1535


def test_a_lack_of_memory_halves_the_batches(folder, errors):
    metric = Metricx(str(folder), CPU)
    with watch.out_of_memory(watch.tokens_above(1600)):
        np.testing.assert_allclose(-metric.score(EXAMPLES), errors[Metricx], rtol=0, atol=1e-4)
    assert metric.batcher.tokens < 1600


def test_progress_adds_up_to_the_number_of_examples(metric):
    told: list[int] = []
    metric.score([*EXAMPLES, *EXAMPLES[:4]], told.append)
    assert sum(told) == len(EXAMPLES) + 4 and len(told) > 2
    assert metric.score([]).shape == (0,)


def test_a_reference_is_needed(folder, metric):
    with pytest.raises(UsageError, match=r"MetricX needs a reference \(metricx-qe needs none\)"):
        metric.score([Example("a", "b")])


def test_the_signature_names_model_weights_and_precision(folder, metric):
    assert re.fullmatch(rf"metricx\|{re.escape(str(folder))}\|w:[0-9a-f]{{8}}\|float32", metric.signature)
    assert MetricxQe(str(folder), Hardware(device="cpu", dtype="bfloat16")).signature.endswith("|bfloat16")


def test_the_tokenizer_comes_from_the_hub_if_the_folder_has_none(folder, metric, spiece, tmp_path, monkeypatch):
    """With nothing but the one file in the cache: no configuration that would tell its kind."""
    expected = metric.score(EXAMPLES)
    bare, cache = tmp_path / "bare", tmp_path / "cache"
    shutil.copytree(folder, bare, ignore=lambda *_: ["spiece.model"])
    (tmp_path / "mt5").mkdir()
    (tmp_path / "mt5" / "spiece.model").write_bytes(spiece)
    add_to_hub(cache, "google/mt5-xl", tmp_path / "mt5")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(cache))
    np.testing.assert_array_equal(Metricx(str(bare), CPU).score(EXAMPLES), expected)


def test_a_tokenizer_file_is_the_same(folder, metric, tmp_path):
    expected = metric.score(EXAMPLES)
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


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_files_that_are_missing(copy, name):
    (copy / name).unlink()
    assert f"has no {name} (MetricX takes a folder" in problem(copy)


def test_loading_says_nothing(folder, capfd):
    Metricx(str(folder), Hardware())
    assert capfd.readouterr() == ("", "")
