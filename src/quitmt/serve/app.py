"""The pieces put together: endpoints, operations, the page, and what holds for every answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from quitmt.serve import deepl, libretranslate, native, openai, page
from quitmt.serve.connections import Connection
from quitmt.serve.description import describe
from quitmt.serve.refusals import Refusal, answer, plain, refused
from quitmt.serve.server import ID, NATIVE, OPERATIONS, Endpoint, Exchange, Server

Next = Callable[[web.Request], Awaitable[web.StreamResponse]]
METHODS = "GET, POST, OPTIONS"
CORS = web.AppKey("cors", tuple)
HEADERS = "Authorization, Content-Type, X-Api-Key, X-Request-Id"


async def health(server: Server, exchange: Exchange) -> web.StreamResponse:
    """The process answers. Whether it can translate is what /ready says."""
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
    Endpoint("GET", "/health", health, OPERATIONS, "Whether the process answers.", open=True),
    Endpoint("GET", "/ready", ready, OPERATIONS, "Whether it can translate.", open=True),
    Endpoint("GET", "/metrics", metrics, OPERATIONS, "Figures for Prometheus."),
    Endpoint("GET", "/openapi.json", description, NATIVE, "This description."),
)


def application(server: Server, *, cors: tuple[str, ...] = ()) -> web.Application:
    made = web.Application(client_max_size=server.limits.body_bytes, middlewares=[_outermost])
    made[CORS] = cors
    made.on_response_prepare.append(_complete)
    for endpoint in ENDPOINTS:
        made.router.add_route(endpoint.method, endpoint.path, server.wrapped(endpoint))
    for path, handler in page.HANDLERS.items():
        made.router.add_get(path, handler)
    return made


@web.middleware
async def _outermost(request: web.Request, handler: Next) -> web.StreamResponse:
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
    """Also what is streamed."""
    response.headers.update(_allowed(request))
    response.headers["Server"] = "quitmt"
    response.headers.setdefault("X-Content-Type-Options", "nosniff")


def _allowed(request: web.Request) -> dict[str, str]:
    """The headers that let a page of another origin read an answer; none unless that was asked for."""
    cors, origin = request.app[CORS], request.headers.get("Origin")
    if not cors or origin is None or not (origin in cors or "*" in cors):
        return {}
    exposed = f"Retry-After, {ID}"
    return {"Access-Control-Allow-Origin": origin, "Access-Control-Expose-Headers": exposed, "Vary": "Origin"}


def _refused(error: web.HTTPException) -> web.Response:
    """What aiohttp itself refuses: paths and methods that do not exist."""
    told = {404: "there is nothing at this path", 405: f"this path does not take {getattr(error, 'method', 'that')}"}
    message = f"{told.get(error.status, error.reason)}; /openapi.json says what there is"
    response = refused(Refusal(error.status, error.reason.lower().replace(" ", "_"), message), plain, "")
    if "Allow" in error.headers:
        response.headers["Allow"] = error.headers["Allow"]
    return response
