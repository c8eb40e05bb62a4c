"""Hugging Face models: the contract on tiny models of every family, and transformers itself as the oracle."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tests.contract.generators import (  # noqa: E402
    SEGMENTS,
    BeamContract,
    Fresh,
    SamplingContract,
    collect,
    draw,
    error_of,
    everything,
    same,
)
from tests.models.zoo import Zoo  # noqa: E402

from quitmt.errors import GenerationError, MissingExtra, ModelError, UsageError  # noqa: E402
from quitmt.generate.decoding import hypotheses  # noqa: E402
from quitmt.generate.huggingface import HuggingFaceGenerator  # noqa: E402
from quitmt.generate.prompts import template  # noqa: E402
from quitmt.protocols import GeneratorTraits, traits_of  # noqa: E402
from quitmt.sampling import Sampling  # noqa: E402
from quitmt.types import Request, Segment  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
KINDS = ("marian", "m2m100", "nllb", "madlad", "chat")
LONG = Segment("long", "The weather is nice today. " * 40)


@pytest.fixture(scope="module", autouse=True)
def few_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def load(zoo: Zoo, kind: str, sampling: Sampling | None = None, **options: Any) -> HuggingFaceGenerator:
    options = {"languages": ("en", "pt"), "max_tokens": 12, **options}
    return HuggingFaceGenerator(str(zoo.folder(kind)), sampling or Sampling(1.0, seed=3), **options)


@dataclass
class Loaded:
    """What transformers has loaded during a test; the last ones are those of the last generator."""

    networks: list[Any] = field(default_factory=list)
    tokenizers: list[Any] = field(default_factory=list)

    @property
    def network(self) -> Any:
        return self.networks[-1]

    @property
    def ends(self) -> set[int]:
        """The tokens that end a text."""
        ends = self.network.generation_config.eos_token_id
        return {ends} if isinstance(ends, int) else set(ends)

    def count_rows(self) -> list[int]:
        """The rows of each step from now on, including the first of each segment."""
        rows: list[int] = []
        self.network.get_output_embeddings().register_forward_hook(lambda _, given, __: rows.append(len(given[0])))
        return rows

    def count_openings(self) -> list[int]:
        """The lengths of the sources or prompts that are computed from now on."""
        lengths: list[int] = []
        encodes = self.network.config.is_encoder_decoder
        seen = self.network.get_encoder() if encodes else self.network.get_input_embeddings()

        def note(_: Any, given: tuple[Any, ...], named: dict[str, Any], __: Any) -> None:
            length = (given[0] if given else named["input_ids"]).shape[-1]
            if encodes or length > 1:
                lengths.append(length)

        seen.register_forward_hook(note, with_kwargs=True)
        return lengths

    def starve(self, most: int) -> list[int]:
        """Let the network run out of memory with more rows than ``most``; the row counts at which it did."""
        failures: list[int] = []

        def check(_: Any, given: Any) -> None:
            if len(given[0]) > most:
                failures.append(len(given[0]))
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB")

        self.network.get_output_embeddings().register_forward_pre_hook(check)
        return failures

    def decode_as(self, text: Callable[[list[int]], str]) -> None:
        self.tokenizers[-1].decode = lambda tokens, **_: text(tokens)


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> Loaded:
    found = Loaded()

    def record(kind: Any, into: list[Any]) -> None:
        original = kind.from_pretrained
        monkeypatch.setattr(kind, "from_pretrained", lambda *a, **b: into.append(original(*a, **b)) or into[-1])

    record(transformers.AutoModelForSeq2SeqLM, found.networks)
    record(transformers.AutoModelForCausalLM, found.networks)
    record(transformers.AutoTokenizer, found.tokenizers)
    return found


def load_with_tokens(zoo: Zoo, kind: str, loaded: Loaded, sampling: Sampling) -> HuggingFaceGenerator:
    """One whose candidates' texts are their tokens, without those that end them."""
    generator = load(zoo, kind, sampling, max_tokens=20, **({"clean": False} if kind == "chat" else {}))
    loaded.decode_as(lambda tokens: " ".join(map(str, tokens)))
    return generator


class TestContract(SamplingContract):
    @pytest.fixture(params=["marian", "chat"])
    def make(self, zoo: Zoo, request: pytest.FixtureRequest) -> Callable[..., HuggingFaceGenerator]:
        return lambda seed=3: load(zoo, request.param, Sampling(1.0, seed=seed))


class TestAnchors(BeamContract):
    @pytest.fixture(params=["nllb", "chat"])
    def fresh(self, zoo: Zoo, request: pytest.FixtureRequest) -> Fresh:
        return lambda sampling: load(zoo, request.param, sampling)


def test_pools_do_not_depend_on_the_batch(zoo: Zoo, kind: str) -> None:
    def make(batch: int) -> HuggingFaceGenerator:
        return load(zoo, kind, Sampling(1.3, top_k=20, top_p=0.9, epsilon=0.01, seed=1), batch=batch)

    assert same(everything(make(64)), everything(make(13)))


# transformers as the oracle


@pytest.fixture
def inputs(zoo: Zoo, kind: str) -> Callable[[Segment], dict[str, Any]]:
    """What transformers' own ``generate`` is given for a segment."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(zoo.folder(kind))
    forced = {}
    if kind == "m2m100":
        tokenizer.src_lang, forced = "en", {"forced_bos_token_id": tokenizer.get_lang_id("pt")}
    elif kind == "nllb":
        tokenizer.src_lang, forced = "eng_Latn", {"forced_bos_token_id": tokenizer.convert_tokens_to_ids("por_Latn")}

    def of(segment: Segment) -> dict[str, Any]:
        if kind == "chat":
            content = template.made(None, str(zoo.folder(kind)), ("en", "pt")).messages(segment)
            text = tokenizer.apply_chat_template(content, tokenize=False, add_generation_prompt=True)
            ids = tokenizer(text, add_special_tokens=False, return_tensors="pt").input_ids
        else:
            ids = tokenizer(("<2pt> " if kind == "madlad" else "") + segment.source, return_tensors="pt").input_ids
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), **forced}

    return of


def test_greedy_is_transformers_own_greedy(
    zoo: Zoo, kind: str, loaded: Loaded, inputs: Callable[[Segment], dict[str, Any]]
) -> None:
    found = draw(load_with_tokens(zoo, kind, loaded, Sampling(0.0)), [Request(segment, 0, 2) for segment in SEGMENTS])
    for segment in SEGMENTS:
        given = inputs(segment)
        extra = 1 if "forced_bos_token_id" in given else 0
        theirs = loaded.network.generate(**given, do_sample=False, num_beams=1, max_new_tokens=20 + extra)[0]
        begun = given["input_ids"].shape[1] if kind == "chat" else 1 + extra
        theirs = theirs[begun:].tolist()
        assert found[segment.id, 0] == found[segment.id, 1]
        assert found[segment.id, 0].text.split() == [str(token) for token in theirs if token not in loaded.ends]
        assert found[segment.id, 0].tokens == len(theirs)


def test_beams_are_transformers_own(
    zoo: Zoo, kind: str, loaded: Loaded, inputs: Callable[[Segment], dict[str, Any]]
) -> None:
    size = 4
    generator = load_with_tokens(zoo, kind, loaded, Sampling(beam=size))
    ends = loaded.ends
    found = draw(generator, [Request(segment, 0, size) for segment in SEGMENTS])
    for segment in SEGMENTS:
        given = inputs(segment)
        extra = 1 if "forced_bos_token_id" in given else 0
        theirs = loaded.network.generate(
            **given, do_sample=False, num_beams=size, num_return_sequences=size, max_new_tokens=20 + extra,
            length_penalty=1.0, early_stopping=False, return_dict_in_generate=True, output_scores=True,
        )  # fmt: skip
        begun = given["input_ids"].shape[1] if kind == "chat" else 1 + extra
        for index, row in enumerate(theirs.sequences[:, begun:].tolist()):
            ours, expected = found[segment.id, index], _until_the_end(row, ends)
            assert ours.text.split() == [str(token) for token in expected if token not in ends]
            assert ours.tokens == len(expected)
            score = (ours.log_probability or 0) / (len(expected) + extra)
            assert score == pytest.approx(float(theirs.sequences_scores[index]), abs=1e-4)


def _until_the_end(row: list[int], ends: Collection[int]) -> list[int]:
    last = next((place for place, token in enumerate(row) if token in ends), len(row))
    return row[: last + 1]


@torch.no_grad()
def test_log_probabilities_are_those_of_a_forced_pass(
    zoo: Zoo, kind: str, loaded: Loaded, inputs: Callable[[Segment], dict[str, Any]]
) -> None:
    generator = load_with_tokens(zoo, kind, loaded, Sampling(1.5, top_k=40, seed=2))
    network, compared = loaded.network, 0
    found = draw(generator, [Request(segment, 0, 6) for segment in SEGMENTS])
    for segment in SEGMENTS:
        given = inputs(segment)
        for candidate in (found[segment.id, index] for index in range(6)):
            tokens = [int(token) for token in candidate.text.split()]
            if network.config.pad_token_id in tokens:
                continue  # M2M100 numbers positions after a padding token differently when it sees them all at once
            ended = candidate.tokens == len(tokens) + 1
            forced = [given["forced_bos_token_id"]] if "forced_bos_token_id" in given else []
            if kind == "chat":
                begun = given["input_ids"][0].tolist()
                logits = network(input_ids=torch.tensor([begun + tokens])).logits[0, len(begun) - 1 :]
            else:
                begun = [network.generation_config.decoder_start_token_id, *forced]
                logits = network(input_ids=given["input_ids"], decoder_input_ids=torch.tensor([begun + tokens])).logits[
                    0, len(begun) - 1 :
                ]
            steps = logits.log_softmax(-1)
            total = sum(float(steps[i, token]) for i, token in enumerate(tokens))
            options = [float(steps[len(tokens), end]) for end in loaded.ends] if ended else [0.0]
            assert min(abs(total + last - candidate.log_probability) for last in options) < 1e-3
            compared += 1
    assert compared > 6


# What is computed once


@pytest.mark.parametrize("kind", ["marian", "madlad", "chat"])
def test_a_source_or_prompt_is_computed_once_for_a_segment_until_it_is_closed(
    zoo: Zoo, kind: str, loaded: Loaded
) -> None:
    generator = load(zoo, kind)
    openings = loaded.count_openings()
    for start in (0, 16, 32):
        draw(generator, [Request(segment, start, start + 16) for segment in SEGMENTS])
    assert len(openings) == len(SEGMENTS)
    generator.close(SEGMENTS[0])
    draw(generator, [Request(segment, 48, 56) for segment in SEGMENTS])
    assert len(openings) == len(SEGMENTS) + 1


def test_candidates_share_rows_while_they_are_alike(zoo: Zoo, kind: str, loaded: Loaded) -> None:
    generator = load(zoo, kind, Sampling(0.0))
    rows = loaded.count_rows()
    assert len(draw(generator, [Request(SEGMENTS[0], 0, 64)])) == 64
    assert set(rows) == {1}


@pytest.mark.parametrize("kind", ["marian", "chat"])
def test_generators_that_were_resampled_share_a_model_a_thread_and_sources(zoo: Zoo, kind: str, loaded: Loaded) -> None:
    generator, threads = load(zoo, kind), set()
    openings = loaded.count_openings()
    loaded.network.get_output_embeddings().register_forward_hook(lambda *_: threads.add(threading.get_ident()))
    family = [generator, generator.resampled(Sampling(0.0)), generator.resampled(Sampling(beam=3))]

    async def work() -> None:
        requests = [Request(segment, 0, 96) for segment in SEGMENTS]
        await asyncio.gather(*(collect(one, requests) for one in family))

    asyncio.run(work())
    assert len(loaded.networks) == len(threads) == 1
    assert len(openings) == len(SEGMENTS)


def test_searches_are_kept_until_their_segment_is_closed(
    zoo: Zoo, loaded: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = load(zoo, "marian", Sampling(beam=3))
    rows = loaded.count_rows()

    def search(segment: Segment) -> tuple[Any, bool]:
        before = len(rows)
        return draw(generator, [Request(segment, 0, 3)]), len(rows) > before

    first, made = search(SEGMENTS[0])
    assert made and search(SEGMENTS[0]) == (first, False)
    generator.close(SEGMENTS[0])
    again, made = search(SEGMENTS[0])
    assert made and same(again, first)
    monkeypatch.setattr(hypotheses, "SEARCHES_KEPT", 1)
    assert search(SEGMENTS[1])[1] and not search(SEGMENTS[1])[1]
    assert search(SEGMENTS[0])[1], "the older one was forgotten"


def test_a_search_that_was_left_is_made_again(zoo: Zoo, loaded: Loaded) -> None:
    generator = load(zoo, "marian", Sampling(beam=3), max_tokens=20)
    requests, searching, left = [Request(SEGMENTS[1], 0, 3)], threading.Event(), threading.Event()

    def wait(*_: Any) -> None:
        searching.set()
        left.wait()

    async def leave() -> None:
        drawing = asyncio.create_task(collect(generator, requests))
        await asyncio.to_thread(searching.wait)
        drawing.cancel()
        await asyncio.gather(drawing, return_exceptions=True)
        left.set()

    hook = loaded.network.get_output_embeddings().register_forward_hook(wait)
    asyncio.run(leave())
    hook.remove()
    assert same(draw(generator, requests), draw(load(zoo, "marian", Sampling(beam=3), max_tokens=20), requests))


# Memory, failures and lengths


@pytest.mark.parametrize("kind", ["marian", "chat"])
def test_the_batch_is_halved_when_memory_runs_out(zoo: Zoo, kind: str, loaded: Loaded) -> None:
    requests = [Request(segment, 0, 12) for segment in SEGMENTS]
    whole, generator = draw(load(zoo, kind), requests), load(zoo, kind, batch=16)
    failures = loaded.starve(5)
    assert same(draw(generator, requests), whole) and failures
    seen = len(failures)
    assert same(draw(generator, requests), whole)
    assert len(failures) == seen, "the smaller batch is remembered"


def test_fewer_beams_go_together_when_memory_runs_out(zoo: Zoo, loaded: Loaded) -> None:
    requests, sampling = [Request(segment, 0, 4) for segment in SEGMENTS], Sampling(beam=4)
    whole, generator = draw(load(zoo, "marian", sampling), requests), load(zoo, "marian", sampling)
    failures = loaded.starve(5)
    assert same(draw(generator, requests), whole) and failures
    seen = len(failures)
    for segment in SEGMENTS:
        generator.close(segment)
    assert same(draw(generator, requests), whole) and len(failures) == seen


@pytest.mark.parametrize(
    ("sampling", "says"), [(Sampling(1.0), "memory for one candidate"), (Sampling(beam=2), "for a beam of 2")]
)
def test_no_memory_at_all_is_an_error_of_the_segment(zoo: Zoo, loaded: Loaded, sampling: Sampling, says: str) -> None:
    generator = load(zoo, "marian", sampling)
    loaded.starve(0)
    error = error_of(generator, SEGMENTS[0])
    assert isinstance(error, GenerationError) and says in str(error)


@pytest.mark.parametrize("sampling", [Sampling(1.0), Sampling(beam=2)], ids=["samples", "beam"])
def test_another_failure_of_the_network_is_an_error_of_the_segment(
    zoo: Zoo, loaded: Loaded, sampling: Sampling
) -> None:
    generator = load(zoo, "marian", sampling)
    hook = loaded.network.get_output_embeddings().register_forward_pre_hook(lambda *_: 1 / 0)
    assert isinstance(error_of(generator, SEGMENTS[0]), GenerationError)
    hook.remove()
    assert len(draw(generator, [Request(SEGMENTS[0], 0, 2)])) == 2


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("marian", r"segment 'long' has \d+ tokens, and .* takes 96"),
        ("chat", r"segment 'long' needs \d+ tokens of prompt and \d+ of translation, and .* has room for 256"),
    ],
)
@pytest.mark.parametrize("sampling", [Sampling(1.0), Sampling(beam=2)], ids=["samples", "beam"])
def test_a_source_that_is_too_long(zoo: Zoo, kind: str, says: str, sampling: Sampling) -> None:
    generator = load(zoo, kind, sampling, max_tokens=None)
    error = error_of(generator, LONG)
    assert isinstance(error, GenerationError)
    with pytest.raises(GenerationError, match=says):
        raise error
    assert len(draw(generator, [Request(SEGMENTS[0], 0, 2)])) == 2


def test_the_translation_must_fit_too(zoo: Zoo) -> None:
    assert "250 of translation" in str(error_of(load(zoo, "chat", max_tokens=250), SEGMENTS[0]))


def test_candidates_are_cut_off_at_max_tokens(zoo: Zoo, kind: str) -> None:
    found = draw(load(zoo, kind, Sampling(3.0), max_tokens=3), [Request(SEGMENTS[1], 0, 32)])
    assert max(candidate.tokens or 0 for candidate in found.values()) == 3


def test_tokens_that_the_model_bans_are_never_chosen(zoo: Zoo, loaded: Loaded) -> None:
    generator = load_with_tokens(zoo, "marian", loaded, Sampling(50.0))
    texts = [candidate.text.split() for candidate in draw(generator, [Request(SEGMENTS[0], 0, 200)]).values()]
    assert not any(str(loaded.network.config.pad_token_id) in text for text in texts)
    assert len({token for text in texts for token in text}) > 100


# Prompts and texts


def prompts_of(generator: HuggingFaceGenerator, loaded: Loaded) -> list[str]:
    """What the model reads before it translates."""
    seen: list[list[int]] = []
    embeddings, tokenizer = loaded.network.get_input_embeddings(), loaded.tokenizers[-1]
    hook = embeddings.register_forward_hook(lambda _, given, __: seen.append(given[0][0].tolist()))
    draw(generator, [Request(SEGMENTS[0], 0, 1)])
    hook.remove()
    return [tokenizer.decode(ids) for ids in seen if len(ids) > 1]


def test_prompts_follow_the_chat_template(zoo: Zoo, loaded: Loaded) -> None:
    generator = load(zoo, "chat", prompt="qwen3")
    [text] = prompts_of(generator, loaded)
    assert "<|user|>" in text and SEGMENTS[0].source in text and text.endswith("<|assistant|><|quiet|>")
    assert "prompt:qwen3-" in generator.signature and ",en-pt|" in generator.signature
    plain = HuggingFaceGenerator(str(zoo.folder("chat", template=False)), Sampling(), languages=("en", "pt"))
    [bare] = prompts_of(plain, loaded)
    assert "<|" not in bare and SEGMENTS[0].source in bare
    untold = load(zoo, "chat", languages=(None, None), prompt="plain")
    assert prompts_of(untold, loaded) == [f"<|user|>{SEGMENTS[0].source}<|end|><|assistant|>"]


@pytest.mark.parametrize(("clean", "expected"), [(True, "Bom dia."), (False, 'Translation: "Bom dia."')])
def test_answers_are_cleaned_unless_told_otherwise(zoo: Zoo, loaded: Loaded, clean: bool, expected: str) -> None:
    generator = load(zoo, "chat", clean=clean)
    loaded.decode_as(lambda _: 'Translation: "Bom dia."')
    assert draw(generator, [Request(SEGMENTS[0], 0, 1)])["1", 0].text == expected


@pytest.mark.parametrize(
    ("kind", "single", "unknown"),
    [("marian", True, "☃"), ("nllb", True, "☃"), ("m2m100", True, "☃"), ("madlad", False, ""), ("chat", False, "")],
)
def test_traits_and_characters_that_the_vocabulary_lacks(zoo: Zoo, kind: str, single: bool, unknown: str) -> None:
    """The tiny MADLAD's tokenizer gives another token for what it does not know; the chat model knows all bytes."""
    generator = load(zoo, kind)
    assert traits_of(generator, GeneratorTraits) == GeneratorTraits(sentence_level=single, takes_seeds=True)
    assert generator.unknown("The weather is nice today.") == ""
    assert generator.unknown("The weather is ☃ today.") == unknown


def test_a_chat_model_whose_prompt_is_for_something_else_does_not_translate(zoo: Zoo) -> None:
    assert not traits_of(load(zoo, "chat", prompt="plain"), GeneratorTraits).translates


def test_the_signature_names_weights_languages_and_settings(zoo: Zoo) -> None:
    base = load(zoo, "nllb").signature
    assert base.startswith("hf:") and "float32" in base and "en-pt" in base
    assert base != load(zoo, "nllb", languages=("pt", "en")).signature
    assert base != load(zoo, "nllb", max_tokens=9).signature
    assert base != load(zoo, "nllb", dtype="bfloat16").signature


# What cannot be loaded


def test_models_that_cannot_be_used(zoo: Zoo, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="is not a Hugging Face model"):
        HuggingFaceGenerator(str(tmp_path / "nowhere"), Sampling())
    for kind in ("marian", "chat", "nllb"):
        folder = tmp_path / kind
        folder.mkdir()
        for name in ("config.json", "generation_config.json", "model.safetensors"):
            (folder / name).write_bytes((zoo.folder(kind) / name).read_bytes())
        with pytest.raises(ModelError, match="no tokenizer"):
            HuggingFaceGenerator(str(folder), Sampling(), languages=("en", "pt"))
    for path in zoo.folder("marian").iterdir():
        (tmp_path / "marian" / path.name).write_bytes(path.read_bytes())
    (tmp_path / "marian" / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(ModelError, match="weights"):
        HuggingFaceGenerator(str(tmp_path / "marian"), Sampling())


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"batch": 0}, "batch must be 1 or more, not 0"),
        ({"prompt": "qwen3"}, "does not take a prompt"),
    ],
)
def test_settings_that_do_not_exist(zoo: Zoo, options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        load(zoo, "marian", **options)


def test_without_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingExtra, match=r"quitmt\[hf\]"):
        HuggingFaceGenerator("some/model", Sampling())
