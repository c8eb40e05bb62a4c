"""Runs one request of any API: texts in, translations out.

    texts → documents → sentences → one session, as one group → joined again

Invariants: a text that cannot be translated is refused before any work begins. If a client disconnects, all its work is
cancelled. The seed and the text determine the translation: ids count the lines of each text from 1, like ``quitmt
translate --split`` on a file that holds only that text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice

from quitmt.engine.items import Context
from quitmt.engine.session import Observer, Session, Ticket
from quitmt.files.durable import is_writable
from quitmt.loops.call import in_thread
from quitmt.protocols import StoppingRule
from quitmt.serve.limits import Limits, later
from quitmt.serve.markup import Document, Format, parse
from quitmt.serve.refusals import Refusal, bad
from quitmt.serve.service import Served, Service
from quitmt.serve.spans import Known
from quitmt.types import Candidate, Finished, Segment, Snapshot, StopReason

AUTO = "auto"
SPAN_CANDIDATES = 4
"""Number of translations of marked words to look for in the translated sentence."""
GAP = "\ue000"
"""A placeholder for missing sentences: a private-use character."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a sentence: its text's number in the request, and its snapshot."""

    text: int
    sentence: Segment
    snapshot: Snapshot
    anchors: Sequence[Candidate]
    candidates: Sequence[Candidate]
    stop_reason: StopReason | None


@dataclass(frozen=True, slots=True)
class Job:
    texts: list[str]
    target: str
    source: str = AUTO
    form: Format = "text"
    ignored: tuple[str, ...] = ()
    """Names of elements to leave untranslated."""
    max_loss: float | str | None = None
    max_cost: float | None = None
    deadline: float | None = None
    seed: int | None = None
    nbest: int = 1
    served: Served | None = None
    """The model that the client named, which determines the languages."""
    watch: Callable[[Step], None] | None = None


@dataclass(frozen=True, slots=True)
class Translated:
    text: str
    served: Served
    confidence: float | None
    """Confidence in the detected language; None if the client stated it."""
    sentences: list[Finished]
    nbest: list[tuple[str, float]] = field(default_factory=list)
    """Whole texts with their mean scores, best first."""

    @property
    def score(self) -> float | None:
        """The mean score of the sentences; None if there are none."""
        scores = [one.outcome.score for one in self.sentences if one.outcome.score is not None]
        return sum(scores) / len(scores) if scores else None

    @property
    def candidates(self) -> int:
        """Number of generated candidates, including anchors."""
        return sum(one.outcome.cost for one in self.sentences)

    @property
    def budget(self) -> int:
        """Number of candidates that full budgets would have taken."""
        return sum((one.outcome.budget or 0) + one.outcome.anchors for one in self.sentences)

    @property
    def tokens(self) -> int:
        """Tokens of all candidates, if their generator reports them."""
        candidates = (candidate for one in self.sentences for candidate in (*one.anchors, *one.candidates))
        return sum(candidate.tokens or 0 for candidate in candidates)


@dataclass(slots=True)
class Prepared:
    """A text that is ready to be translated."""

    document: Document
    served: Served
    confidence: float | None
    rule: StoppingRule | None
    segments: list[list[Segment]]
    """For each passage, its sentences."""
    spans: list[Segment] = field(default_factory=list)
    """Words within sentences that have tags around them."""

    @property
    def flat(self) -> list[Segment]:
        return [segment for passage in self.segments for segment in passage]


class Jobs:
    """Runs jobs within limits."""

    def __init__(self, service: Service, limits: Limits) -> None:
        self.service, self.limits = service, limits

    async def prepare(self, job: Job) -> list[Prepared]:
        """Checks a job completely and splits its texts, without starting any work. This runs in a thread because long
        texts take a while."""
        for number, text in enumerate(job.texts, start=1):
            _check_text(text, f"text {number}" if len(job.texts) > 1 else "the text")
        self.limits.check_texts(job.texts)
        if not 1 <= job.nbest <= self.limits.nbest:
            raise bad(f"the number of translations must be from 1 to {self.limits.nbest}, not {job.nbest}")
        self.limits.deadline_of(job.deadline)
        prepared = await in_thread(lambda: [self._read(job, text) for text in job.texts])
        left = self.limits.waiting - sum(len(one.flat) for one in prepared)
        for one in prepared:
            one.rule = one.served.rule(job.max_loss, job.max_cost)
            one.spans = one.spans[: max(0, left)]
            left -= len(one.spans)
        return prepared

    def _read(self, job: Job, text: str) -> Prepared:
        served, confidence = self._pair(job, text)
        if job.seed is not None and not served.takes_seeds:
            raise bad(f"the model for {served.source} to {served.target} doesn't take a seed; leave it out")
        document = parse(text, served.source, job.form, job.ignored)
        before = Context(served.built.recipe.model.context)
        segments = [
            [before.of(Segment(one.id or "", one.text, seed=job.seed)) for one in passage.sentences]
            for passage in document.passages
        ]
        spans = [Segment(f"span {number}", words, seed=job.seed) for number, words in enumerate(document.spans, 1)]
        return Prepared(document, served, confidence, None, segments, spans)

    def _pair(self, job: Job, text: str) -> tuple[Served, float | None]:
        if job.served is not None:
            return job.served, None
        if job.source == AUTO:
            return self.service.detect(text, job.target)
        return self.service.find(job.source, job.target), None

    async def translate(self, job: Job, group: str) -> list[Translated]:
        prepared = await self.prepare(job)
        tickets = self.begin(job, prepared, group)
        try:
            return [await self.finish(job, one, mine) for one, mine in zip(prepared, tickets, strict=True)]
        finally:
            withdraw(tickets)

    def begin(self, job: Job, prepared: Sequence[Prepared], group: str) -> list[list[Ticket]]:
        """Submits all sentences, or none: a request that would have to wait too long is refused."""
        wanted: dict[int, tuple[Session, list[Segment]]] = {}
        for one in prepared:
            wanted.setdefault(id(one.served), (one.served.session, []))[1].extend([*one.flat, *one.spans])
        deadline = self.limits.deadline_of(job.deadline)
        for session, segments in wanted.values():
            self.limits.admit(session, len(segments), sum(len(segment.source) for segment in segments), deadline)
        tickets = list[list[Ticket]]()
        for number, one in enumerate(prepared):
            submit = partial(one.served.session.submit, group=group, rule=one.rule, deadline=deadline)
            sentences = [
                submit(segment, ranked=job.nbest > 1, observer=_observer(job, number, segment)) for segment in one.flat
            ]
            tickets.append([*sentences, *(submit(segment, ranked=True) for segment in one.spans)])
        return tickets

    async def finish(self, job: Job, prepared: Prepared, tickets: Sequence[Ticket]) -> Translated:
        done = [await ticket for ticket in tickets]
        sentences, spans = done[: len(prepared.flat)], done[len(prepared.flat) :]
        for one in sentences:
            _raise_failure(one, prepared.served)
        known = {one.segment.source: _translations(one) for one in spans}
        text = _joined(prepared, [one.outcome.translation for one in sentences], known)
        translated = Translated(text, prepared.served, prepared.confidence, sentences)
        if job.nbest < 2:
            return translated
        return replace(translated, nbest=_alternatives(translated, prepared, job.nbest, known))


async def settled_text(prepared: Prepared, tickets: Sequence[Ticket]) -> str:
    """The beginning of a translation, up to the first sentence that isn't among the tickets."""
    finished = [await ticket for ticket in tickets]
    for one in finished:
        _raise_failure(one, prepared.served)
    translations = [one.outcome.translation for one in finished]
    missing = len(prepared.flat) - len(finished)
    return _joined(prepared, [*translations, *[GAP] * missing]).partition(GAP)[0]


def withdraw(tickets: Sequence[Sequence[Ticket]]) -> None:
    for group in tickets:
        for ticket in group:
            ticket.cancel()


def _observer(job: Job, number: int, segment: Segment) -> Observer | None:
    watch = job.watch
    if watch is None:
        return None
    return lambda *seen: watch(Step(number, segment, *seen))


def _raise_failure(finished: Finished, served: Served) -> None:
    """Fails the request if a sentence failed, because half a text isn't a translation."""
    outcome = finished.outcome
    if outcome.stop is not StopReason.FAILED:
        return
    if finished.late:
        message = f"there was not enough time for all sentences: {outcome.error}"
        raise Refusal(503, "not_in_time", message, retry_after=later(served.session))
    raise Refusal(502, "translation_failed", f"translation failed: {outcome.error}")


def _translations(span: Finished) -> list[str]:
    """Translations of marked words; none if that failed, which doesn't fail the request."""
    best = [span.outcome.translation] if span.outcome.translation else []
    return list(dict.fromkeys([*best, *(one.text for one in span.ranked[:SPAN_CANDIDATES])]))


def _joined(prepared: Prepared, translations: Sequence[str], known: Known | None = None) -> str:
    left = iter(translations)
    by_passage = [list(islice(left, len(passage))) for passage in prepared.segments]
    return prepared.document.joined(by_passage, prepared.served.target, known)


def _alternatives(made: Translated, prepared: Prepared, count: int, known: Known) -> list[tuple[str, float]]:
    """The best text, then texts with one sentence replaced by another candidate, sorted by the loss of score."""
    best = [one.outcome.translation for one in made.sentences]
    top = made.score or 0.0
    costs = sorted(
        (one.ranked[0].score - other.score, rank, place, other.text)
        for place, one in enumerate(made.sentences)
        for rank, other in enumerate(one.ranked[1 : 2 * count], start=1)
    )
    texts = {made.text: top}
    for cost, _, place, text in costs:
        if len(texts) >= count:
            break
        other = _joined(prepared, [*best[:place], text, *best[place + 1 :]], known)
        texts.setdefault(other, top - cost / len(best))
    return list(texts.items())


def _check_text(text: str, what: str) -> None:
    if not is_writable(text):
        raise bad(f"{what} contains half of a surrogate pair, which isn't valid Unicode", "not_text")
    if "\0" in text:
        raise bad(f"{what} contains a NUL character, at character {text.index(chr(0)) + 1}", "not_text")
    if text.strip() and re.fullmatch(r"[\s\x01-\x1f\x7f-\x9f]+", text):
        raise bad(f"{what} contains only control characters", "not_text")
