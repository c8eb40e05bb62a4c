"""A resilient client for JSON over HTTP. Its one method, ``post``, returns an answer or raises a one-sentence error.

There may be several equivalent servers: a request goes to the least busy one, and if it fails there, to another.

The client retries, with exponential back-off and full jitter, requests that were answered with 408, 409, 429, any 5xx
or an unreadable body, and requests that were dropped or timed out. The patience, in seconds from a request's first
failure, is the same for all of these. A first Retry-After delays all requests to that server; a repeated one delays
only its own request. Any other refusal raises ``Refused`` at once. The gate (``quitmt.generate.remote.pacing``) limits
the requests in flight and pauses them while a server is gone.

The client tests whether a server is back with ``probe``, a harmless request, if there is one: then requests that can
never succeed say nothing about the server, however many there are. With several servers, one that is gone or refuses
every request is left out; a separate task probes it, and no request waits for it.

Invariants: each ``post`` ends in exactly one reply or one error; no answer takes more memory than its limit; exceptions
of aiohttp carry the request's headers, including the key, so they are never chained, logged or passed on.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from quitmt.errors import GenerationError, MissingExtra, QuitmtError, UsageError
from quitmt.generate.remote import failures
from quitmt.generate.remote.failures import Link, Outgoing, Read, Refused, Reply, Tries, Trouble
from quitmt.generate.remote.limits import RetryPolicy, Sign
from quitmt.generate.remote.pacing import Gate, Pass
from quitmt.generate.remote.transport import Address, Unusable, parsed, read_beginning, read_body

if TYPE_CHECKING:
    import aiohttp

log = logging.getLogger(__name__)

T = TypeVar("T")
CONNECT_SECONDS = 10.0
KEEP_ALIVE_SECONDS = 2.0
"""Maximum idle time of a connection. Servers close idle connections after a few seconds (uvicorn and Node after 5), and
a request sent on a closing connection must be sent again."""
BODY_BYTES = 2**24
"""Default limit for the size of an answer."""
PROBE_BYTES = 2**16


class Client:
    """Posts JSON to paths below one or several base addresses. ``tally`` counts requests sent and failures by kind."""

    def __init__(
        self,
        address: Address | Sequence[Address],
        *,
        concurrency: int = 256,
        timeout: float = 120.0,
        patience: float | None = None,
        policy: RetryPolicy | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[float], float] = lambda ceiling: random.uniform(0, ceiling),
    ) -> None:
        """``concurrency`` limits the requests in flight per server."""
        try:
            import aiohttp  # noqa: F401
        except ImportError:
            raise MissingExtra("servers need aiohttp", hint="pip install 'quitmt[openai]'") from None
        if not (concurrency >= 1 and timeout > 0 and (patience is None or patience >= 0)):
            raise UsageError("concurrency must be 1 or more, timeout above 0 seconds and patience 0 seconds or more")
        self.addresses = [address] if isinstance(address, Address) else list(address)
        self.tally: Counter[str] = Counter()
        self.refusal: QuitmtError | None = None
        """The caller sets it once it knows that the server refuses every request; then nothing more is sent."""
        self.probe: tuple[str, bytes] | None = None
        """The caller sets it: path and body of a request that any healthy server answers. Without it, the next request
        serves as the probe."""
        self._known: set[int] = set()
        """Servers that have been reached at least once."""
        self._concurrency, self._timeout = concurrency, timeout
        self._policy = policy or RetryPolicy()
        if patience is not None:
            self._policy = replace(self._policy, patience_seconds=patience)
        self._sleep, self._clock, self._jitter = sleep, clock, jitter
        self._links: WeakKeyDictionary[asyncio.AbstractEventLoop, Link] = WeakKeyDictionary()

    @property
    def several(self) -> bool:
        return len(self.addresses) > 1

    @property
    def waiting(self) -> str | None:
        """What the client is waiting for and for how long at most, while no server answers. For any thread."""
        reasons = (link.waiting(self._clock(), self._policy.patience_seconds) for link in list(self._links.values()))
        return next(filter(None, reasons), None)

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[None]:
        """Keeps connections open while any caller in this event loop is inside.

        No task and no socket outlives the last caller, so the loop may end at any time afterwards.
        """
        link = self._link()
        link.users += 1
        for number in range(len(self.addresses)):
            self._watch(link, number)
        try:
            yield
        finally:
            link.users -= 1
            if not link.users:
                watchers, link.watchers = list(link.watchers.values()), {}
                session, link.session = link.session, None
                for watcher in watchers:
                    watcher.cancel()
                await asyncio.gather(*watchers, return_exceptions=True)
                if session is not None:
                    await session.close()

    async def post(
        self, path: str, body: bytes, read: Read[T], *, sender: Hashable = None, limit: int = BODY_BYTES
    ) -> Reply[T]:
        """Post, and parse the answer of at most ``limit`` bytes with ``read``. Call it inside ``connected``.

        Failures of one ``sender`` (such as a segment) count as one sender's; by default each request is its own sender.
        """
        link, message, seconds = self._link(), Outgoing(path, body, read, limit), 0.0
        tries = Tries(object() if sender is None else sender)
        try:
            while True:
                entry = await self._enter(link, tries)
                try:
                    attempt = self._attempt(link, entry, message)  # mypy needs the variable
                    answer, took = await attempt
                except Refused as refused:
                    tries.refused[entry.door] = refused
                    if not refused.is_final or len(tries.refused) == len(self.addresses):
                        raise
                    continue
                seconds += took
                if not isinstance(answer, Trouble):
                    return Reply(answer, seconds)
                await self._back_off(link, tries, entry.door, answer)
        finally:
            link.in_trouble.discard(tries)

    async def survey(self) -> list[Refused]:
        """Probe each server once; return the refusals that would hit every request. Call it inside ``connected``."""
        link, message = self._link(), self._probe_message()
        entries = [link.gate.admit_probe(number) for number in range(len(self.addresses))]
        attempts = [self._attempt(link, entry, message) for entry in entries]
        results = await asyncio.gather(*attempts, return_exceptions=True)
        return [one for one in results if isinstance(one, Refused) and one.is_final]

    async def _enter(self, link: Link, tries: Tries) -> Pass:
        """Wait for a turn. If the turn is a probe's, send the probe and wait again."""
        while True:
            entry = await link.gate.enter(tries.sender, tries.failed, tries.refused)
            if entry is None:
                raise link.given_up(tries.refused)
            if self.refusal is not None:
                link.gate.leave(entry, Sign.UNKNOWN)
                raise self.refusal.with_traceback(None)
            if not entry.probe or self.probe is None:
                return entry
            with suppress(Refused):
                await self._attempt(link, entry, self._probe_message())

    def _probe_message(self) -> Outgoing[Any]:
        assert self.probe is not None
        return Outgoing(*self.probe, lambda answer: None, PROBE_BYTES)

    async def _attempt(self, link: Link, entry: Pass, message: Outgoing[T]) -> tuple[T | Trouble, float]:
        """Send once, and leave the gate with the result."""
        number, address = entry.door, self.addresses[entry.door]
        sign, trouble = Sign.UNKNOWN, link.troubles[number]
        try:
            answer = await self._send(self._session(link), address, message)
            trouble = answer if isinstance(answer, Trouble) else None
            sign = trouble.sign if trouble else Sign.GOOD
        except QuitmtError as error:  # it answered
            sign, trouble = Sign.GOOD, None
            if self.several and isinstance(error, Refused) and error.is_final:
                trouble = failures.refusing(address.url, error.status, error.message)
                sign = trouble.sign
            raise
        finally:
            seconds = self._leave(link, entry, sign, trouble)
        if trouble is not None:
            self.tally[trouble.kind] += 1
            log.debug("%s: %s", message.path, trouble.reason)
        return answer, seconds

    def _leave(self, link: Link, entry: Pass, sign: Sign, trouble: Trouble | None) -> float:
        number, circuit = entry.door, link.gate.doors[entry.door].circuit
        was_gone = circuit.is_gone
        seconds = link.gate.leave(entry, sign)
        link.troubles[number] = trouble
        if circuit.known:
            self._known.add(number)
        if self.several and circuit.is_gone and not was_gone and trouble is not None:
            log.warning("%s: not used until it is back", trouble.reason)
        elif self.several and was_gone and not circuit.is_gone:
            log.warning("the server at %s is back", self.addresses[number].url)
        self._watch(link, number)
        return seconds

    def _watch(self, link: Link, number: int) -> None:
        """Start a task that probes a server, if the server is left out."""
        if link.gate.watched and link.users and number not in link.watchers and link.gate.doors[number].circuit.is_open:
            link.watchers[number] = asyncio.create_task(self._watching(link, number), name="quitmt-watch")

    async def _watching(self, link: Link, number: int) -> None:
        circuit, message = link.gate.doors[number].circuit, self._probe_message()
        while circuit.is_open:
            await self._sleep(min(circuit.delay(self._clock()), self._policy.pause_ceiling_seconds))
            with suppress(Refused):
                await self._attempt(link, link.gate.admit_probe(number), message)
        link.watchers.pop(number, None)

    async def _back_off(self, link: Link, tries: Tries, number: int, trouble: Trouble) -> None:
        """Wait until the request may be sent again, or raise the reason for giving up."""
        now, patience, gate = link.gate.present_seconds(), self._policy.patience_seconds, link.gate
        if not tries.failures:
            tries.first_failed = now
            link.in_trouble.add(tries)
        if not tries.failed[number] and trouble.wait_seconds <= patience:
            gate.hold(number, trouble.wait_seconds)
        tries.failures += 1
        tries.failed[number] += 1
        elapsed = now - tries.first_failed
        left = patience - elapsed
        if gate.given_up:
            raise link.given_up(())
        if left <= 0:
            raise trouble.error(f"{tries.failures} times in {elapsed:.0f} s" if tries.failures > 1 else "once")
        if gate.has_other(number, tries.failed, tries.refused):
            return
        if trouble.wait_seconds > left:
            reason = f"{trouble.reason}, and asks to wait {trouble.wait_seconds:.0f} seconds"
            raise GenerationError(reason, hint=f"the patience is {patience:g} s: raise it, or try again later")
        doubled = self._policy.backoff_seconds * 2 ** min(tries.failed[number] - 1, 30)
        wait = trouble.wait_seconds + self._jitter(min(self._policy.backoff_ceiling_seconds, doubled))
        await self._sleep(min(wait, left))

    async def _send(self, session: aiohttp.ClientSession, address: Address, message: Outgoing[T]) -> T | Trouble:
        import aiohttp

        self.tally["sent"] += 1
        url = address.url
        try:
            async with session.post(
                url + message.path,
                data=message.body,
                headers=address.headers,
                proxy=address.proxy,
                allow_redirects=False,
            ) as response:
                try:
                    return await self._parse(response, address, message)
                except Unusable as error:
                    response.close()
                    return failures.unusable(url, str(error))
        except aiohttp.ConnectionTimeoutError:
            return failures.unreached(url)
        except TimeoutError:
            return failures.stalled(url, self._timeout)
        except (aiohttp.ClientError, OSError, UnicodeError) as error:  # UnicodeError: an invalid host name
            return failures.unreached(url, error)

    async def _parse(self, response: aiohttp.ClientResponse, address: Address, message: Outgoing[T]) -> T | Trouble:
        status, headers = response.status, response.headers
        if status == 200 and "html" not in headers.get("Content-Type", ""):
            return message.read(parsed(await read_body(response, message.limit)))
        error = address.message_in(await read_beginning(response))
        if not (status in (408, 409, 429) or status >= 500):
            raise Refused(status, error, address)
        return failures.refused_for_now(address.url, status, error, headers.get("Retry-After"))

    def _link(self) -> Link:
        loop = asyncio.get_running_loop()
        link = self._links.get(loop)
        if link is None:
            # With other servers available a false alarm costs little, so one failing sender is enough.
            policy = replace(self._policy, senders=1) if self.several else self._policy
            gate = Gate(self._concurrency, policy, self._sleep, self._clock, len(self.addresses))
            gate.watched = self.several and self.probe is not None
            link = self._links[loop] = Link(gate)
            for number in self._known:
                gate.doors[number].circuit.known = True
        return link

    def _session(self, link: Link) -> aiohttp.ClientSession:
        import aiohttp

        if link.session is None:
            if not link.users:
                raise RuntimeError("post outside of connected")
            link.session = aiohttp.ClientSession(
                # the gate limits the connections
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_SECONDS),
                timeout=aiohttp.ClientTimeout(total=self._timeout, connect=min(CONNECT_SECONDS, self._timeout)),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
            )
        return link.session
