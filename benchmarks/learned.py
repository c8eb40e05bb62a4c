"""A stopping rule that is learned from pools, beside every formula: does it lose less on segments it was not fitted on?

    python benchmarks/learned.py POOLS.jsonl … [--plain] [--anchors beam:4] [--orders 2] [--splits 20]

A small boosted regression (numpy) on 20 features of the snapshot foretells, without references, what stopping now would
lose (*learned, loss*), or what the next doubling of the pool would gain for each candidate (*learned, gain*). It is
fitted on one random half of the segments. The same half chooses all thresholds, by their mean cost. The other half
judges. A cell is the regret as a share of that of a fixed N of exactly the same mean cost, with the 5th and 95th
percentile over splits. *Beats the best formula*: the share of splits in which it lost less than the formula that was
the best one on the half that chose. Every pool is taken in several random orders.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from quitmt import rerank, stop
from quitmt.calibrate.observe import Observed, observe
from quitmt.files.pools import read_pools
from quitmt.lab.replay import frontier
from quitmt.lab.replay.frontier import Curve, Halved
from quitmt.stop.loss import expected_shortfall
from quitmt.types import RecordedPool, Snapshot

sys.path.append(str(Path(__file__).parents[1] / "examples"))  # for rival_rules
FORMULAS = ("loss", "loss:new=0.1,scale=1", "rival_rules:Race", "headroom:top=1,minimum=16,looks=2")
COSTS = (24, 32, 48, 64, 100, 150, 200)
STEP, MINIMUM = 8, 16
TREES, DEPTH, RATE, BINS, LEAST = 60, 3, 0.1, 16, 20
"""Of the regression: trees, their depth, the learning rate, cuts of a feature, rows of a leaf at least."""
Floats = np.ndarray


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pools", nargs="+")
    parser.add_argument("--plain", action="store_true", help="without the pools' anchors, every sample a judge")
    parser.add_argument("--anchors", help="only those of this origin, such as beam:4")
    parser.add_argument("--orders", type=int, default=2)
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--budget", type=int, help="candidates of a pool (all)")
    args = parser.parse_args()
    for path in args.pools:
        compare(path, args)


def compare(path: str, args: Any) -> None:
    pools = [prepared(pool, args) for pool in asyncio.run(collected(path))]
    reranker = rerank.load("mbr:chrf", support="all" if args.plain else "anchor")
    budget = max(len(pool.candidates) for pool in pools)
    rules = {name: _rule(name, budget) for name in FORMULAS}
    world = World(rules, budget)
    for order in range(args.orders):
        for number, pool in enumerate(pools):
            places = np.random.default_rng([order, number]).permutation(len(pool.candidates))
            shuffled = replace(pool, candidates=tuple(pool.candidates[place] for place in places))
            world.add(shuffled, observe(reranker, [shuffled])[0])
    split = np.tile(frontier.halves(len(pools), args.splits, 0), (1, args.orders))
    kind = "plain" if args.plain else "anchored"
    print(f"\n{len(pools)} pools of {budget}, {kind}, {args.orders} orders, {args.splits} splits\n")
    costs = [cost for cost in COSTS if cost < budget]
    print(f"| rule | {' | '.join(f'N = {cost}' for cost in costs)} |\n|---|" + "---|" * len(costs))
    report(world, split, costs)


def report(world: World, split: Any, costs: list[int]) -> None:
    losses = world.losses()
    fixed = frontier.fixed_curve(losses)
    curves = {
        name: frontier.threshold_curve(name, rule, world.signals[name], losses) for name, rule in world.rules.items()
    }
    found: dict[str, list[list[tuple[float, float] | None]]] = {}
    chosen: list[list[float]] = []
    for own in split[:, None]:
        learned = {name: world.learned(target, own[0], losses) for name, target in world.targets().items()}
        whole = Halved.of(fixed, own)
        seen = {name: held(curve, whole, own, costs) for name, curve in {**curves, **learned}.items()}
        for name, cells in seen.items():
            found.setdefault(name, []).append(cells)
        back = {name: held(curve, Halved.of(fixed, ~own), ~own, costs, at=own) for name, curve in curves.items()}
        chosen.append([_best(back, seen, place) for place in range(len(costs))])
    for name, rows in found.items():
        print(f"| {name} | {' | '.join(shown([row[place] for row in rows]) for place in range(len(costs)))} |")
    for name in (name for name in found if name.startswith("learned")):
        wins = []
        for place in range(len(costs)):
            both = [(row[place], best[place]) for row, best in zip(found[name], chosen, strict=True)]
            less = [one[0] / one[1] < best for one, best in both if one is not None and one[1] > 0 and best < np.inf]
            wins.append(f"{np.mean(less):.0%}" if less else "–")
        print(f"| {name}: beats the best formula | {' | '.join(wins)} |", flush=True)


def _best(back: dict[str, Any], seen: dict[str, Any], place: int) -> float:
    """The judged share of the formula that had the smallest one on the half that chose."""
    kept = {name: cells[place] for name, cells in back.items() if cells[place] and seen[name][place]}
    if not kept:
        return float("inf")
    name = min(kept, key=lambda one: kept[one][0] / max(kept[one][1], 1e-12))
    lost, rival = seen[name][place]
    return float(lost / rival) if rival > 0 else float("inf")


def held(curve: Curve, whole: Halved, own: Any, costs: list[int], at: Any = None) -> list[tuple[float, float] | None]:
    """What is lost on the half that judges, and by a fixed N; ``at`` is the half that chooses, if it is that one."""
    halved = Halved.of(curve, own)
    if at is not None:
        halved = Halved(halved.rule, halved.judging, halved.judging)
    cells: list[tuple[float, float] | None] = []
    for cost in costs:
        one = frontier.at_cost(halved, whole, cost)
        cells.append(None if one is None else (float(one.lost[0].mean()), float(one.rival_lost[0].mean())))
    return cells


def shown(cells: list[tuple[float, float] | None]) -> str:
    both = np.array([cell for cell in cells if cell is not None and cell[1] > 0])
    if len(both) < len(cells) / 2:
        return "–"
    low, high = np.quantile(both[:, 0] / both[:, 1], (0.05, 0.95))
    return f"{both[:, 0].sum() / both[:, 1].sum():.2f} [{low:.2f}, {high:.2f}]"


@dataclass
class World:
    """All pools in all orders, a row each."""

    rules: dict[str, Any]
    budget: int

    def __post_init__(self) -> None:
        self.looks = [size for size in next(iter(self.rules.values())).sizes() if size < self.budget]
        self.signals: dict[str, list[Any]] = {name: [] for name in self.rules}
        self.features: list[Any] = []
        self.lost: list[Any] = []

    def add(self, pool: RecordedPool, one: Observed) -> None:
        for name, rule in self.rules.items():
            self.signals[name].append(one.signals(rule))
        self.lost.append(one.final[one.best[-1]] - one.final[one.best])
        self.features.append([features(pool, one, size, self.budget) for size in self.looks])

    def losses(self) -> frontier.Losses:
        table = np.array(self.lost).astype(np.float32)
        return frontier.Losses(np.full(len(table), self.budget), {frontier.REGRET: table})

    def targets(self) -> dict[str, Floats]:
        table, looks = np.array(self.lost), np.array(self.looks)
        later = np.minimum(2 * looks, self.budget)
        now, gain = table[:, looks - 1], table[:, looks - 1] - table[:, later - 1]
        return {"learned, loss": now, "learned, gain": gain / (later - looks)}

    def learned(self, target: Floats, train: Any, losses: frontier.Losses) -> Curve:
        given = np.array(self.features)
        model = Boosted(given[train].reshape(-1, given.shape[2]), target[train].ravel())
        found = model.predict(given.reshape(-1, given.shape[2])).reshape(target.shape)
        signals = list(np.maximum(found, 0) + 1e-12)
        return frontier.threshold_curve("learned", next(iter(self.rules.values())), signals, losses)


def features(pool: RecordedPool, one: Observed, size: int, budget: int) -> list[float]:
    now, half, quarter = (one.snapshots[part - 1] for part in (size, size // 2, size // 4))
    texts = [candidate.text for candidate in pool.candidates[:size]]
    counts = np.unique(texts, return_counts=True)[1]
    best = pool.candidates[now.best].text if now.best >= 0 else pool.anchors[-1 - now.best].text
    assert now.rivals is not None
    rivals, left = now.rivals(), np.log(budget / size)
    top = rivals.top
    shortfall = expected_shortfall(rivals.mean, rivals.error * np.sqrt(1 - size / budget))
    behind = float((2.5 * rivals.error - rivals.mean).max()) if len(rivals.mean) else 0.0
    near = float((rivals.mean < rivals.error).sum())
    scores = _scores(now)
    return [
        *(np.log(size), left, now.score, scores.mean(), scores.std(), (1 - now.score) / size),
        *(top[0] - top.mean(), (top[0] - top.mean()) * left, top[0] - top[min(1, len(top) - 1)]),
        *(shortfall, behind, near, float(rivals.error.mean()) if len(rivals.error) else 0.0),
        *(len(counts) / size, texts.count(best) / size, float((counts == 1).sum()) / size),
        *(now.score - half.score, now.score - quarter.score, float(now.best == half.best)),
        float(len(pool.segment.source)),
    ]


def _scores(snapshot: Snapshot) -> Any:
    return np.array([snapshot.score]) if snapshot.scores is None else snapshot.scores()


class Boosted:
    """Least-squares boosting of trees over quantile cuts."""

    def __init__(self, given: Floats, target: Floats) -> None:
        self._cuts = [np.unique(np.quantile(column, np.linspace(0, 1, BINS + 1)[1:-1])) for column in given.T]
        self._mean, self._trees = float(target.mean()), list[Any]()
        bins, left = self._binned(given), target - target.mean()
        for _ in range(TREES):
            tree = _grown(bins, left, np.arange(len(left)), DEPTH)
            self._trees.append(tree)
            left = left - RATE * _told(tree, bins)

    def predict(self, given: Floats) -> Floats:
        bins = self._binned(given)
        return self._mean + RATE * sum((_told(tree, bins) for tree in self._trees), np.zeros(len(given)))

    def _binned(self, given: Floats) -> Floats:
        return np.stack([np.searchsorted(cuts, column) for cuts, column in zip(self._cuts, given.T, strict=True)], 1)


def _grown(bins: Floats, left: Floats, rows: Floats, depth: int) -> Any:
    """A number, or (feature, cut, below, above)."""
    own, best = left[rows], (1e-18, -1, -1)
    if depth and len(rows) >= 2 * LEAST:
        for feature in range(bins.shape[1]):
            found = bins[rows, feature]
            count = np.cumsum(np.bincount(found, minlength=BINS))[:-1]
            total = np.cumsum(np.bincount(found, own, BINS))[:-1]
            fits = (count >= LEAST) & (len(rows) - count >= LEAST)
            gain = total**2 / np.maximum(count, 1) + (own.sum() - total) ** 2 / np.maximum(len(rows) - count, 1)
            gain = np.where(fits, gain - own.sum() ** 2 / len(rows), -1.0)
            if gain.max() > best[0]:
                best = (float(gain.max()), feature, int(gain.argmax()))
    if best[1] < 0:
        return float(own.mean()) if len(own) else 0.0
    below = bins[rows, best[1]] <= best[2]
    return best[1], best[2], _grown(bins, left, rows[below], depth - 1), _grown(bins, left, rows[~below], depth - 1)


def _told(tree: Any, bins: Floats) -> Floats:
    if isinstance(tree, float):
        return np.full(len(bins), tree)
    feature, cut, below, above = tree
    return np.where(bins[:, feature] <= cut, _told(below, bins), _told(above, bins))


def _rule(name: str, budget: int) -> Any:
    return replace(stop.load_threshold(name, k=STEP, n=budget), minimum=MINIMUM)  # type: ignore[type-var]


def prepared(pool: RecordedPool, args: Any) -> RecordedPool:
    anchors = () if args.plain else pool.anchors
    if args.anchors and not args.plain:
        anchors = tuple(one for one in anchors if one.origin == args.anchors)
    return replace(pool, candidates=pool.candidates[: args.budget], anchors=anchors)


async def collected(path: str) -> list[RecordedPool]:
    return [pool async for pool in read_pools(path)]


if __name__ == "__main__":
    main()
