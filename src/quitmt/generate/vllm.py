"""vLLM in this process: the calls of all segments share one continuous batch.

The engine runs on its own event loop in a thread, so that ``draw`` calls from any loop can share it. A ``Request``
becomes calls to the engine for a few choices each, which return as they finish; thanks to prefix caching, only the
first call computes the prompt. Calls for segments that are further along go first, because those segments finish
soonest. When a segment stops, its calls are aborted at once, and ``wasted_tokens`` counts the tokens they had produced.

Each candidate has its own seed, and the same batch gives the same candidates. But vLLM's arithmetic depends on the
batch, so a token near a tie may differ from run to run.
"""

from __future__ import annotations

import asyncio
import atexit
import copy
import itertools
import logging
import os
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, Self

from quitmt.errors import GenerationError, MissingExtra, ModelError, QuitmtError, UsageError, setting
from quitmt.generate.prompts import template
from quitmt.generate.prompts.clean import clean as cleaned
from quitmt.loops.background import BackgroundLoop
from quitmt.loops.faults import first_line
from quitmt.loops.mailbox import Mailbox
from quitmt.protocols import GeneratorTraits
from quitmt.sampling import Sampling
from quitmt.types import Candidate, Draw, Request, Segment

log = logging.getLogger(__name__)

CHOICES = 8
"""Candidates per call: the default step of a rule, so that a complete step never waits for later candidates."""
MAX_TOKENS = 512
LACKS = ("epsilon", "beam")
"""Sampling settings that the async engine lacks. vLLM's beam search is a loop outside the engine that makes a call for
each hypothesis and token."""


class VllmGenerator:
    """A chat model on vLLM's async engine, which takes ``engine_args`` (tensor_parallel_size, …)."""

    def __init__(
        self,
        model: str,
        sampling: Sampling,
        *,
        languages: tuple[str | None, str | None],
        prompt: str | None = None,
        clean: bool = True,
        max_tokens: int | None = None,
        dtype: str | None = None,
        engine_args: Mapping[str, Any] | None = None,
    ) -> None:
        _refuse(sampling)
        self._prompt = template.made(prompt, model, languages)  # before the model is loaded, which takes long
        self.traits = GeneratorTraits(translates=self._prompt.template.clean, takes_seeds=True)
        self._sampling, self._clean, self._max_tokens = sampling, clean, max_tokens or MAX_TOKENS
        self._numbers = itertools.count()
        self._running: dict[int, set[str]] = {}
        """Calls under way, keyed by the identity of the segment, because another run may have an equal one."""
        self._draws: list[set[int]] = []
        """For each ``draw`` under way, the identities of its closed or failed segments."""
        self.wasted_tokens = 0
        self._loop = BackgroundLoop("quitmt-vllm")
        try:
            self._engine, self._tokenizer, self._limit = self._loop.run(_start(model, dtype, engine_args or {}))
        except BaseException:
            self._loop.close()
            raise
        # Two batches' worth of calls: queueing all calls of an endless request would keep the engine busy.
        self._sequences = 2 * int(self._engine.vllm_config.scheduler_config.max_num_seqs)
        atexit.register(self.shutdown)
        cleaning = "" if clean else "|raw"
        arguments = sorted({**(engine_args or {}), **({"dtype": dtype} if dtype else {})}.items())
        self._name = f"vllm:{model}|{self._prompt.signature}"
        self._settings = "|".join([f"max:{self._max_tokens}", *(f"{name}:{value}" for name, value in arguments)])
        self._settings += cleaning

    @property
    def signature(self) -> str:
        return f"{self._name}|{self._sampling.signature}|{self._settings}"

    def resampled(self, sampling: Sampling) -> Self:
        """The same model with other sampling settings. Both share one engine, which the first generator shuts down."""
        _refuse(sampling)
        other = copy.copy(self)
        other._sampling, other.wasted_tokens, other._draws, other._running = sampling, 0, [], {}
        return other

    def shutdown(self) -> None:
        """End the engine's processes; also done when the program ends."""
        atexit.unregister(self.shutdown)
        if not self._loop.closed:
            self._loop.run(self._stop())
            self._loop.close()

    async def _stop(self) -> None:
        if handler := getattr(self._engine, "output_handler", None):
            handler.cancel()  # or it would log the end of the engine as a failure
            await asyncio.gather(handler, return_exceptions=True)
        self._engine.shutdown()
        # Its finaliser would shut it down again at exit, when the modules that it needs are no longer there.
        self._engine.shutdown = lambda *_, **__: None

    async def draw(self, requests: Sequence[Request]) -> AsyncIterator[Draw]:
        answers, calls, running = Mailbox[Draw | None](), list[Any](), 0
        chunk = 1 if self._sampling.greedy else CHOICES
        parts, most = _parts(requests, chunk), max(1, self._sequences // chunk)
        closed: set[int] = set()
        self._draws.append(closed)
        try:
            while True:
                while running < most and (part := next(parts, None)):
                    if id(part.segment) not in closed:
                        calls.append(self._loop.submit(self._call(part, answers.put)))
                        running += 1
                if not running:
                    break
                draw = await answers.get()
                running -= 1
                if draw is not None and not (draw.error and id(draw.segment) in closed):
                    if draw.error:
                        closed.add(id(draw.segment))  # the other calls would fail too: one error per segment
                    yield draw
        finally:
            self._draws = [one for one in self._draws if one is not closed]
            for call in calls:
                call.cancel()

    def close(self, segment: Segment) -> None:
        """Abort the segment's calls and make no more of them."""
        for closed in self._draws:
            closed.add(id(segment))
        self._loop.submit(self._abort(id(segment)))

    async def _abort(self, segment: int) -> None:
        numbers = self._running.pop(segment, None)
        while numbers:  # calls remove themselves as they end; the engine can't abort those that it is still preparing
            await self._engine.abort(list(numbers))
            await asyncio.sleep(0.01)

    async def _call(self, part: Request, answer: Any) -> None:
        number, start = f"{part.segment.id}-{next(self._numbers)}", time.perf_counter()
        running = self._running.setdefault(id(part.segment), set())
        running.add(number)
        try:
            outputs = await self._generate(part, number)
            answer(None if outputs is None else self._drawn(part, outputs, time.perf_counter() - start))
        except QuitmtError as error:
            answer(Draw(part.segment, part.start, (), error=error))
        except Exception as error:
            log.debug("vLLM failed", exc_info=error)
            reason = GenerationError(f"segment {part.segment.id}: vLLM failed: {type(error).__name__}: {error}")
            answer(Draw(part.segment, part.start, (), error=reason))
        finally:
            running.discard(number)
            if not running and self._running.get(id(part.segment)) is running:
                del self._running[id(part.segment)]

    async def _generate(self, part: Request, number: str) -> list[Any] | None:
        """The finished choices of one call; None if it was aborted."""
        final = None
        prompt = {"prompt_token_ids": self._tokens(part.segment)}
        async for output in self._engine.generate(prompt, self._parameters(part), number, priority=-part.start):
            final = output
        if final is None:
            return None
        if any(choice.finish_reason == "abort" for choice in final.outputs):
            self.wasted_tokens += sum(len(choice.token_ids) for choice in final.outputs)
            return None
        return sorted(final.outputs, key=lambda choice: choice.index)

    def _tokens(self, segment: Segment) -> list[int]:
        messages, options = self._prompt.messages(segment), self._prompt.template.chat_template_kwargs
        if self._tokenizer.chat_template:
            chat = self._tokenizer.apply_chat_template(
                messages, add_generation_prompt=True, tokenize=True, return_dict=True, **options
            )
            tokens = list(chat["input_ids"])
        else:
            tokens = list(self._tokenizer(self._prompt.text(segment))["input_ids"])
        if len(tokens) + self._max_tokens > self._limit:
            raise GenerationError(
                f"segment {segment.id}: its prompt has {len(tokens)} tokens; with {self._max_tokens} for the answer, "
                f"that is more than the model's limit of {self._limit}",
                hint=f"shorten it, or lower {setting('model.options.max_tokens')}",
            )
        return tokens

    def _parameters(self, part: Request) -> Any:
        from vllm.sampling_params import RequestOutputKind, SamplingParams

        sampling, segment = self._sampling, part.segment
        return SamplingParams(
            n=part.stop - part.start,
            temperature=sampling.temperature,
            top_p=1.0 if sampling.top_p is None else sampling.top_p,
            top_k=0 if sampling.top_k is None else sampling.top_k,
            min_p=sampling.min_p or 0.0,
            seed=None if sampling.greedy else sampling.seeded(segment.seed).seed_of(segment.content, part.start),
            max_tokens=self._max_tokens,
            logprobs=0,  # of the chosen tokens only, before temperature and cut-offs
            output_kind=RequestOutputKind.FINAL_ONLY,
        )

    def _drawn(self, part: Request, outputs: list[Any], seconds: float) -> Draw:
        candidates = tuple(
            Candidate(
                cleaned(output.text, part.segment.source) if self._clean else output.text,
                output.cumulative_logprob,
                len(output.token_ids),
            )
            for output in outputs
        )
        return Draw(part.segment, part.start, candidates, seconds)


def _refuse(sampling: Sampling) -> None:
    sampling.refuse("vLLM", *LACKS)
    if sampling.min_p and sampling.top_p not in (None, 1):
        both = f"{setting('model.min_p')} and {setting('model.top_p')}"
        raise UsageError(
            f"vLLM applies min-p before top-p, so {both} together would mean something else", hint="give one of them"
        )


def _parts(requests: Sequence[Request], size: int) -> Iterator[Request]:
    """Split requests into calls: segments that are further along first, each in order."""
    for request in sorted(requests, key=lambda request: -request.start):
        for start in range(request.start, request.stop, size):
            yield Request(request.segment, start, min(start + size, request.stop))


async def _start(model: str, dtype: str | None, options: Mapping[str, Any]) -> tuple[Any, Any, int]:
    """The engine, its tokenizer, and the maximum tokens of prompt and answer."""
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
    try:
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.platforms import current_platform
        from vllm.v1.engine.async_llm import AsyncLLM
    except ImportError as error:
        raise MissingExtra(f"vllm: cannot be used: {error}", hint="pip install 'quitmt[vllm]'") from None
    settings: dict[str, Any] = {"model": model, "dtype": dtype or "auto", "generation_config": "vllm"}
    settings |= {"enable_prefix_caching": True, "scheduling_policy": "priority"}
    if current_platform.is_cpu():
        settings["enable_chunked_prefill"] = False  # on CPUs, a seed and a chunked prefill together crash the engine
    try:
        engine = AsyncLLM.from_engine_args(AsyncEngineArgs(**{**settings, **options}))
    except TypeError as error:
        raise UsageError(f"vLLM does not take one of the engine arguments: {error}") from None
    except Exception as error:
        raise ModelError(f"vLLM cannot load {model}: {first_line(error)}") from error
    return engine, engine.get_tokenizer(), int(engine.model_config.max_model_len)
