"""What is committed here is what the original makes: the checkpoints from their seed, the golden scores from them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from tests.comet import make

HERE = Path(__file__).parent
COMMITTED = HERE / "checkpoints"


@pytest.fixture(scope="module", autouse=True)
def quiet() -> None:
    make.quiet()


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoints")
    make.make_encoders(folder)
    for name in make.MODELS:
        make.make_model(folder, name)
    return folder


def weights(folder: Path, name: str) -> dict[str, torch.Tensor]:
    return torch.load(folder / name / "checkpoints" / "model.ckpt", weights_only=True)["state_dict"]


@pytest.mark.parametrize("name", make.MODELS)
def test_the_committed_checkpoint_is_what_the_seed_makes(name: str, fresh: Path) -> None:
    committed, made = weights(COMMITTED, name), weights(fresh, name)
    assert list(committed) == list(made)
    for key, tensor in made.items():
        torch.testing.assert_close(committed[key], tensor, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("path", ["encoder/tokenizer.json", "encoder/config.json", "encoder-xl/config.json"])
def test_the_committed_encoder_is_what_the_sentences_make(path: str, fresh: Path) -> None:
    committed, made = (json.loads((folder / path).read_text()) for folder in (COMMITTED, fresh))
    for settings in (committed, made):
        settings.pop("transformers_version", None)
    assert committed == made


def test_the_committed_sentencepiece_is_what_the_sentences_make(fresh: Path) -> None:
    name = "encoder-xl/sentencepiece.bpe.model"
    assert (COMMITTED / name).read_bytes() == (fresh / name).read_bytes()


@pytest.mark.parametrize("name", [*make.MODELS, "xcomet-qe"])
def test_the_golden_scores_are_the_original_s(name: str) -> None:
    golden = [row[name] for row in json.loads((HERE / "golden.json").read_text())]
    found = make.score(COMMITTED, name.removesuffix("-qe"), with_reference=not name.endswith("-qe"))
    assert [row is None for row in golden] == [row is None for row in found]
    for expected, row in zip(filter(None, golden), filter(None, found), strict=True):
        assert row == pytest.approx(expected, abs=1e-6)
