"""CTranslate2 models in this process: ``ct2:PATH``, a converted folder with its tokenizer in it.

CTranslate2 samples N candidates of a source in one call, from a random stream that belongs to its thread, and returns
them sorted by score. To make one endless sequence of that, candidates are drawn in chunks, with indices 0–15, 16–31,
32–63, 64–127, 128–191, …, the first ones small because most segments need no more: each chunk in one call, by a
Translator that is built for it, with a seed of its own from (seed, segment, chunk), and then shuffled by the segment's
own stream, because a sorted sample is no sample. (A seed only takes hold at
a thread's first use, hence the new Translator. Timed once, with OPUS-MT's layers in int8 and a vocabulary of 150 on two
busy cores: 0.04 s to build, 1.5 s for 64 candidates. Larger models take longer to load.)

So candidates are fixed by (seed, segment, index), and nested and exchangeable, whatever is asked for when, in this run
and the next, on one machine with one version of CTranslate2, device, compute type and number of threads; other ones
round differently. A chunk is always computed whole. Chunks are kept until their segment is closed.

Greedy decoding and beam search draw nothing, so one Translator is kept for them. A beam's hypotheses are CTranslate2's
own, sorted by log-probability divided by the number of tokens, which is its default (``length_penalty=1``).

Log-probabilities are the model's own sums, with nothing cut off. Cut-offs by epsilon or min-p do not exist here and are
refused.

Invariant: one thread does the work, also for generators that were ``resampled`` from one another.
"""

from __future__ import annotations

import copy
import hashlib
import json
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Self

import numpy as np

from quitmt.errors import GenerationError, ModelError, UsageError
from quitmt.generate.decoding.tokenization import is_sentence_level, lacking, load_tokenization
from quitmt.generate.decoding.translator import TranslatorModel
from quitmt.generate.worker import Batches, Piece, Worker, failed
from quitmt.protocols import GeneratorTraits
from quitmt.sampling import Sampling
from quitmt.streams import stream
from quitmt.types import Candidate, Draw, Request, Segment
from quitmt.warnings import unknown_characters

log = logging.getLogger(__name__)

CHUNK = 64
FIRST_CHUNKS = (0, 16, 32)
"""Where the chunks before candidate 64 start."""
CHUNKS_KEPT = 4096
"""For callers who never close."""
LACKS = ("epsilon", "min_p")
"""Settings of sampling that CTranslate2 does not have."""

Chunk = tuple[Candidate, ...]


def chunk_of(index: int) -> int:
    """The number of the chunk that a candidate is in.

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
        self._worker = Worker(Batches(_Engine(self._model, sampling)), "quitmt-ctranslate2")

    def resampled(self, sampling: Sampling) -> Self:
        """The same with other sampling settings: one model and one thread."""
        sampling.refuse("CTranslate2", *LACKS)
        other = copy.copy(self)
        other.signature = "|".join([*self._fields, sampling.signature])
        other._worker = self._worker.beside(Batches(_Engine(self._model, sampling)))
        return other

    def draw(self, requests: Sequence[Request]) -> AsyncIterator[Draw]:
        """Yield the asked candidates, an ask's in order, in one draw or several."""
        return self._worker.draw(requests)

    def unknown(self, source: str) -> str:
        """The characters that the vocabulary lacks."""
        return unknown_characters(source, self._lacks)

    def close(self, segment: Segment) -> None:
        """Abort what is under way for the segment, and forget its chunks."""
        self._worker.close(segment)


class _Engine:
    """Draws chunks; for ``quitmt.generate.worker``. The hypotheses of a beam are one chunk, the only one."""

    def __init__(self, model: TranslatorModel, sampling: Sampling) -> None:
        self._model, self._sampling = model, sampling
        self.batch = sampling.beam or CHUNK
        self._sharp = sampling.greedy or sampling.top_k == 1
        """Whether there is but one candidate, over and over."""
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
            found = self._chunk(request.segment, 0) if piece.wanted() else ()
        except Exception as error:
            log.debug("searching failed", exc_info=error)
            return failed(request, error)
        chosen, ended = found[request.start : request.stop], request.stop >= len(found)
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
        if self._sharp:
            return tuple(self._model.translate(segment, seed=None, beam_size=1) * len(bounds(number)))
        size = len(bounds(number))
        found = self._model.translate(
            segment,
            seed=self._seed(segment, number),
            beam_size=1,
            num_hypotheses=size,
            sampling_topk=sampling.top_k or 0,
            sampling_topp=1.0 if sampling.top_p is None else sampling.top_p,
            sampling_temperature=sampling.temperature,
        )
        if len(found) != size:
            raise GenerationError(f"CTranslate2 gave {len(found)} candidates where {size} were asked for")
        key = stream(sampling.seeded(segment.seed).seed, segment.id)
        shuffling = np.random.Philox(key=key, counter=[0, 0, 1, number])
        return tuple(found[place] for place in np.random.Generator(shuffling).permutation(size).tolist())

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
