"""Weblate's OpenAI plug-in: messages in the format of versions 5.14 and 2026.10, with our own strings."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.serve.conftest import Running


def string(source: str, *parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"source": source, "parts": list(parts) or [{"type": "text", "text": source}], **more}


def placeholder(token: str, **more: Any) -> dict[str, Any]:
    return {"type": "placeholder", "id": token, "kind": "syntax", "text": "", "translatable": False, **more}


STRINGS = [
    string("Good morning."),
    string(
        "Hello, @@PH7@@!",
        {"type": "text", "text": "Hello, "},
        placeholder("@@PH7@@"),
        {"type": "text", "text": "!"},
        placeholders={"@@PH7@@": "%s"},
        context="greeting",
    ),
    string(
        "@@PH0@@Save all@@PH11@@ now",
        placeholder("@@PH0@@", close_id="@@PH11@@", text="Save all", translatable=True, kind="markup"),
        {"type": "text", "text": " now"},
        translation="an earlier translation",
        plural={"form_index": 0, "source_forms": 2, "target_forms": 2},
    ),
    string("Tea & <b>milk</b> are\nhere.", failing_checks=[{"check_id": "same"}]),
    string("100%"),
    string(""),
]
ANSWER = ["GOOD MORNING.", "HELLO, @@PH7@@!", "@@PH0@@SAVE ALL@@PH11@@ NOW", "TEA & <b>MILK</b> ARE\nHERE.", "100%", ""]


def message(strings: Any = STRINGS, source: str = "en", target: str = "pt_BR", **more: Any) -> str:
    glossary = [{"source": "tea", "target": "chá", "flags": ["terminology"]}]
    body = {"source_language": source, "target_language": target, "glossary": glossary, "strings": strings}
    return json.dumps({**body, **more})


def chat(content: str, model: str = "quitmt", **more: Any) -> dict[str, Any]:
    return {
        "model": model,
        "messages": [
            {"role": "system", "content": "what a translator should do"},
            {"role": "user", "content": message([string("@@PH1@@"), string("Weblate")])},
            {"role": "assistant", "content": json.dumps(["@@PH1@@", "Weblate"])},
            {"role": "user", "content": content},
        ],
        **more,
    }


def contents(told: Any) -> list[str]:
    return [choice["message"]["content"] for choice in told["choices"]]


@pytest.mark.parametrize("model", ["quitmt", "quitmt-en-pt"])
def test_json_is_answered_with_one_array(shared: Running, model: str) -> None:
    status, told = shared.post("/v1/chat/completions", chat(message(), model))
    assert status == 200 and [json.loads(one) for one in contents(told)] == [ANSWER]


def test_every_choice_is_an_array_and_a_stream_has_one_too(shared: Running) -> None:
    _, told = shared.post("/v1/chat/completions", chat(message(), n=2))
    first, second = map(json.loads, contents(told))
    assert first == ANSWER and len(second) == len(ANSWER) and second != ANSWER
    _, text = shared.post("/v1/chat/completions", chat(message(), stream=True))
    chunks = [json.loads(line.removeprefix("data: ")) for line in text.split("\n\n") if line and "[DONE]" not in line]
    assert json.loads("".join(one["choices"][0]["delta"].get("content", "") for one in chunks)) == ANSWER


@pytest.mark.parametrize(
    "content, model, told",
    [
        (message(target="de"), "quitmt", "the target language 'de' isn't served"),
        (message(source="pt", target="en"), "quitmt-en-pt", "the model 'quitmt-en-pt' doesn't translate pt to en"),
        (message(units=[{"unit_id": 1}]), "quitmt", "it cannot evaluate translations"),
    ],
)
def test_impossible_requests_are_refused(shared: Running, content: str, model: str, told: str) -> None:
    status, found = shared.post("/v1/chat/completions", chat(content, model))
    assert status == 400 and told in found["error"]["message"]


@pytest.mark.parametrize(
    "text", ['{"a": 1}', "{not json", message([1]), message([]), message([{"source": 1}]), "[" * 9]
)
def test_other_messages_are_texts(shared: Running, text: str) -> None:
    status, told = shared.post("/v1/chat/completions", chat(text, "quitmt-en-pt"))
    assert status == 200 and contents(told) == [text.upper()]


def test_older_versions_join_strings_with_a_separator(shared: Running) -> None:
    text = "Hello, @@PH7@@!\n==WEBLATE_PART==\n<a>Two</a> fish & <a>more</a>.\n ==WEBLATE_PART== \n@@PH0@@"
    _, told = shared.post("/v1/chat/completions", chat(text, "quitmt-en-pt"))
    assert contents(told) == [
        "HELLO, @@PH7@@!\n==WEBLATE_PART==\n<a>TWO</a> FISH & <a>MORE</a>.\n ==WEBLATE_PART== \n@@PH0@@"
    ]
    _, told = shared.post("/v1/chat/completions", chat("@@PH0@@ files", "quitmt-en-pt"))
    assert contents(told) == ["@@PH0@@ FILES"]
