"""Rules with a threshold in a study: which are asked for, which fit a reranker, and what one would have done.

Rules that differ in their threshold alone see the same signals, so those of ``[rules] beyond`` and of ``[live] rules``
share them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from quitmt import stop
from quitmt.calibrate import families
from quitmt.errors import UsageError
from quitmt.lab.frames import Floats, Replayed, Trajectories
from quitmt.lab.pools.trajectories import fitting_rules
from quitmt.lab.replay.rules import replayed_sizes
from quitmt.lab.study import Study
from quitmt.stop.threshold import Threshold


def check(study: Study) -> None:
    """Refuse what is no rule with a threshold, and thresholds where all of them are tried."""
    for where, specs in (("[rules], beyond", study.rules.beyond), ("[live], rules", study.live.rules)):
        for spec in specs:
            rule = study.rule(spec)
            if not isinstance(rule, Threshold):
                known = ", ".join(stop.thresholds())
                raise UsageError(f"{where}: {spec!r} is no rule with a threshold", hint=f"there is {known}")
            if specs is study.rules.beyond and f"{rule.limit}=" in spec:
                hint = f"leave out {rule.limit}"
                raise UsageError(f"{where}: all thresholds of {spec!r} are tried, not one", hint=hint)


def observed(study: Study) -> tuple[str, ...]:
    """The rules whose signals a study needs: of those that see the same, the first."""
    found: dict[str, str] = {}
    for spec in (*study.rules.beyond, *study.live.rules):
        found.setdefault(_kind(study.rule(spec)), spec)
    return tuple(found.values())


def fitting(study: Study, reranker: str, specs: Sequence[str]) -> dict[str, Threshold]:
    return fitting_rules(reranker, specs, study.rules.k, study.model.budget)


def signals(study: Study, one: Trajectories, rule: Threshold) -> tuple[Floats, ...] | None:
    """What a rule sees, if that was observed."""
    for spec, found in one.signals.items():
        if _kind(study.rule(spec)) == _kind(rule):
            return found
    return None


def replayed(study: Study, one: Trajectories) -> tuple[Replayed, ...]:
    """The rules that ``[live]`` names, at exactly their thresholds, as far as they fit the reranker."""
    found = []
    for spec, rule in fitting(study, one.reranker, study.live.rules).items():
        seen = signals(study, one, rule)
        if seen is not None:
            (size,) = families.stopping_sizes(rule, np.array([rule.threshold]), seen, one.sizes)
            settings = {rule.limit: rule.threshold, "n": rule.budget}
            found.append(replayed_sizes(spec, one, size, rule.budget, settings))
    return tuple(found)


def _kind(rule: object) -> str:
    """The same for rules that differ in their threshold alone."""
    return rule.at(0.0).signature if isinstance(rule, Threshold) else ""
