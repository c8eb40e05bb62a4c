"""Builds the web application: the endpoints of all APIs, the operations, the page, and headers for every response.

A new API needs its own module and one entry in ``ENDPOINTS``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path
from typing import Any

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from quitmt.serve import deepl, libretranslate, native, openai
from quitmt.serve.connections import Connection
from quitmt.serve.description import describe
from quitmt.serve.refusals import Refusal, answer, plain, refused
from quitmt.serve.server import ID, NATIVE, OPERATIONS, Endpoint, Exchange, Server

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
METHODS = "GET, POST, OPTIONS"
CORS = web.AppKey("cors", tuple)
HEADERS = "Authorization, Content-Type, X-Api-Key, X-Request-Id"
PAGE = {
    "/": ("index.html", "text/html"),
    "/page.js": ("page.js", "text/javascript"),
    "/page.css": ("page.css", "text/css"),
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


async def health(server: Server, exchange: Exchange) -> web.StreamResponse:
    """Shows that the process answers; /ready shows whether it can translate."""
    return answer({"status": "ok"})


async def ready(server: Server, exchange: Exchange) -> web.StreamResponse:
    server.check_open()
    return answer({"status": "ready"})


async def metrics(server: Server, exchange: Exchange) -> web.StreamResponse:
    return web.Response(body=server.metrics.text(), headers={"Content-Type": CONTENT_TYPE_LATEST})


async def description(server: Server, exchange: Exchange) -> web.StreamResponse:
    return answer(_described(bool(server.keys)))


@cache
def _described(keys: bool) -> dict[str, Any]:
    return describe(ENDPOINTS, keys=keys)


ENDPOINTS = (
    *native.ENDPOINTS,
    *libretranslate.ENDPOINTS,
    *deepl.ENDPOINTS,
    *openai.ENDPOINTS,
    Endpoint("GET", "/health", health, OPERATIONS, "Check whether the process answers.", open=True),
    Endpoint("GET", "/ready", ready, OPERATIONS, "Check whether the server can translate.", open=True),
    Endpoint("GET", "/metrics", metrics, OPERATIONS, "Metrics for Prometheus."),
    Endpoint("GET", "/openapi.json", description, NATIVE, "This description."),
)


def application(server: Server, *, cors: tuple[str, ...] = ()) -> web.Application:
    made = web.Application(client_max_size=server.limits.body_bytes, middlewares=[_outermost])
    made[CORS] = cors
    made.on_response_prepare.append(_complete)
    for endpoint in ENDPOINTS:
        made.router.add_route(endpoint.method, endpoint.path, server.wrapped(endpoint))
    for path, file in PAGE.items():
        made.router.add_get(path, _page(*file))
    return made


def _page(name: str, kind: str) -> Handler:
    headers = {"Content-Security-Policy": POLICY, "Referrer-Policy": "no-referrer"}
    headers |= {"Cache-Control": "no-cache", "Content-Type": f"{kind}; charset=utf-8"}

    async def handle(request: web.Request) -> web.StreamResponse:
        return web.FileResponse(Path(__file__).with_name("web") / name, headers=headers)

    return handle


@web.middleware
async def _outermost(request: web.Request, handler: Handler) -> web.StreamResponse:
    if request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers and _allowed(request):
        headers = {"Access-Control-Allow-Methods": METHODS, "Access-Control-Allow-Headers": HEADERS}
        return web.Response(status=204, headers=headers | {"Access-Control-Max-Age": "600"})
    connection = request.protocol
    assert isinstance(connection, Connection)
    connection.begin()
    try:
        return await handler(request)
    except web.HTTPException as error:
        return _refused(error)


async def _complete(request: web.Request, response: web.StreamResponse) -> None:
    """Adds the common headers to every response, including streams."""
    response.headers.update(_allowed(request))
    response.headers["Server"] = "quitmt"
    response.headers.setdefault("X-Content-Type-Options", "nosniff")


def _allowed(request: web.Request) -> dict[str, str]:
    """Headers that let a page of another origin read the response; empty unless ``--cors`` allows that origin."""
    cors, origin = request.app[CORS], request.headers.get("Origin")
    if not cors or origin is None or not (origin in cors or "*" in cors):
        return {}
    exposed = f"Retry-After, {ID}"
    return {"Access-Control-Allow-Origin": origin, "Access-Control-Expose-Headers": exposed, "Vary": "Origin"}


def _refused(error: web.HTTPException) -> web.Response:
    """Answers requests that aiohttp itself refuses: unknown paths and methods."""
    kind = error.reason.lower().replace(" ", "_")
    response = refused(Refusal(error.status, kind, f"{error.reason}; see /openapi.json"), plain, "")
    if "Allow" in error.headers:
        response.headers["Allow"] = error.headers["Allow"]
    return response
