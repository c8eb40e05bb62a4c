"""A resilient client for JSON over HTTP: one method, ``post``, that answers, or says in one sentence why it cannot.

Sent again, after an exponential back-off with full jitter: what was answered with 408, 409, 429 or any 5xx, dropped,
timed out, or answered with something that cannot be read. All of them have the same patience, in seconds from the
request's first failure. Retry-After holds back all requests, not only the one it was said to; if it is said to that
one again, only that one waits. Whatever else the server refuses is ``Refused`` at once. How much is in flight, and the
pauses while the server is gone, are the gate's (``quitmt.generate.remote.pacing``).

Whether a server is back is found out with ``probe``, a harmless request, if there is one: then requests that can never
succeed tell nothing about the server, however many there are.

Invariants: each ``post`` ends in exactly one reply or one error; no answer takes more memory than its limit; exceptions
of aiohttp carry the headers of their request, with the key, so none is chained, logged or passed on.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from quitmt.errors import GenerationError, MissingExtra, QuitmtError, UsageError
from quitmt.generate.remote import troubles
from quitmt.generate.remote.address import Address
from quitmt.generate.remote.circuit import Policy
from quitmt.generate.remote.pacing import Gate, Pass, Sign
from quitmt.generate.remote.reading import Unusable, parsed, read_beginning, read_body
from quitmt.generate.remote.troubles import Trouble

if TYPE_CHECKING:
    import aiohttp

log = logging.getLogger(__name__)

T = TypeVar("T")
Read = Callable[[Any], T]
CONNECT_SECONDS = 10.0
KEEP_ALIVE_SECONDS = 2.0
"""How long a connection may be idle. Servers close theirs after a few seconds (uvicorn and Node after 5), and a request
that is sent on one that is just being closed has to be sent again."""
BODY_BYTES = 2**24
"""The longest answer, unless a request says otherwise."""
PROBE_BYTES = 2**16
QUIET_SECONDS = 1.0
"""Nothing good must have come for this long before anybody is said to wait."""


class Refused(GenerationError):
    """The server was reached and does not want this request; to send it again would change nothing."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"the server answers {status}: {message}" if message else f"the server answers {status}")
        self.status = status
        self.message = message


@dataclass(frozen=True, slots=True)
class Reply(Generic[T]):
    value: T
    seconds: float
    """The request's share of the time that all requests took."""


@dataclass(frozen=True, slots=True)
class _Message(Generic[T]):
    """What is sent, and how its answer is read."""

    path: str
    body: bytes
    read: Read[T]
    limit: int


@dataclass(eq=False, slots=True)
class _Tries:
    """What was tried for one ``post``, in the time of a clock that stands still while the server is away."""

    sender: Hashable
    failures: int = 0
    first_failed: float = 0.0


class _Link:
    """What belongs to one event loop."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.users = 0
        self.session: aiohttp.ClientSession | None = None
        self.trouble: Trouble | None = None
        """The last one, if nothing good came since."""
        self.in_trouble: set[_Tries] = set()

    def waiting(self, now: float, patience: float) -> str | None:
        trouble, circuit = self.trouble, self.gate.circuit
        since, first = circuit.failing_since, [tries.first_failed for tries in list(self.in_trouble)]
        if trouble is None or since is None or now - since < QUIET_SECONDS:
            return None
        if circuit.is_open and not circuit.given_up:
            left = since + circuit.patience - now
        elif first:
            left = max(first) + patience - self.gate.present_seconds()
        else:
            return None
        return f"{trouble.reason}; trying again for {max(0.0, left):.0f} s more"


class Client:
    """Posts JSON to paths below an address. ``tally`` counts what was sent and what went wrong, by kind."""

    def __init__(
        self,
        address: Address,
        *,
        concurrency: int = 256,
        timeout: float = 120.0,
        patience: float | None = None,
        policy: Policy | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[float], float] = lambda ceiling: random.uniform(0, ceiling),
    ) -> None:
        try:
            import aiohttp  # noqa: F401
        except ImportError:
            raise MissingExtra("servers need aiohttp", hint="pip install 'quitmt[openai]'") from None
        if concurrency < 1:
            raise UsageError(f"at least 1 request must be in flight, not {concurrency}")
        if not timeout > 0:
            raise UsageError(f"the time-out must be above 0 seconds, not {timeout}")
        if patience is not None and not patience >= 0:
            raise UsageError(f"the patience must be 0 seconds or more, not {patience}")
        self.address = address
        self.tally: Counter[str] = Counter()
        self.refusal: QuitmtError | None = None
        """Set from outside once it is known that the server will refuse everything: nothing more is sent."""
        self.probe: tuple[str, bytes] | None = None
        """Set from outside: the path and body of a request that a sound server answers. Without it, whichever request
        comes next is the probe."""
        self._known = False
        self._concurrency, self._timeout = concurrency, timeout
        policy = policy or Policy()
        self._policy = policy if patience is None else replace(policy, patience_seconds=patience)
        self._sleep, self._clock, self._jitter = sleep, clock, jitter
        self._links: WeakKeyDictionary[asyncio.AbstractEventLoop, _Link] = WeakKeyDictionary()

    @property
    def waiting(self) -> str | None:
        """What is waited for, and for how long at most, if nothing good comes from the server. For any thread."""
        said = (link.waiting(self._clock(), self._policy.patience_seconds) for link in list(self._links.values()))
        return next(filter(None, said), None)

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[None]:
        """Keeps connections open for as long as anybody in this event loop is inside.

        No task and no socket outlives the last one, so that a loop may end in any way.
        """
        link = self._link()
        link.users += 1
        try:
            yield
        finally:
            link.users -= 1
            if not link.users and link.session is not None:
                session, link.session = link.session, None
                await session.close()

    async def post(
        self, path: str, body: bytes, read: Read[T], *, sender: Hashable = None, limit: int = BODY_BYTES
    ) -> Reply[T]:
        """What ``read`` makes of the answer, of at most ``limit`` bytes. Only inside ``connected``.

        Requests of one ``sender`` (a segment, say) share their fate; without one, each stands for itself.
        """
        link, message, seconds = self._link(), _Message(path, body, read, limit), 0.0
        tries = _Tries(object() if sender is None else sender)
        try:
            while True:
                entry = await self._enter(link, tries)
                attempt = await self._attempt(link, entry, message)
                found = attempt[0]
                seconds += attempt[1]
                if not isinstance(found, Trouble):
                    return Reply(found, seconds)
                await self._back_off(link, tries, found)
        finally:
            link.in_trouble.discard(tries)

    async def _enter(self, link: _Link, tries: _Tries) -> Pass:
        """Wait for one's turn. If the turn is to find out how the server is, do that and wait again."""
        while True:
            entry = await link.gate.enter(tries.sender, again=bool(tries.failures))
            if entry is None:
                assert link.trouble is not None  # there is no giving up without
                raise link.trouble.error()
            if self.refusal is not None:
                link.gate.leave(entry, Sign.UNKNOWN)
                raise self.refusal.with_traceback(None)
            if not entry.probe or self.probe is None:
                return entry
            with suppress(Refused):
                await self._attempt(link, entry, _Message(*self.probe, lambda found: None, PROBE_BYTES))

    async def _attempt(self, link: _Link, entry: Pass, message: _Message[T]) -> tuple[T | Trouble, float]:
        """Send once, and leave the gate with what came of it."""
        result, trouble = Sign.UNKNOWN, link.trouble
        try:
            found = await self._send(self._session(link), message)
            trouble = found if isinstance(found, Trouble) else None
            result = trouble.result if trouble else Sign.GOOD
        except QuitmtError:  # it answered
            result, trouble = Sign.GOOD, None
            raise
        finally:
            seconds = link.gate.leave(entry, result)
            link.trouble = trouble
            self._known = self._known or link.gate.circuit.known
        if trouble is not None:
            self.tally[trouble.kind] += 1
            log.debug("%s: %s", message.path, trouble.reason)
        return found, seconds

    async def _back_off(self, link: _Link, tries: _Tries, trouble: Trouble) -> None:
        """Wait until the request may be sent again, or raise why not."""
        now, patience = link.gate.present_seconds(), self._policy.patience_seconds
        if not tries.failures:
            tries.first_failed = now
            link.in_trouble.add(tries)
            if trouble.wait_seconds <= patience:
                link.gate.hold(trouble.wait_seconds)
        tries.failures += 1
        elapsed = now - tries.first_failed
        left = patience - elapsed
        if link.gate.circuit.given_up:
            raise trouble.error()
        if left <= 0:
            raise trouble.error(f"{tries.failures} times in {elapsed:.0f} s" if tries.failures > 1 else "once")
        if trouble.wait_seconds > left:
            asked = f"{trouble.reason}, and asks to wait {trouble.wait_seconds:.0f} seconds"
            raise GenerationError(asked, hint=f"the patience is {patience:g} s: raise it, or try again then")
        doubled = self._policy.backoff_seconds * 2 ** min(tries.failures - 1, 30)
        wait = trouble.wait_seconds + self._jitter(min(self._policy.backoff_ceiling_seconds, doubled))
        await self._sleep(min(wait, left))

    async def _send(self, session: aiohttp.ClientSession, message: _Message[T]) -> T | Trouble:
        import aiohttp

        self.tally["sent"] += 1
        url, address = self.address.url, self.address
        try:
            async with session.post(
                url + message.path,
                data=message.body,
                headers=address.headers,
                proxy=address.proxy,
                allow_redirects=False,
            ) as response:
                try:
                    return await self._judge(response, message)
                except Unusable as error:
                    response.close()
                    return troubles.unusable(url, str(error))
        except aiohttp.ConnectionTimeoutError:
            return troubles.unreached(url)
        except TimeoutError:
            return troubles.stalled(url, self._timeout)
        except (aiohttp.ClientError, OSError, UnicodeError) as error:  # a name may not be one for this system
            return troubles.unreached(url, error)

    async def _judge(self, response: aiohttp.ClientResponse, message: _Message[T]) -> T | Trouble:
        status, headers = response.status, response.headers
        if status == 200 and "html" not in headers.get("Content-Type", ""):
            return message.read(parsed(await read_body(response, message.limit)))
        said = self.address.message_in(await read_beginning(response))
        if not (status in (408, 409, 429) or status >= 500):
            raise Refused(status, said)
        return troubles.refused_for_now(self.address.url, status, said, headers.get("Retry-After"))

    def _link(self) -> _Link:
        loop = asyncio.get_running_loop()
        link = self._links.get(loop)
        if link is None:
            link = self._links[loop] = _Link(Gate(self._concurrency, self._policy, self._sleep, self._clock))
            link.gate.circuit.known = self._known
        return link

    def _session(self, link: _Link) -> aiohttp.ClientSession:
        import aiohttp

        if link.session is None:
            if not link.users:
                raise RuntimeError("post outside of connected")
            link.session = aiohttp.ClientSession(
                # The gate is the limit.
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_SECONDS),
                timeout=aiohttp.ClientTimeout(total=self._timeout, connect=min(CONNECT_SECONDS, self._timeout)),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
            )
        return link.session
