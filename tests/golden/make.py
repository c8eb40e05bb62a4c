"""Makes the golden files with the present code, by hand, before something is changed that must not change them:

    python -m tests.golden.make

It needs the extras ``comet`` and ``lab``, and writes ``tests/golden/golden`` and ``tests/golden/inputs/pools.jsonl``.
A difference that this makes to a committed file is a difference that users will see: say so in CHANGELOG.md.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from quitmt.files.durable import sealed
from tests.comet.folders import MODELS, make_folder
from tests.golden import commands
from tests.golden.running import GOLDEN, INPUTS, PRESET, outcomes, prepare, run

FORGED = "FROM THE JOURNAL"
"""Begins a translation that only the journal has: whoever starts over loses it."""


def write(name: str, found: Any) -> None:
    """JSON with a line for each entry of the outer dictionary or list of outcomes, for readable differences."""
    lines = []
    for key, value in found.items():
        text = json.dumps(value, ensure_ascii=False).replace(', {"id"', ',\n   {"id"')
        lines.append(f" {json.dumps(key, ensure_ascii=False)}:\n  {text}")
    (GOLDEN / name).write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


def make_pools() -> None:
    """The pools that are reranked: sampled, with a score ``q`` that has ties."""
    run(
        "translate",
        "sources.en",
        *PRESET,
        "--stop",
        "full",
        "-n",
        "64",
        "-q",
        "-o",
        "out.txt",
        "--keep-pools",
        "sampled.jsonl",
    )
    lines = []
    for line in Path("sampled.jsonl").read_text("utf-8").splitlines():
        pool = json.loads(line)
        rng = random.Random(pool["id"])
        values = {text: rng.randrange(20) / 20 for text in dict.fromkeys(pool["candidates"])}
        pool["scores"]["q"] = [values[text] for text in pool["candidates"]]
        lines.append(json.dumps(pool, ensure_ascii=False))
    Path("pools.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    shutil.copy("pools.jsonl", INPUTS)


def make_outcomes() -> None:
    write("rerank.json", {name: outcomes("rerank", words) for name, words in commands.RERANK.items()})
    translated = {}
    for name, words in commands.TRANSLATE.items():
        pools = f"pools {name}.jsonl"
        translated[name] = outcomes("translate", words, "--keep-pools", pools)
        if name in commands.KEPT:
            shutil.copy(pools, GOLDEN)
    write("translate.json", translated)


def make_signatures() -> None:
    for name in MODELS:
        make_folder(Path(), name)
    found = {
        name: outcomes("rerank", f"{words} {commands.FEW}")["signature"] for name, words in commands.NEURAL.items()
    }
    write("neural.json", found)


def make_journals() -> None:
    """Runs that were really interrupted, with one translation that is not what quitmt would say again."""
    for name, words in commands.JOURNALS.items():
        command = [sys.executable, "-m", "quitmt", *words.split(), *PRESET]
        source = Path({"translate": "sources.en", "rerank": "pools.jsonl"}[words.split()[0]]).read_bytes()
        lines = source.splitlines(keepends=True)
        path = Path("out.txt.journal")
        where = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        with subprocess.Popen(command, stdin=subprocess.PIPE, preexec_fn=interruptible, env=where) as process:
            assert process.stdin
            process.stdin.write(b"".join(lines[:4]))  # not the end: it cannot be done before it is interrupted
            process.stdin.flush()
            while not path.exists() or path.read_bytes().count(b"\n") < 4:
                assert process.poll() is None
                time.sleep(0.01)
            os.kill(process.pid, signal.SIGINT)
            process.wait()
        header, first, *rest = path.read_text("utf-8").splitlines(keepends=True)
        forged = json.loads(first)
        forged["outcome"]["translation"] = f"{FORGED} {forged['outcome']['translation']}"
        del forged["crc"]
        path.write_text("".join([header, sealed(forged).decode(), *rest]), "utf-8")
        shutil.copy(path, GOLDEN / f"{name}.journal")
        with Path("input").open("wb") as file:
            file.write(source)
        with Path("input").open("rb") as file:
            subprocess.run([*command, "--resume"], stdin=file, env=where, check=True)
        shutil.copy("out.txt", GOLDEN / f"{name}.txt")
        for path in (Path("out.txt"), Path("out.pools"), Path("out.jsonl")):
            path.unlink(missing_ok=True)


def interruptible() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def make_profiles() -> None:
    found = {}
    for name, words in commands.PROFILES.items():
        run("calibrate", "pools.jsonl", *PRESET, *words.split(), "-q", "-o", "profile.json")
        shutil.copy("profile.json", GOLDEN / f"profile {name}.json")
        more = ["--profile", "profile.json"]
        reranker = "--rerank qe:recorded:q" if name == "qe" else ""
        found[f"rerank {name}"] = outcomes("rerank", reranker, *more)
        if not reranker:
            found[f"translate {name}"] = outcomes("translate", "", *more)
    write("by profile.json", found)


def make_study() -> None:
    """The cache of a study that was run live, its tables, and those of them that live runs have a part in."""
    run("lab", "live", "study.toml", "-q")
    shutil.copytree("study/cache", GOLDEN / "study" / "cache")
    for action in ("run", "live"):
        run("lab", action, "study.toml", "-q")
        folder = GOLDEN / "study" / action
        folder.mkdir()
        for path in Path("study").rglob("*.csv"):
            if action == "run" or "live" in path.read_text("utf-8"):
                shutil.copy(path, folder)


def make() -> None:
    shutil.rmtree(GOLDEN, ignore_errors=True)
    GOLDEN.mkdir()
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        os.chdir(folder)
        make_pools()
        make_outcomes()
        make_signatures()
        make_journals()
        make_profiles()
        make_study()
        os.chdir("/")


if __name__ == "__main__":
    make()
