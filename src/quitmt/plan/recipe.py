"""The recipe of a run: what the user said about the model, the reranker, the stopping rule and limits.

>>> recipe = Recipe().changed({"rerank.name": "qe:likelihood", "stop.w": 4})
>>> recipe == Recipe.from_fields(recipe.to_fields()), len({recipe, recipe.changed({"stop.w": 4})})
(True, 1)
>>> recipe.to_fields()["stop"]
{'w': 4, 'single_step_window': False}
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from quitmt.errors import InputError, setting, unknown
from quitmt.plan.fields import check_value, fields_of, read, written
from quitmt.plan.precedence import preset, removed
from quitmt.plan.sections import ELSEWHERE, SECTIONS, ModelRecipe, RerankRecipe, RunRecipe, StopRecipe

if TYPE_CHECKING:
    from quitmt.plan.build import Built

OBJECT = "object:"
"""Prefix of the name of a part that was passed as an object: the recipe names it, but cannot make it again."""
ORIGINS = "origins"
"""The section of JSON with the origin of each value; it sets nothing."""


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


def _within(where: Place, section: str, name: str) -> str:
    return where.name(f"{section}.{name}")
