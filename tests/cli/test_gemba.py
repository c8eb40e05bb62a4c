"""GEMBA-MQM from the command line, with a judge of ours on a local server."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.conftest import Ran
from tests.models import tiny
from tests.servers.fake_openai import Server, scripted_server

Quitmt = Callable[..., Ran]
LANGUAGES = ("--src", "en", "--tgt", "pt")
NAME = "GEMBA-MQM:m"


def stop_reason(translation: str) -> str:
    """As many minor errors as there are x; nothing that can be read for a question mark."""
    if "?" in translation:
        return "What a nice translation."
    errors = 'fluency/grammar - "x"\n' * translation.count("x") or "no-error"
    return f"Critical:\nno-error\nMajor:\nno-error\nMinor:\n{errors}"


def body_of(request: dict[str, Any]) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(request["body"])
    return body


@pytest.fixture
def server() -> Iterator[Server]:
    async def answer(_: int, request: web.Request) -> web.StreamResponse:
        last = (await request.json())["messages"][-1]["content"]
        said = stop_reason(re.findall(r"<text>(.*?)</text>", last, re.DOTALL)[1])
        return web.json_response({"choices": [{"message": {"content": said}, "finish_reason": "stop"}]})

    with scripted_server(answer) as one:
        yield one


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to be in, with 4 sources and the translations of some systems."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "usual"))
    texts = {
        "src": "one two three four", "ref": "um dois três quatro", "clear": "a bx cxx dxx", "better": "a bx c dx",
        "odd": "a b? cx d", "odder": "? bx c? d", "never": "a? b? c? d?", "nothing": "a b? c? dxx",
    }  # fmt: skip
    for name, words in texts.items():
        Path(name).write_text("\n".join(words.split()) + "\n")
    return tmp_path


def judged(server: Server, *words: object) -> list[object]:
    return [*words, "-s", "src", "-m", "gemba:openai:m", "--base-url", server.base_url, *LANGUAGES]


@pytest.mark.usefixtures("here")
def test_the_table(quitmt: Quitmt, server: Server) -> None:
    ran = quitmt(*judged(server, "score", "-t", "clear", "better"))
    assert (ran.code, ran.err) == (0, "")
    assert [line.split() for line in ran.out.splitlines()[:3]] == [
        [NAME, "↑"],
        ["clear", "-1.2500"],
        ["better", "-0.5000*"],
    ]
    assert f"{NAME} ↑ higher is better; gemba-mqm|openai:m|chat|prompt:judges/gemba-mqm-" in ran.out
    assert len(server.requests) == 6  # 8 translations, two of which the systems share
    assert "Portuguese translation:\n<text>" in body_of(server.requests[0])["messages"][-1]["content"]


@pytest.mark.usefixtures("here")
def test_options_reach_the_engine(quitmt: Quitmt, server: Server) -> None:
    words = judged(server, "score", "-t", "clear", "--max-tokens", 77, "--concurrency", 1, "--timeout", 30)
    # Those of models in this process are for others, and no reason to refuse a server.
    ran = quitmt(*words, "--device", "cpu", "--dtype", "float32")
    assert (ran.code, server.peak, len(server.requests)) == (0, 1, 4)
    assert {body_of(request)["max_tokens"] for request in server.requests} == {77}


@pytest.mark.usefixtures("here")
def test_unreadable_answers_are_left_out_and_told_of(
    quitmt: Quitmt, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    words = judged(server, "score", "-t", "clear", "odd", "odder", "--segments")
    ran = quitmt(*words)
    odd, odder = (f"{NAME}, {told} of 4 answers could not be read and are left out" for told in ("odd: 1", "odder: 2"))
    assert ran.code == 0 and ran.err == f"quitmt: {odd}\nquitmt: {odder}\n"
    assert caplog.records == []  # the judge's own warning would say it twice
    out = ran.out.splitlines()
    assert odd in out and odder in out and "clear:" not in ran.out
    assert [line.split()[1] for line in out[1:4]] == ["-1.2500", "-0.3333*", "-0.5000"]
    assert "2\todd\t-" in out and "2\todder\t-1.0000" in out

    as_json = json.loads(quitmt(*words, "--format", "json").out)
    assert as_json["systems"]["odder"][NAME] == {"system": -0.5, "segments": [None, -1, None, 0], "left_out": 2}
    assert as_json["systems"]["clear"][NAME] == {"system": -1.25, "segments": [0, -1, -2, -2]}
    short = json.loads(quitmt(*judged(server, "score", "-t", "odder", "--format", "json")).out)
    assert short["systems"]["odder"][NAME] == {"system": -0.5, "left_out": 2}

    rows = list(csv.DictReader(quitmt(*words, "--format", "csv").out.splitlines()))
    assert [row["score"] for row in rows if row["system"] == "odder"] == ["-0.5", "", "-1.0", "", "0.0"]
    assert quitmt(*words, "-q").err == ""


@pytest.mark.usefixtures("here")
def test_a_comparison_leaves_out_what_either_lacks(quitmt: Quitmt, server: Server) -> None:
    ran = quitmt(*judged(server, "compare", "odd", "clear", "odder", "--format", "json"))
    assert ran.code == 0 and "odd: 1 of 4 answers" in ran.err and "odder: 2 of 4 answers" in ran.err
    clear, odder = json.loads(ran.out)["comparisons"]
    assert (clear["left_out"], clear["base_mean"], clear["mean"]) == (1, -1 / 3, -4 / 3)
    assert clear["difference"] == -1.0 and (clear["wins"], clear["ties"], clear["losses"]) == (0, 1, 2)
    assert (odder["left_out"], odder["base_mean"], odder["mean"], odder["difference"]) == (3, 0.0, 0.0, 0.0)
    assert (odder["base_score"], odder["score"]) == (-1 / 3, -0.5)  # of all that each has

    text = quitmt(*judged(server, "compare", "odd", "clear", "odder")).out
    assert f"{NAME}, clear: 1 of 4 segments lack a score of one of the two, and only base and other count" in text
    assert f"{NAME}, odder: 3 of 4 segments lack a score" in text and "whole corpora" not in text


@pytest.mark.usefixtures("here")
def test_scores_with_nulls_are_read_back(quitmt: Quitmt, server: Server) -> None:
    systems = ("odd", "clear", "odder")
    quitmt(*judged(server, "score", "-t", *systems, "--format", "json", "--segments", "-o", "scores.json"))
    sent = len(server.requests)
    for words in ([], ["--format", "csv"], ["--format", "json"]):
        live, kept = quitmt(*judged(server, "compare", *systems, *words)), quitmt("compare", "scores.json", *words)
        assert live == kept and kept.code == 0 and "1 of 4 answers" in kept.err
    assert quitmt("compare", "scores.json", "-q").err == ""
    assert len(server.requests) == sent


@pytest.mark.usefixtures("here")
def test_nothing_in_common_to_compare(quitmt: Quitmt, server: Server) -> None:
    ran = quitmt(*judged(server, "compare", "odder", "nothing", "-q"))
    assert ran.code == 0 and "3 of 4 segments" in ran.out
    Path("odder").write_text("?\nb\nc\n?\n")
    ran = quitmt(*judged(server, "compare", "odder", "nothing", "-q"))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "quitmt: there is no segment for which both systems have a score\n"


@pytest.mark.usefixtures("here")
def test_a_judge_that_cannot_be_read_at_all(quitmt: Quitmt, server: Server) -> None:
    ran = quitmt(*judged(server, "score", "-t", "clear", "never"))
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(f"quitmt: {NAME}: none of the 4 answers about a system can be read (the model may be")
    assert ran.err.count("\n") == 1


def test_answers_are_kept_for_the_next_run(quitmt: Quitmt, server: Server, here: Path) -> None:
    words = judged(server, "score", "-t", "clear", "odd", "--gemba-cache", "answers")
    first = quitmt(*words)
    sent = len(server.requests)
    assert sent == 6 + 4  # without the one they share; one is asked for four times
    assert quitmt(*words) == first and len(server.requests) == sent
    assert len(list((here / "answers").iterdir())) == 1 and not (here / "usual").exists()
    quitmt(*judged(server, "score", "-t", "clear"))
    assert len(server.requests) == sent + 4 and len(list((here / "usual" / "quitmt" / "gemba").iterdir())) == 1
    # What is known needs no server.
    words[words.index("--base-url") + 1] = "http://127.0.0.1:9/v1"
    assert quitmt(*words) == first


@pytest.mark.usefixtures("here")
def test_a_server_that_is_down(quitmt: Quitmt) -> None:
    words = (
        "-s",
        "src",
        "-r",
        "ref",
        "-m",
        "chrf",
        "gemba:openai:m",
        "--base-url",
        "http://127.0.0.1:9/v1",
        *LANGUAGES,
    )
    ran = quitmt("score", "-t", "clear", *words)
    assert ran.code == 1 and ran.err.count("\n") == 1 and "is the server running" in ran.err
    assert ran.err.startswith("quitmt: 4 of 4 translations could not be judged, the first because ")
    assert ran.out == quitmt("score", "-t", "clear", "-r", "ref", "-m", "chrf").out  # what had finished


def test_a_model_in_this_process(quitmt: Quitmt, here: Path) -> None:
    """One with random weights, which says nothing that can be read."""
    config = tiny.make_chat(here / "chat") / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"max_position_embeddings": 8192}))
    words = ("-m", f"gemba:hf:{here / 'chat'}", "--device", "cpu", "--dtype", "float32", "--max-tokens", 3)
    ran = quitmt("score", "-s", "src", "-t", "clear", *words, *LANGUAGES)
    assert ran.code == 1 and "GEMBA-MQM:chat: none of the 4 answers about a system can be read" in ran.err


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-m", "gemba:openai:m", "--src", "en"], "gemba:openai:m needs both languages (--src LANG --tgt LANG)"),
        (["-m", "gemba:openai:m", *LANGUAGES], "--base-url"),
        (["-m", "chrf", "bleu", "--base-url", "URL"], "--base-url goes with gemba:, not with chrf or bleu"),
        (["--gemba-cache", "x"], "--gemba-cache goes with gemba:, not with chrf++"),
    ],
)
def test_bad_settings(words: list[str], message: str, quitmt: Quitmt, server: Server) -> None:
    given = [word.replace("URL", server.base_url) for word in words]
    for command in (["score", "-t", "clear"], ["compare", "clear", "odd"]):
        ran = quitmt(*command, "-s", "src", "-r", "ref", *given)
        assert (ran.code, ran.out, server.requests) == (2, "", [])
        assert ran.err.startswith("quitmt: ") and message in ran.err and ran.err.count("\n") == 1


@pytest.mark.usefixtures("here")
def test_sources_are_needed_and_recorded_scores_need_no_judge(quitmt: Quitmt) -> None:
    ran = quitmt("score", "-t", "clear", "-m", "gemba:openai:m", *LANGUAGES)
    assert ran.code == 2 and ran.err == "quitmt: the metric gemba:openai:m needs the sources (-s FILE)\n"
    Path("scores.json").write_text("{}\n")
    ran = quitmt("compare", "scores.json", "--max-tokens", 9)
    assert ran.code == 2 and "--max-tokens goes with translations; scores.json has its scores already" in ran.err
