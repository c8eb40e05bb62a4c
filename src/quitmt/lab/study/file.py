"""Study files, in TOML.

Unknown fields are refused, so that a typing error never passes for a setting. So are numbers that no rule could be run
with. Paths are relative to the current directory.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quitmt import generate, stop
from quitmt.errors import InputError, UsageError, unknown
from quitmt.generate import anchors
from quitmt.lab.study.settings import (
    BaselineSettings,
    EvaluateSettings,
    LiveSettings,
    ModelSettings,
    PaperSettings,
    RerankSettings,
    RuleSettings,
    SamplingSettings,
    Study,
    TestSetSettings,
)
from quitmt.metrics.registry import EVALUATORS
from quitmt.names import is_function, refuse_functions
from quitmt.plan import Recipe, RerankRecipe, files
from quitmt.plan.fields import fields_of, read, written
from quitmt.plan.files import in_reranker
from quitmt.plan.resolve import resolve

SECTIONS: dict[str, type[Any]] = {
    "test_set": TestSetSettings,
    "model": ModelSettings,
    "rerank": RerankSettings,
    "rules": RuleSettings,
    "evaluate": EvaluateSettings,
    "baselines": BaselineSettings,
    "live": LiveSettings,
    "paper": PaperSettings,
}
SAMPLINGS = "samplings"

RANGES: dict[tuple[str, str], tuple[int, float]] = {
    ("test_set", "limit"): (1, math.inf),
    ("model", "budget"): (1, 1_000_000),
    ("model", "in_flight"): (1, 1_000_000),
    ("rules", "k"): (1, 1_000_000),
    ("rules", "alpha"): (0, math.inf),
    ("rules", "windows"): (2, 1_000_000),
    ("rules", "alphas"): (0, math.inf),
    ("rules", "alpha_windows"): (2, 1_000_000),
    ("rules", "steps"): (1, 1_000_000),
    ("rules", "costs"): (1, 1_000_000),
    ("rules", "splits"): (1, 100_000),
    ("evaluate", "resamples"): (1, 10_000_000),
    ("evaluate", "seed"): (0, math.inf),
    ("live", "windows"): (2, 1_000_000),
    ("live", "limit"): (1, math.inf),
}
"""The least and the largest value; larger numbers are typing errors, which would exhaust the memory."""
NOT_EMPTY = {
    ("rerank", "rerankers"),
    ("rules", "windows"),
    ("rules", "alphas"),
    ("rules", "alpha_windows"),
    ("rules", "steps"),
}


@dataclass(frozen=True)
class _Texts:
    """The fields above the sections."""

    title: str | None = None
    output: str | None = None
    recipe: str | None = None


def load(path: str, *, allow_functions: bool = False) -> Study:
    """A study that names functions is refused, unless they are allowed."""
    try:
        found = tomllib.loads(Path(path).read_text("utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}", hint="quitmt lab init writes one") from None
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError and TOMLDecodeError are ValueErrors
        raise InputError(f"{path} is not TOML: {error}") from None
    study = parse(found, path)
    if not allow_functions:
        refuse_functions((f"{path}, {field}", spec) for field, spec in functions_in(study))
    return study


def functions_in(study: Study) -> Iterator[tuple[str, str]]:
    """The user functions that a study names, each with its field; nothing is imported to find them."""
    if study.model.pools is None and is_function(study.model.name, generate.BACKENDS):
        yield "[model], name", study.model.name
    yield from (("[rerank], rerankers", spec) for spec in study.rerank.rerankers if in_reranker(spec))
    for field, specs in (("[rules], beyond", study.rules.beyond), ("[live], rules", study.live.rules)):
        yield from ((field, spec) for spec in specs if is_function(spec, stop.RULES))
    yield from (("[evaluate], metrics", spec) for spec in study.evaluate.metrics if is_function(spec, EVALUATORS))


def parse(found: Mapping[str, Any], where: str) -> Study:
    known = [*fields_of(_Texts), *SECTIONS, SAMPLINGS]
    for name in found:
        if name not in known:
            error = unknown("field of a study", name, known)
            raise InputError(f"{where}: {error.args[0]}", hint=error.hint)
    above = {name: value for name, value in found.items() if name in fields_of(_Texts)}
    texts = read(_Texts, above, _place(where), "a study")
    settings: dict[str, Any] = dict(written(texts))
    defaults = _of_recipe(texts.recipe, where) if texts.recipe is not None else {}
    for name, kind in SECTIONS.items():
        value = found.get(name, {})
        if not isinstance(value, dict):
            raise InputError(f"{where}: [{name}] must be a section")
        if name in found or name in defaults:
            whole = {**defaults.get(name, {}), **value}
            settings[name] = read(kind, whole, _place(f"{where}, [{name}]"), f"[{name}]")
    if "test_set" not in settings:
        raise InputError(f"{where} names no test set", hint="a section [test_set] with tsv, sources, name or jsonl")
    study = Study(**settings, samplings=_samplings(found.get(SAMPLINGS, []), where))
    chosen = [kind for kind in ("tsv", "sources", "name", "jsonl") if getattr(study.test_set, kind) is not None]
    if len(chosen) != 1:
        raise InputError(f"{where}, [test_set]: exactly one of tsv, sources, name and jsonl must be there")
    _check(study, where)
    _check_samplings(study, where)
    return study


def _samplings(found: Any, where: str) -> tuple[SamplingSettings, ...]:
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise InputError(f"{where}: {SAMPLINGS} must be sections, each under [[{SAMPLINGS}]]")
    place = f"{where}, [[{SAMPLINGS}]]"
    return tuple(
        read(SamplingSettings, one, _place(f"{place} {number}"), f"[[{SAMPLINGS}]]")
        for number, one in enumerate(found, start=1)
    )


def _check_samplings(study: Study, where: str) -> None:
    try:
        arms = study.arms()
        for arm in arms:
            if arm.study.model.pools is None:  # anchors of recorded pools are named by their recorded origins
                anchors.parse(arm.study.model.anchors or anchors.NONE)
        anchors.parse(study.baselines.anchors)
    except UsageError as error:
        raise InputError(f"{where}: {error.args[0]}", hint=error.hint) from None
    names = [arm.name for arm in arms]
    for name in study.live.samplings:
        if name not in names:
            stranger = unknown("sampling", name, names)
            raise InputError(f"{where}, [live], samplings: {stranger.args[0]}", hint=stranger.hint)


def _check(study: Study, where: str) -> None:
    """Refuse numbers out of range, lists that leave nothing to do, and lists with repeated values."""
    for section in SECTIONS:
        for field, value in ((one, getattr(getattr(study, section), one)) for one in fields_of(SECTIONS[section])):
            place = f"{where}, [{section}], {field}"
            values = value if isinstance(value, tuple) else () if value is None else (value,)
            if (section, field) in NOT_EMPTY and not values:
                raise InputError(f"{place} must not be empty")
            least, most = RANGES.get((section, field), (None, None))
            for number, one in enumerate(values):
                if least is not None and not (math.isfinite(one) and one >= least):
                    raise InputError(f"{place} must be {least} or more, not {one}")
                if most is not None and one > most:
                    raise InputError(f"{place} must be {most:,} or less, not {one:,}")
                if one in values[:number]:
                    raise InputError(f"{place} has {one!r} twice")


def _of_recipe(path: str, where: str) -> dict[str, dict[str, Any]]:
    """A recipe's settings, section by section, as defaults of a study."""
    recipe = files.load(path, allow_functions=True)  # functions are checked later, in the whole study
    if recipe.rerank.filter is not None:
        raise InputError(f"{where}: the lab replays exact MBR and QE, and {path} has a filter", hint="leave it out")
    faster = [] if recipe.rerank.variant == "exact" else [recipe.rerank.variant]
    scoring = {name: getattr(recipe.rerank, name) for name in ("support", "device", "dtype", "batch_tokens")}
    # Settings that the recipe leaves open get the defaults of a run, not those of the paper.
    sampling = resolve(Recipe(recipe.model, RerankRecipe(support=recipe.rerank.support)), installed=False).recipe.model
    defaults = {"temperature": sampling.temperature, "anchors": sampling.anchors}
    model = {**dict(written(recipe.model)), **defaults, "budget": recipe.stop.n, "in_flight": recipe.run.in_flight}
    found = {
        "model": model,
        "rerank": {"rerankers": [recipe.rerank.name], **({"accelerated": faster} if faster else {}), **scoring},
        "rules": {"k": recipe.stop.k, "alpha": recipe.stop.alpha},
        "live": {"windows": [recipe.stop.w]} if recipe.stop.w is not None else {},
    }
    return {name: {key: one for key, one in own.items() if one is not None} for name, own in found.items()}


def _place(where: str) -> Callable[[str], str]:
    return lambda name: f"{where}, {name}"
