"""Documents with tags: the text is translated, the markup is preserved.

    tokens → stretches of text with inline tags → sentences, and the spans that inline tags mark in them

Text is unescaped before translation and escaped afterwards, so a translation cannot become markup. Some elements stay
untranslated with all their content: those that aren't prose (``script``), those that the author marked
(``translate="no"``, ``class="notranslate"``), and those that the client names (``ignore_tags``).

A sentence is translated as a whole, without its inline tags; ``spans`` puts them back.
"""

from __future__ import annotations

import html
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from quitmt.passages import Passage, split
from quitmt.serve.spans import Known, Span, is_all, tagged, words_of
from quitmt.serve.tags import Token, html_tokens, string_tokens, xml_tokens

Format = Literal["text", "html", "xml", "strings"]
TOKENS: dict[str, Callable[[str], Iterator[Token]]] = {
    "html": html_tokens,
    "xml": xml_tokens,
    "strings": string_tokens,
}
INLINE = frozenset(
    "a abbr acronym b bdi bdo big cite data del dfn em font i ins kbd label mark q s samp small span strike strong "
    "sub sup time tt u var".split()
)
"""HTML elements that mark words of a sentence. All others end the sentence."""
ALONE = frozenset(("a", "label"))
"""Elements that must not contain another one of the same name."""
MOST_SPANS = 8
"""Maximum spans per sentence. With more, each is translated separately."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Text between tags that end a sentence."""

    passage: Passage
    tags: tuple[tuple[int, str], ...] = ()
    """Tags between sentences: their position in the text, and their source."""
    spans: Mapping[int, tuple[Span, ...]] = field(default_factory=dict)
    """Spans by the index of their sentence's piece, in the order of their opening tags."""

    def joined(self, translations: Sequence[str], target: str | None, known: Known, escaped: bool) -> str:
        def plain(text: str) -> str:
            return html.escape(text, quote=False) if escaped else text

        parts, tags, place = list[str](), list(reversed(self.tags)), 0
        for number, (piece, space, text) in enumerate(self.passage.filled(translations, target)):
            end = place + len(piece.text)
            while tags and (tags[-1][0] <= place or (piece.id is None and tags[-1][0] < end)):
                at, tag = tags.pop()
                if at > place:  # within the space between sentences
                    parts.append(plain(text[: at - place]))
                    text, place = text[at - place :], at
                parts.append(tag)
            parts.append(space)
            spans = self.spans.get(number, ())
            parts.append(tagged(piece.text, text, spans, known, target, plain) if spans else plain(text))
            place = end
        return "".join([*parts, *(tag for _, tag in reversed(tags))])


@dataclass(frozen=True, slots=True)
class Document:
    """Unchanged markup and translatable text, in order."""

    parts: tuple[str | Stretch, ...]
    escaped: bool = False

    @property
    def passages(self) -> list[Passage]:
        return [part.passage for part in self.parts if isinstance(part, Stretch)]

    @property
    def spans(self) -> list[str]:
        """Marked words that must also be translated on their own."""
        stretches = [part for part in self.parts if isinstance(part, Stretch)]
        marked = (
            words_of(each.passage.pieces[number].text, span)
            for each in stretches
            for number, spans in each.spans.items()
            for span in spans
            if not is_all(each.passage.pieces[number].text, span)
        )
        return list(dict.fromkeys(words for words in marked if any(map(str.isalpha, words))))

    def joined(self, translations: Sequence[Sequence[str]], target: str | None, known: Known | None = None) -> str:
        """The document with translated sentences; takes the translations of the sentences of each passage."""
        left = iter(translations)
        return "".join(
            part if isinstance(part, str) else part.joined(next(left), target, known or {}, self.escaped)
            for part in self.parts
        )


def parse(text: str, language: str | None, form: Format = "text", ignored: Collection[str] = ()) -> Document:
    if form == "text":
        return Document((Stretch(split(text, language)),))
    tokens = list(_with_kept(TOKENS[form](text), {name.lower() for name in ignored}))
    within = _mixed(tokens) if form == "xml" else [token.name in INLINE for token in tokens]
    parts, together, line = list[str | Stretch](), list[Token](), 1
    for token, is_within in zip([*tokens, Token("other", "")], [*within, False], strict=True):
        if token.kind == "text" or (is_within and token.kind in ("open", "close")):
            together.append(token)
            continue
        for part in _stretches(together, language, line, form):
            parts.append(part)
            line += part.passage.lines if isinstance(part, Stretch) else 0
        parts.append(token.source)
        together = []
    return Document(tuple(part for part in parts if part), escaped=form != "strings")


def _with_kept(tokens: Iterator[Token], ignored: Collection[str]) -> Iterator[Token]:
    """Joins each untranslated element into one token. Within it, only its own end tag counts."""
    held, name, depth = list[str](), "", 0
    for token in tokens:
        if held:
            held.append(token.source)
            if token.name == name:
                depth += {"open": 1, "close": -1}.get(token.kind, 0)
            if not depth:
                yield Token("other", "".join(held))
                held = []
        elif token.kind == "open" and (token.kept or token.name in ignored):
            held, name, depth = [token.source], token.name, 1
        else:
            yield token
    if held:
        yield Token("other", "".join(held))


def _mixed(tokens: Sequence[Token]) -> list[bool]:
    """For XML, whose names mean nothing to us: whether each tag has text beside it in the same element."""
    has_text, stack, parents = [False], [(0, "")], list[int]()
    for token in tokens:
        if token.kind == "close" and stack[-1][1] == token.name and len(stack) > 1:
            stack.pop()
        parents.append(stack[-1][0])
        if token.kind == "open":
            stack.append((len(has_text), token.name))
            has_text.append(False)
        elif token.text.strip():
            has_text[stack[-1][0]] = True
    return [has_text[parent] for parent in parents]


@dataclass(slots=True)
class _Tag:
    at: int
    """Its position in the text of its stretch."""
    place: int
    """Its index among the tokens."""
    token: Token
    partner: _Tag | None = None


def _stretches(
    tokens: Sequence[Token], language: str | None, line: int, form: Format, tries: int = 2
) -> list[str | Stretch]:
    """Makes one stretch, or several if a tag within a sentence cannot be moved: such a tag stays in place and ends the
    sentence."""
    text, tags = "".join(token.text for token in tokens), _tags(tokens)
    passage = split(text, language, first=line)
    if not passage.sentences:
        return ["".join(token.source for token in tokens)]
    spans, cuts = _spans(passage, tags, form)
    if not cuts:
        marks = {id(tag) for pairs in spans.values() for pair in pairs for tag in pair}
        outside = tuple((tag.at, tag.token.source) for tag in tags if id(tag) not in marks)
        return [Stretch(passage, outside, _relative(passage, spans))]
    if not tries:
        cuts = {tag.place for tag in tags}
    parts, start = list[str | Stretch](), 0
    for place in [*sorted(cuts), len(tokens)]:
        for part in _stretches(tokens[start:place], language, line, form, tries - 1):
            parts.append(part)
            line += part.passage.lines if isinstance(part, Stretch) else 0
        parts.extend(token.source for token in tokens[place : place + 1])
        start = place + 1
    return parts


def _tags(tokens: Sequence[Token]) -> list[_Tag]:
    tags, stack, at = list[_Tag](), list[_Tag](), 0
    for place, token in enumerate(tokens):
        at += len(token.text)
        if token.kind == "text":
            continue
        tags.append(tag := _Tag(at, place, token))
        if token.kind == "open":
            stack.append(tag)
        elif stack and stack[-1].token.name == token.name:
            tag.partner = stack.pop()
            tag.partner.partner = tag
    return tags


_Pairs = list[tuple[_Tag, _Tag]]


def _spans(passage: Passage, tags: Sequence[_Tag], form: Format) -> tuple[dict[int, _Pairs], set[int]]:
    """Pairs of tags within a sentence, by its piece, and the tokens at which a sentence must be cut."""
    starts, spans, cuts = _starts(passage), dict[int, _Pairs](), set[int]()

    def inside(at: int) -> int | None:
        """The sentence that has text on both sides of this position."""
        number = bisect_right(starts, at) - 1
        is_inside = number < len(passage.pieces) and starts[number] < at and passage.pieces[number].id is not None
        return number if is_inside else None

    for tag in tags:
        within, partner = inside(tag.at), tag.partner
        sentence = inside(partner.at) if within is None and partner is not None else within
        if sentence is None:  # between sentences, or around whole ones
            continue
        places = [tag.at] if partner is None else sorted({tag.at, partner.at})
        if len(places) == 2 and starts[sentence] <= places[0] and places[1] <= starts[sentence + 1]:
            if partner is not None and tag.token.kind == "open":
                spans.setdefault(sentence, []).append((tag, partner))
        elif within is not None:
            cuts.add(tag.place)
    for pairs in spans.values():
        names = [opening.token.name for opening, _ in pairs if form != "xml"]
        if len(pairs) > MOST_SPANS or any(names.count(name) > 1 for name in ALONE):
            cuts.update(tag.place for pair in pairs for tag in pair)
    return spans, cuts


def _starts(passage: Passage) -> list[int]:
    starts = [0]
    for piece in passage.pieces:
        starts.append(starts[-1] + len(piece.text))
    return starts


def _relative(passage: Passage, spans: Mapping[int, _Pairs]) -> dict[int, tuple[Span, ...]]:
    starts = _starts(passage)
    return {
        number: tuple(
            Span(one.at - starts[number], other.at - starts[number], one.token.source, other.token.source)
            for one, other in pairs
        )
        for number, pairs in spans.items()
    }
