"""What an OpenAI-shaped server is asked: the bodies of requests.

What is not cut off is said too: servers have defaults of their own (a model's recommended top-k, a min-p, a repetition
penalty), and sampling must mean what it says. These neutral values are no part of OpenAI's own API, so they are kept
apart: a server that does not know their names can be asked without them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from quitmt.generate.prompts.template import Prompt
from quitmt.sampling import Sampling
from quitmt.types import Segment

TOKENS = 2**14
"""As many as a completion is expected to have at most, where nothing was said."""
BYTES_A_TOKEN = 64
"""More than any text needs, even if each character is escaped."""
LOGPROB_BYTES_A_TOKEN = 512
"""The JSON of a token's log-probability, with its spelling in text and bytes."""
LEAST_BYTES = 2**16
"""For one choice, and for what is around the choices."""
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
        """What switches off the cut-offs that were not asked for."""
        return {name: value for name, value in _NEUTRAL.items() if getattr(self.sampling, name, None) is None}

    def body(self, segment: Segment, start: int, count: int, extra: dict[str, Any]) -> bytes:
        """For candidates ``start`` and on of a segment."""
        fields = self._settings() | extra | self._question(segment)
        sampling = self.sampling.seeded(segment.seed)
        fields |= {"n": count, "seed": sampling.seed_of(segment.id, start)}
        return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()

    def probe(self) -> bytes:
        """A short request that any sound server answers."""
        short = replace(self, max_tokens=min(self.max_tokens or 8, 8), logprobs=False)
        return short.body(Segment("check", "Hello."), 0, 1, {})

    def longest_text(self, segment: Segment) -> int:
        """Characters that a completion may have: whatever is beyond was not asked for."""
        tokens = self.max_tokens or max(TOKENS, 2 * len(segment.source.encode()))
        return max(LEAST_BYTES, tokens * BYTES_A_TOKEN)

    def longest_body(self, segment: Segment, count: int) -> int:
        """Bytes that an answer with so many choices may have, compressed or not."""
        text = self.longest_text(segment)
        logprobs = text // BYTES_A_TOKEN * LOGPROB_BYTES_A_TOKEN if self.logprobs else 0
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
        if self.max_tokens is None:  # the API's own default is 16, which no translation fits into
            fields["max_tokens"] = max(256, 2 * len(segment.source.encode()))
        return fields
