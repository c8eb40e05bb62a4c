"""Errors that clients receive: an HTTP status, one sentence, and possibly when to try again.

Each API has its own ``Shape`` for them. No other exception is meant to reach a client.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from aiohttp import web

from quitmt.errors import QuitmtError
from quitmt.files.durable import writable


class Refusal(QuitmtError):
    """``kind`` is a machine-readable word."""

    def __init__(self, status: int, kind: str, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status, self.kind = status, kind
        self.retry_after = None if retry_after is None else max(1, round(retry_after))


Shape = Callable[[Refusal, str], Any]
"""Makes the body of an error response, in the shape of an API, from a refusal and the request's id."""


def bad(message: str, kind: str = "bad_request") -> Refusal:
    return Refusal(400, kind, message)


def internal_error() -> Refusal:
    return Refusal(500, "internal_error", "internal server error; the request itself may be fine")


def plain(refusal: Refusal, request_id: str) -> dict[str, Any]:
    """The shape of the native API and of endpoints outside all APIs."""
    return {"error": {"code": refusal.kind, "message": str(refusal), "request_id": request_id}}


def answer(body: Any, *, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    """A response with JSON that any client can read, whatever the texts contain."""
    return web.Response(text=to_json(body), status=status, headers=headers, content_type="application/json")


def refused(refusal: Refusal, shape: Shape, request_id: str) -> web.Response:
    headers = {} if refusal.retry_after is None else {"Retry-After": str(refusal.retry_after)}
    if refusal.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return answer(shape(refusal, request_id), status=refusal.status, headers=headers)


def to_json(value: Any) -> str:
    return writable(json.dumps(value, ensure_ascii=False, allow_nan=False))
