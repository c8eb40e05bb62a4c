"""The settings of a study: what to sample, how to rerank, which rules to replay, and which metrics to evaluate by.

Every field has a default except the test set. The defaults are the paper's pool: samples at temperature 1.2 that are
candidates and judges at once, without anchors.
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

SAMPLED = ("temperature", "top_k", "top_p", "epsilon", "min_p", "seed")
"""Settings of sampling; those of recorded pools can no longer be changed."""


@dataclass(frozen=True, slots=True)
class TestSetSettings:
    """One of ``tsv``, ``sources`` (with ``references``), ``name`` or ``jsonl``."""

    __test__: ClassVar[bool] = False  # its name looks like a test to pytest

    tsv: str | None = None
    sources: str | None = None
    references: tuple[str, ...] = ()
    name: str | None = None
    jsonl: str | None = None
    limit: int | None = None


@dataclass(frozen=True)
class ModelSettings(ModelRecipe):
    """The source of candidates: a recipe's model, or recorded ``pools``."""

    name: str = "embedded:en-pt"
    temperature: float | None = PAPER_TEMPERATURE
    anchors: str | None = NONE
    """As in a recipe; for recorded pools, the origins of the anchors that are candidates."""
    pools: str | None = None
    budget: int = BUDGET
    in_flight: int | None = None

    __hash__ = ModelRecipe.__hash__

    @property
    def words(self) -> tuple[str, ...]:
        """The anchors, one word each."""
        words = tuple(word.strip() for word in (self.anchors or NONE).split(","))
        return () if words == (NONE,) else words


@dataclass(frozen=True, slots=True)
class SamplingSettings:
    """A further sampling beside that of ``[model]``, which has the defaults of all fields."""

    name: str | None = None
    """In tables, figures and the folder's name; made from the settings if absent."""
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    epsilon: float | None = None
    min_p: float | None = None
    seed: int | None = None
    anchors: str | None = None
    support: str | None = None
    pools: str | None = None


@dataclass(frozen=True, slots=True)
class RerankSettings:
    rerankers: tuple[str, ...] = ("mbr:chrf", "qe:likelihood")
    accelerated: tuple[str, ...] = ("prune", "lowrank")
    """Accelerated kinds of MBR to run on the whole pools, for each mbr: reranker."""
    support: str | None = None
    """The judges of an MBR candidate. The default is all samples, as in the paper. With anchors it is the other
    samples, because a sample's agreement with itself would hide the anchors."""
    device: str | None = None
    dtype: str | None = None
    batch_tokens: int | None = None

    def recipe(self, name: str, variant: str = "exact") -> RerankRecipe:
        """The recipe of one reranker; only scoring models get the hardware settings."""
        recipe = RerankRecipe(name, variant, self.support if name.startswith("mbr:") else None)
        if not Reranking(name).neural:
            return recipe
        return replace(recipe, device=self.device, dtype=self.dtype, batch_tokens=self.batch_tokens)


@dataclass(frozen=True, slots=True)
class RuleSettings:
    k: int = STEP
    alpha: float = ALPHA
    windows: tuple[int, ...] = (2, 4, 6, 8, 10, 12, 14, 16)
    alphas: tuple[float, ...] = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
    alpha_windows: tuple[int, ...] = (4, 8, 16)
    steps: tuple[int, ...] = (4, 8, 16)
    beyond: tuple[str, ...] = ("loss", "headroom")
    """Rules with a threshold, named without it: all thresholds are tried, with the rerankers that a rule fits."""
    costs: tuple[int, ...] = (64, 100, 150, 200, 250)
    """Mean candidates per segment at which these rules are compared with a fixed size."""
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
    """Options of a judge's engine, such as base_url."""


@dataclass(frozen=True, slots=True)
class BaselineSettings:
    """Translations to compare with that need no reranking."""

    anchors: str = NONE
    """Greedy and beam searches to decode once; anchors of a sampling are baselines anyway."""

    @property
    def words(self) -> tuple[str, ...]:
        return ModelSettings(anchors=self.anchors).words


@dataclass(frozen=True, slots=True)
class LiveSettings:
    windows: tuple[int, ...] = (4, 8, 16)
    rules: tuple[str, ...] = ("loss:most=0.0005", "headroom:share=0.002")
    """Rules with a threshold, each run with the rerankers that it fits."""
    limit: int | None = None
    """Segments to re-run, from the first; all if absent."""
    samplings: tuple[str, ...] = ()
    """The samplings to run live, by name; all if empty."""


@dataclass(frozen=True, slots=True)
class PaperSettings:
    """The paper's data set and model whose numbers are shown beside ours, if any."""

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
    """A recipe file whose settings are the defaults here."""
    samplings: tuple[SamplingSettings, ...] = ()

    def arms(self) -> tuple[Arm, ...]:
        """One study per sampling, that of ``[model]`` first."""
        found = [_arm(self, one) for one in (SamplingSettings(), *self.samplings)]
        names = [arm.name for arm in found]
        if twice := [name for number, name in enumerate(names) if name in names[:number]]:
            raise UsageError(
                f"two samplings of the study are called {twice[0]!r}",
                hint="give one of them another name, or other settings",
            )
        return tuple(found)

    def able(self, windows: Sequence[int]) -> tuple[int, ...]:
        """The windows with which QUIT can stop before the budget is used up; the shortest if there are none."""
        found = tuple(w for w in windows if self.rules.k * w < self.model.budget)
        return found or tuple(sorted(windows)[:1])

    def shown_windows(self) -> tuple[int, ...]:
        """The windows that figures and sentences are about: those of the other sweeps too, or all if there are none."""
        return tuple(w for w in self.rules.windows if w in self.rules.alpha_windows) or self.rules.windows

    def rule(self, spec: str, *, w: int = WINDOW) -> StoppingRule:
        """A stopping rule with the study's k, α and budget."""
        return build_rule(StopRecipe(rule=spec, k=self.rules.k, n=self.model.budget, w=w, alpha=self.rules.alpha))

    def recipe_of(self, reranker: str, variant: str = "exact") -> Recipe:
        """The recipe of a run with this study's settings that uses all candidates."""
        stop = StopRecipe(rule="full", k=self.rules.k, n=self.model.budget)
        run = RunRecipe(in_flight=self.model.in_flight)
        return Recipe(self.model, self.rerank.recipe(reranker, variant), stop, run)


@dataclass(frozen=True, slots=True)
class Arm:
    """One sampling of a study."""

    name: str
    study: Study
    """The study as if it had only this sampling."""


def _arm(study: Study, own: SamplingSettings) -> Arm:
    changes = {name: value for name in SAMPLED if (value := getattr(own, name)) is not None}
    pools = own.pools or study.model.pools
    if changes and pools is not None:
        raise UsageError(
            f"the sampling {own.name or pools} sets {next(iter(changes))}, and recorded pools are sampled already",
            hint="name pools that were sampled with these settings",
        )
    anchors = study.model.anchors if own.anchors is None else own.anchors
    model = replace(study.model, **changes, anchors=anchors, pools=pools)
    support = own.support or study.rerank.support or ("others" if model.words else "all")
    if support == TEXTS:
        raise UsageError("a study cannot use given texts as support", hint="take anchor, others or all")
    # A rule that cannot stop early would be the whole pool under another name.
    windows, alpha_windows = study.able(study.rules.windows), study.able(study.rules.alpha_windows)
    whole = replace(
        study,
        model=model,
        rerank=replace(study.rerank, support=support),
        rules=replace(study.rules, windows=windows, alpha_windows=alpha_windows),
        live=replace(study.live, windows=study.able(study.live.windows)),
        samplings=(),
    )
    return Arm(own.name or _described(model, support), whole)


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
