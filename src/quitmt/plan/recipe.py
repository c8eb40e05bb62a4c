"""The recipe of a run: what the user said about the model, the reranker, the stopping rule and limits.

    >>> recipe = Recipe().changed({"rerank.name": "qe:likelihood", "stop.w": 4})
    >>> recipe == Recipe.from_fields(recipe.to_fields()), len({recipe, recipe.changed({"stop.w": 4})})
    (True, 1)
    >>> recipe.to_fields()["stop"]
    {'w': 4, 'single_step_window': False}

A field that is None was left open; ``quitmt.plan.resolve`` fills it in.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from quitmt.defaults import RERANKER
from quitmt.errors import InputError, setting, unknown
from quitmt.names import Option
from quitmt.plan.fields import check_value, declared, fields_of, read, written
from quitmt.plan.precedence import preset, removed
from quitmt.signature import field as field_text

if TYPE_CHECKING:
    from quitmt.plan.build import Built

OBJECT = "object:"
"""Prefix of the name of a part that was passed as an object: the recipe names it, but cannot make it again."""
ORIGINS = "origins"
"""The section of JSON with the origin of each value; it sets nothing."""
SAMPLING, ENGINE, RERANKING = "sampling", "engine", "reranking"
STOPPING, LANGUAGES, DEADLINES = "when to stop", "languages", "deadlines"
SCORING, RUNNING = "scoring models (comet, kiwi, xcomet, metricx, embedding)", "how it runs"


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
        None, "the model, by a name of the list below", flag="--model", metavar="NAME", group=SAMPLING,
        shown="embedded:en-pt, or as the languages say",
    )  # fmt: skip
    source_language: str | None = declared(
        None, "source language", flag="--src", metavar="LANG", group=LANGUAGES, shown="the model's, or en"
    )
    target_language: str | None = declared(
        None, "target language", flag="--tgt", metavar="LANG", group=LANGUAGES, shown="the model's, or pt"
    )
    temperature: float | None = declared(
        None, "of sampling; 0 is greedy", flag="--temperature", metavar="T", group=SAMPLING,
        shown="what is safe for the engine",
    )  # fmt: skip
    top_k: int | None = declared(
        None, "sample only among the N most probable tokens", flag="--top-k", metavar="N", group=SAMPLING
    )
    top_p: float | None = declared(
        None, "… the fewest tokens that have probability P together", flag="--top-p", metavar="P", group=SAMPLING
    )
    epsilon: float | None = declared(
        None, "… tokens with a probability of at least E", flag="--epsilon", metavar="E", group=SAMPLING
    )
    min_p: float | None = declared(
        None, "… tokens with at least the share P of the most probable one's probability", flag="--min-p", metavar="P",
        group=SAMPLING,
    )  # fmt: skip
    anchors: str | None = declared(
        None, "candidates that are not samples, and that the samples judge: some of greedy, beam:N and N@T (N samples "
        "at temperature T), with commas; or none",
        flag="--anchors", metavar="LIST", group=SAMPLING, shown="what the engine is best with",
    )  # fmt: skip
    seed: int = declared(0, "of the random numbers; same seed, same candidates", flag="--seed", group=SAMPLING)
    context: int = declared(
        0, "chat models: how many of the lines before they see too", flag="--context", metavar="N", group=ENGINE
    )
    options: Mapping[str, Any] = declared({}, "the engine's own options, such as base_url", group=ENGINE)

    def __post_init__(self) -> None:
        given = {name: value for name, value in dict(self.options).items() if value is not None}
        object.__setattr__(self, "options", Options(given))

    def __hash__(self) -> int:
        return hash(json.dumps(dict(written(self)), sort_keys=True, default=str))

    @property
    def languages(self) -> tuple[str | None, str | None]:
        return self.source_language, self.target_language


@dataclass(frozen=True)
class RerankRecipe:
    """How candidates are scored."""

    name: str = declared(
        RERANKER, "the reranker, by a name of the list below", flag="--rerank", metavar="NAME", group=RERANKING
    )
    variant: str = declared(
        "exact", "with mbr: exact, or one of the faster kinds in the list below", flag="--mbr", metavar="KIND",
        group=RERANKING,
    )  # fmt: skip
    support: str | None = declared(
        None, "with mbr: who judges a candidate: others (all samples but itself), anchor (these, and the first anchor)"
        ", all (all samples, as in the paper) or given (texts of support that come with each segment)",
        flag="--support", metavar="WHO", group=RERANKING, shown="anchor; others with a faster kind or a filter",
    )  # fmt: skip
    filter: str | None = declared(
        None, "with mbr: only among the candidates that this qe: reranker likes best", flag="--filter", metavar="NAME",
        group=RERANKING,
    )  # fmt: skip
    keep: int | None = declared(
        None, "with a filter: how many candidates it keeps", flag="--keep", metavar="M", group=RERANKING, shown="64"
    )
    device: str | None = declared(
        None, "where they run: cpu, cuda, mps", flag="--device", group=SCORING, shown="the best there is"
    )
    dtype: str | None = declared(
        None, "their number format: float32, bfloat16, float16", flag="--metric-dtype", metavar="TYPE", group=SCORING,
        shown="float32",
    )  # fmt: skip
    batch_tokens: int | None = declared(
        None, "tokens they read at a time", flag="--batch-tokens", metavar="N", group=SCORING,
        shown="as memory allows",
    )  # fmt: skip


@dataclass(frozen=True)
class StopRecipe:
    """When a segment has enough candidates: a rule by name, or a wish by which one is chosen."""

    rule: str | None = declared(
        None, "the rule, by a name of the list below, or auto: by the wishes here", flag="--stop", metavar="NAME",
        group=STOPPING,
        shown="auto with exact mbr or a wish; fixed:64 where scores do not compare; else quit, also with w or alpha",
    )  # fmt: skip
    max_loss: str | float | None = declared(
        None, "auto: the mean loss to aim at, in units of the score, or as 0.02sd, in its standard deviations",
        flag="--max-loss", metavar="L", group=STOPPING,
    )  # fmt: skip
    max_cost: str | float | None = declared(
        None, "auto: candidates per segment to aim at, on average; or tokens, as 3000tokens", flag="--max-cost",
        metavar="N", group=STOPPING,
    )  # fmt: skip
    profile: str | None = declared(
        None, "auto: the rule that keeps the guarantee of quitmt calibrate", flag="--profile", metavar="FILE",
        group=STOPPING,
    )  # fmt: skip
    k: int | None = declared(
        None,
        "candidates per step",
        flag="-k --step",
        metavar="K",
        group=STOPPING,
        shown="8, 4 with auto and mbr, or the profile's",
    )
    n: int | None = declared(
        None,
        "candidates at most",
        flag="-n --budget",
        metavar="N",
        group=STOPPING,
        shown="512, 256 with auto and mbr, or the profile's",
    )
    w: int | None = declared(None, "quit: steps per window", flag="-w --window", metavar="W", group=STOPPING, shown="8")
    alpha: float | None = declared(
        None, "quit: how far the best score may move in a stable window", flag="--alpha", metavar="A", group=STOPPING,
        shown="0.001",
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
        """Whether it sets what only quit has."""
        return self.w is not None or self.alpha is not None or self.single_step_window

    @property
    def targets(self) -> bool:
        return any(target is not None for target in (self.max_loss, self.max_cost, self.profile))


@dataclass(frozen=True)
class RunRecipe:
    """Limits of a run; nothing in it changes which candidate of a segment is the best."""

    in_flight: int | None = declared(
        None, "segments worked on at the same time", flag="--in-flight", metavar="N", group=RUNNING,
        shown="as the engine likes it",
    )  # fmt: skip
    speculate: bool = declared(
        False, "ask for the next window while the last one is being reranked: keeps an engine busy, wastes some tokens",
        flag="--speculate", group=RUNNING,
    )  # fmt: skip
    nbest: int | None = declared(
        None, "put the N best distinct candidates with their scores into each outcome", flag="--nbest", metavar="N",
        group=RUNNING,
    )  # fmt: skip
    deadline: float | None = declared(
        None, "of each segment, from when it is begun", flag="--deadline", metavar="SECONDS", group=DEADLINES
    )
    run_deadline: float | None = declared(
        None, "of the whole run, from when the models are loaded; every line of a file first gets its cheapest "
        "translation, and the time that is left is shared among all lines for samples",
        flag="--run-deadline", metavar="SECONDS", group=DEADLINES,
    )  # fmt: skip
    allow_functions: bool = declared(
        False, "run the functions (MODULE:NAME) that a recipe or a profile names", flag="--allow-functions",
        group=RUNNING,
    )  # fmt: skip


OUTSIDE = frozenset(("allow_functions",))
"""Fields that a file cannot set, because they say how far it is trusted."""

SECTIONS: Mapping[str, type[Any]] = {
    "model": ModelRecipe,
    "rerank": RerankRecipe,
    "stop": StopRecipe,
    "run": RunRecipe,
}


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value came from."""

    kind: Literal["flag", "keyword", "file", "preset", "profile", "engine", "default"]
    detail: str = ""
    """The flag, the file and line, the preset or engine by name, or the reason for a default."""

    def __str__(self) -> str:
        if self.kind in ("flag", "file"):
            return self.detail
        if self.kind == "engine":
            return f"default of {self.detail}"
        return f"{self.kind} {self.detail}".strip()


Origins = Callable[[str], Origin | None]
"""From the full name of a field to its origin."""


class Place:
    """Names the fields of a recipe that was given as a mapping."""

    def name(self, field: str) -> str:
        """The field in an error message."""
        return f"the recipe's {field}"

    def origin(self, field: str) -> Origin | None:
        return None


@dataclass(frozen=True)
class Recipe:
    model: ModelRecipe = field(default_factory=ModelRecipe)
    rerank: RerankRecipe = field(default_factory=RerankRecipe)
    stop: StopRecipe = field(default_factory=StopRecipe)
    run: RunRecipe = field(default_factory=RunRecipe)
    origins: Mapping[str, Origin] = field(default_factory=dict, compare=False, repr=False)
    """Where the values came from, by the full names of the fields; those of a Python program have none."""

    @classmethod
    def from_fields(cls, found: Mapping[str, Any], place: Place | None = None) -> Recipe:
        """Make a recipe of a mapping of sections."""
        where = place or Place()
        sections: dict[str, Any] = {}
        for name, section in found.items():
            if name in ("preset", ORIGINS):
                continue
            if name not in SECTIONS:
                error = unknown("section of a recipe", str(name), SECTIONS)
                raise InputError(f"{where.name(str(name))}: {error.args[0]}", hint=error.hint)
            if not isinstance(section, Mapping):
                raise InputError(f"{where.name(name)} must be a section, not {section!r}")
            sections[name] = read(SECTIONS[name], section, partial(_within, where, name), f"[{name}]")
        said = [f"{name}.{field}" for name, section in found.items() if name in SECTIONS for field in section]
        options = found.get("model", {}).get("options") or ()
        places = {name: where.origin(name) for name in (*said, *(f"model.options.{option}" for option in options))}
        origins = {name: origin for name, origin in places.items() if origin is not None}
        based = found.get("preset")
        if based is None:
            return cls(**sections, origins=origins)
        if not isinstance(based, str):
            raise InputError(f"{where.name('preset')} must be a text, not {based!r}")
        values = {name: getattr(sections[name.partition(".")[0]], name.partition(".")[2]) for name in said}
        recipe = based_on(based, values, where.origin)
        return replace(recipe, origins={**recipe.origins, **origins})

    def over(self, values: Mapping[str, Any], origin: Origins) -> Recipe:
        """Replace values of this recipe by stronger ones, and remove what those contradict (``precedence``)."""
        own = {f"{name}.{field}": value for name, kind in self.to_fields().items() for field, value in kind.items()}
        gone = removed(values, own, rule=values.get("stop.rule"))
        return self.changed(dict.fromkeys(gone)).changed(values, origin)

    def changed(self, values: Mapping[str, Any], origin: Origins | None = None) -> Recipe:
        """With other values of some fields, by their full names: ``{"rerank.keep": 32, "model.options.batch": 8}``."""
        found, origins = self, dict(self.origins)
        for name, value in values.items():
            section, _, rest = name.partition(".")
            if section not in SECTIONS or not (rest in fields_of(SECTIONS[section]) or rest.startswith("options.")):
                known = [f"{section}.{field}" for section, kind in SECTIONS.items() for field in fields_of(kind)]
                raise unknown("field of a recipe", name, known)
            own = getattr(found, section)
            if rest.startswith("options."):
                check_value(value, setting(name))
                new = replace(own, options={**own.options, rest.partition(".")[2]: value})
            else:
                new = replace(own, **{rest: fields_of(type(own))[rest].converted(value, setting(name))})
            found = replace(found, **{section: new})
            origins.pop(name, None)
            if value is not None and origin is not None and (where := origin(name)) is not None:
                origins[name] = where
        return replace(found, origins=origins)

    def to_fields(self) -> dict[str, dict[str, Any]]:
        """Everything that is set or has a default, for JSON."""
        sections = {name: dict(written(getattr(self, name))) for name in SECTIONS}
        return {name: section for name, section in sections.items() if section}

    def of_results(self) -> dict[str, Any]:
        """The fields that results depend on: all but the limits of the run and where the model and the metrics run.
        For candidates that the recipe did not sample (recorded pools, a function) only the languages are known."""
        found = self.to_fields()
        found.pop("run", None)
        if self.model.name is None or self.model.name.startswith(OBJECT):
            known = ("name", "source_language", "target_language", "anchors")
            found["model"] = {name: value for name, value in found.get("model", {}).items() if name in known}
        for section, places in (("model", ("options",)), ("rerank", ("device", "batch_tokens"))):
            for place in places:
                found.get(section, {}).pop(place, None)
        options = {name: value for name, value in self.model.options.items() if name not in ELSEWHERE}
        if "model" in found and options:
            found["model"]["options"] = options
        return found

    def check(self) -> None:
        """Raise everything that is wrong with it, without loading a model."""
        from quitmt.plan.resolve import resolve

        resolve(self)

    def build(self) -> Built:
        """Load its parts."""
        from quitmt.plan.build import build
        from quitmt.plan.resolve import resolve

        return build(resolve(self))


def based_on(name: str, said: Mapping[str, Any], origin: Origins, also: Iterable[str] = ()) -> Recipe:
    """The recipe of a preset, and over it what the user said; ``also`` are fields said as objects."""
    usual = preset(name)
    gone = removed((*said, *also), usual, is_preset=True)
    kept = {field: value for field, value in usual.items() if field not in gone}
    return Recipe().changed(kept, lambda _: Origin("preset", name)).changed(said, origin)


def _loss(text: str) -> str:
    """One text for one wish, however it was written: 1e-3 and 0.0010 are 0.001. What is no number stays as it is."""
    number = text.removesuffix("sd")
    try:
        return f"{field_text(float(number))}{text[len(number) :]}"
    except ValueError:
        return text


def _cost(text: str) -> str | float:
    """A number of candidates, however it was written, or a text with the number of tokens."""
    number = text.strip().removesuffix("tokens").strip()
    try:
        found = float(number)
    except ValueError:
        return text
    return f"{field_text(found)}tokens" if text.strip() != number else found


ELSEWHERE = frozenset(("base_url", "device", "concurrency", "timeout", "batch", "patience"))
"""Options that say where and how fast, not what; a base URL may also be nobody's business."""


def _within(where: Place, section: str, name: str) -> str:
    return where.name(f"{section}.{name}")


def engine_flags(options: Mapping[str, Option]) -> dict[str, str]:
    """The flags of engines' options, by name."""
    return {
        name: f"--{'no-' if option.default is True else ''}{name.replace('_', '-')}" for name, option in options.items()
    }
