"""What a client is told when a request cannot be done: a status, one sentence, and perhaps when to come back.

Each API has its own shape for it (``Shape``); no other exception than these is meant to reach a client.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from aiohttp import web

from quitmt.errors import QuitmtError
from quitmt.files.durable import writable


class Refusal(QuitmtError):
    """``kind`` is a word that a program can go by."""

    def __init__(self, status: int, kind: str, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status, self.kind = status, kind
        self.retry_after = None if retry_after is None else max(1, round(retry_after))


Shape = Callable[[Refusal, str], Any]
"""From a refusal and the request's id to the body of an answer, in an API's own shape."""


def bad(message: str, kind: str = "bad_request") -> Refusal:
    return Refusal(400, kind, message)


def plain(refusal: Refusal, request_id: str) -> dict[str, Any]:
    """The shape of the native API, and of everything that has none of its own."""
    return {"error": {"code": refusal.kind, "message": str(refusal), "request_id": request_id}}


def answer(body: Any, *, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    """JSON that any client can read, whatever text is in it."""
    text = writable(json.dumps(body, ensure_ascii=False, allow_nan=False))
    return web.Response(text=text, status=status, headers=headers, content_type="application/json")


def refused(refusal: Refusal, shape: Shape, request_id: str) -> web.Response:
    headers = {} if refusal.retry_after is None else {"Retry-After": str(refusal.retry_after)}
    if refusal.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return answer(shape(refusal, request_id), status=refusal.status, headers=headers)
