"""Rules run live with the embedded model: CPU seconds from lines to translations, everything included.

    python benchmarks/live_rules.py LINES.en [--rerank mbr:chrf] [--limit 20] [--rounds 2]

Rules take turns, round by round, so that what else the machine does hits all alike; the least of the rounds counts.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from quitmt import Translator

RULES: dict[str, tuple[dict[str, Any], ...]] = {
    "mbr": (
        {"rule": "full"},
        {"rule": "quit", "w": 4},
        {"rule": "quit", "w": 8},
        {"rule": "loss:most=0.0002"},
        {"rule": "loss"},
        {"rule": "loss:most=0.002"},
        {"rule": "fixed:144"},
    ),
    "qe": (
        {"rule": "full"},
        {"rule": "quit", "w": 4},
        {"rule": "quit", "w": 8},
        {"rule": "headroom:top=1,minimum=16,looks=2"},
        {"rule": "headroom:top=1,minimum=16,looks=2,share=0.005"},
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lines")
    parser.add_argument("--rerank", default="mbr:chrf")
    parser.add_argument("--limit", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=2)
    args = parser.parse_args()
    lines = Path(args.lines).read_text("utf-8").splitlines()[: args.limit]
    rules = RULES[args.rerank.partition(":")[0]]
    translators = [Translator(reranker=args.rerank, **rule) for rule in rules]
    translators[1].translate(lines[:1])  # compile
    cost = [float("inf")] * len(rules)
    sizes = [0.0] * len(rules)
    for _ in range(args.rounds):
        for number, translator in enumerate(translators):
            began = time.process_time()
            outcomes = translator.translate(lines)
            cost[number] = min(cost[number], time.process_time() - began)
            sizes[number] = sum(outcome.size for outcome in outcomes) / len(outcomes)
    print(f"{args.rerank}, {len(lines)} lines\n\n| rule | mean N | 512 / mean N | CPU s | speedup |")
    print("|---|---:|---:|---:|---:|")
    for rule, size, seconds in zip(rules, sizes, cost, strict=True):
        name = " ".join([rule["rule"], *(f"{key}={value}" for key, value in rule.items() if key != "rule")])
        print(f"| {name} | {size:.0f} | {512 / size:.2f} | {seconds:.1f} | {cost[0] / seconds:.2f} |", flush=True)


if __name__ == "__main__":
    main()
