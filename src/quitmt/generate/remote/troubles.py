"""What can go wrong with one attempt, in words."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from quitmt.errors import GenerationError, setting
from quitmt.generate.remote.pacing import Sign

_RESULTS = {429: Sign.OVERLOADED, 502: Sign.AWAY, 503: Sign.AWAY, 504: Sign.AWAY}
_CHECK_ADDRESS = f"is the server running, and is {setting('model.options.base_url')} right?"
_SEE_LOG = "the server's log may say more"


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why an attempt failed."""

    kind: str
    result: Sign
    reason: str
    hint: str
    wait_seconds: float = 0.0
    """What the server asked for."""

    def error(self, how_often: str | None = None) -> GenerationError:
        return GenerationError(f"{self.reason} ({how_often})" if how_often else self.reason, hint=self.hint)


def unreached(url: str, error: BaseException | None = None) -> Trouble:
    said = "no connection in time" if error is None else _said_by(error)
    return Trouble("dropped", Sign.UNREACHED, f"cannot reach the server at {url}: {said}", _CHECK_ADDRESS)


def stalled(url: str, seconds: float) -> Trouble:
    reason = f"no answer from the server at {url} within {seconds:g} seconds"
    return Trouble("time-out", Sign.STALLED, reason, "raise the time-out or lower the concurrency")


def unusable(url: str, what: str) -> Trouble:
    return Trouble("unusable", Sign.BAD, f"the answer of the server at {url} {what}", _SEE_LOG)


def refused_for_now(url: str, status: int, message: str, retry_after: str | None) -> Trouble:
    reason = f"the server at {url} answers {status}" + (f": {message}" if message else "")
    hint = f"{_SEE_LOG}; if it is too busy, lower the concurrency"
    return Trouble(str(status), _RESULTS.get(status, Sign.BAD), reason, hint, _wait_seconds(retry_after))


def refusing(url: str, status: int, message: str) -> Trouble:
    """Of one of several servers: the others may not."""
    said = f": {message}" if message else ""
    return Trouble(str(status), Sign.REFUSING, f"the server at {url} answers {status}{said}", _CHECK_ADDRESS)


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
    except (ValueError, OverflowError):
        return 0.0
    return max(0.0, (moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
