"""Every metric that quitmt knows by name, with one entry each: it can rerank, evaluate, or both.

A metric that needs a reference reranks as an MBR utility (``mbr:``), with other candidates as the references. A metric
that needs none reranks as a quality estimator (``qe:``). Entries name the code that makes a metric as
``module:attribute``, so that reading this table imports no model library. ``rerank.specs`` parses the names of
rerankers, ``evaluate.metrics`` those of evaluation metrics. Installed packages add rerankers by entry points.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from quitmt.errors import UsageError
from quitmt.metrics.devices import Hardware
from quitmt.metrics.function import as_estimator, as_utility
from quitmt.names import Name, Names
from quitmt.protocols import EstimatorTraits, UtilityTraits, traits_of


@dataclass(frozen=True, slots=True)
class Setup:
    """Settings shared by all metrics of a run; each metric uses those that concern it."""

    hardware: Hardware = field(default_factory=Hardware)
    languages: tuple[str | None, str | None] = (None, None)
    engine: Mapping[str, Any] = field(default_factory=dict)
    """Engine options of a judge, such as base_url; None means not set."""
    cache: str | Path | None = None
    """The folder for a judge's answers; None means the usual one."""


@dataclass(frozen=True)
class MetricEntry(Name):
    """``meaning`` and ``make`` describe the metric as a reranker and are empty if it can't rerank.

    ``make`` is called with (argument, Setup) if the name takes an ``argument``, otherwise with the name's options.
    """

    name: str = ""
    title: str = ""
    evaluation: str = ""
    """What the metric means in evaluation, for help texts; empty if it can't evaluate."""
    evaluator: str | Callable[..., Any] = ""
    """Makes the evaluation metric from (argument, Setup): a function or its ``module:function``; scoring models need
    none."""
    needs_reference: bool = False
    needs_source: bool = False
    lower_is_better: bool = False
    """The published direction. Inside quitmt higher scores are always better."""
    is_judge: bool = False
    """A chat model, which must know the languages and takes engine options."""
    scorer: str = ""
    """module:class of a scoring model, made with (model, Hardware); empty for all other metrics."""
    model: str = ""
    """The default checkpoint of a scoring model."""
    scale: float | None = None
    """Difference between the best and the worst score of a candidate; None if unknown."""
    support: str | None = None
    """Who judges a candidate by default; None means the default of all utilities."""
    check: str = ""
    """module:function that raises UsageError for a wrong argument, without loading a model."""

    @property
    def neural(self) -> bool:
        """Whether this is a scoring model, which has a device and a number format."""
        return bool(self.scorer)

    @property
    def reranker(self) -> str:
        """The name as a reranker; empty if the metric can't rerank."""
        kind = "mbr" if self.needs_reference else "qe"
        return f"{kind}:{self.name.removesuffix('-qe')}" if self.make else ""

    def check_argument(self, argument: str) -> None:
        if self.check and argument:
            located(self.check)(argument)

    def titled(self, model: str) -> str:
        """The column heading, which names a checkpoint that isn't the default."""
        return f"{self.title}:{model.rstrip('/').rpartition('/')[2]}" if model else self.title


def located(location: str | Callable[..., Any]) -> Any:
    """Import ``module:attribute``; return an object as it is."""
    if not isinstance(location, str):
        return location
    module, _, attribute = location.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _text(name: str, title: str, meaning: str, make: str, evaluation: str, evaluator: str) -> MetricEntry:
    """A metric of sacrebleu, which compares the texts alone."""
    return MetricEntry(
        meaning,
        make,
        name=name,
        title=title,
        evaluation=evaluation,
        evaluator=evaluator,
        needs_reference=True,
        scale=1.0,
    )


def _model(name: str, title: str, scorer: str, model: str, *, adapter: str = "", **facts: Any) -> MetricEntry:
    """A scoring model; ``scorer`` is its class, ``adapter`` the class that makes it a utility or an estimator."""
    utility = facts.get("needs_reference", False)
    adapter = adapter or f"quitmt.metrics.scorer:{'PairwiseUtility' if utility else 'ScorerEstimator'}"

    def make(argument: str, setup: Setup) -> Any:
        from quitmt.metrics import scorer

        return located(adapter)(scorer.load(f"{name}:{argument}" if argument else name, setup.hardware))

    defaults: dict[str, Any] = {
        "make": make,
        "argument": "MODEL",
        "needs_source": True,
        "extra": "comet",
        "needs": ("torch", "transformers"),
        "scale": 1.0,
    }
    return MetricEntry(name=name, title=title, scorer=scorer, model=model, **(defaults | facts))


_ENTRIES = (
    _text(
        "chrf",
        "chrF",
        "the candidate the others agree with most, by chrF (exact)",
        "quitmt.metrics.chrf:Chrf",
        "chrF: character 6-grams",
        "quitmt.evaluate.surface:chrf",
    ),
    _text(
        "chrf++",
        "chrF++",
        "… by chrF++: chrF with n-grams of words too (exact)",
        "quitmt.metrics.words:ChrfPlus",
        "chrF++: with words and pairs of words as well",
        "quitmt.evaluate.surface:chrf_plus",
    ),
    _text(
        "bleu",
        "BLEU",
        "… by sentence BLEU; tokenize is 13a, intl, zh, char or none, as in sacrebleu (exact)",
        "quitmt.metrics.words:Bleu",
        "BLEU; bleu:zh, bleu:ja-mecab, bleu:flores200, … take another tokenizer",
        "quitmt.evaluate.surface:bleu",
    ),
    MetricEntry(
        "… by 1 − TER; slow: some thousand pairs of candidates per second",
        "quitmt.metrics.words:Ter",
        name="ter",
        title="TER",
        needs_reference=True,
    ),
    MetricEntry(
        "the candidate from which the embedded reverse model, or another Bergamot one (MODEL is bergamot:PATH), "
        "would most likely recover the source",
        "quitmt.metrics.likelihood:reverse",
        name="likelihood",
        title="likelihood",
        argument="MODEL",
        check="quitmt.metrics.likelihood:check_model",
        needs_source=True,
        scale=1.0,
    ),
    _model(
        "comet",
        "COMET",
        "quitmt.metrics.comet:Comet",
        "Unbabel/wmt22-comet-da",
        meaning="… by COMET-22, or another checkpoint",
        evaluation="COMET-22, or another regression checkpoint",
        needs_reference=True,
        adapter="quitmt.metrics.comet:CometUtility",
    ),
    _model(
        "kiwi",
        "CometKiwi",
        "quitmt.metrics.kiwi:Kiwi",
        "Unbabel/wmt22-cometkiwi-da",
        meaning="the candidate that CometKiwi-22 likes best, or another one",
        evaluation="CometKiwi-22, or the XL and XXL ones; needs no reference",
    ),
    _model(
        "xcomet",
        "xCOMET",
        "quitmt.metrics.xcomet:Xcomet",
        "Unbabel/XCOMET-XXL",
        meaning="… by xCOMET-XXL, or XL",
        evaluation="xCOMET-XXL, or XL: regression and error spans",
        needs_reference=True,
    ),
    _model(
        "xcomet-qe",
        "xCOMET-QE",
        "quitmt.metrics.xcomet:XcometQe",
        "Unbabel/XCOMET-XXL",
        meaning="… xCOMET-XXL without a reference (also xcomet-qe)",
        evaluation="xCOMET without a reference",
    ),
    _model(
        "metricx",
        "MetricX",
        "quitmt.metrics.metricx:Metricx",
        "google/metricx-24-hybrid-xxl-v2p6",
        meaning="… by MetricX-24-XXL, or another",
        evaluation="MetricX-24 (hybrid), XXL unless named; lower is better",
        needs_reference=True,
        lower_is_better=True,
        scale=25.0,
    ),
    _model(
        "metricx-qe",
        "MetricX-QE",
        "quitmt.metrics.metricx:MetricxQe",
        "google/metricx-24-hybrid-xxl-v2p6",
        meaning="… MetricX-24-XXL without a reference (also metricx-qe); from 0 down to -25",
        evaluation="MetricX-24 without a reference; lower is better",
        lower_is_better=True,
        scale=25.0,
    ),
    _model(
        "embedding",
        "Embedding",
        "quitmt.metrics.embedding:Embedding",
        "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2",
        meaning="… by the cosine of sentence embeddings, of a small multilingual model or another one of "
        "sentence-transformers",
        evaluation="the cosine of sentence embeddings, of a small multilingual model or another one",
        needs_reference=True,
        needs_source=False,
        extra="embedding",
        needs=("sentence_transformers",),
        adapter="quitmt.metrics.embedding:EmbeddingUtility",
        scale=2.0,
    ),
    MetricEntry(
        "… by the answers they give: the last one marked as an answer, or the last number, or the whole text; or by "
        "your own function answer(text)",
        "quitmt.metrics.vote:by_name",
        name="vote",
        title="vote",
        argument="MODULE:NAME",
        check="quitmt.names:attribute",
        needs_reference=True,
        scale=1.0,
        support="all",  # a candidate with an answer votes for itself, and so beats candidates without one
    ),
    MetricEntry(
        "the candidate with the highest recorded score NAME of its pool",
        "quitmt.metrics.recorded:RecordedScores",
        name="recorded",
        title="recorded",
        argument="NAME",
        needs_argument=True,
    ),
    MetricEntry(
        "",
        "",
        name="gemba",
        title="GEMBA-MQM",
        evaluation="GEMBA-MQM: a chat model lists the errors; gemba:openai:MODEL, gemba:hf:MODEL or gemba:vllm:MODEL; "
        "needs the languages, but no reference",
        evaluator="quitmt.evaluate.metrics:judge",
        needs_source=True,
        is_judge=True,
    ),
)

METRICS = {entry.name: entry for entry in _ENTRIES}
SCORING_MODELS = {name: entry for name, entry in METRICS.items() if entry.neural}
EVALUATORS = {name: entry for name, entry in METRICS.items() if entry.evaluation}


def _plug_in(found: Any, name: str) -> MetricEntry:
    """The entry for an object or a function of an installed package; ``name`` begins with its kind."""
    if not name.startswith(("mbr:", "qe:")):
        raise UsageError("the name of a reranker begins with mbr: or qe:")
    metric, is_utility = name.partition(":")[2], name.startswith("mbr:")
    part: Any = as_utility(found, metric) if is_utility else as_estimator(found, metric)
    kind: Any = UtilityTraits if is_utility else EstimatorTraits
    meaning = (inspect.getdoc(found) if callable(found) else None) or f"of an installed package: {name}"
    needs_source = bool(traits_of(part, kind).needs_source)
    return MetricEntry(
        meaning.splitlines()[0], lambda: part, name=metric, needs_reference=is_utility, needs_source=needs_source
    )


RERANKERS = Names(
    "reranker",
    {entry.reranker: entry for kind in ("mbr:", "qe:") for entry in _ENTRIES if entry.reranker.startswith(kind)},
    group="quitmt.rerankers",
    plug_in=_plug_in,
)
"""All rerankers by name, those of MBR first."""
