"""A study as its file says it, in TOML.

A field that does not exist is refused, so that a typing error never passes for a setting, and so is a number that no
rule could be run with. Paths are relative to where quitmt is run.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quitmt.errors import InputError, UsageError, unknown
from quitmt.generate import anchors
from quitmt.lab.study.functions import in_study
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
from quitmt.names import refuse_functions
from quitmt.plan import Recipe, RerankRecipe, files, resolve
from quitmt.plan.fields import fields_of, read, written

MOST = {
    "[model], budget": 1_000_000,
    "[model], in_flight": 1_000_000,
    "[rules], k": 1_000_000,
    "[rules], windows": 1_000_000,
    "[rules], alpha_windows": 1_000_000,
    "[rules], steps": 1_000_000,
    "[rules], costs": 1_000_000,
    "[rules], splits": 100_000,
    "[evaluate], resamples": 10_000_000,
    "[live], windows": 1_000_000,
}
"""Numbers above these are typing errors: no pool is so large, and nothing could be computed."""

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


@dataclass(frozen=True)
class _Texts:
    """What stands above the sections."""

    title: str | None = None
    output: str | None = None
    recipe: str | None = None


def load(path: str, *, allow_functions: bool = False) -> Study:
    """One that names functions is refused, unless they are allowed."""
    try:
        found = tomllib.loads(Path(path).read_text("utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}", hint="quitmt lab init writes one") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not TOML: {error}") from None
    except RecursionError:
        raise InputError(f"{path} cannot be read: it is nested too deeply") from None
    except ValueError:
        raise InputError(f"{path} cannot be read: a number in it has too many digits") from None
    study = parse(found, path)
    if not allow_functions:
        refuse_functions((f"{path}, {field}", spec) for field, spec in in_study(study))
    return study


def parse(found: Mapping[str, Any], where: str) -> Study:
    known = [*fields_of(_Texts), *SECTIONS, SAMPLINGS]
    for name in found:
        if name not in known:
            error = unknown("field of a study", name, known)
            raise InputError(f"{where}: {error.args[0]}", hint=error.hint)
    above = {name: value for name, value in found.items() if name in fields_of(_Texts)}
    texts = read(_Texts, above, _place(where), "a study")
    given: dict[str, Any] = dict(written(texts))
    defaults = _of_recipe(texts.recipe, where) if texts.recipe is not None else {}
    for name, kind in SECTIONS.items():
        value = found.get(name, {})
        if not isinstance(value, dict):
            raise InputError(f"{where}: [{name}] must be a section")
        if name in found or name in defaults:
            whole = {**defaults.get(name, {}), **value}
            given[name] = read(kind, whole, _place(f"{where}, [{name}]"), f"[{name}]")
    if "test_set" not in given:
        raise InputError(f"{where} names no test set", hint="a section [test_set] with tsv, sources, name or jsonl")
    study = Study(**given, samplings=_samplings(found.get(SAMPLINGS, []), where))
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
        names = [arm.name for arm in study.arms()]
        for arm in study.arms():
            if arm.study.model.pools is None:  # of recorded ones the names are whatever they were recorded with
                anchors.parse(arm.study.model.anchors or anchors.NONE)
        anchors.parse(study.baselines.anchors)
    except UsageError as error:
        raise InputError(f"{where}: {error.args[0]}", hint=error.hint) from None
    for name in study.live.samplings:
        if name not in names:
            stranger = unknown("sampling", name, names)
            raise InputError(f"{where}, [live], samplings: {stranger.args[0]}", hint=stranger.hint)


def _check(study: Study, where: str) -> None:
    """Refuse numbers out of range and lists that leave nothing to do."""
    rules = study.rules
    least = {
        "[test_set], limit": (study.test_set.limit, 1),
        "[model], budget": (study.model.budget, 1),
        "[model], in_flight": (study.model.in_flight, 1),
        "[rules], k": (rules.k, 1),
        "[rules], alpha": (rules.alpha, 0),
        "[rules], windows": (rules.windows, 2),
        "[rules], alphas": (rules.alphas, 0),
        "[rules], alpha_windows": (rules.alpha_windows, 2),
        "[rules], steps": (rules.steps, 1),
        "[rules], costs": (rules.costs, 1),
        "[rules], splits": (rules.splits, 1),
        "[evaluate], resamples": (study.evaluate.resamples, 1),
        "[evaluate], seed": (study.evaluate.seed, 0),
        "[live], windows": (study.live.windows, 2),
        "[live], limit": (study.live.limit, 1),
    }
    for name, (value, lowest) in least.items():
        for one in value if isinstance(value, tuple) else () if value is None else (value,):
            if not (math.isfinite(one) and one >= lowest):
                raise InputError(f"{where}, {name} must be {lowest} or more, not {one}")
            if one > MOST.get(name, one):
                raise InputError(f"{where}, {name} must be {MOST[name]:,} or less, not {one:,}")
    lists: dict[str, tuple[object, ...]] = {
        "[rerank], rerankers": study.rerank.rerankers,
        "[rules], windows": rules.windows,
        "[rules], alphas": rules.alphas,
        "[rules], alpha_windows": rules.alpha_windows,
        "[rules], steps": rules.steps,
    }
    for name, values in lists.items():
        if not values:
            raise InputError(f"{where}, {name} must not be empty")
    may_be_empty: dict[str, tuple[object, ...]] = {
        "[rerank], accelerated": study.rerank.accelerated,
        "[rules], beyond": rules.beyond,
        "[rules], costs": rules.costs,
        "[evaluate], metrics": study.evaluate.metrics,
        "[live], rules": study.live.rules,
    }
    for name, values in {**lists, **may_be_empty}.items():
        if twice := [one for place, one in enumerate(values) if one in values[:place]]:
            raise InputError(f"{where}, {name} has {twice[0]!r} twice")


def _of_recipe(path: str, where: str) -> dict[str, dict[str, Any]]:
    """What a recipe says of a study, section by section."""
    recipe = files.load(path, allow_functions=True)  # the study that it becomes a part of is checked as a whole
    if recipe.rerank.filter is not None:
        raise InputError(f"{where}: the lab replays exact MBR and QE, and {path} has a filter", hint="leave it out")
    faster = [] if recipe.rerank.variant == "exact" else [recipe.rerank.variant]
    scoring = {name: getattr(recipe.rerank, name) for name in ("support", "device", "dtype", "batch_tokens")}
    # What the recipe leaves open is as a run of it would have it, which is not as in the paper.
    sampling = resolve(Recipe(recipe.model, RerankRecipe(support=recipe.rerank.support)), installed=False).recipe.model
    own = {"temperature": sampling.temperature, "anchors": sampling.anchors}
    model = {**dict(written(recipe.model)), **own, "budget": recipe.stop.n, "in_flight": recipe.run.in_flight}
    found = {
        "model": model,
        "rerank": {"rerankers": [recipe.rerank.name], **({"accelerated": faster} if faster else {}), **scoring},
        "rules": {"k": recipe.stop.k, "alpha": recipe.stop.alpha},
        "live": {"windows": [recipe.stop.w]} if recipe.stop.w is not None else {},
    }
    return {name: {key: one for key, one in own.items() if one is not None} for name, own in found.items()}


def _place(where: str) -> Callable[[str], str]:
    return lambda name: f"{where}, {name}"
