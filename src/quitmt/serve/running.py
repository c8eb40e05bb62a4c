"""From start to end: load, listen, and on SIGTERM or SIGINT finish what is in flight.

Invariants: nothing is listened for before everything is loaded and warm, but that the port can be had is known before;
the first signal makes the server not ready and waits for the requests under way, for so long at most; a second one ends
it at once.
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
from quitmt.serve.server import Server, to_stderr
from quitmt.serve.service import Service

AT_ONCE = 143
"""The exit code of a server that was ended by a second signal."""


@dataclass(frozen=True, slots=True)
class ServeSettings:
    recipes: tuple[str, ...] = ()
    host: str = "127.0.0.1"
    port: int = 8080
    limits: Limits = field(default_factory=Limits)
    keys: Keys = field(default_factory=Keys)
    cors: tuple[str, ...] = ()
    drain: float = 30.0
    """Seconds that requests under way have to finish, once a signal came."""
    quiet: bool = False
    allow_functions: bool = False
    """That recipes name."""

    def __post_init__(self) -> None:
        if not 0 <= self.port < 65536:
            raise UsageError(f"a port is a number from 0 to 65535, not {self.port}")
        if not 0 <= self.drain <= 3600:
            raise UsageError(f"the time to finish must be from 0 to 3600 s, not {self.drain:g}")


def run(settings: ServeSettings, say: Callable[[str], None]) -> int:
    with closing(listen(settings)) as listening:
        return asyncio.run(serve(settings, listening, say))


async def serve(settings: ServeSettings, listening: socket.socket, say: Callable[[str], None]) -> int:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()

    def ask_to_stop() -> None:
        if stop.is_set():
            say("ended at once")
            sys.stderr.flush()
            os._exit(AT_ONCE)  # threads may compute for a while yet
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ask_to_stop)
    async with started(settings, listening, say) as server:
        await stop.wait()
        await _drain(server, settings.drain, say)
    return 0


@asynccontextmanager
async def started(
    settings: ServeSettings, listening: socket.socket, say: Callable[[str], None], loaded: Service | None = None
) -> AsyncIterator[Server]:
    """A server that listens, until it is left. ``loaded`` is what it serves, if that is not in the settings."""
    say("loading …")
    loaded = loaded or service.load(settings.recipes, allow_functions=settings.allow_functions)
    server = Server(loaded, settings.limits, settings.keys, None if settings.quiet else to_stderr())
    runner = web.AppRunner(application(server, cors=settings.cors), handler_cancellation=True, shutdown_timeout=1.0)
    await runner.setup()
    accepting = None
    try:
        await loaded.start()
        most = most_connections(settings.limits.connections)
        if most < settings.limits.connections:
            say(f"at most {most} connections at a time, because of the limit of open files (ulimit -n)")
        with _reaching(settings):
            listening.listen(BACKLOG)
        assert runner.server is not None
        connections = Connections(settings.limits, most, server.report)
        accepting = asyncio.create_task(connections.accept(listening, runner.server))
        server.ready = True
        say(f"serving {', '.join(one.pair for one in loaded.all)} at {_address(settings.host, listening)}")
        if not settings.keys and not is_loopback(settings.host):
            say(f"anybody who can reach {settings.host} may use it: there are no keys")
        yield server
    finally:
        if accepting is not None:
            accepting.cancel()
            await asyncio.gather(accepting, return_exceptions=True)
        await runner.cleanup()
        await loaded.close()


async def _drain(server: Server, seconds: float, say: Callable[[str], None]) -> None:
    server.draining = True
    if server.busy:
        say(f"stopping; {server.busy} requests have {seconds:g} s to finish (again: at once)")
        try:
            await asyncio.wait_for(server.idle.wait(), seconds)
        except TimeoutError:
            say(f"{server.busy} requests did not finish in time")
    say("stopped")


def listen(settings: ServeSettings) -> socket.socket:
    """Before anything is loaded: a port that cannot be had is known at once."""
    with _reaching(settings):
        family = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)[0]
        found = socket.socket(family[0], socket.SOCK_STREAM)
        try:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            found.bind(family[4])
        except OSError:
            found.close()
            raise
    return found


@contextmanager
def _reaching(settings: ServeSettings) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise UsageError(
                f"port {settings.port} is in use", hint="stop the other server or take a free port"
            ) from None
        raise UsageError(f"cannot listen at {settings.host}:{settings.port}: {error.strerror or error}") from None


def _address(host: str, listening: socket.socket) -> str:
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listening.getsockname()[1]}"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
