"""A server of the same form as Mozilla's storage of models: an index, and gzipped files that can be had in parts."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

INDEX = "/db/models.json"
KINDS = {"model*.bin": "model", "vocab*.spm": "vocab", "srcvocab*.spm": "srcVocab", "trgvocab*.spm": "trgVocab"}


class ModelServer:
    """``cuts`` says after how many bytes the answers to the next requests for a model break off."""

    def __init__(self) -> None:
        self.url = ""
        self.files: dict[str, bytes] = {}
        self.models: dict[str, list[dict[str, Any]]] = {}
        self.cuts: list[int] = []
        self.statuses: list[int] = []
        self.ranges = True
        self.asked: list[tuple[str, str | None]] = []
        """Path and range of each request for a file."""
        self.hold: threading.Event | None = None
        """If there is one, answers with a model wait for it in their middle."""

    def publish(
        self, pair: str, folder: Path, *, architecture: str = "tiny", status: str | None = "Release", **metrics: float
    ) -> dict[str, Any]:
        """Publish the model in a folder; the entry of the index can be changed afterwards."""
        files: dict[str, dict[str, Any]] = {}
        for pattern, kind in KINDS.items():
            for path in folder.glob(pattern):
                content = path.read_bytes()
                where = (
                    f"models/{pair}/{architecture}_{hashlib.sha256(content).hexdigest()[:8]}/exported/{path.name}.gz"
                )
                self.files[f"/{where}"] = gzip.compress(content, 1)
                files[kind] = {"path": where}
                if kind == "model":
                    digest = hashlib.sha256(content).hexdigest()
                    files[kind] |= {"uncompressedSize": len(content), "uncompressedHash": digest}
        source, target = pair.split("-")
        files["lexicalShortlist"] = {"path": f"models/{pair}/exported/lex.50.50.s2t.bin.gz"}
        entry: dict[str, Any] = {
            "architecture": architecture,
            "releaseStatus": status,
            "sourceLanguage": source,
            "targetLanguage": target,
            "files": files,
        }
        if metrics:
            entry["metrics"] = {"flores200-plus": metrics}
        self.models.setdefault(pair, []).append(entry)
        return entry

    def path(self, entry: dict[str, Any], kind: str = "model") -> str:
        return f"/{entry['files'][kind]['path']}"

    @property
    def index(self) -> bytes:
        found = {"generated": "2026-11-01T00:00:00Z", "baseUrl": "https://elsewhere.invalid", "models": self.models}
        return json.dumps(found).encode()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    served: ModelServer

    def do_GET(self) -> None:
        served = self.served
        if self.path == INDEX:
            self._answer(200, served.files.get(INDEX, served.index))
            return
        wanted = self.headers.get("Range")
        served.asked.append((self.path, wanted))
        assert self.headers["Accept-Encoding"] == "gzip"
        if served.statuses and (status := served.statuses.pop(0)) != 200:
            self._answer(status, b"no")
            return
        content = served.files.get(self.path)
        if content is None:
            self._answer(404, b"there is no such file")
            return
        start = int(re.fullmatch(r"bytes=(\d+)-", wanted)[1]) if wanted and served.ranges else 0  # type: ignore[index]
        if start >= len(content):
            self._answer(416, b"", {"Content-Range": f"bytes */{len(content)}"})
            return
        part = {"Content-Range": f"bytes {start}-{len(content) - 1}/{len(content)}"} if start else {}
        self._answer(206 if start else 200, content[start:], part, cut="model" in self.path)

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None, *, cut: bool = False) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if cut and self.served.cuts:
            self.wfile.write(body[: self.served.cuts.pop(0)])
            self.close_connection = True
            return
        if cut and self.served.hold:
            self.wfile.write(body[: len(body) // 2])
            self.wfile.flush()
            self.served.hold.wait(600)
            body = body[len(body) // 2 :]
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def serving() -> Iterator[ModelServer]:
    served = ModelServer()
    handler = type("Handler", (_Handler,), {"served": served})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # clients may go away
    served.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
