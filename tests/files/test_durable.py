"""Lines that outlive a run: everything can be written, nothing damaged is believed."""

from __future__ import annotations

import json
import random
import zlib

from hypothesis import given
from hypothesis import strategies as st

from quitmt.files.durable import encoded, sealed, unsealed, writable

FIELDS = {"key": "7", "answer": 'Critical: no-error\n"quoted" – é 漢 😀', "score": -12.5, "list": [1, None]}


@given(st.text(st.characters(), max_size=20))
def test_everything_can_be_encoded(text: str) -> None:
    """Also with halves of surrogate pairs; whatever is proper text stays as it is."""
    found = encoded(text).decode()
    assert len(writable(found)) <= len(text)
    if not any("\ud800" <= character <= "\udfff" for character in text):
        assert found == text


def test_halves_of_a_pair() -> None:
    assert writable("a\ud83db\ude00") == "a\ufffdb\ufffd"
    assert writable("\ud83d\ude00") == "😀"
    assert json.loads(sealed({"error": "\udcff"}))["error"] == "\ufffd"


def test_a_sealed_line_is_json_that_anybody_can_read() -> None:
    line = sealed(FIELDS)
    found = json.loads(line)
    assert line.count(b"\n") == 1 and line.endswith(b"\n") and found.pop("crc") and found == FIELDS
    assert unsealed(line) == FIELDS


def test_every_flipped_bit_is_found() -> None:
    line = sealed(FIELDS)
    for place in range(len(line) * 8):
        flipped = bytearray(line)
        flipped[place // 8] ^= 1 << place % 8
        # What is cut in two by it, or joined to the next line, is damaged as well.
        pieces = [*bytes(flipped).splitlines(keepends=True)]
        if flipped[-1] == line[-1]:
            assert [unsealed(piece) for piece in pieces] == [None] * len(pieces)
        else:
            assert unsealed(bytes(flipped) + sealed(FIELDS)) is None


def test_other_things_are_no_lines_of_ours() -> None:
    noise = random.Random(0).randbytes(60)
    crc = b'[1, "crc": "%08x"}' % zlib.crc32(b"[1}")
    for line in (crc, b"", b"\n", b"[]\n", b"[" * 100_000, noise, b'{"a": 1', b"7\n"):
        assert unsealed(line) is None
