"""How much is taken on. Beyond it a client is told at once to come back later, and when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from quitmt.engine.session import Session
from quitmt.errors import UsageError
from quitmt.serve.refusals import Refusal

PATIENCE = 0.8
"""The share of a deadline that a request may be expected to wait: then there is time for a few candidates."""
LONGEST_WAIT = 60.0
"""Seconds that a client is told to wait at most: rates change."""
_COUNTS = (
    "waiting", "waiting_characters", "text_characters", "texts", "nbest", "body_bytes", "fields", "connections",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Limits:
    """Every number is refused beyond, never rounded down in silence."""

    deadline: float | None = 8.0
    """Seconds for a request, and the most that it may ask for: clients wait at least 10. None is no deadline."""
    waiting: int = 256
    """Sentences that wait for a slot, of one language pair."""
    waiting_characters: int = 100_000
    text_characters: int = 50_000
    """Of all texts of a request."""
    texts: int = 128
    nbest: int = 32
    body_bytes: int = 1 << 20
    fields: int = 1024
    """Fields of a form."""
    connections: int = 512
    """Open connections. Beyond it, a new one replaces the one that was idle longest."""
    header_seconds: float = 10.0
    """For a new connection to send the headers of its first request, and for any later headers to be complete."""
    body_seconds: float = 30.0
    idle_seconds: float = 75.0
    """For a connection that is kept alive to send its next request."""
    write_seconds: float = 30.0
    """For a client that has stopped reading its answer to go on."""

    def __post_init__(self) -> None:
        for name in _COUNTS:
            if getattr(self, name) < 1:
                raise UsageError(f"the limit {name} must be at least 1, not {getattr(self, name)}")
        if self.deadline is not None and not 0 < self.deadline <= 86_400:
            raise UsageError(f"the deadline must be above 0 and at most a day, not {self.deadline:g} s")

    def check_texts(self, texts: list[str]) -> None:
        if len(texts) > self.texts:
            raise Refusal(413, "too_many_texts", f"{len(texts)} texts are more than {self.texts} a request")
        total = sum(map(len, texts))
        if total > self.text_characters:
            told = f"{total} characters are more than {self.text_characters} a request"
            raise Refusal(413, "too_long", f"{told}; send it in parts")

    def deadline_of(self, asked: float | None) -> float | None:
        if asked is None:
            return self.deadline
        if not asked > 0 or (self.deadline is not None and asked > self.deadline):
            most = "" if self.deadline is None else f" and at most {self.deadline:g}"
            raise Refusal(400, "out_of_range", f"deadline must be above 0{most} seconds, not {asked:g}")
        return asked

    def admit(self, session: Session, sentences: int, characters: int, deadline: float | None) -> None:
        """Refuse what would have to wait too long, before any of it is begun."""
        if sentences > self.waiting or characters > self.waiting_characters:
            told = f"{sentences} sentences with {characters} characters are more than {self.waiting} with "
            raise Refusal(413, "too_long", f"{told}{self.waiting_characters} a request; send them in parts")
        queue = session.waiting
        if (
            queue.segments + sentences > self.waiting + session.free
            or queue.characters + characters > self.waiting_characters
        ):
            told = f"{queue.segments} sentences are waiting already; come back later"
            raise Refusal(429, "queue_full", told, retry_after=later(session))
        wait = session.seconds_to_begin
        if deadline is not None and wait > PATIENCE * deadline:
            told = f"it would be begun in {wait:.0f} s, and its deadline is {deadline:g} s; come back later"
            raise Refusal(429, "queue_full", told, retry_after=later(session))


def later(session: Session) -> float:
    """Seconds until what waits now is done, by the rate at which it goes."""
    return min(LONGEST_WAIT, max(1.0, session.seconds_to_clear))


def described(limits: Limits) -> dict[str, Any]:
    """For clients."""
    return {
        "deadline": limits.deadline,
        "text_characters": limits.text_characters,
        "texts": limits.texts,
        "nbest": limits.nbest,
        "sentences": limits.waiting,
    }
