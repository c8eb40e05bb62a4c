"""CTranslate2 models: the contract on converted tiny models, and CTranslate2's own scoring as the oracle."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ctranslate2 = pytest.importorskip("ctranslate2")
transformers = pytest.importorskip("transformers")

from tests.contract.generators import (  # noqa: E402
    SEGMENTS,
    BeamContract,
    Fresh,
    SamplingContract,
    draw,
    error_of,
    everything,
)
from tests.models.zoo import Zoo  # noqa: E402

from quitmt.errors import GenerationError, MissingExtra, ModelError, UsageError  # noqa: E402
from quitmt.generate import ctranslate2 as backend  # noqa: E402
from quitmt.generate.ctranslate2 import CTranslate2Generator  # noqa: E402
from quitmt.generate.decoding.tokenization import Tokenization, load_tokenization  # noqa: E402
from quitmt.protocols import GeneratorTraits, traits_of  # noqa: E402
from quitmt.sampling import Sampling  # noqa: E402
from quitmt.types import Request, Segment  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
LONG = Segment("long", "The weather is nice today. " * 40)


def load(zoo: Zoo, sampling: Sampling | None = None, **options: Any) -> CTranslate2Generator:
    return CTranslate2Generator(str(zoo.converted_marian), sampling or Sampling(1.0, seed=3), device="cpu", **options)


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The Translators that are built during a test: one when a model is loaded, one per chunk of samples."""
    found, build = [], ctranslate2.Translator
    monkeypatch.setattr(ctranslate2, "Translator", lambda *a, **b: found.append(build(*a, **b)) or found[-1])
    return found


class TestContract(SamplingContract):
    @pytest.fixture(params=["marian", "nllb"])
    def make(self, zoo: Zoo, request: pytest.FixtureRequest) -> Callable[..., CTranslate2Generator]:
        folder = getattr(zoo, f"converted_{request.param}")

        def make(seed: int = 3) -> CTranslate2Generator:
            return CTranslate2Generator(str(folder), Sampling(1.0, seed=seed), languages=("en", "pt"), max_tokens=16)

        return make


class TestAnchors(BeamContract):
    @pytest.fixture(params=["marian", "nllb"])
    def fresh(self, zoo: Zoo, request: pytest.FixtureRequest) -> Fresh:
        folder = str(getattr(zoo, f"converted_{request.param}"))
        return lambda sampling: CTranslate2Generator(folder, sampling, languages=("en", "pt"), max_tokens=16)


def test_candidates_repeat_to_the_last_digit(zoo: Zoo) -> None:
    assert everything(load(zoo)) == everything(load(zoo))


def test_chunks_are_not_sorted_and_not_alike(zoo: Zoo) -> None:
    found = draw(load(zoo), [Request(SEGMENTS[1], 0, 512)])
    scores = np.array([found["2", i].log_probability for i in range(512)]).reshape(8, 64)
    assert len({row.tobytes() for row in np.sort(scores)}) == 8
    ranks = scores.argsort(axis=1).argsort(axis=1)
    assert abs(ranks[:, :8].mean() - 31.5) < 8  # 3.7 standard deviations; sorted ones would be 28 off
    assert (ranks[:, 0] == 63).sum() <= 1


def test_log_probabilities_are_the_model_s_own(zoo: Zoo, monkeypatch: pytest.MonkeyPatch) -> None:
    def with_tokens_as_text(*given: Any) -> Tokenization:
        return dataclasses.replace(load_tokenization(*given), decode=" ".join)

    monkeypatch.setattr(backend, "load_tokenization", with_tokens_as_text)
    translator, compared = ctranslate2.Translator(str(zoo.converted_marian)), 0
    source = load_tokenization(zoo.converted_marian, "marian", (None, None)).encode(SEGMENTS[0].source)
    for sampling in (Sampling(1.0), Sampling(1.4, top_k=20), Sampling(0.7, top_p=0.8)):
        for candidate in draw(load(zoo, sampling), [Request(SEGMENTS[0], 0, 16)]).values():
            (scored,) = translator.score_batch([source], [candidate.text.split()])
            if candidate.tokens == len(scored.log_probs):  # ended by itself
                assert candidate.log_probability == pytest.approx(sum(scored.log_probs), abs=1e-3)
                compared += 1
    assert compared > 30


def test_the_first_token_follows_the_distribution(zoo: Zoo) -> None:
    generator = load(zoo, Sampling(1.0, seed=9), max_tokens=1)
    count = 64 * 30
    found = draw(generator, [Request(SEGMENTS[0], 0, count)]).values()
    # The end and what is unknown are no text. Several tokens may be the same text; they are told apart by their
    # probability, which batches round differently.
    chances = dict[str, list[float]]()
    for one in found:
        if one.text:
            chances.setdefault(one.text, []).append(float(np.exp(one.log_probability)))
    groups = [np.split(np.sort(each), np.flatnonzero(np.diff(np.sort(each)) > 1e-5) + 1) for each in chances.values()]
    for group in chain.from_iterable(groups):
        chance, times = group.mean(), len(group)
        assert abs(times / count - chance) < 5 * np.sqrt(chance / count) + 1 / count


def test_greedy_is_ctranslate2_s_own_and_transformers(zoo: Zoo) -> None:
    found = draw(load(zoo, Sampling(0.0)), [Request(segment, 0, 3) for segment in SEGMENTS])
    tokenizer = transformers.AutoTokenizer.from_pretrained(zoo.folder("marian"))
    network = transformers.AutoModelForSeq2SeqLM.from_pretrained(zoo.folder("marian"))
    for segment in SEGMENTS:
        assert found[segment.id, 0] == found[segment.id, 2]
        given = tokenizer(segment.source, return_tensors="pt")
        limit = 3 * given.input_ids.shape[1] + 10
        output = network.generate(**given, do_sample=False, num_beams=1, max_new_tokens=limit)
        assert found[segment.id, 0].text == tokenizer.decode(output[0], skip_special_tokens=True)


@pytest.mark.parametrize("kind", ["marian", "nllb"])
def test_beams_are_ctranslate2_s_own(zoo: Zoo, kind: str) -> None:
    folder, size = getattr(zoo, f"converted_{kind}"), 5
    generator = CTranslate2Generator(
        str(folder), Sampling(beam=size), languages=("en", "pt"), device="cpu", max_tokens=16
    )
    tokenization, translator = load_tokenization(folder, kind, ("en", "pt")), ctranslate2.Translator(str(folder))
    found, prefix = draw(generator, [Request(segment, 0, size) for segment in SEGMENTS]), tokenization.prefix
    for segment in SEGMENTS:
        source = tokenization.encode(segment.source)
        (theirs,) = translator.translate_batch(
            [source], target_prefix=[prefix] if prefix else None, beam_size=size, num_hypotheses=size,
            max_decoding_length=16, return_scores=True, min_decoding_length=0,
        )  # fmt: skip
        for index, tokens in enumerate(theirs.hypotheses):
            ours = found[segment.id, index]
            assert ours.text == tokenization.decode(tokens[len(prefix) :])
            (scored,) = translator.score_batch([source], [tokens])
            own = scored.log_probs[len(prefix) :]
            if ours.tokens == len(own):  # ended by itself
                assert ours.log_probability == pytest.approx(sum(own), abs=1e-3)
            assert ours.log_probability == pytest.approx(theirs.scores[index] * (ours.tokens + len(prefix)), abs=1e-3)


def test_one_translator_serves_all_that_draws_nothing(zoo: Zoo, built: list[Any]) -> None:
    generator = load(zoo)
    greedy, beam = generator.resampled(Sampling(0.0)), generator.resampled(Sampling(beam=3))
    built.clear()
    for part in (greedy, beam, greedy):
        draw(part, [Request(segment, 0, 3) for segment in SEGMENTS])
    assert len(built) == 1


def test_top_k_and_top_p_cut_off(zoo: Zoo) -> None:
    def variety(sampling: Sampling) -> int:
        return len({c.text for c in draw(load(zoo, sampling, max_tokens=1), [Request(SEGMENTS[0], 0, 256)]).values()})

    assert variety(Sampling(1.0, top_k=3)) == 3
    assert variety(Sampling(5.0, top_k=1)) == 1
    assert 1 < variety(Sampling(1.0, top_p=0.5)) < variety(Sampling(1.0))


@pytest.mark.parametrize("name", ["epsilon", "min_p"])
def test_what_it_does_not_have_is_refused(zoo: Zoo, name: str) -> None:
    with pytest.raises(UsageError, match=name):
        load(zoo, Sampling(1.0, **{name: 0.1}))
    with pytest.raises(UsageError, match=name):
        load(zoo).resampled(Sampling(1.0, **{name: 0.1}))


def test_chunks_are_computed_once_and_kept_until_their_segment_is_closed(
    zoo: Zoo, built: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = load(zoo)

    def chunks(segment: Segment, *starts: int) -> int:
        """How many are computed for some asks."""
        built.clear()
        for start in starts:
            draw(generator, [Request(segment, start, start + 8)])
        return len(built)

    assert chunks(SEGMENTS[0], *range(0, 128, 8)) == 4
    assert chunks(SEGMENTS[0], 0, 64) == 0
    generator.close(SEGMENTS[0])
    assert chunks(SEGMENTS[0], 0) == 1
    monkeypatch.setattr(backend, "CHUNKS_KEPT", 1)
    assert [chunks(SEGMENTS[1], 0), chunks(SEGMENTS[1], 0), chunks(SEGMENTS[0], 0)] == [1, 0, 1]


def test_a_source_that_is_too_long(zoo: Zoo) -> None:
    generator = load(zoo)
    error = error_of(generator, LONG)
    assert isinstance(error, GenerationError) and "takes 96" in str(error)
    assert len(draw(generator, [Request(SEGMENTS[0], 0, 2)])) == 2


def test_running_into_the_last_position_is_no_failure(zoo: Zoo) -> None:
    generator = load(zoo, Sampling(50.0, seed=1), max_tokens=400)
    found = draw(generator, [Request(SEGMENTS[0], 0, 64)])
    assert max(candidate.tokens or 0 for candidate in found.values()) == 95
    assert found == draw(load(zoo, Sampling(50.0, seed=1), max_tokens=95), [Request(SEGMENTS[0], 0, 64)])


def test_languages(zoo: Zoo, tmp_path: Path) -> None:
    nllb = load_tokenization(zoo.converted_nllb, "nllb", ("en", "zh-Hant"))
    assert nllb.prefix == ["zho_Hant"] and nllb.encode("No.")[0] == "eng_Latn"
    with pytest.raises(UsageError, match="Klingon"):
        load_tokenization(zoo.converted_nllb, "nllb", ("en", "tlh"))
    for name in ("source.spm", "target.spm"):
        (tmp_path / name).write_bytes((zoo.converted_marian / name).read_bytes())
    (tmp_path / "shared_vocabulary.json").write_text('["</s>", ">>por<<", ">>deu<<"]')
    assert load_tokenization(tmp_path, "opus", ("en", "de")).encode("No.")[0] == ">>deu<<"
    with pytest.raises(UsageError, match="several target languages"):
        load_tokenization(tmp_path, "opus", ("en", None))
    (tmp_path / "shared_vocabulary.json").write_text('["</s>", "eng_Latn", "deu_Latn"]')
    with pytest.raises(ModelError, match="Hugging Face tokenizer"):
        load_tokenization(tmp_path, "nllb", ("en", "de"))


def test_pieces_of_both_sides_decode_as_in_transformers(zoo: Zoo) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(zoo.folder("marian", apart=True))
    tokenization = load_tokenization(zoo.converted_marian_apart, "apart", ("en", "pt"))
    draws, size = np.random.default_rng(0), len(tokenizer)
    for length in [1, 2, 3, 5, 8, 20] * 100:
        ids = draws.integers(0, size, length).tolist()
        tokens = tokenizer.convert_ids_to_tokens(ids)
        assert tokenization.decode(tokens) == tokenizer.decode(ids, skip_special_tokens=True), tokens


def test_no_mark_of_a_space_reaches_a_candidate(zoo: Zoo) -> None:
    generator = CTranslate2Generator(str(zoo.converted_marian_apart), Sampling(1.0, seed=3), device="cpu")
    found = draw(generator, [Request(segment, 0, 64) for segment in SEGMENTS]).values()
    assert any(" " in candidate.text for candidate in found)
    assert not any("\u2581" in candidate.text for candidate in found)


def test_one_sentencepiece_file_serves_both_sides(zoo: Zoo, tmp_path: Path) -> None:
    for name in ("model.bin", "config.json", "shared_vocabulary.json"):
        (tmp_path / name).write_bytes((zoo.converted_marian / name).read_bytes())
    (tmp_path / "sentencepiece.model").write_bytes((zoo.converted_marian / "source.spm").read_bytes())
    alike = CTranslate2Generator(str(tmp_path), Sampling(1.0, seed=3), device="cpu")
    assert draw(alike, [Request(SEGMENTS[0], 0, 8)]) == draw(load(zoo), [Request(SEGMENTS[0], 0, 8)])


def test_models_that_cannot_be_used(zoo: Zoo, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no CTranslate2 model"):
        CTranslate2Generator(str(tmp_path / "nowhere"), Sampling())
    for name in ("model.bin", "config.json", "shared_vocabulary.json"):
        (tmp_path / name).write_bytes((zoo.converted_marian / name).read_bytes())
    with pytest.raises(ModelError, match=r"no tokenizer.*looked for source\.spm"):
        CTranslate2Generator(str(tmp_path), Sampling())
    (tmp_path / "spm.model").write_bytes(b"nothing")
    with pytest.raises(ModelError, match="SentencePiece"):
        CTranslate2Generator(str(tmp_path), Sampling())
    (tmp_path / "spm.model").write_bytes((zoo.converted_marian / "source.spm").read_bytes())
    (tmp_path / "model.bin").write_bytes(b"nothing")
    with pytest.raises(ModelError, match="cannot load"):
        CTranslate2Generator(str(tmp_path), Sampling())


@pytest.mark.parametrize("kind", ["marian", "nllb"])
def test_traits_and_characters_that_the_vocabulary_lacks(zoo: Zoo, kind: str) -> None:
    path = str(getattr(zoo, f"converted_{kind}"))
    generator = CTranslate2Generator(path, Sampling(), languages=("en", "pt"), device="cpu")
    assert traits_of(generator, GeneratorTraits).sentence_level
    assert generator.unknown("The weather is nice today.") == ""
    assert generator.unknown("The weather is ☃ today.") == "☃"


def test_an_unknown_compute_type(zoo: Zoo) -> None:
    with pytest.raises(UsageError, match="CTranslate2 refuses"):
        load(zoo, compute_type="int3")


def test_without_ctranslate2(zoo: Zoo, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = zoo.converted_marian
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(MissingExtra, match=r"quitmt\[ct2\]"):
        CTranslate2Generator(str(folder), Sampling())
