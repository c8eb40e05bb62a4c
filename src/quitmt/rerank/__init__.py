"""Rerankers: MBR, QE and MBR filtered by QE, and the names they go by."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, cast

from quitmt.devices import Hardware
from quitmt.errors import UsageError, unknown
from quitmt.metrics.function import FunctionEstimator, as_estimator, as_utility
from quitmt.protocols import QualityEstimator, Reranker, Utility
from quitmt.rerank import specs, variants
from quitmt.rerank.accelerated import Accelerated
from quitmt.rerank.filtered import KEEP, Filtered
from quitmt.rerank.mbr import Mbr
from quitmt.rerank.qe import Qe
from quitmt.rerank.specs import RERANKERS

__all__ = ["RERANKERS", "is_neural", "load", "mbr", "qe", "vote"]


def load(
    spec: str,
    *,
    languages: tuple[str | None, str | None] = ("en", "pt"),
    hardware: Hardware | None = None,
    filter: str | None = None,
    keep: int | None = None,
    variant: str = "exact",
) -> Reranker[Any]:
    """The reranker a text like ``mbr:chrf`` or ``qe:0.7*kiwi+0.3*likelihood`` names.

    ``filter`` is a ``qe:`` one that chooses the best ``keep`` (64) candidates before MBR; ``variant`` is another way of
    MBR, such as ``prune`` (see ``quitmt.rerank.variants``); ``hardware`` is for the scoring models among them.
    """
    made: Any = _load(spec, languages, hardware, filter, keep, variant)
    made.needs_source = specs.needs_source(spec) or (filter is not None and specs.needs_source(filter))
    return made  # type: ignore[no-any-return]


def _load(
    spec: str,
    languages: tuple[str | None, str | None],
    hardware: Hardware | None,
    filter: str | None,
    keep: int | None,
    variant: str,
) -> Reranker[Any]:
    kind, _, rest = spec.partition(":")
    if keep is not None and filter is None:
        raise UsageError("--keep goes with --filter", hint="as in --rerank mbr:chrf --filter qe:likelihood --keep 64")
    if not rest:
        raise unknown("reranker", spec, RERANKERS)
    if kind == "mbr" and filter is not None:
        filter_kind, _, filter_rest = filter.partition(":")
        if filter_kind != "qe":
            raise UsageError(f"the filter {filter!r} is no QE metric", hint="as in --filter qe:likelihood")
        if variant != "exact":
            raise UsageError("--mbr and --filter do not go together", hint="filtered MBR is exact among those kept")
        m = KEEP if keep is None else keep
        return Filtered(specs.estimator(filter_rest, languages, hardware), specs.utility(rest, hardware), keep=m)
    if kind == "mbr":
        method = variants.load(variant)
        utility = specs.utility(rest, hardware)
        return Accelerated(utility, method) if method else Mbr(utility)
    if kind == "qe" and variant != "exact":
        raise UsageError(f"--mbr goes with an mbr: reranker, not with {spec}")
    if kind == "qe" and filter is not None:
        raise UsageError(f"--filter goes with an mbr: reranker, not with {spec}", hint="or combine them: qe:A*X+B*Y")
    if kind == "qe":
        return Qe(specs.estimator(rest, languages, hardware))
    raise unknown("reranker", spec, RERANKERS)


def is_neural(spec: str, filter: str | None = None) -> bool:
    """Whether ``load`` would load a scoring model, the only ones that ``hardware`` is for."""
    return specs.is_neural(spec) or (filter is not None and specs.is_neural(filter))


def mbr(utility: Callable[..., float] | Utility[Any], *, name: str | None = None) -> Reranker[Any]:
    """MBR with any function ``u(hypothesis, reference)`` or ``u(source, hypothesis, reference)``, higher is better, or
    with a ``Utility`` of ``quitmt.protocols``.

    >>> import quitmt
    >>> def same_length(hypothesis, reference):
    ...     return 1 / (1 + abs(len(hypothesis) - len(reference)))
    >>> quitmt.rerank_pool(["aa", "bbbb", "ccc"], reranker=quitmt.mbr(same_length)).translation
    'ccc'
    """
    return Mbr(as_utility(utility, name))


def qe(
    score: Callable[..., Any] | QualityEstimator, *, name: str | None = None, batched: bool = False
) -> Reranker[Any]:
    """QE reranking with any function ``score(source, candidate)``, higher is better, plain or async, or with a
    ``QualityEstimator`` of ``quitmt.protocols``. A ``batched`` function takes a list of (source, candidate), perhaps of
    many sources, and gives a list of scores.

    >>> import quitmt
    >>> longest = quitmt.qe(lambda source, candidate: len(candidate))
    >>> quitmt.rerank_pool(["a", "abc", "ab"], reranker=longest).translation
    'abc'
    >>> shortest = quitmt.qe(lambda pairs: [-len(candidate) for source, candidate in pairs], batched=True)
    >>> quitmt.rerank_pool(["aa", "abc", "ab"], reranker=shortest).translation
    'aa'
    """
    if batched:
        return Qe(FunctionEstimator(cast(Callable[..., Any], score), name=name, batched=True))
    return Qe(as_estimator(score, name))


def vote(answer: Callable[[str], Hashable | None], *, name: str | None = None) -> Reranker[Any]:
    """The candidate whose answer most others give, with any function ``answer(text)``; None is no answer. ``mbr:vote``
    by name has one of ours (``quitmt.metrics.final_answer``).

    >>> import quitmt
    >>> last_word = quitmt.vote(lambda text: text.split()[-1])
    >>> quitmt.rerank_pool(["It is a dog", "A cat", "I see a cat"], reranker=last_word).translation
    'A cat'
    """
    from quitmt.metrics.vote import Vote

    return Mbr(Vote(answer, name=name))
