"""The parts that all APIs share: the service, its limits and keys, and the wrapper that turns a handler into an
endpoint.

The wrapper gives every request an id, checks its key, counts it, logs one line, and puts errors into the API's own
shape.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
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
from quitmt.serve.refusals import Refusal, Shape, internal_error, plain, refused
from quitmt.serve.service import Service
from quitmt.serve.work import Job, Jobs, Translated

log = logging.getLogger(__name__)

_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
ID = "x-request-id"
REPORT_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Api:
    name: str
    shape: Shape = plain
    denied: int = 401
    """HTTP status for a missing or wrong key."""


NATIVE = Api("native")
OPERATIONS = Api("operations")


@dataclass(slots=True)
class Exchange:
    """A request and the information gathered while it is answered."""

    request: web.Request
    id: str
    fields: dict[str, Any] | None = None
    log_fields: dict[str, Any] = field(default_factory=dict)
    error: str | None = None


Handler = Callable[["Server", Exchange], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    method: str
    path: str
    handler: Handler
    api: Api
    summary: str
    bodies: tuple[type[BaseModel], ...] = ()
    """Models of the request body; with several, one of them must fit."""
    answer: type[BaseModel] | None = None
    open: bool = False
    """Whether it works without a key on a server that has keys."""
    key_in_body: bool = False
    parameters: tuple[dict[str, Any], ...] = ()
    errors: tuple[int, ...] = ()
    """HTTP statuses of errors that only this endpoint has."""


@dataclass(slots=True)
class Server:
    service: Service
    limits: Limits = field(default_factory=Limits)
    keys: Keys = field(default_factory=Keys)
    log_to: TextIO | None = None
    jobs: Jobs = field(init=False)
    metrics: Metrics = field(init=False)
    ready: bool = False
    draining: bool = False
    in_flight: int = 0
    idle: asyncio.Event = field(default_factory=asyncio.Event)
    reported: dict[str, float] = field(default_factory=dict)
    """When an event of each kind was last logged."""

    def __post_init__(self) -> None:
        self.jobs, self.metrics = Jobs(self.service, self.limits), Metrics(self.service)
        self.idle.set()

    async def translate(self, exchange: Exchange, job: Job) -> list[Translated]:
        self.check_open()
        translated = await self.jobs.translate(job, exchange.id)
        self.count(exchange, translated)
        return translated

    async def stream(self, exchange: Exchange) -> web.StreamResponse:
        """Begins a response of server-sent events."""
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no", ID: exchange.id}
        response = web.StreamResponse(headers=headers)
        response.content_type, response.charset = "text/event-stream", "utf-8"
        await response.prepare(exchange.request)
        return response

    def check_open(self) -> None:
        if self.draining or not self.ready:
            why = "is shutting down" if self.draining else "is still starting"
            raise Refusal(503, "not_ready", f"the server {why}; try again later", retry_after=5)
        if self.service.failure:
            raise Refusal(503, "not_ready", self.service.failure, retry_after=60)

    def count(self, exchange: Exchange, translated: list[Translated]) -> None:
        """Counts finished work for the metrics and the log."""
        self.metrics.translated(translated)
        sentences = [sentence for one in translated for sentence in one.sentences]
        stops = [sentence.outcome.stop.value for sentence in sentences]
        exchange.log_fields = {
            "pairs": sorted({one.served.pair for one in translated}),
            "texts": len(translated),
            "sentences": len(sentences),
            "characters": sum(len(sentence.outcome.source) for sentence in sentences),
            "candidates": sum(one.candidates for one in translated),
            "budget": sum(one.budget for one in translated),
            "stops": {stop: stops.count(stop) for stop in sorted(set(stops))},
        }

    def wrapped(self, endpoint: Endpoint) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            request_id = request.headers.get(ID, "")
            exchange = Exchange(request, request_id if _ID.fullmatch(request_id) else uuid.uuid4().hex)
            self.in_flight += 1
            self.idle.clear()
            self.metrics.in_flight.inc()
            start, status = time.monotonic(), 499  # the client disconnected
            try:
                response = await self._answered(endpoint, exchange)
                status = response.status
                return response
            finally:
                self.in_flight -= 1
                self.metrics.in_flight.dec()
                seconds = time.monotonic() - start
                self.metrics.answered(endpoint.api.name, status, seconds)
                self._log(endpoint, exchange, status, seconds)
                if not self.in_flight:
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
            response = refused(internal_error(), endpoint.api.shape, exchange.id)
        if not response.prepared:
            response.headers[ID] = exchange.id
        return response

    async def _check_key(self, endpoint: Endpoint, exchange: Exchange) -> None:
        if endpoint.open or not self.keys:
            return
        key = keys.in_headers(exchange.request.headers)
        if key is None and endpoint.key_in_body:
            value = (await self.fields(exchange)).get("api_key")
            key = value if isinstance(value, str) else None
        if key is None:
            raise Refusal(endpoint.api.denied, "no_key", "this server requires a key")
        if not self.keys.accept(key):
            raise Refusal(endpoint.api.denied, "wrong_key", "the key isn't valid for this server")

    async def fields(self, exchange: Exchange) -> dict[str, Any]:
        """The fields of the body, which is read once."""
        if exchange.fields is None:
            exchange.fields = await bodies.fields(exchange.request, self.limits)
            connection = exchange.request.protocol
            assert isinstance(connection, Connection)
            connection.work()
        return exchange.fields

    def _log(self, endpoint: Endpoint, exchange: Exchange, status: int, seconds: float) -> None:
        """Logs one line per request, without the text, the key and the client's address."""
        if self.log_to is None or (endpoint.api is OPERATIONS and status < 400):
            return
        line = {
            "id": exchange.id,
            "api": endpoint.api.name,
            "method": endpoint.method,
            "path": endpoint.path,
            "status": status,
            "seconds": round(seconds, 3),
            **exchange.log_fields,
        }
        if exchange.error is not None:
            line["error"] = exchange.error
        self._write(line)

    def report(self, kind: str, message: str) -> None:
        """Logs an event that belongs to no request, at most once per second for each kind."""
        now = time.monotonic()
        if now - self.reported.get(kind, -REPORT_SECONDS) >= REPORT_SECONDS:
            self.reported[kind] = now
            self._write({"error": kind, "message": message})

    def _write(self, line: dict[str, Any]) -> None:
        if self.log_to is None:
            return
        stamped = {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), **line}
        try:
            print(json.dumps(stamped), file=self.log_to, flush=True)
        except (OSError, ValueError):  # the reader has closed the log
            self.log_to = None
