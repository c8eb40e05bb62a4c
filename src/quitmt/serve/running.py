"""Runs the server: loads, listens, and on SIGTERM or SIGINT finishes the requests in progress.

Invariants: the port is reserved before loading, but no connection is accepted until everything is loaded and warm. The
first signal makes the server not ready and waits for requests in progress, up to ``drain`` seconds. A second signal
ends the process at once.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field

from aiohttp import web

from quitmt.errors import UsageError
from quitmt.serve import service
from quitmt.serve.app import application
from quitmt.serve.connections import BACKLOG, Connections, most_connections
from quitmt.serve.keys import Keys
from quitmt.serve.limits import Limits
from quitmt.serve.server import Server
from quitmt.serve.service import Service

AT_ONCE = 143
"""Exit code after a second signal."""


@dataclass(frozen=True, slots=True)
class ServeSettings:
    recipes: tuple[str, ...] = ()
    host: str = "127.0.0.1"
    port: int = 8080
    limits: Limits = field(default_factory=Limits)
    keys: Keys = field(default_factory=Keys)
    cors: tuple[str, ...] = ()
    drain: float = 30.0
    """Seconds for requests in progress to finish after a signal."""
    quiet: bool = False
    allow_functions: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.port < 65536:
            raise UsageError(f"the port must be from 0 to 65535, not {self.port}")
        if not 0 <= self.drain <= 3600:
            raise UsageError(f"the drain time must be from 0 to 3600 s, not {self.drain:g}")


def run(settings: ServeSettings, say: Callable[[str], None]) -> int:
    with closing(listen(settings)) as listening:
        return asyncio.run(serve(settings, listening, say))


async def serve(settings: ServeSettings, listening: socket.socket, say: Callable[[str], None]) -> int:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()

    def request_stop() -> None:
        if stop.is_set():
            say("stopped immediately")
            sys.stderr.flush()
            os._exit(AT_ONCE)  # threads may still be computing
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, request_stop)
    async with started(settings, listening, say) as server:
        await stop.wait()
        await _drain(server, settings.drain, say)
    return 0


@asynccontextmanager
async def started(
    settings: ServeSettings, listening: socket.socket, say: Callable[[str], None], loaded: Service | None = None
) -> AsyncIterator[Server]:
    """Runs a server until the context ends. ``loaded`` replaces the recipes in the settings."""
    say("loading …")
    loaded = loaded or service.load(settings.recipes, allow_functions=settings.allow_functions)
    server = Server(loaded, settings.limits, settings.keys, None if settings.quiet else sys.stderr)
    runner = web.AppRunner(application(server, cors=settings.cors), handler_cancellation=True, shutdown_timeout=1.0)
    await runner.setup()
    accepting = None
    try:
        await loaded.start()
        most = most_connections(settings.limits.connections)
        if most < settings.limits.connections:
            say(f"limited to {most} connections by the limit of open files (ulimit -n)")
        with _reaching(settings):
            listening.listen(BACKLOG)
        assert runner.server is not None
        connections = Connections(settings.limits, most, server.report)
        accepting = asyncio.create_task(connections.accept(listening, runner.server))
        server.ready = True
        say(f"serving {', '.join(one.pair for one in loaded.all)} at {_address(settings.host, listening)}")
        if not settings.keys and not is_loopback(settings.host):
            say(f"warning: anyone who can reach {settings.host} can use this server, because it has no keys")
        yield server
    finally:
        if accepting is not None:
            accepting.cancel()
            await asyncio.gather(accepting, return_exceptions=True)
        await runner.cleanup()
        await loaded.close()


async def _drain(server: Server, seconds: float, say: Callable[[str], None]) -> None:
    server.draining = True
    if server.in_flight:
        say(f"stopping; {server.in_flight} requests have {seconds:g} s to finish (a second signal stops immediately)")
        try:
            await asyncio.wait_for(server.idle.wait(), seconds)
        except TimeoutError:
            say(f"{server.in_flight} requests didn't finish in time")
    say("stopped")


def listen(settings: ServeSettings) -> socket.socket:
    """Reserves the port before anything is loaded, so that a port in use is reported at once."""
    with _reaching(settings):
        family = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family[0], socket.SOCK_STREAM)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(family[4])
        except OSError:
            listening.close()
            raise
    return listening


@contextmanager
def _reaching(settings: ServeSettings) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise UsageError(
                f"port {settings.port} is in use", hint="stop the other server or choose another port"
            ) from None
        raise UsageError(f"cannot listen at {settings.host}:{settings.port}: {error.strerror or error}") from None


def _address(host: str, listening: socket.socket) -> str:
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listening.getsockname()[1]}"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
