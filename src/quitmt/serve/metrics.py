"""Prometheus metrics. Labels never contain client names or text."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from quitmt.engine.session import Session
from quitmt.serve.service import Service
from quitmt.serve.work import Translated

SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2, 4, 6, 8, 9, 10, 15, 30, 60)
QUEUES: dict[str, tuple[str, Callable[[Session], int]]] = {
    "quitmt_waiting_segments": ("Sentences waiting for a slot.", lambda one: one.waiting.segments),
    "quitmt_waiting_characters": ("Characters waiting for a slot.", lambda one: one.waiting.characters),
    "quitmt_active_segments": ("Sentences being translated.", lambda one: one.active),
    "quitmt_wasted_candidates": ("Candidates that were generated but not used.", lambda one: one.wasted),
}


class Metrics:
    def __init__(self, service: Service) -> None:
        self.registry = CollectorRegistry()
        self.in_flight = Gauge("quitmt_requests_in_flight", "Requests in progress.", registry=self.registry)
        self._requests = self._counter("quitmt_requests", "Finished requests by API and status.", "api", "status")
        self._seconds = Histogram(
            "quitmt_request_seconds", "Time from a request to its response.", ["api"],
            buckets=SECONDS, registry=self.registry,
        )  # fmt: skip
        self._candidates = self._counter("quitmt_candidates", "Candidates used.", "pair")
        self._saved = self._counter("quitmt_candidates_saved", "Candidates of the budget that were not needed.", "pair")
        self._tokens = self._counter("quitmt_tokens", "Tokens of the candidates used.", "pair")
        self._segments = self._counter("quitmt_segments", "Sentences by stop reason.", "pair", "stop")
        self._characters = self._counter("quitmt_characters", "Characters translated.", "pair")
        for name, (meaning, read) in QUEUES.items():
            gauge = Gauge(name, meaning, ["pair"], registry=self.registry)
            for served in service.all:
                gauge.labels(served.pair).set_function(partial(read, served.session))

    def _counter(self, name: str, meaning: str, *labels: str) -> Counter:
        return Counter(name, meaning, list(labels), registry=self.registry)

    def answered(self, api: str, status: int, seconds: float) -> None:
        self._requests.labels(api, str(status)).inc()
        self._seconds.labels(api).observe(seconds)

    def translated(self, translated: Iterable[Translated]) -> None:
        for one in translated:
            pair = one.served.pair
            self._candidates.labels(pair).inc(one.candidates)
            self._saved.labels(pair).inc(max(0, one.budget - one.candidates))
            self._tokens.labels(pair).inc(one.tokens)
            for sentence in one.sentences:
                self._segments.labels(pair, sentence.outcome.stop.value).inc()
                self._characters.labels(pair).inc(len(sentence.outcome.source))

    def text(self) -> bytes:
        return generate_latest(self.registry)
