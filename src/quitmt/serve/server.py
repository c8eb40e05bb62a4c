"""What all APIs share: the service, its limits, who may use it, and how a handler becomes an endpoint.

An endpoint's wrapper does for every request the same: an id, the key, the count, the line of log, and an answer in the
API's own shape whatever goes wrong.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import sys
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TextIO

from aiohttp import web
from pydantic import BaseModel

from quitmt.errors import QuitmtError
from quitmt.serve import bodies, keys
from quitmt.serve.connections import Connection
from quitmt.serve.keys import Keys
from quitmt.serve.limits import Limits
from quitmt.serve.metrics import Metrics
from quitmt.serve.refusals import Refusal, Shape, plain, refused
from quitmt.serve.service import Service
from quitmt.serve.work import Job, Jobs, Translated

log = logging.getLogger(__name__)

_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
ID = "x-request-id"


@dataclass(frozen=True, slots=True)
class Api:
    name: str
    shape: Shape = plain
    denied: int = 401
    """The status of a missing or wrong key."""


NATIVE = Api("native")
OPERATIONS = Api("operations")


class Repeats:
    """Lets the first few of each kind through per period, and counts the others."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, *, most: int = 10, seconds: float = 60.0) -> None:
        self._clock, self._most, self._seconds = clock, most, seconds
        self._kinds: dict[str, tuple[float, int]] = {}
        """Of each kind: when its period began, and how many there were since."""

    def pass_on(self, kind: str) -> int | None:
        """How many were left out since the last one; None if this one is left out, too."""
        now = self._clock()
        begun, count = self._kinds.get(kind, (now, 0))
        if now - begun >= self._seconds:
            self._kinds[kind] = now, 1
            return max(0, count - self._most)
        self._kinds[kind] = begun, count + 1
        return 0 if count < self._most else None


@dataclass(slots=True)
class Exchange:
    """A request, and what is found out about it on the way to its answer."""

    request: web.Request
    id: str
    fields: dict[str, Any] | None = None
    work: dict[str, Any] = field(default_factory=dict)
    """For the log."""
    error: str | None = None


Handler = Callable[["Server", Exchange], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    method: str
    path: str
    handler: Handler
    api: Api
    summary: str
    body: type[BaseModel] | None = None
    answer: type[BaseModel] | None = None
    open: bool = False
    """Whether everybody may use it, also where there are keys."""
    key_in_body: bool = False
    form: bool = False
    """Whether the body may be a form, too."""
    parameters: tuple[dict[str, Any], ...] = ()


@dataclass(slots=True)
class Server:
    service: Service
    limits: Limits = field(default_factory=Limits)
    keys: Keys = field(default_factory=Keys)
    log_to: TextIO | None = None
    repeats: Repeats = field(default_factory=Repeats)
    jobs: Jobs = field(init=False)
    metrics: Metrics = field(init=False)
    ready: bool = False
    draining: bool = False
    busy: int = 0
    """Requests that are being answered."""
    idle: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.jobs, self.metrics = Jobs(self.service, self.limits), Metrics(self.service)
        self.idle.set()

    async def translate(self, exchange: Exchange, job: Job) -> list[Translated]:
        self.check_open()
        found = await self.jobs.translate(job, exchange.id)
        self.count(exchange, found)
        return found

    def check_open(self) -> None:
        if self.draining or not self.ready:
            why = "is about to stop" if self.draining else "is still starting"
            raise Refusal(503, "not_ready", f"the server {why}; come back later", retry_after=5)
        if self.service.failure:
            raise Refusal(503, "not_ready", self.service.failure, retry_after=60)

    def count(self, exchange: Exchange, found: list[Translated]) -> None:
        """For the metrics and the log."""
        self.metrics.translated(found)
        sentences = [sentence for one in found for sentence in one.sentences]
        stops = [sentence.outcome.stop.value for sentence in sentences]
        exchange.work = {
            "pairs": sorted({one.served.pair for one in found}),
            "texts": len(found),
            "sentences": len(sentences),
            "characters": sum(len(sentence.outcome.source) for sentence in sentences),
            "candidates": sum(one.candidates for one in found),
            "budget": sum(one.budget for one in found),
            "stops": {stop: stops.count(stop) for stop in sorted(set(stops))},
        }

    def wrapped(self, endpoint: Endpoint) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            given = request.headers.get(ID, "")
            exchange = Exchange(request, given if _ID.fullmatch(given) else uuid.uuid4().hex)
            self.busy += 1
            self.idle.clear()
            self.metrics.in_flight.inc()
            start, status = time.monotonic(), 499  # the client went away
            try:
                response = await self._answered(endpoint, exchange)
                status = response.status
                return response
            finally:
                self.busy -= 1
                self.metrics.in_flight.dec()
                seconds = time.monotonic() - start
                self.metrics.answered(endpoint.api.name, status, seconds)
                self._log(endpoint, exchange, status, seconds)
                if not self.busy:
                    self.idle.set()

        return handle

    async def _answered(self, endpoint: Endpoint, exchange: Exchange) -> web.StreamResponse:
        try:
            await self._check_key(endpoint, exchange)
            response = await endpoint.handler(self, exchange)
        except Refusal as refusal:
            exchange.error = refusal.kind
            response = refused(refusal, endpoint.api.shape, exchange.id)
        except QuitmtError as error:
            exchange.error = type(error).__name__
            response = refused(Refusal(400, "bad_request", str(error)), endpoint.api.shape, exchange.id)
        except (web.HTTPException, ConnectionError):
            raise
        except Exception as error:
            exchange.error = f"{type(error).__name__}: {error}"[:200]
            log.debug("a request failed", exc_info=error)
            told = Refusal(500, "internal_error", "something went wrong here, which is not the client's fault")
            response = refused(told, endpoint.api.shape, exchange.id)
        if not response.prepared:
            response.headers[ID] = exchange.id
        return response

    async def _check_key(self, endpoint: Endpoint, exchange: Exchange) -> None:
        if endpoint.open or not self.keys:
            return
        given = keys.in_headers(exchange.request.headers)
        if given is None and endpoint.key_in_body:
            found = (await self.fields(exchange)).get("api_key")
            given = found if isinstance(found, str) else None
        if not self.keys.accept(given):
            told = "this server needs a key" if given is None else "the key is not one of this server's"
            raise Refusal(endpoint.api.denied, "no_key" if given is None else "wrong_key", told)

    async def fields(self, exchange: Exchange) -> dict[str, Any]:
        """Of the body, read once."""
        if exchange.fields is None:
            exchange.fields = await bodies.fields(exchange.request, self.limits)
            connection = exchange.request.protocol
            assert isinstance(connection, Connection)
            connection.work()
        return exchange.fields

    def _log(self, endpoint: Endpoint, exchange: Exchange, status: int, seconds: float) -> None:
        """One line, without the text, the key and the address of the client."""
        if self.log_to is None or (endpoint.api is OPERATIONS and status < 400):
            return
        line = {
            "id": exchange.id,
            "api": endpoint.api.name,
            "method": endpoint.method,
            "path": endpoint.path,
            "status": status,
            "seconds": round(seconds, 3),
            **exchange.work,
        }
        if exchange.error is not None:
            line["error"] = exchange.error
        self._write(line)

    def report(self, kind: str, message: str) -> None:
        """Log what belongs to no request. Of many such lines only the first few per minute are written."""
        left_out = self.repeats.pass_on(kind)
        if left_out is not None:
            self._write({"error": kind, "message": message} | ({"left_out": left_out} if left_out else {}))

    def _write(self, line: dict[str, Any]) -> None:
        if self.log_to is None:
            return
        stamped = {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), **line}
        try:
            print(json.dumps(stamped), file=self.log_to, flush=True)
        except (OSError, ValueError):  # nobody reads it any more
            self.log_to = None


def to_stderr() -> TextIO | None:
    return sys.stderr
