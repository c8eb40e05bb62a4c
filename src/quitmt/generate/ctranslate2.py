"""CTranslate2 models in this process: ``ct2:PATH``, a converted folder with its tokenizer in it.

CTranslate2 samples N candidates of a source in one call, from a random stream that belongs to its thread, and returns
them sorted by score. To make one endless sequence of that, candidates are drawn in chunks of 64, with indices 0–63,
64–127, …: each chunk in one call, by a Translator that is built for it, with a seed of its own from (seed, segment,
chunk), and then shuffled by the segment's own stream, because a sorted sample is no sample. (A seed only takes hold at
a thread's first use, hence the new Translator. Timed once, with OPUS-MT's layers in int8 and a vocabulary of 150 on two
busy cores: 0.04 s to build, 1.5 s for 64 candidates. Larger models take longer to load.)

So candidates are fixed by (seed, segment, index), and nested and exchangeable, whatever is asked for when, in this run
and the next, on one machine with one version of CTranslate2, device, compute type and number of threads; other ones
round differently. A chunk is always computed whole. Chunks are kept until their segment is closed.

Log-probabilities are the model's own sums, with nothing cut off. Epsilon cut-offs do not exist here and are refused.

Invariants: one thread does the work; CTranslate2's seed belongs to the process, so a lock is held while it matters.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from quitmt.errors import GenerationError, MissingExtra, ModelError, UsageError
from quitmt.generate.decoding.tokenization import Tokenization, is_sentence_level, lacking, load_tokenization
from quitmt.generate.decoding.worker import Piece, Worker, failed
from quitmt.protocols import GeneratorTraits
from quitmt.remarks import unknown_characters
from quitmt.sampling import Sampling
from quitmt.streams import stream
from quitmt.types import Ask, Candidate, Draw, Segment

log = logging.getLogger(__name__)

CHUNK = 64
CHUNKS_KEPT = 4096
"""For callers who never close."""
LENGTH_FACTOR, LENGTH_EXTRA = 3, 10
"""A candidate is cut off at 3 tokens for each of the source's, and 10."""
_SEEDING = threading.Lock()
_NO_POSITION = re.compile(r"positions >= (\d+)")

Chunk = tuple[Candidate, ...]


class CTranslate2Generator:
    """Samples with CTranslate2. ``compute_type`` is its own name, such as int8, or the model's unless given."""

    def __init__(
        self,
        model: str,
        sampling: Sampling,
        *,
        languages: tuple[str | None, str | None] = (None, None),
        max_tokens: int | None = None,
        device: str | None = None,
        compute_type: str | None = None,
    ) -> None:
        if max_tokens is not None and max_tokens < 1:
            raise UsageError(f"max_tokens must be 1 or more, not {max_tokens}")
        sampling.refuse("CTranslate2", "epsilon")
        path = model.removeprefix("ct2:")
        folder = Path(path)
        if not (folder / "model.bin").is_file():
            hint = "convert one with ct2-transformers-converter" if folder.is_dir() else "it must be a folder"
            raise ModelError(f"there is no CTranslate2 model in {path!r}", hint=hint)
        tokenization = load_tokenization(folder, path, languages)
        self.traits = GeneratorTraits(sentence_level=is_sentence_level(folder), takes_seeds=True)
        self._lacks = lacking(folder, tokenization)
        engine = _Engine(folder, tokenization, sampling, max_tokens, device or "auto", compute_type or "default")
        fields = [f"ct2:{path}", f"w:{_fingerprint(folder)}", engine.compute_type]
        fields += [f"{source}-{target}" for source, target in [languages] if source or target]
        fields += [f"max:{max_tokens}"] if max_tokens else []
        self.signature = "|".join([*fields, sampling.signature])
        self._worker = Worker(engine, "quitmt-ctranslate2")

    def draw(self, asks: Sequence[Ask]) -> AsyncIterator[Draw]:
        """Yield the asked candidates, an ask's in order, in one draw or several."""
        return self._worker.draw(asks)

    def unknown(self, source: str) -> str:
        """The characters that the vocabulary lacks."""
        return unknown_characters(source, self._lacks)

    def close(self, segment: Segment) -> None:
        """Abort what is under way for the segment, and forget its chunks."""
        self._worker.close(segment)


class _Engine:
    """Draws chunks; for ``quitmt.generate.decoding.worker``."""

    batch = CHUNK

    def __init__(
        self,
        folder: Path,
        tokenization: Tokenization,
        sampling: Sampling,
        max_tokens: int | None,
        device: str,
        compute_type: str,
    ) -> None:
        self._folder, self._tokenization, self._sampling = folder, tokenization, sampling
        self._max_tokens, self._device, self._asked_type = max_tokens, device, compute_type
        self._sharp = sampling.greedy or sampling.top_k == 1
        """Whether there is but one candidate, over and over."""
        self._positions: int | None = None
        self._chunks: OrderedDict[tuple[Segment, int], Chunk] = OrderedDict()
        self.compute_type = str(self._build().compute_type)

    def forget(self, segment: Segment) -> None:
        for key in [key for key in self._chunks if key[0] == segment]:
            del self._chunks[key]

    def sample(self, pieces: Sequence[Piece]) -> list[Draw]:
        return [self._draw(piece) for piece in pieces]

    def _draw(self, piece: Piece) -> Draw:
        ask, started = piece.ask, time.perf_counter()
        candidates: list[Candidate] = []
        try:
            for number in range(ask.start // CHUNK, -(-ask.stop // CHUNK)):
                if not piece.wanted():
                    break
                candidates += self._chunk(ask.segment, number)
        except Exception as error:
            log.debug("drawing a chunk failed", exc_info=error)
            return failed(ask, error)
        first = ask.start - ask.start % CHUNK
        chosen = tuple(candidates[ask.start - first : ask.stop - first])
        return Draw(ask.segment, ask.start, chosen, time.perf_counter() - started)

    def _chunk(self, segment: Segment, number: int) -> Chunk:
        key = (segment, number)
        if key not in self._chunks:
            self._chunks[key] = self._compute(segment, number)
            while len(self._chunks) > CHUNKS_KEPT:
                self._chunks.popitem(last=False)
        self._chunks.move_to_end(key)
        return self._chunks[key]

    def _compute(self, segment: Segment, number: int) -> Chunk:
        source, prefix = self._tokenization.encode(segment.source), self._tokenization.prefix
        result = self._translate(segment, number, source, prefix)
        found = [
            self._candidate(tokens[len(prefix) :], score)
            for tokens, score in zip(result.hypotheses, result.scores, strict=True)
        ]
        if self._sharp:
            return tuple(found * CHUNK)
        if len(found) != CHUNK:
            raise GenerationError(f"CTranslate2 gave {len(found)} candidates where {CHUNK} were asked for")
        shuffling = np.random.Philox(
            key=stream(self._sampling.seeded(segment.seed).seed, segment.id), counter=[0, 0, 1, number]
        )
        return tuple(found[place] for place in np.random.Generator(shuffling).permutation(CHUNK).tolist())

    def _translate(self, segment: Segment, number: int, source: list[str], prefix: list[str]) -> Any:
        limit = self._limit(segment, len(source), len(prefix))
        try:
            return self._call(self._seed(segment, number), source, prefix, limit)
        except RuntimeError as error:
            match = _NO_POSITION.search(str(error))
            if match is None or self._positions is not None:
                raise
            # the number of positions is nowhere to be read; the same seed gives the same candidates again
            self._positions = int(match[1])
        return self._translate(segment, number, source, prefix)

    def _call(self, seed: int, source: list[str], prefix: list[str], limit: int) -> Any:
        import ctranslate2

        sampling = self._sampling
        with _SEEDING:
            ctranslate2.set_random_seed(seed)
            (result,) = self._build().translate_batch(
                [source],
                target_prefix=[prefix] if prefix else None,
                beam_size=1,
                num_hypotheses=1 if self._sharp else CHUNK,
                sampling_topk=1 if self._sharp else sampling.top_k or 0,
                sampling_topp=1.0 if self._sharp or sampling.top_p is None else sampling.top_p,
                sampling_temperature=1.0 if self._sharp else sampling.temperature,
                max_decoding_length=limit,
                min_decoding_length=0,  # 1 would take the empty translation out of the distribution
                max_input_length=0,  # no silent cut
                length_penalty=0,  # scores are sums then
                return_scores=True,
                return_end_token=True,
            )
        return result

    def _build(self) -> Any:
        try:
            import ctranslate2
        except ImportError:
            raise MissingExtra("ct2: models need ctranslate2", hint="pip install 'quitmt[ct2]'") from None
        try:
            return ctranslate2.Translator(
                str(self._folder), device=self._device, compute_type=self._asked_type, inter_threads=1
            )
        except ValueError as error:
            raise UsageError(f"CTranslate2 refuses: {error}") from None
        except RuntimeError as error:
            raise ModelError(f"CTranslate2 cannot load {str(self._folder)!r}: {error}") from None

    def _candidate(self, tokens: list[str], score: float) -> Candidate:
        end = self._tokenization.end
        inside = tokens[:-1] if tokens and tokens[-1] == end else tokens
        return Candidate(self._tokenization.decode(inside), float(score), len(tokens))

    def _limit(self, segment: Segment, source_tokens: int, prefix_tokens: int) -> int:
        limit = self._max_tokens or LENGTH_FACTOR * source_tokens + LENGTH_EXTRA
        if self._positions is None:
            return limit
        if source_tokens > self._positions:
            told = f"segment {segment.id!r} has {source_tokens} tokens, and the model takes {self._positions}"
            raise GenerationError(told, hint="split it into shorter segments")
        return max(1, min(limit, self._positions - 1 - prefix_tokens))

    def _seed(self, segment: Segment, number: int) -> int:
        """32 bits are what CTranslate2 takes; 0 would mean none. A segment's chunks never share one."""
        name = f"{self._sampling.seeded(segment.seed).seed}\0{segment.id}"
        digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=4)
        return 1 + (int.from_bytes(digest.digest()) + number) % (2**32 - 1)


def _fingerprint(folder: Path) -> str:
    """Names the weights by their size and a sample of their bytes."""
    size = (folder / "model.bin").stat().st_size
    digest = hashlib.blake2b(json.dumps(size).encode(), digest_size=4)
    with (folder / "model.bin").open("rb") as file:
        for place in range(0, size, max(1, size // 64)):
            file.seek(place)
            digest.update(file.read(4096))
    return digest.hexdigest()
