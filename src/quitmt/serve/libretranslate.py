"""The API of LibreTranslate (https://libretranslate.com/docs), as ``libretranslatepy`` and Weblate speak it: JSON or
forms, the key in the body. ``POST /translate`` is also NeMo Curator's (``nemo``), which sends other fields."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from aiohttp import web
from pydantic import Field

from quitmt.generate.languages import name as language_name
from quitmt.serve import nemo
from quitmt.serve.bodies import Body, Texts, read
from quitmt.serve.refusals import Refusal, answer
from quitmt.serve.server import Api, Endpoint, Exchange, Server
from quitmt.serve.work import Job, Translated


def shape(refusal: Refusal, request_id: str) -> dict[str, Any]:
    return {"error": str(refusal)}


API = Api("libretranslate", shape, denied=403)
Text = Annotated[str, Field(min_length=1)]


class LibreTranslateBody(Body):
    q: Text | Annotated[Texts, Field(min_length=1)]
    source: str = Field("auto", min_length=1, max_length=40)
    target: str = Field(min_length=1, max_length=40)
    format: Literal["text", "html"] = "text"
    alternatives: int = Field(0, ge=0, le=1000, description="How many more translations are wanted.")
    api_key: str | None = None


class DetectBody(Body):
    q: Text
    api_key: str | None = None


async def translate(server: Server, exchange: Exchange) -> web.StreamResponse:
    fields = await server.fields(exchange)
    if "texts" in fields and "q" not in fields:
        return await nemo.translate(server, exchange)
    ask = read(LibreTranslateBody, fields)
    texts = [ask.q] if isinstance(ask.q, str) else ask.q
    job = Job(texts, ask.target, ask.source, ask.format, nbest=1 + ask.alternatives)
    found = await server.translate(exchange, job)
    single = isinstance(ask.q, str)
    told: dict[str, Any] = {"translatedText": _one_or_all([one.text for one in found], single)}
    if ask.source == "auto":
        told["detectedLanguage"] = _one_or_all([_detected(one) for one in found], single)
    if ask.alternatives:
        told["alternatives"] = _one_or_all([[text for text, _ in one.nbest[1:]] for one in found], single)
    return answer(told)


def _one_or_all(found: list[Any], single: bool) -> Any:
    return found[0] if single else found


def _detected(one: Translated) -> dict[str, Any]:
    return {"language": one.served.source, "confidence": round(100 * (one.confidence or 0.0))}


async def detect(server: Server, exchange: Exchange) -> web.StreamResponse:
    ask = read(DetectBody, await server.fields(exchange))
    server.limits.check_texts([ask.q])
    ranked = server.service.detector.ranked(ask.q)
    return answer([{"confidence": round(100 * score), "language": code} for code, score in ranked])


async def languages(server: Server, exchange: Exchange) -> web.StreamResponse:
    return answer(
        [
            {"code": code, "name": language_name(code), "targets": server.service.targets(code)}
            for code in server.service.languages
        ]
    )


async def settings(server: Server, exchange: Exchange) -> web.StreamResponse:
    first = server.service.all[0]
    return answer(
        {
            "apiKeys": bool(server.keys),
            "charLimit": server.limits.text_characters,
            "frontendTimeout": 500,
            "keyRequired": bool(server.keys),
            "language": {
                "source": {"code": first.source, "name": language_name(first.source)},
                "target": {"code": first.target, "name": language_name(first.target)},
            },
            "suggestions": False,
            "supportedFilesFormat": [],
        }
    )


ENDPOINTS = (
    Endpoint(
        "POST", "/translate", translate, API, "Translate, as LibreTranslate and NeMo Curator ask for it.",
        LibreTranslateBody, key_in_body=True, form=True,
    ),
    Endpoint("POST", "/detect", detect, API, "The language of a text.", DetectBody, key_in_body=True, form=True),
    Endpoint("GET", "/languages", languages, API, "Languages, and what each can be translated into."),
    Endpoint("GET", "/frontend/settings", settings, API, "What a client should know."),
)  # fmt: skip
