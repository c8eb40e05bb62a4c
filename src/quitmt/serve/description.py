"""The OpenAPI description, made from the endpoints and from the models that read what they are sent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel

from quitmt._version import __version__
from quitmt.serve import nemo
from quitmt.serve.server import Endpoint

ERRORS = {
    "400": "What was sent cannot be used; the message says why.",
    "401": "A key is missing or wrong.",
    "403": "A key is missing or wrong.",
    "404": "There is no such model.",
    "413": "It is longer than this server takes at once.",
    "429": "Too much is waiting; come back after Retry-After seconds.",
    "502": "The model failed.",
    "503": "Not ready, or there was no time; come back after Retry-After seconds.",
}
_REFERENCE = "#/components/schemas/{model}"


def describe(endpoints: Iterable[Endpoint], *, keys: bool) -> dict[str, Any]:
    schemas: dict[str, Any] = {}
    paths: dict[str, Any] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint, schemas, keys=keys)
    found: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "quitmt",
            "version": __version__,
            "description": "Translations by sampling and reranking, which stop as soon as more candidates would not "
            "help. The same engine behind the APIs of LibreTranslate, DeepL, OpenAI and NeMo Curator, and one of its "
            "own.",
        },
        "paths": paths,
        "components": {"schemas": schemas},
    }
    if keys:
        found["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    return found


def _operation(endpoint: Endpoint, schemas: dict[str, Any], *, keys: bool) -> dict[str, Any]:
    name = endpoint.path.strip("/").replace("/", "_").replace("{", "").replace("}", "") or "page"
    found: dict[str, Any] = {
        "operationId": f"{endpoint.method.lower()}_{name}",
        "summary": endpoint.summary,
        "tags": [endpoint.api.name],
        "responses": {"200": _answer(endpoint, schemas), **_errors(endpoint)},
    }
    if endpoint.parameters:
        found["parameters"] = list(endpoint.parameters)
    if endpoint.body is not None:
        schema = _schema(endpoint.body, endpoint.api.name, schemas)
        if endpoint.path == "/translate":
            schema = {"anyOf": [schema, _schema(nemo.NemoBody, "nemo", schemas)]}
        content = {"application/json": {"schema": schema}}
        found["requestBody"] = {"required": True, "content": content}
    if keys and not endpoint.open:
        found["security"] = [{"key": []}]
    return found


def _answer(endpoint: Endpoint, schemas: dict[str, Any]) -> dict[str, Any]:
    if endpoint.answer is None:
        return {"description": "As that API answers."}
    schema = _schema(endpoint.answer, endpoint.api.name, schemas)
    content = {"application/json": {"schema": schema}, "text/event-stream": {}}
    return {"description": "The translations; with stream, server-sent events.", "content": content}


def _errors(endpoint: Endpoint) -> dict[str, Any]:
    """All that an endpoint may answer with."""
    wanted = ["400", "413", "429", "502", "503"] if endpoint.body else ["503"]
    wanted += [] if endpoint.open else [str(endpoint.api.denied)]
    if endpoint.api.name == "openai":
        wanted.append("404")
    if endpoint.parameters and "400" not in wanted:
        wanted.append("400")
    headers = {"Retry-After": {"schema": {"type": "integer", "minimum": 1}}}
    return {
        status: {"description": ERRORS[status], **({"headers": headers} if status in ("429", "503") else {})}
        for status in sorted(wanted)
    }


def _schema(model: type[BaseModel], api: str, schemas: dict[str, Any]) -> dict[str, Any]:
    """Its schema goes among the components, by the API's name and its own: several may have the same."""

    def named(name: str) -> str:
        return f"{api}.{name}"

    found = model.model_json_schema(ref_template=f"#/components/schemas/{named('{model}')}")
    for name, part in found.pop("$defs", {}).items():
        schemas[named(name)] = part
    schemas[named(model.__name__)] = found
    return {"$ref": _REFERENCE.format(model=named(model.__name__))}
