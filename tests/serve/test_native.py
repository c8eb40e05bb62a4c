"""The native API: all fields of an outcome, lists, preserved text, and streams of moments."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

import pytest

from tests.serve.conftest import Running

ASK = {"text": "The house is old.", "source": "en", "target": "pt"}


def test_an_answer_has_everything_of_an_outcome(shared: Running) -> None:
    status, told = shared.post("/api/translate", {**ASK, "nbest": 3})
    assert status == 200 and told.keys() == {"translation"}
    found = told["translation"]
    assert found["text"] == "THE HOUSE IS OLD." and (found["source"], found["target"]) == ("en", "pt")
    assert found["confidence"] is None and 0 < found["candidates"] < found["budget"] == 32
    [sentence] = found["sentences"]
    assert sentence["size"] == found["candidates"] and sentence["stop"] == "stable" and sentence["id"] == "1"
    assert sentence["score"] == found["score"] == sentence["trajectory"][-1] == sentence["nbest"][0]["score"]
    assert sentence["seconds"].keys() == {"generate", "rerank"} and "quit|k:4|" in sentence["signature"]
    assert [one["text"] for one in found["nbest"]] == ["THE HOUSE IS OLD." + end for end in ("", "!", "…")]
    scores = [one["score"] for one in found["nbest"]]
    assert scores == sorted(scores, reverse=True)


def test_lists_in_lists_out(shared: Running) -> None:
    texts = ["One.", "", "Two. Three.", "***"]
    status, told = shared.post("/api/translate", {**ASK, "text": texts})
    assert status == 200 and [one["text"] for one in told["translations"]] == ["ONE.", "", "TWO. THREE.", "***"]
    assert [len(one["sentences"]) for one in told["translations"]] == [1, 0, 2, 0]
    assert shared.post("/api/translate", {**ASK, "text": ["One."]})[1].keys() == {"translations"}


@pytest.mark.parametrize(
    "text",
    ["  a b\r\n\r\n\tc d.  e f!\n", "x\u2028y", "a\x0cb", "Dr. Smith\nand", "one\r", "\ufeffword", "a" * 3000],
)
def test_breaks_and_space_are_kept_exactly(shared: Running, text: str) -> None:
    assert shared.post("/api/translate", {**ASK, "text": text})[1]["translation"]["text"] == text.upper()


def test_alternatives_of_several_sentences_change_one_at_a_time(shared: Running) -> None:
    _, told = shared.post("/api/translate", {**ASK, "text": "One is here. Two is there.", "nbest": 4})
    texts = [one["text"] for one in told["translation"]["nbest"]]
    assert texts[0] == "ONE IS HERE. TWO IS THERE." and len(set(texts)) == 4
    assert {"ONE IS HERE.! TWO IS THERE.", "ONE IS HERE. TWO IS THERE.!"} < set(texts)


def test_the_source_is_found_out(shared: Running) -> None:
    _, told = shared.post("/api/translate", {"text": "O tempo está muito bom hoje, não é?", "target": "en"})
    assert told["translation"]["source"] == "pt" and told["translation"]["confidence"] == 1.0
    _, told = shared.post("/api/translate", {"text": ["Hello there, friend."], "target": "pt-BR"})
    assert told["translations"][0]["source"] == "en"


def test_html_keeps_its_tags(shared: Running) -> None:
    text = '<p class="a">Tea &lt; <b>milk</b></p><script>var a = "x";</script><p translate="no">Name</p>'
    _, told = shared.post("/api/translate", {**ASK, "text": text, "format": "html"})
    assert told["translation"]["text"] == (
        '<p class="a">TEA &lt; <b>MILK</b></p><script>var a = "x";</script><p translate="no">Name</p>'
    )


def test_wishes_change_the_rule(shared: Running) -> None:
    _, cheap = shared.post("/api/translate", {**ASK, "max_cost": 4})
    assert cheap["translation"]["candidates"] == 4
    _, loose = shared.post("/api/translate", {**ASK, "max_loss": 0.5})
    assert "loss" in loose["translation"]["sentences"][0]["signature"]


def events(running: Running, ask: dict[str, Any]) -> list[tuple[str, Any]]:
    data = json.dumps({**ask, "stream": True}).encode()
    request = urllib.request.Request(f"{running.url}/api/translate", data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.headers["Content-Type"] == "text/event-stream; charset=utf-8" and answer.headers["x-request-id"]
        parts = answer.read().decode().strip().split("\n\n")
    lines = [part.split("\n") for part in parts]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in lines]


def test_a_stream_tells_every_moment_and_ends_with_the_answer(shared: Running) -> None:
    ask = {**ASK, "text": "One is here. Two is there."}
    found = events(shared, ask)
    assert found[0][0] == "begin" and found[-1][0] == "done"
    [text] = found[0][1]["texts"]
    assert [one["id"] for one in text["sentences"]] == ["1.1", "1.2"] and text["budget"] == 32
    done = found[-1][1]["translation"]
    for sentence in done["sentences"]:
        own = [data for name, data in found if name == "moment" and data["sentence"] == sentence["id"]]
        assert [data["score"] for data in own] == sentence["trajectory"]
        assert sum(len(data["new"]) for data in own) == own[-1]["size"] == sentence["size"]
        assert [data["stop_reason"] for data in own] == [None] * (len(own) - 1) + [sentence["stop"]]
        assert own[-1]["translation"] == sentence["translation"]
    plain = shared.post("/api/translate", ask)[1]["translation"]
    assert plain["text"] == done["text"] and plain["score"] == done["score"]


def test_a_stream_that_fails_says_so(shared: Running) -> None:
    found = events(shared, {**ASK, "text": "Fine here. BROKEN there."})
    assert found[-1][0] == "error" and "the model fell over" in found[-1][1]["error"]["message"]
    status, told = shared.post("/api/translate", {**ASK, "text": "BROKEN there.", "stream": True, "nbest": 0})
    assert status == 400 and "nbest" in told["error"]["message"]


def test_a_failure_is_one_sentence_and_others_continue(shared: Running) -> None:
    status, told = shared.post("/api/translate", {**ASK, "text": "BROKEN"})
    assert status == 502 and told["error"]["code"] == "translation_failed"
    assert told["error"]["message"].startswith("translation failed: segment 1: sampling failed: ValueError")
    assert shared.post("/api/translate", ASK)[0] == 200
