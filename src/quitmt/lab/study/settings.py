"""What a study is: what to sample, how to rerank, which rules to replay, what to evaluate by.

Every field has a default but the test set. The defaults are the paper's pool: samples at temperature 1.2 that are
candidates and judges at once, and no anchors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any, ClassVar

from quitmt.defaults import ALPHA, BUDGET, PAPER_TEMPERATURE, STEP, WINDOW
from quitmt.errors import UsageError
from quitmt.generate.anchors import NONE
from quitmt.plan import ModelRecipe, Recipe, RerankRecipe, RunRecipe, StopRecipe
from quitmt.plan.build import build_rule
from quitmt.protocols import StoppingRule
from quitmt.rerank import Reranking
from quitmt.rerank.anchors import TEXTS

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
    temperature: float | None = PAPER_TEMPERATURE
    anchors: str | None = NONE
    """As in a recipe; of recorded pools, the origins of the anchors that are candidates."""
    pools: str | None = None
    budget: int = BUDGET
    in_flight: int | None = None

    __hash__ = ModelRecipe.__hash__

    @property
    def words(self) -> tuple[str, ...]:
        """The anchors, each by its word."""
        words = tuple(word.strip() for word in (self.anchors or NONE).split(","))
        return () if words == (NONE,) else words


@dataclass(frozen=True, slots=True)
class SamplingSettings:
    """One more way to sample, beside that of ``[model]``; what it leaves out is as there."""

    name: str | None = None
    """In tables and figures, and of its folder; made from the settings if absent."""
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    epsilon: float | None = None
    min_p: float | None = None
    seed: int | None = None
    anchors: str | None = None
    support: str | None = None
    pools: str | None = None


SAMPLED = ("temperature", "top_k", "top_p", "epsilon", "min_p", "seed")
"""What recorded pools were sampled with, and what cannot be changed any more."""


@dataclass(frozen=True, slots=True)
class RerankSettings:
    rerankers: tuple[str, ...] = ("mbr:chrf", "qe:likelihood")
    accelerated: tuple[str, ...] = ("prune", "lowrank")
    """Kinds of MBR to run on the whole pools, for each mbr: reranker."""
    keep_pairs: bool = False
    """Keep the utilities of all pairs as well, for rules that want them."""
    support: str | None = None
    """Who judges a candidate of MBR; without it all samples, as in the paper, and the others where there are anchors:
    a sample's agreement with itself would hide them."""
    device: str | None = None
    dtype: str | None = None
    batch_tokens: int | None = None

    def recipe(self, name: str, variant: str = "exact") -> RerankRecipe:
        """Of one reranker; where scoring models run is only for those that are one."""
        recipe = RerankRecipe(name, variant, self.support if name.startswith("mbr:") else None)
        if not Reranking(name).neural:
            return recipe
        return replace(recipe, device=self.device, dtype=self.dtype, batch_tokens=self.batch_tokens)


@dataclass(frozen=True, slots=True)
class RuleSettings:
    k: int = STEP
    alpha: float = ALPHA
    windows: tuple[int, ...] = WINDOWS
    alphas: tuple[float, ...] = ALPHAS
    alpha_windows: tuple[int, ...] = (4, 8, 16)
    steps: tuple[int, ...] = (4, 8, 16)
    beyond: tuple[str, ...] = ("loss", "headroom")
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
class BaselineSettings:
    """What stands beside all rules though nothing is reranked."""

    anchors: str = NONE
    """Greedy and beam searches to decode once, besides those that are anchors of a sampling anyway."""

    @property
    def words(self) -> tuple[str, ...]:
        return ModelSettings(anchors=self.anchors).words


@dataclass(frozen=True, slots=True)
class LiveSettings:
    windows: tuple[int, ...] = (4, 8, 16)
    rules: tuple[str, ...] = ("loss:most=0.0005", "headroom:share=0.002")
    """Rules with a threshold, each with the rerankers that it fits."""
    limit: int | None = None
    """Segments to re-run, from the first; all if absent."""
    samplings: tuple[str, ...] = ()
    """The samplings to run live, by name; all if empty."""


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
    baselines: BaselineSettings = field(default_factory=BaselineSettings)
    live: LiveSettings = field(default_factory=LiveSettings)
    paper: PaperSettings = field(default_factory=PaperSettings)
    recipe: str | None = None
    """The file of a recipe, whose fields are the defaults here."""
    samplings: tuple[SamplingSettings, ...] = ()

    def arms(self) -> tuple[Arm, ...]:
        """A study for each sampling, that of ``[model]`` first."""
        found = [_arm(self, SamplingSettings())]
        for one in self.samplings:
            found.append(_arm(self, one))
            if found[-1].name in [arm.name for arm in found[:-1]]:
                raise UsageError(
                    f"two samplings of the study are called {found[-1].name!r}",
                    hint="give one of them another name, or other settings",
                )
        return tuple(found)

    def able(self, windows: Sequence[int], k: int | None = None) -> tuple[int, ...]:
        """Of QUIT's windows, those that can stop before the budget is used up; the shortest if none can."""
        found = tuple(w for w in windows if (k or self.rules.k) * w < self.model.budget)
        return found or tuple(sorted(windows)[:1])

    def rule(self, spec: str, *, w: int = WINDOW) -> StoppingRule:
        """A stopping rule with the study's k, α and budget."""
        return build_rule(StopRecipe(rule=spec, k=self.rules.k, n=self.model.budget, w=w, alpha=self.rules.alpha))

    def recipe_of(self, reranker: str, variant: str = "exact") -> Recipe:
        """What a run of the study is made of that uses all candidates."""
        stop = StopRecipe(rule="full", k=self.rules.k, n=self.model.budget)
        return Recipe(
            self.model, self.rerank.recipe(reranker, variant), stop, RunRecipe(in_flight=self.model.in_flight)
        )


@dataclass(frozen=True, slots=True)
class Arm:
    """One sampling of a study."""

    name: str
    study: Study
    """As if there were no other."""


def _arm(study: Study, own: SamplingSettings) -> Arm:
    changes = {name: value for name in SAMPLED if (value := getattr(own, name)) is not None}
    pools = own.pools or study.model.pools
    if changes and pools is not None:
        raise UsageError(
            f"the sampling {own.name or pools} sets {next(iter(changes))}, and recorded pools are sampled already",
            hint="name the pools that were sampled so",
        )
    anchors = study.model.anchors if own.anchors is None else own.anchors
    model = replace(study.model, **changes, anchors=anchors, pools=pools)
    support = own.support or study.rerank.support or ("others" if model.words else "all")
    if support == TEXTS:
        raise UsageError("the support of a study cannot be given", hint="take anchor, others or all")
    rerank = replace(study.rerank, support=support)
    name = own.name or _described(model, support)
    # A rule that cannot stop early is the whole pool under another name.
    windows, others = study.able(study.rules.windows), study.able(study.rules.alpha_windows)
    rules = replace(study.rules, windows=windows, alpha_windows=others)
    live = replace(study.live, windows=study.able(study.live.windows)) if study.live.windows else study.live
    return Arm(name, replace(study, model=model, rerank=rerank, rules=rules, live=live, samplings=()))


def _described(model: ModelSettings, support: str) -> str:
    """
    >>> _described(ModelSettings(temperature=0.7, anchors="greedy,beam:4"), "others")
    'T=0.7 + greedy,beam:4'
    """
    if model.pools is not None:
        said = PurePath(model.pools).name
    else:
        cuts = {"top-k": model.top_k, "top-p": model.top_p, "epsilon": model.epsilon, "min-p": model.min_p}
        said = " ".join([f"T={model.temperature:g}", *(f"{cut}={value:g}" for cut, value in cuts.items() if value)])
        said += f" seed={model.seed}" if model.seed else ""
    if model.words:
        said += f" + {','.join(model.words)}"
    usual = "others" if model.words else "all"
    return said if support == usual else f"{said}, support {support}"
