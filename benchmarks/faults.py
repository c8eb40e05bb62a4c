"""A run against a server that goes wrong in every way, compared with the same run against one that does not.

    python benchmarks/faults.py [--segments 500]

10% of the connections are dropped; others are answered with 429 and 500, stall, bring too few choices or broken JSON.
The pools that were used and the outcomes must be equal: no candidate lost, none twice, none from another place.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.servers.fake_openai import Faults, fake_server

from quitmt import rerank, stop
from quitmt.engine.driver import Driver
from quitmt.generate.openai import OpenAIGenerator
from quitmt.sampling import Sampling
from quitmt.types import Finished, Segment

FAULTS = Faults(drop=0.10, too_many=0.05, broken=0.05, stall=0.02, few=0.05, garbage=0.03, stall_seconds=30)


@dataclass(frozen=True)
class Ran:
    finished: Sequence[Finished]
    seconds: float
    tally: Counter[str]
    faults: Counter[str]

    def result(self) -> list[tuple[object, ...]]:
        """What must not depend on the faults."""
        outcomes = [(one.outcome, [c.text for c in one.candidates]) for one in self.finished]
        return [(o.id, o.translation, o.index, o.score, o.size, o.stop, o.trajectory, pool) for o, pool in outcomes]


def translate(segments: Sequence[Segment], faults: Faults, *, timeout: float, in_flight: int = 32) -> Ran:
    with fake_server(faults) as server:
        generator = OpenAIGenerator(
            "m", Sampling(), languages=("en", "pt"), base_url=server.base_url, concurrency=64, timeout=timeout
        )
        driver = Driver(generator, rerank.load("mbr:chrf"), stop.load("quit", n=64, w=2), in_flight=in_flight)

        async def work() -> list[Finished]:
            return [one for _, one in sorted([item async for item in driver.run(segments)], key=lambda item: item[0])]

        start = time.perf_counter()
        finished = asyncio.run(work())
        return Ran(finished, time.perf_counter() - start, generator.tally, server.faults)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--segments", type=int, default=500)
    parser.add_argument("--timeout", type=float, default=5.0, help="seconds; stalls are longer")
    args = parser.parse_args()
    segments = [Segment(str(index), f"Sentence number {index}.") for index in range(args.segments)]
    runs = {
        "no faults": translate(segments, Faults(), timeout=args.timeout),
        "faults": translate(segments, FAULTS, timeout=args.timeout),
    }
    print("| run | segments | failed | candidates | requests | sent again | server's faults | seconds |")
    print("|---|---|---|---|---|---|---|---|")
    for name, ran in runs.items():
        outcomes = [one.outcome for one in ran.finished]
        again = {kind: count for kind, count in sorted(ran.tally.items()) if kind != "sent"}
        cells = [
            name,
            len(outcomes),
            sum(outcome.stop == "failed" for outcome in outcomes),
            sum(outcome.size for outcome in outcomes),
            ran.tally["sent"],
            f"{sum(again.values())}: {', '.join(f'{count} {kind}' for kind, count in again.items())}" if again else 0,
            ", ".join(f"{count} {kind}" for kind, count in sorted(ran.faults.items())) or 0,
            f"{ran.seconds:.0f}",
        ]
        print("| " + " | ".join(map(str, cells)) + " |")
    equal = runs["faults"].result() == runs["no faults"].result()
    print(f"\nOutcomes and pools are {'equal' if equal else 'DIFFERENT'}.")
    sys.exit(not equal)


if __name__ == "__main__":
    main()
