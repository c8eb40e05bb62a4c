"""The rows that tables, figures and sentences show: plain values, computed elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from quitmt.evaluate.equivalence import Comparison
from quitmt.lab.frames import RuleSeconds

UNACCELERATED = "Unaccelerated"
ONE_SAMPLE = "One sample"


@dataclass(frozen=True, slots=True)
class MetricColumn:
    """How a metric is shown."""

    name: str
    """Its key: ``rerank``, ``chrfpp``, ``xcomet``."""
    heading: str
    decimals: int = 2
    lower_is_better: bool = False


@dataclass(frozen=True, slots=True)
class Score:
    """A metric's mean over segments for a rule's choices."""

    value: float
    base: Comparison | None = None
    """Against Unaccelerated."""
    fixed: Comparison | None = None
    """Against Fixed-N* at equal mean cost."""
    greedy: Comparison | None = None
    """Against greedy decoding."""

    @property
    def mark(self) -> str:
        """†† within the narrowest margin (0.02σ), † within the widest (0.05σ)."""
        return "" if self.base is None else "†" * min(2, len(self.base.within))


@dataclass(frozen=True, slots=True)
class Printed:
    """One number of the paper."""

    value: float
    mark: str = ""
    """† equivalent to unaccelerated within 0.05σ, †† within 0.02σ; only qualities have one."""


@dataclass(frozen=True, slots=True)
class RuleRow:
    """One rule with one reranker."""

    reranker: str
    rule: str
    """``Replayed.name``: ``Unaccelerated``, ``QUIT w=8``, ``Fixed-N* (w=8)``."""
    mean_size: float
    full: float
    """The share of segments that used the whole budget, 0 to 1."""
    scores: Mapping[str, Score]
    """By the metric's name; the reranker's own is ``rerank``."""
    estimated: float | None = None
    """Speedup estimated from a replay."""
    live: float | None = None
    """Speedup measured live."""
    settings: Mapping[str, float] = field(default_factory=dict)
    """k, w, alpha."""
    worse_better: tuple[int, int] | None = None
    """How many comparisons are significantly worse and better than α = 1e-3."""
    paper: Mapping[str, Printed] = field(default_factory=dict)
    """By the column's key: ``mean_n``, ``full_percent``, ``speedup_estimated``, ``worse``, ``better``, or a metric's
    name."""
    dataset: str = ""


@dataclass(frozen=True, slots=True)
class MeanSize:
    """The mean number of candidates with one step and one window."""

    reranker: str
    k: int
    w: int
    value: float
    paper: float | None = None


@dataclass(frozen=True, slots=True)
class Prr:
    """How well the window range ranks one risk; None where that is undefined."""

    reranker: str
    w: int
    risk: str
    """``proxy``, or a metric's name."""
    value: float | None
    paper: float | None = None


@dataclass(frozen=True, slots=True)
class RuntimeRow:
    """One rule's seconds, estimated and live."""

    reranker: str
    rule: str
    estimated: RuleSeconds | None = None
    live: RuleSeconds | None = None
    paper: Mapping[str, float] = field(default_factory=dict)
    """By the column's key: ``generation_seconds_estimated``, ``speedup_estimated`` and so on."""

    def seconds(self, basis: str) -> RuleSeconds | None:
        return self.live if basis == "live" else self.estimated


def direction(comparison: Comparison, *, lower_is_better: bool) -> int:
    """1 if the other is significantly better than the base, −1 if worse, 0 if neither.

    A comparison of one metric on one data set is significant if the two-sided 95% interval of the paired bootstrap's
    mean difference excludes 0. n↓ and n↑ of the alpha ablation count such comparisons, without correction.
    """
    low, high = comparison.interval
    sign = int(low > 0) - int(high < 0)
    return -sign if lower_is_better else sign
