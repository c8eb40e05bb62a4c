"""Recipes in files: TOML, or JSON if the name ends with ``.json``; and the line of each field."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from quitmt import generate, stop
from quitmt.errors import InputError, Speaker, UsageError, setting
from quitmt.metrics import combination
from quitmt.metrics.registry import RERANKERS, SCORING_MODELS
from quitmt.names import is_function, refuse_functions
from quitmt.plan.fields import Declared, fields_of
from quitmt.plan.recipe import Origin, Place, Recipe
from quitmt.plan.sections import OUTSIDE, SECTIONS

LARGEST = 1 << 20
"""Bytes of a recipe's file."""


class FileSpeaker(Speaker):
    """Names the settings of a file by their line, and all other settings as another speaker does."""

    def __init__(self, recipe: Recipe, otherwise: Speaker | None = None) -> None:
        self._origins, self._otherwise = recipe.origins, otherwise or Speaker()

    def setting(self, field: str, example: str | None) -> str:
        where = self.place(field) if example is None else ""
        return where + field.rpartition(".")[2] if where else self._otherwise.setting(field, example)

    def place(self, field: str) -> str:
        origin = self._origins.get(field)
        return f"{origin}: " if origin is not None and origin.kind == "file" else ""


class _Lines(Place):
    """Names the fields of a file by their lines."""

    def __init__(self, path: str, text: str) -> None:
        self._path, self._lines = path, dict(_lines(text))

    def name(self, field: str) -> str:
        line = self._lines.get(field) or self._lines.get(field.partition(".")[0])
        section, _, last = field.rpartition(".")
        return f"{self._path}{f', line {line}' if line else ''}: {f'[{section}] ' if section else ''}{last}"

    def origin(self, field: str) -> Origin | None:
        table = field.rpartition(".")[0] if field.count(".") > 1 else ""  # model.options.batch may be on its line
        line = self._lines.get(field) or self._lines.get(table)
        return Origin("file", f"{self._path}, line {line}") if line else Origin("file", self._path)


def load(path: str, *, allow_functions: bool = False) -> Recipe:
    """Read a recipe whose fields have names and types that exist; ``resolve`` checks whether they go together. One that
    names functions is refused unless they are allowed; then its profile may name some too."""
    return parse(_text(path), path, allow_functions=allow_functions)


def parse(text: str, path: str, *, allow_functions: bool = False) -> Recipe:
    """Read a recipe from its text."""
    found = _json(text, path) if path.endswith(".json") else _toml(text, path)
    lines = _Lines(path, text)
    try:
        recipe = Recipe.from_fields(found, lines)
    except RecursionError:
        raise InputError(f"{path} isn't a recipe: something is nested too deeply") from None
    if recipe.run.allow_functions:
        hint = f"leave it out, and give {setting('run.allow_functions')} where the recipe is used"
        raise InputError(f"{lines.name('run.allow_functions')}: a file cannot allow itself to run code", hint=hint)
    if not allow_functions:
        refuse_functions((lines.name(name), spec) for name, spec in functions_in(recipe))
    return recipe.changed({"run.allow_functions": allow_functions})


def functions_in(recipe: Recipe) -> Iterator[tuple[str, str]]:
    """Yield every function that a recipe names, with its field. Nothing is imported for it."""
    if recipe.model.name is not None and is_function(recipe.model.name, generate.BACKENDS):
        yield "model.name", recipe.model.name
    for field, spec in (("rerank.name", recipe.rerank.name), ("rerank.filter", recipe.rerank.filter)):
        if spec is not None and in_reranker(spec):
            yield field, spec
    if recipe.stop.rule is not None and is_function(recipe.stop.rule, stop.RULES):
        yield "stop.rule", recipe.stop.rule


def in_reranker(spec: str) -> bool:
    """Whether one of the metrics behind ``mbr:`` or ``qe:`` is a function, or finds answers by one (``vote:``)."""
    known = {name.partition(":")[2] for name in RERANKERS} | {*SCORING_MODELS}
    try:
        metrics = combination.parse(spec.partition(":")[2]).metrics
    except UsageError:  # ``resolve`` reports it
        return False
    return any(is_function(metric, known) or metric.startswith("vote:") for metric in metrics)


def _text(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            found = file.read(LARGEST + 1)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}", hint="quitmt recipe prints one") from None
    if not found.strip():  # perhaps it was cut off
        raise InputError(f"{path} is empty", hint="quitmt recipe prints a whole one")
    if len(found) > LARGEST:
        raise InputError(f"{path} isn't a recipe: it has more than {LARGEST} bytes")
    try:
        return found.decode("utf-8-sig")  # some editors begin a file with a byte order mark
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8") from None


def _toml(text: str, path: str) -> Mapping[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path} is not TOML: {error}") from None
    except (ValueError, RecursionError):  # an integer of thousands of digits, a thousand brackets
        raise InputError(f"{path} isn't a recipe: a number is too long, or something nested too deeply") from None


def _json(text: str, path: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text, object_pairs_hook=_once)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except RecursionError:
        raise InputError(f"{path} isn't a recipe: something is nested too deeply") from None
    except ValueError as error:
        raise InputError(f"{path} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise InputError(f"{path} isn't a recipe: it must be an object of sections")
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a name that occurs twice, as TOML does."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise InputError(f"{next(name for name in names if names.count(name) > 1)!r} occurs twice")
    return found


_HEADER = re.compile(r"""[\s{]*(?:\[\s*([\w.]+)\s*\]|"(\w+)"\s*:\s*\{)""")
_KEY = re.compile(r"""[\s{]*"?([\w.]+)"?\s*[=:]""")


def _lines(text: str) -> Iterator[tuple[str, int]]:
    """Yield the line of each field, found by the last section header and the key, because parsers don't tell."""
    section = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if (header := _HEADER.match(line)) and (header[1] or header[2] in SECTIONS or header[2] == "options"):
            name = header[1] or header[2]
            section = f"{section.partition('.')[0]}.{name}" if name == "options" and section else name
            yield section, number
            line = line[header.end() :]
        if key := _KEY.match(line):
            yield (f"{section}.{key[1]}" if section else key[1]), number


def to_toml(recipe: Recipe, *, comments: bool = True) -> str:
    """Write a recipe as TOML, ready to save: every field with its meaning and the origin of its value, unset fields as
    comments."""
    parts = []
    for name, kind in SECTIONS.items():
        own = getattr(recipe, name)
        lines = [f"[{name}]"]
        for declared in fields_of(kind).values():
            if declared.name not in OUTSIDE:
                origin = recipe.origins.get(f"{name}.{declared.name}")
                lines.append(_line(declared, getattr(own, declared.name), origin, comments=comments))
        parts.append("\n".join(line for line in lines if line))
    return "\n\n".join(parts) + "\n"


def _line(declared: Declared, value: Any, origin: Origin | None, *, comments: bool) -> str:
    unset = value is None or value == {}
    if unset and not comments:
        return ""
    example = "{}" if declared.default == {} else "…"
    assigned = f"# {declared.name} = {example}" if unset else f"{declared.name} = {_value(value)}"
    if not comments:
        return assigned
    meaning = declared.meaning.replace(" listed below", "")
    default = f" [default: {declared.shown}]" if unset and declared.shown else ""
    source = f" ({origin})" if origin is not None else ""
    return f"{assigned:<34} # {meaning}{default}{source}"


def _value(value: Any) -> str:
    """Write a value as TOML; JSON's texts, numbers and lists are TOML too."""
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_value(str(key))} = {_value(one)}" for key, one in value.items() if one is not None)
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
