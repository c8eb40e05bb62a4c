"""The API of DeepL (version 2), as its client libraries use it: JSON or forms."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from aiohttp import web
from pydantic import Field

from quitmt.detect import primary
from quitmt.generate.languages import name as language_name
from quitmt.serve.bodies import Body, Language, Texts, read
from quitmt.serve.refusals import Refusal, answer, bad
from quitmt.serve.server import Api, Endpoint, Exchange, Server
from quitmt.serve.work import AUTO, Job, Translated

NO_LIMIT = 1_000_000_000_000


def shape(refusal: Refusal, request_id: str) -> dict[str, Any]:
    return {"message": str(refusal)}


API = Api("deepl", shape, denied=403)
Tags = str | Texts | None


class DeepLBody(Body):
    text: str | Annotated[Texts, Field(min_length=1)]
    target_lang: Language
    source_lang: str | None = Field(None, max_length=40)
    tag_handling: Literal["xml", "html"] | None = None
    ignore_tags: Tags = None
    glossary_id: str | None = None
    formality: str | None = None


async def translate(server: Server, exchange: Exchange) -> web.StreamResponse:
    request = read(DeepLBody, await server.fields(exchange))
    if request.glossary_id:
        raise bad("this server has no glossaries; leave out glossary_id")
    if request.formality in ("more", "less"):
        raise bad("this server cannot choose a formality; leave it out or use prefer_more or prefer_less")
    texts = [request.text] if isinstance(request.text, str) else request.text
    source, form = request.source_lang or AUTO, request.tag_handling or "text"
    job = Job(texts, request.target_lang, source, form, _tags(request.ignore_tags))
    translated = await server.translate(exchange, job)
    return answer({"translations": [_translation(one, text) for one, text in zip(translated, texts, strict=True)]})


def _tags(tags: Tags) -> tuple[str, ...]:
    listed = [tags] if isinstance(tags, str) else tags or []
    return tuple(name.strip() for part in listed for name in part.split(",") if name.strip())


def _translation(one: Translated, text: str) -> dict[str, Any]:
    return {
        "detected_source_language": primary(one.served.source).upper(),
        "text": one.text,
        "billed_characters": len(text),
    }


async def languages(server: Server, exchange: Exchange) -> web.StreamResponse:
    kind = exchange.request.query.get("type", "source")
    if kind not in ("source", "target"):
        raise bad(f"type must be source or target, not {kind[:40]!r}")
    codes = server.service.sources if kind == "source" else [one.target for one in server.service.all]
    return answer(
        [
            {"language": code.upper(), "name": language_name(code), "supports_formality": False}
            for code in dict.fromkeys(codes)
        ]
    )


async def usage(server: Server, exchange: Exchange) -> web.StreamResponse:
    """Returns fixed numbers, because nothing is billed but clients expect them."""
    return answer({"character_count": 0, "character_limit": NO_LIMIT})


_TYPE = {"name": "type", "in": "query", "required": False, "schema": {"type": "string", "enum": ["source", "target"]}}
ENDPOINTS = (
    Endpoint("POST", "/v2/translate", translate, API, "Translate texts.", (DeepLBody,)),
    Endpoint("GET", "/v2/languages", languages, API, "List the languages.", parameters=(_TYPE,)),
    Endpoint("GET", "/v2/usage", usage, API, "Usage; there is no limit."),
)
