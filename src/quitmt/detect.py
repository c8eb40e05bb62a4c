"""Detects the language of a text among the served ones, with py3langid, which includes its model."""

from __future__ import annotations

import re
from collections.abc import Iterable

READ = 2000
"""Maximum characters to look at; more don't change the result."""


class Detector:
    """``languages`` are the served codes. A language that the model doesn't know is detected only if no other language
    is served."""

    def __init__(self, languages: Iterable[str]) -> None:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier

        self._codes = list(dict.fromkeys(languages))
        self._identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
        by_primary: dict[str, str] = {}
        for code in self._codes:
            by_primary.setdefault(primary(code), code)
        self._known = {name: code for name, code in by_primary.items() if name in self._identifier.labels}
        if self._known:
            self._identifier.set_languages(list(self._known))

    def ranked(self, text: str, among: Iterable[str] | None = None) -> list[tuple[str, float]]:
        """Languages with confidences that sum to 1, in descending order."""
        allowed = list(self._codes if among is None else among)
        if not self._known:
            return [(code, 1 / len(allowed)) for code in allowed]
        scores = {self._known[name]: score for name, score in self._identifier.rank(_readable(text))}
        confidences = {code: float(scores.get(code, 0.0)) for code in allowed}
        total = sum(confidences.values())
        if total <= 0:
            return [(code, 1 / len(allowed)) for code in allowed]
        return sorted(((code, score / total) for code, score in confidences.items()), key=lambda one: -one[1])


def primary(code: str) -> str:
    """The language of a code, without script and region.

    >>> primary("PT_br")
    'pt'
    """
    return re.split("[-_]", code)[0].lower()


def _readable(text: str) -> str:
    return text[:READ].encode("utf-8", "replace").decode()
