"""What goes wrong between a name and its files, in one sentence each. Nothing here reaches for the network."""

from __future__ import annotations

import types

import huggingface_hub
import huggingface_hub.constants
import pytest
from huggingface_hub import errors
from tests.comet.folders import CHECKPOINTS, add_to_hub, make_hub

from quitmt.errors import ModelError
from quitmt.metrics.comet import Comet
from quitmt.metrics.devices import Hardware
from quitmt.metrics.neural import hub


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    root = tmp_path / "cache"
    root.mkdir()
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(root))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.chdir(tmp_path)
    return root


@pytest.fixture
def refused(monkeypatch):
    """Let each download fail in one way."""

    def refuse(kind):
        response = types.SimpleNamespace(headers={}, request=None, status_code=403)

        def download(model, name):
            raise kind("a page\nof explanations", response=response)

        monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)

    return refuse


def problem(model="Unbabel/wmt22-comet-da"):
    with pytest.raises(ModelError) as caught:
        Comet(model, Hardware(device="cpu"))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_no_network_and_nothing_cached():
    assert problem() == (
        "Unbabel/wmt22-comet-da is not in the cache, and the hub cannot be reached (download it on a machine "
        "with a network with `hf download Unbabel/wmt22-comet-da`, or name a folder that holds it)"
    )


def test_a_network_that_fails_in_a_way_of_its_own(monkeypatch):
    def download(model, name):
        raise ConnectionResetError("by peer")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    assert "the hub cannot be reached" in problem()


def test_a_checkpoint_that_is_cached_without_its_encoder(cache):
    add_to_hub(cache, "Unbabel/tiny-regression", CHECKPOINTS / "regression")
    assert problem("Unbabel/tiny-regression").startswith("encoder is not in the cache")


def test_a_gated_model_says_how_to_get_access(refused):
    refused(errors.GatedRepoError)
    assert problem("Unbabel/wmt22-comet-da") == (
        "Unbabel/wmt22-comet-da is gated: its authors want to know who uses it (accept its licence at "
        "https://huggingface.co/Unbabel/wmt22-comet-da, then log in with `hf auth login` or set HF_TOKEN)"
    )


def test_a_model_that_is_not_there(refused):
    refused(errors.RepositoryNotFoundError)
    assert problem("Unbabel/comet-99").startswith("there is no model Unbabel/comet-99 on the hub (check the name")


def test_a_model_without_the_file(refused):
    refused(errors.RemoteEntryNotFoundError)
    assert problem("org/bert") == "org/bert has no hparams.yaml (COMET needs it)"


@pytest.mark.parametrize("model", ["no spaces please", "a--b", "x" * 120, "comet:22"])
def test_a_name_that_can_be_neither(model):
    assert problem(model) == f"{model!r} is neither a folder nor a name on the hub"


@pytest.mark.parametrize("model", ["./nowhere", "/nowhere/at/all", "~/nowhere-at-all", "a/b/c"])
def test_a_folder_that_is_not_there(model):
    assert problem(model).startswith(f"the folder {model} is not there (COMET takes a folder or a name")


def test_what_is_cached_is_taken_without_asking(cache, monkeypatch):
    make_hub(cache)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", None)
    assert Comet("Unbabel/tiny-regression", Hardware(device="cpu")).score([]).shape == (0,)


def test_either_of_two_files(tmp_path, cache, monkeypatch):
    folder = tmp_path / "model"
    folder.mkdir()
    with pytest.raises(ModelError, match=r"model has no one.json"):
        hub.either(str(folder), "one.json", "two.model", purpose="a test")
    (folder / "two.model").write_text("")
    assert hub.either(str(folder), "one.json", "two.model", purpose="a test") == folder / "two.model"
    (folder / "one.json").write_text("")
    assert hub.either(str(folder), "one.json", "two.model", purpose="a test") == folder / "one.json"


def test_either_of_two_files_on_the_hub(tmp_path, refused, monkeypatch):
    """As microsoft/infoxlm-large may be: no tokenizer.json, and the other one not downloaded yet."""
    refused(errors.RemoteEntryNotFoundError)
    absent = huggingface_hub.hf_hub_download
    path = tmp_path / "two.model"
    monkeypatch.setattr(
        huggingface_hub, "hf_hub_download", lambda m, name: path if name == "two.model" else absent(m, name)
    )
    assert hub.either("org/model", "one.json", "two.model", purpose="a test") == path
