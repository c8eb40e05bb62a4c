"""What a client sent, read and checked: JSON or a form, within a size, into a model of pydantic."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, TypeVar

from aiohttp import web
from pydantic import BaseModel, ConfigDict, ValidationError

from quitmt.serve.refusals import Refusal, bad

FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")


class Body(BaseModel):
    """Of an API of others: what we do not know is not for us."""

    model_config = ConfigDict(extra="ignore")


class StrictBody(BaseModel):
    """Of our own API: a name that does not exist is a mistake."""

    model_config = ConfigDict(extra="forbid", strict=True)


Model = TypeVar("Model", bound=BaseModel)


async def fields(request: web.Request) -> dict[str, Any]:
    """The fields of a body, whichever way they were sent. A name that a form has several times is a list."""
    try:
        if request.content_type in FORMS:
            return _of_form(await request.post())
        raw = await request.read()
    except web.HTTPRequestEntityTooLarge:
        raise Refusal(413, "too_long", "the body is larger than this server reads; send it in parts") from None
    except (ValueError, LookupError, UnicodeError, AssertionError):
        raise bad("the form cannot be read") from None
    return _of_json(raw)


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


def _of_form(form: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in form.items():
        if not isinstance(value, str):
            raise bad(f"{name[:40]} must be a text, not a file")
        if name in found:
            found[name] = [*found[name], value] if isinstance(found[name], list) else [found[name], value]
        else:
            found[name] = value
    return found


def read(model: type[Model], found: Mapping[str, Any]) -> Model:
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
