"""Causal language models that translate by a prompt.

Invariants: a segment's prompt is computed once, and all its candidates start from its cache. A batch holds one segment,
because prompts of different lengths would need padding, which changes what some caches keep.

torch is imported by those who call this, never by this module at import.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Sequence
from typing import Any

from quitmt.errors import GenerationError
from quitmt.generate.decoding.walk import Opening
from quitmt.generate.prompts.clean import clean as cleaned
from quitmt.generate.prompts.template import Prompt
from quitmt.types import Segment

MAX_TOKENS = 512
"""Default maximum tokens per candidate; fewer if the model's context has less room."""


class CausalDecoder:
    """A causal model with a prompt."""

    mixes = False

    def __init__(
        self, model: Any, tokenizer: Any, name: str, prompt: Prompt, *, clean: bool, max_tokens: int | None
    ) -> None:
        self._model, self._tokenizer, self._name = model, tokenizer, name
        self._prompt, self._clean, self._max_tokens = prompt, clean, max_tokens
        self._context = getattr(model.config.get_text_config(decoder=True), "max_position_embeddings", None)
        keeps_last = "logits_to_keep" in inspect.signature(model.forward).parameters
        self._last_only = {"logits_to_keep": 1} if keeps_last else {}

    def open(self, segment: Segment) -> Opening:
        import torch

        ids = self._encode(segment)
        limit = self._limit(segment, len(ids))
        tokens = torch.tensor([ids], device=self._model.device)
        output = self._model(input_ids=tokens, use_cache=True, **self._last_only)
        return Opening(output.logits[:, -1], output.past_key_values, limit)

    def begin(self, openings: Sequence[Opening]) -> _CausalRows:
        (opening,) = openings
        return _CausalRows(self._model, opening)

    def read(self, segment: Segment, tokens: list[int]) -> str:
        text = str(self._tokenizer.decode(tokens, skip_special_tokens=True)).strip()
        return cleaned(text, segment.source) if self._clean else text

    def _encode(self, segment: Segment) -> list[int]:
        if not self._tokenizer.chat_template:
            return list(self._tokenizer(self._prompt.text(segment))["input_ids"])
        try:
            text = self._tokenizer.apply_chat_template(
                self._prompt.messages(segment),
                tokenize=False,
                add_generation_prompt=True,
                **self._prompt.template.chat_template_kwargs,
            )
        except Exception as error:  # templates may raise anything
            name = self._prompt.template.name
            message = f"the chat template of {self._name} does not accept the prompt {name!r}: {error}"
            raise GenerationError(message, hint="choose another prompt") from None
        return list(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def _limit(self, segment: Segment, prompt_tokens: int) -> int:
        if self._context is None:
            return self._max_tokens or MAX_TOKENS
        room = self._context - prompt_tokens
        source_tokens = len(self._tokenizer(segment.source, add_special_tokens=False)["input_ids"])
        needed = self._max_tokens or min(MAX_TOKENS, source_tokens + 1)
        if room < needed:
            message = (
                f"segment {segment.id!r} needs {prompt_tokens} tokens of prompt and {needed} of translation, and "
                f"{self._name} has room for {self._context}"
            )
            raise GenerationError(message, hint="split it into shorter segments, or allow fewer tokens")
        return self._max_tokens or min(MAX_TOKENS, room)


class _CausalRows:
    """Rows of one segment."""

    def __init__(self, model: Any, opening: Opening) -> None:
        self._model, self._cache = model, copy.deepcopy(opening.cache)

    def select(self, parents: Any) -> None:
        self._cache.reorder_cache(parents.to(self._model.device))

    def advance(self, tokens: Any) -> Any:
        output = self._model(
            input_ids=tokens[:, None].to(self._model.device), past_key_values=self._cache, use_cache=True
        )
        self._cache = output.past_key_values
        return output.logits[:, -1]
