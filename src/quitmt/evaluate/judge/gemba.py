"""GEMBA-MQM (Kocmi and Federmann 2023): a chat model lists the errors of a translation, and the list gives the score.

The judge is any generator that can be ``resampled``. It is asked at temperature 0; if its answer is unreadable, it is
asked again at higher temperatures. An example without a readable answer has the score NaN. Evaluation reports their
number and leaves them out of its means; reranking refuses a candidate without a score.

Invariants: equal examples are asked about once; every answer is stored at once; if some questions fail, the answers to
all others are stored before the first error is raised.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from quitmt.errors import GenerationError, QuitmtError
from quitmt.evaluate.judge.answers import read, score
from quitmt.evaluate.judge.cache import Answers
from quitmt.generate.prompts.template import Judged
from quitmt.loops.background import BackgroundLoop
from quitmt.metrics.scorer import Example, Floats, Progress
from quitmt.sampling import Sampling
from quitmt.signature import field
from quitmt.types import Draw, Request, Segment

log = logging.getLogger(__name__)

TEMPERATURES = (0.0, 0.3, 0.7, 1.0)


class Judge(Protocol):
    """A generator with a judge's prompt (see ``quitmt.evaluate.judge.engines``)."""

    @property
    def signature(self) -> str: ...

    def draw(self, requests: Sequence[Request]) -> AsyncIterator[Draw]: ...

    def close(self, segment: Segment) -> None: ...

    def resampled(self, sampling: Sampling) -> Judge:
        """The same model with the same prompt, sampling differently."""
        ...


@dataclass(frozen=True, slots=True)
class Question:
    """A translation to judge, and the number of examples that wait for the answer."""

    segment: Judged
    count: int


class Gemba:
    """Scores from −25 to 0, higher is better; NaN without a readable answer. References are ignored.

    ``cache`` is the folder for answers, with one file per model and prompt; None keeps them in memory.
    """

    def __init__(self, judge: Judge, *, cache: Path | None = None) -> None:
        self._judges = [judge.resampled(Sampling(temperature)) for temperature in TEMPERATURES]
        first = self._judges[0].signature
        self.signature = f"gemba-mqm|{first}|retries:{','.join(field(each) for each in TEMPERATURES[1:])}"
        self._answers = Answers(None if cache is None else cache / _file_name(first))
        self.unparsed = 0
        """Number of examples of the last call without a readable answer."""

    def score(self, examples: Sequence[Example], progress: Progress | None = None) -> Floats:
        counts = Counter((example.source, example.translation) for example in examples)
        questions = [
            Question(Judged(_name(*texts), texts[0], translation=texts[1]), count) for texts, count in counts.items()
        ]
        loop = BackgroundLoop("quitmt-gemba")
        try:
            found = loop.run(self._judge(questions, progress))
        finally:
            loop.close()
            self._answers.close()
        self._report(found, len(examples), questions)
        return np.array([found[_name(example.source, example.translation)] for example in examples], np.float64)

    async def _judge(self, questions: list[Question], progress: Progress | None) -> dict[str, float]:
        """The scores by name, after one round per temperature."""
        results: dict[str, float | QuitmtError] = {}

        def settle(question: Question, result: float | QuitmtError) -> None:
            results[question.segment.id] = result
            if progress is not None:
                progress(question.count)

        for judge, temperature in zip(self._judges, TEMPERATURES, strict=True):
            async with aclosing(self._answered(judge, temperature, questions)) as answers:
                async for question, answer in answers:
                    result = answer if isinstance(answer, QuitmtError) else _scored(answer)
                    if result is not None:
                        settle(question, result)
            questions = [question for question in questions if question.segment.id not in results]
        for question in questions:
            settle(question, np.nan)
        return _without_errors(results)

    async def _answered(
        self, judge: Judge, temperature: float, questions: list[Question]
    ) -> AsyncGenerator[tuple[Question, str | QuitmtError], None]:
        """The answers as they arrive: cached ones first, then the others, which are requested together."""
        waiting: dict[str, Question] = {}
        for question in questions:
            known = self._answers.get(_key(judge, question.segment))
            if known is None:
                waiting[question.segment.id] = question
            else:
                yield question, known
        if not waiting:
            return
        # Request the second candidate: generators treat an empty first one as a server error.
        requests = [Request(question.segment, 1, 2) for question in waiting.values()]
        async with aclosing(judge.draw(requests)) as draws:  # type: ignore[type-var]  # they are async generators
            async for draw in draws:
                question = waiting[draw.segment.id]
                judge.close(question.segment)
                if draw.error is None:
                    answer = draw.candidates[0].text
                    self._keep(judge, temperature, question.segment, answer)
                    yield question, answer
                else:
                    yield question, draw.error

    def _keep(self, judge: Judge, temperature: float, segment: Judged, answer: str) -> None:
        about = {"temperature": temperature, "source": segment.source, "translation": segment.translation}
        self._answers.put(_key(judge, segment), answer, about)

    def _report(self, found: dict[str, float], total: int, questions: list[Question]) -> None:
        self.unparsed = sum(question.count for question in questions if np.isnan(found[question.segment.id]))
        if self.unparsed:
            share = 100 * self.unparsed / total
            log.warning(
                "the judge's answers about %d of %d translations (%.1f%%) could not be read, even after %d tries: "
                "they have no score",
                self.unparsed, total, share, len(TEMPERATURES),
            )  # fmt: skip


def _scored(answer: str) -> float | None:
    errors = read(answer)
    return None if errors is None else score(errors)


def _without_errors(results: dict[str, float | QuitmtError]) -> dict[str, float]:
    if errors := [result for result in results.values() if isinstance(result, QuitmtError)]:
        message = f"{len(errors)} of {len(results)} translations could not be judged, the first because {errors[0]}"
        kept = "the answers about the others are kept" if len(errors) < len(results) else None
        raise GenerationError(message, hint=kept)
    return {name: result for name, result in results.items() if not isinstance(result, QuitmtError)}


def _name(source: str, translation: str) -> str:
    """Names a question by its content, so that its seeds don't depend on the other questions."""
    return _digest(source, translation)


def _key(judge: Judge, segment: Judged) -> str:
    """The signature covers the model, the prompt, the languages, the temperature and the seed."""
    return _digest(judge.signature, segment.source, segment.translation)


def _digest(*texts: str) -> str:
    lengths = ",".join(str(len(text)) for text in texts)
    said = "\0".join((lengths, *texts)).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(said, digest_size=16).hexdigest()


def _file_name(signature: str) -> str:
    model = re.sub(r"[^\w.-]+", "-", signature.partition("|")[0])[-80:].strip("-.")
    return f"{model}-{hashlib.blake2b(signature.encode(), digest_size=6).hexdigest()}.jsonl"
