"""Filters remove candidates that are bad training data whatever their score. Each looks at a source and one candidate.

Metrics miss some of these faults: neural ones score copied sources and wrong languages too high, and MBR with a surface
metric prefers what the model says most often, even if that is a loop.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from quitmt.errors import MissingExtra, UsageError, setting, unknown

Filter = Callable[[str, str], bool]
"""Takes a source and a candidate, and returns whether to remove the candidate."""

COPIED, LANGUAGE, LENGTH, REPETITION, DUPLICATE = "copied", "language", "length", "repetition", "duplicate"
FILTERS = {
    COPIED: "the candidate equals the source, ignoring case and punctuation",
    LANGUAGE: "the candidate isn't in the target language, which must be known",
    LENGTH: "one side is several times as long as the other",
    REPETITION: "the candidate repeats something four times in a row, unlike the source",
    DUPLICATE: "the same source and best candidate occurred before",
}
NONE = "none"
RATIO = 3.0
SMOOTHING = 10
"""Added to both lengths, because ratios of short texts mean little."""
SURE = 0.9
"""Minimum confidence in another language."""
SHORTEST = 20
"""The detector is unreliable below this number of letters."""
_WORDS = re.compile(r"\w+")
_LOOP = re.compile(r"(.{1,60}?)\1{3,}", re.DOTALL)
LOOP = 10
"""Minimum characters of a loop, because "No, no, no, no!" is natural language."""


@dataclass(frozen=True, slots=True)
class Filters:
    """The selected filters, except ``duplicate``, which compares several sources."""

    selected: Mapping[str, Filter]

    def reason(self, source: str, text: str) -> str | None:
        """The name of the filter that removes a candidate, or None. Blank candidates are always removed."""
        if not text.strip():
            return "blank"
        return next((name for name, removes in self.selected.items() if removes(source, text)), None)


def parse(text: str | None, target: str | None) -> tuple[str, ...]:
    """Parses a comma-separated list of names. By default all filters are used, but ``language`` only if the target is
    known."""
    if text is None:
        return tuple(name for name in FILTERS if name != LANGUAGE or target)
    names = [word.strip() for word in text.split(",")]
    if names == [NONE]:
        return ()
    for name in names:
        if name not in FILTERS:
            raise unknown("filter", name, [*FILTERS, NONE])
    if LANGUAGE in names and not target:
        raise UsageError(
            "the filter 'language' needs the target language", hint=f"give {setting('model.target_language')}"
        )
    return tuple(dict.fromkeys(names))


def make(names: Sequence[str], target: str | None = None, ratio: float = RATIO) -> Filters:
    if not ratio >= 1:
        raise UsageError(f"{setting('export.max_ratio')} must be at least 1, not {ratio:g}")
    known: dict[str, Callable[[], Filter]] = {
        COPIED: lambda: copied,
        LENGTH: lambda: length(ratio),
        REPETITION: lambda: repetition,
        LANGUAGE: lambda: language(target or ""),
    }
    return Filters({name: known[name]() for name in known if name in names})


def copied(source: str, text: str) -> bool:
    """
    >>> copied("The house, is old.", "the house is old"), copied("Olá!", "Hello!"), copied("1999", "1999")
    (True, False, True)
    """
    return text == source or _WORDS.findall(text.casefold()) == _WORDS.findall(source.casefold()) != []


def length(ratio: float = RATIO) -> Filter:
    """
    >>> much = length(3)
    >>> much("Yes.", "Sim, senhor."), much("Yes.", "Sim. " * 20), much("The house is old and nobody lives in it.", "A")
    (False, True, True)
    """

    def leaves_out(source: str, text: str) -> bool:
        one, other = len(source) + SMOOTHING, len(text) + SMOOTHING
        return max(one, other) > ratio * min(one, other)

    return leaves_out


def repetition(source: str, text: str) -> bool:
    """
    >>> repetition("Go on.", "vai vai vai vai vai"), repetition("no no no no no no", "não não não não")
    (True, False)
    """
    return _loops(text) and not _loops(source)


def _loops(text: str) -> bool:
    # Every long enough loop begins with three characters that occur at least four times, so the search starts only
    # there. Few texts have any.
    text = f"{text} "  # the last repetition may lack its space
    threes = list(zip(text, text[1:], text[2:], strict=False))
    often = {three for three, count in Counter(threes).items() if count >= 4}
    starts = (start for start, three in enumerate(threes) if three in often) if often else ()
    found = (_LOOP.match(text, start) for start in starts)
    return any(one is not None and len(one[0]) >= LOOP for one in found)


def language(target: str) -> Filter:
    """Detects the language with py3langid, whose package includes the model. Short texts pass, because detection is
    unreliable."""
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    except ImportError:
        hint = "pip install 'quitmt[export]', or leave it out of the filters"
        raise MissingExtra("the filter 'language' needs py3langid", hint=hint) from None
    from quitmt.detect import primary

    identifier, wanted = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True), primary(target)
    if wanted not in identifier.labels:
        others = ",".join(name for name in FILTERS if name != LANGUAGE)
        hint = f"leave it out: {setting('export.filters', others)}"
        raise UsageError(f"the filter 'language' doesn't know {target!r}", hint=hint)

    def leaves_out(_: str, text: str) -> bool:
        if sum(map(str.isalpha, text)) < SHORTEST:
            return False
        found, sureness = identifier.classify(text)
        return bool(found != wanted and sureness >= SURE)

    return leaves_out
