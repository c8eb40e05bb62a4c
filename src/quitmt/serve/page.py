"""The page for people, at ``/``: three files of this package, and nothing from anywhere else."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from importlib.resources import files

from aiohttp import web

FILES = {
    "/": ("index.html", "text/html"),
    "/page.js": ("page.js", "text/javascript"),
    "/page.css": ("page.css", "text/css"),
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def _handler(name: str, kind: str) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    body = (files("quitmt.serve") / "web" / name).read_bytes()
    tag = f'"{hashlib.blake2b(body, digest_size=8).hexdigest()}"'
    headers = {
        "Content-Security-Policy": POLICY,
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-cache",
        "ETag": tag,
    }

    async def handle(request: web.Request) -> web.StreamResponse:
        if request.headers.get("If-None-Match") == tag:
            return web.Response(status=304, headers=headers)
        return web.Response(body=body, content_type=kind, charset="utf-8", headers=headers)

    return handle


HANDLERS = {path: _handler(*file) for path, file in FILES.items()}
