"""Reading what an OpenAI-shaped server answers: choices, put where they belong.

Invariants: a choice stands at its ``index`` if all have one that fits, else where it came; none stands twice; an empty
text is a candidate only if the server says how it ended; texts can be written anywhere, and a log-probability is a
number or unknown.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from quitmt.generate.remote.reading import Unusable, without_halves

_ENDINGS = ("stop", "length", "content_filter")
"""Of a sample that is empty and stays so: the model ended it, thought until its tokens were used up, or was kept back.
One such candidate in a pool is a bad candidate; only if there are no others is it the segment's failure."""
APIS = {"chat": "/chat/completions", "completions": "/completions"}


@dataclass(frozen=True, slots=True)
class Choice:
    text: str
    log_probability: float | None = None
    """Of all that the model said, as the server counts it: vLLM and llama.cpp before the temperature."""
    tokens: int | None = None


def read_choices(
    found: Any, api: str, count: int, *, longest: int | None = None, mend: bool = False
) -> dict[int, Choice]:
    """By place in the request, at least one and at most ``count``; none is longer than ``longest`` characters.

    A text with half of a surrogate pair is no good, unless it is to be mended.
    """
    listed = found.get("choices") if isinstance(found, dict) else None
    if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
        raise Unusable("has no choices")
    if not listed:
        raise Unusable("has an empty list of choices")
    choices = [_choice(one, api, longest, mend) for one in listed]
    if len(choices) == 1 and choices[0].tokens is None:
        choices = [Choice(choices[0].text, choices[0].log_probability, _tokens(found))]
    return dict(zip(_places(listed, count), choices, strict=False))


def _places(listed: list[dict[str, Any]], count: int) -> list[int]:
    indices = [one.get("index") for one in listed]
    known = [index for index in indices if type(index) is int and 0 <= index < count]
    if len(known) == len(indices) == len(set(known)):
        return known
    return list(range(min(count, len(listed))))


def _choice(one: dict[str, Any], api: str, longest: int | None, mend: bool) -> Choice:
    if api == "chat":
        message = one.get("message")
        text = message.get("content") if isinstance(message, dict) else None
    else:
        text = one.get("text")
    text = "" if text is None else text
    if not isinstance(text, str):
        raise Unusable("has a choice without text")
    if longest is not None and len(text) > longest:
        raise Unusable(f"has a completion of {len(text):,} characters, more than the {longest:,} it can need")
    written = without_halves(text)
    if written != text and not mend:
        raise Unusable("has a choice with half of a surrogate pair")
    text = written
    if not text.strip() and one.get("finish_reason") not in _ENDINGS:
        raise Unusable("has an empty completion that was not ended")
    return Choice(text, *_log_probability(one.get("logprobs"), api))


def _log_probability(logprobs: Any, api: str) -> tuple[float | None, int | None]:
    """The sum over the tokens, and how many there were, where the server gives them. Without an end it says nothing."""
    if not isinstance(logprobs, dict):
        return None, None
    values: Any
    if api == "chat":
        content = logprobs.get("content")
        listed = content if isinstance(content, list) else [None]
        values = [token.get("logprob") if isinstance(token, dict) else None for token in listed]
    else:
        values = logprobs.get("token_logprobs")
    if not isinstance(values, list) or not all(isinstance(value, int | float) for value in values):
        return None, None
    try:
        total = float(sum(values))
    except OverflowError:
        return None, len(values)
    return total if math.isfinite(total) else None, len(values)


def _tokens(found: dict[str, Any]) -> int | None:
    """The usage is of the whole request, so it says something about a choice only if it is the only one."""
    usage = found.get("usage")
    tokens = usage.get("completion_tokens") if isinstance(usage, dict) else None
    return tokens if type(tokens) is int and 0 <= tokens < 2**53 else None
