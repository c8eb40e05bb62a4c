"""Limits on the server's load. A request beyond them is refused at once, with the time to try again."""

from __future__ import annotations

from dataclasses import dataclass

from quitmt.engine.session import Session
from quitmt.errors import UsageError
from quitmt.serve.refusals import Refusal

PATIENCE = 0.8
"""Maximum expected wait as a share of the deadline, so that some time is left for candidates."""
LONGEST_WAIT = 60.0
"""Maximum ``Retry-After`` in seconds, because rates change."""
_COUNTS = (
    "waiting", "waiting_characters", "text_characters", "texts", "nbest", "body_bytes", "fields", "connections",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of requests. Larger values are refused, never silently reduced."""

    deadline: float | None = 8.0
    """Default and maximum seconds per request; None means no deadline. The default fits clients, which wait at least 10
    s."""
    waiting: int = 256
    """Maximum queued sentences per language pair."""
    waiting_characters: int = 100_000
    text_characters: int = 50_000
    """Maximum characters in all texts of a request."""
    texts: int = 128
    nbest: int = 32
    body_bytes: int = 1 << 20
    fields: int = 1024
    """Maximum fields in a form."""
    connections: int = 512
    """Maximum open connections. Beyond it, a new one replaces the one that has been idle longest."""
    header_seconds: float = 10.0
    """Time for a client to send the headers of a request."""
    body_seconds: float = 30.0
    idle_seconds: float = 75.0
    """Time for a kept-alive connection to send its next request."""
    write_seconds: float = 30.0
    """Time for a client that has stopped reading its response to continue."""

    def __post_init__(self) -> None:
        for name in _COUNTS:
            if getattr(self, name) < 1:
                raise UsageError(f"the limit {name} must be at least 1, not {getattr(self, name)}")
        if self.deadline is not None and not 0 < self.deadline <= 86_400:
            raise UsageError(f"the deadline must be above 0 and at most a day, not {self.deadline:g} s")

    def check_texts(self, texts: list[str]) -> None:
        if len(texts) > self.texts:
            raise Refusal(
                413, "too_many_texts", f"{len(texts)} texts are more than the {self.texts} allowed per request"
            )
        total = sum(map(len, texts))
        if total > self.text_characters:
            message = f"{total} characters are more than the {self.text_characters} allowed per request"
            raise Refusal(413, "too_long", f"{message}; send the text in parts")

    def deadline_of(self, requested: float | None) -> float | None:
        if requested is None:
            return self.deadline
        if not requested > 0 or (self.deadline is not None and requested > self.deadline):
            most = "" if self.deadline is None else f" and at most {self.deadline:g}"
            raise Refusal(400, "out_of_range", f"deadline must be above 0{most} seconds, not {requested:g}")
        return requested

    def admit(self, session: Session, sentences: int, characters: int, deadline: float | None) -> None:
        """Refuses work that would have to wait too long, before any of it begins."""
        if sentences > self.waiting or characters > self.waiting_characters:
            message = f"{sentences} sentences with {characters} characters are more than the {self.waiting} with "
            raise Refusal(
                413, "too_long", f"{message}{self.waiting_characters} allowed per request; send them in parts"
            )
        queue = session.waiting
        if (
            queue.segments + sentences > self.waiting + session.free
            or queue.characters + characters > self.waiting_characters
        ):
            message = f"{queue.segments} sentences are already waiting; try again later"
            raise Refusal(429, "queue_full", message, retry_after=later(session))
        wait = session.seconds_to_begin
        if deadline is not None and wait > PATIENCE * deadline:
            message = f"translation would begin in {wait:.0f} s, but the deadline is {deadline:g} s; try again later"
            raise Refusal(429, "queue_full", message, retry_after=later(session))


def later(session: Session) -> float:
    """Estimated seconds until the current queue is done."""
    return min(LONGEST_WAIT, max(1.0, session.seconds_to_clear))
