"""Rerankers: MBR and QE, and the names they go by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quitmt.errors import UsageError, unknown
from quitmt.protocols import Reranker
from quitmt.rerank.mbr import Mbr
from quitmt.rerank.qe import Qe

RERANKERS = {
    "mbr:chrf": "the candidate the others agree with most, by chrF (exact)",
    "qe:likelihood": "the candidate from which the reverse model would most likely recover the source; "
    "qe:likelihood:MODEL takes another reverse model",
    "qe:recorded:NAME": "the candidate with the highest recorded score NAME of its pool",
}


def load(spec: str, *, languages: tuple[str | None, str | None] = ("en", "pt")) -> Reranker[Any]:
    """The reranker a text like ``mbr:chrf`` or ``qe:recorded:kiwi`` names."""
    kind, _, rest = spec.partition(":")
    metric, _, argument = rest.partition(":")
    if (kind, rest) == ("mbr", "chrf"):
        from quitmt.metrics.chrf import Chrf

        return Mbr(Chrf())
    if (kind, metric) == ("qe", "recorded"):
        from quitmt.metrics.recorded import RecordedScores

        if not argument:
            raise UsageError("qe:recorded needs the name of a score, such as qe:recorded:likelihood")
        return Qe(RecordedScores(argument), distinct=False)
    if (kind, metric) == ("qe", "likelihood"):
        from quitmt.metrics.likelihood import Likelihood

        return Qe(Likelihood(argument or _reverse_model(*languages)))
    raise unknown("reranker", spec, RERANKERS)


def _reverse_model(source: str | None, target: str | None) -> str:
    if not (source and target):
        raise UsageError(
            "qe:likelihood needs a model of the reverse direction",
            hint="name one, as in qe:likelihood:bergamot:PATH, or give --src and --tgt for an embedded one",
        )
    return f"embedded:{target}-{source}"


def mbr(utility: Callable[[str, str], float], *, name: str | None = None) -> Reranker[Any]:
    """MBR with any function ``u(hypothesis, reference)``, higher is better.

    >>> import quitmt
    >>> def same_length(hypothesis, reference):
    ...     return 1 / (1 + abs(len(hypothesis) - len(reference)))
    >>> quitmt.rerank_pool(["aa", "bbbb", "ccc"], reranker=quitmt.mbr(same_length)).translation
    'ccc'
    """
    from quitmt.metrics.function import FunctionUtility

    return Mbr(FunctionUtility(utility, name=name))


def qe(score: Callable[[str, str], float], *, name: str | None = None) -> Reranker[Any]:
    """QE reranking with any function ``score(source, candidate)``, higher is better.

    >>> import quitmt
    >>> longest = quitmt.qe(lambda source, candidate: len(candidate))
    >>> quitmt.rerank_pool(["a", "abc", "ab"], reranker=longest).translation
    'abc'
    """
    from quitmt.metrics.function import FunctionEstimator

    return Qe(FunctionEstimator(score, name=name))
