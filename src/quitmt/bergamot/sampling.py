"""The sampler: handles any number of requests at once, with one decoder row per distinct prefix.

A *walker* is an unfinished candidate, on a node of the trie; it moves to a child once its node has been computed. A
step computes nodes that walkers wait for, of all requests together, and moves every walker as far as possible.

Invariants: a walker's next token depends only on its prefix and its random number (seed, content, index, position), so
candidates don't depend on the pieces, batches and order in which they are requested; older requests go first.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from quitmt.bergamot.distribution import shape
from quitmt.bergamot.models import LoadedModel
from quitmt.bergamot.network import START
from quitmt.bergamot.sources import Sources
from quitmt.bergamot.trie import NOWHERE, Nodes, Slots, Trie, bytes_per_node
from quitmt.sampling import Sampling
from quitmt.streams import stream, uniforms
from quitmt.types import Candidate, Draw, Request, Segment

ROWS_PER_STEP = 192
"""Large enough for an efficient output layer, and small enough for new requests to join soon."""
BYTES_KEPT = 1 << 29
"""Above this limit, prefixes of segments without requests are forgotten, the least recently used first."""


@dataclass(slots=True)
class Task:
    """An unfinished request."""

    request: Request
    trie: Trie
    candidates: list[Candidate | None]
    missing: int
    seconds: float = 0.0

    @property
    def draw(self) -> Draw:
        candidates = tuple(one for one in self.candidates if one is not None)
        return Draw(self.request.segment, self.request.start, candidates, self.seconds)


@dataclass(slots=True)
class Tally:
    """Counts of computations, for benchmarks."""

    rows: int = 0
    tokens: int = 0
    output_seconds: float = 0.0
    """Processor time in the output layer."""


@dataclass(slots=True)
class Walkers:
    """Unfinished candidates, as columns; those of older requests come first."""

    task: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    index: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    node: Slots = field(default_factory=lambda: np.zeros(0, np.int64))
    key: npt.NDArray[np.uint64] = field(default_factory=lambda: np.zeros((0, 2), np.uint64))

    def add(self, task: int, indices: range, node: int, key: npt.NDArray[np.uint64]) -> None:
        count = len(indices)
        self.task = np.concatenate([self.task, np.full(count, task)])
        self.index = np.concatenate([self.index, np.arange(indices.start, indices.stop)])
        self.node = np.concatenate([self.node, np.full(count, node)])
        self.key = np.concatenate([self.key, np.tile(key, (count, 1))])

    def keep(self, which: npt.NDArray[np.bool_]) -> None:
        self.task, self.index = self.task[which], self.index[which]
        self.node, self.key = self.node[which], self.key[which]


class Sampler:
    """Draws candidates from one model. Not thread-safe."""

    def __init__(
        self, model: LoadedModel, sampling: Sampling, sources: Sources | None = None, *, bytes_kept: int = BYTES_KEPT
    ) -> None:
        self._model, self._sampling = model, sampling
        self._sources = sources or Sources(model)
        architecture, blocks = model.network.architecture, model.output.blocks
        self._nodes_kept = max(1, bytes_kept // bytes_per_node(architecture, blocks))
        self._nodes = Nodes(architecture, blocks, self._nodes_kept)
        self._tries: OrderedDict[Segment, Trie] = OrderedDict()
        self._by_number: dict[int, Trie] = {}
        self._tasks: dict[int, Task] = {}
        self._walkers = Walkers()
        self._count = 0
        self.tally = Tally()

    @property
    def busy(self) -> bool:
        return bool(self._tasks)

    def admit(self, request: Request) -> int:
        """Start a request for at least one candidate; return its number, which ``step`` returns later."""
        started = time.perf_counter()
        trie = self._trie(request.segment)
        number = self._next()
        count = request.stop - request.start
        trie.walkers += count
        self._walkers.add(number, range(request.start, request.stop), trie.root, trie.key)
        self._tasks[number] = Task(request, trie, [None] * count, count, time.perf_counter() - started)
        return number

    def forget(self, segment: Segment) -> None:
        """Forget a segment's prefixes, unless another run is drawing from an equal segment."""
        if (trie := self._tries.get(segment)) and not trie.walkers:
            self._forget(segment)

    def abort(self, numbers: list[int]) -> None:
        """Abandon these requests."""
        for number in numbers:
            if task := self._tasks.pop(number, None):
                task.trie.walkers -= task.missing
        self._walkers.keep(~np.isin(self._walkers.task, numbers))

    def step(self) -> list[tuple[int, Draw]]:
        """Compute one batch of rows and move the walkers; return the completed requests."""
        waiting = np.flatnonzero(~self._nodes.ready[self._walkers.node])
        slots, first = np.unique(self._walkers.node[waiting], return_index=True)
        oldest = np.argsort(first, kind="stable")[:ROWS_PER_STEP]
        if len(oldest):
            started = time.perf_counter()
            self._compute(np.sort(slots[oldest]))
            self._charge(self._walkers.task[waiting[first[oldest]]], time.perf_counter() - started)
        self._walk()
        finished = [(number, task.draw) for number, task in self._tasks.items() if not task.missing]
        for number, _ in finished:
            del self._tasks[number]
        self._trim()
        return finished

    def _next(self) -> int:
        self._count += 1
        return self._count

    def _trie(self, segment: Segment) -> Trie:
        if segment not in self._tries:
            source = self._sources.encoded(segment)
            trie = Trie(source, stream(self._sampling.seeded(segment.seed).seed, segment.content), self._next())
            trie.root = self._nodes.add(trie, NOWHERE, START, 0.0)
            self._tries[segment] = self._by_number[trie.number] = trie
        self._tries.move_to_end(segment)
        return self._tries[segment]

    def _forget(self, segment: Segment) -> None:
        if trie := self._tries.pop(segment, None):
            del self._by_number[trie.number]
            self._nodes.free(trie.slots)

    def _trim(self) -> None:
        while self._nodes.used > self._nodes_kept:
            idle = next((segment for segment, trie in self._tries.items() if not trie.walkers), None)
            if idle is None:
                return
            self._forget(idle)

    def _charge(self, tasks: npt.NDArray[np.int64], seconds: float) -> None:
        """Divide time among requests in proportion to their number of walkers."""
        numbers, counts = np.unique(tasks, return_counts=True)
        for number, share in zip(numbers.tolist(), counts / len(tasks) * seconds, strict=True):
            self._tasks[number].seconds += float(share)

    def _compute(self, slots: Slots) -> None:
        nodes, network, output = self._nodes, self._model.network, self._model.output
        slots = slots[np.argsort(nodes.owners[slots], kind="stable")]
        owners, starts = np.unique(nodes.owners[slots], return_index=True)
        stops = [*starts[1:].tolist(), len(slots)]
        memories = [
            ((start, stop), self._by_number[owner].source.memory)
            for owner, start, stop in zip(owners.tolist(), starts.tolist(), stops, strict=True)
        ]
        cells = nodes.states_before(slots)
        alone = np.zeros(len(slots), np.bool_)
        vectors = network.decode(nodes.tokens[slots], nodes.depths[slots], cells, alone, memories)
        vectors = output.prepare(vectors)
        started = time.process_time()
        shapes = shape(output, vectors, self._sampling)
        self.tally.output_seconds += time.process_time() - started
        self.tally.rows += len(slots)
        nodes.learn(slots, cells, vectors, shapes)

    def _walk(self) -> None:
        """Move every walker until it ends or reaches a node that isn't computed yet."""
        walkers, nodes, end = self._walkers, self._nodes, self._model.target.end
        moving = np.flatnonzero(nodes.ready[walkers.node])
        ended = np.zeros(len(walkers.node), np.bool_)
        while len(moving):
            started = time.perf_counter()
            here = walkers.node[moving]
            tokens, log_probabilities = nodes.choose(
                here, self._uniforms(moving), self._model.output, self._sampling.rate
            )
            self.tally.tokens += len(moving)
            complete = tokens == end
            for walker, last in zip(moving[complete].tolist(), log_probabilities[complete].tolist(), strict=True):
                self._finish(walker, last, closed=True)
            open_ = ~complete
            walkers.node[moving[open_]] = self._children(here[open_], tokens[open_], log_probabilities[open_])
            cut = open_ & (nodes.depths[walkers.node[moving]] >= self._limits(walkers.node[moving]))
            for walker in moving[cut].tolist():
                self._finish(walker, 0.0, closed=False)
            ended[moving[complete | cut]] = True
            self._charge(walkers.task[moving], time.perf_counter() - started)
            moving = moving[open_ & ~cut]
            moving = moving[nodes.ready[walkers.node[moving]]]
        walkers.keep(~ended)

    def _uniforms(self, moving: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        if self._sampling.greedy:
            return np.zeros(len(moving))
        walkers = self._walkers
        return uniforms(walkers.key[moving], walkers.index[moving], self._nodes.depths[walkers.node[moving]])

    def _limits(self, slots: Slots) -> npt.NDArray[np.int64]:
        owners, which = np.unique(self._nodes.owners[slots], return_inverse=True)
        return np.array([self._by_number[owner].source.limit for owner in owners.tolist()])[which]

    def _children(self, slots: Slots, tokens: Slots, log_probabilities: npt.NDArray[np.float64]) -> Slots:
        """The child nodes for these tokens; missing ones are created."""
        nodes, vocabulary = self._nodes, self._model.output.vocabulary
        keys, first, which = np.unique(slots * vocabulary + tokens, return_index=True, return_inverse=True)
        reached = np.empty(len(keys), np.int64)
        steps = (slots[first], tokens[first], log_probabilities[first], nodes.owners[slots[first]])
        for place, (key, slot, token, step, owner) in enumerate(
            zip(keys.tolist(), *(column.tolist() for column in steps), strict=True)
        ):
            trie = self._by_number[owner]
            child = trie.children.get(key)
            if child is None:
                child = trie.children[key] = nodes.add(trie, slot, token, step)
            reached[place] = child
        return reached[which]

    def _finish(self, walker: int, last: float, *, closed: bool) -> None:
        """A walker's candidate is complete: ``closed`` by an end-of-sentence mark, or cut off."""
        task, node = self._tasks[int(self._walkers.task[walker])], int(self._walkers.node[walker])
        texts = task.trie.texts
        if node not in texts:
            texts[node] = self._model.target.decode(self._nodes.path(node))
        log_probability = float(self._nodes.log_probabilities[node]) + last
        tokens = int(self._nodes.depths[node]) + closed
        place = int(self._walkers.index[walker]) - task.request.start
        task.candidates[place] = Candidate(texts[node], log_probability, tokens)
        task.missing -= 1
        task.trie.walkers -= 1
