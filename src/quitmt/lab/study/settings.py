"""What a study is: what to sample, how to rerank, which rules to replay, what to evaluate by.

Every field has a default but the test set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from quitmt.protocols import StoppingRule
from quitmt.recipe import ModelRecipe, Recipe, RerankRecipe, RunRecipe, StopRecipe
from quitmt.recipe.effective import build_rule
from quitmt.rerank import Reranking

WINDOWS = (2, 4, 6, 8, 10, 12, 14, 16)
ALPHAS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)


@dataclass(frozen=True, slots=True)
class TestSetSettings:
    """One of ``tsv``, ``sources`` (with ``references``), ``name`` or ``jsonl``."""

    __test__: ClassVar[bool] = False  # not for pytest, whatever its name

    tsv: str | None = None
    sources: str | None = None
    references: tuple[str, ...] = ()
    name: str | None = None
    jsonl: str | None = None
    limit: int | None = None


@dataclass(frozen=True)
class ModelSettings(ModelRecipe):
    """Where candidates come from: a recipe's model, or ``pools`` that were recorded elsewhere."""

    name: str = "embedded:en-pt"
    pools: str | None = None
    budget: int = 512
    in_flight: int | None = None

    __hash__ = ModelRecipe.__hash__


@dataclass(frozen=True, slots=True)
class RerankSettings:
    rerankers: tuple[str, ...] = ("mbr:chrf", "qe:likelihood")
    accelerated: tuple[str, ...] = ("prune", "lowrank")
    """Kinds of MBR to run on the whole pools, for each mbr: reranker."""
    keep_pairs: bool = False
    """Keep the utilities of all pairs as well, for rules that want them."""
    device: str | None = None
    dtype: str | None = None
    batch_tokens: int | None = None

    def recipe(self, name: str, variant: str = "exact") -> RerankRecipe:
        """Of one reranker; where scoring models run is only for those that are one."""
        recipe = RerankRecipe(name, variant)
        if not Reranking(name).neural:
            return recipe
        return replace(recipe, device=self.device, dtype=self.dtype, batch_tokens=self.batch_tokens)


@dataclass(frozen=True, slots=True)
class RuleSettings:
    k: int = 8
    alpha: float = 1e-3
    windows: tuple[int, ...] = WINDOWS
    alphas: tuple[float, ...] = ALPHAS
    alpha_windows: tuple[int, ...] = (4, 8, 16)
    steps: tuple[int, ...] = (4, 8, 16)
    beyond: tuple[str, ...] = ("loss", "race", "headroom")
    """Rules with a threshold, without it: all thresholds are tried, with the rerankers that a rule fits."""
    costs: tuple[int, ...] = (64, 100, 150, 200, 250)
    """Mean candidates a segment at which they are compared with a fixed size."""
    splits: int = 200
    """Random halves, one to choose thresholds on and one to judge them by."""


@dataclass(frozen=True, slots=True)
class EvaluateSettings:
    metrics: tuple[str, ...] = ("chrf++",)
    resamples: int = 10_000
    seed: int = 0
    device: str | None = None
    dtype: str | None = None
    batch_tokens: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of a judge's engine, such as base_url."""


@dataclass(frozen=True, slots=True)
class LiveSettings:
    windows: tuple[int, ...] = (4, 8, 16)
    rules: tuple[str, ...] = ("loss:most=0.0005", "headroom:share=0.002")
    """Rules with a threshold, each with the rerankers that it fits."""
    limit: int | None = None
    """Segments to re-run, from the first; all if absent."""


@dataclass(frozen=True, slots=True)
class PaperSettings:
    """Which of the paper's settings stands beside ours; nothing is looked up without."""

    dataset: str | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Study:
    test_set: TestSetSettings
    title: str = "A study of early stopping"
    output: str = "study"
    model: ModelSettings = field(default_factory=ModelSettings)
    rerank: RerankSettings = field(default_factory=RerankSettings)
    rules: RuleSettings = field(default_factory=RuleSettings)
    evaluate: EvaluateSettings = field(default_factory=EvaluateSettings)
    live: LiveSettings = field(default_factory=LiveSettings)
    paper: PaperSettings = field(default_factory=PaperSettings)
    recipe: str | None = None
    """The file of a recipe, whose fields are the defaults here."""

    def rule(self, spec: str, *, w: int = 8) -> StoppingRule:
        """A stopping rule with the study's k, α and budget."""
        return build_rule(StopRecipe(rule=spec, k=self.rules.k, n=self.model.budget, w=w, alpha=self.rules.alpha))

    def recipe_of(self, reranker: str, variant: str = "exact") -> Recipe:
        """What a run of the study is made of that uses all candidates."""
        stop = StopRecipe(rule="full", k=self.rules.k, n=self.model.budget, alpha=self.rules.alpha)
        return Recipe(
            self.model, self.rerank.recipe(reranker, variant), stop, RunRecipe(in_flight=self.model.in_flight)
        )
