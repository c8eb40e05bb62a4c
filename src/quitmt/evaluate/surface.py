"""chrF, chrF++ and BLEU as sacrebleu computes them, with its signatures.

A system's score is sacrebleu's corpus score, which isn't the mean of its segments' scores. sacrebleu handles several
references itself: chrF uses the nearest one, BLEU counts n-grams of all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from quitmt.errors import MissingExtra, ModelError, UsageError, unknown
from quitmt.evaluate.metrics import Progress, Scores, Setup, TestSet


class SurfaceMetric:
    """A metric of sacrebleu: ``of_systems`` makes a corpus metric with references, ``of_segments`` scores segments."""

    needs_source = False
    needs_reference = True
    lower_is_better = False

    def __init__(self, name: str, of_systems: Callable[..., Any], of_segments: Any) -> None:
        self.name = name
        self._of_systems = of_systems
        self._of_segments = of_segments

    def evaluate(
        self, test_set: TestSet, systems: Sequence[Sequence[str]], progress: Progress | None = None
    ) -> list[Scores]:
        segments = np.empty((len(systems), len(test_set.references[0])))
        for number, references in enumerate(zip(*test_set.references, strict=True)):
            known: dict[str, float] = {}
            for system, translations in enumerate(systems):
                text = translations[number]
                if text not in known:
                    known[text] = self._of_segments.sentence_score(text, references).score
                segments[system, number] = known[text]
            if progress:
                progress(len(systems))
        whole = self._of_systems(references=test_set.references)
        scores = [float(whole.corpus_score(translations, None).score) for translations in systems]
        return [Scores(row, score) for row, score in zip(segments, scores, strict=True)]

    def signature_for(self, references: int) -> str:
        """sacrebleu's signature, which includes the number of references but not their texts."""
        return str(self._of_systems(references=(("a",),) * references).get_signature())


def chrf(argument: str, _: Setup | None = None) -> SurfaceMetric:
    return _chrf(argument, words=0)


def chrf_plus(argument: str, _: Setup | None = None) -> SurfaceMetric:
    return _chrf(argument, words=2)


def _chrf(argument: str, *, words: int) -> SurfaceMetric:
    """chrF, or chrF++ with word n-grams up to ``words``."""
    name = "chrF" + "+" * words
    if argument:
        raise UsageError(f"{name} takes no argument, such as {argument!r}")
    return SurfaceMetric(name, lambda **more: CHRF(word_order=words, **more), CHRF(word_order=words))


def bleu(tokenizer: str = "", _: Setup | None = None) -> SurfaceMetric:
    """BLEU. Single segments are scored with effective order, as sacrebleu advises."""
    if tokenizer and tokenizer not in BLEU.TOKENIZERS:
        raise unknown("tokenizer of BLEU", tokenizer, BLEU.TOKENIZERS)
    try:
        of_segments = BLEU(tokenize=tokenizer or None, effective_order=True)
    except (Exception, SystemExit) as error:  # sacrebleu may call sys.exit if a download fails
        raise _unusable(tokenizer, error) from None
    return SurfaceMetric(
        f"BLEU:{tokenizer}" if tokenizer else "BLEU",
        lambda **more: BLEU(tokenize=tokenizer or None, **more),
        of_segments,
    )


def _unusable(tokenizer: str, error: BaseException) -> Exception:
    if tokenizer in ("ja-mecab", "ko-mecab") and isinstance(error, RuntimeError):
        extra = tokenizer.partition("-")[0]
        return MissingExtra(f"BLEU's tokenizer {tokenizer} is not installed", hint=f"pip install 'sacrebleu[{extra}]'")
    reason = " ".join(str(error).split()) or type(error).__name__
    return ModelError(f"BLEU's tokenizer {tokenizer} cannot be used: {reason}", hint="its model may need the network")
