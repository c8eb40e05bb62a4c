"""chrF, chrF++ and BLEU: what sacrebleu says, for segments and for systems, with one reference and with two."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sacrebleu
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from quitmt.errors import MissingExtra, ModelError, UsageError
from quitmt.evaluate.metrics import TestSet, load

MakePool = Callable[[int, int], list[str]]


@pytest.fixture
def test_set(make_pool: MakePool) -> TestSet:
    pools = [make_pool(seed, 2) for seed in range(30)]
    references = tuple(tuple(texts) for texts in zip(*pools, strict=True))
    return TestSet(None, (("", *references[0][1:]), references[1]))


@pytest.fixture
def systems(make_pool: MakePool) -> list[list[str]]:
    pools = [make_pool(seed, 5)[2:] for seed in range(30)]
    found = [list(texts) for texts in zip(*pools, strict=True)]
    found[0][3] = ""
    found[2][4] = " ".join(found[2][4].split()[:2])  # shorter than BLEU's n-grams
    found[1][:10] = found[0][:10]  # systems agree on some
    return found


def _signed(metric: Any, system: list[str], references: Any) -> str:
    """What sacrebleu itself says after it has scored."""
    metric.corpus_score(system, references)
    return str(metric.get_signature())


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("words", [0, 2])
def test_chrf(words: int, count: int, test_set: TestSet, systems: list[list[str]]) -> None:
    metric = load("chrf++" if words else "chrf")
    before = metric.signature_for(count)
    references = test_set.references[:count]
    found = metric.evaluate(TestSet(None, references), systems)
    assert metric.name == ("chrF++" if words else "chrF") and not metric.lower_is_better
    assert metric.signature_for(count) == before
    assert before.startswith(f"nrefs:{count}|case:mixed|eff:yes|nc:6|nw:{words}|space:no|version:")
    for system, scores in zip(systems, found, strict=True):
        assert before == _signed(CHRF(word_order=words), system, references)
        assert scores.system == sacrebleu.corpus_chrf(system, references, word_order=words).score
        expected = [
            sacrebleu.sentence_chrf(text, each, word_order=words).score
            for text, each in zip(system, zip(*references, strict=True), strict=True)
        ]
        assert scores.segments.tolist() == expected and len(set(expected)) > 10


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("tokenizer", ["", "zh", "char"])
def test_bleu(tokenizer: str, count: int, test_set: TestSet, systems: list[list[str]]) -> None:
    metric = load(f"bleu:{tokenizer}" if tokenizer else "bleu")
    before = metric.signature_for(count)
    references = test_set.references[:count]
    found = metric.evaluate(TestSet(None, references), systems)
    tokenize = tokenizer or "13a"
    assert metric.name == (f"BLEU:{tokenizer}" if tokenizer else "BLEU")
    assert metric.signature_for(count) == before
    assert before.startswith(f"nrefs:{count}|case:mixed|eff:no|tok:{tokenize}|smooth:exp|version:")
    for system, scores in zip(systems, found, strict=True):
        assert before == _signed(BLEU(tokenize=tokenize), system, references)
        assert scores.system == sacrebleu.corpus_bleu(system, references, tokenize=tokenize).score
        expected = [
            sacrebleu.sentence_bleu(text, each, tokenize=tokenize, use_effective_order=True).score
            for text, each in zip(system, zip(*references, strict=True), strict=True)
        ]
        assert scores.segments.tolist() == expected and len(set(expected)) > 10


def test_progress_adds_up(test_set: TestSet, systems: list[list[str]]) -> None:
    reported: list[int] = []
    load("chrf").evaluate(test_set, systems, reported.append)
    assert sum(reported) == 3 * 30 and len(reported) == 30


def test_what_is_alike_is_scored_once(
    test_set: TestSet, systems: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    original = CHRF.sentence_score
    monkeypatch.setattr(CHRF, "sentence_score", lambda *given: calls.append(given[1]) or original(*given))
    load("chrf").evaluate(test_set, systems)
    assert len(calls) == sum(len({system[number] for system in systems}) for number in range(30)) < 90


def test_bad_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"unknown tokenizer of BLEU 'flores20' \(did you mean 'flores200'\?\)"):
        load("bleu:flores20")
    with pytest.raises(UsageError, match=r"chrF\+\+ takes no argument, such as 'x'"):
        load("chrf++:x")

    def fail(error: BaseException) -> None:
        def tokenizer(*_: object) -> None:
            raise error

        monkeypatch.setattr("sacrebleu.metrics.bleu._get_tokenizer", lambda _: tokenizer)

    fail(RuntimeError("\nJapanese tokenization requires extra dependencies"))
    with pytest.raises(MissingExtra, match=r"ja-mecab is not installed \(pip install 'sacrebleu\[ja\]'\)"):
        load("bleu:ja-mecab")
    for error in (OSError("<urlopen error\nno network>"), SystemExit(1)):
        fail(error)
        with pytest.raises(ModelError, match=r"tokenizer flores200 cannot be used: .*network"):
            load("bleu:flores200")
