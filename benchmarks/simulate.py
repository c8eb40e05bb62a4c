"""What scheduling is worth on a GPU server, by simulation: the real engine over recorded pools, on a virtual clock.

    python benchmarks/simulate.py --pools POOLS.jsonl.gz [--server h100,max_sequences=256] [--figure FILE.png]
    python benchmarks/simulate.py --pools POOLS.jsonl.gz --fleet --least 300    # many GPUs, fed with batches

Compares three schedulings of QUIT: k at a time (generate a step, rerank, look), window at once (everything up to the
next stop reason), and speculative windows (the next window before the stop reason on the last). Segments are recorded
pools, each as often as the others, in shuffled rounds. The server is fitted to published figures
(``simulation/server.py``); nothing here was measured on a GPU. Candidates have their recorded tokens, else
characters / 4. Progress goes to stderr.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace

from quitmt import rerank
from quitmt.protocols import StoppingRule
from quitmt.stop.fixed import Fixed
from quitmt.stop.loss import Loss
from quitmt.stop.window import Quit
from quitmt.types import RecordedPool
from simulation import fleet, paper, tables
from simulation.loop import RerankCost
from simulation.replay import match_alpha, read, record
from simulation.server import SERVERS, Server, parse_server
from simulation.study import Case, Study

CHRF_PAIR_SECONDS = 5e-8
"""Of our exact chrF-MBR, encoding included (docs/benchmarks.md)."""
FASTER = (1, 3.5, 50)
"""Rerankers to compare: as the paper's, with COMET's pair head split, and chrF's order of magnitude."""


def main() -> None:
    args = arguments()
    server = parse_server(args.server)
    print("# Simulated scheduling\n")
    tables.show_server(args.server, server)
    if server == SERVERS["h100"]:
        tables.show_calibration(server)
    pools = read(args.pools)
    if args.fleet:
        show_fleet(pools, server, args)
        return
    cases = [load(pools, "MBR", "mbr:chrf", RerankCost(args.call_seconds, per_pair=args.pair_seconds), args)]
    if args.qe:
        cost = RerankCost(args.call_seconds, per_candidate=args.candidate_seconds)
        cases.append(load(pools, "QE", args.qe, cost, args))
    study = Study(server, rounds=args.rounds, least=args.least, seed=args.seed)
    chosen = [choose(case, args) for case in cases]
    for case, why in chosen:
        for replicas in args.replicas:
            tables.show_sweep(study, case, why, replicas, args.in_flight)
        tables.recommend(study, case, args.in_flight, args.replicas)
    tables.show_orders(study, chosen[-1][0], args.in_flight)
    tables.show_reranker_costs(study, chosen[0][0], FASTER)
    if (args.k, args.n) == (8, 512):
        tables.show_paper(study, cases)
    if args.figure:
        from simulation import figure

        titles = [f"{case.name}, w = {case.window}, mean N {tables.mean_size(case):.0f}" for case, _ in chosen]
        plotted = [(case, tables.full(case), title) for (case, _), title in zip(chosen, titles, strict=True)]
        figure.draw(args.figure, study, plotted, args.in_flight)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pools", required=True, help="recorded pools, JSONL")
    parser.add_argument("--server", default="h100", help="h100 or cpu, then name=value after commas (default h100)")
    parser.add_argument("--qe", default="qe:recorded:likelihood", help="the QE reranker, empty for none (%(default)s)")
    parser.add_argument("--in-flight", type=int, nargs="+", default=[1, 4, 16, 64, 256, 1024, 4096])
    parser.add_argument("--replicas", type=int, nargs="+", default=[1, 8])
    parser.add_argument("-k", type=int, default=8)
    parser.add_argument("-w", type=int, default=8)
    parser.add_argument("-n", type=int, default=512)
    parser.add_argument("--alpha", type=float, help="for the sweep (default: such that the mean N is the paper's)")
    parser.add_argument("--call-seconds", type=float, default=0.01, help="of reranking, a call: assumed (%(default)s)")
    parser.add_argument(
        "--pair-seconds", type=float, default=paper.PAIR_SECONDS, help="of MBR, an ordered pair: the paper's COMET-22"
    )
    # CometKiwi-22 has some 0.3 G parameters beside its embeddings: 48 GFLOP for 80 tokens, at an assumed 250 TFLOP/s.
    parser.add_argument(
        "--candidate-seconds", type=float, default=2e-4, help="of QE, a candidate: estimated (%(default)s)"
    )
    parser.add_argument("--rounds", type=float, default=4, help="segments a run, by segments in flight (default 4)")
    parser.add_argument("--least", type=int, default=1024, help="segments a run at least (default 1024)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fleet", action="store_true", help="only this: many GPUs, fed with batches (chrF-MBR)")
    parser.add_argument("--figure", help="write a figure to this file")
    return parser.parse_args()


def show_fleet(pools: Sequence[RecordedPool], server: Server, args: argparse.Namespace) -> None:
    """The full budget, QUIT as published and the expected loss, with chrF, which costs next to nothing on CPUs."""
    recording = record(pools, rerank.load("mbr:chrf"), args.k, args.n)
    rules: dict[str, StoppingRule] = {
        "full": Fixed(args.n, args.n),
        f"QUIT, w = {args.w}": Quit(args.k, args.w, 1e-3 if args.alpha is None else args.alpha, args.n),
        "loss": Loss(step=args.k, most=5e-4, new=0.1, budget=args.n),
    }
    study = Study(server, rounds=args.rounds, least=args.least, seed=args.seed)
    tokens = recording.tokens
    print(f"{len(tokens)} pools, {tokens.mean():.1f} tokens a candidate on average (longest {tokens.max()}).\n")
    cost = RerankCost(1e-3, per_pair=CHRF_PAIR_SECONDS)
    fleet.show(recording, rules, server, cost, study.most_tokens_a_second(recording), args.least)


def load(pools: Sequence[RecordedPool], name: str, spec: str, cost: RerankCost, args: argparse.Namespace) -> Case:
    recording = record(pools, rerank.load(spec), args.k, args.n)
    tokens = recording.tokens
    print(
        f"{name}: `{spec}` over {len(tokens)} pools of {args.n} candidates, {tokens.mean():.1f} tokens on average "
        f"(longest {tokens.max()}). Reranking: {cost.fixed * 1e3:g} ms a call + {cost.per_candidate * 1e6:g} µs a new "
        f"candidate + {cost.per_pair * 1e6:.2f} µs a new ordered pair, on one reranker for each replica.\n"
    )
    return Case(name, recording, cost, args.k, args.w, args.alpha, args.n)


def choose(case: Case, args: argparse.Namespace) -> tuple[Case, str]:
    """The alpha of the sweep: as told, or so that the mean N is the paper's, because our pools are another model's."""
    wanted = paper.MEAN_N[case.name].get(args.w) if (args.k, args.n) == (8, 512) else None
    if args.alpha is not None or wanted is None:
        return replace(case, alpha=1e-3 if args.alpha is None else args.alpha), "as given"
    alpha = match_alpha(case.recording.scores, args.k, args.w, wanted)
    return replace(case, alpha=alpha), f"chosen so that mean N is near the paper's {wanted:.0f}"


if __name__ == "__main__":
    main()
