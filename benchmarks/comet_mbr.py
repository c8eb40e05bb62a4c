"""COMET-MBR beside mbrs with the same checkpoint, and the padding of CometKiwi's batches.

    python benchmarks/comet_mbr.py POOLS.jsonl.gz [--mbrs PYTHON]

The checkpoints are the tiny ones of the tests: real layouts and code paths, nothing of the real sizes (for those see
``pair_head.py``). mbrs has pins of its own and runs in its own environment, whose interpreter is PYTHON:

    python -m venv .venv-mbrs && .venv-mbrs/bin/pip install torch==2.13.0
    .venv-mbrs/bin/pip install mbrs==0.1.8 "setuptools<81"

Each size and side is a process of its own: CPU seconds of all threads from texts to winner, of the second of two runs
on one pool, and the peak of memory beyond what was in use before. Both sides are given the same candidates, all
distinct, from the pools of the file that have most of them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from quitmt.files.pools import read_pools
from quitmt.metrics.devices import Hardware
from quitmt.types import RecordedPool

ROOT = Path(__file__).parents[1]
SIZES = (64, 256, 512)
ENVIRONMENT = {**os.environ, "OMP_WAIT_POLICY": "passive"}  # threads that spin would count as work

MEASURE = """
import json, sys, time

def status(name):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith(name))

def measured(decode):
    decode()
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    before, began = status("VmRSS"), time.process_time()
    winner, score = decode()
    print(json.dumps({"seconds": time.process_time() - began, "peak": status("VmHWM") - before,
                      "winner": winner, "score": score}))

task = json.load(sys.stdin)
"""

OURS = """
from quitmt import rerank
from quitmt.protocols import Update
from quitmt.types import Candidate, Segment

reranker = rerank.load("mbr:comet:" + task["folder"])

def decode():
    state = reranker.open(Segment("1", task["source"]))
    candidates = [Candidate(text) for text in task["candidates"]]
    (snapshots,) = reranker.extend([Update(state, candidates, len(candidates))])
    return snapshots[-1].best, snapshots[-1].score

measured(decode)
"""

THEIRS = """
import os, warnings
warnings.simplefilter("ignore")
os.chdir(task["folder"])  # where the encoder is, by the name that the checkpoint has for it
import mbrs.metrics.comet as module
from mbrs.decoders.mbr import DecoderMBR

module.download_model = lambda folder: folder + "/checkpoints/model.ckpt"
metric = module.MetricCOMET(module.MetricCOMET.Config(model=task["folder"], cpu=True))
decoder = DecoderMBR(DecoderMBR.Config(), metric)

def decode():
    found = decoder.decode(task["candidates"], task["candidates"], task["source"], nbest=1)
    return int(found.idx[0]), float(found.score[0])

measured(decode)
"""


def tiny(root: Path, name: str) -> Path:
    """A checkpoint of the tests in a folder of its own, with its encoder beside it."""
    sys.path.insert(0, str(ROOT))
    from tests.comet.folders import make_folder

    return make_folder(root, name)


def run(python: str, code: str, task: dict[str, Any]) -> dict[str, Any]:
    ran = subprocess.run(
        [python, "-c", MEASURE + code], input=json.dumps(task), capture_output=True, text=True, env=ENVIRONMENT
    )
    if ran.returncode:
        sys.exit(ran.stderr)
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


async def collected(path: str) -> list[RecordedPool]:
    return [pool async for pool in read_pools(path)]


def side_by_side(pools: list[RecordedPool], folder: Path, mbrs: str | None) -> None:
    distinct = {pool.segment.source: list(dict.fromkeys(one.text for one in pool.candidates)) for pool in pools}
    ranked = sorted(distinct.items(), key=lambda item: -len(item[1]))
    texts = list(dict.fromkeys(text for _, own in ranked for text in own))
    print(
        "| candidates | quitmt: CPU s | peak MB | mbrs: CPU s | peak MB | CPU ratio | same winner | score differs by |"
    )
    print("|---:|---:|---:|---:|---:|---:|---|---:|")
    for size in SIZES:
        task = {"folder": str(folder), "source": ranked[0][0], "candidates": texts[:size]}
        ours = run(sys.executable, OURS, task)
        row = f"| {size} | {ours['seconds']:.2f} | {ours['peak']:.0f} |"
        if mbrs:
            theirs = run(mbrs, THEIRS, task)
            row += f" {theirs['seconds']:.2f} | {theirs['peak']:.0f} | {theirs['seconds'] / ours['seconds']:.1f}× |"
            row += f" {'yes' if ours['winner'] == theirs['winner'] else 'no'} |"
            row += f" {abs(ours['score'] - theirs['score']):.1e} |"
        print(row)


def padding(pools: list[RecordedPool], folder: Path, sources: int = 20) -> None:
    """Of ours, and of batches of 64 sorted by the characters of the source, as the original sorts."""
    from quitmt.metrics.kiwi import Kiwi
    from quitmt.metrics.scorer import Example

    kiwi = Kiwi(str(folder), Hardware())
    examples = [Example(pool.segment.source, one.text) for pool in pools[:sources] for one in pool.candidates]
    kiwi.score(examples)
    ids = kiwi.encoder.tokenize([text for one in examples for text in (one.translation, one.source)])
    lengths = np.array(
        [len(kiwi.encoder.join(ids[2 * i], ids[2 * i + 1], of="translation")) for i in range(len(examples))]
    )
    order = np.argsort([len(one.source) for one in examples], kind="stable")
    computed = sum(64 * lengths[order[at : at + 64]].max() for at in range(0, len(order), 64))
    print(f"\n{sources} sources, {len(examples)} candidates ({len(set(examples))} distinct pairs)\n")
    print("| batches | padding |\n|---|---:|")
    print(f"| by tokens, {kiwi.encoder.batcher.tokens} a batch (quitmt) | {kiwi.encoder.batcher.padding:.2%} |")
    print(f"| by characters of the source, 64 pairs a batch | {1 - lengths.sum() / computed:.2%} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pools", help="recorded pools of 512 candidates, as JSON lines")
    parser.add_argument("--mbrs", metavar="PYTHON", help="the interpreter of an environment with mbrs")
    args = parser.parse_args()
    pools = asyncio.run(collected(args.pools))
    with tempfile.TemporaryDirectory() as root:
        side_by_side(pools, tiny(Path(root), "regression"), args.mbrs)
        padding(pools, tiny(Path(root), "unified"))


if __name__ == "__main__":
    main()
