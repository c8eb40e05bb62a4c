"""Votes: MBR with them is the majority's answer, ties to the earliest; those without an answer never win."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import quitmt
from quitmt import rerank
from quitmt.metrics.vote import Vote
from quitmt.protocols import Update
from quitmt.types import Candidate, Segment, Snapshot

WORDS = ["{}", "it is {}", "{}.0", "I say {}!"]
ANSWERED = st.tuples(st.integers(0, 3), st.sampled_from(WORDS)).map(lambda pair: pair[1].format(pair[0]))
POOLS = st.lists(ANSWERED | st.sampled_from(["", "…", "#### "]), min_size=1, max_size=40)


def digit(text: str) -> int | None:
    return next((int(letter) for letter in text if letter.isdigit()), None)


def grown(texts: list[str], cuts: list[int], reranker: Any = None) -> list[Snapshot]:
    reranker = reranker or rerank.load("mbr:vote")
    state, found = reranker.open(Segment("1")), []
    for start, stop in zip([0, *cuts], [*cuts, len(texts)], strict=True):
        [snapshots] = reranker.extend([Update(state, [Candidate(text) for text in texts[start:stop]], 1)])
        found += snapshots
    return found


@given(POOLS)
def test_the_majority_wins_and_ties_go_to_the_earliest(texts: list[str]) -> None:
    for size, snapshot in enumerate(grown(texts, []), start=1):
        votes = Counter(found for text in texts[:size] if (found := digit(text)) is not None)
        if not votes:
            assert (snapshot.best, snapshot.score) == (0, 0.0)
            continue
        [(answer, count)] = votes.most_common(1)  # of equals, the one that came first
        assert snapshot.best == [digit(text) for text in texts].index(answer)
        assert snapshot.score == count / size


@given(POOLS, st.data())
def test_growing_in_steps_changes_nothing(texts: list[str], data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(texts)), max_size=4)))
    assert grown(texts, cuts) == grown(texts, [])


@pytest.mark.parametrize("variant", ["prune", "lowrank:reduction=1"])
def test_faster_kinds_of_mbr_take_votes(variant: str) -> None:
    texts = [f"{index}: it is {7 if index % 3 else index}" for index in range(60)]
    [*_, last] = grown(texts, [], rerank.load("mbr:vote", variant=variant))
    assert texts[last.best].endswith("is 7")


def test_what_has_no_answer_never_beats_what_has_one() -> None:
    assert [snapshot.best for snapshot in grown(["", "", "", "4"], [])] == [0, 0, 0, 3]


# Functions of one's own


def test_any_function_gives_answers() -> None:
    reranker = quitmt.vote(lambda text: text.split()[-1] if text else None)
    assert quitmt.rerank_pool(["", "", "a dog", "a cat", "one cat"], reranker=reranker).text == "a cat"


def test_a_function_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "answers_of_a_test.py").write_text("def first(text): return text[:1] or None\n")
    monkeypatch.chdir(tmp_path)
    reranker = rerank.load("mbr:vote:answers_of_a_test:first")
    assert grown(["axe", "bee", "ant"], [], reranker)[-1] == Snapshot(3, 0, 2 / 3)
    assert reranker.signature.startswith("mbr:vote|answer:function:answers_of_a_test:first|code:")
    assert rerank.load("mbr:vote").signature == "mbr:vote|answer:final"


def test_a_function_that_fails_fails_its_own_segment_only() -> None:
    def answer(text: str) -> object:
        return {}[text] if "!" in text else [] if "?" in text else text

    reranker: Any = quitmt.mbr(Vote(answer))
    pools = [["a", "b!"], ["a", "a"], ["a?", "b"]]
    states = [reranker.open(Segment(str(number))) for number in range(3)]
    found = reranker.extend(
        [Update(state, [*map(Candidate, pool)], 9) for state, pool in zip(states, pools, strict=True)]
    )
    assert "the utility failed: KeyError" in str(found[0]) and "unhashable" in str(found[2])
    assert found[1] == [Snapshot(2, 0, 1.0)]


def test_an_async_function_is_refused_and_not_counted() -> None:
    """A coroutine has a hash and is equal to itself alone: everybody would vote for himself."""

    async def answer(text: str) -> str:
        return text.casefold()

    with pytest.raises(quitmt.QuitmtError, match="functions for votes cannot be async"):
        quitmt.rerank_pool(["A", "a", "b"], reranker=quitmt.vote(answer))


# With stopping rules


def landslide(prompt: str, start: int, stop: int) -> list[str]:
    return [f"by way {index} the answer is {3 if index % 10 == 9 else 8}" for index in range(start, stop)]


def tie(prompt: str, start: int, stop: int) -> list[str]:
    return [f"by way {index} the answer is {3 + 5 * (index % 2)}" for index in range(start, stop)]


@pytest.mark.parametrize("rule", ["quit", "full", "fixed:100", "consistency:minimum=32"])
def test_every_rule_takes_votes(rule: str) -> None:
    [outcome] = quitmt.best_of(["?"], landslide, "mbr:vote", rule=rule, n=256)
    assert outcome.error is None and outcome.text.endswith("is 8")
    assert outcome.score == pytest.approx(0.9, abs=0.02)


def test_a_vote_stops_early_on_a_landslide_and_not_on_a_tie() -> None:
    settings: dict[str, Any] = {"rule": "consistency:minimum=32", "n": 256}
    [clear] = quitmt.best_of(["?"], landslide, "mbr:vote", **settings)
    [even] = quitmt.best_of(["?"], tie, "mbr:vote", **settings)
    assert (clear.stop, clear.size) == (quitmt.StopReason.DECIDED, 32)
    assert (even.stop, even.size) == (quitmt.StopReason.BUDGET, 256)
