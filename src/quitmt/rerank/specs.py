"""What the names of rerankers mean: the metric behind ``mbr:`` and ``qe:``, as texts from users.

    mbr:NAME, mbr:NAME:ARGUMENT, mbr:NAME:OPTION=VALUE,… or mbr:MODULE:ATTRIBUTE       a utility
    qe:…                                                                               the same, a quality estimator

Several metrics are combined as ``quitmt.rerank.terms`` says. Our own names win over modules of the same name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from quitmt import names
from quitmt.errors import UsageError, setting, unknown
from quitmt.metrics import scorer
from quitmt.metrics.combined import Combined
from quitmt.metrics.devices import Hardware
from quitmt.metrics.function import as_estimator, as_utility
from quitmt.metrics.scorer import KINDS
from quitmt.names import Name, Names
from quitmt.protocols import EstimatorTraits, UtilityTraits, traits_of
from quitmt.rerank.terms import Combination, Way
from quitmt.rerank.terms import parse as combined
from quitmt.rerank.weighted import Weighted

Languages = tuple[str | None, str | None]


@dataclass(frozen=True)
class MetricName(Name):
    """A metric by name. Whether it needs a source is known before it is loaded, and so is whether it has a device."""

    needs_source: bool = False
    neural: bool = False
    perfect: str | None = None
    """For the headroom rule: the best score there can be, and a share in proportion to the scale."""
    scale: float | None = None
    """How far apart its best and its worst score are, if that is known: 1 for scores from 0 to 1."""
    support: str | None = None
    """Who judges a candidate where nothing else is said, if that is not as for other utilities."""
    check: Callable[[str], None] | None = None
    """Raises what is wrong with an argument, as far as that is known before anything is loaded."""


@dataclass(frozen=True, slots=True)
class Place:
    """What metrics are made with, besides their name."""

    languages: Languages = (None, None)
    hardware: Hardware | None = None


def _chrf(order: int = 6, beta: float = 2.0) -> Any:
    from quitmt.metrics.chrf import Chrf

    return Chrf(order, beta)


def _chrf_plus(order: int = 6, beta: float = 2.0, words: int = 2) -> Any:
    from quitmt.metrics.words import ChrfPlus

    return ChrfPlus(order, beta, words)


def _bleu(tokenize: str = "13a") -> Any:
    from quitmt.metrics.words import Bleu

    return Bleu(tokenize)


def _ter() -> Any:
    from quitmt.metrics.ter import Ter

    return Ter()


def _vote(argument: str, _: Place) -> Any:
    from quitmt.metrics.vote import Vote

    return Vote(names.attribute(argument), name=argument) if argument else Vote()


def _likelihood(argument: str, place: Place) -> Any:
    from quitmt.metrics.likelihood import Likelihood

    return Likelihood(argument or _reverse_model(*place.languages))


def _recorded(argument: str, _: Place) -> Any:
    from quitmt.metrics.recorded import RecordedScores

    return RecordedScores(argument)


def _check_likelihood(model: str) -> None:
    if model.partition(":")[0] not in ("embedded", "bergamot"):
        hint = "name one, as in qe:likelihood:bergamot:PATH or qe:likelihood:embedded:pt-en"
        raise UsageError(f"qe:likelihood takes Bergamot models and the embedded ones, not {model!r}", hint=hint)


def _reverse_model(source: str | None, target: str | None) -> str:
    if not (source and target):
        languages = f"{setting('model.source_language')} and {setting('model.target_language')}"
        hint = f"name one, as in qe:likelihood:bergamot:PATH, or give {languages} for an embedded one"
        raise UsageError("qe:likelihood needs a model of the reverse direction", hint=hint)
    return f"embedded:{target}-{source}"


def _neural(meaning: str, kind: str, role: str, perfect: str | None = None, scale: float = 1.0) -> MetricName:
    """``role`` is ``utility`` or ``estimator``, what ``scorer`` makes of a scoring model."""
    facts = KINDS[kind]

    def make(model: str, place: Place) -> Any:
        return getattr(scorer, role)(f"{kind}:{model}" if model else kind, place.hardware)

    return MetricName(
        meaning,
        make,
        argument="MODEL",
        extra=facts.extra,
        needs=facts.needs,
        needs_source=facts.needs_source,
        neural=True,
        perfect=perfect,
        scale=scale,
    )


def _plug_in(found: Any, name: str) -> MetricName:
    """An object or a function of an installed package; its name says whether it is a utility or an estimator."""
    wrap: Callable[..., Any] = as_utility if name.startswith("mbr:") else as_estimator
    part = wrap(found, name.partition(":")[2])
    traits = traits_of(part, UtilityTraits) if wrap is as_utility else traits_of(part, EstimatorTraits)
    if not name.startswith(("mbr:", "qe:")):
        raise UsageError("the name of a reranker begins with mbr: or qe:")
    meaning = (inspect.getdoc(found) if callable(found) else None) or f"of an installed package: {name}"
    return MetricName(meaning.splitlines()[0], lambda: part, needs_source=traits.needs_source)


RERANKERS = Names(
    "reranker",
    {
        "mbr:chrf": MetricName("the candidate the others agree with most, by chrF (exact)", _chrf, scale=1.0),
        "mbr:chrf++": MetricName("… by chrF++: chrF with n-grams of words too (exact)", _chrf_plus, scale=1.0),
        "mbr:bleu": MetricName(
            "… by sentence BLEU; tokenize is 13a, intl, zh, char or none, as in sacrebleu (exact)", _bleu, scale=1.0
        ),
        "mbr:ter": MetricName("… by 1 − TER; slow: some thousand pairs of candidates per second", _ter),
        "mbr:comet": _neural("… by COMET-22, or another checkpoint", "comet", "utility"),
        "mbr:xcomet": _neural("… by xCOMET-XXL, or XL", "xcomet", "utility"),
        "mbr:metricx": _neural("… by MetricX-24-XXL, or another", "metricx", "utility", scale=25.0),
        "mbr:embedding": _neural(
            "… by the cosine of sentence embeddings of a small multilingual model, or any that sentence-transformers "
            "publishes",
            "embedding",
            "utility",
            scale=2.0,
        ),
        "mbr:vote": MetricName(
            "… by the answers they give: the last one marked as such, or the last number, or the whole text; or by a "
            "function of yours, answer(text)",
            _vote,
            argument="MODULE:NAME",
            scale=1.0,
            support="all",  # who has an answer votes for it, and so beats who has none
            check=names.attribute,
        ),
        "qe:likelihood": MetricName(
            "the candidate from which the embedded reverse model, or another Bergamot one (MODEL is bergamot:PATH), "
            "would most likely recover the source",
            _likelihood,
            argument="MODEL",
            check=_check_likelihood,
            needs_source=True,
            perfect="headroom:reach=16,share=0.005",
            scale=1.0,
        ),
        "qe:kiwi": _neural(
            "the candidate that CometKiwi-22 likes best, or another one",
            "kiwi",
            "estimator",
            "headroom:reach=16,share=0.005",
        ),
        "qe:xcomet": _neural(
            "… xCOMET-XXL without a reference (also xcomet-qe)",
            "xcomet-qe",
            "estimator",
            "headroom:reach=16,share=0.005",
        ),
        "qe:metricx": _neural(
            "… MetricX-24-XXL without a reference (also metricx-qe); from 0 down to -25",
            "metricx-qe",
            "estimator",
            "headroom:top=0,reach=16,share=0.125",
            scale=25.0,
        ),
        "qe:recorded": MetricName(
            "the candidate with the highest recorded score NAME of its pool",
            _recorded,
            argument="NAME",
            needs_argument=True,
        ),
    },
    group="quitmt.rerankers",
    plug_in=_plug_in,
)
OWN = {
    "mbr:MODULE:NAME": "… by a function of yours, u(hypothesis, reference) or u(source, hypothesis, reference), or a "
    "Utility object, of a module that is installed or in the current directory",
    "qe:MODULE:NAME": "… the highest score(source, candidate), a function of yours, or a QualityEstimator object",
    "mbr:A*X+B*Y": "… by a sum of several utilities: mbr:0.5*chrf+0.5*comet",
    "qe:A*X+B*Y": "… the highest sum of several: qe:0.7*kiwi+0.3*likelihood",
    "mbr:scaled:A*X+B*Y": "… by a sum of several scores, each in standard deviations over the candidates; also "
    "qe:scaled:A*X+B*Y",
    "mbr:rank:A*X+B*Y": "… by a sum of several ranks, each the share of the candidates that one beats; also "
    "qe:rank:A*X+B*Y",
}
ALIASES = {"qe:xcomet-qe": "qe:xcomet", "qe:metricx-qe": "qe:metricx"}


def listed() -> dict[str, str]:
    """What there is, for people; what may be left out of a name stands in brackets."""
    return RERANKERS.listed() | OWN


@dataclass(frozen=True)
class MetricSum:
    """The metrics of a reranker's name, parsed: one, or several that are combined."""

    spec: str
    """With its ``mbr:`` or ``qe:``."""
    combination: Combination
    entries: tuple[tuple[MetricName | None, str], ...]
    """The entry of each metric, None for MODULE:ATTRIBUTE, and its argument or options."""

    @property
    def kind(self) -> str:
        return self.spec.partition(":")[0]

    @property
    def way(self) -> Way:
        return self.combination.way

    @property
    def names(self) -> tuple[str, ...]:
        return self.combination.metrics

    @property
    def factors(self) -> list[float]:
        return self.combination.factors

    @property
    def only(self) -> MetricName | None:
        """The entry of the only metric; None for a combination or a function."""
        return self.entries[0][0] if self.combination.single else None

    @property
    def neural(self) -> bool:
        """Whether one of them is a scoring model, which has a device and a number format."""
        return any(entry is not None and entry.neural for entry, _ in self.entries)

    @property
    def votes(self) -> bool:
        """Whether it counts answers."""
        return self.spec.split(":")[:2] == ["mbr", "vote"]

    @property
    def support(self) -> str | None:
        """Who judges a candidate by default, if one of the metrics says so."""
        return next((entry.support for entry, _ in self.entries if entry and entry.support), None)

    @property
    def needs_source(self) -> bool:
        """Whether the scores mean nothing without a source."""
        return any(self._needs_source(entry, rest) for entry, rest in self.entries)

    def _needs_source(self, entry: MetricName | None, rest: str) -> bool:
        if entry is not None:
            return entry.needs_source
        kind: Any = UtilityTraits if self.kind == "mbr" else EstimatorTraits
        return bool(traits_of(self._own(rest), kind).needs_source)

    def _own(self, rest: str) -> Any:
        """Import MODULE:ATTRIBUTE, unless it is a misspelt metric with an argument."""
        return names.attribute(rest, [one.partition(":")[2] for one in RERANKERS if one.startswith(f"{self.kind}:")])

    def _options(self, entry: MetricName, rest: str, name: str) -> dict[str, Any]:
        return names.parsed(rest, entry.options, f"{self.kind}:{name.partition(':')[0]}")

    def require(self) -> None:
        for entry, _ in self.entries:
            if entry is not None:
                entry.require(self.spec)

    def check(self, *, installed: bool = True) -> None:
        """Raise what is wrong, without loading anything large; extras need not be ``installed``."""
        for (entry, rest), name in zip(self.entries, self.names, strict=True):
            if entry is None:
                self._own(rest)
                continue
            if installed:
                entry.require(self.spec)
            if not entry.argument:
                entry.factory(**self._options(entry, rest, name))

    def load(self, languages: Languages, hardware: Hardware | None = None) -> Any:
        """The utility or quality estimator, which may be a sum; ``check`` comes first."""
        place = Place(languages if self.kind == "qe" else (None, None), hardware)
        found = [
            self._load(entry, rest, name, place) for (entry, rest), name in zip(self.entries, self.names, strict=True)
        ]
        if self.combination.single:
            return found[0]
        return Weighted(found, self.factors) if self.kind == "mbr" else Combined(found, self.factors)

    def _load(self, entry: MetricName | None, rest: str, name: str, place: Place) -> Any:
        if entry is None:
            wrap: Callable[..., Any] = as_utility if self.kind == "mbr" else as_estimator
            return wrap(self._own(rest), rest)
        entry.require(self.spec)
        return entry.factory(rest, place) if entry.argument else entry.factory(**self._options(entry, rest, name))


def entry_of(signature: str) -> MetricName | None:
    """The entry of the metric that a reranker's signature names; None for a combination, a function or an object."""
    if any(mark in signature for mark in "+*|"):
        return None
    try:
        return find(signature)[0]
    except UsageError:
        return None


def parse(spec: str) -> MetricSum:
    """Parse the name of a reranker, with its ``mbr:`` or ``qe:``."""
    kind, _, rest = spec.partition(":")
    if not rest:
        raise unknown_reranker(spec)
    combination = combined(rest)
    return MetricSum(spec, combination, tuple(find(f"{kind}:{name}") for name in combination.metrics))


def find(spec: str) -> tuple[MetricName | None, str]:
    """The entry of one metric with its ``mbr:`` or ``qe:``, and what follows its name; None for MODULE:ATTRIBUTE."""
    kind, _, rest = spec.partition(":")
    name, colon, argument = rest.partition(":")
    full = ALIASES.get(f"{kind}:{name}", f"{kind}:{name}")
    if full in RERANKERS:
        entry = RERANKERS[full]
        if entry.needs_argument and not argument:
            raise UsageError(f"{full} needs the name of a score", hint=f"such as {full}:likelihood")
        if entry.argument and colon and not argument:
            raise unknown("reranker", spec, [full, f"{full}:{entry.argument}"])
        if entry.check and argument:
            entry.check(argument)
        return entry, argument
    if kind in ("mbr", "qe") and name in ("mbr", "qe"):
        raise UsageError(f"all metrics of a sum are of one kind, and {rest!r} has its own", hint=f"write {kind}: once")
    if colon and kind in ("mbr", "qe"):
        if rest.partition(":")[0] in _OTHER_KIND[kind]:
            _refuse_kind(kind, rest)
        return None, rest
    if kind in ("mbr", "qe") and name in _OTHER_KIND[kind]:
        _refuse_kind(kind, rest)
    raise unknown_reranker(spec)


_OTHER_KIND = {
    "mbr": [name for name, facts in KINDS.items() if not facts.needs_reference],
    "qe": [name for name, facts in KINDS.items() if facts.needs_reference and name not in ("xcomet", "metricx")],
}


def _refuse_kind(kind: str, spec: str) -> None:
    """Metrics that compare nothing are none for MBR, and those that need a reference none for QE."""
    title = KINDS[spec.partition(":")[0]].title
    if kind == "mbr":
        other = setting("rerank.name", f"qe:{spec}")
        raise UsageError(f"{title} scores without a reference and compares nothing", hint=f"take {other}")
    other = setting("rerank.name", f"mbr:{spec}")
    raise UsageError(f"{title} needs a reference", hint=f"{other} has the other candidates for it")


def unknown_reranker(spec: str) -> UsageError:
    """A metric without its ``mbr:`` or ``qe:`` is told what it lacks, and so are these without a metric."""
    if spec.rstrip(":") in ("mbr", "qe"):
        known = ", ".join(name for name in RERANKERS if name.startswith(spec))
        return UsageError(f"{spec!r} lacks a metric", hint=f"there is {known}")
    if full := [name for name in RERANKERS if name.partition(":")[2] == spec]:
        return UsageError(f"unknown reranker {spec!r}", hint=f"did you mean {' or '.join(map(repr, full))}?")
    return unknown("reranker", spec, [*RERANKERS, *OWN])
