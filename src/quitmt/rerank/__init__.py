"""Rerankers: MBR, QE and MBR filtered by QE, and the names they go by."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

from quitmt.defaults import KEEP, LANGUAGES
from quitmt.errors import UsageError, placed, setting
from quitmt.metrics.devices import Hardware
from quitmt.metrics.function import FunctionEstimator, as_estimator, as_utility
from quitmt.protocols import QualityEstimator, Reranker, RerankerTraits, Utility
from quitmt.rerank import specs, variants
from quitmt.rerank.accelerated import Accelerated, Method
from quitmt.rerank.anchors import SUPPORTS, TEXTS, Support, check_support
from quitmt.rerank.ensemble import Ensemble
from quitmt.rerank.filtered import Filtered, check_keep
from quitmt.rerank.mbr import Mbr
from quitmt.rerank.qe import Qe
from quitmt.rerank.specs import Languages, RerankerSpec
from quitmt.rerank.supported import SupportedMbr

__all__ = ["Reranking", "load", "mbr", "qe", "vote"]


@dataclass(frozen=True)
class Reranking:
    """A reranker by name, such as ``mbr:chrf`` or ``qe:0.7*kiwi+0.3*likelihood``, parsed once.

    ``filter`` is a ``qe:`` name: MBR then chooses among the best ``keep`` candidates by QE. ``variant`` names an
    accelerated MBR such as ``prune`` (``quitmt.rerank.variants``). ``support`` says who judges a candidate: all samples
    by default, as in the paper; ``given`` means the texts of ``Segment.support``.
    """

    name: str
    variant: str = "exact"
    filter: str | None = None
    keep: int | None = None
    support: str | None = None

    @property
    def kind(self) -> str:
        return self.name.partition(":")[0]

    @cached_property
    def metric(self) -> RerankerSpec:
        """The metric behind ``mbr:`` or ``qe:``, which may be a sum of several."""
        return specs.parse(self.name)

    @cached_property
    def filter_metric(self) -> RerankerSpec | None:
        return None if self.filter is None else specs.parse(self.filter)

    @cached_property
    def method(self) -> Method | None:
        """The method of accelerated MBR; None for exact MBR."""
        return variants.load(self.variant)

    @property
    def _parts(self) -> list[RerankerSpec]:
        return [one for one in (self.metric, self.filter_metric) if one is not None]

    @property
    def by_pool(self) -> bool:
        """Whether it combines metrics by their ranks or scaled scores within a pool."""
        return self.metric.by_pool

    @property
    def neural(self) -> bool:
        """Whether it has a scoring model; only these run on a device."""
        return any(one.neural for one in self._parts)

    @property
    def usual_support(self) -> str | None:
        """Who judges a candidate by default; None for QE, which has no judges."""
        if self.kind != "mbr":
            return None
        if self.metric.support is not None:
            return self.metric.support
        return "anchor" if self.variant == "exact" and self.filter is None else "others"

    @cached_property
    def traits(self) -> RerankerTraits:
        """The traits of the reranker, read from the class that ``load`` makes."""
        needs_source = any(one.needs_source for one in self._parts)
        if self.by_pool:
            return Ensemble.traits_with([member.traits for member in self._members])
        if self.kind == "mbr" and self.filter is None and self.variant == "exact" and self.support != TEXTS:
            return Mbr.traits_with(self._judges, needs_source=needs_source, votes=self.metric.votes)
        if self.kind == "qe":
            found = Qe.TRAITS
        elif self.support == TEXTS:
            found = SupportedMbr.TRAITS
        else:
            found = Accelerated.TRAITS if self.filter is None else Filtered.TRAITS
        return replace(found, needs_source=needs_source)

    @property
    def _judges(self) -> Support:
        return self.support if self.support in SUPPORTS else "all"  # type: ignore[return-value]

    @cached_property
    def _members(self) -> list[Reranking]:
        return [Reranking(f"{self.kind}:{name}", support=self.support) for name in self.metric.combination.metrics]

    def supported_by(self, support: str | None) -> Reranking:
        """The same reranker with other judges; what is parsed stays parsed."""
        found = replace(self, support=support)
        parsed = {name: part for name, part in vars(self).items() if name in ("metric", "filter_metric", "method")}
        vars(found).update(parsed)
        return found

    def require(self) -> None:
        """Raise if an extra that it needs isn't installed."""
        for one in self._parts:
            one.require()

    def check(self, *, installed: bool = True) -> None:
        """Raise UsageError for mistakes that can be found without loading a model; with ``installed``, raise
        MissingExtra too."""
        if self.kind == "mbr" and self.filter is not None and not self.filter.startswith("qe:"):
            hint = f"as in {setting('rerank.filter', 'qe:likelihood')}"
            raise UsageError(f"the filter {self.filter!r} isn't a QE metric", hint=hint, field="rerank.filter")
        with placed("rerank.name"):
            self.metric.check(installed=installed)
        with placed("rerank.filter"):
            if self.filter_metric:
                self.filter_metric.check(installed=installed)
        if self.keep is not None and self.filter is None:
            hint = f"as in {setting('rerank.filter', 'qe:likelihood')} {setting('rerank.keep', 64)}"
            raise UsageError(f"{setting('rerank.keep')} goes with {setting('rerank.filter')}", hint=hint)
        self._check_support()
        if self.filter_metric is not None and self.filter_metric.by_pool:
            hint = "a sum is one: qe:A*X+B*Y"
            raise UsageError(f"a filter cannot be {self.filter!r}", hint=hint, field="rerank.filter")
        if self.by_pool and (self.filter is not None or self.variant != "exact"):
            other = setting("rerank.variant" if self.filter is None else "rerank.filter")
            raise UsageError(f"{other} does not go with {self.name}", hint="it goes with a sum: mbr:A*X+B*Y")
        with placed("rerank.variant"):
            exact = self.method is None
        if self.kind == "qe":
            self._check_qe()
        elif self.filter is not None:
            if not exact:
                both = f"{setting('rerank.variant')} and {setting('rerank.filter')}"
                raise UsageError(f"{both} do not go together", hint="filtered MBR is exact among those kept")
            with placed("rerank.keep"):
                check_keep(self.keep)

    def _check_support(self) -> None:
        exact = self.variant == "exact" and self.filter is None
        if self.support is not None:
            check_support(self.support, (*SUPPORTS, TEXTS))
        if self.support == "anchor" and not exact:
            hint = f"give {setting('rerank.support', 'others')}"
            raise UsageError(f"{setting('rerank.support', 'anchor')} goes with exact MBR", hint=hint)
        if self.support != TEXTS:
            return
        texts = setting("rerank.support", TEXTS)
        if self.kind == "qe":
            raise UsageError(f"{texts} goes with an mbr: reranker, not with {self.name}, which compares nothing")
        if not exact:
            other = setting("rerank.filter") if self.filter is not None else setting("rerank.variant", self.variant)
            raise UsageError(f"{texts} goes with exact MBR, not with {other}")
        if self.by_pool:
            raise UsageError(f"{texts} does not go with {self.name}", hint="it goes with a sum: mbr:A*X+B*Y")

    def _check_qe(self) -> None:
        if self.variant != "exact":
            raise UsageError(f"{setting('rerank.variant')} goes with an mbr: reranker, not with {self.name}")
        if self.filter is not None:
            raise UsageError(
                f"{setting('rerank.filter')} goes with an mbr: reranker, not with {self.name}",
                hint="or combine them: qe:A*X+B*Y",
            )

    def load(self, languages: Languages, hardware: Hardware | None = None) -> Reranker[Any]:
        """Load it; ``check`` comes first. ``hardware`` is for the scoring models in it."""
        if self.by_pool:
            members = [member.load(languages, hardware) for member in self._members]
            return Ensemble(members, self.metric.combination.factors, self.metric.combination.method)
        if self.kind == "qe":
            return Qe(self.metric.estimator(languages, hardware))
        utility = self.metric.utility(hardware)
        if self.filter_metric is not None:
            estimator, keep = self.filter_metric.estimator(languages, hardware), self.keep or KEEP
            return Filtered(estimator, utility, keep=keep, support=self._judges)
        if self.support == TEXTS:
            return SupportedMbr(utility)
        return Accelerated(utility, self.method, self._judges) if self.method else Mbr(utility, self._judges)


def load(
    spec: str,
    *,
    languages: Languages = LANGUAGES,
    hardware: Hardware | None = None,
    filter: str | None = None,
    keep: int | None = None,
    variant: str = "exact",
    support: str | None = None,
) -> Reranker[Any]:
    """Load the reranker that a ``Reranking`` names."""
    named = Reranking(spec, variant, filter, keep, support)
    named.check()
    return named.load(languages, hardware)


def mbr(
    utility: Callable[..., float] | Utility[Any], *, name: str | None = None, support: Support = "anchor"
) -> Reranker[Any]:
    """MBR with any function ``u(hypothesis, reference)`` or ``u(source, hypothesis, reference)``, higher is better, or
    with a ``Utility`` of ``quitmt.protocols``. ``support`` says who judges a candidate: the other samples and the first
    ``anchor``, the ``others`` only, or ``all`` samples including itself.

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
    ``QualityEstimator`` of ``quitmt.protocols``. A ``batched`` function takes a list of (source, candidate), which may
    have different sources, and returns a list of scores.

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
    """Choose the candidate whose answer most others give, by any function ``answer(text)``; None means no answer. The
    name ``mbr:vote`` uses ``quitmt.metrics.final_answer``.

    >>> import quitmt
    >>> last_word = quitmt.vote(lambda text: text.split()[-1])
    >>> quitmt.rerank_pool(["It is a dog", "A cat", "I see a cat"], reranker=last_word).translation
    'A cat'
    """
    from quitmt.metrics.vote import Vote

    return Mbr(Vote(answer, name=name), "all")
