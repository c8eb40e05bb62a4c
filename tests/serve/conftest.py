"""Servers in this process at real ports, with functions as models or the embedded models."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pytest

pytest.importorskip("aiohttp")
from quitmt.detect import Detector
from quitmt.generate.function import FunctionGenerator
from quitmt.plan import Recipe
from quitmt.plan.build import build
from quitmt.plan.plan import Parts
from quitmt.plan.resolve import resolve
from quitmt.serve import running, service
from quitmt.serve.keys import Keys
from quitmt.serve.limits import Limits
from quitmt.serve.server import Server
from quitmt.serve.service import Served, Service

ENDINGS = ("", "", "", "!", "…")


class Gate:
    """An event that tests set and clear, and that event loops in other threads can await."""

    def __init__(self) -> None:
        self._lock, self._open = threading.Lock(), True
        self._waiting: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}

    def clear(self) -> None:
        with self._lock:
            self._open = False

    def set(self) -> None:
        with self._lock:
            self._open = True
            for event, loop in self._waiting.items():
                loop.call_soon_threadsafe(event.set)
            self._waiting.clear()

    async def wait(self) -> None:
        event = asyncio.Event()
        with self._lock:
            if self._open:
                return
            self._waiting[event] = asyncio.get_running_loop()
        try:
            await event.wait()
        finally:
            with self._lock:
                self._waiting.pop(event, None)


@dataclass
class Model:
    """A model: upper case from English to Portuguese, lower case back. Its candidates nearly agree; its gate can hold
    it up."""

    upper: bool
    open: Gate = field(default_factory=Gate)
    begun: list[str] = field(default_factory=list)
    stuck: threading.Event = field(default_factory=threading.Event)
    """Set after the first window of an ENDLESS source."""

    async def __call__(self, source: str, start: int, stop: int) -> list[str]:
        if not start:
            self.begun.append(source)
        await self.open.wait()
        if "BROKEN" in source:
            raise ValueError("the model fell over")
        if "ENDLESS" in source:  # nothing agrees, and after the first window nothing comes
            if start:
                self.stuck.set()
                await asyncio.Event().wait()
            return [hashlib.blake2b(str(index).encode()).hexdigest()[:20] for index in range(start, stop)]
        text = source.upper() if self.upper else source.lower()
        return [text + ENDINGS[index % len(ENDINGS)] for index in range(start, stop)]


class Seeded(FunctionGenerator):
    """Claims to take seeds, for tests that only check whether a seed is accepted."""

    from quitmt.protocols import GeneratorTraits

    traits = GeneratorTraits(takes_seeds=True, translates=False)


@dataclass(eq=False)
class Timer:
    clock: Clock
    callback: Callable[[], object]

    def cancel(self) -> None:
        self.clock.timers.pop(self, None)


class Clock:
    """A clock that only tests advance; deadlines fire in the server's event loop."""

    def __init__(self) -> None:
        self.now, self.timers = 0.0, dict[Timer, float]()

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], object], /) -> Timer:
        self._loop, timer = asyncio.get_running_loop(), Timer(self, callback)
        self.timers[timer] = when
        return timer

    def advance(self, seconds: float) -> None:
        self._loop.call_soon_threadsafe(self._ring, seconds)

    def _ring(self, seconds: float) -> None:
        self.now += seconds
        for timer, when in sorted(self.timers.items(), key=lambda one: one[1]):
            if when <= self.now and self.timers.pop(timer, None) is not None:
                timer.callback()


@dataclass
class Running:
    """A running server, with a small client."""

    url: str
    server: Server
    models: tuple[Model, Model]
    log: io.StringIO

    def send(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None, raw: bytes | None = None
    ) -> tuple[int, Any, dict[str, str]]:
        """Returns the status, the body (parsed if it is JSON) and the headers of a response."""
        data = raw if raw is not None else None if body is None else json.dumps(body).encode()
        sent = {"Content-Type": "application/json", **(headers or {})}
        request = urllib.request.Request(self.url + path, data, sent, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, _read(answer.read()), {k.lower(): v for k, v in answer.headers.items()}
        except urllib.error.HTTPError as error:
            with error:  # Python 3.14 warns of one that is left open
                return error.code, _read(error.read()), {k.lower(): v for k, v in error.headers.items()}

    def post(self, path: str, body: Any = None, **more: Any) -> tuple[int, Any]:
        return self.send("POST", path, body, **more)[:2]

    def get(self, path: str, **more: Any) -> tuple[int, Any]:
        return self.send("GET", path, **more)[:2]

    def metric(self, name: str) -> float:
        """Sums a metric over all labels."""
        _, text, _ = self.send("GET", "/metrics")
        lines = [line for line in str(text).splitlines() if line.split("{")[0].split(" ")[0] == name]
        return sum(float(line.rpartition(" ")[2]) for line in lines)

    def until(self, found: Callable[[], Any]) -> None:
        """Polls for a condition that no event signals."""
        given_up = time.monotonic() + 120
        while not found():
            assert time.monotonic() < given_up, "it never came about"
            time.sleep(0.005)


def _read(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return body.decode()


@cache
def detector() -> Detector:
    """Loads the detector's data, the slowest step of a server of functions."""
    return Detector(["en", "pt"])


def functions(models: tuple[Model, Model], clock: Clock | None = None) -> Service:
    served = []
    for model, (source, target) in zip(models, (("en", "pt"), ("pt", "en")), strict=True):
        recipe = Recipe().changed(
            {
                "model.source_language": source,
                "model.target_language": target,
                "rerank.support": "all",
                "stop.rule": "quit",
                "stop.k": 4,
                "stop.w": 2,
                "stop.n": 32,
                "stop.alpha": 0.1,
                "run.in_flight": 4,
            }
        )
        built = build(resolve(recipe, Parts(generator=Seeded(model))))
        served.append(Served(f"quitmt-{source}-{target}", source, target, built, built.session(clock)))
    found = Service(served)
    found.detector = detector()
    return found


@contextmanager
def serving(loaded: Callable[[], Service], models: tuple[Model, Model], **settings: Any) -> Iterator[Running]:
    """Runs a server in a thread with its own event loop."""
    chosen = running.ServeSettings(port=0, **settings)
    ready, told, log = threading.Event(), dict[str, Any](), io.StringIO()

    async def work(listening: Any) -> None:
        done, loop = asyncio.Event(), asyncio.get_running_loop()
        async with running.started(chosen, listening, lambda _: None, loaded()) as server:
            server.log_to = log
            told["server"], told["stop"] = server, lambda: loop.call_soon_threadsafe(done.set)
            ready.set()
            await done.wait()

    with closing(running.listen(chosen)) as listening:
        thread = threading.Thread(target=lambda: asyncio.run(work(listening)), daemon=True)
        thread.start()
        while not ready.wait(0.05):
            assert thread.is_alive()
        try:
            yield Running(f"http://127.0.0.1:{listening.getsockname()[1]}", told["server"], models, log)
        finally:
            for model in models:
                model.open.set()
            told["stop"]()
            thread.join()


@pytest.fixture
def start() -> Iterator[Callable[..., Running]]:
    """Starts servers with a test's own settings."""
    from contextlib import ExitStack

    with ExitStack() as stack:

        def begin(clock: Clock | None = None, **settings: Any) -> Running:
            models = (Model(upper=True), Model(upper=False))
            return stack.enter_context(serving(lambda: functions(models, clock), models, **settings))

        yield begin


@pytest.fixture(scope="session")
def shared() -> Iterator[Running]:
    """One server for all tests that change nothing."""
    models = (Model(upper=True), Model(upper=False))
    with serving(lambda: functions(models), models) as found:
        yield found


@pytest.fixture(scope="session")
def embedded() -> Iterator[Running]:
    """The embedded models, without a deadline."""
    models = (Model(upper=True), Model(upper=False))
    with serving(lambda: service.load(()), models, limits=Limits(deadline=None)) as found:
        yield found


KEY = "correct-horse"


@pytest.fixture(scope="session")
def locked() -> Iterator[Running]:
    """A server that requires a key."""
    models = (Model(upper=True), Model(upper=False))
    with serving(
        lambda: functions(models), models, keys=Keys(["another-one", KEY]), cors=("https://a.example",)
    ) as found:
        yield found
