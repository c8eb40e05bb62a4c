"""Rerankers: MBR, QE and MBR filtered by QE, and the names they go by."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, cast

from quitmt.errors import UsageError, place, placed, setting
from quitmt.metrics.devices import Hardware
from quitmt.metrics.function import FunctionEstimator, as_estimator, as_utility
from quitmt.protocols import QualityEstimator, Reranker, RerankerTraits, Utility
from quitmt.rerank import specs, variants
from quitmt.rerank.accelerated import Accelerated
from quitmt.rerank.anchors import SUPPORTS, TEXTS, Support, check_support
from quitmt.rerank.ensemble import Ensemble
from quitmt.rerank.filtered import KEEP, Filtered, check_keep
from quitmt.rerank.mbr import Mbr
from quitmt.rerank.qe import Qe
from quitmt.rerank.supported import SupportedMbr

__all__ = ["Reranking", "load", "mbr", "qe", "vote"]


@dataclass(frozen=True, slots=True)
class Reranking:
    """A reranker by name, as a recipe has it: ``mbr:chrf`` or ``qe:0.7*kiwi+0.3*likelihood``.

    ``filter`` is a ``qe:`` one that chooses the best ``keep`` (64) candidates before MBR; ``variant`` is another way of
    MBR, such as ``prune`` (see ``quitmt.rerank.variants``); ``support`` is who judges a candidate (``others``,
    or ``given``: the texts of ``Segment.support``).
    """

    name: str
    variant: str = "exact"
    filter: str | None = None
    keep: int | None = None
    support: str | None = None

    @property
    def kind(self) -> str:
        return self.name.partition(":")[0]

    @property
    def by_pool(self) -> bool:
        """Whether it combines metrics by their ranks or scaled scores within a pool."""
        return specs.parse(self.name).by_pool

    @property
    def neural(self) -> bool:
        """Whether there is a scoring model in it, the only ones that have a device."""
        return any(specs.parse(name).neural for name in (self.name, self.filter) if name is not None)

    @property
    def usual_support(self) -> str | None:
        """Who judges a candidate where nothing else is said; None for QE, which has no judges."""
        if self.kind != "mbr":
            return None
        if support := specs.parse(self.name).support:
            return support
        return "anchor" if self.variant == "exact" and self.filter is None else "others"

    @property
    def traits(self) -> RerankerTraits:
        """Those of what it names, known before anything is loaded; ``check`` comes first."""
        needs_source = any(specs.parse(name).needs_source for name in (self.name, self.filter) if name is not None)
        if self.by_pool:
            kind: Literal["mbr", "qe"] = "mbr" if self.kind == "mbr" else "qe"
            return RerankerTraits(
                kind, needs_source=needs_source, snapshots_cost=True, takes_anchors=True, comparable=False
            )
        if self.kind == "qe":
            return RerankerTraits(
                "qe", needs_source=needs_source, running_best=True, takes_anchors=True, gives_scores=True
            )
        if self.support == TEXTS:
            return RerankerTraits(
                "mbr", needs_source=needs_source, running_best=True, takes_anchors=True, gives_scores=True
            )
        if self.filter is not None:
            return RerankerTraits("mbr", needs_source=needs_source, takes_anchors=True)
        if self.variant != "exact":
            return RerankerTraits(
                "mbr", needs_source=needs_source, snapshots_cost=True, segments_at_once=4, takes_anchors=True
            )
        return RerankerTraits(
            "mbr",
            needs_source=needs_source,
            gives_rivals=True,
            takes_anchors=True,
            judges_itself=self.support in (None, "all"),
            gives_scores=True,
            votes=specs.parse(self.name).votes and self.support in (None, "all"),
        )

    def check(self, *, installed: bool = True) -> None:
        """Raise whatever is wrong with it that can be told without loading a model."""
        if self.kind not in ("mbr", "qe"):
            with placed("rerank.name"):
                raise specs.unknown_reranker(self.name)
        if self.kind == "mbr" and self.filter is not None and not self.filter.startswith("qe:"):
            hint = f"as in {setting('rerank.filter', 'qe:likelihood')}"
            raise UsageError(f"{place('rerank.filter')}the filter {self.filter!r} is no QE metric", hint=hint)
        for field, spec in (("rerank.name", self.name), ("rerank.filter", self.filter)):
            with placed(field):
                if spec:
                    specs.parse(spec).check(installed=installed)
        if self.keep is not None and self.filter is None:
            hint = f"as in {setting('rerank.filter', 'qe:likelihood')} {setting('rerank.keep', 64)}"
            raise UsageError(f"{setting('rerank.keep')} goes with {setting('rerank.filter')}", hint=hint)
        if self.support is not None:
            check_support(self.support, (*SUPPORTS, TEXTS))
        if self.support == "anchor" and (self.variant != "exact" or self.filter is not None):
            hint = f"give {setting('rerank.support', 'others')}"
            raise UsageError(f"{setting('rerank.support', 'anchor')} goes with exact MBR", hint=hint)
        if self.support == TEXTS:
            self._check_texts()
        self._check_pool_ways()
        with placed("rerank.variant"):
            method = variants.load(self.variant)
        if self.kind == "qe":
            self._check_qe()
        elif self.filter is not None:
            self._check_filter(exact=method is None)

    def _check_texts(self) -> None:
        """Texts of support are for exact MBR with one utility or a sum."""
        given = setting("rerank.support", TEXTS)
        if self.kind == "qe":
            raise UsageError(f"{given} goes with an mbr: reranker, not with {self.name}, which compares nothing")
        other = setting("rerank.filter") if self.filter is not None else setting("rerank.variant", self.variant)
        if self.filter is not None or self.variant != "exact":
            raise UsageError(f"{given} goes with exact MBR, not with {other}")
        if self.by_pool:
            raise UsageError(f"{given} does not go with {self.name}", hint="it goes with a sum: mbr:A*X+B*Y")

    def _check_pool_ways(self) -> None:
        if self.filter is not None and specs.parse(self.filter).by_pool:
            hint = "a sum is one: qe:A*X+B*Y"
            raise UsageError(f"{place('rerank.filter')}a filter cannot be {self.filter!r}", hint=hint)
        if self.by_pool and (self.filter is not None or self.variant != "exact"):
            other = setting("rerank.variant" if self.filter is None else "rerank.filter")
            raise UsageError(f"{other} does not go with {self.name}", hint="it goes with a sum: mbr:A*X+B*Y")

    def _check_qe(self) -> None:
        if self.variant != "exact":
            raise UsageError(f"{setting('rerank.variant')} goes with an mbr: reranker, not with {self.name}")
        if self.filter is not None:
            raise UsageError(
                f"{setting('rerank.filter')} goes with an mbr: reranker, not with {self.name}",
                hint="or combine them: qe:A*X+B*Y",
            )

    def _check_filter(self, *, exact: bool) -> None:
        if not exact:
            both = f"{setting('rerank.variant')} and {setting('rerank.filter')}"
            raise UsageError(f"{both} do not go together", hint="filtered MBR is exact among those kept")
        with placed("rerank.keep"):
            check_keep(self.keep)


def load(
    spec: str,
    *,
    languages: tuple[str | None, str | None] = ("en", "pt"),
    hardware: Hardware | None = None,
    filter: str | None = None,
    keep: int | None = None,
    variant: str = "exact",
    support: str | None = None,
) -> Reranker[Any]:
    """The reranker that a ``Reranking`` names; ``hardware`` is for the scoring models in it. Without a ``support``, all
    samples judge, as in the paper: it is recipes that have better defaults."""
    Reranking(spec, variant, filter, keep, support).check()
    parsed = specs.parse(spec)
    judges: Support = support if support in SUPPORTS else "all"  # type: ignore[assignment]
    if parsed.by_pool:
        single = partial(load, languages=languages, hardware=hardware, support=support)
        rerankers = [single(f"{parsed.kind}:{metric.text}") for metric in parsed.metrics]
        return Ensemble(rerankers, parsed.combination.factors, parsed.combination.method)
    if parsed.kind == "qe":
        return Qe(parsed.estimator(languages, hardware))
    if filter is not None:
        estimator = specs.parse(filter).estimator(languages, hardware)
        utility, kept = parsed.utility(hardware), KEEP if keep is None else keep
        return Filtered(estimator, utility, keep=kept, support=judges)
    method = variants.load(variant)
    utility = parsed.utility(hardware)
    if support == TEXTS:
        return SupportedMbr(utility)
    return Accelerated(utility, method, judges) if method else Mbr(utility, judges)


def mbr(
    utility: Callable[..., float] | Utility[Any], *, name: str | None = None, support: Support = "anchor"
) -> Reranker[Any]:
    """MBR with any function ``u(hypothesis, reference)`` or ``u(source, hypothesis, reference)``, higher is better, or
    with a ``Utility`` of ``quitmt.protocols``. A candidate is judged by the other samples and
    the first ``anchor``, by the ``others`` only, or by ``all``, itself too.

    >>> import quitmt
    >>> def same_length(hypothesis, reference):
    ...     return 1 / (1 + abs(len(hypothesis) - len(reference)))
    >>> quitmt.rerank_pool(["aa", "bbbb", "ccc"], reranker=quitmt.mbr(same_length)).translation
    'ccc'
    """
    return Mbr(as_utility(utility, name), support)


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

    return Mbr(Vote(answer, name=name), "all")
