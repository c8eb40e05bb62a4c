"""Reads request bodies: JSON or a form, within size and time limits, checked by a pydantic model."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qsl

from aiohttp import web
from aiohttp.http import HttpProcessingError
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from quitmt.serve.limits import Limits
from quitmt.serve.refusals import Refusal, bad

FORM, MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"
LONGEST_HEAD = 1024
"""Maximum bytes of the headers of one part of a form."""
_BOUNDARY = re.compile(r"boundary=\"?([\w'()+,./:=?-]{1,70})")
_NAME = re.compile(rb"\bname=\"?([^\";\r\n]*)", re.IGNORECASE)
_FILE = re.compile(rb"\bfilename\b|\bcontent-(?:transfer-)?encoding:", re.IGNORECASE)


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
    if request.content_type not in (FORM, MULTIPART) or raw.lstrip().startswith(b"{"):
        return _of_json(raw)
    read_form = _of_form if request.content_type == FORM else _of_parts
    try:
        return _collected(read_form(raw, request.headers["Content-Type"], limits.fields))
    except (ValueError, LookupError):
        raise bad(f"the form is invalid or has more than {limits.fields} fields") from None


def _of_form(raw: bytes, kind: str, most: int) -> list[tuple[str, str]]:
    return parse_qsl(raw.decode(), keep_blank_values=True, errors="strict", max_num_fields=most)


def _of_parts(raw: bytes, kind: str, most: int) -> list[tuple[str, str]]:
    """Parses multipart forms as browsers send them (RFC 7578). aiohttp's reader takes quadratic time in the number of
    parts."""
    named = _BOUNDARY.search(kind)
    if named is None:
        raise ValueError("no boundary")
    before, *parts = (b"\r\n" + raw).split(b"\r\n--" + named[1].encode("ascii"), most + 2)
    if before or not parts or len(parts) > most + 1 or not parts.pop().startswith(b"--"):
        raise ValueError("not a form with at most that many parts")
    found = []
    for part in parts:
        head, _, text = part.partition(b"\r\n\r\n")
        name = _NAME.search(head[:LONGEST_HEAD])
        if name is None or len(head) > LONGEST_HEAD or _FILE.search(head):
            raise bad("every part of the form must be a named text, not a file")
        found.append((name[1].decode(), text.decode()))
    return found


def _collected(pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    found = dict[str, list[str]]()
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return {name: values if len(values) > 1 else values[0] for name, values in found.items()}


def _of_json(raw: bytes) -> dict[str, Any]:
    try:
        found = json.loads(raw.decode("utf-8-sig"), parse_constant=_no_constant)
    except UnicodeDecodeError:
        raise bad("the body isn't UTF-8", "not_json") from None
    except RecursionError:
        raise bad("the body is nested too deeply", "not_json") from None
    except ValueError as error:
        raise bad(f"the body isn't JSON: {error}", "not_json") from None
    if not isinstance(found, dict):
        raise bad("the body must be a JSON object", "not_json")
    return found


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
