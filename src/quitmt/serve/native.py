"""The API of our own: everything in an outcome, and every step of it as it happens.

``stream`` answers with server-sent events: ``begin`` (the sentences), ``moment`` (after each step of a sentence),
``done`` (what a plain answer has), or ``error``.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import asdict, replace
from typing import Annotated, Any, Literal

from aiohttp import web
from pydantic import BaseModel, Field

from quitmt._version import __version__
from quitmt.files.durable import writable
from quitmt.generate.languages import name as language_name
from quitmt.serve.bodies import StrictBody, Texts, read
from quitmt.serve.limits import described
from quitmt.serve.refusals import Refusal, answer, plain
from quitmt.serve.server import ID, NATIVE, Endpoint, Exchange, Server
from quitmt.serve.work import AUTO, Job, Prepared, Step, Translated, withdraw
from quitmt.types import Finished, at

SEED = 1 << 63


class TranslateBody(StrictBody):
    """A text or a list of texts; the translations come in the same form."""

    text: Annotated[str, Field(min_length=1)] | Annotated[Texts, Field(min_length=1)]
    target: str = Field(min_length=1, max_length=40)
    source: str = Field(AUTO, min_length=1, max_length=40)
    format: Literal["text", "html", "xml"] = "text"
    max_loss: float | str | None = Field(None, description="Mean loss of score to aim at, or as 0.02sd.")
    max_cost: float | None = Field(None, description="Candidates a sentence, on average.", ge=1, le=100_000)
    deadline: float | None = Field(None, description="Seconds until the best so far is the answer.", gt=0)
    nbest: int = Field(1, description="How many translations are wanted.", ge=1, le=1000)
    seed: int | None = Field(None, ge=-SEED, lt=SEED)
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


class RankedText(ScoredText):
    index: int = Field(description="Of the sample, from 0 upwards; of an anchor from -1 downwards.")
    count: int = Field(description="How many of the samples have this text.")
    log_probability: float | None
    origin: str = Field(description="Of the anchor with this text, if there is one.")


class Spent(BaseModel):
    generate: float
    rerank: float


class Sentence(BaseModel):
    id: str
    source: str
    translation: str
    score: float | None
    size: int = Field(description="Samples that were used.")
    anchors: int = Field(description="Candidates besides that are no samples, such as the greedy translation.")
    origin: str = Field(description="Which of those the translation is; empty for a sample.")
    budget: int | None = Field(description="Candidates that might have been used.")
    stop: str = Field(description="Why it stopped: stable, decided, budget, exhausted or deadline.")
    seconds: Spent
    trajectory: list[float]
    warnings: list[str]
    nbest: list[RankedText]
    signature: str


class Translation(BaseModel):
    text: str
    source: str
    target: str
    confidence: float | None = Field(description="Of the detected language, from 0 to 1; null where it was given.")
    score: float | None
    candidates: int
    budget: int
    nbest: list[ScoredText]
    sentences: list[Sentence]


class Answer(BaseModel):
    translation: Translation | None = None
    translations: list[Translation] | None = None


async def translate(server: Server, exchange: Exchange) -> web.StreamResponse:
    ask = read(TranslateBody, await server.fields(exchange))
    if ask.stream:
        return await _streamed(server, exchange, ask)
    return answer(_answer(ask, await server.translate(exchange, ask.job())))


async def languages(server: Server, exchange: Exchange) -> web.StreamResponse:
    """What the page and other clients can choose from."""
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
    return answer({"version": __version__, "pairs": pairs, "limits": described(server.limits)})


async def _streamed(server: Server, exchange: Exchange, ask: TranslateBody) -> web.StreamResponse:
    server.check_open()
    steps: asyncio.Queue[Step | None] = asyncio.Queue()
    job = replace(ask.job(), watch=steps.put_nowait)
    prepared = await server.jobs.prepare(job)
    tickets = server.jobs.begin(job, prepared, exchange.id)

    async def finish() -> list[Translated]:
        try:
            return [await server.jobs.finish(job, *each) for each in zip(prepared, tickets, strict=True)]
        finally:
            steps.put_nowait(None)

    finishing = asyncio.create_task(finish())
    try:
        response = await _begun(exchange)
        await response.write(_event("begin", _begin(prepared)))
        async for name, data in _moments(steps):
            await response.write(_event(name, data))
        try:
            found = await finishing
            server.count(exchange, found)
            await response.write(_event("done", _answer(ask, found)))
        except Refusal as refusal:
            exchange.error = refusal.kind
            told = plain(refusal, exchange.id) | {"retry_after": refusal.retry_after}
            await response.write(_event("error", told))
        await response.write_eof()
        return response
    finally:
        withdraw(tickets)
        finishing.cancel()
        await asyncio.gather(finishing, return_exceptions=True)


async def _begun(exchange: Exchange) -> web.StreamResponse:
    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no", ID: exchange.id}
    response = web.StreamResponse(headers=headers)
    response.content_type, response.charset = "text/event-stream", "utf-8"
    await response.prepare(exchange.request)
    return response


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
    return f"event: {name}\ndata: {writable(json.dumps(data, ensure_ascii=False))}\n\n".encode()


def _answer(ask: TranslateBody, found: list[Translated]) -> dict[str, Any]:
    made = [_translation(one, ask.nbest) for one in found]
    return {"translation": made[0]} if isinstance(ask.text, str) else {"translations": made}


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
    outcome = finished.outcome
    best = finished.ranked[:nbest] if nbest > 1 else ()
    return {
        "id": outcome.id,
        "source": outcome.source,
        "translation": outcome.translation,
        "score": outcome.score,
        "size": outcome.size,
        "anchors": outcome.anchors,
        "origin": outcome.origin,
        "budget": outcome.budget,
        "stop": outcome.stop.value,
        "seconds": {"generate": outcome.seconds.generate, "rerank": outcome.seconds.rerank},
        "trajectory": list(outcome.trajectory),
        "warnings": list(outcome.warnings),
        "nbest": [asdict(one) for one in best],
        "signature": outcome.signature,
    }


ENDPOINTS = (
    Endpoint("POST", "/api/translate", translate, NATIVE, "Translate one text or several.", TranslateBody, Answer),
    Endpoint("GET", "/api/languages", languages, NATIVE, "Language pairs that are served, and the limits."),
)
