"""Values that nobody would give on purpose, for every flag of every command: never a traceback, one line for a mistake.

The flags come from the parsers, so that a new one is tried too.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Ran

from quitmt.cli.main import COMMANDS

Quitmt = Callable[..., Ran]

HUGE = "1" + "0" * 30
NUMBERS = (
    HUGE,
    f"-{HUGE}",
    "1e400",
    "nan",
    "-inf",
    "9" * 5000,
    "18446744073709551616",
    "1000000000",
    "0",
    "-1",
    "",
    "１",
)
TEXTS = ("", "a\udcffb", "a\nb\x1b[31m", "9" * 5000, "[" * 3000, ":", "=", "a:b=c", "/", "/dev/null")
NAMES = {
    "--stop": (f"fixed:{HUGE}", f"loss:minimum={HUGE}", "loss:most=1e400", f"loss:looks={HUGE}", "quit:", "auto:x"),
    "--mbr": (f"prune:seed={HUGE}", f"lowrank:reduction={HUGE}", f"lowrank:rank={HUGE}", "prune:schedule=1/2/0", "a+b"),
    "--rerank": ("mbr:", "qe:", "qe:1e400*likelihood", f"mbr:chrf:order={HUGE}", "qe:+", "mbr:a:b:c=d", "qe:recorded:"),
    "--filter": ("qe:", "mbr:chrf", "qe:nan*likelihood", "qe:recorded:\udcff"),
    "--model": ("embedded:", "bergamot:\udcff", "openai:", "functions_of_a_test:missing", "a.b:c", ":x"),
    "--max-loss": ("1e400sd", "sd", f"{HUGE}sd", "nansd"),
    "--metrics": ("chrf++:x", "comet:", "gemba:", "bleu:bleu:", "function:"),
}  # fmt: skip
"""What is close to something that can be."""

BASES: dict[str, list[str]] = {
    "translate": "translate lines.txt --model functions_of_a_test:sample -n 8 -k 2 -w 2 -q".split(),
    "rerank": "rerank pools.jsonl -k 2 -w 2 -q".split(),
    "calibrate": "calibrate pools.jsonl -n 8 -k 4 --max-loss 1sd --risk 0.9 --confidence none -q -o p.json".split(),
    "recipe": "recipe".split(),
    "recipe of a server": "recipe --model openai:m".split(),
    "recipe of a scoring model": "recipe --model ct2:folder --rerank mbr:comet --filter qe:kiwi".split(),
    "score": "score -t lines.txt -r lines.txt -q".split(),
    "compare": "compare lines.txt others.txt -r lines.txt -q".split(),
}  # fmt: skip


@cache
def actions(command: str) -> list[argparse.Action]:
    commands = argparse.ArgumentParser().add_subparsers()
    import_module(f"quitmt.cli.{command}").add_parser(commands)
    return [one for one in commands.choices[command]._actions if not isinstance(one, argparse._HelpAction)]


def values(base: list[str], action: argparse.Action) -> tuple[str, ...]:
    """All of them for the flags of a command itself; for a setting of recipes all only where nothing else is given."""
    wanted = NUMBERS if action.type in (int, float) else TEXTS
    if base != BASES["recipe"] and action.dest in {one.dest for one in actions("recipe")}:
        wanted = wanted[::4]
    return (*wanted, *(value for flag in action.option_strings for value in NAMES.get(flag, ())))


def lines(base: list[str]) -> Iterator[list[str]]:
    """Command lines with one value that is strange."""
    command, *rest = base
    for action in actions(command):
        if action.nargs == 0:
            continue
        for value in values(base, action):
            if not action.option_strings:
                yield [command, value, *rest[1:]]
            else:
                flag = max(action.option_strings, key=len)
                yield [*base, f"{flag}={value}"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "lines.txt").write_text("One two.\nThree four.\n")
    (tmp_path / "others.txt").write_text("One too.\nThree for.\n")
    texts = [[f"a b {number * index % 5}" for index in range(8)] for number in range(8)]
    pools = [
        {"id": str(number), "source": "s", "candidates": own, "scores": {"q": [*range(8)]}}
        for number, own in enumerate(texts)
    ]
    (tmp_path / "pools.jsonl").write_text("".join(json.dumps(pool) + "\n" for pool in pools))
    code = "def sample(source, start, stop):\n    return [f'{source} {i % 3}' for i in range(start, min(stop, 16))]\n"
    (tmp_path / "functions_of_a_test.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def assert_civil(ran: Ran, words: Any) -> None:
    assert ran.code in (0, 1, 2), words
    assert "Traceback" not in ran.err and "\x1b" not in ran.err, words
    if ran.code == 2:
        assert ran.err.startswith("quitmt") and ran.err.count("\n") == 1, words


@pytest.mark.parametrize("name", BASES)
def test_every_flag_takes_or_refuses_every_value(name: str, quitmt: Quitmt) -> None:
    assert quitmt(*BASES[name]).code == 0, "what is tried is sound without the strange value"
    tried = 0
    for words in lines(BASES[name]):
        assert_civil(quitmt(*words), words)
        tried += 1
    assert tried > 50


def test_all_commands_with_settings_are_tried() -> None:
    elsewhere = {"lab", "models", "demo", "serve", "batch", "export"}  # each has bad values among its own tests
    assert set(COMMANDS) - {base[0] for base in BASES.values()} == elsewhere


@pytest.mark.parametrize("form", ["text", "json", "csv"])
def test_a_file_whose_name_is_no_unicode(form: str, quitmt: Quitmt, folder: Path) -> None:
    name = os.fsdecode(b"system \xff.txt")
    (folder / name).write_text("One two.\nThree four.\n")
    for words in (["score", "-t", name], ["compare", "others.txt", name]):
        ran = quitmt(*words, "-r", "lines.txt", "--format", form, "-o", "report")
        assert ran.code == 0, ran.err
        assert "system \ufffd" in (folder / "report").read_text("utf-8")
    assert quitmt("rerank", "pools.jsonl", "-o", name, "-q").code == 0
    assert len((folder / name).read_text().splitlines()) == 8


def test_settings_have_at_most_64_bits(quitmt: Quitmt) -> None:
    assert quitmt("recipe", "--seed", 2**64).code == 2
    assert quitmt("recipe", "--seed", 2**64 - 1).code == 0
