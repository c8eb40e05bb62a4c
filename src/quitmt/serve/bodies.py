"""What a client sent, read and checked: JSON or a form, within a size, into a model of pydantic."""

from __future__ import annotations

import asyncio
import json
import re
import zlib
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qsl

from aiohttp import web
from aiohttp.http import HttpProcessingError
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from quitmt.serve.limits import Limits
from quitmt.serve.refusals import Refusal, bad

FORM, MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"
PACKED = {"gzip": 31, "deflate": 15}
"""Ways to pack a body, and what zlib calls them."""
CHARSETS = frozenset(("utf-8", "us-ascii", "iso-8859-1", "windows-1252"))
"""Of forms. Python knows others that take time by the square of the length."""
LONGEST_HEAD = 1024
"""Bytes of the headers of a part."""
_CHARSET = re.compile(r"charset=\"?([\w-]{1,40})")
_BOUNDARY = re.compile(r"boundary=\"?([\w'()+,./:=?-]{1,70})")
_NAME = re.compile(rb"\bname=\"?([^\";\r\n]*)", re.IGNORECASE)
_FILE = re.compile(rb"\bfilename\b|\bcontent-(?:transfer-)?encoding:", re.IGNORECASE)


class Body(BaseModel):
    """Of an API of others: what we do not know is not for us."""

    model_config = ConfigDict(extra="ignore")


class StrictBody(BaseModel):
    """Of our own API: a name that does not exist is a mistake."""

    model_config = ConfigDict(extra="forbid", strict=True)


Model = TypeVar("Model", bound=BaseModel)
Texts = Annotated[list[str], Field(fail_fast=True)]
"""At its first mistake a long list is refused: to write down all of them would take seconds."""
MOST_FIELDS = 256
"""Of a JSON object, for the same reason."""


async def fields(request: web.Request, limits: Limits) -> dict[str, Any]:
    """The fields of a body, whichever way they were sent. A name that a form has several times is a list.

    What begins like a JSON object is one, whatever the client calls it: curl calls everything a form.
    """
    try:
        async with asyncio.timeout(limits.body_seconds):
            packed = await request.read()
    except web.HTTPRequestEntityTooLarge:
        raise _too_long() from None
    except TimeoutError:
        raise Refusal(408, "timeout", f"the body didn't arrive within {limits.body_seconds:g} s") from None
    except (web.RequestPayloadError, HttpProcessingError):
        raise bad("the body isn't sent as its headers say") from None
    raw = _unpacked(packed, request.headers.get("Content-Encoding", "identity").lower(), limits.body_bytes)
    if request.content_type not in (FORM, MULTIPART) or raw.lstrip().startswith(b"{"):
        return _of_json(raw)
    read_form = _of_form if request.content_type == FORM else _of_parts
    try:
        return _collected(read_form(raw, request.headers["Content-Type"], limits.fields))
    except (ValueError, LookupError):
        raise bad(f"the form cannot be read, or has more than {limits.fields} fields") from None


def _too_long() -> Refusal:
    return Refusal(413, "too_long", "the body is larger than this server reads; send it in parts")


def _unpacked(packed: bytes, encoding: str, most: int) -> bytes:
    if encoding == "identity":
        return packed
    if encoding not in PACKED:
        known = ", ".join(PACKED)
        raise Refusal(415, "unsupported_encoding", f"this server reads bodies as they are, or packed by {known}")
    unpacking = zlib.decompressobj(PACKED[encoding])
    try:
        found = unpacking.decompress(packed, most + 1)
    except zlib.error:
        raise bad(f"the body isn't {encoding}, which its headers say") from None
    if len(found) > most:
        raise _too_long()
    if not unpacking.eof:
        raise bad("the end of the body is missing")
    return found


def _of_form(raw: bytes, kind: str, most: int) -> list[tuple[str, str]]:
    named = _CHARSET.search(kind)
    charset = named[1].lower() if named else "utf-8"
    if charset not in CHARSETS:
        raise LookupError(charset)
    return parse_qsl(
        raw.decode(charset), keep_blank_values=True, encoding=charset, errors="strict", max_num_fields=most
    )


def _of_parts(raw: bytes, kind: str, most: int) -> list[tuple[str, str]]:
    """As browsers send them (RFC 7578). aiohttp's reader takes time by the square of the number of parts."""
    named = _BOUNDARY.search(kind)
    if named is None:
        raise ValueError("no boundary")
    before, *parts = (b"\r\n" + raw).split(b"\r\n--" + named[1].encode("ascii"), most + 2)
    if before or not parts or len(parts) > most + 1 or not parts.pop().startswith(b"--"):
        raise ValueError("no form of that many parts")
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
        raise bad("the body is not UTF-8", "not_json") from None
    except RecursionError:
        raise bad("the body is nested too deeply", "not_json") from None
    except ValueError as error:
        raise bad(f"the body is not JSON: {error}", "not_json") from None
    if not isinstance(found, dict):
        raise bad("the body must be a JSON object", "not_json")
    return found


def read(model: type[Model], found: Mapping[str, Any]) -> Model:
    if len(found) > MOST_FIELDS:
        raise bad(f"the body has more than {MOST_FIELDS} fields")
    try:
        return model.model_validate(dict(found))
    except ValidationError as error:
        raise bad(told(error)) from None


def told(error: ValidationError) -> str:
    """The first thing that is wrong, in one sentence."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    # Parts of a union are in the place, too, by the names of types.
    names = [str(part) for part in first["loc"] if isinstance(part, int) or _FIELD.fullmatch(part)]
    place = ".".join(names)[:80] or "the body"
    if first["type"] == "string_unicode":
        return f"{place}: it has half of a surrogate pair in it, which is not Unicode text"
    return f"{place}: {first['msg'][:1].lower()}{first['msg'][1:]}"


_FIELD = re.compile(r"(?!(?:str|int|float|bool|dict|list)$)[a-z_]+")


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")
