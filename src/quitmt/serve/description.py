"""The OpenAPI description, generated from the endpoints and the models of their bodies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel

from quitmt._version import __version__
from quitmt.serve.server import Endpoint

ERRORS = {
    "400": "The request is invalid; the message says why.",
    "401": "The key is missing or wrong.",
    "403": "The key is missing or wrong.",
    "404": "The model doesn't exist.",
    "413": "The request exceeds a limit of this server.",
    "429": "The queue is full; try again after Retry-After seconds.",
    "502": "The model failed.",
    "503": "The server isn't ready, or the time ran out; try again after Retry-After seconds.",
}


def describe(endpoints: Iterable[Endpoint], *, keys: bool) -> dict[str, Any]:
    schemas: dict[str, Any] = {}
    paths: dict[str, Any] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint, schemas, keys=keys)
    description: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "quitmt",
            "version": __version__,
            "description": "Translates by sampling and reranking candidates, and stops as soon as more candidates are "
            "unlikely to change the result. Clients can use the native API or those of LibreTranslate, DeepL, OpenAI "
            "and NeMo Curator.",
        },
        "paths": paths,
        "components": {"schemas": schemas},
    }
    if keys:
        description["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    return description


def _operation(endpoint: Endpoint, schemas: dict[str, Any], *, keys: bool) -> dict[str, Any]:
    name = endpoint.path.strip("/").replace("/", "_").replace("{", "").replace("}", "") or "page"
    operation: dict[str, Any] = {
        "operationId": f"{endpoint.method.lower()}_{name}",
        "summary": endpoint.summary,
        "tags": [endpoint.api.name],
        "responses": {"200": _answer(endpoint, schemas), **_errors(endpoint)},
    }
    if endpoint.parameters:
        operation["parameters"] = list(endpoint.parameters)
    if endpoint.bodies:
        known = [_schema(body, endpoint.api.name, schemas) for body in endpoint.bodies]
        content = {"application/json": {"schema": known[0] if len(known) == 1 else {"anyOf": known}}}
        operation["requestBody"] = {"required": True, "content": content}
    if keys and not endpoint.open:
        operation["security"] = [{"key": []}]
    return operation


def _answer(endpoint: Endpoint, schemas: dict[str, Any]) -> dict[str, Any]:
    if endpoint.answer is None:
        return {"description": "A response in the shape of this API."}
    schema = _schema(endpoint.answer, endpoint.api.name, schemas)
    content = {"application/json": {"schema": schema}, "text/event-stream": {}}
    return {"description": "The translations; with stream, server-sent events.", "content": content}


def _errors(endpoint: Endpoint) -> dict[str, Any]:
    """The errors that an endpoint may respond with."""
    statuses = {400, 413, 429, 502, 503} if endpoint.bodies else {400, 503} if endpoint.parameters else {503}
    statuses |= {*endpoint.errors} if endpoint.open else {*endpoint.errors, endpoint.api.denied}
    headers = {"Retry-After": {"schema": {"type": "integer", "minimum": 1}}}
    return {
        status: {"description": ERRORS[status], **({"headers": headers} if status in ("429", "503") else {})}
        for status in map(str, sorted(statuses))
    }


def _schema(model: type[BaseModel], api: str, schemas: dict[str, Any]) -> dict[str, Any]:
    """Adds a model to the components under its API's name, because several APIs may use the same model name."""

    def named(name: str) -> str:
        return f"{api}.{name}"

    schema = model.model_json_schema(ref_template=f"#/components/schemas/{named('{model}')}")
    for name, part in schema.pop("$defs", {}).items():
        schemas[named(name)] = part
    schemas[named(model.__name__)] = schema
    return {"$ref": f"#/components/schemas/{named(model.__name__)}"}
