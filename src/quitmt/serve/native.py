"""The native API: all fields of an outcome, and every step as it happens.

``stream`` answers with server-sent events: ``begin`` (the sentences), ``moment`` (after each step of a sentence),
``done`` (the same as a plain response), or ``error``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Annotated, Any, Literal

from aiohttp import web
from pydantic import BaseModel, Field

from quitmt._version import __version__
from quitmt.files.outcomes import to_fields
from quitmt.generate.languages import name as language_name
from quitmt.serve.bodies import Language, Seed, StrictBody, Texts, read
from quitmt.serve.refusals import Refusal, answer, plain, to_json
from quitmt.serve.server import NATIVE, Endpoint, Exchange, Server
from quitmt.serve.work import AUTO, Job, Prepared, Step, Translated, withdraw
from quitmt.types import Finished, at


class TranslateBody(StrictBody):
    """A text or a list of texts; the translations have the same form."""

    text: Annotated[str, Field(min_length=1)] | Annotated[Texts, Field(min_length=1)]
    target: Language
    source: Language = AUTO
    format: Literal["text", "html", "xml"] = "text"
    max_loss: float | str | None = Field(
        None, description="Target: mean loss of score, as a number or in standard deviations, such as 0.02sd."
    )
    max_cost: float | None = Field(None, description="Target: mean candidates per sentence.", ge=1, le=100_000)
    deadline: float | None = Field(
        None, description="Seconds after which the best translation so far is returned.", gt=0
    )
    nbest: int = Field(1, description="Number of translations to return.", ge=1, le=1000)
    seed: Seed | None = None
    stream: bool = False

    def job(self) -> Job:
        return Job(
            [self.text] if isinstance(self.text, str) else self.text,
            self.target,
            self.source,
            self.format,
            max_loss=self.max_loss,
            max_cost=self.max_cost,
            deadline=self.deadline,
            seed=self.seed,
            nbest=self.nbest,
        )


class ScoredText(BaseModel):
    text: str
    score: float


class Translation(BaseModel):
    text: str
    source: str
    target: str
    confidence: float | None = Field(
        description="Confidence in the detected language, from 0 to 1; null if the source language was stated."
    )
    score: float | None
    candidates: int
    budget: int
    nbest: list[ScoredText]
    sentences: list[dict[str, Any]] = Field(description="Outcomes, with the fields of quitmt translate --jsonl.")


class Answer(BaseModel):
    translation: Translation | None = None
    translations: list[Translation] | None = None


async def translate(server: Server, exchange: Exchange) -> web.StreamResponse:
    request = read(TranslateBody, await server.fields(exchange))
    if request.stream:
        return await _streamed(server, exchange, request)
    return answer(_answer(request, await server.translate(exchange, request.job())))


async def languages(server: Server, exchange: Exchange) -> web.StreamResponse:
    """Lists the language pairs and the limits, for the page and other clients."""
    pairs = [
        {
            "model": one.name,
            "source": one.source,
            "target": one.target,
            "source_name": language_name(one.source),
            "target_name": language_name(one.target),
            "budget": one.built.rule.budget,
            "takes_seeds": one.takes_seeds,
        }
        for one in server.service.all
    ]
    limits = {name: getattr(server.limits, name) for name in ("deadline", "text_characters", "texts", "nbest")}
    limits["sentences"] = server.limits.waiting
    return answer({"version": __version__, "pairs": pairs, "limits": limits})


async def _streamed(server: Server, exchange: Exchange, request: TranslateBody) -> web.StreamResponse:
    server.check_open()
    steps: asyncio.Queue[Step | None] = asyncio.Queue()
    job = replace(request.job(), watch=steps.put_nowait)
    prepared = await server.jobs.prepare(job)
    tickets = server.jobs.begin(job, prepared, exchange.id)

    async def finish() -> list[Translated]:
        try:
            return [await server.jobs.finish(job, *each) for each in zip(prepared, tickets, strict=True)]
        finally:
            steps.put_nowait(None)

    finishing = asyncio.create_task(finish())
    try:
        response = await server.stream(exchange)
        await response.write(_event("begin", _begin(prepared)))
        async for name, data in _moments(steps):
            await response.write(_event(name, data))
        try:
            translated = await finishing
            server.count(exchange, translated)
            await response.write(_event("done", _answer(request, translated)))
        except Refusal as refusal:
            exchange.error = refusal.kind
            await response.write(_event("error", plain(refusal, exchange.id) | {"retry_after": refusal.retry_after}))
        await response.write_eof()
        return response
    finally:
        withdraw(tickets)
        finishing.cancel()
        await asyncio.gather(finishing, return_exceptions=True)


async def _moments(steps: asyncio.Queue[Step | None]) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    seen: dict[tuple[int, str], int] = {}
    while (step := await steps.get()) is not None:
        place = (step.text, step.sentence.id)
        first = [] if place in seen else [*step.anchors]
        new, seen[place] = [*first, *step.candidates[seen.get(place, 0) :]], step.snapshot.size
        yield (
            "moment",
            {
                "text": step.text,
                "sentence": step.sentence.id,
                "size": step.snapshot.size,
                "score": step.snapshot.score,
                "translation": at(step.snapshot.best, step.anchors, step.candidates).text,
                "new": [candidate.text for candidate in new],
                "stop_reason": step.stop_reason and step.stop_reason.value,
            },
        )


def _begin(prepared: list[Prepared]) -> dict[str, Any]:
    return {
        "texts": [
            {
                "source": one.served.source,
                "target": one.served.target,
                "confidence": one.confidence,
                "budget": (one.rule or one.served.built.rule).budget,
                "sentences": [{"id": segment.id, "source": segment.source} for segment in one.flat],
            }
            for one in prepared
        ]
    }


def _event(name: str, data: Any) -> bytes:
    return f"event: {name}\ndata: {to_json(data)}\n\n".encode()


def _answer(request: TranslateBody, translated: list[Translated]) -> dict[str, Any]:
    texts = [_translation(one, request.nbest) for one in translated]
    return {"translation": texts[0]} if isinstance(request.text, str) else {"translations": texts}


def _translation(one: Translated, nbest: int) -> dict[str, Any]:
    return {
        "text": one.text,
        "source": one.served.source,
        "target": one.served.target,
        "confidence": one.confidence,
        "score": one.score,
        "candidates": one.candidates,
        "budget": one.budget,
        "nbest": [{"text": text, "score": score} for text, score in one.nbest],
        "sentences": [_sentence(sentence, nbest) for sentence in one.sentences],
    }


def _sentence(finished: Finished, nbest: int) -> dict[str, Any]:
    ranked = tuple(finished.ranked[:nbest]) if nbest > 1 else ()
    return to_fields(replace(finished.outcome, nbest=ranked))


ENDPOINTS = (
    Endpoint("POST", "/api/translate", translate, NATIVE, "Translate one or several texts.", (TranslateBody,), Answer),
    Endpoint("GET", "/api/languages", languages, NATIVE, "List the language pairs and the limits."),
)
