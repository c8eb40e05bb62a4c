"""The tables, in Markdown, to stdout.

Rates are those of whole runs, start and end included. The steady ones, of the middle 60% of the time, are only shown:
where the reranker is the bottleneck and segments go through their windows in step, they favour early, cheap windows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace

import numpy as np

from simulation import paper
from simulation.loop import RerankCost, Result
from simulation.replay import match_alpha, stopping_sizes
from simulation.server import PUBLISHED_THROUGHPUT, Server, fit
from simulation.study import SCHEDULINGS, STEP, WINDOW, Case, Study, published_workload

WINDOWS = (2, 4, 8, 16)
SATURATED = 64
"""Segments in flight of the second half of the paper's table."""
ENOUGH = 0.95
"""Of the best rate: what a default for the segments in flight must reach."""


def head(*names: str) -> None:
    print(f"| {' | '.join(names)} |\n|{'---|' * len(names)}")


def row(*cells: object) -> None:
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


def full(case: Case) -> Case:
    return replace(case, alpha=None)


def mean_size(case: Case) -> float:
    return float(_sizes(case).mean())


def _sizes(case: Case) -> np.ndarray:
    assert case.alpha is not None
    return stopping_sizes(case.recording.scores, case.step, case.window, case.alpha)


def _latency(result: Result) -> str:
    return f"{np.mean(result.latencies):,.1f} / {np.percentile(result.latencies, 95):,.1f}"


def show_server(name: str, server: Server) -> None:
    shown = ", ".join(f"{key} {value:,.4g}" for key, value in asdict(server).items())
    print(f"Server `{name}` (seconds, tokens): {shown}.\n")


def show_calibration(server: Server) -> None:
    print(f"The fit is within {fit()[1]:.1%} of every published step. Against throughput it was not fitted to:\n")
    head("requests under way (128 tokens in, 128 out)", "published tokens/s", "simulated")
    for concurrency, published in PUBLISHED_THROUGHPUT.items():
        row(concurrency, f"{published:,.0f}", f"{published_workload(server, concurrency):,.0f}")
    print()


def show_sweep(study: Study, case: Case, why: str, replicas: int, in_flight: Sequence[int]) -> None:
    best = max(study.run(full(case), WINDOW, count, replicas).rate for count in in_flight)
    most = replicas * study.most_tokens_a_second(case.recording)
    print(
        f"\n## {case.name}, k = {case.step}, w = {case.window}, α = {case.alpha:.3g} ({why}); {replicas} replica(s)\n"
    )
    print(
        f"Mean N {mean_size(case):.0f} of {case.budget}. The full budget at saturation: {best:.3f} segments/s. The "
        f"server can do {most:,.0f} tokens/s. In brackets the rate of the middle 60% of the time.\n"
    )
    names = ("segments/s", "over full at saturation", "over full, same scheduling, same in flight", "utilisation")
    head("in flight", "scheduling", *names, "reranker busy", "latency mean / 95% (s)", "wasted tokens")
    for count in in_flight:
        for scheduling in SCHEDULINGS:
            result = study.run(case, scheduling, count, replicas)
            same = study.run(full(case), scheduling, count, replicas)
            row(
                f"{count:,}",
                scheduling,
                f"{result.rate:.3f} ({result.steady_rate:.3f})",
                f"{result.rate / best:.2f}×",
                f"{result.rate / same.rate:.2f}×",
                f"{result.tokens / result.seconds / most:.0%}",
                f"{result.rerank_seconds / result.seconds:.0%}",
                _latency(result),
                f"{result.wasted_share:.1%}",
            )


def recommend(study: Study, case: Case, in_flight: Sequence[int], replicas: Sequence[int]) -> None:
    """The fewest in flight that are nearly as good as the best of any scheduling."""
    print(f"\nFor {case.name}, w = {case.window}, the fewest in flight within {1 - ENOUGH:.0%} of the best of all:\n")
    for number in replicas:
        found = {(s, count): study.run(case, s, count, number) for s in SCHEDULINGS for count in in_flight}
        best = max(result.rate for result in found.values())
        for scheduling in SCHEDULINGS:
            good = [c for c in in_flight if found[scheduling, c].rate >= ENOUGH * best]
            if not good:
                print(f"- {number} replica(s), {scheduling}: none.")
                continue
            span = case.step * (1 if scheduling == STEP else case.window)
            share = good[0] * span / (number * study.server.max_sequences)
            latency, last = (float(np.mean(found[scheduling, c].latencies)) for c in (good[0], max(in_flight)))
            print(
                f"- {number} replica(s), {scheduling}: {good[0]:,} in flight, {latency:,.1f} s mean latency "
                f"({max(in_flight):,} in flight: {last:,.1f} s). They ask for {share:.2g} times the server's slots."
            )


def show_orders(study: Study, case: Case, in_flight: Sequence[int]) -> None:
    print(f"\n## Who goes first: {case.name}, window at once, one replica\n")
    head("in flight", "order of requests", "segments/s", "latency mean / 95% (s)")
    for count in in_flight:
        for oldest in (False, True):
            result = study.run(case, WINDOW, count, oldest_first=oldest)
            order = "oldest segment first" if oldest else "first come"
            row(f"{count:,}", order, f"{result.rate:.3f}", _latency(result))


def show_reranker_costs(study: Study, case: Case, factors: Sequence[float]) -> None:
    print(f"\n## A faster reranker: {case.name}, one replica, {SATURATED} in flight\n")
    names = [f"{scheduling}: segments/s, over full" for scheduling in SCHEDULINGS]
    head("reranker", "full at once: segments/s", *names)
    for factor in factors:
        old = case.cost
        cost = RerankCost(old.fixed / factor, old.per_candidate / factor, old.per_pair / factor)
        faster = replace(case, name=f"{case.name}, reranker {factor:g}×", cost=cost)
        baseline = study.run(full(faster), WINDOW, SATURATED).rate
        rates = [study.run(faster, scheduling, SATURATED).rate for scheduling in SCHEDULINGS]
        shown = [f"{rate:.3f}, {rate / baseline:.2f}×" for rate in rates]
        row(f"{factor:g} times as fast", f"{baseline:.3f}", *shown)


def show_paper(study: Study, cases: Sequence[Case]) -> None:
    print("\n## The paper's setting\n")
    print(
        "Our pools are a small model's, so QUIT stops elsewhere on them than in the paper (α = 1e-3); rows with = have "
        "the α that gives the paper's mean N, so that only the scheduling is compared. Speedups are over the full "
        "budget with the same scheduling and as many in flight, on one replica; tokens: what the full budget generates "
        "by what QUIT uses. The column k/once sets k at a time against the full budget at once, one in flight. The "
        "paper's figures are averages over its datasets and models; how it schedules is not known to us.\n"
    )
    heads = [f"{scheduling}, {count} in flight" for count in (1, SATURATED) for scheduling in SCHEDULINGS]
    head("reranker", "w", "α", "mean N", "512/N", "tokens", *heads, "k/once", "paper: mean N", "512/N", "speedup")
    for case in cases:
        for window in WINDOWS:
            _paper_row(study, replace(case, window=window, alpha=1e-3), "1e-3")
            if wanted := paper.MEAN_N[case.name].get(window):
                alpha = match_alpha(case.recording.scores, case.step, window, wanted)
                _paper_row(study, replace(case, window=window, alpha=alpha), f"= {alpha:.2g}")
    rows = "; ".join(f"w = {w}: N {n:.0f}, {speedup:.2f}×" for w, (n, speedup) in paper.CHRF.items())
    print(f"\nThe paper with chrF as the utility, as in our MBR: {rows}.")
    _candidate_seconds(study, cases[-1])


def _paper_row(study: Study, case: Case, alpha: str) -> None:
    sizes, tokens = _sizes(case), case.recording.tokens
    used = np.take_along_axis(tokens.cumsum(axis=1), sizes[:, None] - 1, axis=1).sum()
    speedups = [
        study.run(case, scheduling, count).rate / study.run(full(case), scheduling, count).rate
        for count in (1, SATURATED)
        for scheduling in SCHEDULINGS
    ]
    speedups.append(study.run(case, STEP, 1).rate / study.run(full(case), WINDOW, 1).rate)
    wanted = paper.MEAN_N[case.name].get(case.window)
    theirs = (f"{wanted:.0f}", f"{512 / wanted:.2f}") if wanted else ("–", "–")
    ours = (f"{sizes.mean():.0f}", f"{case.budget / sizes.mean():.2f}", f"{tokens.sum() / used:.2f}")
    shown = [f"{value:.2f}" for value in speedups]
    row(case.name, case.window, alpha, *ours, *shown, *theirs, paper.SPEEDUP[case.name][case.window])


def _candidate_seconds(study: Study, case: Case) -> None:
    runs = {
        f"{name}, {count} in flight": study.run(full(case), scheduling, count)
        for name, scheduling, count in (
            ("k at a time", STEP, 1),
            ("at once", WINDOW, 1),
            ("at once", WINDOW, SATURATED),
        )
    }
    shown = ", ".join(f"{name} {1e3 / (r.rate * case.budget):.1f}" for name, r in runs.items())
    tokens = case.recording.tokens.mean()
    print(
        f"Milliseconds a candidate with the full budget, {case.name}, {tokens:.0f} tokens each: {shown}; "
        f"the paper's Qwen3 on WMT24 (longer segments, other hardware): {1e3 * paper.QWEN_CANDIDATE_SECONDS:.0f}."
    )
