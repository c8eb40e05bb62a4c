"""Servers that speak OpenAI's API: vLLM, SGLang, llama.cpp, Ollama and others; chat or completions.

A ``Request`` becomes HTTP calls for at most ``choices_per_call`` choices each, and each call's answer is a draw.
Servers sample choice i of a call with its seed + i (vLLM, llama.cpp), and ``Sampling.seed_of`` counts on within a
segment, so a candidate's seed doesn't depend on how candidates are split into calls, on retries or on missing choices.
Choices that a server leaves out are requested again, one per call if the server has shown that it doesn't support
``n``.

This API can't express some differences: llama.cpp applies top-p and min-p before the temperature, vLLM applies min-p
before top-p, and Ollama has its own top-k.

Invariants: each index of a ``Request`` arrives exactly once, or its segment gets one error; closing a segment cancels
its calls; the key is sent only in the Authorization header.
"""

from __future__ import annotations

import asyncio
import copy
import itertools
import logging
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Self

from quitmt.errors import QuitmtError, UsageError, setting
from quitmt.generate.prompts import template
from quitmt.generate.prompts.clean import clean as cleaned
from quitmt.generate.remote.client import Client
from quitmt.generate.remote.completions import APIS, Bodies, Completion, Errand, read_choices, stretches
from quitmt.generate.remote.failures import Refused, explained
from quitmt.generate.remote.transport import Address
from quitmt.protocols import GeneratorTraits
from quitmt.sampling import Sampling
from quitmt.types import Candidate, Draw, Request, Segment

log = logging.getLogger(__name__)

CHOICES_PER_CALL = 8
"""The default step of a rule. Smaller calls would gain nothing; larger ones would delay finished choices, lose more to
a retry or a stop, and save little, because servers cache prompts."""

ANSWERS_WITH_HALVES = 2
"""An unpaired surrogate in a text may be an accident, so the call is repeated this often. If it is still there, the
model generates it: U+FFFD replaces it, and the text is a normal candidate."""

LACKS = ("epsilon", "beam")
"""Sampling settings that the API lacks."""


@dataclass
class _Known:
    """What the generator has learned about the server."""

    worked: bool = False
    counts: bool | None = None
    """Whether the server supports ``n``; None while unknown."""
    takes_neutral: bool = True
    """Whether calls include the neutral values that switch off the server's cut-offs."""
    taken: set[str] = field(default_factory=set)
    """Names of neutral values that the server has accepted."""


class OpenAIGenerator:
    """Samples from ``model`` on the server at ``base_url``, or on several equivalent servers. The address and the key
    may come from the environment."""

    def __init__(
        self,
        model: str,
        sampling: Sampling,
        *,
        languages: tuple[str | None, str | None],
        base_url: str | Sequence[str] | None = None,
        prompt: str | None = None,
        clean: bool = True,
        max_tokens: int | None = None,
        api: str = "chat",
        concurrency: int = 256,
        timeout: float = 120.0,
        patience: float = 300.0,
        logprobs: bool = False,
        choices_per_call: int = CHOICES_PER_CALL,
        client: Callable[..., Client] = Client,
    ) -> None:
        sampling.refuse("OpenAI's API", *LACKS)
        loaded = _checked(template.made(prompt, model, languages), api)
        self._bodies = Bodies(model, sampling, loaded, api, max_tokens, logprobs)
        self._known = _Known()
        self._clean, self.traits = clean, GeneratorTraits(translates=loaded.template.clean, takes_seeds=True)
        self._choices_per_call = choices_per_call
        addresses = _addresses(base_url, os.environ.get("OPENAI_API_KEY", "").strip() or None)
        self._client = client(addresses, concurrency=concurrency, timeout=timeout, patience=patience)
        self._client.probe = (APIS[api], self._bodies.probe())
        self._concurrency = concurrency * len(addresses)
        self._tasks: dict[int, set[asyncio.Task[None]]] = {}
        """Keyed by the identity of the segment, because another run may have an equal one."""

    @property
    def signature(self) -> str:
        """Omits the address, because the same model on another server is the same model."""
        bodies = self._bodies
        fields = [f"openai:{bodies.model}", bodies.api, f"prompt:{bodies.prompt.signature}"]
        fields += [f"max:{bodies.max_tokens}"] if bodies.max_tokens else []
        return "|".join([*fields, *([] if self._clean else ["raw"]), bodies.sampling.signature])

    def resampled(self, sampling: Sampling) -> Self:
        """The same model with other sampling settings. Both generators share the client, with its limits and patience,
        and what is known about the server."""
        sampling.refuse("OpenAI's API", *LACKS)
        other = copy.copy(self)
        other._bodies = replace(self._bodies, sampling=sampling)
        other._tasks = {}
        return other

    @property
    def tally(self) -> Counter[str]:
        """HTTP requests sent, and failures by kind."""
        return self._client.tally

    @property
    def waiting(self) -> str | None:
        """What the client is waiting for and for how long at most, while no server answers."""
        return self._client.waiting

    async def check(self) -> None:
        """Request one short translation, so that a wrong address, key, model or setting is detected before a run. With
        several servers, each is probed: none may refuse, but some may be away."""
        segment = Segment("check", "Hello.")
        async with self._client.connected():
            if self._client.several and (refused := await self._client.survey()):
                raise self._explained(refused[0], segment)
            await self._post(segment, 0, 1)

    async def draw(self, requests: Sequence[Request]) -> AsyncIterator[Draw]:
        answers: asyncio.Queue[Draw | asyncio.Task[None]] = asyncio.Queue()
        async with self._client.connected():
            tasks = [self._start(request, answers) for request in requests]
            try:
                running = len(tasks)
                while running:
                    answer = await answers.get()
                    if isinstance(answer, Draw):
                        yield answer
                    else:
                        running -= 1
                        if not answer.cancelled():
                            answer.result()
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    def close(self, segment: Segment) -> None:
        """Cancel the segment's requests; the server sees the connection close and stops generating."""
        for task in list(self._tasks.get(id(segment), ())):
            with suppress(RuntimeError):  # its loop may be closed
                task.get_loop().call_soon_threadsafe(task.cancel)

    def _start(self, request: Request, answers: asyncio.Queue[Draw | asyncio.Task[None]]) -> asyncio.Task[None]:
        task = asyncio.create_task(self._serve(request, answers.put_nowait))
        tasks = self._tasks.setdefault(id(request.segment), set())
        tasks.add(task)

        def done(task: asyncio.Task[None]) -> None:
            tasks.discard(task)
            if not tasks and self._tasks.get(id(request.segment)) is tasks:
                del self._tasks[id(request.segment)]
            answers.put_nowait(task)

        task.add_done_callback(done)
        return task

    async def _serve(self, request: Request, put: Callable[[Draw], None]) -> None:
        """Make all calls for a request. The first that fails for good cancels the others."""
        errand = Errand(request, put)
        try:
            async with asyncio.TaskGroup() as group:
                self._want(errand, group, request.start, request.stop)
        except* QuitmtError as errors:
            put(Draw(request.segment, request.start, (), error=_first(errors)))

    def _want(self, errand: Errand, group: asyncio.TaskGroup, start: int, stop: int) -> None:
        """Queue candidates start..stop. Each task makes one call after the other, because a request may be endless."""
        errand.wanted.append((start, stop))
        calls = -(-(stop - start) // self._choices)
        for _ in range(min(calls, self._concurrency - errand.tasks)):
            errand.tasks += 1
            group.create_task(self._work(errand, group))

    async def _work(self, errand: Errand, group: asyncio.TaskGroup) -> None:
        while errand.wanted:
            await self._call(errand, group, *errand.take(self._choices))
        errand.tasks -= 1

    @property
    def _choices(self) -> int:
        """Choices per call. Servers refuse more than one greedy choice, because all would be the same."""
        return 1 if self._known.counts is False or self._bodies.sampling.greedy else self._choices_per_call

    async def _call(self, errand: Errand, group: asyncio.TaskGroup, start: int, stop: int) -> None:
        """Request candidates start..stop: deliver those that arrive, and queue the missing ones again."""
        choices, seconds = await self._post(errand.request.segment, start, stop)
        self._learn(stop - start, len(choices))
        candidates = {start + i: self._candidate(errand.request.segment, choice) for i, choice in choices.items()}
        for first, last in stretches(sorted(candidates)):
            run = tuple(candidates[index] for index in range(first, last))
            errand.deliver(Draw(errand.request.segment, first, run, seconds * len(run) / len(candidates)))
        for first, last in stretches([index for index in range(start, stop) if index not in candidates]):
            self._want(errand, group, first, last)

    def _learn(self, requested: int, arrived: int) -> None:
        if arrived > 1:
            self._known.counts = True
        elif requested > 1 and self._known.counts is None:
            self._known.counts = False
            log.info("the server returns one choice per call, however many are requested: requesting one per call")

    def _candidate(self, segment: Segment, choice: Completion) -> Candidate:
        text = cleaned(choice.text, segment.source) if self._clean else choice.text
        return Candidate(text, choice.log_probability, choice.tokens)

    async def _post(self, segment: Segment, start: int, stop: int) -> tuple[dict[int, Completion], float]:
        """The choices of one call, by place, and its seconds."""
        known, neutral = self._known, self._bodies.neutral if self._known.takes_neutral else {}
        try:
            return await self._send(segment, start, stop, neutral)
        except Refused as refused:
            refusal = refused
        accepted = known.takes_neutral and known.taken.issuperset(neutral)
        if neutral and refusal.status in (400, 422) and not accepted:
            # Perhaps the server doesn't know their names. If it accepts the call without them, that was the reason.
            try:
                found = await self._send(segment, start, stop, {})
            except Refused as refused:
                refusal = refused
            else:
                self._do_without(neutral)
                return found
        raise self._explained(refusal, segment)

    async def _send(
        self, segment: Segment, start: int, stop: int, neutral: dict[str, float]
    ) -> tuple[dict[int, Completion], float]:
        bodies, count, answers = self._bodies, stop - start, itertools.count(1)
        body = bodies.body(segment, start, count, neutral)
        longest = bodies.longest_text(segment)

        def read(found: Any) -> dict[int, Completion]:
            repair = next(answers) > ANSWERS_WITH_HALVES
            return read_choices(found, bodies.api, count, longest=longest, repair=repair)

        limit = bodies.longest_body(segment, count)
        reply = await self._client.post(APIS[bodies.api], body, read, sender=segment.id, limit=limit)
        self._known.worked = True
        self._known.taken.update(neutral)
        return reply.value, reply.seconds

    def _do_without(self, neutral: dict[str, float]) -> None:
        if self._known.takes_neutral:
            self._known.takes_neutral = False
            log.warning("the server does not know %s: its own defaults for them apply", ", ".join(neutral))

    def _explained(self, refused: Refused, segment: Segment) -> QuitmtError:
        bodies = self._bodies
        path = APIS[bodies.api]
        error = explained(refused, path, bodies.model, bodies.sampling, segment)
        if not self._known.worked and refused.is_final:
            self._client.refusal = error
        return error


def _checked(prompt: template.Prompt, api: str) -> template.Prompt:
    """Refuses a prompt that doesn't fit the API."""
    contents = [message["content"] for message in prompt.messages(Segment("check", "Hello."))]
    if api == "completions" and not all(isinstance(content, str) for content in contents):
        hint = f"use another {setting('model.options.prompt')}, or {setting('model.options.api', 'chat')}"
        raise UsageError(f"the prompt {prompt.template.name!r} is made for the model's own chat template", hint=hint)
    return prompt


def _addresses(base_url: str | Sequence[str] | None, key: str | None) -> list[Address]:
    urls = base_url or os.environ.get("OPENAI_BASE_URL", "").strip()
    if not urls:
        hint = f"give {setting('model.options.base_url')}, such as http://localhost:8000/v1, or set OPENAI_BASE_URL"
        raise UsageError("an openai: model needs the address of its server", hint=hint)
    addresses = [Address(url, key) for url in ([urls] if isinstance(urls, str) else urls)]
    return list({address.url: address for address in addresses}.values())


def _first(errors: BaseExceptionGroup[QuitmtError]) -> QuitmtError:
    one = errors.exceptions[0]
    return _first(one) if isinstance(one, BaseExceptionGroup) else one
