"""The formats: their columns and types, the rows that a source gives, and the prompts.

Trainers read the first columns of each format. The others describe a row's origin and can be left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from quitmt.export.entries import ExportEntry
from quitmt.generate.prompts.template import Prompt, made
from quitmt.types import Ranked, Segment

Kind = Literal["text", "number", "count", "truth", "prompt", "completion", "completions", "numbers", "counts"]
Row = dict[str, Any]
ABOUT: Mapping[str, Kind] = {"id": "text", "source": "text", "size": "count", "stop": "text", "signature": "text"}


@dataclass(frozen=True, slots=True)
class Format:
    meaning: str
    needs: Literal["best", "pairs", "all"]
    """The candidates that a format needs per source: the best one, pairs, or all."""
    trained: Mapping[str, Kind]
    """The columns that trainers read."""
    more: Mapping[str, Kind]
    at_least: int = 1
    """Minimum number of distinct candidates, if all are needed."""

    def columns(self, *, about: bool = True) -> dict[str, Kind]:
        """The columns in order; those after the first ones only with ``about``."""
        return {**self.trained, **({**self.more, **_missing(self.trained)} if about else {})}


def _missing(columns: Mapping[str, Kind]) -> dict[str, Kind]:
    return {name: kind for name, kind in ABOUT.items() if name not in columns}


PLAIN = "plain"
"""The template that contains only the source."""


@dataclass(frozen=True, slots=True)
class Voice:
    """Writes sources and translations for a trainer, as plain text or chat messages.

    Without a template the prompt is the source itself, which suits translation models. For a chat model, use the
    template that it translates with.
    """

    template: Prompt | None = None
    chat: bool = False

    def prompt(self, source: str) -> str | list[dict[str, Any]]:
        if self.template is None:
            return source
        segment = Segment("prompt", source)
        return self.template.messages(segment) if self.chat else self.template.text(segment)

    def completion(self, text: str) -> str | list[dict[str, Any]]:
        return [{"role": "assistant", "content": text}] if self.chat else text


def voice(template: str | None, languages: tuple[str | None, str | None], *, chat: bool) -> Voice:
    """Makes a voice; mistakes in the template or its languages are raised here."""
    if template is None and not chat:
        return Voice()
    return Voice(made(template or PLAIN, "", languages), chat)


_PAIR: Mapping[str, Kind] = {"prompt": "prompt", "completion": "completion"}
FORMATS: Mapping[str, Format] = {
    "sft": Format("the best translation of each source: prompt, completion", "best", _PAIR, {"score": "number"}),
    "parallel": Format(
        "the best translation of each source as a parallel corpus: source, target",
        "best",
        {"source": "text", "target": "text"},
        {"score": "number"},
    ),
    "dpo": Format(
        "preference pairs for DPO, CPO and similar methods: prompt, chosen, rejected",
        "pairs",
        {"prompt": "prompt", "chosen": "completion", "rejected": "completion"},
        {"score_chosen": "number", "score_rejected": "number", "margin": "number"},
    ),
    "kto": Format(
        "the candidates of these pairs as single rows for KTO: prompt, completion, label",
        "pairs",
        {**_PAIR, "label": "truth"},
        {"score": "number"},
    ),
    "ranked": Format(
        "all distinct candidates of each source with their scores, best first: prompt, completions, scores",
        "all",
        {"prompt": "prompt", "completions": "completions", "scores": "numbers"},
        {"counts": "counts", "log_probabilities": "numbers"},
        at_least=2,
    ),
    "reward": Format(
        "every distinct candidate with its score, for reward models: prompt, completion, score",
        "all",
        {**_PAIR, "score": "number"},
        {"count": "count", "log_probability": "number"},
    ),
}


def rows(name: str, entry: ExportEntry, candidates: Sequence[Ranked], voice: Voice) -> list[Row]:
    """The rows of one source. ``candidates`` are those that the format needs, the best one first."""
    about = {"id": entry.id, "source": entry.source, "size": entry.size, "stop": entry.stop}
    about["signature"] = entry.signature
    return [{**about, **row} for row in _ROWS[name](entry, candidates, voice)]


def _sft(entry: ExportEntry, candidates: Sequence[Ranked], voice: Voice) -> list[Row]:
    return [_judged(entry, candidates[0], voice)]


def _parallel(_: ExportEntry, candidates: Sequence[Ranked], __: Voice) -> list[Row]:
    return [{"target": candidates[0].text, "score": candidates[0].score}]


def _dpo(entry: ExportEntry, candidates: Sequence[Ranked], voice: Voice) -> list[Row]:
    chosen, *rejected = candidates
    return [
        {
            "prompt": voice.prompt(entry.source),
            "chosen": voice.completion(chosen.text),
            "rejected": voice.completion(one.text),
            "score_chosen": chosen.score,
            "score_rejected": one.score,
            "margin": chosen.score - one.score,
        }
        for one in rejected
    ]


def _kto(entry: ExportEntry, candidates: Sequence[Ranked], voice: Voice) -> list[Row]:
    return [{**_judged(entry, one, voice), "label": place == 0} for place, one in enumerate(candidates)]


def _ranked(entry: ExportEntry, candidates: Sequence[Ranked], voice: Voice) -> list[Row]:
    return [
        {
            "prompt": voice.prompt(entry.source),
            "completions": [voice.completion(one.text) for one in candidates],
            "scores": [one.score for one in candidates],
            "counts": [one.count for one in candidates],
            "log_probabilities": [one.log_probability for one in candidates],
        }
    ]


def _reward(entry: ExportEntry, candidates: Sequence[Ranked], voice: Voice) -> list[Row]:
    return [
        {**_judged(entry, one, voice), "count": one.count, "log_probability": one.log_probability} for one in candidates
    ]


def _judged(entry: ExportEntry, one: Ranked, voice: Voice) -> Row:
    return {"prompt": voice.prompt(entry.source), "completion": voice.completion(one.text), "score": one.score}


_ROWS: Mapping[str, Callable[[ExportEntry, Sequence[Ranked], Voice], list[Row]]] = {
    "sft": _sft, "parallel": _parallel, "dpo": _dpo, "kto": _kto, "ranked": _ranked, "reward": _reward
}  # fmt: skip
