"""The plan of a run: what ``resolve`` makes of a recipe, and ``build`` loads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from quitmt import stop
from quitmt.calibrate.profile import Profile
from quitmt.errors import UsageError, setting
from quitmt.generate import Model
from quitmt.generate.anchors import Anchor
from quitmt.metrics.devices import Hardware
from quitmt.plan.choose import Choice, Scored, Target, choose
from quitmt.plan.recipe import Recipe
from quitmt.protocols import Generator, Reranker, RerankerTraits, StoppingRule
from quitmt.rerank import Reranking
from quitmt.rerank.anchors import TEXTS
from quitmt.sampling import Sampling
from quitmt.stop.steering import Steered


@dataclass(frozen=True, slots=True)
class Parts:
    """Parts that the caller has as objects, which replace those that the recipe names."""

    generator: Generator | None = None
    reranker: Reranker[Any] | None = None
    rule: StoppingRule | None = None
    profile: Profile | None = None


NO_PARTS = Parts()


@dataclass(frozen=True)
class Plan:
    """What runs: every default filled in, every name parsed, the rule chosen. ``quitmt.plan.build`` loads it."""

    recipe: Recipe
    """With every field that was left open, and the origin of each value."""
    parts: Parts
    model: Model | None
    """None for a generator that is an object."""
    sampling: Sampling
    anchors: tuple[Anchor, ...]
    reranking: Reranking | None
    """None for a reranker that is an object."""
    hardware: Hardware | None
    """Where scoring models run; None if there is none."""
    scored: Scored
    """The reranker's title and traits, k, n, and the number of anchors."""
    rule: StoppingRule
    choice: Choice | None
    """How the rule was chosen; None for a rule that the recipe names."""
    profile: Profile | None
    in_flight: int

    @property
    def step(self) -> int:
        return self.scored.k

    @property
    def budget(self) -> int:
        return self.scored.n

    @property
    def traits(self) -> RerankerTraits:
        return self.scored.traits

    def rule_for(self, *, max_loss: float | str | None = None, max_cost: float | str | None = None) -> StoppingRule:
        """The rule for another target, for a segment that belongs to no run."""
        wanted = self.recipe.changed({"stop.max_loss": max_loss, "stop.max_cost": max_cost}).stop
        rule = choose(self.scored, Target.of(wanted), self.profile, steer=False).rule
        stop.check_fits(rule, self.traits, self.recipe.rerank.name)
        return rule

    def require(self) -> None:
        """Raise if an extra that the plan needs isn't installed here."""
        if self.reranking is not None:
            self.reranking.require()
        if self.model is not None and self.model.backend is not None:
            self.model.backend.require(f"{self.model.kind}:")

    def refuse_texts(self, whose: str) -> None:
        """Refuse pseudo-references in a place that has none for its segments."""
        refuse_texts(self.recipe, whose)

    def refuse_pacing(self, why: str = "workers of a batch have none") -> None:
        """Refuse a rule that paces segments, where segments have no order. A rule that only learns its top has a
        substitute there (``unsteered``)."""
        if isinstance(self.rule, Steered):
            rule = setting("stop.rule", f"fixed:{self.rule.alone()}")
            hint = f"calibrate and give {setting('stop.profile')}, or take {rule}"
            raise UsageError(f"{setting('stop.max_cost')} paces segments in their order, and {why}", hint=hint)


def refuse_texts(recipe: Recipe, whose: str) -> None:
    if recipe.rerank.support == TEXTS:
        hint = "take quitmt translate or quitmt rerank with --support-from FILE"
        texts = setting("rerank.support", TEXTS)
        raise UsageError(f"{texts} needs texts for each segment, and {whose} has none", hint=hint)
