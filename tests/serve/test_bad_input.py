"""Bad input: one clear sentence in the API's own shape, never a traceback, and no effect on other requests."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.serve.conftest import KEY, Running

ASK = {"text": "Tea.", "source": "en", "target": "pt"}
CHAT = {"model": "quitmt-en-pt", "messages": [{"role": "user", "content": "Tea."}]}
GOOD = {
    "/api/translate": ASK,
    "/translate": {"q": "Tea.", "source": "en", "target": "pt"},
    "/v2/translate": {"text": ["Tea."], "source_lang": "EN", "target_lang": "PT"},
    "/v1/chat/completions": CHAT,
}
TEXT = {"/api/translate": "text", "/translate": "q", "/v2/translate": "text"}


def message(path: str, told: Any) -> str:
    """Extracts the message from each API's shape."""
    if path == "/translate":
        assert told.keys() == {"error"}
        found = told["error"]
    elif path == "/v2/translate":
        assert told.keys() == {"message"}
        found = told["message"]
    else:
        assert told.keys() == {"error"} and told["error"]["code"]
        found = told["error"]["message"]
    assert isinstance(found, str) and found and "Traceback" not in found and "\n" not in found
    return found


def put(path: str, text: Any) -> dict[str, Any]:
    if path == "/v1/chat/completions":
        return {**CHAT, "messages": [{"role": "user", "content": text}]}
    return {**GOOD[path], TEXT[path]: [text] if path == "/v2/translate" and isinstance(text, str) else text}


@pytest.fixture(params=GOOD)
def path(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_each_is_well_without_the_mistake(shared: Running, path: str) -> None:
    assert shared.post(path, GOOD[path])[0] == 200


@pytest.mark.parametrize(
    "raw, told",
    [
        (b"", "isn't JSON"),
        (b"{", "isn't JSON"),
        (b"\xff\xfe", "isn't JSON"),
        (b"[1]", "must be a JSON object"),
        (b"null", "must be a JSON object"),
        (b"[" * 100_000, "isn't JSON"),
        (b'{"text": NaN}', "isn't JSON"),
        (b'{"a": ' + b"9" * 10_000 + b"}", "isn't JSON"),
    ],
)
def test_invalid_json_is_refused(shared: Running, raw: bytes, told: str) -> None:
    status, found = shared.post("/api/translate", raw=raw)
    assert status == 400 and told in message("/api/translate", found)


def test_wrong_types_are_refused_in_the_shape_of_each_api(shared: Running, path: str) -> None:
    wrong = [shared.post(path, put(path, value)) for value in (1, None, {}, [[]], [1], True)]
    for status, found in (*wrong, shared.post(path, raw=b"{")):
        assert status == 400
        message(path, found)


def test_missing_fields_are_named(shared: Running, path: str) -> None:
    for name in set(GOOD[path]) - {"source", "source_lang"}:
        status, found = shared.post(path, {key: value for key, value in GOOD[path].items() if key != name})
        assert status == 400 and name in message(path, found)


@pytest.mark.parametrize("code", ["xx", "", "e" * 1000, "\ud800", "zh-Hant", "../../etc"])
def test_unknown_languages(shared: Running, code: str) -> None:
    for path, name in (("/api/translate", "target"), ("/translate", "source"), ("/v2/translate", "target_lang")):
        status, found = shared.post(path, {**GOOD[path], name: code})
        assert status == 400
        told = message(path, found)
        if code == "xx":
            assert "'xx' isn't served; available:" in told and "en" in told and "pt" in told


def test_unserved_pairs_are_refused(shared: Running) -> None:
    status, found = shared.post("/api/translate", {**ASK, "source": "pt"})
    assert status == 400 and message("/api/translate", found) == (
        "pt to pt isn't served; available: en to pt, pt to en"
    )


def test_an_empty_text(shared: Running, path: str) -> None:
    status, found = shared.post(path, put(path, ""))
    if path == "/v2/translate":  # as DeepL has it: lists may have empty texts
        assert (status, found["translations"][0]["text"]) == (200, "")
    else:
        assert status == 400
        message(path, found)


def test_more_text_than_a_request_may_have(shared: Running, path: str) -> None:
    status, found = shared.post(path, put(path, "word " * 250_000))
    assert status == 413 and "send it in parts" in message(path, found)
    status, found = shared.post(path, put(path, "word " * 20_000))
    assert status == 413 and "100000 characters are more than the 50000" in message(path, found)
    status, found = shared.post(path, put(path, "One. " * 300))
    assert status == 413 and "300 sentences" in message(path, found)


def test_invalid_text_is_refused(shared: Running, path: str) -> None:
    for text, told in (("\x01\x1f", "control characters"), ("a\x00b", "NUL character"), ("a \ud83d", "surrogate")):
        status, found = shared.post(path, put(path, text))
        assert status == 400 and told in message(path, found)


@pytest.mark.parametrize(
    "option",
    [
        {"max_loss": -1},
        {"max_loss": "much"},
        {"max_loss": 1e400},
        {"max_cost": 0},
        {"max_cost": "4"},
        {"max_loss": 0.1, "max_cost": 8},
        {"deadline": 0},
        {"deadline": -1},
        {"deadline": 60},
        {"deadline": "now"},
        {"nbest": 0},
        {"nbest": 33},
        {"nbest": 10**30},
        {"nbest": 1.5},
        {"seed": 2**63},
        {"seed": "7"},
        {"stream": "yes"},
        {"format": "pdf"},
        {"temperature": 2},
    ],
)
def test_options_out_of_range(shared: Running, option: dict[str, Any]) -> None:
    status, found = shared.send("POST", "/api/translate", raw=json.dumps({**ASK, **option}).encode())[:2]
    assert status == 400
    message("/api/translate", found)


def test_options_of_the_others_out_of_range(shared: Running) -> None:
    for path, option in (
        ("/translate", {"alternatives": 1000}),
        ("/translate", {"alternatives": -1}),
        ("/translate", {"format": "pdf"}),
        ("/v2/translate", {"tag_handling": "pdf"}),
        ("/v2/translate", {"glossary_id": "mine"}),
        ("/v2/translate", {"formality": "more"}),
        ("/v1/chat/completions", {"n": 0}),
        ("/v1/chat/completions", {"n": 99}),
        ("/v1/chat/completions", {"messages": []}),
    ):
        status, found = shared.post(path, {**GOOD[path], **option})
        assert status == 400, option
        message(path, found)


def test_an_unknown_model(shared: Running) -> None:
    status, found = shared.post("/v1/chat/completions", {**CHAT, "model": "gpt-9"})
    assert status == 404 and "available: quitmt, quitmt-en-pt, quitmt-pt-en" in message("/v1/chat/completions", found)


def test_no_key_and_a_wrong_one(locked: Running, path: str) -> None:
    denied = 403 if path in ("/translate", "/v2/translate") else 401
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic x"}, {"X-Api-Key": "\xff"}):
        status, found = locked.post(path, GOOD[path], headers=headers)
        assert status == denied and KEY not in message(path, found)
    for headers in ({"Authorization": f"Bearer {KEY}"}, {"authorization": f"DeepL-Auth-Key {KEY}"}, {"X-Api-Key": KEY}):
        assert locked.post(path, GOOD[path], headers=headers)[0] == 200


def test_everything_but_health_and_the_page_needs_a_key(locked: Running) -> None:
    for path in (
        "/metrics",
        "/openapi.json",
        "/languages",
        "/api/languages",
        "/v1/models",
        "/v2/usage",
        "/frontend/settings",
    ):
        assert locked.get(path)[0] in (401, 403)
        assert locked.get(path, headers={"X-Api-Key": KEY})[0] == 200
    for path in ("/health", "/ready", "/"):
        assert locked.get(path)[0] == 200


def test_paths_and_methods_that_do_not_exist(shared: Running) -> None:
    assert shared.get("/nothing")[0] == 404
    status, told, headers = shared.send("DELETE", "/translate")
    assert status == 405 and told["error"]["code"] == "method_not_allowed" and headers["allow"] == "POST"


def test_forms_that_cannot_be_read(shared: Running) -> None:
    for raw, kind, expected in (
        (b"--x--", "multipart/form-data; boundary=x", 415),
        (b"q=a", "application/x-www-form-urlencoded; charset=nonsense", 400),
        (b"q=%ff", "application/x-www-form-urlencoded", 400),
    ):
        status, found = shared.post("/translate", raw=raw, headers={"Content-Type": kind})
        assert status == expected, (raw, found)
        message("/translate", found)
