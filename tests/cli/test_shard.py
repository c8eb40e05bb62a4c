"""``translate --shard``: the parts of a file, translated apart and put together, are the whole, byte for byte."""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import Ran
from tests.servers.fake_openai import fake_server

from quitmt.cli.inputs import Shard

Quitmt = Callable[..., Ran]
FEW = ("-q", "-n", 16, "-k", 8, "-w", 2)
LINES = [
    "Good morning. The door is open.",
    "Where is the station?",
    "",
    "I saw a small dog in the garden.",
    "The house is old. It was built long ago.",
    "Yes.",
    "He reads the newspaper every day.",
]
KINDS = ("text", "jsonl", "pools")


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "in.en"
    path.write_text("\n".join(LINES), encoding="utf-8")  # and no line break at its end
    return path


def files(folder: Path, name: str) -> list[Path]:
    return [folder / f"{name}.{kind}" for kind in KINDS]


def translate(quitmt: Quitmt, source: Path, name: str, *words: object) -> Ran:
    output, outcomes, pools = files(source.parent, name)
    places = ("-o", output, "--jsonl", outcomes, "--keep-pools", pools)
    return quitmt("translate", source, *places, *FEW, *words)


def put_together(folder: Path, names: list[str]) -> list[bytes]:
    """All outputs, without the seconds that were measured."""
    found = [b"".join(files(folder, name)[kind].read_bytes() for name in names) for kind in range(len(KINDS))]
    return [re.sub(rb'"seconds": \{[^}]*\}', b"", one) for one in found]


def parts_of(quitmt: Quitmt, source: Path, count: int, *words: object) -> list[bytes]:
    names = [f"{number}of{count}" for number in range(1, count + 1)]
    for number, name in enumerate(names, start=1):
        ran = translate(quitmt, source, name, "--shard", f"{number}/{count}", *words)
        assert (ran.code, ran.err) == (0, "")
    return put_together(source.parent, names)


@pytest.mark.parametrize("words", [(), ("--split",)], ids=["lines", "sentences"])
def test_the_parts_are_the_whole(quitmt: Quitmt, text: Path, words: tuple[str, ...]) -> None:
    assert translate(quitmt, text, "whole", *words).code == 0
    whole = put_together(text.parent, ["whole"])
    assert whole[0].count(b"\n") == len(LINES) and whole[2], "the candidates are compared too"
    assert parts_of(quitmt, text, 3, *words) == whole
    assert parts_of(quitmt, text, 9, "--in-flight", 2, *words) == whole, "some have no line"


def test_a_gzip_file_and_drafts_of_ones_own(quitmt: Quitmt, text: Path) -> None:
    drafts, packed = text.parent / "drafts", text.parent / "in.gz"
    drafts.write_text("".join(f"rascunho {number}\n" for number in range(len(LINES))))
    packed.write_bytes(gzip.compress(text.read_bytes()))
    words = ("--anchors-from", drafts)
    assert translate(quitmt, text, "whole", *words).code == 0
    assert parts_of(quitmt, packed, 2, *words) == put_together(text.parent, ["whole"])
    drafts.write_text("rascunho\n" * 2)
    ran = translate(quitmt, text, "few", "--shard", "2/2", *words)
    assert ran.code == 2 and "drafts has at most 3 lines, fewer than the input" in ran.err


def test_a_line_sees_those_before_it_in_the_whole(quitmt: Quitmt, text: Path) -> None:
    text.write_text("".join(f"{line}\n" for line in ["One.", "Two.", "", "Three.", "Four.", "Five.", "Six."]))
    with fake_server() as server:
        words = ("--model", "openai:m", "--base-url", server.base_url, "--src", "en", "--tgt", "pt", "--context", 2)
        assert translate(quitmt, text, "whole", *words).code == 0
        assert any("Three.\nFour." in json.dumps(one).replace("\\n", "\n") for one in server.requests)
        whole = put_together(text.parent, ["whole"])
        for count in (2, 3, 7):
            assert parts_of(quitmt, text, count, *words) == whole


def test_a_part_is_resumed_as_that_part(quitmt: Quitmt, text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = text.parent
    (folder / "mended_part.py").write_text(
        "from pathlib import Path\n"
        "def sample(source, start, stop):\n"
        "    if 'Yes' in source and not Path('mended').exists():\n"
        "        raise ValueError('no')\n"
        "    return [source.upper()] * (stop - start)\n"
    )
    monkeypatch.syspath_prepend(folder)
    monkeypatch.chdir(folder)
    words = ("--model", "mended_part:sample")
    assert translate(quitmt, text, "part", "--shard", "2/2", *words).code == 1
    for other in (("--shard", "1/2"), ("--shard", "2/3"), ()):
        ran = translate(quitmt, text, "part", *other, *words, "--resume")
        assert ran.code == 2 and "cannot resume: --shard was 2/2, lines 4 to 7" in ran.err
    lines = text.read_text()
    text.write_text(lines.replace("house", "barn"))
    ran = translate(quitmt, text, "part", "--shard", "2/2", *words, "--resume")
    assert ran.code == 2 and "line 5 of the input has changed" in ran.err
    text.write_text(lines)
    (folder / "mended").touch()
    assert translate(quitmt, text, "part", "--shard", "2/2", *words, "--resume").code == 0
    assert (folder / "part.text").read_text().splitlines() == [line.upper() for line in LINES[3:]]


@pytest.mark.parametrize(
    "shard", ["0/8", "9/8", "3", "a/b", "-1/8", "1/0", "", "1/8/2", "1.5/8", "٣/٨", "1/9999999999"]
)
def test_what_is_no_part(quitmt: Quitmt, text: Path, shard: str) -> None:
    ran = translate(quitmt, text, "out", f"--shard={shard}")
    assert ran.code == 2 and "is not a part such as 1/8" in ran.err
    assert ran.err.count("\n") == 1 and not (text.parent / "out.text").exists()


def test_parts_are_not_paced(quitmt: Quitmt, text: Path) -> None:
    """What a line gets would depend on the lines before it, which another part has."""
    ran = quitmt("translate", text, "--shard", "1/2", "--max-cost", 20, "-k", 4, "-n", 64)
    assert (ran.code, ran.out) == (2, "")
    assert "--max-cost paces segments in their order, and a part (--shard) does not know what the other" in ran.err
    assert "or take --stop fixed:16" in ran.err and ran.err.count("\n") == 1


def test_a_known_curve_and_a_fixed_number_go_with_parts(quitmt: Quitmt, text: Path) -> None:
    text.write_text("Yes.\nNo.\n")
    for words in (("--max-cost", 16), ("--max-cost", 4, "-k", 4, "-n", 64)):
        parts = [quitmt("translate", text, "-q", "--shard", f"{number}/2", *words) for number in (1, 2)]
        assert [ran.code for ran in parts] == [0, 0], parts
        assert "".join(ran.out for ran in parts) == quitmt("translate", text, "-q", *words).out


def test_what_has_no_known_length_has_no_parts(quitmt: Quitmt, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for source, name in ((pipe, "pipe"), ("-", "standard input"), (tmp_path, tmp_path.name)):
        ran = quitmt("translate", source, "--shard", "1/2", *FEW)
        assert ran.code == 2 and "--shard needs a file" in ran.err and name in ran.err and ran.err.count("\n") == 1
    ran = quitmt("translate", tmp_path / "none", "--shard", "1/2", *FEW)
    assert ran.code == 2 and "cannot read" in ran.err


def test_what_is_wrong_elsewhere_does_not_matter(quitmt: Quitmt, text: Path) -> None:
    text.write_bytes(b"\xff\n" + b"Good morning.\n" * 2 + b"\xff")
    assert quitmt("translate", text, "--shard", "2/4", *FEW).out == "Bom dia.\n"
    assert "line 4: not UTF-8" in quitmt("translate", text, "--shard", "4/4", *FEW).err


@given(st.integers(0, 10**12), st.integers(1, 1000))
def test_parts_are_contiguous_and_even(lines: int, count: int) -> None:
    parts = [Shard.of(lines, number, count).lines for number in range(1, count + 1)]
    assert parts[0].start == 0 and parts[-1].stop == lines
    assert all(one.stop == other.start for one, other in pairwise(parts))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
