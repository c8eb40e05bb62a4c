"""Warnings about text that a translation may have lost, found by comparing it with its source.

Each warning is one of a few fixed phrases. Some are followed by a colon and details: ``lost characters: 🍵``. ``kind``
returns the phrase alone. Warnings influence neither the choice of a candidate nor when a segment stops.

Invariants: time is linear in the length of the texts; the same texts get the same warnings.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from unicodedata import category, name, normalize

SEVERAL = "several sentences"
SHORTER = "much shorter"
LOST = "lost characters"
MARKUP = "markup"
COPIED = "copied source"
APART = "candidates hardly agree"
PARTLY = "scored in part"

ADVICE = {
    SEVERAL: "the model may leave some out, because it was trained on single sentences: split the lines first",
    SHORTER: "less than half as long as the source, so text may be missing",
    LOST: "the model's vocabulary lacks them, and the translation doesn't contain them",
    MARKUP: "tags or entities of the source are changed or missing: remove them first",
    COPIED: "the translation is identical to the source",
    PARTLY: "the scoring model ignored the end of long texts: split them first",
    APART: "the samples have little in common: lower the temperature, or use top-p or min-p",
}
"""The meaning of each warning, and what to do. The last two are about candidates, and the engine adds them."""

LEAST_SHARE = 0.5
"""A share of the source's length. Of 3,992 human translations of news (English–Portuguese and English–French, both
directions), 6 are shorter (docs/method.md)."""
LEAST_LENGTH = 40
"""Minimum characters without spaces, because shorter sources have translations of any length."""
WIDE_COUNTS = 3
"""Letters that a Chinese character, kana or Hangul syllable replaces; 2 to 3.5, depending on the language."""
PROSE_WORDS = 3
"""Minimum number of different lower-case words in prose, as opposed to a name, a number or a single word."""
WIDE_LETTERS_A_WORD = 4
"""Letters per word in scripts without spaces and capitals."""

_WIDE = re.compile("[\u1100-\u11ff\u2e80-\ua4cf\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff]")
# Possessive quantifiers: otherwise a line of dots would take quadratic time.
_END = re.compile(r"""(?<![.!?…؟।])[.!?…؟।]++["'”’»)\]]*+\s++["'“‘«„(\[¿¡–—-]*+\s*+(?=\S)""")
_WIDE_END = re.compile(r"[。！？][」』”’）]*+(?=[^\s。！？」』”’）])")
_ABBREVIATIONS = frozenset(
    "Mr Mrs Ms Messrs Dr Drs Prof Profs Sr Sra Dra Jr St Gen Col Lt Sgt Capt Det Sen Sens Rep Reps Gov Govs Rev Hon "
    "Pres Inc Ltd Corp Co Bros Mme Mlle vs cf bzw".split()
)
_TAG = re.compile(r"</?[A-Za-z][^<>]*>|&(?:#\d+|#x[0-9A-Fa-f]+|[A-Za-z][A-Za-z0-9]+);")
_CODE = re.compile(r"[=_{}\\|`]|(?<!\S)--[a-z]|(?<!\S)-[a-zA-Z](?!\w)|\(\)|;\s*$")
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_SIGNS = frozenset("@#*\\/_|{}~^§†‡•")
"""Punctuation that translations keep unchanged."""
_CURRENCIES = {"€": ("eur",), "£": ("pound", "libra", "livre", "pfund", "sterl", "gbp"), "¥": ("yen", "iene", "yuan")}
"""Words that a translation in Latin letters may use instead of a currency sign."""
_EDGES = "\"'“”‘’«»„()[]¿¡.,;:!?…–—-"


def warnings(source: str, translation: str, *, sentence_level: bool = False, unknown: str = "") -> tuple[str, ...]:
    """Find the warnings for a translation by a model trained on single sentences (``sentence_level``) whose vocabulary
    lacks the ``unknown`` characters of the source.

    >>> warnings("It is late. We go home.", "É tarde.", sentence_level=True)
    ('several sentences',)
    """
    lost = lost_characters(source, translation, unknown)
    checks = {
        SEVERAL: sentence_level and has_several_sentences(source),
        SHORTER: is_much_shorter(source, translation),
        f"{LOST}: {' '.join(lost)}": bool(lost),
        MARKUP: loses_markup(source, translation),
        COPIED: is_copy(source, translation),
    }
    return tuple(name for name, holds in checks.items() if holds)


def kind(warning: str) -> str:
    """A warning without its details.

    >>> kind("lost characters: 🍵"), kind("copied source")
    ('lost characters', 'copied source')
    """
    return warning.partition(":")[0]


def has_several_sentences(text: str) -> bool:
    """Whether a sentence ends within the text. A full stop doesn't end a sentence after an abbreviation, a single
    letter or a word that contains one (U.S., p.m.), nor before a lower-case letter or a digit.

    >>> has_several_sentences("Mr. J. Smith left the U.S. Navy at 5 p.m. on Sunday.")
    False
    """
    text = _TAG.sub(" ", text) if "<" in text else text
    lines = [line for line in text.splitlines() if line.strip()]
    return len(lines) > 1 or _WIDE_END.search(text) is not None or any(map(_ends_sentence, _END.finditer(text)))


def _ends_sentence(mark: re.Match[str]) -> bool:
    after = mark.string[mark.end()]
    if not after.isalpha() or after.islower():
        return False
    if mark.group().rstrip()[0] != ".":
        return True
    start = mark.start()
    word = mark.string[max(0, start - 24) : start].split()[-1:] or [""]
    before = word[0].lstrip(_EDGES)
    return len(before) > 1 and "." not in before and before not in _ABBREVIATIONS


def is_much_shorter(source: str, translation: str) -> bool:
    """Whether a translation is empty or has less than half of the source's characters."""
    length = _length(translation)
    return length == 0 or (_length(source) >= LEAST_LENGTH and length < LEAST_SHARE * _length(source))


def _length(text: str) -> int:
    dense = "".join(text.split())
    return len(dense) + (WIDE_COUNTS - 1) * (0 if dense.isascii() else len(_WIDE.findall(dense)))


def loses_markup(source: str, translation: str) -> bool:
    """Whether the HTML or XML tags and entities of the source and the translation differ."""
    tags = _TAG.findall(source)
    return bool(tags) and Counter(tags) != Counter(_TAG.findall(translation))


def is_copy(source: str, translation: str) -> bool:
    """Whether a translation of prose equals its source, ignoring case, punctuation and spacing.

    Names, numbers, code and single words may be the same in both languages.
    """
    return _letters(source) == _letters(translation) and is_prose(source)


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))


def is_prose(text: str) -> bool:
    """Whether a text has at least three different lower-case words of two or more letters, and doesn't look like code.

    >>> [is_prose(text) for text in ("Rio de Janeiro", "git commit -m fix", "12.5 kg", "We meet at the café.")]
    [False, False, False, True]
    """
    if _CODE.search(text):
        return False
    words = {bare for word in text.split() if _is_small(bare := word.strip(_EDGES))}
    return len(words) + len(_WIDE.findall(text)) // WIDE_LETTERS_A_WORD >= PROSE_WORDS


def _is_small(word: str) -> bool:
    """Whether a word is in lower case; in scripts without capitals, every word is."""
    return len(word) > 1 and word == word.lower() and _WORD.fullmatch(word) is not None and not _WIDE.search(word)


def unknown_characters(text: str, lacks: Callable[[str], bool]) -> str:
    """The different characters of a text that a vocabulary lacks.

    Only characters of words that it can't read are tested: elsewhere, a character may be known as a part of its word.

    >>> unknown_characters("tea 🍵 or 🍵", lambda text: "🍵" in text)
    '🍵'
    """
    if not lacks(text):
        return ""
    words = "".join(filter(lacks, dict.fromkeys(text.split())))
    return "".join(filter(lacks, dict.fromkeys(words)))


def lost_characters(source: str, translation: str, unknown: str) -> str:
    """The unknown characters that a translation should contain but doesn't.

    Languages differ in quotation marks, dashes and letters, and write currencies as words, so these may be missing.
    Symbols, signs in addresses and code, and letters of a script other than the source's may not.

    >>> lost_characters("tea @ 5 € 🍵 «水»", "chá 5 euros", "@€🍵«水»")
    '@🍵水'
    """
    if not unknown:
        return ""
    script, latin, kept = _script(source), _script(translation) == "LATIN", normalize("NFKC", translation)

    def counts(one: str) -> bool:
        if one in _CURRENCIES:
            return latin and not any(word in translation.casefold() for word in _CURRENCIES[one])
        return one in _SIGNS or category(one) in ("Sm", "So") or (one.isalpha() and _script(one) != script)

    return "".join(one for one in unknown if counts(one) and normalize("NFKC", one) not in kept)


def _script(text: str) -> str:
    """The script of most letters (LATIN, CJK, …), by the first word of their Unicode names."""
    scripts = Counter(name(letter, "").partition(" ")[0] for letter in text if letter.isalpha())
    return max(scripts, key=scripts.__getitem__, default="")
