"""The names of rerankers, parsed into ``RerankerSpec``, and the metrics behind them.

    mbr:NAME, mbr:NAME:ARGUMENT, mbr:NAME:OPTION=VALUE,… or mbr:MODULE:ATTRIBUTE       a utility
    qe:…                                                                               the same, a quality estimator

Names combine several metrics by the grammar of ``quitmt.metrics.combination``. A metric's name wins over a module's.
Parsing and checking load no model and no model library.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, cast

from quitmt import names
from quitmt.errors import UsageError, setting, unknown
from quitmt.metrics import combination
from quitmt.metrics.combination import BY_POOL, Combination
from quitmt.metrics.combined import Combined
from quitmt.metrics.devices import Hardware
from quitmt.metrics.function import as_estimator, as_utility
from quitmt.metrics.registry import RERANKERS, SCORING_MODELS, MetricEntry, Setup
from quitmt.protocols import EstimatorTraits, QualityEstimator, Utility, UtilityTraits, traits_of
from quitmt.rerank.weighted import Weighted

Languages = tuple[str | None, str | None]
Kind = Literal["mbr", "qe"]

PATTERNS = {
    "mbr:MODULE:NAME": "… by your own function u(hypothesis, reference) or u(source, hypothesis, reference), or your "
    "own Utility object, in a module that is installed or in the current directory",
    "qe:MODULE:NAME": "… the highest score by your own function score(source, candidate) or QualityEstimator object",
    "mbr:A*X+B*Y": "… by a sum of several utilities: mbr:0.5*chrf+0.5*comet",
    "qe:A*X+B*Y": "… the highest sum of several: qe:0.7*kiwi+0.3*likelihood",
    "mbr:scaled:A*X+B*Y": "… by a sum of several scores, each in standard deviations over the candidates; also "
    "qe:scaled:A*X+B*Y",
    "mbr:rank:A*X+B*Y": "… by a sum of several ranks, each the share of the candidates that one beats; also "
    "qe:rank:A*X+B*Y",
}
"""Help texts for functions and combinations."""
ALIASES = {f"qe:{entry.name}": name for name, entry in RERANKERS.own.items() if entry.name.endswith("-qe")}


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """One metric of a reranker: ``entry`` with its ``argument``, or a user's MODULE:ATTRIBUTE, which has no entry."""

    kind: Kind
    text: str
    """As written, without ``mbr:`` or ``qe:``."""
    entry: MetricEntry | None
    argument: str
    """The text after the entry's name, or MODULE:ATTRIBUTE."""

    @property
    def neural(self) -> bool:
        return self.entry is not None and self.entry.neural

    @property
    def needs_source(self) -> bool:
        """Whether it uses the source; imports a user's module to find out."""
        if self.entry is not None:
            return self.entry.needs_source
        traits: Any = UtilityTraits if self.kind == "mbr" else EstimatorTraits
        return bool(traits_of(self._attribute(), traits).needs_source)

    def check(self, *, installed: bool = True) -> None:
        """Raise UsageError for a wrong function, argument or option; with ``installed``, raise MissingExtra too."""
        if self.entry is None:
            self._attribute()
            return
        self.entry.check_argument(self.argument)
        if installed:
            self.entry.require(f"{self.kind}:{self.text}")
        if not self.entry.argument:
            self._made_with_options(self.entry)

    def make(self, setup: Setup) -> Any:
        """The utility or the quality estimator."""
        if self.entry is None:
            wrap: Callable[..., Any] = as_utility if self.kind == "mbr" else as_estimator
            return wrap(self._attribute(), self.argument)
        self.entry.require(f"{self.kind}:{self.text}")
        if self.entry.argument:
            return self.entry.factory(self.argument, setup)
        return self._made_with_options(self.entry)

    def _made_with_options(self, entry: MetricEntry) -> Any:
        return entry.factory(**names.parsed(self.argument, entry.options, entry.reranker))

    def _attribute(self) -> Any:
        """The user's function or object. The error suggests metrics, because the module may be a misspelt metric."""
        return names.attribute(self.argument, _known(self.kind))


@dataclass(frozen=True, slots=True)
class RerankerSpec:
    """A reranker by name: which metrics it combines, and how."""

    text: str
    kind: Kind
    combination: Combination
    metrics: tuple[MetricSpec, ...]

    @property
    def by_pool(self) -> bool:
        """Whether a candidate's score depends on the ranks or the scaled scores within its pool."""
        return self.combination.method in BY_POOL

    @property
    def neural(self) -> bool:
        """Whether it contains a scoring model, which has a device and a number format."""
        return any(metric.neural for metric in self.metrics)

    @property
    def needs_source(self) -> bool:
        return any(metric.needs_source for metric in self.metrics)

    @property
    def support(self) -> str | None:
        """Who judges a candidate by default, if one of the metrics determines it."""
        return next((one.entry.support for one in self.metrics if one.entry and one.entry.support), None)

    @property
    def entry(self) -> MetricEntry | None:
        """The entry of a single metric; None for a combination and for a user's function."""
        return self.metrics[0].entry if self.combination.single else None

    @property
    def votes(self) -> bool:
        """Whether it counts equal answers."""
        return self.entry is not None and self.entry.reranker == "mbr:vote"

    def check(self, *, installed: bool = True) -> None:
        for metric in self.metrics:
            metric.check(installed=installed)

    def require(self) -> None:
        """Raise MissingExtra unless everything that the metrics need is installed."""
        for metric in self.metrics:
            if metric.entry is not None:
                metric.entry.require(self.text)

    def utility(self, hardware: Hardware | None = None) -> Utility[Any]:
        """The utility of an ``mbr:`` reranker, which may be a weighted sum."""
        made = self._made(Setup(hardware or Hardware()))
        return made[0] if self.combination.single else Weighted(made, self.combination.factors)

    def estimator(self, languages: Languages, hardware: Hardware | None = None) -> QualityEstimator:
        """The quality estimator of a ``qe:`` reranker, which may be a weighted sum."""
        made = self._made(Setup(hardware or Hardware(), languages))
        return made[0] if self.combination.single else Combined(made, self.combination.factors)

    def _made(self, setup: Setup) -> list[Any]:
        return [metric.make(setup) for metric in self.metrics]


def parse(text: str) -> RerankerSpec:
    """Parse a name; raise UsageError if it or an argument doesn't exist. Imports no user's module."""
    kind, _, rest = text.partition(":")
    if kind not in ("mbr", "qe") or not rest:
        raise unknown_reranker(text)
    combined = combination.parse(rest)
    metrics = tuple(_metric(cast(Kind, kind), name) for name in combined.metrics)
    return RerankerSpec(text, cast(Kind, kind), combined, metrics)


def reads_texts(name: str) -> bool:
    """Whether the reranker of this name reads texts, rather than only scores that were recorded with them."""
    try:
        metrics = parse(name).metrics
    except UsageError:
        return True
    return any(one.entry is None or one.entry.reranker != "qe:recorded" for one in metrics)


def models_of(name: str) -> tuple[str, ...]:
    """The checkpoints of a reranker's scoring models, and the names of its other metrics; none for an unknown one."""
    try:
        metrics = parse(name).metrics
    except UsageError:
        return ()
    known = [(one.entry, one.argument) for one in metrics if one.entry is not None]
    return tuple((argument or entry.model) if entry.neural else entry.name for entry, argument in known)


def entry_of(signature: str) -> MetricEntry | None:
    """The entry of the metric that a reranker's signature names; None for a combination, a function or an object."""
    if any(mark in signature for mark in "+*|"):
        return None
    try:
        return parse(signature).entry
    except UsageError:
        return None


def _metric(kind: Kind, text: str) -> MetricSpec:
    name, colon, argument = text.partition(":")
    full = f"{kind}:{name}"
    full = ALIASES.get(full, full)
    if full in RERANKERS:
        entry = RERANKERS[full]
        if entry.needs_argument and not argument:
            raise UsageError(f"{full} needs the name of a score", hint=f"such as {full}:likelihood")
        if entry.argument and colon and not argument:
            raise unknown("reranker", f"{kind}:{text}", [full, f"{full}:{entry.argument}"])
        return MetricSpec(kind, text, entry, argument)
    if name in ("mbr", "qe"):
        raise UsageError(f"all metrics of a sum are of one kind, and {text!r} has its own", hint=f"write {kind}: once")
    if name in SCORING_MODELS:
        raise _other_kind(kind, text, SCORING_MODELS[name])
    if not colon:
        raise unknown_reranker(full)
    return MetricSpec(kind, text, None, text)


def _other_kind(kind: Kind, text: str, entry: MetricEntry) -> UsageError:
    """The error for MBR with a metric that compares nothing, or for QE with one that needs a reference."""
    if kind == "mbr":
        hint = f"take {setting('rerank.name', f'qe:{text}')}"
        return UsageError(f"{entry.title} scores without a reference and compares nothing", hint=hint)
    hint = f"{setting('rerank.name', f'mbr:{text}')} has the other candidates for it"
    return UsageError(f"{entry.title} needs a reference", hint=hint)


def _known(kind: str) -> list[str]:
    return [name.partition(":")[2] for name in RERANKERS if name.startswith(f"{kind}:")]


def unknown_reranker(text: str) -> UsageError:
    """The error for a name that doesn't exist; its hint says so if only ``mbr:``, ``qe:`` or the metric is missing."""
    if text.rstrip(":") in ("mbr", "qe"):
        known = ", ".join(name for name in RERANKERS if name.startswith(text))
        return UsageError(f"{text!r} lacks a metric", hint=f"there is {known}")
    if full := [name for name in RERANKERS if name.partition(":")[2] == text]:
        return UsageError(f"unknown reranker {text!r}", hint=f"did you mean {' or '.join(map(repr, full))}?")
    return unknown("reranker", text, [*RERANKERS, *PATTERNS])


def listed() -> dict[str, str]:
    """Every name and its meaning, for help texts; optional parts of a name are in brackets."""
    return RERANKERS.listed() | PATTERNS


def score_name(reranker: str) -> str | None:
    """Name under which a pool keeps a reranker's scores, so that ``qe:recorded:NAME`` finds them; None for scores that
    come from the pool itself. Arguments such as model folders are not part of the name.

    >>> score_name("qe:kiwi"), score_name("qe:kiwi:some/model"), score_name("mbr:chrf:order=4")
    ('kiwi', 'kiwi', 'mbr:chrf')
    >>> score_name("qe:0.7*metricx+0.3*kiwi"), score_name("qe:recorded:kiwi")
    ('0.7metricx,0.3kiwi', None)
    """
    kind, _, rest = reranker.partition(":")
    if rest.startswith("recorded:") and "+" not in rest:
        return None
    terms = [term.strip().replace("*", "") for term in rest.split("+")]
    short = ",".join(_short(term) for term in terms)
    return short if kind == "qe" else f"{kind}:{short}"


def _short(term: str) -> str:
    name, _, argument = term.partition(":")
    return f"{name}:{argument}" if name.endswith("recorded") else name
