"""Rewards are what rerankers say of the same pools, in the shape that trainers call."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import quitmt
from quitmt import rerank
from quitmt.errors import InputError, RerankError, UsageError
from quitmt.metrics import scorer
from quitmt.metrics.devices import Hardware
from quitmt.protocols import Update, ranked
from quitmt.types import Candidate, Segment

SOURCES = ["The cat slept.", "A dog ate."]
GROUPS = [["O gato dormiu.", "O gato dormia.", "Um gato dormiu.", "O gato dormiu."], ["Um cão comeu.", "Cão.", "", "x"]]
COMPLETIONS = [text for group in GROUPS for text in group]
PROMPTS = [f"Translate: {source}" for source in SOURCES for _ in range(4)]
COLUMN = [source for source in SOURCES for _ in range(4)]
STATE = {"completion_ids": [[1]] * 8, "trainer_state": object(), "log_extra": print, "log_metric": print}
"""What TRL gives besides."""


def by_reranker(reranker: Any) -> list[float]:
    """The scores of the same pools."""
    found = []
    for source, group in zip(SOURCES, GROUPS, strict=True):
        state = reranker.open(Segment("any", source))
        reranker.extend([Update(state, [Candidate(text) for text in group], 1)])
        scores = {group[index]: score for index, score in ranked(reranker, state)}
        found += [scores[text] for text in group]
    return found


def chat(texts: Sequence[str], role: str) -> list[Any]:
    return [[{"role": role, "content": text}] for text in texts]


@pytest.mark.parametrize("spec", ["qe:likelihood", "likelihood", "0.7*likelihood+0.3*likelihood"])
def test_a_reward_is_the_rerankers_score(spec: str) -> None:
    reward = quitmt.reward(spec, languages=("en", "pt"))
    expected = by_reranker(rerank.load(spec if spec.startswith("qe:") else f"qe:{spec}"))
    assert reward(prompts=PROMPTS, completions=COMPLETIONS, source=COLUMN, **STATE) == expected
    assert len(set(expected)) > 5
    outcome = quitmt.rerank_pool(GROUPS[0], SOURCES[0], reranker=reward.signature and "qe:likelihood", rule="full")
    assert outcome.translation == GROUPS[0][max(range(4), key=lambda place: (expected[place], -place))]


@pytest.mark.parametrize(
    ("spec", "support"),
    [
        ("mbr:chrf", None),
        ("chrf++", "all"),
        ("0.5*chrf+bleu", "others"),
        ("mbr:rank:chrf+bleu", None),
        ("mbr:vote", None),
    ],
)
def test_a_group_reward_is_the_rerankers_score(spec: str, support: str | None) -> None:
    reward = quitmt.group_reward(spec, support=support, size=4)
    usual = support or ("all" if spec == "mbr:vote" else "others")
    name = spec if spec.startswith("mbr:") else f"mbr:{spec}"
    expected = by_reranker(rerank.load(name, support=usual))
    assert reward(prompts=PROMPTS, completions=COMPLETIONS, **STATE) == expected
    assert len(set(expected)) > 1


def test_the_best_of_a_group_is_what_rerank_pool_chooses() -> None:
    found = quitmt.group_reward("mbr:chrf")(prompts=["x"] * 4, completions=GROUPS[0])
    outcome = quitmt.rerank_pool(GROUPS[0], reranker="mbr:chrf", rule="full")
    assert found.index(max(found)) == outcome.index and max(found) == outcome.score


def test_groups_need_not_stand_together() -> None:
    reward, order = quitmt.group_reward("mbr:chrf"), [0, 4, 1, 5, 2, 6, 3, 7]
    found = reward(prompts=[PROMPTS[at] for at in order], completions=[COMPLETIONS[at] for at in order])
    expected = reward(prompts=PROMPTS, completions=COMPLETIONS)
    assert found == [expected[at] for at in order]


def test_one_completion_has_the_score_of_a_single_candidate() -> None:
    outcome = quitmt.rerank_pool(["O gato."], reranker="mbr:chrf", rule="full")
    assert quitmt.group_reward("mbr:chrf")(prompts=["x"], completions=["O gato."]) == [outcome.score] == [1.0]


def length(source: str, candidate: str) -> float:
    return len(source) + len(candidate) / 100


def test_where_the_source_is_found() -> None:
    def requested(where: Any, prompts: Any, **columns: Any) -> list[float]:
        return quitmt.reward(length, source=where)(prompts=prompts, completions=["ab"], **columns)

    assert requested(None, ["1234"]) == [4.02]
    assert requested(None, ["1234"], source=["1"]) == [1.02]
    assert requested("text", ["1234"], source=["1"], text=["12"]) == [2.02]
    assert requested(lambda prompt: prompt[:3], ["1234"], source=["1"]) == [3.02]
    system = {"role": "system", "content": "Translate."}
    assert requested(None, [[system, {"role": "user", "content": "12345"}]]) == [5.02]
    parts = [{"type": "text", "source_lang_code": "en", "text": "123456"}]
    assert requested(None, [[{"role": "user", "content": parts}]]) == [6.02]


def test_chats_are_read_as_texts() -> None:
    reward = quitmt.group_reward("mbr:chrf")
    found = reward(prompts=chat(PROMPTS, "user"), completions=chat(COMPLETIONS, "assistant"))
    assert found == reward(prompts=PROMPTS, completions=COMPLETIONS)


def test_all_are_scored_in_one_call_and_equal_ones_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[list[str]] = []
    loaded: list[str] = []

    class Fake:
        signature = "fake"

        def score(self, examples: Any, progress: object = None) -> Any:
            calls.append([one.translation for one in examples])
            return [float(len(one.translation)) for one in examples]

    monkeypatch.setattr(scorer, "load", lambda spec, hardware=None: loaded.append(spec) or Fake())
    reward = quitmt.reward("qe:kiwi:some/model", hardware=Hardware("cpu"))
    for _ in range(2):
        assert reward(prompts=PROMPTS, completions=COMPLETIONS) == [float(len(text)) for text in COMPLETIONS]
    assert calls == [["O gato dormiu.", "O gato dormia.", "Um gato dormiu.", "Um cão comeu.", "Cão.", "", "x"]] * 2
    assert loaded == ["kiwi:some/model"]


def test_functions_and_names_of_functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rewards_of_a_test.py").write_text(
        "def longer(source, candidate):\n    return len(candidate)\n\ndef same(hypothesis, reference):\n"
        "    return float(hypothesis == reference)\n"
    )
    monkeypatch.chdir(tmp_path)
    for name in ("qe:rewards_of_a_test:longer", "rewards_of_a_test:longer"):
        assert quitmt.reward(name)(prompts=["x"], completions=["abc"]) == [3.0]
    expected = [1 / 2, 1 / 2, 0.0]
    same = quitmt.group_reward("rewards_of_a_test:same")
    assert same(prompts=["x"] * 3, completions=["a", "a", "b"]) == expected
    by_function = quitmt.group_reward(lambda hypothesis, reference: float(hypothesis == reference))
    assert by_function(prompts=["x"] * 3, completions=["a", "a", "b"]) == expected
    all_judge = quitmt.group_reward(lambda hypothesis, reference: float(hypothesis == reference), support="all")
    assert all_judge(prompts=["x"] * 3, completions=["a", "a", "b"]) == [2 / 3, 2 / 3, 1 / 3]
    votes = quitmt.group_reward(quitmt.vote(lambda text: text[:1]))
    assert votes(prompts=["x"] * 3, completions=["ab", "ac", "b"]) == [2 / 3, 2 / 3, 1 / 3]


def test_trainers_find_a_name_to_log_it_by() -> None:
    assert quitmt.reward("likelihood", languages=("en", "pt")).__name__ == "likelihood"
    assert quitmt.reward(length).__name__ == "length" and quitmt.reward(length, name="mine").__name__ == "mine"
    assert quitmt.group_reward("mbr:chrf").__name__ == "mbr:chrf"


def test_nothing_is_nothing() -> None:
    assert quitmt.reward(length)(prompts=[], completions=[]) == []
    assert quitmt.group_reward("mbr:chrf")(prompts=[], completions=[]) == []


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: quitmt.reward("mbr:chrf"), "'mbr:chrf' compares candidates with each other .take quitmt.group_reward"),
        (lambda: quitmt.reward("rank:kiwi+likelihood"), "take quitmt.group_reward"),
        (lambda: quitmt.reward("likelihood"), "needs a model of the reverse direction .*languages"),
        (lambda: quitmt.reward("likelihood", hardware=Hardware("cpu")), "goes with scoring models"),
        (lambda: quitmt.group_reward("mbr:chrf", size=0), "size must be at least 1"),
    ],
)
def test_what_is_no_reward(make: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"completions": ["a"]}, "2 prompts and 1 completions"),
        ({"text": ["one"]}, "the column 'text' must have one text for each of the 2 prompts"),
        ({"text": [1, 2]}, "the column 'text' must have one text"),
        ({"other": ["a", "b"]}, "there is no column 'text' .there is other"),
        ({"text": ["a", "b"], "completions": [["a"], ["b"]]}, "chat messages with one by the assistant"),
    ],
)
def test_what_trainers_may_give_wrong(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        quitmt.reward(length, source="text")(**{"prompts": ["x", "y"], "completions": ["a", "b"], **values})


def test_a_blank_source_and_half_a_group_are_errors() -> None:
    with pytest.raises(InputError, match="needs a source, and that of completion 1 is blank"):
        quitmt.reward("likelihood", languages=("en", "pt"))(prompts=["x", " "], completions=["a", "b"])
    with pytest.raises(InputError, match=r"a group has 2 completions, not 4 .give each process whole groups"):
        quitmt.group_reward("mbr:chrf", size=4)(prompts=["x", "x"], completions=["a", "b"])


def test_a_score_that_is_no_number_is_an_error() -> None:
    with pytest.raises(RerankError, match="nan"):
        quitmt.reward(lambda source, candidate: float("nan"))(prompts=["x"], completions=["a"])
