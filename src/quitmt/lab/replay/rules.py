"""Rules on recorded trajectories, all segments at once.

A replay equals a live run of the rule on the same pools, segment by segment: QUIT and fixed sizes look only at the best
score after each step, and rules with a threshold only at their signals. Both were computed with the trajectories. Rules
that differ only in their threshold see the same signals, so ``[rules] beyond`` and ``[live] rules`` share them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from quitmt import stop
from quitmt.calibrate import families
from quitmt.errors import UsageError
from quitmt.lab.frames import Floats, Ints, Replayed, Trajectories
from quitmt.lab.pools.trajectories import fitting_rules, with_tops
from quitmt.lab.rows import ONE_SAMPLE, UNACCELERATED
from quitmt.lab.study import Study
from quitmt.stop.threshold import Threshold


def steps(pool: int, k: int, budget: int) -> Ints:
    """The pool sizes at which a rule looks: multiples of k, and the last, shorter step that reaches the budget."""
    most = min(pool, budget)
    return np.array([*range(k, most, k), most], np.int64)


def unaccelerated(trajectories: Trajectories, budget: int) -> Replayed:
    return replayed_sizes(UNACCELERATED, trajectories, np.minimum(trajectories.sizes, budget), budget, {"n": budget})


def one_sample(one: Trajectories) -> Replayed:
    """The first sample, without reranking."""
    size = np.ones(len(one.ids), np.int64)
    full = np.zeros(len(size), np.bool_)
    return Replayed(ONE_SAMPLE, one.reranker, size, size - 1, one.final[:, 0], full, {"n": 1})


def quit_rule(trajectories: Trajectories, *, k: int, w: int, alpha: float, budget: int) -> Replayed:
    """QUIT's window rule (docs/method.md, "QUIT")."""
    size = np.empty(len(trajectories.ids), np.int64)
    for pool in np.unique(trajectories.sizes):
        rows = np.flatnonzero(trajectories.sizes == pool)
        looked = steps(int(pool), k, budget)
        windows = looked[: len(looked) // w * w].reshape(-1, w)
        size[rows] = looked[-1]
        if len(windows):
            stable = window_ranges(trajectories.score[rows], windows) <= alpha
            size[rows] = np.where(stable.any(axis=1), windows[stable.argmax(axis=1), -1], looked[-1])
    return replayed_sizes(f"QUIT w={w}", trajectories, size, budget, {"k": k, "w": w, "alpha": alpha, "n": budget})


def window_ranges(score: Floats, windows: Ints) -> Floats:
    """How far the best score moves within each window, [segments, windows]; ``windows`` are pool sizes, w per row."""
    found = score[:, windows - 1]
    return np.asarray(found.max(axis=2) - found.min(axis=2))


def replayed_sizes(
    name: str, trajectories: Trajectories, size: Ints, budget: int, settings: Mapping[str, float]
) -> Replayed:
    """A rule of which only the number of candidates per segment is known."""
    index = trajectories.best[np.arange(len(size)), size - 1]
    score = trajectories.final[np.arange(len(size)), index]
    return Replayed(name, trajectories.reranker, size, index, score, size >= budget, settings)


def matched_fixed(
    trajectories: Trajectories, target_mean_size: float, budget: int, *, seed: int = 0, name: str = "Fixed-N*"
) -> Replayed:
    """Fixed-N*: the rival that spends as many candidates as another rule and looks at no score (docs/lab.md).

    Every segment gets its first N candidates. A rule's mean is rarely a whole number, so some segments, drawn with the
    seed, get N + 1: the total is the same to the last candidate. A pool with fewer candidates gives all it has, and the
    others make up for it. Reranking with MBR costs the square of a segment's candidates, so a rule that spends unevenly
    pays more for it than Fixed-N* with the same mean.
    """
    most = np.minimum(trajectories.sizes, budget)
    if not 1 <= target_mean_size <= most.mean():
        raise UsageError(
            f"no fixed size has a mean of {target_mean_size:g} candidates",
            hint=f"these pools and the budget of {budget} allow 1 to {most.mean():g}",
        )
    size = _sizes(most, round(target_mean_size * len(most)), np.random.default_rng(seed))
    return replayed_sizes(name, trajectories, size, budget, {"n": target_mean_size})


def _sizes(most: Ints, total: int, rng: np.random.Generator) -> Ints:
    """N or N + 1 for every segment, or its maximum if that is smaller; ``total`` in all."""
    low, high = 1, int(most.max())
    while low < high:  # the largest N that does not cost more than the total
        middle = (low + high + 1) // 2
        low, high = (middle, high) if np.minimum(most, middle).sum() <= total else (low, middle - 1)
    size = np.minimum(most, low)
    have_more = np.flatnonzero(most > low)
    size[rng.permutation(have_more)[: total - int(size.sum())]] += 1
    return size


def check_thresholds(study: Study) -> None:
    """Refuse rules without a threshold, and a threshold where all thresholds are tried."""
    for where, specs in (("[rules], beyond", study.rules.beyond), ("[live], rules", study.live.rules)):
        for spec in specs:
            rule = study.rule(spec)
            if not isinstance(rule, Threshold):
                known = ", ".join(stop.thresholds())
                raise UsageError(f"{where}: {spec!r} is not a rule with a threshold", hint=f"there is {known}")
            if specs is study.rules.beyond and f"{rule.limit}=" in spec:
                hint = f"leave out {rule.limit}"
                raise UsageError(f"{where}: all thresholds of {spec!r} are tried, not one", hint=hint)


def observed(study: Study) -> tuple[str, ...]:
    """The rules whose signals a study needs; of those that see the same signals, the first."""
    found: dict[str, str] = {}
    for spec in (*study.rules.beyond, *study.live.rules):
        found.setdefault(_kind(study.rule(spec)), spec)
    return tuple(found.values())


def fitting(study: Study, one: Trajectories, specs: Sequence[str]) -> dict[str, Threshold]:
    return with_tops(fitting_rules(one.reranker, specs, study.rules.k, study.model.budget), one)


def signals(study: Study, one: Trajectories, rule: Threshold) -> tuple[Floats, ...] | None:
    """The signals that a rule sees, if they were computed."""
    return next((found for spec, found in one.signals.items() if _kind(study.rule(spec)) == _kind(rule)), None)


def with_thresholds(study: Study, one: Trajectories) -> tuple[Replayed, ...]:
    """The rules that ``[live]`` names, at exactly their thresholds, if they fit the reranker."""
    found = []
    for spec, rule in fitting(study, one, study.live.rules).items():
        seen = signals(study, one, rule)
        if seen is not None:
            (size,) = families.stopping_sizes(rule, np.array([rule.threshold]), seen, one.sizes)
            settings = {rule.limit: rule.threshold, "n": rule.budget}
            found.append(replayed_sizes(spec, one, size, rule.budget, settings))
    return tuple(found)


def _kind(rule: object) -> str:
    """The same text for rules that differ only in their threshold."""
    return rule.at(0.0).signature if isinstance(rule, Threshold) else ""
