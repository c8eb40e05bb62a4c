"""Splits a text into sentences to translate and the text between them, which stays unchanged.

    >>> passage = split("Hello there. How are you?\\n\\n  * Fine!", "en")
    >>> [(one.id, one.text) for one in passage.sentences]
    [('1.1', 'Hello there.'), ('1.2', 'How are you?'), ('3', '* Fine!')]
    >>> passage.joined(["Olá.", "Como vai?", "* Bem!"], "pt")
    'Olá. Como vai?\\n\\n  * Bem!'

Invariants: everything except sentences (line breaks, control characters, space around sentences, pieces without letters
and digits) is output unchanged. A sentence's id is its line number from 1, as in ``quitmt translate``; several
sentences of a line are numbered 1.1, 1.2, …. So a line with one sentence has the same candidates whether it is split or
not, and a text has the same candidates wherever it is translated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

LONGEST = 1000
"""Maximum characters per sentence. Longer ones are cut at a space, because sentence-level models would lose most of the
text."""
UNSPACED = frozenset(("zh", "yue", "wuu", "ja", "th", "lo", "km", "my", "bo", "dz"))
"""Languages that put no space between sentences."""

_LINES = re.compile(r"(\r?\n)")
_CONTROL = re.compile("([\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]+)")


@dataclass(frozen=True, slots=True)
class Fragment:
    """A sentence, or text between sentences, which has no id."""

    text: str
    id: str | None = None
    cut: bool = False
    """Whether the fragment continues the one before, which was cut for its length, perhaps in the middle of a word."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A text in pieces. ``lines`` is its number of lines."""

    pieces: tuple[Fragment, ...]
    lines: int = 1

    @property
    def sentences(self) -> list[Fragment]:
        return [piece for piece in self.pieces if piece.id is not None]

    def joined(self, translations: Sequence[str], target: str | None = None) -> str:
        """The text with its sentences replaced by the translations, in order."""
        return "".join(space + text for _, space, text in self.filled(translations, target))

    def filled(self, translations: Sequence[str], target: str | None = None) -> Iterator[tuple[Fragment, str, str]]:
        """Each piece, the space that the target language needs before it, and its text."""
        spaced = primary_code(target) not in UNSPACED
        left, after = iter(translations), False
        for place, piece in enumerate(self.pieces):
            if piece.id is not None:
                missing = after and spaced and not piece.cut  # the source's language has no space there
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
    """Split a text. ``language`` is its code, ``first`` the number of its first line."""
    pieces, number = list[Fragment](), first
    for place, line in enumerate(_LINES.split(text)):
        if place % 2:
            pieces.append(Fragment(line))
            number += 1
        else:
            pieces += _line(line, primary_code(language), number)
    return Passage(tuple(pieces), number - first + 1)


def one_line(text: str) -> str:
    """Replaces line breaks by spaces, so that a translation adds no lines to the text."""
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
    """Split the text between control characters into (text, whether it is a sentence, whether it continues a cut)."""
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
    import sentencex  # slow to import

    found: list[str] = sentencex.segment(language, text)
    return found if "".join(found) == text else [text]  # never lose text, whatever the library does


def _cut(sentence: str) -> Iterator[str]:
    while len(sentence) > LONGEST:
        place = max(sentence.rfind(" ", LONGEST // 2, LONGEST), sentence.rfind("\t", LONGEST // 2, LONGEST)) + 1
        yield sentence[: place or LONGEST]
        sentence = sentence[place or LONGEST :]
    yield sentence


def primary_code(code: str | None) -> str:
    """The language of a code, without script and region; English if there is none."""
    return re.split("[-_]", code or "en")[0].lower()
