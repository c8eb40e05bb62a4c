"""``--deadline`` and ``--run-deadline``. The work is so much more than the time that no machine is too fast for it, and
nothing here says how long anything may take."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Ran

Quitmt = Callable[..., Ran]
ENDLESS = ("--stop", "full", "-n", 1_000_000)
SMALL = ("-n", 16, "-k", 4, "-w", 2)


def outcomes(path: Path) -> list[dict[str, Any]]:
    fields = [json.loads(line) for line in path.read_text().splitlines()]
    return [{key: value for key, value in one.items() if key != "seconds"} for one in fields]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "in.en"
    path.write_text("".join(f"There are {number} cats in the garden.\n" for number in range(2, 26)))
    return path


def test_a_deadline_of_each_segment(quitmt: Quitmt, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("Good morning.\n\nThe door is open.\n")
    words = ("translate", tmp_path / "in", *ENDLESS, "--rerank", "qe:likelihood", "--deadline", 2)
    ran = quitmt(*words, "--jsonl", tmp_path / "out", "--show")
    assert ran.code == 0
    found = outcomes(tmp_path / "out")
    assert [one["stop"] for one in found] == ["deadline", "stable", "deadline"]
    assert found[0]["translation"] and found[2]["translation"]
    assert "deadline" not in found[0]["signature"]
    assert ran.out.count("deadline: time was up") == 2
    assert "2 segments" in ran.err and "2 deadline" in ran.err


def test_a_deadline_of_scoring(quitmt: Quitmt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code = "import time\n\ndef slow(source, candidate):\n    time.sleep(0.01)\n    return float(candidate)\n"
    Path("own_slow_metric.py").write_text(code)
    pool = {"id": "1", "source": "x", "candidates": [str(number) for number in range(512)]}
    Path("pools").write_text(json.dumps(pool) + "\n")
    ran = quitmt(
        "rerank", "pools", "--rerank", "qe:own_slow_metric:slow", "--stop", "full", "--deadline", 0.05, "--jsonl"
    )
    outcome = json.loads(ran.out)
    assert (ran.code, outcome["stop"]) == (0, "deadline")
    assert outcome["translation"] == str(outcome["size"] - 1) and outcome["size"] < 512
    assert "for nothing" not in ran.err
    assert quitmt("rerank", "pools", "--run-deadline", 3600, "--deadline", 3600).code == 0


@pytest.mark.slow
def test_what_a_run_did_not_begin_is_taken_up_again(quitmt: Quitmt, text: Path, tmp_path: Path) -> None:
    words = ("translate", text, *SMALL, "--in-flight", 2)
    assert quitmt(*words, "-o", tmp_path / "whole", "--jsonl", tmp_path / "whole.jsonl").code == 0
    undisturbed = outcomes(tmp_path / "whole.jsonl")
    files = ("-o", tmp_path / "out", "--jsonl", tmp_path / "out.jsonl")
    ran = quitmt(*words, *files, "--run-deadline", 0.001)
    first = outcomes(tmp_path / "out.jsonl")
    late = [number for number, one in enumerate(first) if one["stop"] == "failed"]
    assert ran.code == 1 and len(first) == 24 and late and late[-1] == 23
    errors = {first[number]["error"] for number in late}  # on a busy machine some are begun, and no further
    assert errors <= {f"{what} before the run's deadline of 0.001 s" for what in ("not begun", "no candidate arrived")}
    assert " failed" in ran.err
    assert "--run-deadline 0.001 --resume" in ran.err
    assert all(one["translation"] for number, one in enumerate(first) if number not in late)
    assert quitmt(*words, *files, "--resume").code == 0
    resumed = outcomes(tmp_path / "out.jsonl")
    for number in range(24):
        assert resumed[number] == (undisturbed if number in late else first)[number]
    assert (tmp_path / "out").read_text().count("\n") == 24 and not (tmp_path / "out.journal").exists()


def test_a_deadline_that_is_far_away_changes_nothing(quitmt: Quitmt, tmp_path: Path) -> None:
    text = tmp_path / "in"
    text.write_text("Good morning.\nThe door is open.\nWhere is the station?\n")
    for name, words in (("a", ()), ("b", ("--deadline", 9e5, "--run-deadline", 9e6))):
        for reranker in (("--mbr", "exact"), ("--mbr", "prune", "--stop", "full")):
            path = tmp_path / f"{name}{len(reranker)}"
            assert quitmt("translate", text, "-n", 72, *reranker, *words, "--jsonl", path, "-o", "/dev/null").code == 0
    assert outcomes(tmp_path / "a2") == outcomes(tmp_path / "b2")
    assert outcomes(tmp_path / "a4") == outcomes(tmp_path / "b4")


def test_a_poisoned_answer_does_not_hold_up_a_deadline(quitmt: Quitmt, tmp_path: Path) -> None:
    """Cleaning it happens in the event loop, as do deadlines."""
    from aiohttp import web
    from tests.servers.fake_openai import scripted_server

    async def answer(_: int, request: web.Request) -> web.StreamResponse:
        asked = await request.text()
        text = "a" + "\n" * 20_000 + "b" if "poison" in asked else "Bom dia."
        choices = [{"index": i, "message": {"content": text}} for i in range(json.loads(asked)["n"])]
        return web.json_response({"choices": choices})

    (tmp_path / "in").write_text("Good morning.\nA poison.\n")
    with scripted_server(answer) as server:
        words = ("--model", "openai:m", "--base-url", server.base_url, "--src", "en", "--tgt", "pt", "--deadline", 1)
        ran = quitmt("translate", tmp_path / "in", *words, *ENDLESS, "--jsonl", tmp_path / "out")
    assert ran.code == 0
    assert [one["stop"] for one in outcomes(tmp_path / "out")] == ["deadline", "deadline"]
