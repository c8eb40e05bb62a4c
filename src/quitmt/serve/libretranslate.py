"""The API of LibreTranslate (https://libretranslate.com/docs), as ``libretranslatepy`` and Weblate use it: JSON or
forms, with the key in the body. The API of NeMo Curator's ``nmt`` back end has the same path with other fields."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from aiohttp import web
from pydantic import Field

from quitmt.generate.languages import name as language_name
from quitmt.serve.bodies import Body, Language, Texts, read
from quitmt.serve.refusals import Refusal, answer
from quitmt.serve.server import Api, Endpoint, Exchange, Server
from quitmt.serve.work import AUTO, Job, Translated


def shape(refusal: Refusal, request_id: str) -> dict[str, Any]:
    return {"error": str(refusal)}


API = Api("libretranslate", shape, denied=403)
Text = Annotated[str, Field(min_length=1)]


class LibreTranslateBody(Body):
    q: Text | Annotated[Texts, Field(min_length=1)]
    source: Language = AUTO
    target: Language
    format: Literal["text", "html"] = "text"
    alternatives: int = Field(0, ge=0, le=1000, description="Number of additional translations.")
    api_key: str | None = None


class NemoBody(Body):
    """The body of NeMo Curator: texts and two languages."""

    texts: Texts
    src_lang: Language = AUTO
    tgt_lang: Language


class DetectBody(Body):
    q: Text
    api_key: str | None = None


async def translate(server: Server, exchange: Exchange) -> web.StreamResponse:
    fields = await server.fields(exchange)
    if "texts" in fields and "q" not in fields:
        nemo = read(NemoBody, fields)
        translated = await server.translate(exchange, Job(nemo.texts, nemo.tgt_lang, nemo.src_lang))
        return answer({"translations": [one.text for one in translated]})
    request = read(LibreTranslateBody, fields)
    single = isinstance(request.q, str)
    texts = [request.q] if isinstance(request.q, str) else request.q
    job = Job(texts, request.target, request.source, request.format, nbest=1 + request.alternatives)
    translated = await server.translate(exchange, job)
    body: dict[str, Any] = {"translatedText": _one_or_all([one.text for one in translated], single)}
    if request.source == AUTO:
        body["detectedLanguage"] = _one_or_all([_detected(one) for one in translated], single)
    if request.alternatives:
        body["alternatives"] = _one_or_all([[text for text, _ in one.nbest[1:]] for one in translated], single)
    return answer(body)


def _one_or_all(values: list[Any], single: bool) -> Any:
    return values[0] if single else values


def _detected(one: Translated) -> dict[str, Any]:
    return {"language": one.served.source, "confidence": round(100 * (one.confidence or 0.0))}


async def detect(server: Server, exchange: Exchange) -> web.StreamResponse:
    request = read(DetectBody, await server.fields(exchange))
    server.limits.check_texts([request.q])
    ranked = server.service.detector.ranked(request.q)
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
        "POST", "/translate", translate, API, "Translate texts (LibreTranslate, NeMo Curator).",
        (LibreTranslateBody, NemoBody), key_in_body=True,
    ),
    Endpoint("POST", "/detect", detect, API, "Detect the language of a text.", (DetectBody,), key_in_body=True),
    Endpoint("GET", "/languages", languages, API, "List the languages and their targets."),
    Endpoint("GET", "/frontend/settings", settings, API, "Settings for clients."),
)  # fmt: skip
