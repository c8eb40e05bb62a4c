"""Hugging Face models: the contract on tiny models of every family, and transformers itself as the oracle."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np
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
from quitmt.generate.decoding.choice import choose, cut_off  # noqa: E402
from quitmt.generate.decoding.families import Telling, tell  # noqa: E402
from quitmt.generate.decoding.worker import Piece  # noqa: E402
from quitmt.generate.huggingface import HuggingFaceGenerator  # noqa: E402
from quitmt.sampling import Sampling  # noqa: E402
from quitmt.types import Ask, Segment  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
KINDS = ("marian", "m2m100", "nllb", "madlad", "chat")
LONG = Segment("long", "The weather is nice today. " * 40)


@pytest.fixture(scope="module", autouse=True)
def few_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Zoo:
    return Zoo(tmp_path_factory.mktemp("zoo"))


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def load(zoo: Zoo, kind: str, sampling: Sampling | None = None, **options: Any) -> HuggingFaceGenerator:
    options = {"languages": ("en", "pt"), "max_tokens": 12, **options}
    return HuggingFaceGenerator(str(zoo.folder(kind)), sampling or Sampling(1.0, seed=3), **options)


def network(generator: HuggingFaceGenerator) -> Any:
    return generator._sampler._decoder._model


def show_tokens(generator: HuggingFaceGenerator) -> None:
    """Make the candidates' texts their tokens."""
    generator._sampler._decoder.read = lambda segment, tokens: " ".join(map(str, tokens))


class TestContract(SamplingContract):
    @pytest.fixture(params=["marian", "nllb", "madlad", "chat"])
    def kind(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    @pytest.fixture
    def make(self, zoo: Zoo, kind: str) -> Callable[..., HuggingFaceGenerator]:
        return lambda seed=3: load(zoo, kind, Sampling(1.0, seed=seed))


class TestAnchors(BeamContract):
    @pytest.fixture(params=["marian", "nllb", "madlad", "chat"])
    def fresh(self, zoo: Zoo, request: pytest.FixtureRequest) -> Fresh:
        return lambda sampling: load(zoo, str(request.param), sampling)


def test_cut_off_pools_are_nested(zoo: Zoo, kind: str) -> None:
    def make(batch: int) -> HuggingFaceGenerator:
        return load(zoo, kind, Sampling(1.3, top_k=20, top_p=0.9, epsilon=0.01, seed=1), batch=batch, max_tokens=12)

    assert same(everything(make(64)), everything(make(13)))


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
            content = load(zoo, kind)._sampler._decoder._prompt.messages(segment)
            text = tokenizer.apply_chat_template(content, tokenize=False, add_generation_prompt=True)
            ids = tokenizer(text, add_special_tokens=False, return_tensors="pt").input_ids
        else:
            ids = tokenizer(("<2pt> " if kind == "madlad" else "") + segment.source, return_tensors="pt").input_ids
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), **forced}

    return of


def test_greedy_is_transformers_own_greedy(zoo: Zoo, kind: str, inputs: Callable[[Segment], dict[str, Any]]) -> None:
    generator = load(zoo, kind, Sampling(0.0), max_tokens=20)
    show_tokens(generator)
    found = draw(generator, [Ask(segment, 0, 2) for segment in SEGMENTS])
    for segment in SEGMENTS:
        given = inputs(segment)
        extra = 1 if "forced_bos_token_id" in given else 0
        theirs = network(generator).generate(**given, do_sample=False, num_beams=1, max_new_tokens=20 + extra)[0]
        begun = given["input_ids"].shape[1] if kind == "chat" else 1 + extra
        theirs = theirs[begun:].tolist()
        ends = generator._sampler._ends.tokens
        assert found[segment.id, 0] == found[segment.id, 1]
        assert found[segment.id, 0].text.split() == [str(token) for token in theirs if token not in ends]
        assert found[segment.id, 0].tokens == len(theirs)


@pytest.mark.parametrize("size", [1, 2, 4, 7])
def test_beams_are_transformers_own(
    zoo: Zoo, kind: str, inputs: Callable[[Segment], dict[str, Any]], size: int
) -> None:
    generator = load(zoo, kind, Sampling(beam=size), max_tokens=20)
    show_tokens(generator)
    found = draw(generator, [Ask(segment, 0, size) for segment in SEGMENTS])
    ends = generator._sampler._ends.tokens
    for segment in SEGMENTS:
        given = inputs(segment)
        extra = 1 if "forced_bos_token_id" in given else 0
        theirs = network(generator).generate(
            **given, do_sample=False, num_beams=size, num_return_sequences=size, max_new_tokens=20 + extra,
            length_penalty=1.0, early_stopping=False, return_dict_in_generate=True, output_scores=True,
        )  # fmt: skip
        begun = given["input_ids"].shape[1] if kind == "chat" else 1 + extra
        for index, row in enumerate(theirs.sequences[:, begun:].tolist()):
            ours = found[segment.id, index]
            assert ours.text.split() == [str(token) for token in _until_the_end(row, ends) if token not in ends]
            assert ours.tokens == len(_until_the_end(row, ends))
            if size > 1:
                length = (ours.tokens or 0) + extra
                assert (ours.log_probability or 0) / length == pytest.approx(
                    float(theirs.sequences_scores[index]), abs=1e-4
                )


def _until_the_end(row: list[int], ends: Collection[int]) -> list[int]:
    last = next((place for place, token in enumerate(row) if token in ends), len(row))
    return row[: last + 1]


@torch.no_grad()
def test_log_probabilities_are_those_of_a_forced_pass(
    zoo: Zoo, kind: str, inputs: Callable[[Segment], dict[str, Any]]
) -> None:
    generator = load(zoo, kind, Sampling(1.5, top_k=40, seed=2), max_tokens=20)
    network_of, ends = network(generator), generator._sampler._ends.tokens
    show_tokens(generator)
    for segment in SEGMENTS:
        given = inputs(segment)
        for candidate in draw(generator, [Ask(segment, 0, 6)]).values():
            tokens = [int(token) for token in candidate.text.split()]
            if network_of.config.pad_token_id in tokens:
                continue  # M2M100 numbers positions after a padding token differently when it sees them all at once
            ended = candidate.tokens == len(tokens) + 1
            forced = [given["forced_bos_token_id"]] if "forced_bos_token_id" in given else []
            if kind == "chat":
                begun = given["input_ids"][0].tolist()
                logits = network_of(input_ids=torch.tensor([begun + tokens])).logits[0, len(begun) - 1 :]
            else:
                begun = [network_of.generation_config.decoder_start_token_id, *forced]
                logits = network_of(
                    input_ids=given["input_ids"], decoder_input_ids=torch.tensor([begun + tokens])
                ).logits[0, len(begun) - 1 :]
            steps = logits.log_softmax(-1)
            total = sum(float(steps[i, token]) for i, token in enumerate(tokens))
            options = [float(steps[len(tokens), end]) for end in ends] if ended else [0.0]
            assert min(abs(total + last - candidate.log_probability) for last in options) < 1e-3


@pytest.mark.parametrize(
    "setting",
    [
        {},
        {"top_k": 7},
        {"top_p": 0.6},
        {"min_p": 0.1},
        {"epsilon": 0.02},
        {"top_k": 30, "top_p": 0.8},
        {"top_p": 0.9, "min_p": 0.02},
    ],
)
def test_cut_offs_are_those_of_transformers(setting: dict[str, Any]) -> None:
    theirs = transformers.LogitsProcessorList([transformers.TemperatureLogitsWarper(1.3)])
    kinds = {"top_k": "TopK", "top_p": "TopP", "min_p": "MinP", "epsilon": "Epsilon"}
    theirs += [getattr(transformers, f"{kinds[name]}LogitsWarper")(value) for name, value in setting.items()]
    logits = torch.randn(50, 120, generator=torch.Generator().manual_seed(5)) * 2
    ours = cut_off(logits, Sampling(1.3, **setting)).softmax(-1)
    assert torch.allclose(ours, theirs(None, logits).softmax(-1), atol=1e-6)
    assert bool((ours > 0).sum(-1).min() >= 1)


def test_all_cut_offs_in_order() -> None:
    logits = torch.randn(50, 120, generator=torch.Generator().manual_seed(6)) * 2
    steps = [
        transformers.TemperatureLogitsWarper(0.8), transformers.TopKLogitsWarper(40),
        transformers.TopPLogitsWarper(0.9), transformers.MinPLogitsWarper(0.03), transformers.EpsilonLogitsWarper(0.01),
    ]  # fmt: skip
    expected = transformers.LogitsProcessorList(steps)(None, logits)
    ours = cut_off(logits, Sampling(0.8, top_k=40, top_p=0.9, min_p=0.03, epsilon=0.01))
    assert torch.allclose(ours.softmax(-1), expected.softmax(-1), atol=1e-6)


def test_a_choice_follows_the_distribution() -> None:
    logits = torch.randn(3, 40, generator=torch.Generator().manual_seed(8)) * 2
    barred = torch.zeros(40, dtype=torch.bool)
    barred[4] = True
    count = 20_000
    rows, numbers = np.repeat(np.arange(3), count), np.tile((np.arange(count) + 0.5) / count, 3)
    tokens, steps = choose(logits, barred, Sampling(1.4), rows, numbers)
    expected = (logits.masked_fill(barred, -torch.inf) / 1.4).softmax(-1)
    for row in range(3):
        shares = np.bincount(tokens[rows == row], minlength=40) / count
        assert np.allclose(shares, expected[row].numpy(), atol=1.5 / count)
    assert np.allclose(steps, logits.log_softmax(-1)[rows, tokens].numpy(), atol=1e-5)


def test_a_choice_is_never_what_cannot_be() -> None:
    logits = torch.full((1, 6), -torch.inf)
    logits[0, 1:3] = 0.0
    barred = torch.zeros(6, dtype=torch.bool)
    tokens, _ = choose(logits, barred, Sampling(1.0), np.zeros(2, np.int64), np.array([0.0, np.nextafter(1.0, 0.0)]))
    assert tokens.tolist() == [1, 2]
    assert choose(logits, barred, Sampling(0.0), np.zeros(1, np.int64), np.zeros(1))[0].tolist() == [1]


@pytest.mark.parametrize("kind", ["marian", "nllb", "madlad"])
def test_the_encoder_runs_once_a_segment(zoo: Zoo, kind: str) -> None:
    generator, runs = load(zoo, kind), []
    network(generator).get_encoder().register_forward_hook(lambda *_: runs.append(1))
    for start in range(0, 64, 16):
        draw(generator, [Ask(segment, start, start + 16) for segment in SEGMENTS])
    assert len(runs) == len(SEGMENTS)
    generator.close(SEGMENTS[0])
    draw(generator, [Ask(segment, 64, 72) for segment in SEGMENTS])
    assert len(runs) == len(SEGMENTS) + 1


def test_a_prompt_is_computed_once_a_segment(zoo: Zoo) -> None:
    generator, lengths = load(zoo, "chat"), []
    network(generator).get_input_embeddings().register_forward_hook(lambda _, given, __: lengths.append(given[0].shape))
    for start in range(0, 64, 16):
        draw(generator, [Ask(segment, start, start + 16) for segment in SEGMENTS])
    assert sum(length > 1 for _, length in lengths) == len(SEGMENTS)


def test_candidates_share_rows_while_they_are_alike(zoo: Zoo, kind: str) -> None:
    generator, rows = load(zoo, kind, Sampling(0.0)), []
    network(generator).get_output_embeddings().register_forward_hook(lambda _, given, __: rows.append(len(given[0])))
    assert len(draw(generator, [Ask(SEGMENTS[0], 0, 64)])) == 64
    assert set(rows) == {1}


def test_other_sampling_with_the_same_model(zoo: Zoo, kind: str) -> None:
    greedy = load(zoo, kind, Sampling(0.0))
    warm, fresh = greedy.resampled(Sampling(1.0, seed=3)), load(zoo, kind)
    assert network(warm) is network(greedy)
    assert warm.signature == fresh.signature != greedy.signature
    asks = [Ask(segment, 0, 8) for segment in SEGMENTS]
    assert draw(warm, asks) == draw(fresh, asks) != draw(greedy, asks)


@pytest.mark.parametrize("kind", ["marian", "chat"])
def test_siblings_open_a_segment_once_and_take_turns_in_one_thread(zoo: Zoo, kind: str) -> None:
    generator, opened, threads = load(zoo, kind), [], set()
    decoder = generator._decoder
    first_open = decoder.open
    decoder.open = lambda segment: opened.append(segment.id) or first_open(segment)  # type: ignore[method-assign]
    network(generator).get_output_embeddings().register_forward_hook(lambda *_: threads.add(threading.get_ident()))
    family = [generator, generator.resampled(Sampling(0.0)), generator.resampled(Sampling(beam=3))]

    async def work() -> None:
        asks = [Ask(segment, 0, 96) for segment in SEGMENTS]
        await asyncio.gather(*(collect(one, asks) for one in family))

    asyncio.run(work())
    assert sorted(opened) == sorted(segment.id for segment in SEGMENTS)
    assert len(threads) == 1


def test_a_long_ask_does_not_keep_its_siblings_waiting(zoo: Zoo) -> None:
    generator = load(zoo, "marian", batch=8)
    greedy = generator.resampled(Sampling(0.0))

    async def work() -> int:
        endless = asyncio.create_task(collect(generator, [Ask(SEGMENTS[0], 0, 1_000_000)]))
        await asyncio.sleep(0.05)
        found = await collect(greedy, [Ask(segment, 0, 1) for segment in SEGMENTS])
        generator.close(SEGMENTS[0])
        await endless
        return len(found)

    assert asyncio.run(work()) == 3


def test_what_is_kept_is_bounded(zoo: Zoo) -> None:
    generator = load(zoo, "marian")
    generator._openings._bytes_kept = 1
    draw(generator, [Ask(segment, 0, 4) for segment in SEGMENTS])
    assert len(generator._openings._kept) == 1


def starve(generator: HuggingFaceGenerator, most: int) -> list[int]:
    """Let the model run out of memory with more rows than ``most``; the row counts at which it did."""
    failures: list[int] = []

    def check(_: Any, given: Any) -> None:
        if len(given[0]) > most:
            failures.append(len(given[0]))
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB")

    network(generator).get_output_embeddings().register_forward_pre_hook(check)
    return failures


@pytest.mark.parametrize("kind", ["marian", "chat"])
def test_the_batch_is_halved_when_memory_runs_out(zoo: Zoo, kind: str) -> None:
    whole, generator = everything(load(zoo, kind)), load(zoo, kind, batch=32)
    failures = starve(generator, 5)
    assert same(everything(generator), whole)
    assert 1 <= generator._sampler.batch < 32 and failures
    seen, batch = len(failures), generator._sampler.batch
    assert same(everything(generator), whole)
    assert (len(failures), generator._sampler.batch) == (seen, batch)  # remembered


@pytest.mark.parametrize("sampling", [Sampling(1.0), Sampling(beam=2)], ids=["samples", "beam"])
def test_no_memory_at_all_is_an_error_of_the_segment(zoo: Zoo, sampling: Sampling) -> None:
    generator = load(zoo, "marian", sampling)
    starve(generator, 0)
    error = error_of(generator, SEGMENTS[0])
    assert isinstance(error, GenerationError) and "memory" in str(error)


def test_fewer_beams_go_together_when_memory_runs_out(zoo: Zoo) -> None:
    asks, sampling = [Ask(segment, 0, 4) for segment in SEGMENTS], Sampling(beam=4)
    whole, generator = draw(load(zoo, "marian", sampling), asks), load(zoo, "marian", sampling)
    failures = starve(generator, 5)
    assert same(draw(generator, asks), whole)
    assert generator._sampler.batch == 4 and failures


def test_a_search_that_was_left_is_made_again(zoo: Zoo) -> None:
    generator = load(zoo, "marian", Sampling(beam=3), max_tokens=20)
    sampler, wanted = generator._sampler, iter([True, False])
    left = Piece(Ask(SEGMENTS[1], 0, 3), lambda: next(wanted, False))
    sampler.sample([left])
    (again,) = sampler.sample([Piece(Ask(SEGMENTS[1], 0, 3), lambda: True)])
    whole = draw(load(zoo, "marian", Sampling(beam=3), max_tokens=20), [Ask(SEGMENTS[1], 0, 3)])
    assert [one.text for one in again.candidates] == [whole["2", index].text for index in range(3)]


def test_searches_are_kept_until_their_segment_is_closed(zoo: Zoo, monkeypatch: pytest.MonkeyPatch) -> None:
    generator, rows = load(zoo, "marian", Sampling(beam=3)), []
    network(generator).get_output_embeddings().register_forward_hook(lambda *_: rows.append(1))
    first = draw(generator, [Ask(SEGMENTS[0], 0, 3)])
    made = len(rows)
    assert draw(generator, [Ask(SEGMENTS[0], 0, 3)]) == first and len(rows) == made
    generator.close(SEGMENTS[0])
    assert same(draw(generator, [Ask(SEGMENTS[0], 0, 3)]), first) and len(rows) == 2 * made
    monkeypatch.setattr(hypotheses, "SEARCHES_KEPT", 1)
    draw(generator, [Ask(segment, 0, 3) for segment in SEGMENTS])
    assert len(generator._sampler._kept) == 1


def test_a_failure_is_one_sentence_and_later_asks_go_on(zoo: Zoo) -> None:
    generator = load(zoo, "marian")
    handle = network(generator).get_output_embeddings().register_forward_pre_hook(lambda *_: 1 / 0)
    error = error_of(generator, SEGMENTS[0])
    assert isinstance(error, GenerationError) and "\n" not in str(error)
    handle.remove()
    assert len(draw(generator, [Ask(SEGMENTS[0], 0, 2)])) == 2


@pytest.mark.parametrize("kind", ["marian", "m2m100", "chat"])
def test_a_source_that_is_too_long(zoo: Zoo, kind: str) -> None:
    generator = load(zoo, kind, max_tokens=None)
    error = error_of(generator, LONG)
    assert isinstance(error, GenerationError) and "'long'" in str(error)
    assert len(draw(generator, [Ask(SEGMENTS[0], 0, 2)])) == 2


def test_the_translation_must_fit_too(zoo: Zoo) -> None:
    error = error_of(load(zoo, "chat", max_tokens=250), SEGMENTS[0])
    assert isinstance(error, GenerationError) and "250" in str(error)


def test_candidates_are_cut_off_at_max_tokens(zoo: Zoo, kind: str) -> None:
    found = draw(load(zoo, kind, Sampling(3.0), max_tokens=3), [Ask(SEGMENTS[1], 0, 32)])
    assert max(candidate.tokens or 0 for candidate in found.values()) == 3


def test_tokens_that_are_barred_are_never_chosen(zoo: Zoo) -> None:
    generator = load(zoo, "marian", Sampling(50.0), max_tokens=20)
    show_tokens(generator)
    pad = str(network(generator).config.pad_token_id)
    texts = [candidate.text.split() for candidate in draw(generator, [Ask(SEGMENTS[0], 0, 200)]).values()]
    assert not any(pad in text for text in texts)
    assert len({token for text in texts for token in text}) > 100


def test_prompts_follow_the_template(zoo: Zoo) -> None:
    generator = load(zoo, "chat", prompt="qwen3")
    tokenizer = generator._sampler._decoder._tokenizer
    text = tokenizer.decode(generator._sampler._decoder._encode(SEGMENTS[0]))
    assert "<|user|>" in text and SEGMENTS[0].source in text and text.endswith("<|assistant|><|quiet|>")
    assert "prompt:qwen3-" in generator.signature and ",en-pt|" in generator.signature
    plain = HuggingFaceGenerator(str(zoo.folder("chat", template=False)), Sampling(), languages=("en", "pt"))
    bare = tokenizer.decode(plain._sampler._decoder._encode(SEGMENTS[0]))
    assert "<|" not in bare and SEGMENTS[0].source in bare


def test_cleaning_can_be_left_out(zoo: Zoo) -> None:
    for clean, expected in ((True, "Bom dia."), (False, 'Translation: "Bom dia."')):
        decoder = load(zoo, "chat", clean=clean)._sampler._decoder
        tokens = decoder._tokenizer('Translation: "Bom dia."')["input_ids"]
        assert decoder.read(SEGMENTS[0], tokens) == expected


class FakeMBart:
    src_lang = "en_XX"

    def get_vocab(self) -> dict[str, int]:
        return {token: i for i, token in enumerate(["a", "en_XX", "pt_XX", "zh_CN"])}


def test_languages_are_told_in_each_family_s_way(zoo: Zoo) -> None:
    def told(kind: str, pair: tuple[str | None, str | None], **settings: Any) -> tuple[Telling, Any]:
        tokenizer = transformers.AutoTokenizer.from_pretrained(zoo.folder(kind, **settings))
        return tell(tokenizer, pair, kind), getattr(tokenizer, "src_lang", None)

    assert told("marian", (None, None)) == (Telling(), None)
    assert told("marian", (None, "pt-BR"), codes=("por", "deu")) == (Telling(before=">>por<< "), None)
    assert told("m2m100", ("en", "pt-BR")) == (Telling(first="__pt__"), "en")
    assert told("nllb", ("en-GB", "zh-Hant")) == (Telling(first="zho_Hant"), "eng_Latn")
    assert told("madlad", (None, "pt"))[0] == Telling(before="<2pt> ")
    mbart = FakeMBart()
    assert tell(mbart, ("en", "zh"), "mbart") == Telling(first="zh_CN") and mbart.src_lang == "en_XX"


@pytest.mark.parametrize("kind", ["m2m100", "nllb", "madlad"])
@pytest.mark.parametrize("pair", [("en", "tlh"), ("en", None), ("en", "no such")])
def test_languages_that_a_model_does_not_know(zoo: Zoo, kind: str, pair: tuple[str, str | None]) -> None:
    with pytest.raises(UsageError):
        load(zoo, kind, languages=pair)


def test_a_chat_model_must_be_told_the_languages(zoo: Zoo) -> None:
    with pytest.raises(UsageError, match="must be told"):
        load(zoo, "chat", languages=("en", None))
    told = load(zoo, "chat", languages=(None, None), prompt="plain")
    text = told._sampler._decoder._tokenizer.decode(told._sampler._decoder._encode(SEGMENTS[0]))
    assert text == f"<|user|>{SEGMENTS[0].source}<|end|><|assistant|>"


def test_models_that_cannot_be_used(zoo: Zoo, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no Hugging Face model"):
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
    "options",
    [{"device": "cuda"}, {"device": "abacus"}, {"dtype": "int3"}, {"batch": 0}, {"max_tokens": 0}, {"prompt": "qwen3"}],
)
def test_settings_that_do_not_exist(zoo: Zoo, options: dict[str, Any]) -> None:
    if options.get("device") == "cuda" and torch.cuda.is_available():
        pytest.skip("there is one here")
    with pytest.raises(UsageError):
        load(zoo, "marian", **options)


def test_without_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingExtra, match=r"quitmt\[hf\]"):
        HuggingFaceGenerator("some/model", Sampling())


def test_the_signature_names_weights_languages_and_settings(zoo: Zoo) -> None:
    base = load(zoo, "nllb").signature
    assert base.startswith("hf:") and "float32" in base and "en-pt" in base
    assert base != load(zoo, "nllb", languages=("pt", "en")).signature
    assert base != load(zoo, "nllb", max_tokens=9).signature
    assert base != load(zoo, "nllb", dtype="bfloat16").signature
