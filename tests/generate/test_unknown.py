"""What generators say of themselves for remarks: whether they are for single sentences, and what they do not know."""

from __future__ import annotations

from pathlib import Path

import pytest

from quitmt.generate.bergamot import BergamotGenerator
from quitmt.protocols import GeneratorTraits, traits_of
from quitmt.sampling import Sampling

pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")


def test_the_embedded_model() -> None:
    generator = BergamotGenerator("embedded:en-pt")
    assert traits_of(generator, GeneratorTraits).sentence_level
    assert generator.unknown("The door is open, são José!") == ""
    assert generator.unknown("I love 🍕 and 水 and 🍕.") == "🍕水"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("zoo")


@pytest.mark.parametrize(("kind", "single"), [("marian", True), ("nllb", True), ("m2m100", True), ("madlad", False)])
def test_transformers(folder: Path, kind: str, single: bool) -> None:
    pytest.importorskip("torch")
    from tests.models.zoo import Zoo

    from quitmt.generate.huggingface import HuggingFaceGenerator

    path = str(Zoo(folder).folder(kind))
    generator = HuggingFaceGenerator(path, Sampling(), languages=("en", "pt"))
    assert traits_of(generator, GeneratorTraits).sentence_level is single
    assert generator.unknown("The weather is nice today.") == ""
    if kind != "madlad":  # the tiny one's tokenizer gives another token for what it does not know
        assert generator.unknown("The weather is ☃ today.") == "☃"


@pytest.mark.parametrize("kind", ["marian", "nllb"])
def test_ctranslate2(folder: Path, kind: str) -> None:
    pytest.importorskip("ctranslate2")
    pytest.importorskip("transformers")
    from tests.models.zoo import Zoo

    from quitmt.generate.ctranslate2 import CTranslate2Generator

    path = str(getattr(Zoo(folder), f"converted_{kind}"))
    generator = CTranslate2Generator(path, Sampling(), languages=("en", "pt"), device="cpu")
    assert traits_of(generator, GeneratorTraits).sentence_level
    assert generator.unknown("The weather is nice today.") == ""
    assert generator.unknown("The weather is ☃ today.") == "☃"


def test_a_chat_model_translates_unless_its_prompt_is_for_something_else(folder: Path) -> None:
    pytest.importorskip("torch")
    from tests.models.zoo import Zoo

    from quitmt.generate.huggingface import HuggingFaceGenerator

    path = str(Zoo(folder).folder("chat"))
    for prompt, translates in ((None, True), ("plain", False)):
        generator = HuggingFaceGenerator(path, Sampling(), languages=("en", "pt"), prompt=prompt)
        assert traits_of(generator, GeneratorTraits) == GeneratorTraits(translates=translates, takes_seeds=True)
