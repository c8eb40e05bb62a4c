"""Signals for stopping QE that were tried: what is kept as a rule (headroom), and what lost to it.

    python benchmarks/qe_signals.py POOLS.jsonl [--score likelihood] [--orders 5] [--splits 200]

Pools have recorded scores between 0 and 1. All signals look at the same sizes and are judged as in ``rules.py``: the
threshold is chosen on one half of the segments, and what is lost on the other half stands beside a fixed N of the same
cost.

With best score b, n of N candidates and the top scores t₁ ≥ t₂ ≥ …:

- headroom: (1 − b)/n
- headroom with reach: min(1 − b, 16·(b − mean))/n, what ``auto`` takes, with a cap on n
- stale: the same, but only 4·(b − mean) where the best candidate is among the first half, or 16·(b − mean)·i/n where it
  is the i-th: what has not moved for long
- headroom to go: (1 − b)·ln(N/n)
- exponential tail: mean excess of the best m over the next, times ln(N/n): the expected gain from such a tail
- bounded tail: the same for ln(1 − score), so that 1 is never passed: (1 − b)·(1 − (n/N)^excess)
- normal (Pandora's box): the expected improvement of one more candidate, to be held against its price, if scores are
  normal
- learned: ridge regression of the gain of the next 64 candidates on 20 features of best, n, top scores, mean, spread
  and ties, trained on other segments

Below the table stands what ``auto`` does without a wish, with its own threshold, beside QUIT with w = 8 and a fixed N
of the same cost.
"""

from __future__ import annotations

import argparse
import asyncio

import numpy as np
from scipy.special import ndtr

from quitmt import stop
from quitmt.calibrate.families import stopping_sizes
from quitmt.files.pools import read_pools
from quitmt.lab.frames import Trajectories
from quitmt.lab.replay import frontier
from quitmt.stop.headroom import Headroom

Floats = np.ndarray
COSTS = (64, 100, 128, 150, 200, 256)
FOLDS = 5
REACH = "headroom:top=1,minimum=16,looks=2,reach=16,share=0.005"
AUTO = f"{REACH},cap=128"


async def collected(path: str, name: str) -> list[Floats]:
    found = []
    async for pool in read_pools(path):
        if name in (pool.candidates[0].scores or {}):
            found.append(np.array([(one.scores or {})[name] for one in pool.candidates]))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pools")
    parser.add_argument("--score", default="likelihood")
    parser.add_argument("--orders", type=int, default=5)
    parser.add_argument("--splits", type=int, default=200)
    args = parser.parse_args()
    pools = asyncio.run(collected(args.pools, args.score))
    budget = min(len(pool) for pool in pools)
    shuffled = [
        pool[np.random.default_rng([order, number]).permutation(len(pool))][:budget]
        for order in range(args.orders)
        for number, pool in enumerate(pools)
    ]
    scores = np.array(shuffled)
    best = np.maximum.accumulate(scores, axis=1)
    rule = Headroom(budget=budget)
    looks = np.array(list(rule.sizes())[:-1])
    losses = frontier.losses(_trajectories(scores, best), {}, budget)
    split = np.tile(frontier.halves(len(pools), args.splits, 0), (1, args.orders))
    fixed = frontier.Halved.of(frontier.fixed_curve(losses), split)
    print(f"{len(pools)} pools of {budget} in {args.orders} orders, {args.splits} splits: regret / that of fixed N\n")
    print("| signal | " + " | ".join(f"N = {cost}" for cost in COSTS) + " |\n|---|" + "---:|" * len(COSTS))
    segment = np.tile(np.arange(len(pools)), args.orders)
    for name, signal in signals(scores, best, looks, budget, segment).items():
        curve = frontier.threshold_curve(name, rule, list(signal), losses)
        cells = []
        for cost in COSTS:
            held = frontier.at_cost(frontier.Halved.of(curve, split), fixed, cost)
            cells.append("–" if held is None else f"{held.lost[0].mean() / held.rival_lost[0].mean():.2f}")
        print(f"| {name} | {' | '.join(cells)} |")
    report_auto(scores, best)


def report_auto(scores: Floats, best: Floats) -> None:
    budget, lost = scores.shape[1], best[:, -1:] - best
    windows = best[:, 7::8][:, : budget // 64 * 8].reshape(len(best), -1, 8)
    stable = windows[:, :, -1] - windows[:, :, 0] <= 1e-3
    quits = np.where(stable.any(axis=1), 64 * (stable.argmax(axis=1) + 1), budget)
    print("\n| rule | mean N | most | regret ×10³ | fixed N, same cost |\n|---|---:|---:|---:|---:|")
    both = [(spec, auto_sizes(spec, scores, best)) for spec in (AUTO, REACH)]
    for name, own in (*both, ("quit w=8", quits)):
        fixed = np.interp(own.mean(), np.arange(1, budget + 1), lost.mean(axis=0))
        regret = lost[np.arange(len(lost)), own - 1].mean()
        print(f"| {name} | {own.mean():.1f} | {own.max()} | {1e3 * regret:.2f} | {1e3 * fixed:.2f} |")


def auto_sizes(spec: str, scores: Floats, best: Floats) -> Floats:
    rule = stop.load(spec, n=scores.shape[1])
    assert isinstance(rule, Headroom)
    looks = np.array(list(rule.sizes())[:-1])
    means = np.cumsum(scores, axis=1)[:, looks - 1] / looks
    found = rule.room(best[:, looks - 1], means) / looks
    sizes: Floats = stopping_sizes(rule, np.array([rule.threshold]), list(found), np.full(len(scores), rule.budget))[0]
    return sizes


def signals(scores: Floats, best: Floats, looks: Floats, budget: int, segment: Floats) -> dict[str, Floats]:
    left, found = np.log(budget / looks), dict[str, Floats]()
    now = best[:, looks - 1]
    top = np.stack([-np.sort(-scores[:, :n], axis=1)[:, : min(33, n)][:, _padded(n)] for n in looks], axis=1)
    mean = np.stack([scores[:, :n].mean(axis=1) for n in looks], axis=1)
    spread = np.stack([scores[:, :n].std(axis=1, ddof=1) for n in looks], axis=1)
    distinct = np.stack([[len(np.unique(row[:n])) / n for row in scores] for n in looks], axis=1)
    found["headroom"] = (1 - now) / looks
    found["headroom with reach"] = np.minimum(1 - now, 16 * (now - mean)) / looks
    place = np.stack([scores[:, :n].argmax(axis=1) + 1 for n in looks], axis=1) / looks
    found["stale, first half"] = np.minimum(1 - now, np.where(place > 0.5, 16, 4) * (now - mean)) / looks
    found["stale, place of the best"] = np.minimum(1 - now, 16 * (now - mean) * place) / looks
    found["headroom to go"] = (1 - now) * left
    room = np.log(np.maximum(1 - top, 1e-6))
    for m in (8, 32):
        found[f"exponential tail, best {m}"] = (top[..., :m].mean(axis=2) - top[..., m]) * left
        excess = room[..., m] - room[..., :m].mean(axis=2)
        found[f"bounded tail, best {m}"] = (1 - now) * (1 - (looks / budget) ** excess)
    t = (now - mean) / np.maximum(spread, 1e-9)
    found["normal, one more"] = spread * (np.exp(-t * t / 2) / np.sqrt(2 * np.pi) - t * ndtr(-t))
    features = [np.ones_like(now), now, now**2, mean, spread, distinct, np.log(looks) + 0 * now, left + 0 * now]
    features += [one * left for one in (now, now**2, mean, spread, distinct, 1 + 0 * now)]
    features += [(top[..., 0] - top[..., :m].mean(axis=2)) * left for m in (4, 8, 16, 32)]
    features += [(1 - now) * spread * left, (1 - now) * distinct * left]
    later = np.minimum(looks + 64, budget)
    gain = (best[:, later - 1] - now) / (later - looks)
    found["learned"] = _learned(np.stack(features, axis=2), gain, segment)
    return found


def _padded(n: int) -> Floats:
    """Where fewer than 33 are there, the last is repeated."""
    return np.minimum(np.arange(33), min(33, n) - 1)


def _learned(features: Floats, gain: Floats, segment: Floats) -> Floats:
    found = np.empty_like(gain)
    for fold in range(FOLDS):
        train = segment % FOLDS != fold
        given, wanted = features[train].reshape(-1, features.shape[2]), gain[train].ravel()
        weights = np.linalg.solve(given.T @ given + 1e-3 * np.eye(given.shape[1]), given.T @ wanted)
        found[~train] = features[~train] @ weights
    return found - min(found.min(), 0.0)


def _trajectories(scores: Floats, best: Floats) -> Trajectories:
    record = np.concatenate((np.ones((len(scores), 1), bool), scores[:, 1:] > best[:, :-1]), axis=1)
    index = np.maximum.accumulate(np.where(record, np.arange(scores.shape[1]), 0), axis=1)
    sizes, none = np.full(len(scores), scores.shape[1]), np.zeros(len(scores))
    ids = tuple(map(str, range(len(scores))))
    return Trajectories("qe:recorded", "", ids, sizes, index, best, scores, none, none)


if __name__ == "__main__":
    main()
