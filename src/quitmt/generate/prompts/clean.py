"""Extracts the translation from a chat model's answer by small, independent rules.

Rules only remove what models add around a translation; they never change the translation. ``clean(text, source)``
applies them in order and skips a rule that would leave nothing.

Invariant: every rule takes linear time, because the text is untrusted.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_THINKING = re.compile(r"</?think(?:ing)?>", re.IGNORECASE)
_FENCE = re.compile(r"```[\w-]*")
_LABEL = re.compile(
    r"(?:\*\*)?(?:(?:sure|certainly|of course)[,!.]?\s+)?(?:here(?:'s| is)\s+(?:the|your)\s+)?"
    r"(?-i:[A-Z(][\w()-]*\s+){0,2}translat(?:ion|ed text)(?:\s+(?:in|into|to)\s+[\w()-]+(?:\s[\w()-]+)?)?\s*:"
    r"(?:\*\*)?[ \t]*\n*",
    re.IGNORECASE,
)
_CHATTER = re.compile(
    r"(?:\(|\*+|_|-+\s*)?"
    r"(?:note|notes|explanation|please note|let me know|i hope|alternatively|literal(?:ly)?)\b",
    re.IGNORECASE,
)
_QUOTES = {'"': '"', "“": "”", "«": "»", "„": "“", "「": "」", "『": "』", "'": "'", "‘": "’", "`": "`"}


def clean(text: str, source: str) -> str:
    """The translation in a model's answer.

    >>> clean('<think>hm</think>Translation: "Bom dia."', "Good morning.")
    'Bom dia.'
    """
    for rule in RULES:
        shorter = rule(text, source).strip()
        text = shorter or text.strip()
    return text


def drop_thinking(text: str, source: str) -> str:
    """Removes thinking blocks, including one whose opening tag was in the prompt. After an unclosed block no
    translation follows, so the answer stays unchanged."""
    if "<think" in source.lower() or "</think" in source.lower():
        return text
    kept: list[str] = []
    start, opened = 0, False
    for tag in _THINKING.finditer(text):
        closes = text.startswith("</", tag.start())
        if closes and not opened:
            kept.clear()
        elif not closes and not opened:
            kept.append(text[start : tag.start()])
            start = tag.start()
        if closes:
            start = tag.end()
        opened = not closes
    answer = "".join(kept)
    return answer if opened and not answer.strip() else answer + text[start:]


def drop_fence(text: str, source: str) -> str:
    """Removes a code fence around the answer."""
    first, _, rest = text.strip().partition("\n")
    if "```" in source or not _FENCE.fullmatch(first) or not rest.endswith("```"):
        return text
    return rest.removesuffix("```").removesuffix("\n")


def drop_label(text: str, source: str) -> str:
    """ "Translation:", "Here is the German translation:" and the like at the beginning."""
    text = text.lstrip()
    label = None if _LABEL.match(source) else _LABEL.match(text)
    return text[label.end() :] if label else text


def drop_chatter(text: str, source: str) -> str:
    """Removes a paragraph of notes after the translation."""
    end = None if _end_before_chatter(source) is not None else _end_before_chatter(text)
    return text[:end]


def _end_before_chatter(text: str) -> int | None:
    """The start of the blank lines before the first paragraph of notes. A line of dashes may be among them."""
    end, place = None, 0
    for line in text.split("\n"):
        words = line.strip()
        if not words:
            end = place if end is None else end
        elif end is not None and _CHATTER.match(words):
            return end
        elif words.strip("-"):
            end = None
        place += len(line) + 1
    return None


def drop_quotes(text: str, source: str) -> str:
    """Removes quotation marks around the answer, if the source has none."""
    text, source = text.strip(), source.strip()
    if len(text) < 2 or _QUOTES.get(text[0]) != text[-1]:
        return text
    if source[:1] in _QUOTES or source[-1:] in _QUOTES.values():
        return text
    inside = text[1:-1]
    return text if text[0] in inside or text[-1] in inside else inside


RULES: tuple[Callable[[str, str], str], ...] = (drop_thinking, drop_fence, drop_label, drop_chatter, drop_quotes)
