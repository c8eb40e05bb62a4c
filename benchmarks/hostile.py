"""A soak: a run against a server that means harm, compared with the same run against a sound one. Loopback only.

    python benchmarks/hostile.py [--segments 2000] [--quick]

Of every 100 segments one is poisoned: its requests are always dropped, stalled, answered with 429, 504, an endless
body, a gzip bomb, JSON of 100,000 levels, or a refusal with half of a surrogate pair. The other requests meet the same
now and then. On the way the server is killed and started again twice, and between that it answers 429 to everybody for
90 seconds. No innocent segment may be lost, and what becomes of them must be what a sound server gives.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.servers.hostile_openai import POISONS, HostileServer, hostile_server

from quitmt.api import Translator
from quitmt.generate.openai import OpenAIGenerator
from quitmt.sampling import Sampling
from quitmt.types import Outcome, Segment, StopReason


@dataclass(frozen=True)
class Soak:
    """How much of everything. The whole is given up after ``longest_seconds``."""

    segments: int = 2000
    every: int = 100
    """One of so many segments is poisoned."""
    in_flight: int = 256
    patience: float = 180.0
    timeout: float = 10.0
    storm_seconds: float = 90.0
    down_seconds: float = 5.0
    longest_seconds: float = 1200.0

    def kind_of(self, index: int) -> str | None:
        """Of poison."""
        turn, place = divmod(index, self.every)
        return list(POISONS)[turn % len(POISONS)] if place == self.every // 2 else None

    def sources(self) -> list[Segment]:
        kinds = [self.kind_of(index) for index in range(self.segments)]
        return [
            Segment(str(index), f"Sentence number {index}." + (f" It has poison {kind}." if kind else ""))
            for index, kind in enumerate(kinds)
        ]


QUICK = Soak(80, 10, 16, patience=5.0, timeout=1.5, storm_seconds=2.0, down_seconds=0.5, longest_seconds=120.0)


@dataclass(frozen=True)
class Ran:
    outcomes: Sequence[Outcome]
    tally: Counter[str]
    seconds: float
    peak_mebibytes: float
    """Of this process so far."""
    waited_for: frozenset[str]

    def result(self, of: Callable[[int], bool]) -> list[tuple[object, ...]]:
        """What must not depend on the server."""
        chosen = [one for index, one in enumerate(self.outcomes) if of(index)]
        return [(o.id, o.translation, o.index, o.score, o.size, o.stop, o.trajectory) for o in chosen]

    def failed(self, of: Callable[[int], bool]) -> int:
        return sum(one.stop is StopReason.FAILED for index, one in enumerate(self.outcomes) if of(index))


def translate(soak: Soak, server: HostileServer, requests: int | None = None) -> Ran:
    """``requests``: how many a sound server needs; then harm is done on the way."""
    generator = OpenAIGenerator(
        "m", Sampling(), languages=("en", "pt"), base_url=server.base_url, max_tokens=64,
        concurrency=soak.in_flight, timeout=soak.timeout, patience=soak.patience,
    )  # fmt: skip
    translator = Translator(generator, reranker="mbr:chrf", n=32, w=2, in_flight=soak.in_flight)
    waited_for: set[str] = set()

    async def watch() -> None:
        while True:
            waited_for.add((generator.waiting or "").partition(";")[0])
            await asyncio.sleep(0.2)

    async def harm(requests: int) -> None:
        steps = [
            (0.15, lambda: server.restart(down_seconds=soak.down_seconds)),
            (0.35, lambda: server.storm(soak.storm_seconds)),
            (0.70, lambda: server.restart(down_seconds=soak.down_seconds)),
        ]
        for share, step in steps:
            while generator.tally["sent"] - sum(_again(generator.tally).values()) < share * requests:
                await asyncio.sleep(0.02)
            await asyncio.to_thread(step)

    async def work() -> list[Outcome]:
        tasks = [asyncio.create_task(watch())] + ([asyncio.create_task(harm(requests))] if requests else [])
        try:
            async with asyncio.timeout(soak.longest_seconds):
                found = await translator.translate_async(soak.sources())
            if not all(task.done() for task in tasks[1:]):
                sys.exit("the run was over before all harm was done")
            return found
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    start = time.perf_counter()
    outcomes = asyncio.run(work())
    peak = peak_mebibytes()
    return Ran(outcomes, generator.tally, time.perf_counter() - start, peak, frozenset(waited_for - {""}))


def peak_mebibytes() -> float:
    """Of this process alone: ru_maxrss would begin with what its parent had when it was forked."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


def _again(tally: Counter[str]) -> dict[str, int]:
    return {kind: count for kind, count in sorted(tally.items()) if kind != "sent"}


def compare(soak: Soak) -> bool:
    """Print the table; whether nothing innocent was lost or changed."""

    def innocent(index: int) -> bool:
        return soak.kind_of(index) is None

    def poisoned(index: int) -> bool:
        return not innocent(index)

    with hostile_server(sound=True) as server:
        sound = translate(soak, server)
    with hostile_server() as server:
        hostile = translate(soak, server, sound.tally["sent"])
    print("| server | innocent | lost | poisoned | failed | requests | sent again | peak MiB | seconds |")
    print("|---|---:|---:|---:|---:|---:|---|---:|---:|")
    innocents = sum(map(innocent, range(soak.segments)))
    for name, ran in {"sound": sound, "hostile": hostile}.items():
        again = _again(ran.tally)
        listed = f"{sum(again.values()):,}: {', '.join(f'{count} {kind}' for kind, count in again.items())}"
        cells = [
            name, f"{innocents:,}", ran.failed(innocent), soak.segments - innocents, ran.failed(poisoned),
            f"{ran.tally['sent']:,}", listed if again else 0, f"{ran.peak_mebibytes:.0f}", f"{ran.seconds:.0f}",
        ]  # fmt: skip
        print("| " + " | ".join(map(str, cells)) + " |")
    equal = sound.result(innocent) == hostile.result(innocent)
    print(f"\nOutcomes of the innocent segments are {'equal' if equal else 'DIFFERENT'}.")
    print("\nWaited for:", *sorted(hostile.waited_for), sep="\n- ")
    errors = {soak.kind_of(index): one.error for index, one in enumerate(hostile.outcomes)}
    print("\nPoisoned:", *(f"{kind}: {error}" for kind, error in errors.items() if kind), sep="\n- ")
    return equal and not hostile.failed(innocent)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--segments", type=int, default=Soak.segments)
    parser.add_argument("--patience", type=float, default=Soak.patience, help="seconds; more than the storm lasts")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK.segments} segments and a short storm, for tests")
    args = parser.parse_args()
    sys.exit(not compare(QUICK if args.quick else Soak(args.segments, patience=args.patience)))


if __name__ == "__main__":
    main()
