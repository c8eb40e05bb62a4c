"""``quitmt serve`` as a process: it starts, says where, drains on SIGTERM, and ends at once when told twice."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("aiohttp")

MODEL = """
import asyncio, pathlib

async def sample(source, start, stop):
    pathlib.Path("begun").touch()
    while "wait" in source and not pathlib.Path("go").exists():
        await asyncio.sleep(0.01)
    return [source.upper()] * (stop - start)
"""
RECIPE = """
[model]
name = "slow_model:sample"
source_language = "en"
target_language = "pt"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "slow_model.py").write_text(MODEL)
    (tmp_path / "my.toml").write_text(RECIPE)
    return tmp_path


@contextmanager
def process(folder: Path, *words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(folder)])}
    command = [sys.executable, "-m", "quitmt", "serve", "--port", "0", *words]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True, env=environment) as running:
        assert running.stderr is not None
        try:
            for line in running.stderr:
                if found := re.search(r"serving en-pt at (\S+)$", line):
                    yield running, found[1]
                    break
            else:
                raise AssertionError("it did not start")
        finally:
            running.kill()


def translate(url: str, text: str) -> str:
    ask = json.dumps({"q": text, "source": "en", "target": "pt"}).encode()
    request = urllib.request.Request(f"{url}/translate", ask, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return str(json.loads(answer.read())["translatedText"])


def until(found: Callable[[], Any]) -> None:
    for _ in range(3000):
        if found():
            return
        time.sleep(0.01)
    raise AssertionError("it never came about")


@pytest.mark.slow
def test_a_signal_lets_requests_finish(folder: Path) -> None:
    with process(folder, "--recipe", "my.toml", "--deadline", "0") as (running, url), ThreadPoolExecutor(1) as pool:
        under_way = pool.submit(translate, url, "please wait")
        until((folder / "begun").exists)
        running.send_signal(signal.SIGTERM)
        assert running.stderr is not None
        assert "1 requests have 30 s to finish" in running.stderr.readline()
        with pytest.raises(urllib.error.HTTPError, match="503") as refused:
            urllib.request.urlopen(f"{url}/ready", timeout=60)
        refused.value.close()
        (folder / "go").touch()
        assert under_way.result() == "PLEASE WAIT"
        assert running.wait(60) == 0


@pytest.mark.slow
def test_a_second_signal_ends_it_and_a_limit_ends_waiting(folder: Path) -> None:
    with process(folder, "--recipe", "my.toml", "--deadline", "0") as (running, url), ThreadPoolExecutor(1) as pool:
        under_way = pool.submit(translate, url, "please wait")
        until((folder / "begun").exists)
        running.send_signal(signal.SIGTERM)
        assert running.stderr is not None and "to finish" in running.stderr.readline()
        running.send_signal(signal.SIGTERM)
        assert running.wait(60) == 143
        assert under_way.exception() is not None
    (folder / "begun").unlink()
    words = ("--recipe", "my.toml", "--deadline", "0", "--drain", "0.1")
    with process(folder, *words) as (running, url), ThreadPoolExecutor(1) as pool:
        under_way = pool.submit(translate, url, "please wait")
        until((folder / "begun").exists)
        running.send_signal(signal.SIGINT)
        assert running.wait(60) == 0
        assert under_way.exception() is not None


@pytest.mark.parametrize(
    "words, told",
    [
        (["--recipe", "missing.toml"], "cannot read missing.toml"),
        (["--recipe", "bad.toml"], "bad.toml, line 3: "),
        (["--recipe", "my.toml", "--recipe", "broken.toml"], "broken.toml cannot be served: "),
        (["--recipe", "my.toml", "--recipe", "again.toml"], "my.toml and again.toml both translate en to pt"),
        (["--recipe", "nowhere.toml"], "must be said (a server must know what it translates)"),
        (["--port", "70000"], "a port is a number"),
        (["--deadline", "-1"], "the deadline must be above 0"),
        (["--waiting", "0"], "the limit waiting must be at least 1"),
        (["--keys", "nobody"], "cannot read the keys in nobody"),
        (["--keys", "empty"], "empty has no keys"),
        (["--host", "256.0.0.1"], "cannot listen at 256.0.0.1:8080"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_served(
    folder: Path, quitmt: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, words: list[str], told: str
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    (folder / "bad.toml").write_text("[stop]\n\nk = 'many'\n")
    (folder / "broken.toml").write_text(
        '[model]\nname = "bergamot:nowhere"\nsource_language="en"\ntarget_language="de"\n'
    )
    (folder / "again.toml").write_text(RECIPE)
    (folder / "nowhere.toml").write_text('[model]\nname = "slow_model:sample"\n')
    (folder / "empty").write_text("# none\n")
    ran = quitmt("serve", *(words if "--port" in words or "--host" in words else ["--port", "0", *words]))
    assert ran.code == 2 and told in ran.err and "Traceback" not in ran.err and "serving" not in ran.err


def test_keys_come_from_the_environment_or_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from quitmt.serve import keys

    monkeypatch.delenv("QUITMT_KEYS", raising=False)
    assert not keys.load(None)
    monkeypatch.setenv("QUITMT_KEYS", " one, two\n")
    assert keys.load(None).accept("two") and not keys.load(None).accept("three") and not keys.load(None).accept("")
    (tmp_path / "keys").write_text("# mine\nthree\n\n  four \n")
    found = keys.load(str(tmp_path / "keys"))
    assert found.accept("three") and found.accept("four") and not found.accept("one") and not found.accept(None)
