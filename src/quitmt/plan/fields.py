"""Settings as fields of dataclasses: each with its type, default, meaning and flag, declared once.

quitmt uses these declarations to read files, keywords and flags, and to write help, comments and errors.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from quitmt.errors import InputError, unknown
from quitmt.files.durable import is_writable

DEEPEST = 16
SHOWN = 80
"""Maximum characters of an invalid value to quote in an error."""

Section = TypeVar("Section")
BITS = 64
"""Maximum size of whole numbers."""
Where = Callable[[str], str]
"""Turns a field's name into its place in a file, for errors: ``my.toml, line 3, [model] top_k``."""


def declared(
    default: Any, meaning: str, *, flag: str = "", metavar: str | None = None, group: str = "", shown: str = ""
) -> Any:
    """Declare a field. ``flag`` may list several (``-k --step``). ``shown`` is displayed for a default that is
    computed later."""
    about = {"meaning": meaning, "flags": tuple(flag.split()), "metavar": metavar, "group": group, "shown": shown}
    if isinstance(default, dict):
        return dataclasses.field(default_factory=lambda: dict(default), metadata=about)
    return dataclasses.field(default=default, metadata=about)


@dataclass(frozen=True, slots=True)
class Declared:
    """The declaration of one field."""

    name: str
    types: tuple[type, ...]
    inner: type | None
    """The type of a list's items."""
    default: Any
    meaning: str
    flags: tuple[str, ...]
    metavar: str | None
    group: str
    shown: str

    @property
    def flag(self) -> str:
        """The shortest flag; by default it is made from the name."""
        return min(self.flags, key=len) if self.flags else f"--{self.name.replace('_', '-')}"

    @property
    def value_type(self) -> type:
        """The type that text is converted to."""
        return next(one for one in (*self.types, str) if one is not NoneType)

    def converted(self, value: Any, where: str) -> Any:
        """Convert a value from a file or a caller to the field's type, or raise an error that says what is allowed."""
        if value is None and NoneType in self.types:
            return None
        if tuple in self.types and isinstance(value, list | tuple):
            return tuple(_converted(one, (self.inner or str,), where) for one in value)
        return _converted(value, self.types, where)


def _converted(value: Any, types: tuple[type, ...], where: str) -> Any:
    number = float in types and type(value) is int
    fits = isinstance(value, Mapping) if dict in types else isinstance(value, types) or number
    if not fits or (isinstance(value, bool) and bool not in types):
        told = {bool: "true or false", int: "a whole number", float: "a number", str: "a text", dict: "a table"}
        allowed = " or ".join(told.get(one, "a list") for one in types if one is not NoneType)
        raise InputError(f"{where} must be {allowed}, not {_shown(value)}")
    check_value(value, where)
    return float(value) if number else dict(value) if isinstance(value, Mapping) else value


def _shown(value: object) -> str:
    """A value as an error quotes it: cut if it is long, replaced if it cannot be printed."""
    try:
        found = repr(value)
    except (ValueError, RecursionError):
        return "one that is too long to show"
    return found if len(found) <= SHOWN else f"{found[:SHOWN]}…"


def check_value(value: Any, where: str, depth: int = 0) -> None:
    """Raise an error for a value of the right type that quitmt still can't compute with or write to a file."""
    if depth > DEEPEST:
        raise InputError(f"{where} is nested too deeply")
    if isinstance(value, int) and value.bit_length() > BITS:
        raise InputError(f"{where} is too large: a whole number has at most {BITS} bits")
    if isinstance(value, str) and ("\0" in value or not is_writable(value)):
        raise InputError(f"{where} must be Unicode text without zero bytes, not {_shown(value)}")
    if value is None and depth:
        raise InputError(f"{where} has an empty value in it, which a recipe cannot hold")
    if isinstance(value, Mapping):
        for name, inner in value.items():
            check_value(name, where, depth + 1)
            check_value(inner, f"{where}.{name}" if depth == 0 else where, depth + 1)
    elif isinstance(value, list | tuple):
        for inner in value:
            check_value(inner, where, depth + 1)


@cache
def _fields_of(kind: Any) -> Mapping[str, Declared]:
    hints = get_type_hints(kind)
    return {one.name: _declared(one, hints[one.name]) for one in dataclasses.fields(kind)}


def fields_of(kind: type[Any]) -> Mapping[str, Declared]:
    return _fields_of(kind)  # type: ignore[arg-type]  # a class is hashable


def _declared(one: dataclasses.Field[Any], hint: Any) -> Declared:
    hints = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    types = tuple(dict if (get_origin(each) or each) is Mapping else (get_origin(each) or each) for each in hints)
    default = one.default_factory() if one.default_factory is not MISSING else one.default
    inner = next((get_args(each)[0] for each in hints if get_origin(each) is tuple), None)
    about = one.metadata
    return Declared(
        one.name,
        types,
        inner,
        default,
        about.get("meaning", ""),
        about.get("flags", ()),
        about.get("metavar"),
        about.get("group", ""),
        about.get("shown", ""),
    )


def read(kind: type[Section], found: Mapping[str, Any], where: Where, what: str) -> Section:
    """Make a section from the values in a file or from a caller; ``what`` names it in errors."""
    known = fields_of(kind)
    given = {}
    for name, value in found.items():
        if name not in known:
            error = unknown(f"field of {what}", str(name), known)
            raise InputError(f"{where(name)}: {error.args[0]}", hint=error.hint)
        given[name] = known[name].converted(value, where(name))
    return kind(**given)


def written(section: Any) -> Iterator[tuple[str, Any]]:
    """The fields that are set, so neither None nor an empty table."""
    for name in fields_of(type(section)):
        value = getattr(section, name)
        if value is not None and value != {}:
            yield name, value
