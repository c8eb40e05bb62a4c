"""What is kept of segments between rounds."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from quitmt.generate.decoding.rounds import Openings  # noqa: E402
from quitmt.generate.decoding.walk import Opening  # noqa: E402
from quitmt.types import Segment  # noqa: E402


class Decoder:
    """Opens segments, 40 bytes each, and remembers which."""

    mixes = True

    def __init__(self) -> None:
        self.opened: list[str] = []

    def open(self, segment: Segment) -> Opening:
        self.opened.append(segment.id)
        return Opening(logits=torch.zeros(1, 10), cache=None, limit=9)

    def begin(self, openings: Any) -> Any: ...

    def read(self, segment: Segment, tokens: list[int]) -> str: ...


@pytest.mark.parametrize(("bytes_kept", "opened_again"), [(80, ["b"]), (79, ["a", "b"]), (1, ["a", "b"])])
def test_the_least_recently_used_segments_are_forgotten_first(bytes_kept: int, opened_again: list[str]) -> None:
    decoder, (a, b, c) = Decoder(), (Segment("a"), Segment("b"), Segment("c"))
    openings = Openings(decoder, bytes_kept=bytes_kept)
    for segment in (a, b, a, c):
        openings.open(segment)
    decoder.opened.clear()
    for segment in (c, a, b):
        openings.open(segment)
    assert decoder.opened == opened_again
