"""A resilient client for JSON over HTTP: one method, ``post``, that answers, or says in one sentence why it cannot.

Sent again, after an exponential back-off with full jitter: what was answered with 408, 409, 429 or any 5xx, dropped,
timed out, or answered with something that cannot be read. Retry-After holds back all requests, not only the one it was
said to. Whatever else the server refuses is ``Refused`` at once. How much is in flight, and the pauses while the server
is gone, are the gate's (``quitmt.remote.pacing``).

Invariants: each ``post`` ends in exactly one reply or one error; exceptions of aiohttp carry the headers of their
request, with the key, so none is chained, logged or passed on.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from quitmt.errors import GenerationError, MissingExtra, QuitmtError, UsageError
from quitmt.remote.address import Address
from quitmt.remote.pacing import Gate, Pass, Policy, Result

if TYPE_CHECKING:
    import aiohttp

log = logging.getLogger(__name__)

T = TypeVar("T")
Read = Callable[[Any], T]
CONNECT_SECONDS = 10.0
KEEP_ALIVE_SECONDS = 2.0
"""How long a connection may be idle. Servers close theirs after a few seconds (uvicorn and Node after 5), and a request
that is sent on one that is just being closed has to be sent again."""
_CHECK_ADDRESS = "is the server running, and is --base-url right?"
_RESULTS = {429: Result.OVERLOADED, 502: Result.AWAY, 503: Result.AWAY, 504: Result.AWAY}


class Refused(GenerationError):
    """The server was reached and does not want this request; to send it again would change nothing."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"the server answers {status}: {message}" if message else f"the server answers {status}")
        self.status = status
        self.message = message


class Unusable(Exception):
    """Raised by a reader of answers: this one is no good, but another one may be. Says what "the answer" is or has."""


@dataclass(frozen=True, slots=True)
class Reply(Generic[T]):
    value: T
    seconds: float
    """The request's share of the time that all requests took."""


@dataclass(frozen=True, slots=True)
class _Trouble:
    """Why an attempt failed."""

    kind: str
    result: Result
    reason: str
    hint: str
    wait_seconds: float = 0.0
    """What the server asked for."""


class _Link:
    """What belongs to one event loop."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.users = 0
        self.session: aiohttp.ClientSession | None = None
        self.trouble: _Trouble | None = None
        """The last one."""


class Client:
    """Posts JSON to paths below an address. ``tally`` counts what was sent and what went wrong, by kind."""

    def __init__(
        self,
        address: Address,
        *,
        concurrency: int = 256,
        timeout: float = 120.0,
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
        self.address = address
        self.tally: Counter[str] = Counter()
        self.refusal: QuitmtError | None = None
        """Set from outside once it is known that the server will refuse everything: nothing more is sent."""
        self._concurrency, self._timeout = concurrency, timeout
        self._policy = policy or Policy()
        self._sleep, self._clock, self._jitter = sleep, clock, jitter
        self._links: WeakKeyDictionary[asyncio.AbstractEventLoop, _Link] = WeakKeyDictionary()

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

    async def post(self, path: str, body: bytes, read: Read[T]) -> Reply[T]:
        """What ``read`` makes of the answer. Only inside ``connected``."""
        link, attempt, seconds = self._link(), 0, 0.0
        while True:
            entry = await link.gate.enter()
            if entry is None:
                raise self._unreachable(link)
            if self.refusal is not None:
                link.gate.leave(entry, Result.UNKNOWN)
                raise self.refusal.with_traceback(None)
            found, share = await self._attempt(link, entry, path, body, read)
            seconds += share
            if not isinstance(found, _Trouble):
                return Reply(found, seconds)
            link.trouble = found
            self.tally[found.kind] += 1
            log.debug("%s: %s", path, found.reason)
            if found.wait_seconds > self._policy.longest_wait_seconds:
                asked = f"{found.reason}, and asks to wait {found.wait_seconds:.0f} seconds"
                raise GenerationError(asked, hint="try again then")
            link.gate.hold(found.wait_seconds)
            if link.gate.pauses(found.result):
                continue
            attempt += 1
            if attempt >= self._policy.attempts:
                raise GenerationError(f"{found.reason} ({attempt} times)", hint=found.hint)
            ceiling = min(self._policy.backoff_ceiling_seconds, self._policy.backoff_seconds * 2 ** (attempt - 1))
            await self._sleep(found.wait_seconds + self._jitter(ceiling))

    async def _attempt(
        self, link: _Link, entry: Pass, path: str, body: bytes, read: Read[T]
    ) -> tuple[T | _Trouble, float]:
        """Send once, and leave the gate with what came of it."""
        result = Result.UNKNOWN
        try:
            found = await self._send(self._session(link), path, body, read)
            result = found.result if isinstance(found, _Trouble) else Result.GOOD
        except QuitmtError:  # it answered
            result = Result.BAD
            raise
        finally:
            seconds = link.gate.leave(entry, result)
        return found, seconds

    async def _send(self, session: aiohttp.ClientSession, path: str, body: bytes, read: Read[T]) -> T | _Trouble:
        import aiohttp

        self.tally["sent"] += 1
        url, address = self.address.url, self.address
        try:
            async with session.post(
                url + path, data=body, headers=address.headers, proxy=address.proxy, allow_redirects=False
            ) as response:
                content = await response.read()
        except aiohttp.ConnectionTimeoutError:
            return _Trouble("dropped", Result.UNREACHED, f"cannot reach {url}: no connection in time", _CHECK_ADDRESS)
        except TimeoutError:
            reason = f"no answer from {url} within {self._timeout:g} seconds"
            return _Trouble("time-out", Result.STALLED, reason, "raise the time-out or lower the concurrency")
        except (aiohttp.ClientError, OSError) as error:
            reason = f"cannot reach {url}: {_said_by(error)}"
            return _Trouble("dropped", Result.UNREACHED, reason, _CHECK_ADDRESS)
        return self._judge(response.status, response.headers, content, read)

    def _judge(self, status: int, headers: Any, content: bytes, read: Read[T]) -> T | _Trouble:
        url = self.address.url
        if status == 200 and "html" not in headers.get("Content-Type", ""):
            try:
                return read(json.loads(content))
            except (ValueError, Unusable) as error:
                what = str(error) if isinstance(error, Unusable) else "is not JSON"
                return _Trouble("unusable", Result.BAD, f"the answer of {url} {what}", "the server's log may say more")
        message = self.address.message_in(content)
        if not (status in (408, 409, 429) or status >= 500):
            raise Refused(status, message)
        return _Trouble(
            str(status),
            _RESULTS.get(status, Result.BAD),
            f"{url} answers {status}" + (f": {message}" if message else ""),
            "the server's log may say more; if it is too busy, lower the concurrency",
            _wait_seconds(headers.get("Retry-After")),
        )

    def _unreachable(self, link: _Link) -> GenerationError:
        assert link.trouble is not None  # there is no giving up without
        return GenerationError(link.trouble.reason, hint=link.trouble.hint)

    def _link(self) -> _Link:
        loop = asyncio.get_running_loop()
        link = self._links.get(loop)
        if link is None:
            link = self._links[loop] = _Link(Gate(self._concurrency, self._policy, self._sleep, self._clock))
        return link

    def _session(self, link: _Link) -> aiohttp.ClientSession:
        import aiohttp

        if link.session is None:
            if not link.users:
                raise RuntimeError("post outside of connected")
            link.session = aiohttp.ClientSession(
                # The gate is the limit.
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_SECONDS),
                timeout=aiohttp.ClientTimeout(total=self._timeout, sock_connect=min(CONNECT_SECONDS, self._timeout)),
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return link.session


def _said_by(error: BaseException) -> str:
    """An error of the connection in words: the system's own where there are any, never its request."""
    if (certificate := getattr(error, "certificate_error", None)) is not None:
        return f"its certificate is not trusted: {getattr(certificate, 'verify_message', 'it cannot be read')}"
    cause = getattr(error, "os_error", error)
    if isinstance(number := getattr(cause, "errno", None), int) and number > 0:
        return os.strerror(number)
    return getattr(cause, "strerror", None) or "the connection was dropped"


def _wait_seconds(retry_after: str | None) -> float:
    """Seconds, or a date; what is neither is as if it were not there.

    >>> _wait_seconds("1.5"), _wait_seconds("Wed, 21 Oct 2015 07:28:00 GMT"), _wait_seconds("soon")
    (1.5, 0.0, 0.0)
    """
    text = (retry_after or "").strip()
    if text.isascii() and text.replace(".", "", 1).isdigit():
        return float(text)
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return 0.0
    return max(0.0, (moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
