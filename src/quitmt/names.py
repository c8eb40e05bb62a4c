"""The names that users give parts by: one grammar, and one entry for each name.

    NAME                          quit, chrf
    NAME:ARGUMENT                 fixed:64, comet:MODEL, bergamot:FOLDER
    NAME:OPTION=VALUE,…           loss:most=0.0005,minimum=32
    MODULE:ATTRIBUTE[:OPTION=…]   a part of yours, of a module that is installed or in the current directory

An entry (``Name``) says what a name means, what it takes, which extra it needs, and what makes it. Help, documentation
and checks are read from it. Installed packages add names by entry points, one group for each kind of part: the object
that an entry point names is a ``Name``, or what such a part is made of (docs/extending.md).
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import inspect
import json
import logging
import math
import re
import sys
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar

from quitmt.errors import MissingExtra, UsageError, nearest, setting, unknown
from quitmt.signature import field as written

log = logging.getLogger(__name__)

FORM = "write module:attribute, for a module that is installed or in the current directory"


@dataclass(frozen=True, slots=True)
class Type:
    """What an option may be: from a text in a name or a flag, or a value in a file or a call."""

    meaning: str
    parse: Callable[[str], Any]
    accepts: Callable[[Any], bool]


def _flag(text: str) -> bool:
    return {"yes": True, "no": False}[text]


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(int(size) for size in text.split("/"))


def _table(text: str) -> dict[str, Any]:
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError(text)
    return found


def _is_texts(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, list | tuple) and all(isinstance(one, str) for one in value))


INT = Type("a whole number", int, lambda value: type(value) is int)
FLOAT = Type("a number", float, lambda value: type(value) in (int, float) and math.isfinite(value))
TEXT = Type("a text", str, lambda value: isinstance(value, str))
TEXTS = Type("a text, or a list of texts", str, _is_texts)
FLAG = Type("yes or no", _flag, lambda value: isinstance(value, bool))
SIZES = Type("sizes such as 8/16/32", _sizes, lambda value: isinstance(value, list | tuple))
TABLE = Type("a JSON object", _table, lambda value: isinstance(value, Mapping))


@dataclass(frozen=True, slots=True)
class Option:
    type: Type
    default: Any = None
    meaning: str = ""
    metavar: str | None = None
    choices: tuple[str, ...] = ()

    def parsed(self, text: str) -> Any:
        """Raises ValueError for what it cannot be."""
        try:
            value = self.type.parse(text)
        except (ValueError, KeyError, RecursionError):
            raise ValueError(text) from None
        if self.choices and value not in self.choices:
            raise ValueError(text)
        return value

    @property
    def allowed(self) -> str:
        return f"one of {', '.join(self.choices)}" if self.choices else self.type.meaning


def options_of(factory: Callable[..., Any], *, without: tuple[str, ...] = ()) -> dict[str, Option]:
    """The options that a class or function takes: its parameters that have a default, of the default's type."""
    types = {bool: FLAG, int: INT, float: FLOAT, str: TEXT, tuple: SIZES}
    return {
        name: Option(types[type(parameter.default)], parameter.default)
        for name, parameter in parameters_of(factory).items()
        if name not in without and type(parameter.default) in types
    }


def parameters_of(factory: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(factory).parameters
    except (TypeError, ValueError):
        told = getattr(factory, "__name__", type(factory).__name__)
        raise UsageError(f"{told} does not say which parameters it takes", hint="wrap it in a function") from None


@dataclass(frozen=True)
class Name:
    """One entry. ``make`` is the factory, or where it is, as ``module:attribute``: imported when it is wanted."""

    meaning: str
    make: str | Callable[..., Any]
    argument: str = ""
    """What follows the colon, for people: MODEL, FOLDER; nothing if nothing does."""
    needs_argument: bool = False
    without: tuple[str, ...] = ()
    """Parameters of the factory that are no options of a name."""
    given: Mapping[str, Any] = field(default_factory=dict)
    """What the factory is always given."""
    extra: str | None = None
    needs: tuple[str, ...] = ()
    """Modules that the extra installs."""

    @property
    def factory(self) -> Callable[..., Any]:
        if not isinstance(self.make, str):
            return self.make
        module, _, attribute = self.make.partition(":")
        found: Any = getattr(importlib.import_module(module), attribute)
        return found  # type: ignore[no-any-return]

    @cached_property
    def options(self) -> Mapping[str, Option]:
        """Of a name with options after the colon; one with an argument has none."""
        return {} if self.argument else options_of(self.factory, without=(*self.without, *self.given))

    @property
    def installed(self) -> bool:
        return all(importlib.util.find_spec(module) is not None for module in self.needs)

    @property
    def command(self) -> str | None:
        """What installs it."""
        return f"pip install 'quitmt[{self.extra}]'" if self.extra else None

    def require(self, what: str) -> None:
        """Raise if what it needs is not installed."""
        if not self.installed:
            missing = " and ".join(module for module in self.needs if importlib.util.find_spec(module) is None)
            raise MissingExtra(f"{what} needs {missing}", hint=self.command)

    def usage(self, name: str) -> str:
        """As it is written, options with their defaults.

        >>> Name("…", lambda most=0.5, looks=2: None).usage("loss")
        'loss:most=0.5,looks=2'
        """
        if self.argument:
            return f"{name}:{self.argument}" if self.needs_argument else f"{name}[:{self.argument}]"
        options = ",".join(f"{option}={_shown(told.default)}" for option, told in self.options.items())
        return f"{name}:{options}" if options else name


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "/".join(map(str, value)) if isinstance(value, tuple) else written(value)


Entry = TypeVar("Entry", bound=Name)


class Names(Generic[Entry]):
    """All names of one kind of part: our own, then those of installed packages; ours win."""

    def __init__(
        self, what: str, own: Mapping[str, Entry], *, group: str, plug_in: Callable[[Any, str], Entry]
    ) -> None:
        """``plug_in`` makes an entry of an object that is none, and of its name."""
        self.what, self.own = what, dict(own)
        self._group, self._plug_in = group, plug_in

    @cached_property
    def _plug_ins(self) -> dict[str, importlib.metadata.EntryPoint]:
        return {one.name: one for one in importlib.metadata.entry_points(group=self._group) if one.name not in self.own}

    def __iter__(self) -> Iterator[str]:
        return iter((*self.own, *self._plug_ins))

    def __contains__(self, name: object) -> bool:
        return name in self.own or name in self._plug_ins

    def __getitem__(self, name: str) -> Entry:
        if name in self.own:
            return self.own[name]
        if name not in self._plug_ins:
            raise unknown(self.what, name, self)
        point, doing = self._plug_ins[name], "is imported"
        try:
            found = point.load()
            doing = "is looked at"
            entry: Entry = found if isinstance(found, Name) else self._plug_in(found, name)  # type: ignore[assignment]
            entry.usage(name)  # its options are found out now
        except (Exception, SystemExit) as error:
            log.debug("loading the plug-in %s failed", name, exc_info=error)
            told = f"{type(error).__name__}: {' '.join(str(error).split())}"
            of = f" of the package {point.dist.name}" if point.dist else ""
            raise UsageError(f"the {self.what} {name!r}{of} fails while it {doing}: {told}") from None
        return entry

    def entries(self) -> Iterator[tuple[str, Entry | UsageError]]:
        """Each with its entry; a plug-in that fails has its error there and hides nothing else."""
        for name in self:
            try:
                yield name, self[name]
            except UsageError as error:
                yield name, error

    def sound(self) -> dict[str, Entry]:
        """Those that can be had."""
        return {name: entry for name, entry in self.entries() if not isinstance(entry, UsageError)}

    def listed(self) -> dict[str, str]:
        """Usage and meaning of each, for people."""
        return {
            name if isinstance(entry, UsageError) else entry.usage(name): (
                str(entry) if isinstance(entry, UsageError) else entry.meaning
            )
            for name, entry in self.entries()
        }


def parsed(text: str, options: Mapping[str, Option], of: str) -> dict[str, Any]:
    """``OPTION=VALUE,…`` as values; ``of`` is what the options are of, for the errors."""
    found: dict[str, Any] = {}
    for part in text.split(",") if text else []:
        name, _, value = part.partition("=")
        if not options:
            raise UsageError(f"{of} has no options, such as {part!r}")
        if name not in options:
            raise unknown(f"option of {of}", name, options)
        if name in found:
            raise UsageError(f"{of} has {name} twice, in {text!r}")
        try:
            found[name] = options[name].parsed(value)
        except ValueError:
            hint = f"{name} is {options[name].allowed}, as in {name}={_shown(options[name].default)}"
            raise UsageError(f"{part!r} is not a setting of {of}", hint=hint) from None
    return found


_OPTIONS = re.compile(r"[A-Za-z_]\w*=")


def without_options(spec: str) -> str:
    """A name with its argument or attribute, and nothing more.

    >>> without_options("loss:most=0.1,looks=4"), without_options("mine:Patience:steps=3"), without_options("fixed:64")
    ('loss', 'mine:Patience', 'fixed:64')
    """
    parts = spec.split(":")
    return ":".join(parts[:-1] if len(parts) > 1 and _OPTIONS.match(parts[-1]) else parts)


def own_part(spec: str, known: Iterable[str] = ()) -> tuple[Any, str]:
    """What ``MODULE:ATTRIBUTE[:OPTION=VALUE,…]`` names, and the text of its options."""
    head = without_options(spec)
    return attribute(head, known), spec[len(head) + 1 :]


def is_function(spec: str, known: Container[str]) -> bool:
    """Whether a text names a function of somebody's module rather than a part that has a name. Nothing is imported."""
    name, colon, _ = spec.partition(":")
    return bool(colon) and name not in known and all(part.isidentifier() for part in name.split("."))


def refuse_functions(named: Iterable[tuple[str, str]]) -> None:
    """For files, which are data: refuse the functions that one names, each with its place.

    What a user types or writes in Python may name functions. A recipe, a profile or a study may come from anybody, and
    to read one must not run code.
    """
    for where, spec in named:
        raise UsageError(
            f"{where}: {spec!r} names a function, and files may not run code",
            hint=f"give {setting('run.allow_functions')} if you trust whoever wrote the file",
        )


def is_module(name: str) -> bool:
    """Whether there is such a module, installed or in the current directory; packages above it are imported for it."""
    if not all(part.isidentifier() for part in name.split(".")):
        return False
    try:
        with _current_directory():
            return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def attribute(spec: str, known: Iterable[str] = ()) -> Any:
    """What a text like ``my_module:score`` or ``package.module:object.method`` names.

    The current directory counts as a place for modules while the module is imported, and only then. If there is no such
    module, it may be a misspelt name: ``known`` are those that could have stood there.
    """
    name, _, path = spec.partition(":")
    if (near := nearest(name, known, cutoff=0.75)) and not is_module(name):
        raise UsageError(f"there is no {name!r}, and no module of that name", hint=f"did you mean {near!r}?")
    if not all(part.isidentifier() for part in [*name.split("."), *path.split(".")]):
        raise UsageError(f"{spec!r} does not name a module and an attribute", hint=FORM)
    found = _module(name)
    for part in path.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            near = nearest(part, [one for one in dir(found) if not one.startswith("__")], cutoff=0.6)
            hint = f"did you mean {near!r}?" if near else None
            raise UsageError(f"the module {name} has no {path}", hint=hint) from None
    return found


def _module(name: str) -> Any:
    try:
        with _current_directory():
            return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and error.name and f"{name}.".startswith(f"{error.name}."):
            hint = f"write {name.removesuffix('.py')}, without .py" if name.endswith(".py") else FORM
            raise UsageError(f"there is no module {name}", hint=hint) from None
        log.debug("importing %s failed", name, exc_info=error)
        said = " ".join(str(error).split())
        raise UsageError(f"the module {name} fails while it is imported: {type(error).__name__}: {said}") from None


def _current_directory() -> AbstractContextManager[None]:
    return importable(*([] if "" in sys.path else ["."]))


@contextmanager
def importable(*folders: str) -> Iterator[None]:
    """With folders last on the path, so that a file in them hides nothing that is installed."""
    added = [one for one in (str(Path(folder).absolute()) for folder in folders) if one not in sys.path]
    sys.path.extend(added)
    try:
        yield
    finally:
        for one in added:
            with suppress(ValueError):
                sys.path.remove(one)
