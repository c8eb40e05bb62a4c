"""Batches of sequences for an encoder: sorted by tokens, as many as fit a budget of tokens, padding included.

Sorting by tokens, and not by characters or by one of two texts, keeps the padding below a hundredth on real pools.
The longest come first: if memory runs out, it does so at the start. Running out of memory halves
the budget permanently.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from quitmt.errors import ModelError, setting
from quitmt.metrics import devices

log = logging.getLogger(__name__)

BATCH_TOKENS = {"cpu": 4096, "mps": 8192}
LARGE_BATCH_TOKENS = 16384
"""On GPUs: enough to keep them busy with a large encoder."""


class Batcher:
    """Runs sequences through ``compute`` in batches. ``tokens`` is the budget per batch."""

    def __init__(self, device: Any, tokens: int | None = None) -> None:
        self.tokens = tokens or BATCH_TOKENS.get(device.type, LARGE_BATCH_TOKENS)
        self.real_tokens = 0
        self.padded_tokens = 0

    @property
    def padding(self) -> float:
        """The share of padding among all tokens computed so far."""
        return 1 - self.real_tokens / self.padded_tokens if self.padded_tokens else 0.0

    def run(
        self,
        lengths: Sequence[int],
        compute: Callable[[list[int]], Any],
        progress: Callable[[int], object] | None = None,
    ) -> Iterator[tuple[list[int], Any]]:
        """Yield (indices, result of ``compute``) until each sequence has been computed once."""
        waiting = sorted(range(len(lengths)), key=lambda index: -lengths[index])
        while waiting:
            count = max(1, self.tokens // max(1, lengths[waiting[0]]))
            batch = waiting[:count]
            found = self._attempt(batch, compute)
            if found is None:
                if len(batch) == 1:
                    raise ModelError(
                        f"no memory for one text of {lengths[batch[0]]} tokens",
                        hint=f"take a smaller model, {setting('rerank.device', 'cpu')}, or half precision",
                    )
                self.tokens = len(batch) * lengths[batch[0]] // 2
                log.warning("out of memory with %d texts at once: %d tokens from now on", len(batch), self.tokens)
                continue
            waiting = waiting[count:]
            self.real_tokens += sum(lengths[index] for index in batch)
            self.padded_tokens += len(batch) * lengths[batch[0]]
            yield batch, found
            if progress:
                progress(len(batch))

    def _attempt(self, batch: list[int], compute: Callable[[list[int]], Any]) -> Any:
        try:
            return compute(batch)
        except Exception as error:
            if not devices.is_out_of_memory(error):
                raise
        devices.release_memory()  # outside of the handler, because the error holds references to tensors
        return None
