"""Code of others that raises what event loops and threads have their own meanings for: nothing ever hangs.

Each case runs in a daemon thread that is waited for so long, so that a hang is the failure of one test.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

import pytest

import quitmt
from quitmt.errors import QuitmtError
from quitmt.types import Draw, Outcome, Request, Segment, Snapshot, StopReason

GUARD_SECONDS = 120
KINDS: list[type[BaseException]] = [
    ValueError, SystemExit, StopIteration, GeneratorExit, asyncio.CancelledError, KeyboardInterrupt,
]  # fmt: skip
SOURCES = ["good", "bad", "fine"]


def guarded(work: Callable[[], Any]) -> Any:
    found: list[Any] = []

    def call() -> None:
        try:
            found.append((work(), None))
        except BaseException as error:
            found.append((None, error))

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(GUARD_SECONDS)
    assert not thread.is_alive(), "it hangs"
    [(result, raised)] = found
    if raised is not None:
        raise raised
    return result


class Part:
    """What a user gives, one part of which raises for the source "bad"."""

    def __init__(self, name: str, kind: type[BaseException]) -> None:
        self.name, self.kind = name, kind

    def __call__(self, name: str, source: str) -> None:
        if name == self.name and source == "bad":
            raise self.kind("on purpose")

    def sample(self, source: str, start: int, stop: int) -> list[str]:
        self("sample", source)
        return [f"{source} {index % 3}" for index in range(start, stop)]

    async def sample_async(self, source: str, start: int, stop: int) -> list[str]:
        await asyncio.sleep(0)
        self("async sample", source)
        return self.sample(source, start, stop)

    def sample_lazily(self, source: str, start: int, stop: int) -> Iterator[str]:
        yield from self.sample(source, start, stop)
        self("lazy sample", source)

    def utility(self, source: str, hypothesis: str, reference: str) -> float:
        self("utility", source)
        return float(hypothesis == reference)

    def reward(self, source: str, candidate: str) -> float:
        self("reward", source)
        return float(len(candidate))

    async def reward_async(self, source: str, candidate: str) -> float:
        await asyncio.sleep(0)
        self("async reward", source)
        return float(len(candidate))

    def batched(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        for source, _ in pairs:
            self("batched reward", source)
        return [float(len(candidate)) for _, candidate in pairs]

    @property
    def settings(self) -> dict[str, Any]:
        """Of a translator."""
        model: Any = self.sample
        if self.name in ("async sample", "generator"):
            model = self.sample_async if self.name == "async sample" else _Generator(self)
        if self.name == "lazy sample":
            model = self.sample_lazily
        reranker: Any = self.reward
        if self.name == "utility":
            reranker = quitmt.mbr(self.utility)
        if self.name == "async reward":
            reranker = self.reward_async
        if self.name == "batched reward":
            reranker = quitmt.qe(self.batched, batched=True)
        if self.name == "answer":
            reranker = quitmt.vote(self.answer)
        rule: Any = _Rule(self) if self.name in ("open", "observe", "horizon") else "full"
        return {"model": model, "reranker": reranker, "rule": rule, **({"n": 16} if rule == "full" else {})}

    def answer(self, text: str) -> str:
        self("answer", text.split()[0])
        return text


class _Generator:
    signature = "mine"

    def __init__(self, part: Part) -> None:
        self.part = part

    async def draw(self, requests: Sequence[Request]) -> AsyncIterator[Draw]:
        for request in requests:
            self.part("generator", request.segment.source)
            texts = self.part.sample(request.segment.source, request.start, request.stop)
            yield Draw(request.segment, request.start, tuple(map(quitmt.Candidate, texts)))

    def close(self, segment: Segment) -> None:
        pass


class _Rule:
    """Raises for the second segment that is opened, which is the bad one."""

    signature, step, budget = "mine", 8, 16

    def __init__(self, part: Part) -> None:
        self.part, self.opened = part, 0

    def open(self) -> Any:
        self.opened += 1
        source = "bad" if self.opened == 2 else "good"
        self.part("open", source)
        return _Watch(self.part, source)


class _Watch:
    def __init__(self, part: Part, source: str) -> None:
        self.part, self.source = part, source

    def observe(self, snapshot: Snapshot) -> StopReason | None:
        self.part("observe", self.source)
        return StopReason.BUDGET if snapshot.size >= 16 else None

    def horizon(self, size: int) -> int:
        self.part("horizon", self.source)
        return 16


PARTS = [
    "sample", "async sample", "lazy sample", "generator", "utility", "answer", "reward", "async reward",
    "batched reward", "open", "observe", "horizon",
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("loop", ["plain", "async"])
def test_it_costs_its_segment_or_reaches_the_caller(part: str, kind: type[BaseException], loop: str) -> None:
    translator = quitmt.Translator(**Part(part, kind).settings)

    def work() -> list[Outcome]:
        if loop == "plain":
            return translator.translate(SOURCES)
        return asyncio.run(translator.translate_async(SOURCES))

    if kind is KeyboardInterrupt:
        with pytest.raises(KeyboardInterrupt):
            guarded(work)
        return
    outcomes = guarded(work)
    assert [outcome.stop for outcome in outcomes] == [StopReason.BUDGET, StopReason.FAILED, StopReason.BUDGET]
    error = outcomes[1].error or ""
    assert kind.__name__ in error
    assert error.startswith("generating failed" if part == "generator" else "segment 2: ")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("part", ["async sample", "reward", "observe"])
def test_watching(part: str, kind: type[BaseException]) -> None:
    settings = Part(part, kind).settings
    if part == "observe":
        settings["rule"].opened = 1
    translator = quitmt.Translator(**settings)
    with pytest.raises(KeyboardInterrupt if kind is KeyboardInterrupt else QuitmtError):
        guarded(lambda: list(translator.watch("bad")))


@pytest.mark.parametrize("part", ["sample", "async sample", "async reward", "generator"])
def test_a_real_cancellation_still_works(part: str) -> None:
    """Of a run that waits for ever."""
    begun = threading.Event()
    release = threading.Event()

    class Waiting(Part):
        def __call__(self, name: str, source: str) -> None:
            if name == self.name and source == "bad":
                begun.set()
                release.wait(GUARD_SECONDS)

        async def sample_async(self, source: str, start: int, stop: int) -> list[str]:
            if source == "bad":
                begun.set()
                await asyncio.Event().wait()
            return self.sample(source, start, stop)

        async def reward_async(self, source: str, candidate: str) -> float:
            if source == "bad":
                begun.set()
                await asyncio.Event().wait()
            return 1.0

    async def work() -> str:
        settings = Waiting(part, ValueError).settings
        if part == "generator":
            settings["model"] = quitmt.Translator(Waiting("async sample", ValueError).sample_async).generator
        task = asyncio.create_task(quitmt.Translator(**settings).translate_async(SOURCES))
        while not begun.is_set():
            await asyncio.sleep(0.001)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            return "cancelled"
        return "not cancelled"

    assert guarded(lambda: asyncio.run(work())) == "cancelled"
    release.set()


def test_a_program_ends_though_a_function_does_not() -> None:
    """After a deadline, with the function still in its thread."""
    code = (
        "import threading, quitmt\n"
        "def sample(source, start, stop):\n"
        "    threading.Event().wait()\n"
        "try:\n"
        "    quitmt.translate(['a'], sample, reranker=lambda s, t: 0.0, run_deadline=0.01)\n"
        "except quitmt.QuitmtError as error:\n"
        "    [outcome] = error.outcomes\n"
        "print(outcome.stop, outcome.error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=GUARD_SECONDS)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "failed not begun before the run's deadline of 0.01 s\n"
