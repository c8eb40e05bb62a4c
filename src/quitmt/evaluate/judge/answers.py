"""Parses a judge's answer into errors by severity, and scores them (GEMBA-MQM, Kocmi and Federmann 2023).

The prompt asks for three headings, each with lines of errors or ``no-error`` below. Models decorate that with bullets,
bold type, numbers, comments, thinking aloud, errors on the line of the heading, or a second answer after the first. The
parser accepts all of these. Prose that might be an error in other words makes an answer unreadable, so that the judge
is asked again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from quitmt.generate.prompts.clean import drop_thinking

WEIGHTS = {"critical": 25, "major": 5, "minor": 1}
COUNTED = 5
"""Only the worst errors count, because judges tend to make long lists."""
WORST = 25

_KINDS = "|".join((
    "accuracy", "addition", "mistranslation", "omission", "untranslated", "fluency", "character", "encoding", "grammar",
    "inconsistency", "inconsistent", "punctuation", "register", "spelling", "locale", "style", "awkward", "terminology",
    "inappropriate", "non[- ]?translation", "other",
))  # fmt: skip
_KIND = re.compile(
    rf"(?:{_KINDS})(?:\s+(?:{_KINDS}|errors?|text|conventions?|format|for context|use))*\s*"
    r"(?:$|[/\\:(,;–—]|-(?=[\s\"“‘'«]))",
    re.IGNORECASE,
)
"""At the start of a line. The next text tells an error from a comment: ``style - "…"``, not "Style is fine"."""
_QUOTE = re.compile(r"[\"“”„«»「『`]")
_NON_TRANSLATION = re.compile(r"non[- ]?translation", re.IGNORECASE)
_HEADING = re.compile(
    r"[\W_\d]*(critical|major|minor)(?:\s+(?:errors?|issues?))?\s*+(?:\(\d+\))?[\s*_]*+(?::(.*))?", re.I
)
_NOTHING = re.compile(
    r"(?:there (?:is|are) )?(?:no[- ]?(?:\w+ )?(?:errors?|issues?)(?: (?:found|here))?|none|n/a)", re.I
)
_BULLET = re.compile(r"(\s*+)((?:[-*•–]|\(?\d{1,2}[.)])\s++)?(.*)")
_ADORNMENT = " \t*_`#.\"'"


@dataclass(frozen=True, slots=True)
class Error:
    severity: str
    text: str


def read(answer: str) -> list[Error] | None:
    """The errors of an answer, in its order; None if it cannot be read.

    >>> read('Critical:\\nno-error\\nMajor:\\naccuracy/omission - "not"\\nMinor:\\nno-error')
    [Error(severity='major', text='accuracy/omission - "not"')]
    """
    said = drop_thinking(answer, "")
    sections, before = _sections(said)
    if not sections:
        return [] if _is_nothing(before.strip()) else None
    found: list[Error] = []
    readable = False
    for severity, lines in sections:
        errors = _errors(severity, lines)
        if errors is None:
            return None
        readable = readable or any(line.strip() for line in lines)
        found += errors
    return found if readable else None


def score(errors: list[Error]) -> float:
    """Minus the weight of the worst few errors, 0 to −25.

    >>> score([Error("minor", ""), Error("major", "")])
    -6.0
    """
    weights = sorted((WEIGHTS[error.severity] for error in errors), reverse=True)
    return 0.0 - min(WORST, sum(weights[:COUNTED]))


def _sections(answer: str) -> tuple[list[tuple[str, list[str]]], str]:
    """The lines below each heading, starting with the rest of the heading's line; and the text before all headings."""
    sections: list[tuple[str, list[str]]] = []
    before: list[str] = []
    for line in answer.splitlines():
        heading = _HEADING.fullmatch(line.strip())
        if heading is None:
            (sections[-1][1] if sections else before).append(line)
            continue
        severity = heading[1].lower()
        if {name for name, _ in sections} == set(WEIGHTS) and severity == sections[0][0]:
            break  # a second answer
        sections.append((severity, [_inline(heading[2])]))
    return sections, "\n".join(before)


def _inline(rest: str | None) -> str:
    """The rest of a heading's line, without the end of bold type."""
    return (rest or "").strip().removeprefix("**").removeprefix("__").strip()


def _errors(severity: str, lines: list[str]) -> list[Error] | None:
    """The errors below one heading; None if it has only text that can't be parsed."""
    found: list[Error] = []
    indent: int | None = None
    nothing = prose = False
    for line in lines:
        space, bullet, text = _BULLET.fullmatch(line).groups()  # type: ignore[union-attr]  # matches every line
        text = text.strip()
        if not text.strip(_ADORNMENT):
            continue
        if _is_nothing(text):
            nothing = True
        elif _KIND.match(text.lstrip(_ADORNMENT)) or (bullet and _QUOTE.search(text) and not nothing):
            if indent is not None and len(space) > indent:
                continue  # an explanation below an error
            indent = len(space) if indent is None else indent
            found.append(Error("critical" if _NON_TRANSLATION.match(text.lstrip(_ADORNMENT)) else severity, text))
        else:
            prose = True
    return None if prose and not found and not nothing else found


def _is_nothing(text: str) -> bool:
    return _NOTHING.fullmatch(text.strip(_ADORNMENT + "-•()[]!")) is not None
