"""Deadlines, full queues, disconnecting clients, metrics, logs and CORS."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from quitmt.serve.limits import Limits
from tests.serve.conftest import KEY, Clock, Running

ASK = {"text": "Tea for two.", "source": "en", "target": "pt"}
Start = Callable[..., Running]


def test_when_time_is_up_the_best_so_far_is_the_answer(start: Start) -> None:
    running = start(clock := Clock())
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(running.post, "/api/translate", {**ASK, "text": "ENDLESS tea.", "deadline": 2})
        running.models[0].stuck.wait()
        clock.advance(2)
        status, told = answer.result()
    [sentence] = told["translation"]["sentences"]
    assert status == 200 and sentence["stop"] == "deadline" and sentence["size"] == 4
    assert told["translation"]["text"] == sentence["translation"] != ""


def test_a_timeout_says_when_to_try_again(start: Start) -> None:
    running = start(clock := Clock())
    model = running.models[0]
    model.open.clear()
    for path, body in (
        ("/api/translate", ASK),
        ("/translate", {"q": "Tea.", "source": "en", "target": "pt"}),
        ("/v2/translate", {"text": ["Tea."], "target_lang": "PT", "source_lang": "EN"}),
    ):
        model.begun.clear()
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(running.send, "POST", path, body)
            running.until(lambda: model.begun)
            clock.advance(60)
            status, _, headers = answer.result()
        assert status == 503 and int(headers["retry-after"]) >= 1
    assert running.metric("quitmt_active_segments") == running.metric("quitmt_waiting_segments") == 0


def test_a_full_queue_is_refused_at_once_and_drains(start: Start) -> None:
    running = start(limits=Limits(waiting=3, deadline=None))
    running.models[0].open.clear()
    with ThreadPoolExecutor(16) as pool:
        first = [pool.submit(running.post, "/api/translate", {**ASK, "text": f"Number {i}."}) for i in range(4)]
        running.until(lambda: len(running.models[0].begun) == 4)
        waiting = [pool.submit(running.post, "/api/translate", ASK) for _ in range(3)]
        running.until(lambda: running.metric("quitmt_waiting_segments") == 3)
        assert running.metric("quitmt_waiting_characters") == 3 * len("Tea for two.")
        status, told, headers = running.send("POST", "/api/translate", ASK)
        assert status == 429 and told["error"]["code"] == "queue_full" and int(headers["retry-after"]) >= 1
        assert running.post("/v1/chat/completions", {
            "model": "quitmt-en-pt", "messages": [{"role": "user", "content": "Tea."}]
        })[0] == 429  # fmt: skip
        # The other direction has a queue of its own.
        assert running.post("/api/translate", {"text": "Chá.", "source": "pt", "target": "en"})[0] == 200
        running.models[0].open.set()
        assert [one.result()[0] for one in (*first, *waiting)] == [200] * 7
    assert running.post("/api/translate", ASK)[0] == 200


def test_a_large_request_does_not_hold_up_a_small_one(start: Start) -> None:
    running = start(limits=Limits(deadline=None))
    model = running.models[0]
    model.open.clear()
    large = " ".join(f"Sentence number {i} is here." for i in range(40))
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(running.post, "/api/translate", {**ASK, "text": large})
        running.until(lambda: len(model.begun) == 4)
        second = pool.submit(running.post, "/api/translate", {**ASK, "text": "Small."})
        running.until(lambda: running.metric("quitmt_waiting_segments") == 37)
        model.open.set()
        assert first.result()[0] == second.result()[0] == 200
    assert model.begun.index("Small.") <= 5


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_goes_away_frees_everything(start: Start, stream: bool) -> None:
    running = start(limits=Limits(deadline=None))
    model = running.models[0]
    model.open.clear()
    body = json.dumps({**ASK, "text": "One. Two. Three. Four. Five. Six.", "stream": stream}).encode()
    head = f"POST /api/translate HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    for _ in range(4):
        with socket.create_connection(("127.0.0.1", int(running.url.rpartition(":")[2]))) as client:
            client.sendall(head + body)
            running.until(lambda: running.metric("quitmt_active_segments") == 4)
            assert running.metric("quitmt_waiting_segments") == 2
        running.until(lambda: running.metric("quitmt_active_segments") == 0)
        assert running.metric("quitmt_waiting_segments") == 0
    running.until(lambda: running.metric("quitmt_requests_in_flight") == 1)  # this very question
    assert '"status": 499' in running.log.getvalue() or stream
    model.open.set()
    assert running.post("/api/translate", ASK)[0] == 200


def test_metrics_count_finished_work(start: Start) -> None:
    running = start()
    assert running.post("/api/translate", {**ASK, "text": "One is here. Two is there."})[0] == 200
    assert running.post("/api/translate", {})[0] == 400
    _, text, headers = running.send("GET", "/metrics")
    assert headers["content-type"].startswith("text/plain; version=")
    assert 'quitmt_requests_total{api="native",status="200"} 1.0' in text
    assert 'quitmt_requests_total{api="native",status="400"} 1.0' in text
    assert 'quitmt_segments_total{pair="en-pt",stop="stable"} 2.0' in text
    used, saved = running.metric("quitmt_candidates_total"), running.metric("quitmt_candidates_saved_total")
    assert used + saved == 64 and 0 < used < 64
    assert running.metric("quitmt_request_seconds_count") >= 2


def test_a_line_of_log_a_request_has_no_text_and_no_key(start: Start) -> None:
    from quitmt.serve.keys import Keys

    running = start(keys=Keys([KEY]))
    sent = {"Authorization": f"Bearer {KEY}", "x-request-id": "mine-7"}
    status, _, headers = running.send("POST", "/api/translate", {**ASK, "text": "Secret plans."}, sent)
    assert status == 200 and headers["x-request-id"] == "mine-7"
    running.send(
        "POST", "/translate", {"q": "Secret plans.", "target": "pt", "api_key": "wrong-key"}, {"x-request-id": "a b\tc"}
    )
    running.send("GET", "/health")
    lines = [json.loads(line) for line in running.log.getvalue().splitlines()]
    assert [(line["api"], line["status"]) for line in lines] == [("native", 200), ("libretranslate", 403)]
    assert lines[0]["id"] == "mine-7" and lines[1]["id"] not in ("", "a b\tc")
    assert lines[0]["candidates"] > 0 and lines[0]["stops"] == {"stable": 1} and lines[0]["pairs"] == ["en-pt"]
    for secret in ("ecret", "ECRET", KEY, "wrong-key", "127.0.0.1"):
        assert secret not in running.log.getvalue()


def test_other_origins_are_let_in_only_where_asked_for(shared: Running, locked: Running) -> None:
    asked = {"Origin": "https://a.example", "Access-Control-Request-Method": "POST"}
    for running, origin, allowed in (
        (shared, "https://a.example", None),
        (locked, "https://b.example", None),
        (locked, "https://a.example", "https://a.example"),
    ):
        _, _, headers = running.send("GET", "/health", headers={"Origin": origin})
        assert headers.get("access-control-allow-origin") == allowed
        status, _, headers = running.send("OPTIONS", "/api/translate", headers={**asked, "Origin": origin})
        assert headers.get("access-control-allow-origin") == allowed and (status == 204) == (allowed is not None)


def test_while_it_drains_it_is_not_ready_and_takes_nothing_new(start: Start) -> None:
    running = start()
    running.server.draining = True
    assert running.get("/health")[0] == 200
    for path, body in (("/api/translate", ASK), ("/translate", {"q": "a", "target": "pt"})):
        status, _, headers = running.send("POST", path, body)
        assert status == 503 and headers["retry-after"] == "5"
    status, told = running.get("/ready")
    assert status == 503 and "shutting down" in told["error"]["message"]


def test_the_page_has_a_policy_and_is_cached_by_content(shared: Running) -> None:
    for path, kind in (("/", "text/html"), ("/page.js", "text/javascript"), ("/page.css", "text/css")):
        status, _, headers = shared.send("GET", path)
        assert status == 200 and headers["content-type"] == f"{kind}; charset=utf-8"
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        status, _, _ = shared.send("GET", path, headers={"If-None-Match": headers["etag"]})
        assert status == 304


def test_the_description_is_openapi_and_names_every_path(shared: Running) -> None:
    status, told = shared.get("/openapi.json")
    assert status == 200 and told["openapi"] == "3.1.0"
    ask: Any = told["components"]["schemas"]["native.TranslateBody"]
    assert {"max_loss", "max_cost", "deadline", "nbest", "seed", "stream"} < ask["properties"].keys()
    assert {"/api/translate", "/translate", "/v2/translate", "/v1/chat/completions", "/health"} < told["paths"].keys()
    references = json.dumps(told).split('"$ref": "#/components/schemas/')[1:]
    assert {one.split('"')[0] for one in references} <= told["components"]["schemas"].keys()
