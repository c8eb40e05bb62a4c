"""Reads request bodies (JSON or URL-encoded forms) within size and time limits. A pydantic model checks the fields."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qsl

from aiohttp import web
from aiohttp.http import HttpProcessingError
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from quitmt.serve.limits import Limits
from quitmt.serve.refusals import Refusal, bad

FORM = "application/x-www-form-urlencoded"


class Body(BaseModel):
    """A body of a foreign API. Unknown fields are ignored, because clients may send more than we support."""

    model_config = ConfigDict(extra="ignore")


class StrictBody(BaseModel):
    """A body of the native API. Unknown fields are errors."""

    model_config = ConfigDict(extra="forbid", strict=True)


Model = TypeVar("Model", bound=BaseModel)
Texts = Annotated[list[str], Field(fail_fast=True)]
"""A long list is refused at its first mistake, because listing all of them would take seconds."""
Language = Annotated[str, Field(min_length=1, max_length=40)]
Seed = Annotated[int, Field(ge=-(1 << 63), lt=1 << 63)]
MOST_FIELDS = 256
"""Maximum fields of a JSON object, for the same reason."""


async def fields(request: web.Request, limits: Limits) -> dict[str, Any]:
    """Reads the fields of a body, which may be JSON or a form. A name that occurs several times in a form gives a list.

    A body that begins like a JSON object is read as JSON, because curl labels every body as a form.
    """
    try:
        async with asyncio.timeout(limits.body_seconds):
            raw = await request.read()
    except web.HTTPRequestEntityTooLarge:
        raise Refusal(413, "too_long", "the body exceeds this server's limit; send it in parts") from None
    except TimeoutError:
        raise Refusal(408, "timeout", f"the body didn't arrive within {limits.body_seconds:g} s") from None
    except (web.RequestPayloadError, HttpProcessingError):
        raise bad("the body doesn't match its headers") from None
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise Refusal(415, "unsupported_encoding", "this server doesn't read compressed bodies")
    if raw.lstrip().startswith(b"{"):
        return _from_json(raw)
    if request.content_type.startswith("multipart/"):
        raise Refusal(415, "unsupported_form", f"this server doesn't read multipart forms; send JSON or {FORM}")
    return _from_form(raw, limits.fields) if request.content_type == FORM else _from_json(raw)


def _from_form(raw: bytes, most: int) -> dict[str, Any]:
    fields = dict[str, list[str]]()
    try:
        for name, value in parse_qsl(raw.decode(), keep_blank_values=True, errors="strict", max_num_fields=most):
            fields.setdefault(name, []).append(value)
    except ValueError:
        raise bad(f"the form is invalid or has more than {most} fields") from None
    return {name: values if len(values) > 1 else values[0] for name, values in fields.items()}


def _from_json(raw: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(raw.decode("utf-8-sig"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise bad(f"the body isn't JSON: {error}", "not_json") from None
    if not isinstance(fields, dict):
        raise bad("the body must be a JSON object", "not_json")
    return fields


def read(model: type[Model], values: Mapping[str, Any]) -> Model:
    if len(values) > MOST_FIELDS:
        raise bad(f"the body has more than {MOST_FIELDS} fields")
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        raise bad(_first_mistake(error)) from None


def _first_mistake(error: ValidationError) -> str:
    """The first mistake in a body, in one sentence."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    # The location also contains the type names of a union's members.
    names = [str(part) for part in first["loc"] if isinstance(part, int) or _FIELD.fullmatch(part)]
    place = ".".join(names)[:80] or "the body"
    if first["type"] == "string_unicode":
        return f"{place}: contains half of a surrogate pair, which isn't valid Unicode"
    return f"{place}: {first['msg'][:1].lower()}{first['msg'][1:]}"


_FIELD = re.compile(r"(?!(?:str|int|float|bool|dict|list)$)[a-z_]+")


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} isn't JSON")
