"""From lines of text to the items of a run, and back to lines."""

from __future__ import annotations

import re

from quitmt.engine.driver import Item
from quitmt.types import Finished, Segment, Verdict

_BREAK = re.compile(r"\r\n|\r|\n")


def item(number: int, source: str | Segment, signature: str = "") -> Item:
    """Line ``number`` (from 1) as a segment; a blank one is finished already: its translation is empty."""
    segment = Segment(str(number), source) if isinstance(source, str) else source
    if segment.source.strip():
        return segment
    return Finished.without_candidates(segment, Verdict.STABLE, signature)


def one_line(text: str) -> str:
    """A translation as one line of plain text, whatever line breaks a model put into it."""
    return " ".join(_BREAK.split(text)) if "\n" in text or "\r" in text else text
