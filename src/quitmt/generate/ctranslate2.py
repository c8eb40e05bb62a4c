"""CTranslate2 models in this process: ``ct2:PATH``, a converted folder with its tokenizer in it.

CTranslate2 samples N candidates of a source in one call, from a random stream that belongs to its thread, and returns
them sorted by score. To make one endless sequence of them, the engine draws candidates in chunks with indices 0–15,
16–31, 32–63, 64–127, 128–191, …; the first ones are small because most segments need no more. Each chunk is one call of
a new Translator with a seed derived from (seed, segment, chunk). The result is shuffled with the segment's random
stream, because a prefix of sorted candidates would not be a sample. (The Translator must be new because a seed takes
effect only at a thread's first use. With OPUS-MT's layers in int8 and a vocabulary of 150, on two busy cores, it takes
0.04 s to build and 1.5 s for 64 candidates. Larger models take longer to load.)

So (seed, segment, index) determines a candidate in every run on one machine with the same CTranslate2 version, device,
compute type and number of threads; other configurations round differently. A chunk is always computed as a whole, and
kept until its segment is closed.

Greedy decoding and beam search are not random, so one Translator is kept for them. CTranslate2 sorts a beam's
hypotheses by log-probability divided by the number of tokens, its default (``length_penalty=1``).

Log-probabilities are the model's sums without cut-offs. CTranslate2 has no cut-offs by epsilon or min-p, so these
settings are refused.

Invariant: one thread does the work, also for generators that were ``resampled`` from one another.
"""

from __future__ import annotations

import copy
import hashlib
import json
import logging
import time
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import numpy as np

from quitmt.errors import GenerationError, ModelError
from quitmt.generate.decoding.tokenization import is_sentence_level, lacking, load_tokenization
from quitmt.generate.decoding.translator import TranslatorModel
from quitmt.generate.worker import Batches, Piece, ThreadedGenerator, Worker, failed
from quitmt.protocols import GeneratorTraits
from quitmt.sampling import Sampling
from quitmt.streams import stream
from quitmt.types import Candidate, Draw, Segment

log = logging.getLogger(__name__)

CHUNK = 64
FIRST_CHUNKS = (0, 16, 32)
"""Where the chunks before candidate 64 start."""
CHUNKS_KEPT = 4096
"""A limit for callers who never close segments."""
LACKS = ("epsilon", "min_p")
"""Sampling settings that CTranslate2 lacks."""

Chunk = tuple[Candidate, ...]


def chunk_of(index: int) -> int:
    """The number of the chunk that contains a candidate.

    >>> [chunk_of(index) for index in (0, 15, 16, 63, 64, 128)], bounds(3), bounds(4)
    ([0, 0, 1, 2, 3, 4], range(64, 128), range(128, 192))
    """
    if index >= CHUNK:
        return index // CHUNK + len(FIRST_CHUNKS) - 1
    return sum(start <= index for start in FIRST_CHUNKS) - 1


def bounds(number: int) -> range:
    """The candidates of a chunk."""
    starts = (*FIRST_CHUNKS, CHUNK)
    if number < len(FIRST_CHUNKS):
        return range(starts[number], starts[number + 1])
    start = CHUNK * (number - len(FIRST_CHUNKS) + 1)
    return range(start, start + CHUNK)


class CTranslate2Generator(ThreadedGenerator):
    """Samples with CTranslate2. ``compute_type`` is one of its names, such as int8 [default: the model's]."""

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
        sampling.refuse("CTranslate2", *LACKS)
        path = model.removeprefix("ct2:")
        folder = Path(path)
        if not (folder / "model.bin").is_file():
            hint = "convert one with ct2-transformers-converter" if folder.is_dir() else "it must be a folder"
            raise ModelError(f"there is no CTranslate2 model in {path!r}", hint=hint)
        tokenization = load_tokenization(folder, path, languages)
        self.traits = GeneratorTraits(sentence_level=is_sentence_level(folder), takes_seeds=True)
        self._lacks = lacking(folder, tokenization)
        self._model = TranslatorModel(folder, tokenization, max_tokens, device or "auto", compute_type or "default")
        fields = [f"ct2:{path}", f"w:{_fingerprint(folder)}", self._model.compute_type]
        fields += [f"{source}-{target}" for source, target in [languages] if source or target]
        self._fields = [*fields, *([f"max:{max_tokens}"] if max_tokens else [])]
        self.signature = "|".join([*self._fields, sampling.signature])
        self._worker = Worker(Batches(_ChunkEngine(self._model, sampling)), "quitmt-ctranslate2")

    def resampled(self, sampling: Sampling) -> Self:
        """The same model and thread with other sampling settings."""
        sampling.refuse("CTranslate2", *LACKS)
        other = copy.copy(self)
        other.signature = "|".join([*self._fields, sampling.signature])
        other._worker = self._worker.beside(Batches(_ChunkEngine(self._model, sampling)))
        return other


class _ChunkEngine:
    """Draws chunks, for ``quitmt.generate.worker``. A beam's hypotheses are a single chunk."""

    def __init__(self, model: TranslatorModel, sampling: Sampling) -> None:
        self._model, self._sampling = model, sampling
        self.batch = sampling.beam or CHUNK
        self._all_same = sampling.greedy or sampling.top_k == 1
        self._chunks: OrderedDict[tuple[Segment, int], Chunk] = OrderedDict()

    def forget(self, segment: Segment) -> None:
        for key in [key for key in self._chunks if key[0] == segment]:
            del self._chunks[key]

    def sample(self, pieces: Sequence[Piece]) -> list[Draw]:
        draw = self._draw if self._sampling.beam is None else self._hypotheses
        return [draw(piece) for piece in pieces]

    def _draw(self, piece: Piece) -> Draw:
        request, started = piece.request, time.perf_counter()
        candidates: list[Candidate] = []
        try:
            for number in range(chunk_of(request.start), chunk_of(request.stop - 1) + 1):
                if not piece.wanted():
                    break
                candidates += self._chunk(request.segment, number)
        except Exception as error:
            log.debug("drawing a chunk failed", exc_info=error)
            return failed(request, error)
        first = bounds(chunk_of(request.start)).start
        chosen = tuple(candidates[request.start - first : request.stop - first])
        return Draw(request.segment, request.start, chosen, time.perf_counter() - started)

    def _hypotheses(self, piece: Piece) -> Draw:
        request, started = piece.request, time.perf_counter()
        try:
            hypotheses = self._chunk(request.segment, 0) if piece.wanted() else ()
        except Exception as error:
            log.debug("searching failed", exc_info=error)
            return failed(request, error)
        chosen, ended = hypotheses[request.start : request.stop], request.stop >= len(hypotheses)
        return Draw(request.segment, request.start, chosen, time.perf_counter() - started, ended=ended)

    def _chunk(self, segment: Segment, number: int) -> Chunk:
        key = (segment, number)
        if key not in self._chunks:
            self._chunks[key] = self._compute(segment, number)
            while len(self._chunks) > CHUNKS_KEPT:
                self._chunks.popitem(last=False)
        self._chunks.move_to_end(key)
        return self._chunks[key]

    def _compute(self, segment: Segment, number: int) -> Chunk:
        sampling = self._sampling
        if beam := sampling.beam:
            return tuple(
                self._model.translate(segment, seed=None, length_penalty=1, beam_size=beam, num_hypotheses=beam)
            )
        if self._all_same:
            return tuple(self._model.translate(segment, seed=None, beam_size=1) * len(bounds(number)))
        size = len(bounds(number))
        candidates = self._model.translate(
            segment,
            seed=self._seed(segment, number),
            beam_size=1,
            num_hypotheses=size,
            sampling_topk=sampling.top_k or 0,
            sampling_topp=1.0 if sampling.top_p is None else sampling.top_p,
            sampling_temperature=sampling.temperature,
        )
        if len(candidates) != size:
            raise GenerationError(f"CTranslate2 returned {len(candidates)} candidates instead of {size}")
        key = stream(sampling.seeded(segment.seed).seed, segment.content)
        shuffling = np.random.Philox(key=key, counter=[0, 0, 1, number])
        return tuple(candidates[place] for place in np.random.Generator(shuffling).permutation(size).tolist())

    def _seed(self, segment: Segment, number: int) -> int:
        """A seed of 32 bits, as CTranslate2 requires; 0 would mean none. A segment's chunks never share a seed."""
        name = b"%d\0%b" % (self._sampling.seeded(segment.seed).seed, segment.content)
        digest = hashlib.blake2b(name, digest_size=4)
        return 1 + (int.from_bytes(digest.digest()) + number) % (2**32 - 1)


def _fingerprint(folder: Path) -> str:
    """A hash of the weights' size and of a sample of their bytes."""
    size = (folder / "model.bin").stat().st_size
    digest = hashlib.blake2b(json.dumps(size).encode(), digest_size=4)
    with (folder / "model.bin").open("rb") as file:
        for place in range(0, size, max(1, size // 64)):
            file.seek(place)
            digest.update(file.read(4096))
    return digest.hexdigest()
