r"""The final answer in what a model wrote, for votes: two candidates agree if their final answers are equal.

The answer is what follows the last marker: ``####``, ``\boxed{…}``, "the answer is …" or "answer: …"; without one, the
last number in the text; without a number, the whole text. After a marker the first number of the sentence counts, or of
an equation's right side, or the words there; a box is a number, with a unit or without, or its whole content.

Numbers are compared as numbers, in English notation: 1,234.0 is 1234, $5 and 5% are 5, and so is "5." at the end of a
sentence. A fraction stays one (3/4, not reduced). Texts are compared without case, spacing and punctuation around them.
Number words, exponents and formulas are not understood: for those, give votes your own function.
"""

from __future__ import annotations

import re

_NUMBER = re.compile(
    r"(?<!\w)(?P<sign>[-−])?[$€£¥]?"  # a hyphen after a letter or digit isn't a sign, and B2 isn't a number
    r"(?P<whole>[0-9]{1,3}(?:,[0-9]{3}(?![0-9]))+|[0-9]+)?(?:(?<!\.)\.(?P<part>[0-9]+))?(?(whole)|(?(part)|(?!)))"
    r"(?:/(?P<below>[0-9]+))?"
)
_MARKER = re.compile(
    r"\\boxed\s*\{(?P<boxed>(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}|(?:####|\banswer\b\W{0,4}(?:is\b|:|=))",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"[\s:*]*+(.*?)(?:[.!?](?=\s|$)|\n|$)", re.DOTALL)
_UNIT = re.compile(r"(?:\s*(?:\\?%|\\(?:text|mathrm)\s*\{[^{}]*\}|\s[^\W\d_]+)[\s.]*)?")
_STYLE = re.compile(r"\\(?:text|textbf|mathrm|mathbf)\s*\{([^{}]*)\}")
_FRACTION = re.compile(r"\\[dt]?frac\s*\{([0-9]+)\}\s*\{([0-9]+)\}")
MARKERS = 10
"""Only the last ones are tried: with all of them, a text full of markers would take quadratic time."""
_AROUND = " .…,:;!?*_`$\"'“”‘’()[]{}\\"


def final_answer(text: str) -> str | None:
    r"""The final answer; None for a text of punctuation only, or if nothing follows the marker.

    >>> final_answer("She has 3 + 4 = 7 left. #### 7"), final_answer(r"So \boxed{\$7.00}"), final_answer("7 apples.")
    ('7', '7', '7')
    >>> final_answer("The answer is (B)."), final_answer("Paris!"), final_answer("…")
    ('b', 'paris', None)
    """
    text = text.replace("{,}", ",").replace(r"\$", "$")
    text = _FRACTION.sub(r"\1/\2", text)
    markers = list(_MARKER.finditer(text))
    for marker in reversed(markers[-MARKERS:]):
        boxed = marker["boxed"]
        found = _in_a_box(boxed) if boxed is not None else _in_words(text, marker.end())
        if found:
            return found
    if numbers := list(_NUMBER.finditer(text)):
        return _normal(numbers[-1])
    return None if markers else _plain(text) or None


def _in_words(text: str, start: int) -> str:
    sentence = _SENTENCE.match(text, start)
    right = sentence[1].rpartition("=")[2] if sentence else ""
    number = _NUMBER.search(right)
    return _normal(number) if number else _plain(right)


def _in_a_box(content: str) -> str:
    """The answer in a box: a number if at most a unit follows it (2^{10} isn't 2), otherwise the whole content."""
    right = content.rpartition("=")[2].strip(" .$")
    number = _NUMBER.match(right)
    return _normal(number) if number and _UNIT.fullmatch(right, number.end()) else _plain(_STYLE.sub(r"\1", right))


def _normal(number: re.Match[str]) -> str:
    whole = (number["whole"] or "").replace(",", "").lstrip("0") or "0"
    part = (number["part"] or "").rstrip("0")
    value = f"{whole}.{part}" if part else whole
    below = f"/{number['below']}" if number["below"] else ""
    sign = "-" if number["sign"] and value != "0" else ""
    return f"{sign}{value}{below}"


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).strip(_AROUND)
