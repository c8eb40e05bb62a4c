"""Beam search for many segments: one batch per step.

It works as in Marian. Each step keeps the most probable continuations of a segment's hypotheses, as many as are still
wanted. A hypothesis that ends leaves the beam and isn't replaced, so a beam of size k finds k hypotheses. At the end
they are sorted by log-probability divided by their number of tokens, including the end mark (``normalize: 1``, the
setting of the published Firefox models). Hypotheses cut off at the token limit count too.

The search doesn't compute all continuations. The output layer gives the largest logit of each block of the vocabulary
(see ``output``), which is the best continuation of a hypothesis within that block. So the k best continuations are in
the k best pairs of hypothesis and block, and only the logits of these blocks are computed.

Invariants: ties go to the earlier hypothesis, then to the lower token; a segment's hypotheses don't depend on the other
segments in the batch.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from quitmt.bergamot.microkernel import Floats
from quitmt.bergamot.models import LoadedModel
from quitmt.bergamot.network import START
from quitmt.bergamot.output import BLOCK, log_normalisers
from quitmt.bergamot.sources import EncodedSource, Sources
from quitmt.types import Candidate, Draw, Request, Segment

ROWS_PER_STEP = 192
"""Large enough for an efficient output layer, and small enough for new requests to join soon."""
SEARCHES_KEPT = 4096
"""Maximum finished searches, for callers who never close segments."""
_IMPOSSIBLE = -1e8
"""Scores below this belong to suppressed tokens; see the output layer's bias."""

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]


@dataclass(slots=True)
class Search:
    """The search for one segment; each row is an unfinished hypothesis."""

    source: EncodedSource
    wanted: int
    """Number of hypotheses not found yet."""
    cells: Floats
    """(layers, rows, width): the decoder's states."""
    paths: Integers = field(default_factory=lambda: np.full((1, 1), START, np.int64))
    """(rows, tokens); each row begins with the start mark."""
    scores: Reals = field(default_factory=lambda: np.zeros(1))
    """Log-probabilities of the rows."""
    ended: list[tuple[list[int], float, int]] = field(default_factory=list)
    """Tokens, log-probability and number of tokens; the number includes the end mark, if there is one."""
    result: list[Candidate] | None = None
    seconds: float = 0.0

    def pairs(self, peaks: Floats, normalisers: Reals) -> tuple[Integers, Integers, float]:
        """The rows and blocks that contain the best continuations, and a lower bound of their scores."""
        bounds = (self.scores[:, None] + (peaks - normalisers[:, None])).reshape(-1)
        floor = float(np.partition(bounds, -self.wanted)[-self.wanted]) if self.wanted < len(bounds) else _IMPOSSIBLE
        rows, blocks = np.divmod(np.flatnonzero(bounds >= floor), peaks.shape[1])
        return rows, blocks, floor

    def extend(self, rows: Integers, tokens: Integers, scores: Reals, cells: Floats, end: int) -> None:
        """Continue with the best continuations; ``cells`` are the decoder's states after the current rows."""
        for row, score in zip(rows[tokens == end].tolist(), scores[tokens == end].tolist(), strict=True):
            self._finish(self.paths[row], score, 1)
        unfinished = tokens != end
        self.paths = np.concatenate([self.paths[rows[unfinished]], tokens[unfinished, None]], axis=1)
        self.scores, self.cells = scores[unfinished], cells[:, rows[unfinished]]
        if self.paths.shape[1] > self.source.limit:
            for path, score in zip(self.paths, self.scores.tolist(), strict=True):
                self._finish(path, score, 0)
            self.scores = self.scores[:0]

    def _finish(self, path: Integers, score: float, end_marks: int) -> None:
        self.ended.append((path[1:].tolist(), score, len(path) - 1 + end_marks))
        self.wanted -= 1

    @property
    def over(self) -> bool:
        return self.wanted == 0 or not len(self.scores)


class BeamSearch:
    """Searches with one model; the candidates are the hypotheses in descending order. Not thread-safe."""

    def __init__(self, model: LoadedModel, beam: int, sources: Sources | None = None) -> None:
        self._model, self._beam = model, beam
        self._sources = sources or Sources(model)
        self._searches: OrderedDict[Segment, Search] = OrderedDict()
        self._requests: dict[int, Request] = {}
        self._count = 0

    @property
    def busy(self) -> bool:
        return bool(self._requests)

    def admit(self, request: Request) -> int:
        """Start a request; return its number, which ``step`` returns later."""
        if request.segment not in self._searches:
            started, architecture = time.perf_counter(), self._model.network.architecture
            cells = np.zeros((architecture.decoder_layers, 1, architecture.width), np.float32)
            search = Search(self._sources.encoded(request.segment), self._beam, cells)
            search.seconds = time.perf_counter() - started
            self._searches[request.segment] = search
        self._count += 1
        self._requests[self._count] = request
        return self._count

    def forget(self, segment: Segment) -> None:
        """Forget a segment's search, unless another run wants an equal segment."""
        if segment not in self._requested():
            self._searches.pop(segment, None)

    def abort(self, numbers: Iterable[int]) -> None:
        """Abandon these requests."""
        for number in numbers:
            self._requests.pop(number, None)
        requested = self._requested()
        for segment in [
            one for one, search in self._searches.items() if search.result is None and one not in requested
        ]:
            del self._searches[segment]

    def step(self) -> list[tuple[int, Draw]]:
        """Extend the oldest searches by one token; return the completed requests."""
        under_way, rows = list[Search](), 0
        for search in self._searches.values():
            if search.result is None and (not rows or rows + len(search.scores) <= ROWS_PER_STEP):
                under_way.append(search)
                rows += len(search.scores)
        if under_way:
            self._advance(under_way)
        over = {segment for segment, search in self._searches.items() if search.result is not None}
        draws = [(number, self._draw(request)) for number, request in self._requests.items() if request.segment in over]
        for number, _ in draws:
            del self._requests[number]
        self._trim()
        return draws

    def _requested(self) -> set[Segment]:
        return {request.segment for request in self._requests.values()}

    def _draw(self, request: Request) -> Draw:
        search = self._searches[request.segment]
        hypotheses, seconds, search.seconds = search.result or [], search.seconds, 0.0
        candidates = tuple(hypotheses[request.start : request.stop])
        return Draw(request.segment, request.start, candidates, seconds, ended=request.stop >= len(hypotheses))

    def _trim(self) -> None:
        requested = self._requested() if len(self._searches) > SEARCHES_KEPT else set()
        for segment in list(self._searches)[: max(0, len(self._searches) - SEARCHES_KEPT)]:
            if segment not in requested:
                del self._searches[segment]

    def _advance(self, searches: list[Search]) -> None:
        started = time.perf_counter()
        network, output, end = self._model.network, self._model.output, self._model.target.end
        ends = np.cumsum([len(search.scores) for search in searches])
        bounds = list(zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True))
        cells = np.ascontiguousarray(np.concatenate([search.cells for search in searches], axis=1))
        tokens = np.concatenate([search.paths[:, -1] for search in searches])
        positions = np.repeat([search.paths.shape[1] - 1 for search in searches], [b - a for a, b in bounds])
        memories = [(span, search.source.memory) for span, search in zip(bounds, searches, strict=True)]
        vectors = network.decode(tokens, positions, cells, np.zeros(len(tokens), np.bool_), memories)
        vectors = output.prepare(vectors)
        sums, _ = output.summarise(vectors, 1.0)
        peaks, normalisers = sums[:, :, 0], log_normalisers(sums)
        opened = [search.pairs(peaks[a:b], normalisers[a:b]) for search, (a, b) in zip(searches, bounds, strict=True)]
        rows = np.concatenate([rows + a for (rows, _, _), (a, _) in zip(opened, bounds, strict=True)])
        logits = output.open(vectors, rows, np.concatenate([blocks for _, blocks, _ in opened]))
        steps = logits - normalisers[rows, None]
        place = 0
        for search, (rows, blocks, floor), (a, b) in zip(searches, opened, bounds, strict=True):
            totals = search.scores[rows, None] + steps[place : place + len(rows)]
            place += len(rows)
            search.extend(*_best(rows, blocks, totals, floor, search.wanted), cells[:, a:b], end)
            if search.over:
                search.result = self._sorted(search)
        seconds = time.perf_counter() - started
        for search, (a, b) in zip(searches, bounds, strict=True):
            search.seconds += seconds * (b - a) / len(tokens)

    def _sorted(self, search: Search) -> list[Candidate]:
        best_first = sorted(search.ended, key=lambda one: -one[1] / one[2])
        return [Candidate(self._model.target.decode(path), score, tokens) for path, score, tokens in best_first]


def _best(
    rows: Integers, blocks: Integers, totals: Reals, floor: float, wanted: int
) -> tuple[Integers, Integers, Reals]:
    """Rows, tokens and scores of the best continuations in descending order. ``totals`` has the scores of the opened
    blocks: (pairs, BLOCK)."""
    pairs, places = np.nonzero(totals >= max(floor, _IMPOSSIBLE))
    tokens, scores = blocks[pairs] * BLOCK + places, totals[pairs, places]
    best = np.lexsort((tokens, rows[pairs], -scores))[:wanted]
    return rows[pairs][best], tokens[best], scores[best]
