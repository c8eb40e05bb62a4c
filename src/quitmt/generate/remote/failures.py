"""What can go wrong with requests: errors, the state that a client keeps about them, and messages for users."""

from __future__ import annotations

import asyncio
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from quitmt.errors import GenerationError, ModelError, QuitmtError, UsageError, setting
from quitmt.generate.remote.limits import Sign
from quitmt.generate.remote.pacing import Gate
from quitmt.generate.remote.transport import Address
from quitmt.sampling import Sampling
from quitmt.types import Segment

if TYPE_CHECKING:
    import aiohttp

_SIGNS = {429: Sign.OVERLOADED, 502: Sign.AWAY, 503: Sign.AWAY, 504: Sign.AWAY}
_CHECK_ADDRESS = f"is the server running, and is {setting('model.options.base_url')} right?"
_SEE_LOG = "the server's log may say more"


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why an attempt failed, and the hint for the user."""

    kind: str
    sign: Sign
    reason: str
    hint: str
    wait_seconds: float = 0.0
    """The server's Retry-After."""

    def error(self, how_often: str | None = None) -> GenerationError:
        return GenerationError(f"{self.reason} ({how_often})" if how_often else self.reason, hint=self.hint)


def unreached(url: str, error: BaseException | None = None) -> Trouble:
    said = "no connection in time" if error is None else _said_by(error)
    return Trouble("dropped", Sign.UNREACHED, f"cannot reach the server at {url}: {said}", _CHECK_ADDRESS)


def stalled(url: str, seconds: float) -> Trouble:
    reason = f"no answer from the server at {url} within {seconds:g} seconds"
    return Trouble("timeout", Sign.STALLED, reason, "raise the timeout or lower the concurrency")


def unusable(url: str, what: str) -> Trouble:
    return Trouble("unusable", Sign.BAD, f"the answer of the server at {url} {what}", _SEE_LOG)


def refused_for_now(url: str, status: int, message: str, retry_after: str | None) -> Trouble:
    hint = f"{_SEE_LOG}; if it is too busy, lower the concurrency"
    sign = _SIGNS.get(status, Sign.BAD)
    return Trouble(str(status), sign, _answer(url, status, message), hint, _wait_seconds(retry_after))


def refusing(url: str, status: int, message: str) -> Trouble:
    """One of several servers refuses every request; the others may accept them."""
    return Trouble(str(status), Sign.REFUSING, _answer(url, status, message), _CHECK_ADDRESS)


def _answer(url: str, status: int, message: str) -> str:
    return f"the server at {url} answers {status}" + (f": {message}" if message else "")


def _said_by(error: BaseException) -> str:
    """Describes a connection error, in the system's words if possible; never quotes the request."""
    if (certificate := getattr(error, "certificate_error", None)) is not None:
        return f"its certificate is not trusted: {getattr(certificate, 'verify_message', 'it cannot be read')}"
    cause = getattr(error, "os_error", error)
    if isinstance(number := getattr(cause, "errno", None), int) and number > 0:
        return os.strerror(number)
    return getattr(cause, "strerror", None) or "the connection was dropped"


def _wait_seconds(retry_after: str | None) -> float:
    """The seconds in a Retry-After header, which holds a number or a date; 0 if it is neither.

    >>> _wait_seconds("1.5"), _wait_seconds("Wed, 21 Oct 2015 07:28:00 GMT"), _wait_seconds("soon")
    (1.5, 0.0, 0.0)
    """
    text = (retry_after or "").strip()
    if text.isascii() and text.replace(".", "", 1).isdigit():
        return float(text)
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return 0.0
    return max(0.0, (moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)).total_seconds())


T = TypeVar("T")
Read = Callable[[Any], T]
QUIET_SECONDS = 1.0
"""No good answer must have come for this long before ``waiting`` says anything."""
NAMED = 3
"""Maximum servers whose problems a message lists."""


class Refused(GenerationError):
    """The server was reached and refuses this request; a retry would not help."""

    def __init__(self, status: int, message: str, address: Address) -> None:
        super().__init__(f"the server answers {status}: {message}" if message else f"the server answers {status}")
        self.status = status
        self.message = message
        self.address = address

    @property
    def is_final(self) -> bool:
        """Whether any request would be refused: because of the key, the address or the model."""
        return self.status in (401, 403, 404, 405) or self.status < 400


@dataclass(frozen=True, slots=True)
class Reply(Generic[T]):
    value: T
    seconds: float
    """The request's share of the time that all requests took."""


@dataclass(frozen=True, slots=True)
class Outgoing(Generic[T]):
    """A request to send, and the parser of its answer."""

    path: str
    body: bytes
    read: Read[T]
    limit: int


@dataclass(eq=False, slots=True)
class Tries:
    """The attempts of one ``post``; its clock stops while all servers are away."""

    sender: Hashable
    failures: int = 0
    failed: Counter[int] = field(default_factory=Counter)
    """Failures per server."""
    refused: dict[int, Refused] = field(default_factory=dict)
    """Servers that refuse every request."""
    first_failed: float = 0.0


class Link:
    """A client's state in one event loop."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.users = 0
        self.session: aiohttp.ClientSession | None = None
        self.troubles: list[Trouble | None] = [None] * len(gate.doors)
        """Each server's last failure, unless a good answer followed."""
        self.in_trouble: set[Tries] = set()
        self.watchers: dict[int, asyncio.Task[None]] = {}
        """Tasks that probe the servers that are left out."""

    def given_up(self, without: Collection[int]) -> GenerationError:
        """The error for requests after all servers were given up."""
        troubles = [one for number, one in enumerate(self.troubles) if one is not None and number not in without]
        assert troubles, "gave up without a reason"
        if len(self.troubles) == 1:
            return troubles[0].error()
        return GenerationError(_none_of(troubles), hint=troubles[0].hint)

    def waiting(self, now: float, patience: float) -> str | None:
        troubles = [one for one in self.troubles if one is not None]
        circuits = [door.circuit for door in self.gate.doors]
        since = [one.failing_since for one in circuits if one.failing_since is not None]
        first = [tries.first_failed for tries in list(self.in_trouble)]
        if len(troubles) < len(circuits) or len(since) < len(circuits) or now - max(since) < QUIET_SECONDS:
            return None
        if all(one.is_open for one in circuits) and not self.gate.given_up:
            left = max(begun + one.patience for begun, one in zip(since, circuits, strict=True)) - now
        elif first:
            left = max(first) + patience - self.gate.present_seconds()
        else:
            return None
        reason = troubles[0].reason if len(troubles) == 1 else _none_of(troubles)
        return f"{reason}; trying again for {max(0.0, left):.0f} s more"


def _none_of(troubles: Sequence[Trouble]) -> str:
    more = ["…"] if len(troubles) > NAMED else []
    reasons = "; ".join([*(one.reason for one in troubles[:NAMED]), *more])
    return f"no server is left: {reasons}"


_TOO_LONG = re.compile("context (length|window|size)|too long|maximum.{0,60}(length|tokens)|exceed.{0,60}token", re.I)
_NO_MODEL = re.compile("model.{0,60}(not found|not exist|unknown|not available)|unknown model", re.I)
"""Phrases that servers use."""


def explained(refused: Refused, path: str, model: str, sampling: Sampling, segment: Segment) -> QuitmtError:
    """The meaning of a refusal for the user: one sentence and a hint."""
    status, message, address = refused.status, refused.message, refused.address
    if status in (401, 403):
        wrong = "refuses the key in OPENAI_API_KEY" if address.has_key else "requires a key"
        return UsageError(f"the server at {address.url} {wrong}", hint="set OPENAI_API_KEY to a key of that server")
    if status in (404, 405):
        return _not_found(message, address, path, model)
    if status < 400:
        what = "answers with a web page" if status == 200 else "redirects to another address"
        return UsageError(
            f"the server at {address.url} {what}",
            hint=f"{setting('model.options.base_url')} looks like http://localhost:8000/v1",
        )
    letters = "".join(filter(str.isalpha, message.lower()))  # servers write top_k, top-k and topK
    for name, requested in (("top-k", sampling.top_k), ("min-p", sampling.min_p)):
        if requested is not None and name.replace("-", "") in letters:
            return UsageError(f"the server at {address.url} cannot sample with {name}: {message}", hint="leave it out")
    if _TOO_LONG.search(message) or status == 413:
        fewer = f"lower {setting('model.options.max_tokens')}"
        hint = f"split it, shorten its context, {fewer} or give the server a longer context"
        return GenerationError(f"segment {segment.id} is too long for {model}: {message}", hint=hint)
    if _NO_MODEL.search(message):
        return _not_found(message, address, path, model)
    reason = f"segment {segment.id}: {_answer(address.url, status, message)}"
    return GenerationError(reason, hint=f"fix the problem it names; {_SEE_LOG}")


def _not_found(message: str, address: Address, path: str, model: str) -> QuitmtError:
    if "model" in message.lower() or (model and model in message):
        hint = f"use one of those listed at {address.url}/models"
        return ModelError(f"the server at {address.url} does not know the model {model!r}", hint=hint)
    return UsageError(
        f"the server at {address.url} has no {path}", hint=f"{setting('model.options.base_url')} usually ends in /v1"
    )
