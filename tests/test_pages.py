"""Commands of the documentation exist and run, links lead somewhere, and the site has every page."""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

import pytest

from quitmt.cli.main import COMMANDS, parser
from tests.documents import DOCS, PAGES, ROOT, Command, blocks, fragments, links, matches

SERVER = "http://localhost:8000/v1"
SHELLS = ("sh", "console")
HISTORY = ROOT / "CHANGELOG.md"


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_commands_parse(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every call of quitmt in a block has flags that exist, and values of their kind."""
    for block in blocks(page):
        for command in block.commands() if block.language in SHELLS else []:
            for words in command.calls():
                try:
                    parser().parse_args(words)
                except SystemExit as end:
                    assert end.code == 0, f"{command.text}: {capsys.readouterr().err}"


@pytest.fixture(scope="module")
def known() -> str:
    """All flags, as the help has them."""
    subcommands = {"lab": ("init", "run", "live"), "models": ("list", "get")}
    told = io.StringIO()
    for command in COMMANDS:
        for more in ([], *([one] for one in subcommands.get(command, ()))):
            with redirect_stdout(told), pytest.raises(SystemExit):
                parser().parse_args([command, *more, "--help"])
    return parser().format_help() + told.getvalue()


OF_OTHERS = {"--copy_files", "--quantization", "--by-length", "--stream", "--word"}
"""Flags of other programs that prose names: a converter, a benchmark, and a made-up one."""
OF_THE_PAST = {HISTORY, DOCS / "benchmarks.md"}
"""Pages that name flags of earlier versions and of our benchmarks."""


@pytest.mark.parametrize("page", [page for page in PAGES if page not in OF_THE_PAST], ids=named)
def test_options_in_prose_exist(page: Path, known: str) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    inline = re.findall(r"`([^`\n]+)`", text)
    used = {
        flag
        for code in inline
        if not code.startswith(("python ", "pip ", "make ", "hf ", "ct2-", "vllm ", "git "))
        for flag in re.findall(r"(?<![\w-])--[a-z][a-z_-]+", code)
    }
    assert {flag for flag in used - OF_OTHERS if not re.search(rf"{flag}(?![\w-])", known)} == set()


TO_RUN = [page for page in PAGES if any(block.run for block in blocks(page))]


def test_some_pages_are_run() -> None:
    assert {DOCS / "start.md", DOCS / "tutorials" / "reproduce-the-study.md"} < set(TO_RUN)


@pytest.mark.slow
@pytest.mark.parametrize("page", TO_RUN, ids=named)
def test_blocks_run(page: Path, tmp_path: Path) -> None:
    """In order, in one folder, as a reader would; where a page needs a server there is one that talks nonsense."""
    commands = [command for block in blocks(page) if block.run for command in block.commands()]
    with _server(commands) as address:
        for command in commands:
            text = command.text.replace(SERVER, address)
            ran = subprocess.run(
                ["bash", "-c", text],
                cwd=tmp_path,
                env=_environment(tmp_path),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            assert ran.returncode == 0, f"{text}\n{ran.stdout}"
            assert not command.printed or matches(ran.stdout, command.printed), f"{text}\n{ran.stdout}"


@contextmanager
def _server(commands: list[Command]) -> Iterator[str]:
    if not any(SERVER in command.text for command in commands):
        yield SERVER
        return
    from tests.servers.fake_openai import fake_server

    with fake_server() as server:
        yield server.base_url


def _environment(folder: Path) -> dict[str, str]:
    """With our quitmt first of all."""
    programs = folder / ".bin"
    programs.mkdir(exist_ok=True)
    script = programs / "quitmt"
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m quitmt "$@"\n')
    script.chmod(0o755)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_somewhere(page: Path) -> None:
    for link in links(page):
        name, _, fragment = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        if fragment and target.suffix == ".md":
            assert fragment in fragments(target), link


def test_the_site_has_every_page() -> None:
    site = tomllib.loads((ROOT / "zensical.toml").read_text())
    entries = list(_entries(site["project"]["nav"]))
    assert len(set(entries)) == len(entries)
    assert set(entries) == {str(page.relative_to(DOCS)) for page in PAGES if page.is_relative_to(DOCS)}


def _entries(nav: object) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    else:
        for one in nav.values() if isinstance(nav, dict) else nav:  # type: ignore[attr-defined]
            yield from _entries(one)
