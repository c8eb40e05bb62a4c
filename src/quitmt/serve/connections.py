"""TCP connections: how many the server keeps, and how long it waits for a client.

Invariants: the number of connections never exceeds the limit, so clients cannot exhaust the process's open files. If a
client arrives and all connections are taken, the connection that has been idle longest is closed. A connection with a
request in progress is never closed, so idle clients cannot lock others out. Every wait for a client (headers, the next
request, a client that reads its response) has a time limit. ``bodies`` limits bodies.
"""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import socket
from collections.abc import Callable
from typing import Any

from aiohttp import web

from quitmt.errors import UsageError
from quitmt.serve.limits import Limits
from quitmt.serve.refusals import Refusal, internal_error, plain, refused

RESERVED_FILES = 128
"""Open files reserved for other uses: modules, models, threads, connections to engines."""
FEWEST = 8
"""The server doesn't start if there is room for fewer connections."""
BACKLOG = 1024
"""Clients that the kernel queues until they are accepted."""
RETRY_SECONDS = 0.1
Report = Callable[[str, str], None]
"""Logs an event that belongs to no request: a machine-readable word, and a sentence without bytes from the client."""


class Connection(web.RequestHandler):
    """aiohttp's protocol with time limits and without client bytes in the log.

    Handlers call ``begin`` once the headers of a request are read, and ``work`` once its body is read.
    """

    def __init__(self, connections: Connections, manager: web.Server, loop: asyncio.AbstractEventLoop) -> None:
        # aiohttp would decompress bodies without a limit; ``bodies`` refuses compressed ones.
        super().__init__(manager, loop=loop, access_log=None, auto_decompress=False)  # type: ignore[arg-type]
        self._connections, self._clock = connections, loop
        self._wire: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._stall: asyncio.TimerHandle | None = None
        self._idle = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._wire = transport
        self._connections.add(self)
        self._wait(self._connections.limits.header_seconds)
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._connections.remove(self)
        for timer in (self._timer, self._stall):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._idle:  # the next request begins
            self._idle = False
            self._wait(self._connections.limits.header_seconds)
        super().data_received(data)

    def begin(self) -> None:
        self._idle = False
        if self._timer is not None:
            self._timer.cancel()

    def work(self) -> None:
        self._connections.hold(self)

    def log_access(self, request: web.BaseRequest, response: web.StreamResponse, time: float | None) -> None:
        """aiohttp calls this when a response has been sent or cannot be sent."""
        self._connections.release(self)
        self._idle = True
        self._wait(self._connections.limits.idle_seconds)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stall = self._clock.call_later(self._connections.limits.write_seconds, self.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None

    def abort(self) -> None:
        """Closes the connection without waiting for the client to read the rest of a response."""
        if self._wire is not None:
            self._wire.abort()

    def _wait(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._clock.call_later(seconds, self._expire)

    def _expire(self) -> None:
        if self._stall is not None:  # a response is being sent; that timer decides
            self._wait(self._connections.limits.idle_seconds)
            return
        if not self._idle:
            self._connections.report("timeout", "a client didn't send its headers in time")
        self.abort()

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """aiohttp calls this for invalid HTTP and for errors that no handler caught. Its own version would log the
        client's bytes."""
        if status < 500:
            refusal = Refusal(status, "malformed_request", "this isn't a valid HTTP request")
        else:
            refusal = internal_error()
        self._connections.report(refusal.kind, _name(exc))
        if request.writer.output_size:
            raise ConnectionError("part of a response was already sent")
        response = refused(refusal, plain, "")
        response.force_close()
        return response

    def log_exception(self, *args: Any, **named: Any) -> None:
        error = named.get("exc_info")
        if not isinstance(error, web.RequestPayloadError):  # already answered and logged
            self._connections.report("internal_error", _name(error))


class Connections:
    """All connections of a server. ``report`` is called for each event and may drop repeated ones."""

    def __init__(self, limits: Limits, most: int, report: Report) -> None:
        self.limits, self.report = limits, report
        self._most = most
        self._open: set[Connection] = set()
        self._waiting: dict[Connection, None] = {}
        """Connections that the server waits for, the longest wait first."""
        self._changed = asyncio.Event()

    async def accept(self, listening: socket.socket, manager: web.Server) -> None:
        """Accepts clients until cancelled."""
        loop = asyncio.get_running_loop()
        listening.setblocking(False)
        while True:
            try:
                client, _ = await loop.sock_accept(listening)
            except OSError as error:
                await self._recover(error)
                continue
            try:
                await self._wait_for_room()
                await loop.connect_accepted_socket(lambda: Connection(self, manager, loop), client)
            except OSError:  # the client has left
                client.close()
            except BaseException:
                client.close()
                raise

    async def _wait_for_room(self) -> None:
        while len(self._open) >= self._most:
            done = "closed the longest idle one" if self._evict() else "a new client must wait"
            self.report("full", f"all {self._most} connections are in use; {done}")
            self._changed.clear()
            await self._changed.wait()

    async def _recover(self, error: OSError) -> None:
        """If the process can open no more files, closes a connection and waits a little. Ignores errors of a client."""
        if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
            self.report("accept_failed", os.strerror(error.errno))
            self._evict()
            await asyncio.sleep(RETRY_SECONDS)

    def _evict(self) -> bool:
        oldest = next(iter(self._waiting), None)
        if oldest is None:
            return False
        del self._waiting[oldest]
        oldest.abort()
        return True

    def add(self, connection: Connection) -> None:
        self._open.add(connection)
        self._waiting[connection] = None

    def remove(self, connection: Connection) -> None:
        self._open.discard(connection)
        self._waiting.pop(connection, None)
        self._changed.set()

    def hold(self, connection: Connection) -> None:
        """Protects a connection while its request is in progress."""
        self._waiting.pop(connection, None)

    def release(self, connection: Connection) -> None:
        """Allows the server to close a connection again, after all others."""
        if connection in self._open:
            self._waiting.pop(connection, None)
            self._waiting[connection] = None
            self._changed.set()


def most_connections(wanted: int) -> int:
    """Returns the wanted number of connections, or fewer if the process may not open that many files."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY:
        return wanted
    left = allowed - RESERVED_FILES
    if left < FEWEST:
        raise UsageError(f"{allowed} open files aren't enough for a server", hint="raise the limit with ulimit -n")
    return min(wanted, left)


def _name(error: object) -> str:
    return type(error).__name__ if isinstance(error, BaseException) else ""
