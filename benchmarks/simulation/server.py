"""What a server costs, fitted to published figures, and a replica of it.

    seconds of a step = base + per_token · x + per_token_beyond · max(0, x − knee) + per_kv_token · held

x are the tokens computed in the step: one of each running sequence, and the prompt tokens of those it admits (all of
the prompt for the first of a segment on a replica, the last block for the others: prefix caching). ``held`` are the
tokens in the KV cache of the running sequences. Below the knee a step waits for the weights to be read, beyond it for
arithmetic: hence two slopes. What is left out: a limit on the prompt tokens of one step, eviction of cached prompts,
and the network.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from simulation import kernel
from simulation.kernel import Ints

# Median inter-token latency, milliseconds, of Qwen3-8B in bfloat16 on one H100 80 GB, vLLM 0.30.0:
# github.com/tgarg01/silybench-data, derived/csv/perf_points.csv, run 20260924T125045Z_h100-80gbx1_qwen3-8b_bf16.
# By workload: the tokens a sequence holds on average (input + half of the output), then concurrency → latency.
# Left out: concurrencies at which the KV cache is full or prefill is most of the work.
PUBLISHED_STEPS = {
    "chat-128-128": (192, {1: 6.826, 4: 6.922, 16: 7.139, 32: 7.397, 64: 8.148, 128: 9.339, 256: 12.832, 512: 21.602}),
    "decode-128-1024": (
        640,
        {1: 6.858, 4: 7.009, 16: 7.530, 32: 8.110, 64: 9.494, 128: 12.004, 256: 18.084, 384: 24.779},
    ),
    "balanced-2048-2048": (3072, {1: 6.998, 4: 7.527, 16: 9.464, 32: 11.865, 64: 17.053}),
}
# Output tokens a second of the same run, workload chat-128-128, by concurrency: not fitted, only compared with.
PUBLISHED_THROUGHPUT = {1: 145.3, 16: 2156.2, 64: 6957.7, 128: 11193.7, 256: 13092.7, 512: 14539.5}


@dataclass(frozen=True, slots=True)
class Server:
    """Costs in seconds; limits in sequences and tokens."""

    base: float
    per_token: float
    per_kv_token: float
    max_sequences: int
    kv_tokens: int
    knee: float = 0.0
    per_token_beyond: float = 0.0
    prefix_block: int = 16
    """Prompts are cached in whole blocks of this many tokens; 0 switches prefix caching off."""
    template_tokens: int = 60
    """Of the prompt around the source."""

    def step_seconds(self, computed: float, held: float) -> float:
        beyond = self.per_token_beyond * max(0.0, computed - self.knee)
        return self.base + self.per_token * computed + beyond + self.per_kv_token * held

    def uncached_tokens(self, prompt: int) -> int:
        """What each further sequence of a known prompt must compute: the last block, never empty."""
        return (prompt - 1) % self.prefix_block + 1 if self.prefix_block else prompt

    def changed(self, settings: dict[str, str]) -> Server:
        kinds = {field.name: field.type for field in fields(self)}
        if unknown := settings.keys() - kinds.keys():
            raise SystemExit(f"a server has no {', '.join(sorted(unknown))}; it has {', '.join(kinds)}")
        values = {name: int(float(v)) if kinds[name] == "int" else float(v) for name, v in settings.items()}
        return replace(self, **values)  # type: ignore[arg-type]


def fit() -> tuple[dict[str, float], float]:
    """Least squares of the relative error over ``PUBLISHED_STEPS``, over all knees; and the largest relative error."""
    points = [(n, held, ms) for held, found in PUBLISHED_STEPS.values() for n, ms in found.items()]
    sequences, held, milliseconds = np.array(points, float).T
    best: tuple[float, dict[str, float], float] | None = None
    for knee in range(16, 400, 4):
        columns = [np.ones_like(sequences), sequences, np.maximum(0, sequences - knee), sequences * held]
        features = np.stack(columns, 1) / milliseconds[:, None]
        found, *_ = np.linalg.lstsq(features, np.ones_like(milliseconds), rcond=None)
        errors = features @ found - 1
        total = float((errors**2).sum())
        if best is None or total < best[0]:
            base, per_token, beyond, per_kv = (float(value) / 1000 for value in found)
            fitted = {"base": base, "per_token": per_token, "per_token_beyond": beyond, "per_kv_token": per_kv}
            fitted["knee"] = float(knee)
            best = (total, fitted, float(np.abs(errors).max()))
    assert best is not None
    return best[1], best[2]


SERVERS: dict[str, Server] = {
    # All four costs are fitted above (within 2%), and hardware arithmetic agrees: base, 16.4 GB of weights at
    # 3.35 TB/s, 4.9 ms, and some overhead; per_kv_token, 147 kB at that rate, 44 ns; a token beyond the knee, 13.9 to
    # 16.4 GFLOP at 60% of 989 TFLOP/s, 23 to 28 µs. That prompt tokens cost as much: time to first token (95%) of one
    # request with 1,024 instead of 128 tokens, 34.3 − 14.2 ms in that run, 22 µs a token. kv_tokens: as that run's
    # server reported it. max_sequences: vLLM's default on GPUs of 70 GiB and more but the A100 (get_batch_defaults in
    # its engine/arg_utils.py). Beyond 512 sequences the fit is extrapolated.
    "h100": Server(**fit()[0], max_sequences=1024, kv_tokens=377_024),  # type: ignore[arg-type]
    # Our own runs of benchmarks/vllm_server.py on two cores (SmolLM2 cut to 3 layers, float32): 195, 259 and 413 tokens
    # a second with 8, 16 and 64 sequences of 16 tokens, each with its prompt of 70, which is shorter than a block, so
    # it is not shared. The line through the last two gives 172 for the first. What a held token costs cannot be told.
    "cpu": Server(0.031, 3.6e-4, 0.0, max_sequences=64, kv_tokens=20_000, prefix_block=128),
}


def parse_server(text: str) -> Server:
    """``h100``, ``cpu``, or either followed by changes, as in ``h100,max_sequences=256``."""
    name, *changes = text.split(",")
    if "=" in name:
        name, changes = "h100", [name, *changes]
    if name not in SERVERS or not all("=" in change for change in changes):
        raise SystemExit(f"--server must be one of {', '.join(SERVERS)}, and name=value after commas, not {text!r}")
    return SERVERS[name].changed(dict(change.split("=", 1) for change in changes))


class Replica:
    """One server at work. ``clock`` is when its step ends, if ``stepping``."""

    def __init__(self, server: Server, lengths: Ints) -> None:
        self.clock = 0.0
        self.stepping = False
        self.outstanding = 0
        """Sequences given to it and neither complete nor aborted; for routing."""
        self._lengths = lengths
        self._counts = np.zeros(6, np.int64)
        self._slots = np.zeros((3, server.max_sequences), np.int64)
        self._finished = np.zeros(server.max_sequences, np.int64)
        self._requests = np.zeros((256, 8), np.int64)
        self._heap = np.zeros((256, 2), np.int64)
        self._size = 0
        costs = [server.base, server.per_token, server.knee, server.per_token_beyond, server.per_kv_token]
        self._server = np.array([*costs, server.max_sequences, server.kv_tokens], float)

    @property
    def tokens(self) -> int:
        return int(self._counts[kernel.TOKENS])

    def submit(self, key: int, offset: int, count: int, prompt: int, first_prefill: int, each_prefill: int) -> int:
        """Queue ``count`` sequences, the lengths of which start at ``offset``; the number of the request."""
        if self._size == len(self._requests):
            self._requests = np.concatenate([self._requests, np.zeros_like(self._requests)])
            self._heap = np.concatenate([self._heap, np.zeros_like(self._heap)])
        number, self._size = self._size, self._size + 1
        self._requests[number] = (offset, count, 0, 0, prompt, first_prefill, each_prefill, 0)
        kernel.push(self._heap, self._counts, key, number)
        self.outstanding += count
        return number

    def start(self, now: float) -> None:
        """Begin a step, unless one is under way or there is nothing to do."""
        if not self.stepping:
            seconds = kernel.begin(self._counts, self._slots, self._requests, self._heap, self._lengths, self._server)
            self.stepping = seconds > 0
            self.clock = now + seconds

    def run(self, horizon: float) -> list[int]:
        """End the step under way and go on; the requests that are complete at ``clock``."""
        self.clock, found, self.stepping = kernel.run(
            self.clock,
            horizon,
            self._counts,
            self._slots,
            self._requests,
            self._heap,
            self._lengths,
            self._server,
            self._finished,
        )
        numbers: list[int] = self._finished[:found].tolist()
        self.outstanding -= sum(int(self._requests[number, kernel.COUNT]) for number in numbers)
        return numbers

    def abort(self, number: int) -> None:
        """Drop a request that is not complete: what waits of it never starts, what runs ends with the step."""
        self.outstanding -= int(self._requests[number, kernel.COUNT])
        self._requests[number, kernel.ABORTED] = 1
        if not self.stepping:
            kernel.drop(number, self._counts, self._slots)
