"""A recipe from the keywords of ``quitmt.Translator``: the settings of Python, each one a field.

Parts may be objects or functions instead of names; settings that only make sense with a name are then refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from os import PathLike
from typing import Any

from quitmt.calibrate.profile import Profile
from quitmt.errors import KEYWORDS
from quitmt.generate import OPTIONS
from quitmt.metrics.devices import Hardware
from quitmt.plan.fields import fields_of
from quitmt.plan.objects import generator_of, reranker_of, rule_of
from quitmt.plan.plan import Parts
from quitmt.plan.recipe import Origin, Recipe, based_on
from quitmt.plan.sections import SECTIONS

PARTS = ("model", "reranker", "rule")
SPECIAL = (*PARTS, "profile", "hardware", "languages", "options", "preset")
"""Keywords that are more than the value of one field."""


def _plain() -> dict[str, str]:
    """The other keywords, and the field that each is."""
    special = {"options", "profile", "source_language", "target_language", "device", "dtype", "batch_tokens"}
    fields = [
        f"{section}.{name}" for section, kind in SECTIONS.items() for name in fields_of(kind) if name not in special
    ]
    named = {KEYWORDS.get(field) or field.rpartition(".")[2]: field for field in fields}
    return {keyword: field for keyword, field in named.items() if keyword not in PARTS}


def read(values: Mapping[str, Any]) -> tuple[Recipe, Parts]:
    """The recipe of these keywords, and the parts that are objects. None means unset."""
    plain = _plain()
    given = {name: value for name, value in values.items() if value is not None}
    for name in given:
        if name not in plain and name not in SPECIAL:
            raise _unknown(name, [*plain, *SPECIAL])
    _check_names(given, plain)
    changes: dict[str, Any] = {plain[name]: value for name, value in given.items() if name in plain}
    changes |= _languages(given.get("languages", (None, None)))
    for name, field in (("model", "model.name"), ("reranker", "rerank.name"), ("rule", "stop.rule")):
        if isinstance(given.get(name), str):
            changes[field] = given[name]
    if hardware := given.get("hardware"):
        changes |= _hardware(hardware)
    profile = given.get("profile")
    if isinstance(profile, str | PathLike):
        changes["stop.profile"] = str(profile)
    elif profile is not None and not isinstance(profile, Profile):
        raise TypeError(f"profile must be a file of quitmt calibrate, or a Profile, not {profile!r}")
    changes |= _options(given.get("options", {}))
    also = () if profile is None else ("stop.profile",)
    recipe = based_on(given.get("preset", "default"), changes, lambda _: Origin("keyword"), also)
    parts = Parts(
        generator=_object(given.get("model"), generator_of),
        reranker=_object(given.get("reranker"), reranker_of),
        rule=_object(given.get("rule"), rule_of),
        profile=profile if isinstance(profile, Profile) else None,
    )
    return recipe, parts


def _check_names(given: Mapping[str, Any], plain: Mapping[str, str]) -> None:
    """Settings of a part that is an object, and so has its own."""

    def of(section: str, *more: str) -> list[str]:
        own = [name for name, field in plain.items() if field.startswith(section)]
        return [name for name in (*own, *more) if given.get(name) not in (None, False)]

    if not isinstance(given.get("model", ""), str) and (strange := of("model.", "options")):
        what = "sampling settings go" if strange != ["options"] else "the options of an engine go"
        raise TypeError(f"{', '.join(strange)}: {what} with a model given by name")
    if not isinstance(given.get("reranker", ""), str) and of("rerank.", "hardware"):
        raise TypeError("mbr, filter, keep and hardware go with a reranker given by name")
    if not isinstance(given.get("rule", ""), str) and (strange := of("stop.", "profile")):
        raise TypeError(f"{', '.join(strange)}: these go with a rule given by name, and an object has its own")


def _unknown(name: str, known: Iterable[str]) -> TypeError:
    """Perhaps it is what the setting is called on the command line."""
    flags = {
        flag.strip("-").replace("-", "_"): KEYWORDS.get(f"{section}.{field}") or field
        for section, kind in SECTIONS.items()
        for field, declared in fields_of(kind).items()
        for flag in declared.flags
    } | {"rerank": "reranker", "stop": "rule", "src": "languages", "tgt": "languages"}
    if name in OPTIONS:
        return TypeError(f"there is no setting {name!r} (options={{{name!r}: …}} gives it to the engine)")
    near = [flags[name]] if name in flags else get_close_matches(name, list(known), n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"there is {', '.join(sorted(known))}"
    return TypeError(f"there is no setting {name!r} ({hint})")


def _languages(pair: Any) -> dict[str, str]:
    wrong = isinstance(pair, str) or not isinstance(pair, Iterable)
    found = [] if wrong else list(pair)
    if len(found) != 2 or not all(one is None or isinstance(one, str) for one in found):
        raise TypeError(f"languages must be a pair of codes such as ('en', 'de'), not {pair!r}")
    fields = ("model.source_language", "model.target_language")
    return {field: code for field, code in zip(fields, found, strict=True) if code is not None}


def _hardware(hardware: Any) -> dict[str, Any]:
    if not isinstance(hardware, Hardware):
        raise TypeError(f"hardware must be a quitmt Hardware(device, dtype, batch_tokens), not {hardware!r}")
    values = {"device": hardware.device, "dtype": hardware.dtype, "batch_tokens": hardware.batch_tokens}
    return {f"rerank.{name}": value for name, value in values.items() if value is not None}


def _options(options: Any) -> dict[str, Any]:
    if not isinstance(options, Mapping) or not all(isinstance(name, str) for name in options):
        raise TypeError(f"options must be a dictionary such as {{'max_tokens': 256}}, not {options!r}")
    return {f"model.options.{name}": value for name, value in options.items()}


def _object(part: Any, made: Callable[[Any], Any]) -> Any:
    """None for one that is given by name, or not at all."""
    return None if part is None or isinstance(part, str) else made(part)
