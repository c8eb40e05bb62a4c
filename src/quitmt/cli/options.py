"""Flags that several commands share. The flags of a recipe are made from its fields, and parsed into a recipe.

A flag wins over the recipe's file. Messages name a setting by its flag, or, if it came from the file, by its line.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Iterable, Mapping
from textwrap import fill
from typing import Any

from quitmt import generate, stop
from quitmt.cli.main import Flags
from quitmt.errors import UsageError, speak
from quitmt.files.outputs import STDOUT
from quitmt.generate import BACKENDS, OPTIONS
from quitmt.names import TEXTS, Option
from quitmt.plan import files
from quitmt.plan.fields import Declared, fields_of
from quitmt.plan.precedence import PRESETS
from quitmt.plan.recipe import Origin, Recipe, based_on
from quitmt.plan.sections import ENGINE, SECTIONS, engine_flags
from quitmt.rerank import Reranking, specs, variants

DEVICE = "device"
"""One flag for the engine and for scoring models."""
GROUPS = {
    "deadlines": "When time is up, a segment stops with the best translation so far, and its outcome says deadline.",
    ENGINE: "quitmt models lists them",
}


def listed(title: str, entries: Mapping[str, str]) -> str:
    """A section of the help that explains names."""
    lines = [f"{title}:"]
    for name, meaning in entries.items():
        if len(name) > 18:
            lines.append(f"  {name}")
        beside = " " * 21 if len(name) > 18 else f"  {name:<18} "
        lines.append(fill(meaning, 100, initial_indent=beside, subsequent_indent=" " * 21))
    return "\n".join(lines) + "\n\n"


def rerankers() -> str:
    return listed("rerankers", specs.listed())


def names() -> str:
    rules = stop.RULES.listed() | {"MODULE:NAME": "your own rule, an object or a class, with options after a colon"}
    return rerankers() + listed("kinds of MBR (--mbr)", variants.listed()) + listed("stopping rules", rules)


def models() -> str:
    return listed("models", BACKENDS.listed() | generate.OWN)


def add_recipe(parser: argparse.ArgumentParser, *wanted: str, usual: Mapping[str, str] | None = None) -> None:
    """``--recipe``, and a flag for each field of some sections (``stop``) or for single ones (``rerank.name``).
    ``usual`` are a command's own defaults, in words."""
    parser.add_argument(
        "--recipe", metavar="FILE", help="recipe of a run, as quitmt recipe prints it; flags win over it"
    )
    parser.add_argument(
        "--preset", metavar="NAME", help=f"defaults to start from: {' or '.join(PRESETS)} [default: default]"
    )
    groups: dict[str, Any] = {}
    for name, declared in _wanted(wanted):
        if name == "model.options":
            continue
        group = groups.get(declared.group)
        if group is None:
            group = groups[declared.group] = parser.add_argument_group(declared.group, GROUPS.get(declared.group))
        if name != "rerank.device" or "model" not in wanted:
            _add(group, name, declared, (usual or {}).get(name))
    if "model" in wanted:
        _add_engine(groups[ENGINE])


def _wanted(wanted: Iterable[str]) -> Iterable[tuple[str, Declared]]:
    for section, kind in SECTIONS.items():
        for field, declared in fields_of(kind).items():
            if section in wanted or f"{section}.{field}" in wanted:
                yield f"{section}.{field}", declared


def _add(group: Any, name: str, declared: Declared, usual: str | None) -> None:
    kind, default = declared.value_type, usual or declared.shown or declared.default
    told = declared.meaning
    if default is not None and kind is not bool:
        told = f"{told} [default: {f'{default:g}' if isinstance(default, float) else default}]"
    if kind is bool:
        group.add_argument(*declared.flags, dest=name, action="store_true", default=None, help=told)
    else:
        group.add_argument(
            *declared.flags,
            dest=name,
            type=kind,
            metavar=declared.metavar or declared.name.upper(),
            help=_escaped(told),
        )


def _add_engine(group: Any) -> None:
    flags = engine_flags(OPTIONS)
    for name, option in OPTIONS.items():
        takers = ", ".join(key for key, backend in BACKENDS.own.items() if name in backend.takes)
        if name == DEVICE:
            group.add_argument("--device", help=f"{takers}, and scoring models: {option.meaning}")
        elif isinstance(option.default, bool):
            action = "store_false" if option.default else "store_true"
            told = f"{takers}: {'do not ' if option.default else ''}{option.meaning}"
            group.add_argument(flags[name], dest=f"model.options.{name}", action=action, default=None, help=told)
        else:
            several = option.type is TEXTS
            told = f"{takers}: {option.meaning}{_default(option)}{'; may be repeated' if several else ''}"
            group.add_argument(
                flags[name],
                action="append" if several else "store",
                dest=f"model.options.{name}",
                type=_parser(option),
                metavar=option.metavar or name.upper(),
                help=_escaped(told),
            )
    group.add_argument(
        "--option", dest="engine_options", action="append", default=[], metavar="NAME=VALUE",
        help="an option of an engine of an installed package; may be repeated",
    )  # fmt: skip


def _default(option: Option) -> str:
    choices = f" ({', '.join(option.choices)})" if option.choices else ""
    if option.default is None:
        return choices
    shown = f"{option.default:g}" if isinstance(option.default, float) else str(option.default)
    return f"{choices} [default: {shown}]"


def _escaped(text: str) -> str:
    return text.replace("%", "%%")


def _parser(option: Option) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        try:
            return option.parsed(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not {option.allowed}") from None

    return parse


def recipe_of(args: argparse.Namespace) -> Recipe:
    """The recipe of the flags and the file. From here on, messages name settings by where they came from."""
    allowed = bool(vars(args).get("run.allow_functions"))
    given = {name: _single(value) for name, value in vars(args).items() if "." in name and value is not None}
    if args.recipe is None:
        recipe = based_on(args.preset or "default", given, _origin)
    elif args.preset is not None:
        hint = f'write preset = "{args.preset}" at the top of the file'
        raise UsageError("--preset and --recipe do not go together", hint=hint)
    else:
        recipe = files.load(args.recipe, allow_functions=allowed).over(given, _origin)
    recipe = recipe.changed(_engine_options(recipe, getattr(args, "engine_options", [])), _origin)
    if getattr(args, DEVICE, None) is not None:
        device = Origin("flag", "--device")
        recipe = recipe.changed(dict.fromkeys(_device_fields(recipe), args.device), lambda _: device)
    speak(files.FileSpeaker(recipe, Flags()))
    return recipe


def _single(value: Any) -> Any:
    """The only value of a flag that may be repeated."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _origin(field: str) -> Origin:
    return Origin("flag", as_flag(field, None))


def _engine_options(recipe: Recipe, texts: Iterable[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    backend = generate.find(recipe.model.name).backend if recipe.model.name and texts else None
    for text in texts:
        name, equals, value = text.partition("=")
        known = backend.engine_options.get(name) if backend else None
        if not equals:
            raise UsageError(f"--option {text} must be NAME=VALUE")
        try:
            found[f"model.options.{name}"] = known.parsed(value) if known else value
        except ValueError:
            allowed = known.allowed if known else ""
            raise UsageError(f"--option {name} must be {allowed}, not {value!r}") from None
    return found


def _device_fields(recipe: Recipe) -> list[str]:
    """The fields that --device sets: of the engine, the scoring models or both; of the engine if neither takes one, so
    that its check reports it."""
    name, *_ = generate.resolve(recipe.model.name, None, None)
    backend = BACKENDS.own.get(name.partition(":")[0])
    fields = ["model.options.device"] if backend and DEVICE in backend.takes else []
    try:
        neural = Reranking(recipe.rerank.name, filter=recipe.rerank.filter).neural
    except UsageError:  # ``resolve`` reports it
        neural = False
    return [*fields, "rerank.device"] if neural else fields or ["model.options.device"]


def as_flag(field: str, example: str | None) -> str:
    """A setting as it is written on the command line."""
    section, _, name = field.partition(".")
    if name.startswith("options."):
        option = name.partition(".")[2]
        flag = engine_flags(OPTIONS).get(option, f"--option {option}")
    elif section in SECTIONS and name in fields_of(SECTIONS[section]):
        flag = fields_of(SECTIONS[section])[name].flag
    else:
        flag = f"--{field.rpartition('.')[2].replace('_', '-')}"
    return flag if example is None else f"{flag} {shlex.quote(example) if ' ' in example else example}"


def add_output(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        default=STDOUT,
        help="file for the translations, one per line [default: stdout]",
    )
    group.add_argument(
        "--jsonl",
        metavar="FILE",
        nargs="?",
        const=STDOUT,
        help="also write full outcomes as JSON lines to FILE; without FILE, write them instead of the translations",
    )
    group.add_argument(
        "--nbest-text",
        metavar="FILE",
        help="also write n-best lists (--nbest) to FILE, in the format of Moses and Marian",
    )
    group.add_argument(
        "--keep-pools",
        metavar="FILE",
        help="record the used candidates and their scores in a new FILE, for quitmt rerank and export",
    )
    group.add_argument(
        "--show",
        action="store_true",
        help="print a score curve and the stop reason of each segment, instead of plain translations",
    )
    group.add_argument(
        "--resume",
        action="store_true",
        help="continue a run that was interrupted or killed, and retry failed segments; needs an output FILE; does "
        "nothing if the run is finished",
    )
    group.add_argument("-q", "--quiet", action="store_true", help="show no progress bar and no summary")
