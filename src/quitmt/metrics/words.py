"""BLEU, chrF++ and TER as utilities for MBR: sacrebleu's sentence scores on a 0–1 scale.

For BLEU and chrF++, texts are split into words once, and n-grams of words are counted as chrF counts n-grams of
characters: two orders of magnitude faster than sacrebleu. Numbers equal sacrebleu's up to rounding.

Invariant: a pair's scores are bitwise the same whatever else is in the arena and whenever its texts were added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from quitmt.errors import UsageError
from quitmt.metrics import chrf, word_kernels
from quitmt.metrics.chrf import Chrf, ChrfArena, span
from quitmt.metrics.chrf_kernels import Ints, Ints32, Words
from quitmt.metrics.function import FunctionUtility
from quitmt.protocols import Matrix, UtilityTraits
from quitmt.types import Segment

BLEU_ORDER = 4
CHRF_WORD_ORDER = 2
TOKENIZERS = ("13a", "intl", "zh", "char", "none")
"""sacrebleu's tokenizers that need no other package and no download."""
PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")


class WordArena:
    """The distinct texts of one segment, as n-grams of their words."""

    __slots__ = ("ngrams", "numbers")

    def __init__(self, order: int) -> None:
        self.ngrams = ChrfArena(order)
        self.numbers: dict[str, int] = {}
        """Word → its number, which replaces chrF's code point."""

    def add(self, texts: Iterable[Sequence[str]]) -> None:
        """Append texts that have been split into words."""
        words = list(texts)
        numbers = [self.numbers.setdefault(word, len(self.numbers)) for text in words for word in text]
        self.ngrams.add_points([len(text) for text in words], lambda: np.array(numbers, np.uint32))


class Bleu:
    """The utility ``mbr:bleu``: sentence BLEU with exponential smoothing and effective order, as in
    ``sacrebleu.sentence_bleu``."""

    traits = UtilityTraits(encodes_whole=True)

    def __init__(self, tokenize: str = "13a") -> None:
        if tokenize not in TOKENIZERS:
            raise UsageError(f"the tokenizer of BLEU must be one of {', '.join(TOKENIZERS)}, not {tokenize!r}")
        self._words = _tokenizer(tokenize)
        self.signature = f"BLEU|tok:{tokenize}|smooth:exp"

    def open(self, segment: Segment) -> WordArena:
        return WordArena(BLEU_ORDER)

    def encode(self, batch: Sequence[tuple[WordArena, Sequence[str]]]) -> None:
        for arena, texts in batch:
            if texts:
                arena.add([self._words(text) for text in texts])

    def compare(self, arena: WordArena, rows: range, columns: range) -> tuple[Matrix, Matrix]:
        ngrams = arena.ngrams
        down, across = span(rows, ngrams), span(columns, ngrams)
        forward = np.empty((len(down), len(across)))
        backward, matches = np.empty_like(forward), np.empty((BLEU_ORDER, len(across)), np.int64)
        word_kernels.bleu(*_counted(ngrams), down.start, across.start, matches, forward, backward)
        return forward, backward


class PlusArena:
    __slots__ = ("characters", "words")

    def __init__(self, order: int, words: int) -> None:
        self.characters = ChrfArena(order)
        self.words = WordArena(words)


class ChrfPlus:
    """The utility ``mbr:chrf++``: chrF that also counts n-grams of up to two words."""

    traits = UtilityTraits(apart=chrf.APART)

    def __init__(self, order: int = 6, beta: float = 2.0, words: int = CHRF_WORD_ORDER) -> None:
        characters = Chrf(order, beta)  # checks them
        if not 1 <= words <= chrf.HIGHEST_ORDER:
            raise UsageError(f"chrF++ needs word n-grams of order 1 to {chrf.HIGHEST_ORDER}, not {words}")
        self.order, self.beta, self.words = characters.order, characters.beta, words
        self.signature = f"{characters.signature}|w:{words}"

    def open(self, segment: Segment) -> PlusArena:
        return PlusArena(self.order, self.words)

    def encode(self, batch: Sequence[tuple[PlusArena, Sequence[str]]]) -> None:
        for arena, texts in batch:
            if texts:
                arena.characters.add(texts)
                arena.words.add([_split(text) for text in texts])

    def compare(self, arena: PlusArena, rows: range, columns: range) -> tuple[Matrix, Matrix]:
        characters, words = arena.characters, arena.words.ngrams
        down, across = span(rows, characters), span(columns, characters)
        span(columns, words)  # raises if a text has too many words
        forward = np.empty((len(down), len(across)))
        word_kernels.chrf_plus(
            *_counted(characters),
            *_counted(words),
            down.start,
            across.start,
            self.beta**2,
            np.empty((self.order, len(across)), np.int64),
            np.empty((self.words, len(across)), np.int64),
            forward,
            backward := np.empty_like(forward),
        )
        return forward, backward


class Ter(FunctionUtility):
    """The utility ``mbr:ter``: 1 − TER / 100, where TER has sacrebleu's default of lowercasing all words.

    1 means the same text; 0 means as many edits as the reference has words, and more edits give negative scores.
    sacrebleu searches for shifts in Python and compares some thousand pairs per second, so TER suits pools of tens of
    candidates, not hundreds.
    """

    def __init__(self) -> None:
        from sacrebleu.metrics.ter import TER

        self._ter = TER()
        super().__init__(self._utility)
        self.signature = "TER|case:lc"

    def _utility(self, hypothesis: str, reference: str) -> float:
        return 1 - float(self._ter.sentence_score(hypothesis, [reference]).score) / 100


def _counted(arena: ChrfArena) -> tuple[Words, Ints32, Ints, Ints]:
    return arena.bits, arena.orders, arena.cursor, arena.lengths


def _tokenizer(name: str) -> Callable[[str], list[str]]:
    from sacrebleu.metrics.bleu import BLEU

    tokenizer = BLEU(tokenize=name, effective_order=True).tokenizer
    return lambda text: str(tokenizer(text.rstrip())).split()


def _split(text: str) -> list[str]:
    """Split a text into words like chrF++: one punctuation mark at the end of a word, or else at its beginning, becomes
    a word of its own.

    >>> _split("(hi) there!")
    ['(hi', ')', 'there', '!']
    """
    words = list[str]()
    for word in text.split():
        if len(word) > 1 and word[-1] in PUNCTUATION:
            words += [word[:-1], word[-1]]
        elif len(word) > 1 and word[0] in PUNCTUATION:
            words += [word[0], word[1:]]
        else:
            words.append(word)
    return words
