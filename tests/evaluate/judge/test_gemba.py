"""GEMBA-MQM end to end: against a local server with a judge of ours behind it, and with a tiny model that babbles."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from quitmt import rerank
from quitmt.errors import GenerationError, OutputError, UsageError
from quitmt.evaluate.judge.engines import gemba
from quitmt.evaluate.judge.gemba import TEMPERATURES, Gemba
from quitmt.metrics.scorer import Example, ScorerEstimator
from quitmt.protocols import Update
from quitmt.types import Candidate, Segment, Snapshot
from tests.models import tiny
from tests.servers.fake_openai import Server, scripted_server

FINE = "Critical:\nno-error\nMajor:\nno-error\nMinor:\nno-error"
BAD = 'Critical:\nno-error\nMajor:\naccuracy/omission - "x"\nMinor:\nno-error'
ANSWERS = {"fine": FINE, "bad": BAD, "two": BAD.replace("\nMinor", '\nfluency/grammar - "y"\nMinor')}


def example(translation: str, source: str = "A source.") -> Example:
    return Example(source, translation)


def question(body: dict[str, Any]) -> tuple[str, float]:
    """The translation a request is about, and its temperature."""
    return re.findall(r"<text>(.*?)</text>", body["messages"][-1]["content"], re.DOTALL)[1], body["temperature"]


@contextmanager
def judging(judge: Callable[[str, float], str | int]) -> Iterator[Server]:
    """A server that answers as ``judge(translation, temperature)`` says: a text, or a status to refuse with."""

    async def answer(_: int, request: web.Request) -> web.StreamResponse:
        said = judge(*question(await request.json()))
        if isinstance(said, int):
            return web.json_response({"error": {"message": "no"}}, status=said)
        return web.json_response({"choices": [{"message": {"content": said}, "finish_reason": "stop"}]})

    with scripted_server(answer) as server:
        yield server


def asked(server: Server) -> list[tuple[str, float]]:
    return [question(json.loads(request["body"])) for request in server.requests]


def known(translation: str, temperature: float) -> str:
    return ANSWERS[translation]


def judge_at(server: Server, cache: Path, **options: Any) -> Gemba:
    return gemba("gemba:openai:m", ("en", "de"), {"base_url": server.base_url, **options}, cache)


def lines(cache: Path) -> list[dict[str, Any]]:
    [file] = cache.iterdir()
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_scores_in_order_and_equal_examples_once(tmp_path: Path) -> None:
    done: list[int] = []
    with judging(known) as server:
        ours = judge_at(server, tmp_path)
        examples = [example(text) for text in ("bad", "fine", "two", "bad", "bad")]
        assert ours.score(examples, done.append).tolist() == [-5, 0, -10, -5, -5]
        assert sorted(asked(server)) == [("bad", 0), ("fine", 0), ("two", 0)]
    assert sum(done) == 5 and ours.unparsed == 0
    assert ours.score([]).tolist() == []


def test_what_the_judge_is_told(tmp_path: Path) -> None:
    with judging(known) as server:
        judge_at(server, tmp_path).score([example("fine", "Ask {source}.")])
        [body] = [json.loads(request["body"]) for request in server.requests]
    assert [message["role"] for message in body["messages"]] == ["system", *["user", "assistant"] * 3, "user"]
    last = body["messages"][-1]["content"]
    assert last == "English source:\n<text>Ask {source}.</text>\n\nGerman translation:\n<text>fine</text>"
    assert body["max_tokens"] == 512 and body["n"] == 1


def test_a_reference_changes_nothing(tmp_path: Path) -> None:
    with judging(known) as server:
        ours = judge_at(server, tmp_path)
        assert ours.score([Example("s", "bad", "r"), Example("s", "bad")]).tolist() == [-5, -5]
        assert len(server.requests) == 1


def test_what_cannot_be_read_is_asked_for_again_warmer(tmp_path: Path) -> None:
    def judge(translation: str, temperature: float) -> str:
        if translation == "empty":
            return "" if temperature == 0 else FINE
        return BAD if temperature >= 0.7 or translation == "clear" else "I like it."

    with judging(judge) as server:
        ours = judge_at(server, tmp_path)
        assert ours.score([example("hard"), example("clear"), example("empty")]).tolist() == [-5, -5, 0]
        assert sorted(asked(server)) == [
            ("clear", 0), ("empty", 0), ("empty", 0.3), ("hard", 0), ("hard", 0.3), ("hard", 0.7),
        ]  # fmt: skip


def test_what_can_never_be_read_is_counted_and_has_no_score(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with judging(lambda translation, _: "Nice." if "?" in translation else FINE) as server:
        ours = judge_at(server, tmp_path)
        scores = ours.score([example("a?"), example("b"), example("a?"), example("c")])
        assert [math.isnan(score) for score in scores] == [True, False, True, False]
        assert ours.unparsed == 2
        assert [temperature for text, temperature in asked(server) if text == "a?"] == list(TEMPERATURES)
        assert "2 of 4 translations (50.0%) could not be read, even after 4 tries" in caplog.text
        assert [record.levelno for record in caplog.records] == [logging.WARNING]
        ours.score([example("b")])
        assert ours.unparsed == 0


def test_answers_are_kept_on_disk_and_not_asked_for_again(tmp_path: Path) -> None:
    with judging(lambda translation, _: "Nice." if "?" in translation else BAD) as server:
        examples = [example("a"), example("b?"), example("c")]
        first = judge_at(server, tmp_path).score(examples)
        sent = len(server.requests)
        second = judge_at(server, tmp_path)
        assert second.score(examples).tolist() == pytest.approx(first.tolist(), nan_ok=True)
        assert second.unparsed == 1 and len(server.requests) == sent == 6
        # Another model, prompt, language or setting is another question.
        judge_at(server, tmp_path, max_tokens=100).score([example("a")])
        gemba("openai:m", ("en", "fr"), {"base_url": server.base_url}, tmp_path).score([example("a")])
        assert len(server.requests) == sent + 2
    assert len(list(tmp_path.iterdir())) == 3


def test_half_a_line_and_other_things_in_the_file_are_no_answers(tmp_path: Path) -> None:
    with judging(known) as server:
        judge_at(server, tmp_path).score([example("bad"), example("fine")])
        [file] = tmp_path.iterdir()
        written = file.read_bytes()
        file.write_bytes(b'[]\n{"key": 7}\n\xff\n' + written[:-20])
        assert judge_at(server, tmp_path).score([example("bad"), example("fine")]).tolist() == [-5, 0]
        assert len(server.requests) == 3
        assert judge_at(server, tmp_path).score([example("bad"), example("fine")]).tolist() == [-5, 0]
        assert len(server.requests) == 3


def test_an_interrupted_run_keeps_what_was_answered(tmp_path: Path) -> None:
    class Interrupted(BaseException):
        pass

    done: list[int] = []

    def interrupt(count: int) -> None:
        done.append(count)
        if len(done) == 3:
            raise Interrupted

    examples = [example(f"t{index}") for index in range(8)]
    with judging(lambda *_: BAD) as server, pytest.raises(Interrupted):
        judge_at(server, tmp_path, concurrency=1).score(examples, interrupt)
    kept = {line["translation"] for line in lines(tmp_path)}
    assert len(kept) == 3
    with judging(lambda *_: BAD) as server:  # another one: the first may yet hear of what was under way
        assert judge_at(server, tmp_path).score(examples).tolist() == [-5] * 8
        assert {text for text, _ in asked(server)} == {example.translation for example in examples} - kept


def test_one_that_fails_does_not_lose_the_others(tmp_path: Path) -> None:
    with judging(lambda translation, _: 400 if "!" in translation else BAD) as server:
        examples = [example("a"), example("b!"), example("c"), example("d!")]
        with pytest.raises(
            GenerationError, match="2 of 4 translations could not be judged, the first because"
        ) as caught:
            judge_at(server, tmp_path).score(examples)
        assert "the answers about the others are kept" in str(caught.value)
        assert sorted(line["translation"] for line in lines(tmp_path)) == ["a", "c"]
        sent = len(server.requests)
        assert judge_at(server, tmp_path).score([example("a"), example("c")]).tolist() == [-5, -5]
        assert len(server.requests) == sent


def test_inside_a_running_loop_and_in_its_threads(tmp_path: Path) -> None:
    async def work(ours: Gemba) -> list[list[float]]:
        here = ours.score([example("bad")])
        there = await asyncio.to_thread(ours.score, [example("two")])
        return [here.tolist(), there.tolist()]

    with judging(known) as server:
        assert asyncio.run(work(judge_at(server, tmp_path))) == [[-5], [-10]]
        assert len(server.requests) == 2


def test_as_quality_estimator(tmp_path: Path) -> None:
    with judging(lambda text, _: ANSWERS.get(text, "?")) as server:
        reranker = rerank.qe(ScorerEstimator(judge_at(server, tmp_path)))
        states = [reranker.open(Segment(name, "s")) for name in "ab"]
        good = [Candidate(text) for text in ("two", "fine", "bad")]
        found = reranker.extend([Update(states[0], good, 3), Update(states[1], [Candidate("unreadable")], 1)])
    assert found[0] == [Snapshot(3, 1, 0.0)]
    assert "segment b: the score of candidate 'unreadable' is nan" in str(found[1])


def test_signature_and_file_name(tmp_path: Path) -> None:
    ours = gemba("gemba:openai:org/m", ("en", "de"), {"base_url": "http://x/v1"}, tmp_path)
    assert ours.signature.startswith("gemba-mqm|openai:org/m|chat|prompt:judges/gemba-mqm-")
    assert ",en-de|max:512|raw|t:0|seed:0|retries:0.3,0.7,1" in ours.signature
    other = gemba("gemba:openai:Qwen/Qwen3-8B", ("en", "de"), {"base_url": "http://x/v1"}, tmp_path)
    assert "prompt:judges/gemba-mqm-qwen3-" in other.signature
    with judging(known) as server:
        judge_at(server, tmp_path / "cache").score([example("bad")])
    assert [file.name.startswith("openai-m-") for file in (tmp_path / "cache").iterdir()] == [True]


def test_where_answers_are_kept_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with judging(known) as server:
        gemba("gemba:openai:m", ("en", "de"), {"base_url": server.base_url}).score([example("bad")])
    assert len(list((tmp_path / "quitmt" / "gemba").iterdir())) == 1


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with judging(known) as server, pytest.raises(OutputError, match="keep the answers elsewhere"):
        judge_at(server, tmp_path / "file").score([example("bad")])


@pytest.mark.parametrize(
    ("spec", "options", "message"),
    [
        ("gemba:embedded:en-pt", {}, "isn't a judge, which must be a chat model .there is gemba:openai:MODEL"),
        ("gemba", {}, "isn't a judge"),
        ("gemba:openai:", {}, "isn't a judge"),
        ("gemba:openai:m", {"base_url": "http://x/v1", "prompt": "instruct"}, "takes no prompt"),
        ("gemba:openai:m", {}, "needs the address of its server"),
        ("gemba:openai:m", {"base_url": "http://x/v1", "batch": 3}, "goes with hf: not with openai:"),
    ],
)
def test_judges_that_cannot_be(spec: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        gemba(spec, ("en", "de"), options)


def test_a_tiny_model_in_this_process(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tiny.make_chat(tmp_path / "chat")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 8192}))
    ours = gemba(f"gemba:hf:{folder}", ("en", "de"), {"device": "cpu", "max_tokens": 8}, tmp_path / "cache")
    scores: Sequence[float] = ours.score([example("eins"), example("zwei")]).tolist()
    assert all(math.isnan(score) for score in scores) and ours.unparsed == 2
    assert "2 of 2 translations (100.0%) could not be read" in caplog.text
    kept = lines(tmp_path / "cache")
    assert sorted({line["temperature"] for line in kept}) == list(TEMPERATURES) and len(kept) == 8
