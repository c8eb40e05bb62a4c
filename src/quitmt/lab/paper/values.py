"""The paper's values of the same cells as ours, if a study asks for them: of the same rule with the same settings.

Its tables are of k = 8, α = 1e-3 and 512 candidates unless they sweep them, and of COMET as MBR's utility; with chrF as
the utility there is one table, of windows. Where a study differs, nothing stands beside its cell. Its speedups count as
estimated (see ``printed.runtime``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from quitmt.lab.frames import QualityScores, Replayed
from quitmt.lab.paper import printed
from quitmt.lab.replay import runtime
from quitmt.lab.rows import Printed
from quitmt.lab.study import Study

NAMES = {"chrF++": "chrfpp", "xCOMET": "xcomet", "MetricX": "metricx"}
"""Metrics that the paper has as well, by its columns."""

STEP, ALPHA, BUDGET = 8, 1e-3, 512
CHRF = "mbr:chrf"


def rule(study: Study, spec: str, replayed: Replayed, judges: Iterable[QualityScores]) -> dict[str, Printed]:
    """Of the main table, or of the one about chrF."""
    if not _same(study, k=True, alpha=True):
        return {}
    keys: dict[str, printed.Key] = {"dataset": study.paper.dataset or "", "model": study.paper.model or ""}
    if spec == CHRF:
        keys["window"] = replayed.name.removeprefix("QUIT ")
        return _cells("chrf_utility", keys, judges)
    keys |= {"reranker": _kind(spec), "acceleration": replayed.name}
    return _cells("results", keys, judges)


def alpha(study: Study, spec: str, replayed: Replayed, judges: Iterable[QualityScores]) -> dict[str, Printed]:
    """Of the sweep of thresholds, which the paper gives for all models and data sets together."""
    if spec == CHRF or not _same(study, k=True):
        return {}
    keys: dict[str, printed.Key] = {"reranker": _kind(spec), "w": replayed.settings["w"]}
    keys["alpha"] = replayed.settings["alpha"]
    found = _cells("alpha", keys, judges)
    counts = printed.cell("alpha", "worse_better", **keys)
    worse, slash, better = counts.text.partition("/") if counts else ("", "", "")
    return {**found, "worse": Printed(float(worse)), "better": Printed(float(better))} if slash else found


def mean_size(study: Study, spec: str, k: int, w: int) -> float | None:
    if spec == CHRF or not _same(study, alpha=True):
        return None
    found = printed.cell("mean_n_by_k", "mean_n", k=k, w=w, reranker=_kind(spec))
    return found.value if found else None


def prr(study: Study, spec: str, w: int, quality: QualityScores | None) -> float | None:
    if spec == CHRF or not _same(study, k=True):
        return None
    risk = "proxy" if quality is None else _column(quality)
    keys = {"dataset": study.paper.dataset or "", "model": study.paper.model or ""}
    found = printed.cell("prr", "prr", w=w, reranker=_kind(spec), risk=risk, **keys)
    return found.value if found else None


def seconds(study: Study, spec: str, replayed: Replayed) -> Mapping[str, float]:
    """Seconds on the paper's machine and on all its segments; only their ratio says something about ours."""
    if spec == CHRF or _kind(spec) != "MBR" or not _same(study, k=True, alpha=True):
        return {}
    names = study.paper.dataset or "", study.paper.model or ""
    found, whole = printed.runtime(*names, replayed.name), printed.runtime(*names, runtime.UNACCELERATED)
    if found is None:
        return {}
    parts = {"generation_seconds": found.generate, "reranking_seconds": found.rerank, "total_seconds": found.total}
    if whole is not None:
        parts["speedup"] = whole.total / found.total
    return {f"{name}_estimated": value for name, value in parts.items()}


def _same(study: Study, *, k: bool = False, alpha: bool = False) -> bool:
    """Whether the paper is asked for, and the settings that its table does not sweep are its own."""
    requested = study.paper.dataset is not None and study.paper.model is not None
    settings = (not k or study.rules.k == STEP) and (not alpha or study.rules.alpha == ALPHA)
    return requested and settings and study.model.budget == BUDGET


def _kind(spec: str) -> str:
    return "MBR" if spec.startswith("mbr:") else "QE"


def _column(quality: QualityScores) -> str:
    """A judge is any model: the paper's is a different one from most."""
    return "gemba" if quality.metric.startswith("GEMBA-MQM") else NAMES.get(quality.metric, "")


def _cells(name: str, keys: dict[str, printed.Key], judges: Iterable[QualityScores]) -> dict[str, Printed]:
    columns = {"mean_n": "mean_n", "full_percent": "full_percent", "speedup_estimated": "speedup", "rerank": "rerank"}
    columns |= {NAMES.get(one.metric, one.metric.lower()): _column(one) for one in judges}
    found = {}
    for shown, column in columns.items():
        if column in printed.table(name)[0] and (cell := printed.cell(name, column, **keys)):
            found[shown] = Printed(cell.value, cell.mark)
    return found
