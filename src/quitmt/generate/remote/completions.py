"""Completions of OpenAI's API: the bodies of requests, reading the answers, and progress with one segment.

quitmt also sends neutral values for cut-offs that the user didn't set, because servers have defaults of their own (a
model's recommended top-k, a min-p, a repetition penalty). Most of these names aren't part of OpenAI's API, so they are
kept separate: for a server that doesn't know them, the request is repeated without them.

Invariants: a choice is placed by its ``index`` if all choices have a valid one, else in order of arrival; no place is
filled twice; an empty text is a candidate only if the server says how it ended; every text can be encoded as UTF-8, and
a log-probability is a finite number or None.
"""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from quitmt.errors import GenerationError, setting
from quitmt.generate.prompts.template import Prompt
from quitmt.generate.remote.transport import Unusable, without_halves
from quitmt.sampling import Sampling
from quitmt.types import Draw, Request, Segment

TOKENS = 2**14
"""Expected maximum tokens of a completion, if the user sets no limit."""
BYTES_PER_TOKEN = 64
"""Maximum bytes per token; enough even if each character is escaped."""
LOGPROB_BYTES_PER_TOKEN = 512
"""The JSON of a token's log-probability, with its spelling in text and bytes."""
LEAST_BYTES = 2**16
"""Minimum allowance for one choice, and the allowance for the JSON around the choices."""
_NEUTRAL = {"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0}


@dataclass(frozen=True)
class Bodies:
    model: str
    sampling: Sampling
    prompt: Prompt
    api: str
    max_tokens: int | None
    logprobs: bool

    @property
    def neutral(self) -> dict[str, float]:
        """Values that switch off the cut-offs that the user didn't set."""
        return {name: value for name, value in _NEUTRAL.items() if getattr(self.sampling, name, None) is None}

    def body(self, segment: Segment, start: int, count: int, extra: dict[str, Any]) -> bytes:
        """A request for ``count`` candidates of a segment, from ``start``."""
        fields = self._settings() | extra | self._question(segment)
        sampling = self.sampling.seeded(segment.seed)
        fields |= {"n": count, "seed": sampling.seed_of(segment.content, start)}
        return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()

    def probe(self) -> bytes:
        """A short request that any healthy server answers."""
        short = replace(self, max_tokens=min(self.max_tokens or 8, 8), logprobs=False)
        return short.body(Segment("check", "Hello."), 0, 1, {})

    def longest_text(self, segment: Segment) -> int:
        """Maximum characters of a completion."""
        tokens = self.max_tokens or max(TOKENS, 2 * len(segment.source.encode()))
        return max(LEAST_BYTES, tokens * BYTES_PER_TOKEN)

    def longest_body(self, segment: Segment, count: int) -> int:
        """Maximum bytes of an answer with ``count`` choices, compressed or not."""
        text = self.longest_text(segment)
        logprobs = text // BYTES_PER_TOKEN * LOGPROB_BYTES_PER_TOKEN if self.logprobs else 0
        return LEAST_BYTES + count * (text + logprobs)

    def _settings(self) -> dict[str, Any]:
        sampling = self.sampling
        fields: dict[str, Any] = {"model": self.model, "temperature": sampling.temperature}
        fields["top_p"] = 1.0 if sampling.top_p is None else sampling.top_p
        requested = {"top_k": sampling.top_k, "min_p": sampling.min_p}
        fields |= {name: value for name, value in requested.items() if value is not None}
        if self.max_tokens is not None:
            fields["max_tokens"] = self.max_tokens
        if self.logprobs:
            fields["logprobs"] = True if self.api == "chat" else 1
        return fields

    def _question(self, segment: Segment) -> dict[str, Any]:
        if self.api == "chat":
            kwargs = self.prompt.template.chat_template_kwargs
            more = {"chat_template_kwargs": dict(kwargs)} if kwargs else {}
            return {"messages": self.prompt.messages(segment), **more}
        fields: dict[str, Any] = {"prompt": self.prompt.text(segment)}
        if self.max_tokens is None:  # the API's default is 16, too few for a translation
            fields["max_tokens"] = max(256, 2 * len(segment.source.encode()))
        return fields


_ENDINGS = ("stop", "length", "content_filter")
"""Finish reasons of a legitimately empty sample: the model ended it, spent all tokens on thinking, or was filtered. In
a pool it is just a bad candidate; the segment fails only if it has no others."""
APIS = {"chat": "/chat/completions", "completions": "/completions"}


@dataclass(frozen=True, slots=True)
class Completion:
    text: str
    log_probability: float | None = None
    """Log-probability of all generated tokens, as the server counts it: vLLM and llama.cpp before the temperature."""
    tokens: int | None = None


def read_choices(
    found: Any, api: str, count: int, *, longest: int | None = None, repair: bool = False
) -> dict[int, Completion]:
    """The choices by place in the request: between 1 and ``count``, of at most ``longest`` characters each.

    A text with an unpaired surrogate is ``Unusable`` unless ``repair`` is true.
    """
    listed = found.get("choices") if isinstance(found, dict) else None
    if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
        raise Unusable("has no choices")
    if not listed:
        raise Unusable("has an empty list of choices")
    choices = [_choice(one, api, longest, repair) for one in listed]
    if len(choices) == 1 and choices[0].tokens is None:
        choices = [Completion(choices[0].text, choices[0].log_probability, _tokens(found))]
    return dict(zip(_places(listed, count), choices, strict=False))


def _places(listed: list[dict[str, Any]], count: int) -> list[int]:
    indices = [one.get("index") for one in listed]
    known = [index for index in indices if type(index) is int and 0 <= index < count]
    if len(known) == len(indices) == len(set(known)):
        return known
    return list(range(min(count, len(listed))))


def _choice(one: dict[str, Any], api: str, longest: int | None, repair: bool) -> Completion:
    if api == "chat":
        message = one.get("message")
        text = message.get("content") if isinstance(message, dict) else None
    else:
        text = one.get("text")
    text = "" if text is None else text
    if not isinstance(text, str):
        raise Unusable("has a choice without text")
    if longest is not None and len(text) > longest:
        raise Unusable(f"has a completion of {len(text):,} characters, more than the limit of {longest:,}")
    written = without_halves(text)
    if written != text and not repair:
        raise Unusable("has a choice with half of a surrogate pair")
    text = written
    if not text.strip() and one.get("finish_reason") not in _ENDINGS:
        raise Unusable("has an empty completion without a finish reason")
    return Completion(text, *_log_probability(one.get("logprobs"), api))


def _log_probability(logprobs: Any, api: str) -> tuple[float | None, int | None]:
    """The sum over the tokens and their number, if the server gives them; a sum that isn't finite is None."""
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
    """The completion's tokens by the answer's usage, which covers all choices; so call it only for a single choice."""
    usage = found.get("usage")
    tokens = usage.get("completion_tokens") if isinstance(usage, dict) else None
    return tokens if type(tokens) is int and 0 <= tokens < 2**53 else None


class Errand:
    """The progress of a request: the candidates that are still wanted. It passes draws on, and fails if all candidates
    are empty."""

    def __init__(self, request: Request, put: Callable[[Draw], None]) -> None:
        self.request, self._put = request, put
        self._missing = request.stop - request.start
        self._blank = request.start == 0
        self.wanted: deque[tuple[int, int]] = deque()
        """Ranges of candidates for which no HTTP request was sent yet."""
        self.tasks = 0

    def take(self, size: int) -> tuple[int, int]:
        start, stop = self.wanted.popleft()
        if stop - start > size:
            self.wanted.appendleft((start + size, stop))
        return start, min(start + size, stop)

    def deliver(self, draw: Draw) -> None:
        self._missing -= len(draw.candidates)
        self._blank = self._blank and not any(candidate.text for candidate in draw.candidates)
        if self._blank and not self._missing:
            message = f"segment {self.request.segment.id}: the server gives only empty completions"
            raise GenerationError(
                message, hint=f"check the prompt, {setting('model.options.max_tokens')}, and that thinking is off"
            )
        self._put(draw)


def stretches(indices: Sequence[int]) -> list[tuple[int, int]]:
    """Ascending indices as contiguous ranges.

    >>> stretches([3, 4, 6])
    [(3, 5), (6, 7)]
    """
    runs: list[tuple[int, int]] = []
    for index in indices:
        if runs and runs[-1][1] == index:
            runs[-1] = (runs[-1][0], index + 1)
        else:
            runs.append((index, index + 1))
    return runs
