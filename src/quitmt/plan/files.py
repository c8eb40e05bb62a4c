"""Recipes in files: TOML, or JSON by the name ``*.json``; and where each field stands in them."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from quitmt.errors import InputError, Speaker, as_keyword, setting
from quitmt.names import refuse_functions
from quitmt.recipe.fields import Declared, fields_of
from quitmt.recipe.functions import in_recipe
from quitmt.recipe.recipe import OUTSIDE, SECTIONS, Recipe

LARGEST = 1 << 20
"""Bytes. A recipe is some lines of text."""


@dataclass(frozen=True, slots=True)
class RecipeFile:
    """A recipe as it was read, and the lines of its fields."""

    path: str
    recipe: Recipe
    lines: Mapping[str, int] = field(default_factory=dict)

    def speaker(self, otherwise: Speaker = as_keyword) -> Speaker:
        """Names fields of the file by their line, and those that are not in it otherwise."""

        def say(name: str, example: str | None) -> str:
            line = self.lines.get(name) or self.lines.get(_table(name))
            if example or not line:
                return otherwise(name, example)
            return f"{self.path}, line {line}: {name.rpartition('.')[2] if example is None else ''}"

        return say


def _table(name: str) -> str:
    """The table that a setting is in, if that is within a section: ``model.options.batch`` may stand on its line."""
    return name.rpartition(".")[0] if name.count(".") > 1 else ""


def load(path: str, *, allow_functions: bool = False) -> RecipeFile:
    """A recipe whose fields have names and types that exist; ``Recipe.check`` says whether they go together. One that
    names functions is refused unless they are allowed; then its profile may name some as well."""
    return parse(_text(path), path, allow_functions=allow_functions)


def parse(text: str, path: str, *, allow_functions: bool = False) -> RecipeFile:
    """A recipe from its text."""
    found = _json(text, path) if path.endswith(".json") else _toml(text, path)
    lines = dict(_lines(text))

    def where(name: str) -> str:
        line = lines.get(name) or lines.get(name.partition(".")[0])
        section, _, last = name.rpartition(".")
        return f"{path}{f', line {line}' if line else ''}: {f'[{section}] ' if section else ''}{last}"

    try:
        recipe = Recipe.from_fields(found, where)
    except RecursionError:
        raise InputError(f"{path} is no recipe: something is nested too deeply") from None
    if recipe.run.allow_functions:
        hint = f"leave it out, and give {setting('run.allow_functions')} where the recipe is used"
        raise InputError(f"{where('run.allow_functions')}: a file cannot allow itself to run code", hint=hint)
    if not allow_functions:
        refuse_functions((where(name), spec) for name, spec in in_recipe(recipe))
    return RecipeFile(path, recipe.changed({"run.allow_functions": allow_functions}), lines)


def _text(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            found = file.read(LARGEST + 1)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}", hint="quitmt recipe prints one") from None
    if not found.strip():  # all defaults would be meant by it, or it was cut off
        raise InputError(f"{path} is empty", hint="quitmt recipe prints a whole one")
    if len(found) > LARGEST:
        raise InputError(f"{path} is no recipe: it has more than {LARGEST} bytes")
    try:
        return found.decode("utf-8-sig")  # some editors begin a file with a mark of its encoding
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8") from None


def _toml(text: str, path: str) -> Mapping[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path} is not TOML: {error}") from None
    except (ValueError, RecursionError):  # an integer of thousands of digits, a thousand brackets
        raise InputError(f"{path} is no recipe: a number is too long, or something nested too deeply") from None


def _json(text: str, path: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text, object_pairs_hook=_once)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except RecursionError:
        raise InputError(f"{path} is no recipe: something is nested too deeply") from None
    except ValueError as error:
        raise InputError(f"{path} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise InputError(f"{path} is no recipe: it must be an object of sections")
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """As TOML has it: what is said twice may be said in two ways."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise InputError(f"{next(name for name in names if names.count(name) > 1)!r} stands there twice")
    return found


_HEADER = re.compile(r"""[\s{]*(?:\[\s*([\w.]+)\s*\]|"(\w+)"\s*:\s*\{)""")
_KEY = re.compile(r"""[\s{]*"?([\w.]+)"?\s*[=:]""")


def _lines(text: str) -> Iterator[tuple[str, int]]:
    """Where fields stand: by the last section's header and the key of a line. The parsers do not tell."""
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
    """Ready to save: every field with its meaning, those that are not set as comments."""
    parts = []
    for name, kind in SECTIONS.items():
        own = getattr(recipe, name)
        lines = [f"[{name}]"]
        for declared in fields_of(kind).values():
            if declared.name in OUTSIDE:
                continue
            lines.append(_line(declared, getattr(own, declared.name), comments=comments))
        parts.append("\n".join(line for line in lines if line))
    return "\n\n".join(parts) + "\n"


def _line(declared: Declared, value: Any, *, comments: bool) -> str:
    unset = value is None or value == {}
    if unset and not comments:
        return ""
    example = "{}" if declared.default == {} else "…"
    assigned = f"# {declared.name} = {example}" if unset else f"{declared.name} = {_value(value)}"
    if not comments:
        return assigned
    meaning = declared.meaning.replace(" of the list below", "").replace(" in the list below", "")
    default = f" ({declared.shown})" if unset and declared.shown else ""
    return f"{assigned:<34} # {meaning}{default}"


def _value(value: Any) -> str:
    """As TOML; what JSON makes of texts, numbers and lists is TOML as well."""
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_value(str(key))} = {_value(one)}" for key, one in value.items() if one is not None)
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
