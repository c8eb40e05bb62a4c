"""The sections of a recipe: every setting of a run with its type, default, meaning and flag.

Help, files, comments and the reference page are written from these declarations. A field that is None was left open;
``quitmt.plan.resolve`` fills it in.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from quitmt.defaults import ALPHA, AUTO_BUDGET, AUTO_STEP, BUDGET, KEEP, LANGUAGES, RERANKER, RULES, STEP, WINDOW
from quitmt.names import Option
from quitmt.plan.fields import declared, written
from quitmt.signature import field as field_text

SAMPLING, ENGINE, RERANKING = "sampling", "engine", "reranking"
STOPPING, LANGUAGE, DEADLINES = "when to stop", "languages", "deadlines"
SCORING, RUNNING = "scoring models (comet, kiwi, xcomet, metricx, embedding)", "how it runs"
SOURCE, TARGET = LANGUAGES


class Options(dict[str, Any]):
    """A read-only mapping."""

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise TypeError("a recipe cannot be changed; Recipe.changed returns another one")

    __setitem__ = __delitem__ = __ior__ = update = setdefault = pop = popitem = clear = _refuse

    def __reduce__(self) -> Any:
        return Options, (dict(self),)


@dataclass(frozen=True)
class ModelRecipe:
    """Where candidates come from."""

    name: str | None = declared(
        None, "model, by a name listed below", flag="--model", metavar="NAME", group=SAMPLING,
        shown=f"embedded:{SOURCE}-{TARGET}, or the embedded model for the languages",
    )  # fmt: skip
    source_language: str | None = declared(
        None, "source language", flag="--src", metavar="LANG", group=LANGUAGE, shown=f"the model's, or {SOURCE}"
    )
    target_language: str | None = declared(
        None, "target language", flag="--tgt", metavar="LANG", group=LANGUAGE, shown=f"the model's, or {TARGET}"
    )
    temperature: float | None = declared(
        None, "sampling temperature; 0 means greedy", flag="--temperature", metavar="T", group=SAMPLING,
        shown="a safe one for the engine",
    )  # fmt: skip
    top_k: int | None = declared(
        None, "sample only among the N most probable tokens", flag="--top-k", metavar="N", group=SAMPLING
    )
    top_p: float | None = declared(
        None, "sample only among the fewest tokens whose probabilities add up to P", flag="--top-p", metavar="P",
        group=SAMPLING,
    )  # fmt: skip
    epsilon: float | None = declared(
        None, "sample only among tokens with a probability of at least E", flag="--epsilon", metavar="E",
        group=SAMPLING,
    )  # fmt: skip
    min_p: float | None = declared(
        None, "sample only among tokens with at least P times the highest probability", flag="--min-p", metavar="P",
        group=SAMPLING,
    )  # fmt: skip
    anchors: str | None = declared(
        None, "candidates besides the samples, which the samples judge: some of greedy, beam:N and N@T (N samples at "
        "temperature T), separated by commas; or none",
        flag="--anchors", metavar="LIST", group=SAMPLING, shown="the best ones for the engine",
    )  # fmt: skip
    seed: int = declared(0, "random seed; the same seed gives the same candidates", flag="--seed", group=SAMPLING)
    context: int = declared(
        0, "chat models: number of previous lines to show the model", flag="--context", metavar="N", group=ENGINE
    )
    options: Mapping[str, Any] = declared({}, "options of the engine, such as base_url", group=ENGINE)

    def __post_init__(self) -> None:
        said = {name: value for name, value in dict(self.options).items() if value is not None}
        object.__setattr__(self, "options", Options(said))

    def __hash__(self) -> int:
        return hash(json.dumps(dict(written(self)), sort_keys=True, default=str))

    @property
    def languages(self) -> tuple[str | None, str | None]:
        return self.source_language, self.target_language


@dataclass(frozen=True)
class RerankRecipe:
    """How candidates are scored."""

    name: str = declared(RERANKER, "reranker, by a name listed below", flag="--rerank", metavar="NAME", group=RERANKING)
    variant: str = declared(
        "exact", "with mbr: exact, or one of the faster kinds listed below", flag="--mbr", metavar="KIND",
        group=RERANKING,
    )  # fmt: skip
    support: str | None = declared(
        None, "with mbr: who judges a candidate: others (all samples but itself), anchor (the others and the first "
        "anchor), all (all samples, as in the paper) or given (pseudo-references that come with each segment)",
        flag="--support", metavar="WHO", group=RERANKING, shown="anchor; others with a faster kind or a filter",
    )  # fmt: skip
    filter: str | None = declared(
        None, "with mbr: rerank only the best candidates by this qe: reranker", flag="--filter", metavar="NAME",
        group=RERANKING,
    )  # fmt: skip
    keep: int | None = declared(
        None, "candidates that the filter keeps", flag="--keep", metavar="M", group=RERANKING, shown=str(KEEP)
    )
    device: str | None = declared(
        None, "device: cpu, cuda or mps", flag="--device", group=SCORING, shown="the fastest one"
    )
    dtype: str | None = declared(
        None, "number format: float32, bfloat16 or float16", flag="--metric-dtype", metavar="TYPE", group=SCORING,
        shown="float32",
    )  # fmt: skip
    batch_tokens: int | None = declared(
        None, "tokens per batch", flag="--batch-tokens", metavar="N", group=SCORING, shown="as memory allows"
    )


@dataclass(frozen=True)
class StopRecipe:
    """When a segment has enough candidates: a rule by name, or a target that one is chosen for."""

    rule: str | None = declared(
        None, "stopping rule, by a name listed below, or auto: chosen for the target", flag="--stop", metavar="NAME",
        group=STOPPING,
        shown=f"{RULES['rivals']} with exact mbr, {RULES['running best']} with qe, {RULES['incomparable']} if scores "
        "do not compare; auto with a target, quit with w or alpha",
    )  # fmt: skip
    max_loss: str | float | None = declared(
        None, "target for auto: mean loss in units of the score, or as 0.02sd, in its standard deviations",
        flag="--max-loss", metavar="L", group=STOPPING,
    )  # fmt: skip
    max_cost: str | float | None = declared(
        None, "target for auto: mean candidates per segment; or tokens, as 3000tokens", flag="--max-cost",
        metavar="N", group=STOPPING,
    )  # fmt: skip
    profile: str | None = declared(
        None, "target for auto: the guarantee of this profile from quitmt calibrate", flag="--profile", metavar="FILE",
        group=STOPPING,
    )  # fmt: skip
    k: int | None = declared(
        None, "candidates per step", flag="-k --step", metavar="K", group=STOPPING,
        shown=f"{STEP}; {AUTO_STEP} with auto and exact mbr; or the profile's",
    )  # fmt: skip
    n: int | None = declared(
        None, "maximum candidates per segment", flag="-n --budget", metavar="N", group=STOPPING,
        shown=f"{BUDGET}; {AUTO_BUDGET} with auto and exact mbr; or the profile's",
    )  # fmt: skip
    w: int | None = declared(
        None, "quit: steps per window", flag="-w --window", metavar="W", group=STOPPING, shown=str(WINDOW)
    )
    alpha: float | None = declared(
        None, "quit: how far the best score may move in a stable window", flag="--alpha", metavar="A", group=STOPPING,
        shown=f"{ALPHA:g}",
    )  # fmt: skip
    single_step_window: bool = declared(
        False, "allow a window of 1, which always stops at the first step", flag="--single-step-window", group=STOPPING
    )

    def __post_init__(self) -> None:
        if self.max_loss is not None:
            object.__setattr__(self, "max_loss", _loss(str(self.max_loss)))
        if isinstance(self.max_cost, str):
            object.__setattr__(self, "max_cost", _cost(self.max_cost))

    @property
    def of_quit(self) -> bool:
        """Whether a setting is set that only quit has."""
        return self.w is not None or self.alpha is not None or self.single_step_window

    @property
    def targets(self) -> bool:
        """Whether a target is set."""
        return any(target is not None for target in (self.max_loss, self.max_cost, self.profile))


@dataclass(frozen=True)
class RunRecipe:
    """Limits of a run, which do not change how candidates are scored."""

    in_flight: int | None = declared(
        None, "segments in progress at the same time", flag="--in-flight", metavar="N", group=RUNNING,
        shown="the best number for the engine",
    )  # fmt: skip
    speculate: bool = declared(
        False, "request the next window while the last one is being reranked: keeps an engine busy, wastes some tokens",
        flag="--speculate", group=RUNNING,
    )  # fmt: skip
    nbest: int | None = declared(
        None, "put the N best distinct candidates with their scores into each outcome", flag="--nbest", metavar="N",
        group=RUNNING,
    )  # fmt: skip
    deadline: float | None = declared(
        None, "time limit of each segment, from its start", flag="--deadline", metavar="SECONDS", group=DEADLINES
    )
    run_deadline: float | None = declared(
        None, "time limit of the whole run, after the models are loaded; every line of a file first gets its cheapest "
        "translation, and all lines share the rest of the time for samples",
        flag="--run-deadline", metavar="SECONDS", group=DEADLINES,
    )  # fmt: skip
    allow_functions: bool = declared(
        False, "run the functions (MODULE:NAME) that a recipe or a profile names", flag="--allow-functions",
        group=RUNNING,
    )  # fmt: skip


OUTSIDE = frozenset(("allow_functions",))
"""Fields that a file cannot set, because they say how far it is trusted."""
ELSEWHERE = frozenset(("base_url", "device", "concurrency", "timeout", "batch", "patience"))
"""Engine options that say where and how fast, not what; a base URL may also be confidential."""
SECTIONS: Mapping[str, type[Any]] = {
    "model": ModelRecipe,
    "rerank": RerankRecipe,
    "stop": StopRecipe,
    "run": RunRecipe,
}


def engine_flags(options: Mapping[str, Option]) -> dict[str, str]:
    """The flags of engine options, by name."""
    return {
        name: f"--{'no-' if option.default is True else ''}{name.replace('_', '-')}" for name, option in options.items()
    }


def _loss(text: str) -> str:
    """The same text for the same number: 1e-3 and 0.0010 are 0.001. Other texts stay as they are."""
    number = text.removesuffix("sd")
    try:
        return f"{field_text(float(number))}{text[len(number) :]}"
    except ValueError:
        return text


def _cost(text: str) -> str | float:
    """A number of candidates, or a text with the number of tokens."""
    number = text.strip().removesuffix("tokens").strip()
    try:
        found = float(number)
    except ValueError:
        return text
    return f"{field_text(found)}tokens" if text.strip() != number else found
