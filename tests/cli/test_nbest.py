"""Every candidate's score: n-best lists, the format of Moses, and scores that are kept with pools."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Ran

from quitmt.files.journal import Journal

Quitmt = Callable[..., Ran]
SMALL = ("-n", 24, "-k", 4, "-q")
CALLS: list[str] = []


def rate(source: str, candidate: str) -> float:
    """A quality estimator that remembers what it was asked."""
    CALLS.append(candidate)
    return len(set(candidate)) / (1 + len(candidate)) + len(candidate) % 7 / 3


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.fixture
def pools(tmp_path: Path, make_pool: Callable[[int, int], list[str]]) -> Path:
    path = tmp_path / "pools.jsonl"
    lines = [
        {"id": i, "source": f"s {i}", "candidates": make_pool(i, 24), "anchors": make_pool(i + 50, 1), "generator": "g"}
        for i in range(4)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return path


@pytest.mark.parametrize(
    "words", [(), ("--stop", "full"), ("--mbr", "prune"), ("--filter", "qe:tests.cli.test_nbest:rate")]
)
def test_nbest_lists_are_in_outcomes(quitmt: Quitmt, pools: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    ran = quitmt("rerank", pools, *SMALL, *words, "--nbest", 5, "--jsonl", tmp_path / "out.jsonl")
    plain = quitmt("rerank", pools, *SMALL, *words)
    assert ran.code == 0 and ran.out == plain.out
    for outcome, pool in zip(read(tmp_path / "out.jsonl"), read(pools), strict=True):
        best = outcome["nbest"]
        counts = Counter(pool["candidates"][: outcome["size"]])
        assert 1 <= len(best) <= 5
        first = (best[0]["index"], best[0]["text"], best[0]["score"])
        assert first == (outcome["index"], outcome["translation"], outcome["score"])
        assert [one["score"] for one in best] == sorted((one["score"] for one in best), reverse=True)
        assert len({one["text"] for one in best}) == len(best)
        for one in best:
            at = pool["candidates"][one["index"]] if one["index"] >= 0 else pool["anchors"][-1 - one["index"]]
            assert one["text"] == at and one["count"] == counts[at]
            assert ("origin" in one) == (at in pool["anchors"])


def test_the_format_of_moses(quitmt: Quitmt, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("Good morning.\n\nThe door is open.\n")
    files = ("--jsonl", tmp_path / "out.jsonl", "--nbest-text", tmp_path / "nbest.txt")
    ran = quitmt("translate", tmp_path / "in", *SMALL, "--nbest", 3, *files)
    assert ran.code == 0 and len(ran.out.splitlines()) == 3
    lines = [line.split(" ||| ") for line in (tmp_path / "nbest.txt").read_text("utf-8").splitlines()]
    told = [
        (place, one) for place, outcome in enumerate(read(tmp_path / "out.jsonl")) for one in outcome.get("nbest", ())
    ]
    assert {number for number, *_ in lines} == {"0", "2"} and len(lines) == len(told)
    for (number, text, features, score), (place, one) in zip(lines, told, strict=True):
        assert (int(number), text, float(score)) == (place, one["text"], one["score"])
        assert features.split()[:4] == ["Score=", repr(one["score"]), "Count=", str(one["count"])]
        assert features.split()[4:] == ["LogProbability=", repr(one["log_probability"])]


@pytest.mark.parametrize(
    ("reranker", "name"),
    [("qe:likelihood", "likelihood"), ("mbr:chrf", "mbr:chrf"), ("qe:0.5*likelihood+0.5*likelihood", None)],
)
def test_kept_scores_are_those_computed_again(quitmt: Quitmt, tmp_path: Path, reranker: str, name: str | None) -> None:
    """Bit for bit: read from the file, computed again from the kept candidates, and in the n-best list."""
    name = name or "0.5likelihood,0.5likelihood"
    (tmp_path / "in").write_text("Good morning, dear friends.\nThe door is open.\n")
    kept, out, full = tmp_path / "kept.jsonl", tmp_path / "out.jsonl", ("--stop", "full", "-q")
    words = ("--rerank", reranker, "--nbest", 100)
    assert quitmt("translate", tmp_path / "in", *SMALL, *words, "--keep-pools", kept, "--jsonl", out).code == 0
    again, scored = tmp_path / "again.jsonl", tmp_path / "scored.jsonl"
    bare = [{key: value for key, value in pool.items() if "scores" not in key} for pool in read(kept)]
    (tmp_path / "bare.jsonl").write_text("".join(json.dumps(pool) + "\n" for pool in bare))
    assert quitmt("rerank", tmp_path / "bare.jsonl", *full, *words, "--keep-pools", scored, "--jsonl", again).code == 0
    for live, kept_pool, scored_pool, replayed in zip(read(out), read(kept), read(scored), read(again), strict=True):
        assert kept_pool["generator"] == scored_pool["generator"] != ""
        assert kept_pool["scores"][name] == scored_pool["scores"][name]
        assert kept_pool.get("anchor_scores", {}).get(name) == scored_pool.get("anchor_scores", {}).get(name)
        texts = zip(kept_pool["candidates"], kept_pool["scores"][name], strict=True)
        best = {one["text"]: one["score"] for one in live["nbest"]}
        assert all(best[text] == score for text, score in texts)
        assert [(one["text"], one["score"]) for one in live["nbest"]] == [
            (one["text"], one["score"]) for one in replayed["nbest"]
        ]


@pytest.mark.parametrize("reranker", ["qe:likelihood", "mbr:chrf"])
def test_kept_scores_replay_without_a_model(quitmt: Quitmt, tmp_path: Path, reranker: str) -> None:
    (tmp_path / "in").write_text("Good morning, dear friends.\nThe door is open.\n")
    kept, name = tmp_path / "kept.jsonl", reranker.removeprefix("qe:")
    live = quitmt("translate", tmp_path / "in", *SMALL, "--rerank", reranker, "--keep-pools", kept)
    replayed = quitmt("rerank", kept, "--rerank", f"qe:recorded:{name}", "--stop", "full", "-q")
    assert replayed.code == 0 and replayed.out == live.out


def test_each_distinct_candidate_is_scored_once(quitmt: Quitmt, pools: Path, tmp_path: Path) -> None:
    CALLS.clear()
    words = ("--rerank", "qe:tests.cli.test_nbest:rate", "--stop", "full", "-q", "--nbest", 8)
    files = ("--keep-pools", tmp_path / "kept", "--nbest-text", tmp_path / "nbest", "--jsonl", tmp_path / "out")
    assert quitmt("rerank", pools, *words, *files).code == 0
    wanted = [text for pool in read(pools) for text in {*pool["candidates"], *pool["anchors"]}]
    assert sorted(CALLS) == sorted(wanted)


def test_what_a_filter_left_out_has_no_score(quitmt: Quitmt, pools: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    words = ("--filter", "qe:tests.cli.test_nbest:rate", "--keep", 3, "--stop", "full", "-q", "--keep-pools", kept)
    assert quitmt("rerank", pools, *words).code == 0
    scores = read(kept)[0]["scores"]["mbr:chrf"]
    assert None in scores and any(score is not None for score in scores)
    ran = quitmt("rerank", kept, "--rerank", "qe:recorded:mbr:chrf", "-q")
    assert ran.code == 1 and "no recorded score 'mbr:chrf'" in ran.err


def test_recorded_scores_stay_as_they_are(quitmt: Quitmt, tmp_path: Path) -> None:
    """Those of two candidates with one text may differ, and a second name is added beside them."""
    pool = {"id": "1", "source": "s", "candidates": ["a b", "c", "a b"], "scores": {"q": [0.1, 0.2, 0.3]}}
    (tmp_path / "pools").write_text(json.dumps(pool) + "\n")
    for words, names in ((("--rerank", "qe:recorded:q"), ["q"]), ((), ["mbr:chrf", "q"])):
        path = tmp_path / f"kept {len(names)}"
        assert quitmt("rerank", tmp_path / "pools", *words, "-q", "--keep-pools", path, "-o", tmp_path / "o").code == 0
        [kept] = read(path)
        assert sorted(kept["scores"]) == names and kept["scores"]["q"] == [0.1, 0.2, 0.3]
    ran = quitmt("rerank", tmp_path / "pools", "--rerank", "qe:recorded:q", "-q", "--nbest", 3, "--jsonl")
    assert [(one["text"], one["score"], one["count"]) for one in json.loads(ran.out)["nbest"]] == [
        ("a b", 0.3, 2),
        ("c", 0.2, 1),
    ]


def test_a_resumed_run_has_the_same_lists(
    quitmt: Quitmt, pools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("--stop", "full", "--in-flight", 1, "--nbest", 4, "-q")

    def files(name: str) -> list[Path | str]:
        kinds = {"-o": "txt", "--jsonl": "jsonl", "--nbest-text": "nbest", "--keep-pools": "pools"}
        return [word for flag, kind in kinds.items() for word in (flag, tmp_path / f"{name}.{kind}")]

    assert quitmt("rerank", pools, *words, *files("whole")).code == 0
    add, done = Journal.add, []

    def interrupted(self: Journal, *entry: Any) -> None:
        add(self, *entry)
        done.append(entry)
        if len(done) == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Journal, "add", interrupted)
        assert quitmt("rerank", pools, *words, *files("parts")).code == 130
    other = quitmt("rerank", pools, "--stop", "full", "--in-flight", 1, "-q", *files("parts"), "--resume")
    assert other.code == 2 and "--nbest-text needs the number" in other.err
    other = quitmt("rerank", pools, *words[:4], "-q", "--nbest", 5, *files("parts"), "--resume")
    assert other.code == 2 and "--nbest was 4" in other.err
    assert quitmt("rerank", pools, *words, *files("parts"), "--resume").code == 0
    for kind in ("txt", "nbest", "pools"):
        assert (tmp_path / f"parts.{kind}").read_bytes() == (tmp_path / f"whole.{kind}").read_bytes()
    for one, other_one in zip(read(tmp_path / "parts.jsonl"), read(tmp_path / "whole.jsonl"), strict=True):
        assert one["nbest"] == other_one["nbest"] and len(one["nbest"]) == 4


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--nbest", 0), "--nbest must be a whole number of at least 1, not 0"),
        (
            ("--nbest-text", "list.txt"),
            "--nbest-text needs the number of candidates (give --nbest 16, say)",
        ),
        (("--nbest", 2, "--nbest-text", "x", "-o", "x"), "two outputs would go to the same file"),
    ],
)
def test_bad_words(
    quitmt: Quitmt, pools: Path, tmp_path: Path, words: tuple[Any, ...], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = quitmt("rerank", pools, *words)
    assert ran.code == 2 and message in ran.err and ran.err.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pools.jsonl"]


def test_split_lines_have_no_such_text(quitmt: Quitmt, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("One. Two.\n")
    ran = quitmt("translate", tmp_path / "in", "--split", "--nbest", 2, "--nbest-text", tmp_path / "n")
    assert ran.code == 2 and "--nbest-text goes by lines, and --split by sentences" in ran.err
