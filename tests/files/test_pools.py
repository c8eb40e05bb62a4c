"""Pools in files: what is written reads back, and every kind of bad pool is named by its line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from quitmt.errors import InputError
from quitmt.files.pools import Seen, format_pool, parse_pool, read_plain_pools, read_pools
from quitmt.rerank.specs import reads_texts
from quitmt.types import Candidate, RecordedPool, Segment


def collect(pools: AsyncIterator[RecordedPool]) -> list[RecordedPool]:
    async def work() -> list[RecordedPool]:
        return [pool async for pool in pools]

    return asyncio.run(work())


def test_a_pool_with_everything() -> None:
    pool = parse_pool('{"id": 7, "source": "s", "candidates": ["a", ""], "scores": {"q": [1, 0.5]}, "reference": "r"}')
    assert pool.segment == Segment("7", "s")
    assert pool.candidates == (Candidate("a", scores={"q": 1}), Candidate("", scores={"q": 0.5}))


def test_what_is_written_reads_back() -> None:
    candidates = [Candidate("olá\n", -1.5, 3, {"q": 1.0}), Candidate("😀", -2.0, 4, {"q": 2.0, "only here": 0.0})]
    pool = parse_pool(format_pool(RecordedPool(Segment("x", "s"), tuple(candidates))))
    assert pool.segment == Segment("x", "s")
    assert [c.text for c in pool.candidates] == ["olá\n", "😀"]
    assert [c.scores for c in pool.candidates] == [
        {"log_probability": -1.5, "tokens": 3, "q": 1.0},
        {"log_probability": -2.0, "tokens": 4, "q": 2.0, "only here": 0.0},
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not JSON"),
        ("[]", "must be a JSON object, not list"),
        ("[" * 100_000, "nested too deeply|not JSON"),
        ('{"candidates": ["a"]}', 'has no "id"'),
        ('{"id": true, "candidates": ["a"]}', '"id" must be'),
        ('{"id": 1}', 'no list of "candidates"'),
        ('{"id": 1, "candidates": "abc"}', 'no list of "candidates"'),
        ('{"id": 1, "candidates": []}', "has no candidates"),
        ('{"id": 1, "candidates": ["a", 3]}', "candidate 1 is not a text but 3"),
        ('{"id": 1, "candidates": ["a", null]}', "candidate 1 is not a text but null"),
        ('{"id": 1, "source": 5, "candidates": ["a"]}', '"source" must be a text'),
        ('{"id": 1, "candidates": ["a"], "support": "a text"}', '"support" must be a list of texts'),
        ('{"id": 1, "candidates": ["a"], "support": [1]}', '"support" must be a list of texts'),
        ('{"id": 1, "candidates": ["a"], "scores": [1]}', '"scores" must be an object'),
        ('{"id": 1, "candidates": ["a"], "scores": {"q": [1, 2]}}', "there are 2 scores 'q' for 1 candidates"),
        ('{"id": 1, "candidates": ["a"], "scores": {"q": 1}}', "there are no scores 'q' for 1 candidates"),
        ('{"id": 1, "candidates": ["a"], "scores": {"q": [NaN]}}', "is NaN, not a finite number"),
        ('{"id": 1, "candidates": ["a"], "scores": {"q": [-Infinity]}}', "is -Infinity, not a finite"),
        ('{"id": 1, "candidates": ["a"], "scores": {"q": [1e999]}}', "score 'q' of candidate 0 is inf"),
        ('{"id": 1, "candidates": ["a"], "scores": {"q": [true]}}', "score 'q' of candidate 0 is True"),
        ('{"id": 1, "candidates": ["\\ud800"]}', "half of a surrogate pair"),
        ('{"id": 1, "candidates": ["a"], "scores": {"q": [1' + "0" * 400 + "]}}", "not a finite number"),
        ('{"id": ' + "1" * 5000 + ', "candidates": ["a"]}', "a number has too many digits"),
    ],
)
def test_bad_pools(line: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "pools.jsonl"
    path.write_text('{"id": "fine", "candidates": ["a"]}\n\n' + line + "\n")
    with pytest.raises(InputError, match=message) as raised:
        collect(read_pools(str(path)))
    assert "pools.jsonl, line 3: " in str(raised.value)


def test_an_escaped_surrogate_pair_is_text() -> None:
    assert parse_pool('{"id": 1, "candidates": ["\\ud83d\\ude00"]}').candidates[0].text == "😀"


def test_duplicate_ids(tmp_path: Path) -> None:
    path = tmp_path / "p"
    path.write_text('{"id": 1, "candidates": ["a"]}\n{"id": "1", "candidates": ["b"]}\n')
    with pytest.raises(InputError, match="line 2: the id '1' occurs a second time"):
        collect(read_pools(str(path)))


def test_ids_are_remembered_beyond_the_recent_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Seen, "RECENT", 4)
    seen = Seen()
    assert not any(seen.seen(str(number)) for number in range(50))
    assert all(seen.seen(str(number)) for number in range(50))
    assert not seen.seen("50")


def test_plain_text(tmp_path: Path) -> None:
    (tmp_path / "c").write_text("a\nb\nc\nd\n")
    (tmp_path / "s").write_text("one\ntwo\n")
    pools = collect(read_plain_pools(str(tmp_path / "c"), 2, str(tmp_path / "s")))
    assert [(p.segment.id, p.segment.source, [c.text for c in p.candidates]) for p in pools] == [
        ("1", "one", ["a", "b"]),
        ("2", "two", ["c", "d"]),
    ]


@pytest.mark.parametrize(
    ("candidates", "sources", "message"),
    [
        ("a\nb\nc\n", None, "has 3 lines, which is not a multiple of 2"),
        ("a\nb\nc\nd\n", "one\n", "has 1 lines, fewer than there are pools"),
        ("a\nb\n", "one\ntwo\n", "has more than 1 lines"),
    ],
)
def test_plain_text_that_does_not_fit(candidates: str, sources: str | None, message: str, tmp_path: Path) -> None:
    (tmp_path / "c").write_text(candidates)
    (tmp_path / "s").write_text(sources or "")
    with pytest.raises(InputError, match=message):
        collect(read_plain_pools(str(tmp_path / "c"), 2, str(tmp_path / "s") if sources else None))


SCORES = '{"id": 1, "source": "s", "scores": {"q": [0.1, 0.3], "c": [1, null]}, "systems": ["a", "b"]}'


def test_pools_of_scores_without_texts(tmp_path: Path) -> None:
    """Candidates are told apart by their index, and there is no source that they could be compared with."""
    path = tmp_path / "scores.jsonl"
    path.write_text(SCORES + "\n")
    [pool] = collect(read_pools(str(path), texts=False))
    assert pool.segment == Segment("1")
    assert [(one.text, one.scores) for one in pool.candidates] == [("#0", {"q": 0.1, "c": 1}), ("#1", {"q": 0.3})]
    with pytest.raises(InputError, match=r'line 1: the pool has no list of "candidates" .*enough for qe:recorded'):
        collect(read_pools(str(path)))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            [SCORES, '{"id": 2, "candidates": ["a"]}'],
            "line 2: this pool has texts, but those before it have only scores",
        ),
        (
            ['{"id": 2, "candidates": ["a"]}', SCORES],
            "line 2: this pool has only scores, but those before it have texts",
        ),
        (['{"id": 1, "scores": {"q": [1, 2], "c": [1]}}'], "there are 1 scores 'c' for 2 candidates"),
        (['{"id": 1, "scores": {"q": []}}'], "line 1: the pool has no candidates"),
        (['{"id": 1, "scores": {}}'], 'line 1: the pool has no list of "candidates"'),
    ],
)
def test_pools_of_scores_that_do_not_fit(lines: list[str], message: str, tmp_path: Path) -> None:
    path = tmp_path / "scores.jsonl"
    path.write_text("\n".join(lines))
    with pytest.raises(InputError, match=message):
        collect(read_pools(str(path), texts=False))


def test_rerankers_that_need_no_texts() -> None:
    assert not any(map(reads_texts, ("qe:recorded:q", "qe:0.5*recorded:q+recorded:c", "qe:rank:recorded:q+recorded:c")))
    assert all(map(reads_texts, ("mbr:chrf", "qe:kiwi", "qe:0.5*recorded:q+kiwi")))
