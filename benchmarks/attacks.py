"""What attacks on the server cost: seconds, megabytes and bytes of log. One command, two tables. Loopback only.

    python benchmarks/attacks.py                     # the attacks, then 5,000 requests of nonsense
    python benchmarks/attacks.py --source ../before  # of another checkout of quitmt
    python benchmarks/attacks.py markup idle         # some of the attacks
    python benchmarks/attacks.py fuzz --requests 500

Each attack has a server of its own, in a process with at most 1,024 open files and a model that is a function. Another
client asks for ``/health`` all the while, each time with a new connection; ``stall`` is its longest wait.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

OPEN_FILES = 1024
PATIENCE = 60.0
"""Seconds that a client waits for an answer."""
KEY = "correct-horse-battery"
MODEL = """
async def sample(source, start, stop):
    return [source.upper()] * (stop - start)
"""
RECIPE = '[model]\nname = "shout:sample"\nsource_language = "en"\ntarget_language = "pt"\n'


@dataclass
class Target:
    """A server under attack."""

    pid: int
    port: int
    log: Path
    stall: float = 0.0
    failures: int = 0
    """Of the other client: how often it got no answer."""
    over: threading.Event = field(default_factory=threading.Event)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)

    def send(self, data: bytes, patience: float = PATIENCE) -> bytes:
        """The beginning of the answer, or nothing."""
        try:
            with self.connect() as client:
                client.sendall(data)
                client.settimeout(patience)
                return client.recv(65536)
        except OSError:
            return b""

    def watch(self) -> None:
        """Be the other client, until it is over."""
        while not self.over.wait(0.05):
            start = time.monotonic()
            told = self.send(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            self.stall = max(self.stall, time.monotonic() - start)
            self.failures += not told.startswith(b"HTTP/1.1 200")

    def megabytes(self) -> float:
        found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{self.pid}/status").read_text())
        return int(found[1]) / 1024 if found else 0.0


@contextmanager
def serving(source: Path) -> Iterator[Target]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "shout.py").write_text(MODEL)
        (folder / "my.toml").write_text(RECIPE)
        command = [sys.executable, "-m", "quitmt", "serve", "--port", "0", "--recipe", "my.toml"]
        if "allow_functions" in (source / "src" / "quitmt" / "serve" / "running.py").read_text():  # not so before
            command.append("--allow-functions")
        paths = os.pathsep.join([str(source.resolve() / "src"), name])
        files = min(OPEN_FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
        with (folder / "log").open("w") as log:
            process = subprocess.Popen(
                command,
                cwd=folder,
                stderr=log,
                env={**os.environ, "PYTHONPATH": paths, "QUITMT_KEYS": KEY},
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files)),
            )
        try:
            while not (found := re.search(r" at http://127\.0\.0\.1:(\d+)", (folder / "log").read_text())):
                if process.poll() is not None:
                    raise SystemExit((folder / "log").read_text())
                time.sleep(0.1)
            target = Target(process.pid, int(found[1]), folder / "log")
            watching = threading.Thread(target=target.watch)
            watching.start()
            yield target
            target.over.set()
            watching.join()
        finally:
            process.kill()
            process.wait()


def post(path: str, body: bytes, kind: str = "application/json", *more: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: x", f"X-Api-Key: {KEY}", f"Content-Type: {kind}", *more]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode("latin-1") + body


def ask(text: object, **more: object) -> bytes:
    return post("/api/translate", json.dumps({"text": text, "source": "en", "target": "pt", **more}).encode())


def status(told: bytes) -> str:
    return told[9:12].decode() if told.startswith(b"HTTP/") else "no answer"


def markup(target: Target) -> str:
    return status(target.send(ask("<p class=" + " " * 49_000 + ">Good morning.</p>", format="html")))


def mistakes(target: Target) -> str:
    return status(target.send(ask([1] * 200_000)))


def parts(target: Target) -> str:
    body = b'--x\r\nContent-Disposition: form-data; name="q"\r\n\r\nhi\r\n' * 15_000 + b"--x--\r\n"
    return status(target.send(post("/translate", body, "multipart/form-data; boundary=x")))


def bomb(target: Target) -> str:
    """Four bodies that are 950 MB when they are unpacked. The wait afterwards is for what is done after the answer."""
    packing = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = b"".join([*(packing.compress(bytes(10_000_000)) for _ in range(95)), packing.flush()])
    request = post("/translate", packed, "application/json", "Content-Encoding: gzip")
    with ThreadPoolExecutor(4) as pool:
        told = list(pool.map(lambda _: status(target.send(request)), range(4)))
    time.sleep(10)
    return ", ".join(told)


def idle(target: Target) -> str:
    """2,000 clients that connect and are silent, for ten seconds."""
    with ExitStack() as clients:
        deadline = time.monotonic() + 10
        for _ in range(2000):
            client = clients.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(("127.0.0.1", target.port))
        time.sleep(max(0.0, deadline - time.monotonic()))
    return f"{target.failures} × no health"


def slow(target: Target, most: float = 100.0) -> str:
    """How long a silent client, one with half of its headers and one that is kept alive may stay."""
    sent = (b"", b"GET /health HTTP/1.1\r\nHos", b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
    start, stayed = time.monotonic(), ["> " + f"{most:.0f}"] * len(sent)
    with ExitStack() as clients:
        waiting = {}
        for number, data in enumerate(sent):
            client = clients.enter_context(target.connect())
            client.sendall(data)
            waiting[client] = number
        while waiting and (left := start + most - time.monotonic()) > 0:
            for client in select.select(list(waiting), [], [], left)[0]:
                try:
                    ended = not client.recv(65536)
                except OSError:
                    ended = True
                if ended:
                    stayed[waiting.pop(client)] = f"{time.monotonic() - start:.0f}"
    return " / ".join(stayed) + " s open"


def secrets(target: Target) -> str:
    """A key in requests that are no HTTP."""
    for line in (f"Authorization : Bearer {KEY}", f"Authorization: \x01{KEY}", f"Authorization: Bearer\r\n {KEY}"):
        target.send(f"GET /metrics HTTP/1.1\r\nHost: x\r\n{line}\r\n\r\n".encode())
    return f"{target.log.read_text().count(KEY)} × the key in the log"


def encodings(target: Target) -> str:
    head, kind = b'--x\r\nContent-Disposition: form-data; name="q"\r\n', "multipart/form-data; boundary=x"
    headers = b"--x\r\n" + b"a: b\r\n" * 20_000 + b"\r\nhi\r\n--x--\r\n"
    requests = (
        post("/translate", headers, kind),
        post("/translate", head + b"Content-Transfer-Encoding: y\r\n\r\nhi\r\n--x--", kind),
        post("/translate", b"not gzip", "application/json", "Content-Encoding: gzip"),
    )  # fmt: skip
    return ", ".join(status(target.send(one)) for one in requests)


ATTACKS: dict[str, tuple[str, Callable[[Target], str]]] = {
    "markup": ("49 KB of space in a tag", markup),
    "mistakes": ("200,000 numbers in place of texts", mistakes),
    "parts": ("a form of 15,000 parts", parts),
    "bomb": ("4 × 950 MB, gzipped to 0.9 MB", bomb),
    "idle": ("2,000 silent connections, 10 s", idle),
    "slow": ("silent / half of the headers / kept alive", slow),
    "secrets": ("malformed headers with a key", secrets),
    "encodings": ("part headers, transfer encoding, no gzip", encodings),
}

PIECES = (
    *"<>='\"&;.!? \n\r\t\\{}[]", "a", "Tea is here. ", "é", "😀", "\u2028", "«", "1.", "&amp;", "&#9999999999;", "<!--",
    "-->", "<![CDATA[", "]]>", "<b>", "</b>", "<i>", "</i>", "<a href=x>", "</a>", "<p class='", "</p>", "<br>",
    "<x id='1'/>", "<script>", "</script>", "@@PH1@@", "\n==WEBLATE_PART==\n", " " * 500, "<" * 200, "&" * 200,
)  # fmt: skip
VALUES = (0, -1, 1e308, 10**30, 3, None, True, "", "en", "pt", "auto", "html", "xml")
FORMS = ("application/x-www-form-urlencoded", "multipart/form-data; boundary=x")
PATHS = ("/api/translate", "/translate", "/v2/translate", "/v1/chat/completions", "/detect")


class Nonsense:
    """Requests of all kinds, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def text(self) -> str:
        rare = self._random.choice(("\0", "\ud800")) if self._random.random() < 0.05 else ""
        return "".join(self._random.choice(PIECES) for _ in range(self._random.randrange(1, 60))) + rare

    def value(self, depth: int = 0) -> object:
        kinds: list[Callable[[], object]] = [self.text, lambda: self._random.choice(VALUES)]
        if depth < 3:
            kinds.append(lambda: [self.value(depth + 1) for _ in range(self._random.randrange(4))])
            kinds.append(lambda: {self.text(): self.value(depth + 1) for _ in range(self._random.randrange(4))})
        return self._random.choice(kinds)()

    def fields(self, path: str) -> dict[str, object]:
        """A request that is right, but for some of its fields."""
        text = self.text()
        right: dict[str, dict[str, object]] = {
            "/api/translate": {"text": text, "source": "en", "target": "pt", "format": "html", "nbest": 2},
            "/translate": {"q": [text, self.text()], "source": "en", "target": "pt", "format": "html"},
            "/v2/translate": {"text": [text], "target_lang": "PT", "source_lang": "EN", "tag_handling": "xml"},
            "/v1/chat/completions": {"model": "my", "messages": [{"role": "user", "content": text}], "n": 2},
            "/detect": {"q": text},
        }
        found = right[path]
        for name in list(found):
            if self._random.random() < 0.15:
                found[name] = self.value()
        if self._random.random() < 0.1:
            found[self._random.choice(["stream", "seed", "deadline", "max_cost", "ignore_tags"])] = self.value()
        return found

    def request(self) -> tuple[bytes, float]:
        """Its bytes, and how many seconds an answer is waited for: what is damaged may never be complete."""
        path, chance = self._random.choice(PATHS), self._random.random()
        body = json.dumps(self.fields(path)).encode()
        if chance < 0.6:
            return post(path, body), PATIENCE
        if chance < 0.7:
            kind = self._random.choice(["", *FORMS, self.text()])
            return post(path, self._damaged(body), re.sub(r"[^ -~]", "", kind)), PATIENCE
        if chance < 0.8:
            encoding = self._random.choice(["gzip", "deflate", "br", "identity", "x"])
            return post(path, body, "application/json", f"Content-Encoding: {encoding}"), PATIENCE
        if chance < 0.9:
            text = re.sub(r"[\s\x00-\x1f]", "", self.text()).encode("utf-8", "replace")
            return b"GET /" + text + b" HTTP/1.1\r\nHost: x\r\n\r\n", PATIENCE
        return self._damaged(post(path, body)), 0.5

    def _damaged(self, data: bytes) -> bytes:
        found = bytearray(data)
        for _ in range(self._random.randrange(1, 8)):
            place = self._random.randrange(len(found))
            found[place : place + self._random.randrange(4)] = self._random.randbytes(self._random.randrange(4))
        return bytes(found)


def fuzz(source: Path, requests: int) -> bool:
    """Whether nothing went wrong."""
    with serving(source) as target:
        nonsense = Nonsense(25)
        sent = [nonsense.request() for _ in range(requests)]
        with ThreadPoolExecutor(4) as pool:
            told = list(pool.map(lambda one: target.send(*one), sent))
        log = target.log.read_text()
        statuses = Counter(map(status, told))
        size = target.megabytes()
    good = not statuses["500"] and "Traceback" not in log and target.stall < 1 and not target.failures
    listed = ", ".join(f"{count:,} × {name}" for name, count in sorted(statuses.items()))
    print("\n| requests | answers | status 500 | tracebacks | longest stall, s | peak MB | log KB |")
    print("|---:|---|---:|---:|---:|---:|---:|")
    cells = [
        f"{requests:,}", listed, statuses["500"], log.count("Traceback"), f"{target.stall:.2f}", f"{size:.0f}",
        f"{len(log) / 1024:.0f}",
    ]  # fmt: skip
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)
    return good


def attack(source: Path, name: str) -> None:
    told, act = ATTACKS[name]
    with serving(source) as target:
        before = target.log.stat().st_size
        time.sleep(0.5)  # some healthy answers first
        result = act(target)
        size, written = target.megabytes(), target.log.stat().st_size - before
    print(f"| {told} | {result} | {target.stall:.1f} | {size:.0f} | {written:,} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(ATTACKS)} or fuzz [default: all]")
    parser.add_argument("--source", type=Path, default=Path(__file__).parent.parent, help="a checkout of quitmt")
    parser.add_argument("--requests", type=int, default=5000, help="of the fuzz [default: 5000]")
    args = parser.parse_args()
    chosen = args.parts or [*ATTACKS, "fuzz"]
    if unknown := set(chosen) - {*ATTACKS, "fuzz"}:
        parser.error(f"unknown part {min(unknown)}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),) * 2)
    if names := [name for name in ATTACKS if name in chosen]:
        print("| attack | result | stall, s | peak MB | log bytes |\n|---|---|---:|---:|---:|", flush=True)
        for name in names:
            attack(args.source, name)
    sys.exit(0 if "fuzz" not in chosen or fuzz(args.source, args.requests) else 1)


if __name__ == "__main__":
    main()
