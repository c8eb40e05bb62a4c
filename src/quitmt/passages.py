"""Text as people have it, taken apart into sentences to translate and everything between them, which is kept exactly.

    >>> passage = split("Hello there. How are you?\\n\\n  * Fine!", "en")
    >>> [(one.id, one.text) for one in passage.sentences]
    [('1.1', 'Hello there.'), ('1.2', 'How are you?'), ('3', '* Fine!')]
    >>> passage.joined(["Olá.", "Como vai?", "* Bem!"], "pt")
    'Olá. Como vai?\\n\\n  * Bem!'

Invariants: what is not a sentence (line breaks, control characters, space around sentences, what has neither a letter
nor a digit) comes out as it went in. A sentence's id is the number of its line, from 1, as in ``quitmt translate``; the
sentences of a line that has several are numbered after it: 1.1, 1.2. So a line of one sentence has the same candidates
whether it is split or not, and a text the same ones wherever it is translated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

LONGEST = 1000
"""Characters. No sentence is that long; what is longer is cut at a space, or models of sentences lose most of it."""
UNSPACED = frozenset(("zh", "yue", "wuu", "ja", "th", "lo", "km", "my", "bo", "dz"))
"""Languages that put no space between sentences."""

_LINES = re.compile(r"(\r?\n)")
_CONTROL = re.compile("([\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]+)")


@dataclass(frozen=True, slots=True)
class Fragment:
    """A sentence, or with no id what stands between sentences."""

    text: str
    id: str | None = None
    cut: bool = False
    """Whether it goes on what was cut off before it, in the middle of a word perhaps."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A text taken apart. ``lines`` is how many it has."""

    pieces: tuple[Fragment, ...]
    lines: int = 1

    @property
    def sentences(self) -> list[Fragment]:
        return [piece for piece in self.pieces if piece.id is not None]

    def joined(self, translations: Sequence[str], target: str | None = None) -> str:
        """The text with its sentences replaced, one translation for each, in their order."""
        return "".join(space + text for _, space, text in self.filled(translations, target))

    def filled(self, translations: Sequence[str], target: str | None = None) -> Iterator[tuple[Fragment, str, str]]:
        """Of each piece: the space that the target language wants before it, and its text."""
        spaced = primary_code(target) not in UNSPACED
        left, after = iter(translations), False
        for place, piece in enumerate(self.pieces):
            if piece.id is not None:
                missing = after and spaced and not piece.cut  # the source's language put nothing between them
                yield piece, " " if missing else "", one_line(next(left))
            elif piece.text == " " and not spaced and self._is_between(place):
                yield piece, "", ""
            else:
                yield piece, "", piece.text
            after = piece.id is not None

    def _is_between(self, place: int) -> bool:
        around = self.pieces[max(0, place - 1) : place + 2]
        return len(around) == 3 and around[0].id is not None and around[2].id is not None


def split(text: str, language: str | None, *, first: int = 1) -> Passage:
    """A text in a language, by its code; ``first`` is the number of its first line."""
    pieces, number = list[Fragment](), first
    for place, line in enumerate(_LINES.split(text)):
        if place % 2:
            pieces.append(Fragment(line))
            number += 1
        else:
            pieces += _line(line, primary_code(language), number)
    return Passage(tuple(pieces), number - first + 1)


def one_line(text: str) -> str:
    """What a model made of a sentence must not add lines to a text."""
    return re.sub("[\r\n\x0b\x0c\x85\u2028\u2029]+", " ", text)


def _line(line: str, language: str, number: int) -> list[Fragment]:
    parts = [part for place, run in enumerate(_CONTROL.split(line)) for part in _run(run, language, bool(place % 2))]
    several = sum(is_sentence for _, is_sentence, _ in parts) > 1
    found, count = list[Fragment](), 0
    for text, is_sentence, cut in parts:
        count += is_sentence
        found.append(Fragment(text, (f"{number}.{count}" if several else str(number)) if is_sentence else None, cut))
    return found


def _run(text: str, language: str, control: bool) -> Iterator[tuple[str, bool, bool]]:
    """What there is between control characters: texts, whether each is a sentence, and whether it was cut off."""
    if control:
        yield text, False, False
        return
    for sentence in _sentences(text, language):
        for place, piece in enumerate(_cut(sentence)):
            core = piece.strip()
            before, after = piece[: len(piece) - len(piece.lstrip())], piece[len(piece.rstrip()) :] if core else ""
            for part, is_sentence in ((before, False), (core, any(map(str.isalnum, core))), (after, False)):
                if part:
                    yield part, is_sentence, place > 0


def _sentences(text: str, language: str) -> list[str]:
    if not text.strip():
        return [text]
    import sentencex  # only when something is split

    found: list[str] = sentencex.segment(language, text)
    return found if "".join(found) == text else [text]  # nothing may be lost, whatever the library does


def _cut(sentence: str) -> Iterator[str]:
    while len(sentence) > LONGEST:
        place = max(sentence.rfind(" ", LONGEST // 2, LONGEST), sentence.rfind("\t", LONGEST // 2, LONGEST)) + 1
        yield sentence[: place or LONGEST]
        sentence = sentence[place or LONGEST :]
    yield sentence


def primary_code(code: str | None) -> str:
    """The language of a code, without script and region; English if there is none."""
    return re.split("[-_]", code or "en")[0].lower()
