"""What is compiled on first use is compiled before the clock starts: afterwards, a run compiles nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import asyncio, gc, sys
from quitmt import generate, rerank, stop
from quitmt.engine.deadlines import Deadlines
from quitmt.engine.driver import Driver
from quitmt.sampling import Sampling
from quitmt.types import Segment

def compiled():
    return {(one.__module__, one.__name__, str(signature))
            for one in gc.get_objects() if type(one).__name__ == "CPUDispatcher" for signature in one.signatures}

async def work(rule):
    generator = generate.load("embedded:en-pt", Sampling(), languages=("en", "pt"))
    driver = Driver(generator, rerank.load("mbr:chrf"), stop.load(rule, n=96), deadlines=Deadlines(run=1e6))
    await driver.warm()
    before = compiled()
    sources = ["The weather is nice today.", "He sold the old house that his grandparents had built by the river."]
    segments = [Segment(str(number), source) for number, source in enumerate(sources)]
    stops = [one.outcome.stop.value async for _, one in driver.run(segments)]
    print(len(before) > 0, "failed" in stops, *sorted(compiled() - before))

asyncio.run(work(sys.argv[1]))
"""


@pytest.mark.parametrize("rule", ["loss"])
def test_a_run_that_was_warmed_compiles_nothing(rule: str) -> None:
    """In a process of its own: in this one, other tests have compiled."""
    done = subprocess.run([sys.executable, "-c", SCRIPT, rule], capture_output=True, text=True, timeout=600)
    assert (done.stdout, done.stderr) == ("True False\n", "")
