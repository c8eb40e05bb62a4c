"""The few figures of the QUIT paper that are printed beside ours, averaged over its two datasets and three models.

Mean N and speedup for w = 4, 8, 16: its table of alphas, rows alpha = 1e-3 (MBR with COMET-22, QE with CometKiwi-22).
Speedup for w = 2: the mean of its main results; no mean N is given there. ``CHRF``: its table with chrF as the utility.
"""

from __future__ import annotations

MEAN_N: dict[str, dict[int, float]] = {"MBR": {4: 133, 8: 252, 16: 389}, "QE": {4: 59, 8: 133, 16: 281}}
SPEEDUP: dict[str, dict[int, float]] = {
    "MBR": {2: 11.79, 4: 4.35, 8: 2.25, 16: 1.36},
    "QE": {2: 20.96, 4: 8.37, 8: 3.72, 16: 1.76},
}
CHRF: dict[int, tuple[float, float]] = {2: (70.9, 8.63), 4: (215.1, 2.89), 8: (369.9, 1.54), 16: (475.7, 1.09)}
"""Window → mean N, speedup."""

PAIR_SECONDS = 16_803 / 12_010 / 512**2
"""COMET-22, one ordered pair: its table of runtimes, unaccelerated MBR on WMT24 (16,803 s, 12,010 segments). WMT25
gives the same."""
QWEN_CANDIDATE_SECONDS = 266_352 / 12_010 / 512
"""Generation of one candidate by Qwen3 on WMT24, from the same table."""
