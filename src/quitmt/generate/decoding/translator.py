"""A CTranslate2 model and its tokenizer, shared by generators that were ``resampled`` from one another.

Sampling needs a new Translator for each seed (see ``quitmt.generate.ctranslate2``). Greedy decoding and beam search use
one Translator, which is built on first use and kept.

Invariant: CTranslate2's seed is global to the process, so a lock is held from setting it until it takes effect.
"""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any

from quitmt.errors import GenerationError, MissingExtra, ModelError, UsageError
from quitmt.generate.decoding.tokenization import Tokenization
from quitmt.types import Candidate, Segment

LENGTH_FACTOR, LENGTH_EXTRA = 3, 10
"""Maximum tokens per candidate: 3 times the source's plus 10."""
_SEEDING = threading.Lock()
_NO_POSITION = re.compile(r"positions >= (\d+)")


class TranslatorModel:
    def __init__(
        self, folder: Path, tokenization: Tokenization, max_tokens: int | None, device: str, compute_type: str
    ) -> None:
        self._folder, self.tokenization = folder, tokenization
        self._max_tokens, self._device, self._requested_type = max_tokens, device, compute_type
        self._positions: int | None = None
        self._kept: Any = None
        self.compute_type = str(self._build().compute_type)

    def translate(
        self, segment: Segment, *, seed: int | None, length_penalty: float = 0, **options: Any
    ) -> list[Candidate]:
        """The hypotheses of one call in CTranslate2's order. With a seed a new Translator computes them, else the kept
        one."""
        source, prefix = self.tokenization.encode(segment.source), self.tokenization.prefix
        limit = self._limit(segment, len(source), len(prefix))
        settings = {
            "target_prefix": [prefix] if prefix else None,
            "max_decoding_length": limit,
            "min_decoding_length": 0,  # 1 would exclude the empty translation
            "max_input_length": 0,  # no silent cut
            "length_penalty": length_penalty,  # with 0, scores are sums
            "return_scores": True,
            "return_end_token": True,
            **options,
        }
        try:
            result = self._call(source, seed, settings)
        except RuntimeError as error:
            match = _NO_POSITION.search(str(error))
            if match is None or self._positions is not None:
                raise
            # only this error reveals the number of positions; the same seed repeats the same candidates
            self._positions = int(match[1])
            return self.translate(segment, seed=seed, length_penalty=length_penalty, **options)
        return [
            self._candidate(tokens[len(prefix) :], score * len(tokens) ** length_penalty)
            for tokens, score in zip(result.hypotheses, result.scores, strict=True)
        ]

    def _call(self, source: list[str], seed: int | None, settings: dict[str, Any]) -> Any:
        import ctranslate2

        if seed is None:
            if self._kept is None:
                self._kept = self._build()
            (result,) = self._kept.translate_batch([source], **settings)
            return result
        with _SEEDING:
            ctranslate2.set_random_seed(seed)
            (result,) = self._build().translate_batch([source], **settings)
        return result

    def _build(self) -> Any:
        try:
            import ctranslate2
        except ImportError:
            raise MissingExtra("ct2: models need ctranslate2", hint="pip install 'quitmt[ct2]'") from None
        try:
            return ctranslate2.Translator(
                str(self._folder), device=self._device, compute_type=self._requested_type, inter_threads=1
            )
        except ValueError as error:
            raise UsageError(f"CTranslate2 refuses: {error}") from None
        except RuntimeError as error:
            raise ModelError(f"CTranslate2 cannot load {str(self._folder)!r}: {error}") from None

    def _candidate(self, tokens: list[str], log_probability: float) -> Candidate:
        end = self.tokenization.end
        inside = tokens[:-1] if tokens and tokens[-1] == end else tokens
        return Candidate(self.tokenization.decode(inside), float(log_probability), len(tokens))

    def _limit(self, segment: Segment, source_tokens: int, prefix_tokens: int) -> int:
        limit = self._max_tokens or LENGTH_FACTOR * source_tokens + LENGTH_EXTRA
        if self._positions is None:
            return limit
        if source_tokens > self._positions:
            message = f"segment {segment.id!r} has {source_tokens} tokens, and the model takes {self._positions}"
            raise GenerationError(message, hint="split it into shorter segments")
        return max(1, min(limit, self._positions - 1 - prefix_tokens))
