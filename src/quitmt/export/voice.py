"""How a source and a translation are said to a trainer: as plain texts, or as messages of a chat.

Without a template the prompt is the source itself, which is right for translation models. A chat model should be told
what it is told when it translates: give the template that it is sampled with.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from quitmt.generate.prompts.template import Prompt, made
from quitmt.types import Segment

PLAIN = "plain"
"""The template that says nothing but the source."""


@dataclass(frozen=True, slots=True)
class Voice:
    template: Prompt | None = None
    chat: bool = False

    def prompt(self, source: str) -> str | list[dict[str, Any]]:
        if self.template is None:
            return source
        segment = Segment("prompt", source)
        return self.template.messages(segment) if self.chat else self.template.text(segment)

    def completion(self, text: str) -> str | list[dict[str, Any]]:
        return [{"role": "assistant", "content": text}] if self.chat else text


def voice(template: str | None, languages: tuple[str | None, str | None], *, chat: bool) -> Voice:
    """What is wrong with the template, or with the languages that it names, is said now."""
    if template is None and not chat:
        return Voice()
    return Voice(made(template or PLAIN, "", languages), chat)
