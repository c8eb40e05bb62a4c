"""Translation models with an encoder: Marian (OPUS-MT), NLLB, M2M100, mBART-50, MADLAD and others of their kind.

Invariants: a segment's source is encoded once, by itself, so it doesn't depend on other segments; the
decoder's first steps (start, target language) and its keys and values of the source are computed once as well.

torch is imported by those who call this, never by this module at import.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from quitmt.errors import GenerationError
from quitmt.generate.decoding.families import Pair, tell
from quitmt.generate.decoding.walk import Opening
from quitmt.types import Segment

LENGTH_FACTOR, LENGTH_EXTRA = 3, 10
"""Maximum tokens per candidate: 3 times the source's plus 10."""


class Seq2SeqDecoder:
    """A seq2seq model for one pair of languages."""

    mixes = True

    def __init__(self, model: Any, tokenizer: Any, name: str, pair: Pair, max_tokens: int | None) -> None:
        self._model, self._tokenizer, self._name, self._max_tokens = model, tokenizer, name, max_tokens
        telling = tell(tokenizer, pair, name)
        self._before = telling.before
        self._prefix = _prefix(model, tokenizer, telling.first)
        self._positions = getattr(model.config, "max_position_embeddings", None)

    def open(self, segment: Segment) -> Opening:
        import torch
        from transformers.modeling_outputs import BaseModelOutput

        ids = self._tokenizer(self._before + segment.source)["input_ids"]
        if self._positions is not None and len(ids) > self._positions:
            message = f"segment {segment.id!r} has {len(ids)} tokens, and {self._name} takes {self._positions}"
            raise GenerationError(message, hint="split it into shorter segments")
        device = self._model.device
        source, mask = torch.tensor([ids], device=device), torch.ones((1, len(ids)), dtype=torch.long, device=device)
        memory: Any = self._model.get_encoder()(input_ids=source, attention_mask=mask).last_hidden_state
        output = self._model(
            encoder_outputs=BaseModelOutput(last_hidden_state=memory),
            attention_mask=mask,
            decoder_input_ids=torch.tensor([self._prefix], device=device),
            use_cache=True,
        )
        limit, forced = self._limit(len(ids)), len(self._prefix) - 1
        return Opening(output.logits[:, -1], output.past_key_values, limit, memory, forced)

    def begin(self, openings: Sequence[Opening]) -> _Seq2SeqRows:
        return _Seq2SeqRows(self._model, openings)

    def read(self, segment: Segment, tokens: list[int]) -> str:
        return str(self._tokenizer.decode(tokens, skip_special_tokens=True)).strip()

    def _limit(self, source_tokens: int) -> int:
        limit = self._max_tokens or LENGTH_FACTOR * source_tokens + LENGTH_EXTRA
        return limit if self._positions is None else max(1, min(limit, self._positions - len(self._prefix)))


class _Seq2SeqRows:
    """Rows of any segments; shorter sources are padded and masked."""

    def __init__(self, model: Any, openings: Sequence[Opening]) -> None:
        import torch

        self._model = model
        self._memory: Any
        lengths = [opening.memory.shape[1] for opening in openings]
        longest = max(lengths)
        self._memory = torch.cat([_padded(opening.memory, longest) for opening in openings])
        self._mask = (torch.arange(longest) < torch.tensor(lengths)[:, None]).long().to(model.device)
        self._cache = _stacked([opening.cache for opening in openings], longest)

    def select(self, parents: Any) -> None:
        parents = parents.to(self._model.device)
        self._memory, self._mask = self._memory.index_select(0, parents), self._mask.index_select(0, parents)
        self._cache.reorder_cache(parents)

    def advance(self, tokens: Any) -> Any:
        from transformers.modeling_outputs import BaseModelOutput

        output = self._model(
            encoder_outputs=BaseModelOutput(last_hidden_state=self._memory),
            attention_mask=self._mask,
            decoder_input_ids=tokens[:, None].to(self._model.device),
            past_key_values=self._cache,
            use_cache=True,
        )
        self._cache = output.past_key_values
        return output.logits[:, -1]


def _padded(states: Any, length: int) -> Any:
    """Pads states (…, tokens, width) with zeros up to a length."""
    import torch

    return torch.nn.functional.pad(states, (0, 0, 0, length - states.shape[-2]))


def _stacked(caches: Sequence[Any], longest: int) -> Any:
    """Stacks caches into a new one with a row for each."""
    import torch

    stacked = copy.deepcopy(caches[0])
    if len(caches) == 1:
        return stacked
    for name in ("self_attention_cache", "cross_attention_cache"):
        for place, layer in enumerate(getattr(stacked, name).layers):
            rows = [getattr(cache, name).layers[place] for cache in caches]
            states = [[row.keys for row in rows], [row.values for row in rows]]
            if name == "cross_attention_cache":  # in the other, all are as long as the decoder's first steps
                states = [[_padded(one, longest) for one in column] for column in states]
            layer.keys, layer.values = (torch.cat(column) for column in states)
    return stacked


def _prefix(model: Any, tokenizer: Any, first: str | None) -> list[int]:
    """The decoder's input before the first token of a translation."""
    settings = model.generation_config
    start = settings.decoder_start_token_id
    if start is None:
        start = getattr(model.config, "decoder_start_token_id", None)
    if start is None:
        start = settings.bos_token_id if settings.bos_token_id is not None else tokenizer.bos_token_id
    forced = settings.forced_bos_token_id if first is None else tokenizer.convert_tokens_to_ids(first)
    return [start] if forced is None else [start, forced]
