"""The WMT25 general release as JSONL, one document or one segment per line; one file has all language pairs.

    wmt25-genmt.jsonl            documents: {"doc_id": "cs-de_DE_#_news_#_blesk.cz.112043", "src_lang": "cs",
                                 "tgt_lang": "de_DE", "src_text": "…\\n\\n…", "refs": {"refA": {"ref": "…\\n\\n…"}}, …}
    wmt25-genmt-humeval.jsonl    segments: {"doc_id": "cs-de_DE_#_news_#_blesk.cz.112043_#_0", "src_text": "…",
                                 "tgt_text": {"refA": "…", "Yolu": "…", …}, …}

(github.com/wmt-conference/wmt25-general-mt.) We read ``doc_id``, ``src_text``, the references, and ``src_lang`` and
``tgt_lang`` where ``doc_id`` does not begin with the pair. References are all of ``refs``, whose values may also be
plain texts, or those of ``tgt_text`` named ref, refA, refB, … Texts may be lists of paragraphs.

Documents are split at blank lines into paragraphs, the units of the human evaluation, and get its ids: ``doc_id``,
``_#_`` and the number from 0. So both files give the same segments with the same ids. Paragraphs without text are left
out; the others keep their numbers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from quitmt.errors import InputError, UsageError, unknown

SEPARATOR = "_#_"
PARAGRAPH = "\n\n"
_REFERENCE = re.compile(r"ref[A-Z]?")
_PAIR = re.compile(r"[a-z]{2,3}(_\w+?)?-[a-z]{2,3}(_\w+)?")


@dataclass(frozen=True, slots=True)
class Unit:
    """A segment, and its place in the file for error messages."""

    id: str
    source: str
    references: dict[str, str]
    place: str


def read(path: str, lines: Iterable[str], pair: str | None) -> list[Unit]:
    """The segments of one pair; ``pair`` may be None if the file has only one."""
    by_pair: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for number, line in enumerate(lines, start=1):
        if line.strip():
            place = f"{path}, line {number}"
            fields = _fields(line, place)
            by_pair.setdefault(_pair(fields, place), []).append((place, fields))
    chosen = by_pair[_choose(path, pair, list(by_pair))] if by_pair else []
    units = [unit for place, fields in chosen for unit in _units(fields, place) if unit.source.strip()]
    if not units:
        raise InputError(f"{path} has no segments")
    seen: dict[str, str] = {}
    for unit in units:
        if unit.id in seen:
            raise InputError(f"{unit.place}: the id {unit.id!r} occurs a second time, first on {seen[unit.id]}")
        seen[unit.id] = unit.place
    return units


def _fields(line: str, place: str) -> dict[str, Any]:
    try:
        fields = json.loads(line)
    except json.JSONDecodeError as error:
        hint = "a Git LFS pointer: run git lfs pull" if line.startswith("version https://git-lfs") else None
        raise InputError(f"{place}: not JSON: {error.msg} at character {error.pos + 1}", hint=hint) from None
    if not isinstance(fields, dict):
        raise InputError(f"{place}: a line must be a JSON object, not {type(fields).__name__}")
    for name in ("doc_id", "src_text"):
        if name not in fields:
            raise InputError(f'{place}: there is no "{name}"', hint="a line of WMT25's release has doc_id and src_text")
    if not isinstance(fields["doc_id"], str):
        raise InputError(f'{place}: "doc_id" must be a text')
    return fields


def _pair(fields: dict[str, Any], place: str) -> str:
    first = str(fields["doc_id"]).split(SEPARATOR)[0]
    if _PAIR.fullmatch(first):
        return first
    if isinstance(fields.get("src_lang"), str) and isinstance(fields.get("tgt_lang"), str):
        return f"{fields['src_lang']}-{fields['tgt_lang']}"
    raise InputError(f'{place}: neither "doc_id" nor "src_lang" and "tgt_lang" name the languages')


def _choose(path: str, requested: str | None, pairs: list[str]) -> str:
    """The pair itself, or the only pair with these languages: en-cs is en-cs_CZ."""
    if requested is None:
        if len(pairs) > 1:
            hint = f"add it, as in {path}:{sorted(pairs)[0]}"
            raise UsageError(f"{path} has {len(pairs)} language pairs, and none was named", hint=hint)
        return pairs[0]
    if requested in pairs:
        return requested
    found = [pair for pair in pairs if _short(pair) == requested]
    if len(found) > 1:
        raise UsageError(f"{requested} may be {' or '.join(sorted(found))} of {path}", hint="name one of them")
    if not found:
        raise unknown(f"language pair of {path}", requested, pairs)
    return found[0]


def _short(pair: str) -> str:
    return "-".join(code.split("_")[0] for code in pair.split("-"))


def _units(fields: dict[str, Any], place: str) -> list[Unit]:
    name, is_segment = fields["doc_id"], isinstance(fields.get("tgt_text"), dict)
    source = _text(fields["src_text"], f'{place}: "src_text"')
    references = _references(fields, place)
    if is_segment:
        return [Unit(name, source, references, place)]
    sources = source.split(PARAGRAPH)
    split = {reference: text.split(PARAGRAPH) for reference, text in references.items()}
    for reference, texts in split.items():
        if len(texts) != len(sources):
            raise InputError(
                f"{place}: the source has {len(sources)} paragraphs, but {reference} has {len(texts)}",
                hint="take the file of its human evaluation, which has one segment per line",
            )
    return [
        Unit(f"{name}{SEPARATOR}{i}", text, {ref: texts[i] for ref, texts in split.items()}, place)
        for i, text in enumerate(sources)
    ]


def _references(fields: dict[str, Any], place: str) -> dict[str, str]:
    outputs = fields.get("tgt_text")
    if isinstance(outputs, dict):
        found = {name: text for name, text in outputs.items() if _REFERENCE.fullmatch(name)}
    else:
        found = fields.get("refs") or {}
        if not isinstance(found, dict):
            raise InputError(f'{place}: "refs" must be an object, from the names of references to texts')
    texts = {name: one.get("ref") if isinstance(one, dict) else one for name, one in found.items()}
    return {name: _text(text, f"{place}: the reference {name}") for name, text in texts.items() if text is not None}


def _text(value: Any, what: str) -> str:
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return PARAGRAPH.join(value)
    if not isinstance(value, str):
        raise InputError(f"{what} must be a text, not {type(value).__name__}")
    return value
