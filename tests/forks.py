"""Many command lines that need a fresh interpreter: each in a fork of one, which has imported the commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.conftest import Ran

_SCRIPT = """
import importlib, json, os, sys
from quitmt.cli.main import main

def run(words):
    for descriptor, name in enumerate(("in", "out", "err")):
        os.dup2(os.open(name, os.O_CREAT | os.O_RDWR), descriptor)
    try:
        return main(words)
    except SystemExit as leaving:
        return leaving.code or 0

given = json.load(sys.stdin)
for command in given["commands"]:
    importlib.import_module(f"quitmt.cli.{command[0]}")
ran = []
for words in given["commands"]:
    for name, text in (("in", given["text"]), ("out", ""), ("err", "")):
        open(name, "w").write(text)
    child = os.fork()
    if not child:
        code = run(words)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    ran.append((code, open("out").read(), open("err").read()))
json.dump(ran, sys.stdout)
"""


def forked(
    commands: Mapping[str, str | Sequence[str]],
    folder: Path,
    *,
    before: str = "",
    text: str = "",
    environment: Mapping[str, str] | None = None,
) -> dict[str, Ran]:
    """What each says, in this folder and with this text on standard input; ``before`` is run once, before all."""
    lines = [words.split() if isinstance(words, str) else [*words] for words in commands.values()]
    done = subprocess.run(
        [sys.executable, "-c", before + _SCRIPT],
        cwd=folder,
        env={**os.environ, **(environment or {})},
        input=json.dumps({"commands": lines, "text": text}),
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(zip(commands, (Ran(*one) for one in json.loads(done.stdout)), strict=True))
