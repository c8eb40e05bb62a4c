"""What Python users give by mistake is refused in one sentence, with the nearest right thing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest

import quitmt
from quitmt.errors import InputError, UsageError
from quitmt.metrics.chrf import Chrf
from quitmt.stop.window import Quit
from quitmt.types import Candidate, Draw, Request, Segment


def sample(source: str, start: int, stop: int) -> list[str]:
    return [f"{source} {index % 3}" for index in range(start, stop)]


class Own:
    """A generator."""

    signature = "own"

    async def draw(self, requests: Sequence[Request]) -> AsyncIterator[Draw]:
        for request in requests:
            yield Draw(
                request.segment, request.start, tuple(Candidate("x") for _ in range(request.start, request.stop))
            )

    def close(self, segment: Segment) -> None:
        """Nothing is kept."""


class Half:
    """Only half of a generator, and of a reranker."""

    def draw(self, requests: Any) -> Any: ...

    def extend(self, updates: Any) -> Any: ...


def utility(hypothesis: str, reference: str) -> float:
    return 1.0


def of_three(source: str, hypothesis: str, reference: str) -> float:
    return 1.0


def of_two_candidates(candidate: str, other: str) -> float:
    return 1.0


def backwards(text: str, source: str) -> float:
    return 1.0


CASES: dict[str, tuple[Callable[[], object], str]] = {
    "numbers": (lambda: quitmt.translate([1, 2], sample), "source 1 must be a text or a Segment, not 1"),
    "the second": (lambda: quitmt.translate(["a", None], sample), "source 2 must be a text or a Segment, not None"),
    "bytes": (lambda: quitmt.translate(b"ab", sample), "a list of texts is wanted, such as"),
    "no list": (lambda: quitmt.translate(5, sample), "a list of texts is wanted, such as"),
    "watching": (lambda: list(quitmt.watch(5, sample)), "source 1 must be a text or a Segment, not 5"),
    "letters": (lambda: quitmt.rerank_pool("abc"), "expected a list of candidates, such as ['one', 'two'], not 'abc'"),
    "no candidates": (lambda: quitmt.rerank_pool(None), "expected a list of candidates"),
    "candidates": (lambda: quitmt.rerank_pool(["a", 2]), "candidate 2 must be a text or a Candidate, not 2"),
    "no text": (lambda: quitmt.rerank_pool([Candidate(5)]), "candidate 1 must be a text or a Candidate, not 5"),
    "a source": (lambda: quitmt.rerank_pool(["a"], 5), "source 1 must be a text or a Segment, not 5"),
    "a utility": (
        lambda: quitmt.rerank_pool(["a"], reranker=utility),
        "reranker: utility(hypothesis, reference) compares with a reference, so it is a utility (wrap it in quitmt",
    ),
    "a utility of three": (lambda: quitmt.rerank_pool(["a"], reranker=of_three), "(wrap it in quitmt.mbr)"),
    "a utility as reward": (lambda: quitmt.best_of(["a"], sample, utility), "(wrap it in quitmt.mbr)"),
    "two candidates": (
        lambda: quitmt.rerank_pool(["a"], reranker=of_two_candidates),
        "reranker: of_two_candidates(candidate, other) is called with (source, candidate), in this order",
    ),
    "backwards": (lambda: quitmt.rerank_pool(["a"], reranker=backwards), "(take the source first; a utility of two"),
    "a utility object": (
        lambda: quitmt.rerank_pool(["a"], reranker=Chrf()),
        "reranker: Chrf is a utility (wrap it in quitmt.mbr)",
    ),
    "mbr itself": (
        lambda: quitmt.Translator(sample, reranker=quitmt.mbr),
        "reranker must be a reranker, not quitmt.mbr itself (give it a metric: mbr(metric))",
    ),
    "a reranker class": (
        lambda: quitmt.Translator(sample, reranker=Half),
        "reranker: Half is a class (give an object of it, as Half() makes)",
    ),
    "half a reranker": (
        lambda: quitmt.Translator(sample, reranker=Half()),
        "reranker: Half is no reranker: it has no signature and no open",
    ),
    "a generator class": (
        lambda: quitmt.Translator(Own),
        "model: Own is a class (give an object of it, as Own() makes)",
    ),
    "half a generator": (lambda: quitmt.Translator(Half()), "model: Half is no generator: it has no signature"),
    "a rule class": (lambda: quitmt.Translator(sample, rule=Quit), "rule: Quit is a class (give an object of it, as"),
    "a profile": (lambda: quitmt.Translator(sample, profile=5), "profile must be a file of quitmt calibrate, or"),
    "options": (lambda: quitmt.Translator("openai:m", options=[1]), "options must be a dictionary such as"),
    "a dictionary": (
        lambda: quitmt.Translator.from_recipe({}),
        "a recipe must be the path of a file or a Recipe, not {} (quitmt.plan.Recipe.from_fields makes one of a",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_mistakes_of_python_users(case: str) -> None:
    call, said = CASES[case]
    with pytest.raises((TypeError, UsageError)) as caught:
        call()
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_a_rule_that_is_none() -> None:
    with pytest.raises(ValueError, match="rule: int isn't a stopping rule: it has no signature"):
        quitmt.Translator(sample, rule=5)


def test_half_a_surrogate_pair_is_no_text() -> None:
    with pytest.raises(InputError, match="candidate 2 has half of a surrogate pair"):
        quitmt.rerank_pool(["a", "\ud800"])


@pytest.mark.parametrize(
    "reward",
    [
        lambda a, b: len(b),
        lambda source, candidate: len(candidate),
        lambda prompt, hypothesis: len(hypothesis),
        lambda source, candidate, reference=None: len(candidate),
        lambda *texts: len(texts[1]),
    ],
)
def test_functions_of_two_texts_are_rewards(reward: Callable[..., float]) -> None:
    assert quitmt.rerank_pool(["aa", "aaaa", "a"], "x", reranker=reward).translation == "aaaa"


def test_objects_are_taken_as_they_are() -> None:
    assert quitmt.Translator(Own(), reranker=quitmt.mbr(utility), rule=Quit()).translate(["a"])[0].translation == "x"
