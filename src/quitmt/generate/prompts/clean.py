"""From what a chat model said to the translation in it: small rules, each of which can be read and tested alone.

Rules only take away what models add around a translation; they never change the inside of it. ``clean(text, source)``
applies them in order; what would leave nothing is left as it was.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_THINKING = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
_CLOSED_THINKING = re.compile(r"^.*</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
_OPEN_THINKING = re.compile(r"^\s*<think(?:ing)?>.*", re.DOTALL | re.IGNORECASE)
_FENCE = re.compile(r"^```[\w-]*\n(.*?)\n?```$", re.DOTALL)
_LABEL = re.compile(
    r"^(?:\*\*)?(?:(?:sure|certainly|of course)[,!.]?\s+)?(?:here(?:'s| is)\s+(?:the|your)\s+)?"
    r"(?-i:[A-Z(][\w()-]*\s+){0,2}translat(?:ion|ed text)(?:\s+(?:in|into|to)\s+[\w()-]+(?:\s[\w()-]+)?)?\s*:"
    r"(?:\*\*)?[ \t]*\n*",
    re.IGNORECASE,
)
_CHATTER = re.compile(
    r"\n\s*\n\s*(?:\(|\*+|_|-+\s*)?"
    r"(?:note|notes|explanation|please note|let me know|i hope|alternatively|literal(?:ly)?)\b.*",
    re.DOTALL | re.IGNORECASE,
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
    """Thinking blocks, also those whose beginning was part of the prompt. One that was never closed has no translation
    after it: nothing is left, so the answer stays as it was."""
    if "<think" in source.lower() or "</think" in source.lower():
        return text
    return _OPEN_THINKING.sub("", _CLOSED_THINKING.sub("", _THINKING.sub("", text)))


def drop_fence(text: str, source: str) -> str:
    """A code fence around everything."""
    match = None if "```" in source else _FENCE.match(text.strip())
    return match[1] if match else text


def drop_label(text: str, source: str) -> str:
    """ "Translation:", "Here is the German translation:" and the like at the beginning."""
    return text if _LABEL.match(source) else _LABEL.sub("", text.lstrip(), count=1)


def drop_chatter(text: str, source: str) -> str:
    """A paragraph of notes after the translation."""
    return text if _CHATTER.search(source) else _CHATTER.sub("", text)


def drop_quotes(text: str, source: str) -> str:
    """Quotation marks around everything, where the source has none around it."""
    text, source = text.strip(), source.strip()
    if len(text) < 2 or _QUOTES.get(text[0]) != text[-1]:
        return text
    if source[:1] in _QUOTES or source[-1:] in _QUOTES.values():
        return text
    inside = text[1:-1]
    return text if text[0] in inside or text[-1] in inside else inside


RULES: tuple[Callable[[str, str], str], ...] = (drop_thinking, drop_fence, drop_label, drop_chatter, drop_quotes)
