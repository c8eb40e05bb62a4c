"""What a study found: everything that tables, figures and the report are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from quitmt.lab.frames import Floats, QualityScores, Replayed, Trajectories
from quitmt.lab.pools.arms import Baseline
from quitmt.lab.pools.sample import FullPool
from quitmt.lab.replay.live import Live
from quitmt.lab.study import Study
from quitmt.lab.study.testsets import StudyTestSet


@dataclass(frozen=True, slots=True)
class AcceleratedReplay:
    """An accelerated kind of MBR on the whole pools."""

    replayed: Replayed
    rerank_seconds: Floats
    """[S]: measured."""
    share: float
    """Of all utilities."""


@dataclass(frozen=True, slots=True)
class Replays:
    """All rules on one reranker; to each QUIT belongs a fixed size with as many candidates on average."""

    unaccelerated: Replayed
    windows: tuple[Replayed, ...]
    fixed: tuple[Replayed, ...]
    alphas: tuple[Replayed, ...]
    alphas_fixed: tuple[Replayed, ...]
    steps: tuple[Replayed, ...]
    steps_fixed: tuple[Replayed, ...]
    accelerated: tuple[AcceleratedReplay, ...]
    beyond: tuple[Replayed, ...] = ()
    """Rules with a threshold that are, or could be, run live."""
    beyond_fixed: tuple[Replayed, ...] = ()


@dataclass(frozen=True, slots=True)
class Results:
    """Everything that tables, figures and the report are made of: of one sampling, that of ``[model]`` if there are
    more."""

    study: Study
    test_set: StudyTestSet
    pools: tuple[FullPool, ...]
    trajectories: dict[str, Trajectories]
    replays: dict[str, Replays]
    quality: dict[str, QualityScores]
    live: dict[str, list[Live]]
    name: str = ""
    """Of the sampling."""
    baselines: tuple[Baseline, ...] = ()
    baseline_quality: Mapping[str, Floats] = field(default_factory=dict)
    """By metric, [S, baselines]."""
    others: tuple[Results, ...] = ()
    """Of the other samplings, on the same segments."""
