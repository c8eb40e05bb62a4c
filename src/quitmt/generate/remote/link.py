"""What a client keeps: of each event loop, of each request, and what it says of servers that give nothing good."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from quitmt.errors import GenerationError
from quitmt.generate.remote.address import Address
from quitmt.generate.remote.pacing import Gate
from quitmt.generate.remote.troubles import Trouble

if TYPE_CHECKING:
    import aiohttp

T = TypeVar("T")
Read = Callable[[Any], T]
QUIET_SECONDS = 1.0
"""Nothing good must have come for this long before anybody is said to wait."""
NAMED = 3
"""Servers of which it is said what is wrong, if there are many."""


class Refused(GenerationError):
    """The server was reached and does not want this request; to send it again would change nothing."""

    def __init__(self, status: int, message: str, address: Address) -> None:
        super().__init__(f"the server answers {status}: {message}" if message else f"the server answers {status}")
        self.status = status
        self.message = message
        self.address = address

    @property
    def is_final(self) -> bool:
        """Whether it would be said to any request: about the key, the address or the model, not about this one."""
        return self.status in (401, 403, 404, 405) or self.status < 400


@dataclass(frozen=True, slots=True)
class Reply(Generic[T]):
    value: T
    seconds: float
    """The request's share of the time that all requests took."""


@dataclass(frozen=True, slots=True)
class Outgoing(Generic[T]):
    """What is sent, and how its answer is read."""

    path: str
    body: bytes
    read: Read[T]
    limit: int


@dataclass(eq=False, slots=True)
class Tries:
    """What was tried for one ``post``, in the time of a clock that stands still while no server is there."""

    sender: Hashable
    failures: int = 0
    failed: Counter[int] = field(default_factory=Counter)
    """By server."""
    refused: dict[int, Refused] = field(default_factory=dict)
    """By servers that refuse everything; others may not."""
    first_failed: float = 0.0


class Link:
    """What belongs to one event loop."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.users = 0
        self.session: aiohttp.ClientSession | None = None
        self.troubles: list[Trouble | None] = [None] * len(gate.doors)
        """Of each server the last one, if nothing good came since."""
        self.in_trouble: set[Tries] = set()
        self.watchers: dict[int, asyncio.Task[None]] = {}
        """Who finds out whether a server that is left out is back."""

    def given_up(self, without: Collection[int]) -> GenerationError:
        """Why nothing is tried any more."""
        troubles = [one for number, one in enumerate(self.troubles) if one is not None and number not in without]
        assert troubles, "there is no giving up without a reason"
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
