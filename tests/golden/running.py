"""Runs of the command line for the golden files, and what of their results is compared."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from quitmt.cli.main import main

HERE = Path(__file__).parent
INPUTS = HERE / "inputs"
GOLDEN = HERE / "golden"
PRESET = ("--preset", "paper")
"""What the version that made them did when nothing else was said."""
DROPPED = ("seconds", "source", "signature")
"""Of an outcome: the first is never the same, the others are kept once."""


def prepare(folder: Path) -> None:
    """Fill a folder with everything that the commands read."""
    for path in INPUTS.iterdir():
        if path.is_file():
            shutil.copy(path, folder)


def run(*words: str) -> None:
    """Run the command line in the current folder; it must succeed."""
    code = main([*words])
    assert code == 0, words


def outcomes(command: str, words: str, *more: str) -> dict[str, Any]:
    """What ``quitmt rerank`` or ``translate`` found: the signature, and each outcome without what is not compared."""
    inputs = {"rerank": "pools.jsonl", "translate": "sources.en"}
    run(command, inputs[command], *PRESET, *words.split(), "-q", "-o", "out.txt", "--jsonl", "out.jsonl", *more)
    found = [json.loads(line) for line in Path("out.jsonl").read_text("utf-8").splitlines()]
    [signature] = {one["signature"] for one in found}
    kept = [{name: value for name, value in one.items() if name not in DROPPED} for one in found]
    return {"signature": portable(signature), "outcomes": kept}


def portable(signature: str) -> str:
    """Without the version of quitmt, and without digests of bytecode where another Python compiles it."""
    signature = re.sub(r"\|v:[^|]+$", "", signature)
    return signature if sys.version_info[:2] == (3, 11) else re.sub("code:[0-9a-f]+", "code:", signature)


def pools(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]
