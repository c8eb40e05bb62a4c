"""Documents with tags: text nodes are translated, markup never.

A document is cut into markup and text where tags, comments, declarations and CDATA begin and end; the markup comes out
byte for byte as it went in. Text is unescaped before it is translated and escaped after, so a translation cannot become
markup. Some elements are left alone with all that is in them: code that is not text (``script``), what the author marks
(``translate="no"``, ``class="notranslate"``), and what the client names (``ignore_tags``).
"""

from __future__ import annotations

import html
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Literal

from quitmt.passages import Passage, split

Format = Literal["text", "html", "xml"]

# Possessive throughout: hostile text must not make the search go back over it again and again.
_NAME = r"[A-Za-z_:][^\s/>]*+"
_MARKUP = re.compile(
    r"<!--.*?(?:-->|\Z)|<!\[CDATA\[.*?(?:\]\]>|\Z)|<\?.*?(?:\?>|\Z)|<![A-Za-z][^>]*(?:>|\Z)"
    rf"|</?{_NAME}(?:[^<>\"']|\"[^\"]*\"|'[^']*')*+>",
    re.DOTALL,
)
_TAG = re.compile(rf"<(/?)({_NAME})(.*?)(/?)>", re.DOTALL)
_NO = re.compile(r"""\btranslate\s*=\s*["']?no\b|\bclass\s*=\s*["']?[^"'>]*\bnotranslate\b""", re.IGNORECASE)
RAW = frozenset(("script", "style", "textarea", "code", "pre", "noscript", "template", "svg", "math"))
"""Elements of HTML whose content is not prose, or not in the page."""
VOID = frozenset("area base br col embed hr img input link meta param source track wbr".split())
"""Elements of HTML that have no end."""


@dataclass(frozen=True, slots=True)
class Document:
    """Markup as it is, and passages to translate, in turn."""

    parts: tuple[str | Passage, ...]
    escaped: bool = False

    @property
    def passages(self) -> list[Passage]:
        return [part for part in self.parts if isinstance(part, Passage)]

    def joined(self, translations: list[list[str]], target: str | None) -> str:
        """The document with its sentences replaced: for each passage the translations of its sentences."""
        left, found = iter(translations), list[str]()
        for part in self.parts:
            if isinstance(part, str):
                found.append(part)
            else:
                text = part.joined(next(left), target)
                found.append(html.escape(text, quote=False) if self.escaped else text)
        return "".join(found)


def parse(text: str, language: str | None, form: Format = "text", ignored: Collection[str] = ()) -> Document:
    if form == "text":
        return Document((split(text, language),))
    parts, line = list[str | Passage](), 1
    for piece, is_text in _pieces(text, form, {name.lower() for name in ignored}):
        if not is_text or not piece.strip():
            parts.append(piece)
            continue
        passage = split(html.unescape(piece), language, first=line)
        if passage.sentences:
            line += passage.lines
            parts.append(passage)
        else:
            parts.append(piece)
    return Document(tuple(parts), escaped=True)


def _pieces(text: str, form: Format, ignored: Collection[str]) -> Iterator[tuple[str, bool]]:
    """Texts, and whether each is to be translated. Within an element that is left alone, only its own end counts."""
    alone, depth, place = "", 0, 0
    for match in _MARKUP.finditer(text):
        if match.start() > place:
            yield text[place : match.start()], not alone
        yield match[0], False
        place = match.end()
        tag = _TAG.fullmatch(match[0])
        if tag is None:
            continue
        closing, name, attributes, empty = tag[1], tag[2].lower(), tag[3], tag[4]
        if alone:
            depth += (name == alone) * (-1 if closing else 0 if empty else 1)
            alone = alone if depth else ""
        elif not (closing or empty or (form == "html" and name in VOID)) and (
            name in ignored or (form == "html" and (name in RAW or _NO.search(attributes)))
        ):
            alone, depth = name, 1
    if place < len(text):
        yield text[place:], not alone
