"""The API of OpenAI's chat completions and models: the user's last message is the text to translate.

The model's name states the languages (``quitmt-en-pt``). With ``quitmt``, the source language is detected and its first
target is used. Other messages aren't followed, because there is no chat model; sampling settings aren't either, because
the recipe has them. ``n`` returns the n best translations, which differ if there are enough candidates. Weblate puts
several strings into one message (``weblate``).
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from aiohttp import web
from pydantic import Field

from quitmt.engine.session import Ticket
from quitmt.serve.bodies import Body, Seed, read
from quitmt.serve.refusals import Refusal, answer, bad, to_json
from quitmt.serve.server import Api, Endpoint, Exchange, Server
from quitmt.serve.weblate import Strings, read_message
from quitmt.serve.work import Job, Prepared, Translated, settled_text, withdraw

ANY = "quitmt"


def shape(refusal: Refusal, request_id: str) -> dict[str, Any]:
    kind = "server_error" if refusal.status >= 500 else "invalid_request_error"
    error = {"message": str(refusal), "type": kind, "param": None, "code": refusal.kind}
    return {"error": error}


API = Api("openai", shape)


class ContentPart(Body):
    type: str
    text: str | None = None


class Message(Body):
    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | Annotated[list[ContentPart], Field(fail_fast=True)] | None = None

    @property
    def text(self) -> str:
        if isinstance(self.content, list):
            return "".join(part.text or "" for part in self.content if part.type == "text")
        return self.content or ""


class StreamOptions(Body):
    include_usage: bool = False


class ChatBody(Body):
    model: str = Field(min_length=1, max_length=200)
    messages: Annotated[list[Message], Field(min_length=1, fail_fast=True)]
    n: int | None = Field(1, ge=1, le=1000)
    seed: Seed | None = None
    stream: bool | None = False
    stream_options: StreamOptions | None = None


async def complete(server: Server, exchange: Exchange) -> web.StreamResponse:
    request = read(ChatBody, await server.fields(exchange))
    text = next((message.text for message in reversed(request.messages) if message.role == "user"), "")
    if not text:
        raise bad("the request has no user message to translate")
    message = read_message(text)
    job = _job(server, request, message)
    name = f"chatcmpl-{exchange.id}"
    if request.stream:
        return await _streamed(server, exchange, request, job, message, name)
    translated = await server.translate(exchange, job)
    choices = [
        {"index": index, "message": {"role": "assistant", "content": text}, "logprobs": None, "finish_reason": "stop"}
        for index, text in enumerate(_choices(translated, message, job.nbest))
    ]
    head = {"id": name, "object": "chat.completion", "created": int(time.time()), "model": request.model}
    return answer({**head, "choices": choices, "usage": _usage(translated)})


def _job(server: Server, request: ChatBody, message: Strings) -> Job:
    served = server.service.named(request.model)
    if served is None and request.model != ANY:
        known = ", ".join([ANY, *(one.name for one in server.service.all)])
        raise Refusal(404, "model_not_found", f"the model {request.model[:80]!r} isn't served; available: {known}")
    if message.languages is not None:
        wanted = server.service.find(*message.languages)
        if served not in (None, wanted):
            raise bad(f"the model {request.model[:80]!r} doesn't translate {wanted.source} to {wanted.target}")
        served = wanted
    elif served is None:
        served, _ = server.service.detect("\n".join(message.texts))
    return Job(
        message.texts,
        served.target,
        form=message.form,
        seed=request.seed,
        nbest=request.n or 1,
        served=served,
    )


def _choices(translated: list[Translated], message: Strings, count: int) -> list[str]:
    """Joins the texts again. The i-th choice has each text's i-th best translation, or its last one."""
    choices = []
    for rank in range(count):
        texts = [one.nbest[min(rank, len(one.nbest) - 1)][0] if one.nbest else one.text for one in translated]
        choices.append(message.joined(texts))
    return choices


def _usage(translated: list[Translated]) -> dict[str, Any]:
    """Token counts: estimated from characters for the source, counted by the model for the translation if it can. The
    sampled tokens are reported separately."""
    source = sum(len(sentence.outcome.source) for one in translated for sentence in one.sentences)
    chosen = [sentence.chosen for one in translated for sentence in one.sentences]
    made = [one.tokens or 0 for one in chosen if one is not None]
    prompt, completion = -(-source // 4), sum(made)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "quitmt": {
            "candidates": sum(one.candidates for one in translated),
            "sampled_tokens": sum(o.tokens for o in translated),
        },
    }


async def _streamed(
    server: Server, exchange: Exchange, request: ChatBody, job: Job, message: Strings, name: str
) -> web.StreamResponse:
    """Streams one choice of plain text sentence by sentence; several choices and program strings come at the end."""
    server.check_open()
    prepared = await server.jobs.prepare(job)
    tickets = server.jobs.begin(job, prepared, exchange.id)
    head = {"id": name, "object": "chat.completion.chunk", "created": int(time.time()), "model": request.model}
    response: web.StreamResponse | None = None

    async def send(index: int, delta: dict[str, Any], reason: str | None = None) -> None:
        nonlocal response
        response = response or await server.stream(exchange)
        choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": reason}
        await response.write(_chunk({**head, "choices": [choice]}))

    translated, sent = list[Translated](), ""
    try:
        async for text in _growing(server, job, prepared, tickets, translated):
            if job.nbest == 1 and job.form == "text" and len(text) > len(sent):
                role = {} if sent else {"role": "assistant"}
                await send(0, {**role, "content": text[len(sent) :]})
                sent = text
        for index, text in enumerate(_choices(translated, message, job.nbest)):
            if not (index == 0 and sent):
                await send(index, {"role": "assistant", "content": text})
            await send(index, {}, "stop")
        assert response is not None  # there is at least one choice
        server.count(exchange, translated)
        if request.stream_options and request.stream_options.include_usage:
            await response.write(_chunk({**head, "choices": [], "usage": _usage(translated)}))
        await response.write(b"data: [DONE]\n\n")
    except Refusal as refusal:
        if response is None:
            raise
        exchange.error = refusal.kind
        await response.write(_chunk(shape(refusal, exchange.id)))
    finally:
        withdraw(tickets)
    await response.write_eof()
    return response


async def _growing(
    server: Server,
    job: Job,
    prepared: list[Prepared],
    tickets: list[list[Ticket]],
    translated: list[Translated],
) -> AsyncIterator[str]:
    """Yields the settled beginning of the text, which grows each time. Finished texts are added to ``translated``."""
    for one, group in zip(prepared, tickets, strict=True):
        for count in range(1, len(group) if job.form == "text" else 0):
            yield await settled_text(one, group[:count])
        translated.append(await server.jobs.finish(job, one, group))
        yield translated[-1].text


def _chunk(data: Any) -> bytes:
    return f"data: {to_json(data)}\n\n".encode()


async def models(server: Server, exchange: Exchange) -> web.StreamResponse:
    return answer({"object": "list", "data": [_model(one.name) for one in server.service.all] + [_model(ANY)]})


async def model(server: Server, exchange: Exchange) -> web.StreamResponse:
    name = exchange.request.match_info["model"]
    if name != ANY and server.service.named(name) is None:
        raise Refusal(404, "model_not_found", f"the model {name[:80]!r} isn't served")
    return answer(_model(name))


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "quitmt"}


_MODEL = {"name": "model", "in": "path", "required": True, "schema": {"type": "string"}}
ENDPOINTS = (
    Endpoint(
        "POST", "/v1/chat/completions", complete, API, "Translate the user's last message.", (ChatBody,), errors=(404,)
    ),
    Endpoint("GET", "/v1/models", models, API, "List the models: one per language pair, and one for all."),
    Endpoint("GET", "/v1/models/{model}", model, API, "Look up one model.", parameters=(_MODEL,), errors=(404,)),
)
