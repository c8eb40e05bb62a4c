"""Our COMET, CometKiwi and xCOMET score as the original does (see tests/comet, whose numbers come from it)."""

from __future__ import annotations

import json

import huggingface_hub.constants
import numpy as np
import pytest
from tests.comet.examples import EXAMPLES
from tests.comet.folders import CHECKPOINTS, MODELS, make_folder, make_hub

from quitmt.metrics.comet import Comet
from quitmt.metrics.devices import Hardware
from quitmt.metrics.kiwi import Kiwi
from quitmt.metrics.scorer import Example
from quitmt.metrics.xcomet import Xcomet, XcometQe

SCORERS = {
    "regression": (Comet, "regression"),
    "regression-norm": (Comet, "regression-norm"),
    "unified": (Kiwi, "unified"),
    "xcomet": (Xcomet, "xcomet"),
    "xcomet-qe": (XcometQe, "xcomet"),
}
GOLDEN = json.loads((CHECKPOINTS.parent / "golden.json").read_text())
THERE = {name: [index for index, row in enumerate(GOLDEN) if row[name]] for name in SCORERS}
"""The examples that the original can score."""
SCORES = {name: np.array([GOLDEN[index][name]["score"] for index in THERE[name]]) for name in SCORERS}
ALL = [Example(*texts) for texts in EXAMPLES]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("checkpoints")
    return {name: make_folder(root, name) for name in MODELS}


def scorer(name, folders, **hardware):
    kind, model = SCORERS[name]
    return kind(str(folders[model]), Hardware(device="cpu", **hardware))


@pytest.mark.parametrize("batch_tokens", [1, 64, 4096])
@pytest.mark.parametrize("name", SCORERS)
def test_scores_are_the_original_s(name, batch_tokens, folders):
    found = scorer(name, folders, batch_tokens=batch_tokens).score(ALL)
    np.testing.assert_allclose(found[THERE[name]], SCORES[name], rtol=0, atol=1e-5)
    assert np.isfinite(found).all()


@pytest.mark.parametrize("name", SCORERS)
def test_scores_come_in_the_order_of_the_examples_and_duplicates_score_alike(name, folders):
    metric, told = scorer(name, folders, batch_tokens=256), []
    there = [ALL[index] for index in THERE[name]]
    found = metric.score([*there[::-1], *there[:5], there[0]], told.append)
    np.testing.assert_allclose(found, [*SCORES[name][::-1], *SCORES[name][:5], SCORES[name][0]], rtol=0, atol=1e-5)
    assert found[-1] == found[-6] == found[len(there) - 1]
    assert sum(told) == len(there) + 6 and len(told) > 2
    assert metric.score([]).shape == (0,)


@pytest.mark.parametrize("name", SCORERS)
def test_a_name_on_the_hub_is_the_same_as_its_folder(name, tmp_path, monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(make_hub(tmp_path)))
    monkeypatch.chdir(tmp_path)
    kind, model = SCORERS[name]
    metric = kind(f"Unbabel/tiny-{model}", Hardware(device="cpu"))
    found = metric.score([ALL[index] for index in THERE[name][:9]])
    np.testing.assert_allclose(found, SCORES[name][:9], rtol=0, atol=1e-5)
    assert f"|Unbabel/tiny-{model}|w:" in metric.signature


@pytest.mark.parametrize("name", SCORERS)
def test_half_precision_is_close(name, folders):
    metric = scorer(name, folders, dtype="bfloat16")
    found, expected = metric.score([ALL[index] for index in THERE[name]]), SCORES[name]
    assert not np.allclose(found, expected, rtol=0, atol=1e-5)
    assert np.corrcoef(found, expected)[0, 1] > 0.95
    assert metric.signature.endswith("|bfloat16")
