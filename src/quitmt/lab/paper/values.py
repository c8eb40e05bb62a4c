"""The paper's value for a cell of ours, if the study asks for it: the same rule with the same settings.

``published/*.csv`` hold every table of the paper; ``published/README.md`` explains their columns. The tables have
k = 8, α = 1e-3 and 512 candidates unless they sweep them, and COMET as MBR's utility. With chrF as the utility there is
one table, of windows. Where a study differs from these settings, nothing is shown beside its cell. The paper's seconds
count as estimated: its unaccelerated reranking is one number for all models of a data set, 1.399 s per segment in both,
which no run would measure.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources

from quitmt.lab.frames import QualityScores, Replayed
from quitmt.lab.rows import UNACCELERATED, Printed
from quitmt.lab.study import Study

NAMES = {"chrF++": "chrfpp", "xCOMET": "xcomet", "MetricX": "metricx"}
"""Metrics that the paper has as well, by its columns."""
STEP, ALPHA, BUDGET = 8, 1e-3, 512
CHRF = "mbr:chrf"

Key = str | int | float


@cache
def table(name: str) -> tuple[Mapping[str, str], ...]:
    """The rows of a table, each a mapping from column to printed text, such as ``.8357``."""
    text = (resources.files("quitmt.lab.paper") / "published" / f"{name}.csv").read_text("utf-8")
    return tuple(csv.DictReader(text.splitlines()))


def text_of(name: str, column: str, **keys: Key) -> tuple[str, str] | None:
    """The text and the mark in the one row with these keys, or None if the paper has no such row.

    >>> text_of("alpha", "mean_n", reranker="MBR", w=8, alpha=1e-3)
    ('252', '')
    """
    found = [row for row in table(name) if all(_same(row[key], value) for key, value in keys.items())]
    return (found[0][column], found[0].get(f"{column}_eq", "")) if found else None


def cell(name: str, column: str, **keys: Key) -> Printed | None:
    found = text_of(name, column, **keys)
    return Printed(float(found[0]), found[1]) if found else None


def rule(study: Study, spec: str, replayed: Replayed, judges: Iterable[QualityScores]) -> dict[str, Printed]:
    """The cells of the main table, or of the one about chrF."""
    if not _asks(study, k=True, alpha=True):
        return {}
    keys: dict[str, Key] = _dataset_and_model(study)
    if spec == CHRF:
        keys["window"] = replayed.name.removeprefix("QUIT ")
        return _cells("chrf_utility", keys, judges)
    keys |= {"reranker": _kind(spec), "acceleration": replayed.name}
    return _cells("results", keys, judges)


def alpha(study: Study, spec: str, replayed: Replayed, judges: Iterable[QualityScores]) -> dict[str, Printed]:
    """The cells of the sweep of thresholds, which the paper prints for all models and data sets together."""
    if spec == CHRF or not _asks(study, k=True):
        return {}
    keys: dict[str, Key] = {"reranker": _kind(spec), "w": replayed.settings["w"], "alpha": replayed.settings["alpha"]}
    found = _cells("alpha", keys, judges)
    counts = text_of("alpha", "worse_better", **keys)
    worse, slash, better = counts[0].partition("/") if counts else ("", "", "")
    return {**found, "worse": Printed(float(worse)), "better": Printed(float(better))} if slash else found


def mean_size(study: Study, spec: str, k: int, w: int) -> float | None:
    if spec == CHRF or not _asks(study, alpha=True):
        return None
    found = cell("mean_n_by_k", "mean_n", k=k, w=w, reranker=_kind(spec))
    return found.value if found else None


def prr(study: Study, spec: str, w: int, quality: QualityScores | None) -> float | None:
    if spec == CHRF or not _asks(study, k=True):
        return None
    risk = "proxy" if quality is None else _column(quality)
    found = cell("prr", "prr", w=w, reranker=_kind(spec), risk=risk, **_dataset_and_model(study))
    return found.value if found else None


def seconds(study: Study, spec: str, replayed: Replayed) -> dict[str, float]:
    """Seconds on the paper's machine for all its segments; only their ratio is comparable with ours."""
    if spec == CHRF or _kind(spec) != "MBR" or not _asks(study, k=True, alpha=True):
        return {}
    found, whole = _seconds(study, replayed.name), _seconds(study, UNACCELERATED)
    if found is None:
        return {}
    parts = {"generation_seconds": found[0], "reranking_seconds": found[1], "total_seconds": sum(found)}
    if whole is not None:
        parts["speedup"] = sum(whole) / sum(found)
    return {f"{name}_estimated": value for name, value in parts.items()}


def _seconds(study: Study, acceleration: str) -> tuple[float, float] | None:
    """Generation and reranking with MBR; ``acceleration`` as in the main table."""
    method, _, window = acceleration.partition(" w=")
    keys = {**_dataset_and_model(study), "method": "Unaccelerated MBR" if method == UNACCELERATED else method}
    if window:
        keys["w"] = window
    generation, reranking = (cell("runtime", name, **keys) for name in ("generation_seconds", "reranking_seconds"))
    return (generation.value, reranking.value) if generation and reranking else None


def _asks(study: Study, *, k: bool = False, alpha: bool = False) -> bool:
    """Whether the study asks for the paper, with the paper's values of all settings that the table does not sweep."""
    requested = study.paper.dataset is not None and study.paper.model is not None
    settings = (not k or study.rules.k == STEP) and (not alpha or study.rules.alpha == ALPHA)
    return requested and settings and study.model.budget == BUDGET


def _dataset_and_model(study: Study) -> dict[str, Key]:
    return {"dataset": study.paper.dataset or "", "model": study.paper.model or ""}


def _same(printed: str, requested: Key) -> bool:
    """Numbers are the same however they are written: 1e-3 and 0.001."""
    if printed == str(requested):
        return True
    try:
        return float(printed) == float(requested)
    except ValueError:
        return False


def _kind(spec: str) -> str:
    return "MBR" if spec.startswith("mbr:") else "QE"


def _column(quality: QualityScores) -> str:
    """The paper's column for a metric; its judge counts for every GEMBA judge, though the models usually differ."""
    return "gemba" if quality.metric.startswith("GEMBA-MQM") else NAMES.get(quality.metric, "")


def _cells(name: str, keys: dict[str, Key], judges: Iterable[QualityScores]) -> dict[str, Printed]:
    columns = {"mean_n": "mean_n", "full_percent": "full_percent", "speedup_estimated": "speedup", "rerank": "rerank"}
    columns |= {NAMES.get(one.metric, one.metric.lower()): _column(one) for one in judges}
    found = {}
    for shown, column in columns.items():
        if column in table(name)[0] and (printed := cell(name, column, **keys)):
            found[shown] = printed
    return found
