"""Connections: their number, their timeouts, and the log of misbehaving clients."""

from __future__ import annotations

import errno
import gzip
import io
import json
import os
import resource
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from quitmt.errors import UsageError
from quitmt.serve import connections, server
from quitmt.serve.limits import Limits
from tests.serve.conftest import KEY, Model, Running

Start = Callable[..., Running]
ASK = {"text": "Tea for two.", "source": "en", "target": "pt"}
AT_ONCE = 0.02
"""A short timeout in seconds, which the test waits for."""


@pytest.fixture
def clients() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def connect(clients: ExitStack, running: Running, sent: bytes = b"") -> socket.socket:
    found = clients.enter_context(socket.create_connection(("127.0.0.1", int(running.url.rpartition(":")[2]))))
    found.settimeout(60)
    found.sendall(sent)
    return found


def rest(client: socket.socket) -> bytes:
    """Reads until the server closes the connection."""
    found = bytearray()
    try:
        while chunk := client.recv(65536):
            found += chunk
    except ConnectionResetError:
        pass
    return bytes(found)


def post(body: bytes, *headers: str, length: int | None = None) -> bytes:
    lines = ["POST /translate HTTP/1.1", "Host: x", f"Content-Length: {len(body) if length is None else length}"]
    return "\r\n".join([*lines, *headers, "", ""]).encode("latin-1") + body


def test_silent_clients_make_room_for_others(start: Start, clients: ExitStack) -> None:
    running = start(limits=Limits(connections=4))
    silent = [connect(clients, running) for _ in range(4)]
    half = [connect(clients, running, b"GET /health HTTP/1.1\r\nHo") for _ in range(4)]
    assert [rest(one) for one in silent] == [b""] * 4
    slow = [connect(clients, running, post(b"{", length=100)) for _ in range(4)]
    assert [rest(one) for one in half] == [b""] * 4
    assert running.get("/health")[0] == 200
    assert rest(slow[0]) == b""
    [line] = {line["message"] for line in map(json.loads, running.log.getvalue().splitlines()) if "id" not in line}
    assert line == "all 4 connections are in use; closed the longest idle one"


def test_no_client_that_is_worked_for_is_closed(start: Start, clients: ExitStack) -> None:
    running = start(limits=Limits(connections=2, deadline=None))
    running.models[0].open.clear()
    with ThreadPoolExecutor(3) as pool:
        busy = [pool.submit(running.post, "/api/translate", {**ASK, "seed": seed}) for seed in range(2)]
        running.until(lambda: len(running.models[0].begun) == 2)
        waiting = pool.submit(running.get, "/health")
        running.until(lambda: "a new client must wait" in running.log.getvalue())
        running.models[0].open.set()
        assert [one.result()[0] for one in (*busy, waiting)] == [200] * 3


def test_clients_that_send_no_complete_headers_are_closed(start: Start, clients: ExitStack) -> None:
    running = start(limits=Limits(header_seconds=AT_ONCE))
    for sent in (b"", b"GET /health HTTP/1.1\r\nHost: x\r\n", b"G"):
        assert rest(connect(clients, running, sent)) == b""
    assert '"error": "timeout"' in running.log.getvalue()


def test_a_connection_that_is_kept_alive_is_closed_when_nothing_comes(start: Start, clients: ExitStack) -> None:
    running = start(limits=Limits(idle_seconds=AT_ONCE))
    assert rest(connect(clients, running, b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")).endswith(b'{"status": "ok"}')


def test_a_body_that_does_not_arrive_is_refused(start: Start, clients: ExitStack) -> None:
    running = start(limits=Limits(body_seconds=AT_ONCE))
    client = connect(clients, running, post(b"{", length=100))
    assert client.recv(65536).startswith(b"HTTP/1.1 408 ")


def test_a_client_that_does_not_read_is_closed(start: Start, clients: ExitStack) -> None:
    running = start(limits=Limits(write_seconds=AT_ONCE, idle_seconds=AT_ONCE))
    client = connect(clients, running, b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 1000)

    def is_closed() -> bool:
        try:
            client.sendall(b"\r\n")  # to a connection that is closed, the second time fails
        except OSError:
            return True
        return False

    running.until(is_closed)
    assert running.get("/health")[0] == 200


class Exhausted(socket.socket):
    """A listening socket whose process runs out of open files a few times."""

    left = 3

    def accept(self) -> tuple[socket.socket, Any]:
        if self.left:
            self.left -= 1
            raise OSError(errno.EMFILE, "too many")
        return super().accept()


def test_running_out_of_files_is_survived(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    from quitmt.serve import running as starting

    monkeypatch.setattr(connections, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(server, "REPORT_SECONDS", 0.0)

    def listen(settings: Any) -> socket.socket:
        found = Exhausted(socket.AF_INET, socket.SOCK_STREAM)
        found.bind(("127.0.0.1", 0))
        return found

    monkeypatch.setattr(starting, "listen", listen)
    running = start()
    assert running.get("/health")[0] == 200
    events = [json.loads(line) for line in running.log.getvalue().splitlines()]
    assert [one["error"] for one in events] == ["accept_failed"] * 3
    assert events[0]["message"] == os.strerror(errno.EMFILE)


def test_the_limit_of_open_files_bounds_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    for allowed, wanted, most in ((1024, 512, 512), (resource.RLIM_INFINITY, 10_000, 10_000)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, allowed=allowed: (allowed, allowed))
        assert connections.most_connections(wanted) == most
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 256))
    assert connections.most_connections(512) == 256 - connections.RESERVED_FILES
    monkeypatch.setattr(resource, "getrlimit", lambda _: (64, 64))
    with pytest.raises(UsageError, match="64 open files aren't enough for a server"):
        connections.most_connections(512)


SERVE = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (160, 160))
from quitmt.cli.main import main
sys.exit(main(["serve", "--port", "0", "--recipe", "my.toml", "--allow-functions"]))
"""


@pytest.mark.slow
def test_more_idle_clients_than_open_files(tmp_path: Path, clients: ExitStack) -> None:
    (tmp_path / "shout.py").write_text(
        "def sample(source, start, stop):\n    return [source.upper()] * (stop - start)\n"
    )
    (tmp_path / "my.toml").write_text(
        '[model]\nname = "shout:sample"\nsource_language = "en"\ntarget_language = "pt"\n'
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(tmp_path)])}
    command = [sys.executable, "-c", SERVE]
    with (
        subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, env=environment) as server,
        ExitStack() as ending,
    ):
        ending.callback(server.kill)  # or leaving would wait for it
        assert server.stderr is not None
        started = ""
        while " at http://" not in started:
            line = server.stderr.readline()
            assert line, started
            started += line
        assert "by the limit of open files" in started
        url = started.split()[-1]
        address = ("127.0.0.1", int(url.rpartition(":")[2]))
        idle = [clients.enter_context(socket.create_connection(address)) for _ in range(120)]
        with urllib.request.urlopen(f"{url}/health", timeout=60) as answer:
            assert answer.status == 200
        idle[0].settimeout(60)
        assert rest(idle[0]) == b""
        server.kill()
        written = server.stderr.read()
        assert "connections are in use" in written and "Traceback" not in written and len(written) < 4000


SECRETS = (
    b"GET /health HTTP/1.1\r\nHost: x\r\nAuthorization : Bearer correct-horse\r\n\r\n",
    b"GET /health HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer correct\x01-horse\r\n\r\n",
    b"GET /health HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer\r\n correct-horse\r\n\r\n",
    b"correct-horse\r\n\r\n",
    b"GET /" + b"correct-horse" * 1000 + b" HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + b"X-Api-Key: correct-horse\r\n" * 2000 + b"\r\n",
    b"POST /translate HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: correct-horse\r\n\r\n{}",
    b"POST /translate HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\ncorrect-horse\r\n",
)


def test_invalid_http_is_logged_in_one_line_without_its_bytes(
    start: Start, clients: ExitStack, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "REPORT_SECONDS", 0.0)
    running = start()
    for sent in SECRETS:
        told = rest(connect(clients, running, sent))
        assert told.startswith(b"HTTP/1.0 400 ") and b'"code": "malformed_request"' in told and b"horse" not in told
    lines = [json.loads(line) for line in running.log.getvalue().splitlines()]
    assert [line["error"] for line in lines] == ["malformed_request"] * len(SECRETS)
    assert {*lines[0]} == {"time", "error", "message"}
    for secret in (KEY, "horse", "127.0.0.1"):
        assert secret not in running.log.getvalue()
    assert not caplog.records


JSON = b'{"q": "Tea.", "source": "en", "target": "pt"}'
FORM = "Content-Type: application/x-www-form-urlencoded"


@pytest.mark.parametrize(
    "sent",
    [
        post(b"q=&" * 2000, FORM),
        post("q=Ação".encode("latin-1"), FORM),
    ],
)
def test_malformed_bodies_are_the_clients_mistake(shared: Running, clients: ExitStack, sent: bytes) -> None:
    assert connect(clients, shared, sent).recv(65536).startswith(b"HTTP/1.1 400 ")


def test_compressed_bodies_are_refused(shared: Running, clients: ExitStack) -> None:
    response = connect(clients, shared, post(gzip.compress(JSON), "Content-Encoding: gzip")).recv(65536)
    assert response.startswith(b"HTTP/1.1 415 ")


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "multipart/form-data", "text/plain"])
def test_json_is_json_whatever_it_is_called(shared: Running, kind: str) -> None:
    raw = b' {"q": "Tea.", "source": "en", "target": "pt"}'
    assert shared.post("/translate", raw=raw, headers={"Content-Type": kind}) == (200, {"translatedText": "TEA."})


def test_a_long_list_of_mistakes_is_refused_at_the_first(shared: Running) -> None:
    from pydantic import ValidationError

    from quitmt.serve.bodies import read
    from quitmt.serve.native import TranslateBody

    with pytest.raises(ValidationError) as caught:
        TranslateBody.model_validate({"text": [1] * 1000, "target": "pt"})
    assert caught.value.error_count() <= 2  # as a text, and as a list
    with pytest.raises(Exception, match="the body has more than 256 fields"):
        read(TranslateBody, {str(number): 1 for number in range(1000)})


def test_events_of_one_kind_are_logged_once_per_second(
    shared: Running, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = io.StringIO()
    reporting = server.Server(shared.server.service, log_to=log)
    for now, kind in ((0.0, "a"), (0.5, "a"), (0.5, "b"), (1.0, "a")):
        monkeypatch.setattr("quitmt.serve.server.time.monotonic", lambda now=now: now)
        reporting.report(kind, "")
    monkeypatch.undo()
    assert [json.loads(line)["error"] for line in log.getvalue().splitlines()] == ["a", "b", "a"]


def test_a_port_that_another_server_has(shared: Running, quitmt: Callable[..., Any]) -> None:
    port = shared.url.rpartition(":")[2]
    ran = quitmt("serve", "--port", port)
    assert ran.code == 2 and f"port {port} is in use" in ran.err


def test_a_model_that_loses_its_connection_was_not_short_of_time(start: Start) -> None:
    running = start(limits=Limits(deadline=None))

    async def disconnected(*_: object) -> list[str]:
        raise ConnectionError("the server closed the connection before the deadline")

    running.models[0].__class__ = type("Disconnected", (Model,), {"__call__": disconnected})
    status, told = running.post("/api/translate", ASK)
    assert (status, told["error"]["code"]) == (502, "translation_failed")
