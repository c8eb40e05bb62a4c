"""Replay QE rules on public scores of real metrics, and print the tables of docs/study-qe.

    python benchmarks/qe_replay.py tower13b.en-pt.jsonl.gz tower13b.en-es.jsonl.gz wmt25-scores.jsonl.gz

Each line of a file is a pool: {"id": …, "scores": {METRIC: […], …}}; the page says how to make them. Pools of several
systems (with "systems") are shuffled, and are one set per direction, which is the first part of their ids. Everything
that a rule must know (thresholds, tops) is chosen on other sets than the one that judges it: on the other pair, or on
the other half of the directions.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from quitmt import stop
from quitmt.stop.headroom import Headroom
from quitmt.stop.steering import Steered
from quitmt.types import Outcome, Snapshot

Array = Any
QE = ("kiwi", "CometKiwi-XL")
COSTS = (4, 8, 12, 16, 25)
SHARES = np.geomspace(1e-6, 1, 240)
USUAL = (3.0, 6.0, 11.0, 18.0, 30.0)
RESAMPLES = 10_000
DEFAULT = Headroom(reach=16)
"""The rule that quitmt chooses for QE if it knows nothing of the metric."""


@dataclass(frozen=True)
class Pools:
    """One language pair: scores by metric, [segments, candidates], in sampling order."""

    name: str
    scores: dict[str, Array]
    qe: str

    @cached_property
    def running(self) -> Array:
        """The best QE score among the first 1, 2, … candidates."""
        return np.maximum.accumulate(self.scores[self.qe], axis=1)

    def fixed(self, cost: float) -> float:
        """The regret of a fixed number of candidates, between two whole numbers in proportion."""
        running = self.running
        return float(np.interp(cost, np.arange(1, running.shape[1] + 1), (running[:, -1:] - running).mean(axis=0)))

    def regret(self, sizes: Array) -> float:
        running = self.running
        return float((running[:, -1] - running[np.arange(len(running)), sizes - 1]).mean())

    def ratio(self, sizes: Array) -> float:
        return self.regret(sizes) / self.fixed(float(sizes.mean()))

    def chosen(self, metric: str, sizes: Array) -> Array:
        """The quality of the choice among the first ``sizes`` candidates of each segment."""
        scores, found = self.scores[self.qe], self.scores[metric]
        later = np.arange(scores.shape[1]) >= np.broadcast_to(sizes, len(scores))[:, None]
        return found[np.arange(len(found)), np.where(later, -np.inf, scores).argmax(axis=1)]

    def shuffled(self, seed: int) -> Pools:
        order = np.argsort(np.random.default_rng(seed).random(self.scores[self.qe].shape), axis=1)
        scores = {name: np.take_along_axis(found, order, axis=1) for name, found in self.scores.items()}
        return Pools(self.name, scores, self.qe)


def read(path: str) -> list[Pools]:
    sets: dict[str, list[dict[str, Any]]] = {}
    opened: Callable[..., Any] = gzip.open if path.endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            sets.setdefault(
                row["id"].partition("|")[0] if "systems" in row else Path(path).name.split(".")[1], []
            ).append(row)
    found = []
    for name, rows in sets.items():
        metrics = [metric for metric in rows[0]["scores"] if metric != "bleu"]
        scores = {metric: np.array([row["scores"][metric] for row in rows], float) for metric in metrics}
        whole = ~np.any([np.isnan(one).any(axis=1) for one in scores.values()], axis=0)
        pools = Pools(name, {metric: one[whole] for metric, one in scores.items()}, next(q for q in QE if q in scores))
        found.append(pools.shuffled(0) if "systems" in rows[0] else pools)
    return found


# Rules


def quit_sizes(pools: Pools, k: int, w: int, alpha: float = 1e-3) -> Array:
    running = pools.running[:, k - 1 :: k]
    sizes = np.full(len(running), pools.running.shape[1])
    for end in range(running.shape[1] // w * w, 0, -w):
        window = running[:, end - w : end]
        sizes[window[:, -1] - window[:, 0] <= alpha] = end * k
    return sizes


def headroom_sizes(pools: Pools, top: float, share: float, looks: Array | None = None) -> Array:
    running = pools.running
    found = list(Headroom(budget=running.shape[1]).sizes()) if looks is None else looks
    passed = (top - running[:, np.array(found) - 1]) / found <= share
    passed[:, -1] = True
    return np.array(found)[passed.argmax(axis=1)]


def live_sizes(pools: Pools, rule: Headroom | Steered) -> Array:
    """Of a rule that learns during a run over the segments in their order, by quitmt's own code."""
    scores, running = pools.scores[pools.qe], pools.running
    steering, outcomes, added = rule.steer(), list[Outcome](), 0
    assert steering is not None
    steering.expect(len(scores))
    for position, row in enumerate(scores):
        while not steering.ready:
            steering.add(added, outcomes[added])
            added += 1
        watch, size, reason = stop.within(steering.next(position), len(row)).open(), 0, None
        while reason is None:
            size = min(len(row), watch.horizon(size))
            best = float(running[position, size - 1])
            reason = watch.observe(Snapshot(size, 0, best, scores=partial(row.__getitem__, slice(size))))
        kept, path = tuple(getattr(watch, "kept_signals", None) or ()), tuple(running[position, :size].tolist())
        outcomes.append(Outcome(str(position), "", "", 0, path[-1], size, reason, path, budget=len(row), signals=kept))
    return np.array([one.size for one in outcomes])


# What is chosen on other sets


def top_of(sets: Iterable[Pools], quantile: float) -> float:
    return float(np.mean([np.quantile(one.running[:, -1], quantile) for one in sets]))


def share_for(sets: Sequence[Pools], cost: float, top: float) -> float:
    costs = np.mean([_costs(one, top) for one in sets], axis=0)
    return float(np.exp(np.interp(-cost, -costs, np.log(SHARES))))


def _costs(pools: Pools, top: float) -> Array:
    """The mean number of candidates at each of ``SHARES``."""
    looks = np.array(list(Headroom(budget=pools.running.shape[1]).sizes()))
    signals = ((top - pools.running[:, looks - 1]) / looks)[:, :-1]  # falling, so those above a share come first
    more = np.diff(looks)
    return looks[0] + sum(
        gap * (1 - np.searchsorted(np.sort(signals[:, look]), SHARES, side="right") / len(signals))
        for look, gap in enumerate(more)
    )


def usual_for(sets: Sequence[Pools], cost: float, learned: dict[tuple[str, float], float]) -> float:
    costs = np.mean([[learned[one.name, usual] for usual in USUAL] for one in sets], axis=0)
    return float(np.exp(np.interp(np.log(cost), np.log(costs), np.log(USUAL))))


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    print(f"| {' | '.join(head)} |\n|{'---|' + '---:|' * (len(head) - 1)}")
    for row in rows:
        print(f"| {' | '.join(str(cell) for cell in row)} |")
    print(flush=True)


def equal_cost(groups: Sequence[tuple[str, list[tuple[list[Pools], list[Pools]]]]]) -> None:
    print("### Regret at equal cost\n\nShares of the regret of a fixed N at exactly the same mean N.\n")
    rows = []
    for title, splits in groups:
        learned = {
            (one.name, usual): float(live_sizes(one, Headroom(reach=16, usual=usual)).mean())
            for one in {id(one): one for train, _ in splits for one in train}.values()
            for usual in USUAL
        }
        ratios: dict[str, list[list[float]]] = {}
        for cost in COSTS:
            found: dict[str, list[float]] = {}
            for train, judged in splits:
                for name, top in (("top=1", 1.0), ("top=P90", top_of(train, 0.9)), ("top=P99", top_of(train, 0.99))):
                    share = share_for(train, cost, top)
                    found.setdefault(f"headroom, {name}", []).extend(
                        one.ratio(headroom_sizes(one, top, share)) for one in judged
                    )
                usual = usual_for(train, cost, learned)
                found.setdefault("**headroom, top=auto**", []).extend(
                    one.ratio(live_sizes(one, Headroom(reach=16, usual=usual))) for one in judged
                )
            for name, values in found.items():
                ratios.setdefault(name, []).append(values)
        for name, values in ratios.items():
            cells = [f"{np.mean(one):.2f}" + (f" (max {max(one):.2f})" if len(one) > 2 else "") for one in values]
            rows.append((title, name, *cells, f"{np.mean([np.mean(one) for one in values]):.2f}"))
    table(("pools", "rule", *(f"N = {cost}" for cost in COSTS), "mean"), rows)


def quit_table(groups: Sequence[tuple[str, list[Pools]]]) -> None:
    print("### QUIT\n\nMean N, and the share of the regret of a fixed N at the same mean N.\n")
    settings = [(1, 4), (1, 8), (2, 4), (4, 2), (8, 2), (8, 8)]
    rows = []
    for title, sets in groups:
        cells = []
        for k, w in settings:
            sizes = [quit_sizes(one, k, w) for one in sets]
            if all((size == one.running.shape[1]).all() for size, one in zip(sizes, sets, strict=True)):
                cells.append("never stops")
                continue
            ratio = np.mean([one.ratio(size) for one, size in zip(sets, sizes, strict=True) if one.regret(size)])
            cells.append(f"{np.mean([size.mean() for size in sizes]):.1f}: {ratio:.2f}")
        rows.append((title, *cells))
    table(("pools", *(f"k={k}, w={w}" for k, w in settings)), rows)


def default_table(sets: Sequence[Pools], alone: set[str]) -> None:
    print("### The default\n")
    print("Quality against the whole pool's choice in σ, with the 5th and 95th percentile of 10,000 paired resamples,")
    print("† if equivalent within 0.05σ; in brackets a fixed N of the same mean cost.\n")
    rng = np.random.default_rng(1)
    rows = []
    for one in sets:
        sizes = live_sizes(one, DEFAULT)
        cells = []
        for metric in [metric for metric in one.scores if metric != one.qe]:
            whole = one.chosen(metric, one.running.shape[1])
            sigma = whole.std(ddof=1)
            difference = (one.chosen(metric, sizes) - whole) / sigma
            fixed = ((one.chosen(metric, round(float(sizes.mean()))) - whole) / sigma).mean()
            if one.name not in alone:
                cells.append(f"{difference.mean():+.3f} ({fixed:+.3f})")
                continue
            means = [difference[rng.integers(0, len(difference), len(difference))].mean() for _ in range(RESAMPLES)]
            low, high = np.quantile(means, [0.05, 0.95])
            mark = "†" if max(-low, high) < 0.05 else ""
            cells.append(f"{difference.mean():+.3f}{mark} [{low:+.3f}, {high:+.3f}] ({fixed:+.3f})")
        rows.append((one.name, one.running.shape[1], f"{sizes.mean():.1f}", f"{one.ratio(sizes):.2f}", *cells))
    names = [metric for metric in sets[0].scores if metric != sets[0].qe]
    table(("pair", "pool", "mean N", "regret / fixed N", *names), rows)


def quality_table(sets: Sequence[Pools]) -> None:
    print("### Quality against N\n\nThe first N candidates, best by QE.\n")
    for metric in sets[0].scores:
        rows = []
        most = min(one.running.shape[1] for one in sets)
        counts = [n for n in (1, 2, 4, 8, 12, 16, 24, 32, 40, 50) if n < most] + [most]
        for one in sets[:2] if len(sets) < 3 else [None]:
            of = sets if one is None else [one]
            means = [np.mean([pools.chosen(metric, n).mean() for pools in of]) for n in counts]
            rows.append((metric if one is None else f"{one.name}, {metric}", *(f"{mean:.4g}" for mean in means)))
        table(("QE's choice by", *map(str, counts)), rows)


def oracle_table(groups: Sequence[tuple[str, list[Pools]]]) -> None:
    print("### Oracle\n\nCandidates until the whole pool's best one has come: regret 0.\n")
    rows = [
        (title, f"{np.mean([one.scores[one.qe].argmax(axis=1).mean() + 1 for one in sets]):.1f}")
        for title, sets in groups
    ]
    table(("pools", "mean N"), rows)


def paced_table(sets: Sequence[Pools]) -> None:
    print("### --max-cost\n\nMean cost and regret, against the best threshold in hindsight at the same mean cost.\n")
    rows = []
    for one in sets:
        shuffled = np.random.default_rng(1).permutation(len(one.running))
        for order, place in (("as they come", np.arange(len(shuffled))), ("shuffled", shuffled)):
            cells = []
            for cost in (4, 8, 16):
                pools = Pools(one.name, {name: found[place] for name, found in one.scores.items()}, one.qe)
                sizes = live_sizes(pools, Steered(DEFAULT, cost))
                top = top_of([pools], 0.99)
                hindsight = pools.regret(headroom_sizes(pools, top, share_for([pools], float(sizes.mean()), top)))
                cells.append(f"{sizes.mean() / cost - 1:+.1%}, {pools.regret(sizes) / hindsight:.2f}")
            rows.append((one.name, order, *cells))
    table(("pair", "segments", "--max-cost 4", "8", "16"), rows)


def short_table(sets: Sequence[Pools]) -> None:
    """The table of the README."""
    print("### In short\n")
    rows = []
    for one in sets:
        most = one.running.shape[1]
        sizes = {"one sample": 1, "the first 8": 8, "the first 12": 12, "the first 16": 16}
        rules: dict[str, Array] = {name: np.full(len(one.running), size) for name, size in sizes.items()}
        rules["QUIT, k=1, w=8"] = quit_sizes(one, 1, 8)
        rules["QUIT, k=8, w=8"] = quit_sizes(one, 8, 8)
        rules["**headroom**"] = live_sizes(one, DEFAULT)
        rules[f"all {most}"] = np.full(len(one.running), most)
        for name, size in rules.items():
            ratio = f"{one.ratio(size):.2f}" if one.regret(size) else "–"
            means = [f"{one.chosen(metric, size).mean():.4g}" for metric in ("comet", "chrf")]
            rows.append((one.name, name, f"{size.mean():.1f}", *means, f"{one.regret(size):.4f}", ratio))
    table(("pair", "rule", "mean N", "COMET-22", "chrF", "regret", "against a fixed N of equal cost"), rows)


def short_runs(sets: Sequence[Pools]) -> None:
    print("### --max-cost on runs of 200 segments\n\nHow far the mean cost is off: mean and largest of the runs.\n")
    rows = []
    for one in sets:
        every = np.arange(len(one.running))
        slices = [every[start : start + 200] for start in range(0, len(every) - 199, 100)]
        shuffled = [np.random.default_rng(seed).permutation(every)[:200] for seed in range(len(slices))]
        for order, places in (("as they come", slices), ("shuffled", shuffled)):
            cells = []
            for cost in (4, 8, 16):
                off = []
                for place in places:
                    pools = Pools(one.name, {name: found[place] for name, found in one.scores.items()}, one.qe)
                    off.append(live_sizes(pools, Steered(DEFAULT, cost)).mean() / cost - 1)
                cells.append(f"{np.abs(off).mean():.1%}, {np.abs(off).max():.1%}")
            rows.append((one.name, order, *cells))
    table(("pair", "segments", "--max-cost 4", "8", "16"), rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", nargs="+", metavar="FILE")
    every = [read(path) for path in parser.parse_args().files]
    samples = [one for sets in every if len(sets) == 1 for one in sets]
    systems = [one for sets in every if len(sets) > 1 for one in sets]
    splits = []
    if samples:
        pairs = [([other for other in samples if other is not one] or [one], [one]) for one in samples]
        splits.append(("samples of one model", pairs))
    if systems:
        even, odd = systems[::2], systems[1::2]
        splits.append(("systems of WMT25", [(even, odd), (odd, even)]))
    groups = [(title, [one for _, judged in parts for one in judged]) for title, parts in splits]
    short_table(samples)
    short_runs(samples)
    equal_cost(splits)
    quit_table(groups)
    oracle_table(groups)
    for _, sets in groups:
        default_table(sets, {one.name for one in samples})
        quality_table(sets)
    paced_table(samples)


if __name__ == "__main__":
    main()
