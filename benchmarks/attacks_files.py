"""Texts, files and model servers that mean harm: what each attack costs, and what becomes of it.

    python benchmarks/attacks_files.py [--before CHECKOUT]

With the checkout of another commit, each attack is first run with its code. Every attack has a process of its own with
limits: ``CPU`` seconds, ``WALL`` seconds, ``MEMORY`` and ``DISK`` bytes. What reaches one is ended, and shown as more
than that. The servers are on this machine.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

CPU, WALL = 60, 120
MEMORY, DISK = 4 << 30, 256 << 20
PAIR = "en-xx"
MODEL_BYTES = 17 << 20


@dataclass(frozen=True)
class Attack:
    name: str
    code: str
    answer: Callable[[BaseHTTPRequestHandler], None] | None = None
    """Of a server at the address in QUITMT_MODELS_URL, to each request."""


def _clean(text: str) -> str:
    return f"from quitmt.generate.prompts.clean import clean\nclean({text}, 'x')"


def _index() -> bytes:
    files = {"model": {"path": "m", "uncompressedSize": MODEL_BYTES}, "vocab": {"path": "v"}}
    return json.dumps({"models": {PAIR: [{"architecture": "tiny", "files": files}]}}).encode()


def _send(handler: BaseHTTPRequestHandler, chunks: Iterator[bytes]) -> None:
    handler.send_response(200)
    handler.end_headers()
    for chunk in chunks:
        handler.wfile.write(chunk)


def bomb(handler: BaseHTTPRequestHandler) -> None:
    """An index of 5 MB that unpacks to 5 GB."""
    block = gzip.compress(bytes(64 << 20))
    _send(handler, iter([block] * 80))


def endless(handler: BaseHTTPRequestHandler) -> None:
    """A file of 17 MB that has no end."""
    if handler.path.endswith("models.json"):
        _send(handler, iter([_index()]))
    else:
        _send(handler, iter(lambda: bytes(1 << 16), b""))


def drip(handler: BaseHTTPRequestHandler) -> None:
    """The same, a byte per second."""

    def slowly() -> Iterator[bytes]:
        while True:
            time.sleep(1)
            yield b"x"

    _send(handler, iter([_index()]) if handler.path.endswith("models.json") else slowly())


GET = f"from quitmt.fetch import get\nget({PAIR!r})"
REPLACE = f"""
import os, shutil
from pathlib import Path
from quitmt.bergamot import store
from quitmt.fetch import install
folder = store.root() / {PAIR!r}
staging = folder.with_name("staging")
for one in (folder, staging):
    one.mkdir(parents=True)
rename = Path.rename
Path.rename = lambda path, target: os._exit(9) if path == staging else rename(path, target)
install._move(staging, folder if install._move.__annotations__.get("folder") else {PAIR!r})
"""
PROFILE = """
import json
from quitmt.plan import Recipe
fields = {"profile": 2, "rule": "os:abort", "step": 4, "budget": 8, "generator": "", "reranker": "x", "spread": 1.0,
          "source_language": None, "target_language": None, "curve": [],
          "guarantee": {"max_loss": 0.1, "risk": 0.1, "confidence": None, "segments": 10}}
open("profile.json", "w").write(json.dumps(fields))
Recipe().changed({"stop.profile": "profile.json"}).check()
"""
AFTER_KILL = f"from quitmt.bergamot import store\nprint('the previous model' if store.has({PAIR!r}) else 'no model')"
ATTACKS = [
    Attack("a chat answer with 500 blank lines", _clean("'a' + '\\n' * 500 + 'b'")),
    Attack("… with 100,000 blank lines", _clean("'a' + '\\n' * 100_000 + 'b'")),
    Attack("… of 20,000 `<think>`", _clean("'<think>' * 20_000")),
    Attack("… of 100,000 `<think>`", _clean("'<think>' * 100_000")),
    Attack("`models get`: an index of 5 MB that unpacks to 5 GB", GET, bomb),
    Attack("`models get`: a file of 17 MB that never ends", GET, endless),
    Attack("`models get`: a file that drips, a byte per second", GET, drip),
    Attack("`models get --replace`, killed between its renames", REPLACE),
    Attack('a profile with `"rule": "os:abort"`', PROFILE),
]


def _limited() -> None:
    for limit, value in ((resource.RLIMIT_CPU, CPU), (resource.RLIMIT_AS, MEMORY), (resource.RLIMIT_FSIZE, DISK)):
        resource.setrlimit(limit, (value, value))


@contextmanager
def _serving(answer: Callable[[BaseHTTPRequestHandler], None] | None) -> Iterator[str]:
    if answer is None:
        yield "http://127.0.0.1:9"
        return
    handler: Any = type("Handler", (BaseHTTPRequestHandler,), {"do_GET": answer, "log_message": lambda *_: None})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # whoever has enough goes away
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()


def attacked(attack: Attack, checkout: Path) -> str:
    """A row's half: seconds, megabytes of memory and of disk, and the end."""
    with tempfile.TemporaryDirectory() as folder, _serving(attack.answer) as url:
        own = {"PYTHONPATH": str(checkout / "src"), "QUITMT_CACHE": folder, "QUITMT_MODELS_URL": url}
        began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
        process = subprocess.Popen(
            [sys.executable, "-c", attack.code], env={**os.environ, **own}, cwd=folder, preexec_fn=_limited,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        peak = _watch(process)
        wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        said = (process.stderr.read() if process.stderr else "").strip().splitlines()[-1:] or [""]
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        disk = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
        end = _end(process.returncode, said[0], wall)
        if attack.code == REPLACE:
            ran = subprocess.run(
                [sys.executable, "-c", AFTER_KILL],
                env={**os.environ, **own},
                capture_output=True,
                text=True,
                check=True,
            )
            end = f"leaves {ran.stdout.strip()}"
    return f"{spent:.1f} | {wall:.0f} | {peak >> 20:,} | {disk >> 20:,} | {end}"


def _watch(process: subprocess.Popen[str]) -> int:
    """Wait for its end, or bring it about; the most memory that it had."""
    peak, last = 0, time.monotonic() + WALL
    while process.poll() is None:
        try:
            lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
            peak = max(peak, *(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM")), 0)
        except OSError:
            pass
        if time.monotonic() > last:
            process.kill()
        time.sleep(0.05)
    return peak


def _end(code: int, said: str, wall: float) -> str:
    if code == 0:
        return "done"
    if wall > WALL:
        return f"goes on after {WALL} s"
    if code == -6:
        return "the process aborts"
    if code in (-9, -24):
        return f"goes on after {CPU} CPU s"
    if "MemoryError" in said:
        return f"goes on after {MEMORY >> 30} GB of memory"
    if "File too large" in said or "no room" in said or code == -25:
        return f"goes on after {DISK >> 20} MB of disk"
    return f"refused: {said.partition(' (')[0].rpartition(': ')[2]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, metavar="CHECKOUT")
    args = parser.parse_args()
    checkouts = {"before": args.before, "now": Path(__file__).parent.parent}
    print("| attack | | CPU s | s | MB of memory | MB of disk | end |\n|---|---|---:|---:|---:|---:|---|")
    for attack in ATTACKS:
        for when, checkout in checkouts.items():
            if checkout is not None:
                print(f"| {attack.name} | {when} | {attacked(attack, checkout.absolute())} |", flush=True)


if __name__ == "__main__":
    main()
