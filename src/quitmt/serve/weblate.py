"""Reads chat messages of Weblate's OpenAI plug-in and joins the translations as it expects them.

Current versions (5.17, 2026.10) send a JSON object with ``source_language``, ``target_language`` and ``strings``, each
with its ``source``. They expect one JSON array with a translation per string. Older versions (5.14) join strings with a
line ``==WEBLATE_PART==`` and expect the same back. Both use placeholders such as ``@@PH7@@``, which must come back
unchanged and in order.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from quitmt.serve.markup import Format
from quitmt.serve.refusals import bad
from quitmt.serve.tags import PLACEHOLDER

SEPARATOR = re.compile(r"(\n *==WEBLATE_PART== *\n)")


@dataclass(frozen=True, slots=True)
class Strings:
    """The texts of a chat message, and the way to join their translations."""

    texts: list[str]
    separators: list[str]
    """Between the texts."""
    form: Format = "text"
    languages: tuple[str, str] | None = None
    """Stated by current versions, which expect a JSON array."""

    def joined(self, translations: list[str]) -> str:
        if self.languages is not None:
            return json.dumps(translations, ensure_ascii=False)
        return "".join(text + after for text, after in zip(translations, [*self.separators, ""], strict=True))


def read_message(text: str) -> Strings:
    """Parses any message. A message that isn't from Weblate is one text."""
    message = _object(text)
    languages = (message.get("source_language"), message.get("target_language"))
    if all(isinstance(code, str) and code for code in languages):
        if "units" in message:
            raise bad("this model translates; it cannot evaluate translations")
        if (texts := _sources(message.get("strings"))) is not None:
            return Strings(texts, [], "strings", (str(languages[0]), str(languages[1])))
    parts = SEPARATOR.split(text)
    plain = len(parts) == 1 and not PLACEHOLDER.search(text)
    return Strings(parts[::2], parts[1::2], "text" if plain else "strings")


def _object(text: str) -> dict[str, Any]:
    if not text.lstrip().startswith("{"):
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _sources(strings: Any) -> list[str] | None:
    if not isinstance(strings, list) or not strings:
        return None
    sources = [one["source"] for one in strings if isinstance(one, dict) and isinstance(one.get("source"), str)]
    return sources if len(sources) == len(strings) else None
