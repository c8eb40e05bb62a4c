"""Writes docs/reference.md, the list of all names and settings, from their declarations (``make reference``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from quitmt import generate, stop
from quitmt.generate import BACKENDS, OPTIONS
from quitmt.metrics.registry import RERANKERS
from quitmt.plan.fields import fields_of
from quitmt.plan.sections import SECTIONS, engine_flags
from quitmt.rerank import specs, variants

OPENING = """\
# Reference: names and settings

`make reference` writes this page from the source code, and a test checks it. [extending.md](extending.md) explains how
names are built, and [recipes.md](recipes.md) explains recipes."""


def page() -> str:
    rules = {stop.RULES.own[name].usage(name): stop.RULES.own[name].meaning for name in stop.RULES.own}
    rerankers = {entry.usage(name): entry.meaning for name, entry in RERANKERS.own.items()}
    models = {backend.usage(name): backend.meaning for name, backend in BACKENDS.own.items()}
    parts = [
        OPENING,
        _names("Models (`--model`)", models | generate.OWN),
        _names("Rerankers (`--rerank`)", rerankers | specs.PATTERNS),
        _names("Kinds of MBR (`--mbr`)", variants.listed()),
        _names("Stopping rules (`--stop`)", rules | {"MODULE:NAME:OPTION=VALUE,…": "your own rule"}),
        *(_fields(section) for section in SECTIONS),
        _options(),
    ]
    return "\n\n".join(parts) + "\n"


def _names(title: str, entries: Mapping[str, str]) -> str:
    return _table(title, ("name", "meaning"), ((f"`{name}`", meaning) for name, meaning in entries.items()))


def _fields(section: str) -> str:
    rows = []
    for name, field in fields_of(SECTIONS[section]).items():
        if name == "options":
            rows.append(("`options`", "[below](#options-of-engines-model-options)", "", field.meaning))
        else:
            flags = ", ".join(f"`{flag}`" for flag in field.flags)
            default = field.shown or ("" if field.default is None else str(field.default).lower())
            meaning = field.meaning.replace(" listed below", "")
            rows.append((f"`{name}`", flags, default, meaning))
    return _table(f"Settings of a recipe: `[{section}]`", ("field", "flag", "default", "meaning"), rows)


def _options() -> str:
    flags = engine_flags(OPTIONS)
    rows = []
    for name, option in OPTIONS.items():
        takers = ", ".join(f"`{key}:`" for key, backend in BACKENDS.own.items() if name in backend.takes)
        default = "" if option.default is None else str(option.default).lower()
        rows.append((f"`{name}`", f"`{flags[name]}`", takers, default, f"{option.meaning} ({option.allowed})"))
    head = ("option", "flag", "engines", "default", "meaning")
    return _table("Options of engines: `[model] options`", head, rows)


def _table(title: str, head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(head)
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    lines += [f"| {' | '.join(row)} |" for row in escaped]
    return f"## {title}\n\n" + "\n".join(lines)


if __name__ == "__main__":
    print(page(), end="")
