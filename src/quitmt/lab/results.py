"""The results of a study: everything that tables, figures and the report are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from quitmt.lab.frames import Floats, QualityScores, Replayed, Trajectories
from quitmt.lab.pools.arms import Baseline
from quitmt.lab.pools.sample import FullPool
from quitmt.lab.pools.trajectories import AcceleratedReplay
from quitmt.lab.replay.live import Live
from quitmt.lab.study import Study
from quitmt.lab.study.testsets import StudyTestSet


@dataclass(frozen=True, slots=True)
class Replays:
    """All rules on one reranker. Each QUIT rule has a fixed size with the same mean number of candidates."""

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
    """The results of one sampling; of a study with several, that of ``[model]``."""

    study: Study
    test_set: StudyTestSet
    pools: tuple[FullPool, ...]
    trajectories: dict[str, Trajectories]
    replays: dict[str, Replays]
    quality: dict[str, QualityScores]
    live: dict[str, list[Live]]
    name: str = ""
    """The sampling's name."""
    baselines: tuple[Baseline, ...] = ()
    baseline_quality: Mapping[str, Floats] = field(default_factory=dict)
    """By metric, [S, baselines]."""
    others: tuple[Results, ...] = ()
    """The results of the other samplings, on the same segments."""
