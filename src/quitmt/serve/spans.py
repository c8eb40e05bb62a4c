"""Places the tags around words in the translation of their sentence.

The marked words are also translated on their own. If exactly one place in the sentence has that translation, the tag
goes there. Otherwise all tags of the sentence go around the whole sentence. So tags never surround wrong words, and
their nesting never changes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from quitmt.passages import UNSPACED, primary_code

Known = Mapping[str, Sequence[str]]
"""Maps marked words to their translations, best first."""
LONGEST = 200
"""Maximum characters of a span. Longer ones put their tags around the sentence."""


@dataclass(frozen=True, slots=True)
class Span:
    """Words of a sentence between two tags."""

    start: int
    end: int
    opening: str
    closing: str


def words_of(sentence: str, span: Span) -> str:
    return sentence[span.start : span.end].strip()


def is_all(sentence: str, span: Span) -> bool:
    """Whether only punctuation is outside the span."""
    return not any(map(str.isalnum, sentence[: span.start] + sentence[span.end :]))


def tagged(
    source: str,
    text: str,
    spans: Sequence[Span],
    known: Known,
    target: str | None,
    plain: Callable[[str], str],
) -> str:
    places = [_place(source, text, span, known, target) for span in spans]
    known_places = [place for place in places if place is not None]
    if len(known_places) < len(spans) or not _nests(spans, known_places):
        opening, closing = [span.opening for span in spans], [span.closing for span in reversed(spans)]
        return "".join([*opening, plain(text), *closing])
    numbered = list(enumerate(zip(spans, known_places, strict=True)))
    # At the same place, ends come before beginnings, inner ends before outer ones, and outer beginnings before inner.
    ends = [(end, 0, -number, span.closing) for number, (span, (_, end)) in numbered]
    beginnings = [(start, 1, number, span.opening) for number, (span, (start, _)) in numbered]
    pieces, done = list[str](), 0
    for at, _, _, tag in sorted(ends + beginnings):
        pieces += [plain(text[done:at]), tag]
        done = at
    return "".join([*pieces, plain(text[done:])])


def _place(source: str, text: str, span: Span, known: Known, target: str | None) -> tuple[int, int] | None:
    """Finds the words of a span in the translation, if there is exactly one place."""
    before, after, words = source[: span.start], source[span.end :], words_of(source, span)
    if is_all(source, span):
        fits = text.startswith(before) and text.endswith(after) and len(text) > len(before) + len(after)
        return (len(before), len(text) - len(after)) if fits else None
    if (len(_places(words, source, spaced=True)) or source.count(words)) != 1:
        return None
    spaced = primary_code(target) not in UNSPACED
    for candidate in known.get(words, () if any(map(str.isalpha, words)) else (words,)):
        matches = _places(candidate, text, spaced)
        if len(matches) == 1:
            return matches[0]
    return None


_EDGES = re.compile(r"^\W+|\W+\Z")


def _places(words: str, text: str, spaced: bool) -> list[tuple[int, int]]:
    if not words or len(words) > LONGEST:
        return []
    core = re.escape(_EDGES.sub("", words) or words)
    pattern = rf"(?<!\w){core}(?!\w)" if spaced else core
    return [match.span() for match in re.finditer(pattern, text, re.IGNORECASE)]


def _nests(spans: Sequence[Span], places: Sequence[tuple[int, int]]) -> bool:
    """Whether separate spans are still separate, and nested spans still nested."""
    pairs = combinations(zip(spans, places, strict=True), 2)
    return all(
        (start <= other_start and other_end <= end)
        if span.start <= other.start and other.end <= span.end
        else (end <= other_start or other_end <= start)
        for (span, (start, end)), (other, (other_start, other_end)) in pairs
    )
