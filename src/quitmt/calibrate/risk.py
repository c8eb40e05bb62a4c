"""Guarantees that hold for finite samples, instead of trusting rules that looked good on the calibration set.

A segment *exceeds* if the rule loses more on it than is allowed. The risk of a rule is the share of segments that
exceed in the population that the calibration set is a random sample of.

- **Learn then test** (Angelopoulos et al. 2021): the rules of a family are tested from the most careful to the
  cheapest, each against "its risk is above A" by the exact binomial test, until one fails. Any rule that passed has a
  risk of at most A with the guaranteed confidence, however it is chosen. Several families share the error.
- **Conformal risk control** (Angelopoulos et al. 2022): the cheapest rule for which (exceeding + 1)/(segments + 1) is
  at most A. A segment counts as exceeding from the first rule on that exceeds, so that the count only grows. The risk
  is then at most A on average over calibration sets: a weaker guarantee that costs less. With QE this counting changes
  nothing, because the loss only grows as a rule gets cheaper; with MBR the loss may fall again.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Flags = npt.NDArray[np.bool_]


def binomial_tail(count: int, segments: int, risk: float) -> float:
    """P(at most ``count`` of ``segments`` exceed) if each does with probability ``risk``: the p-value of "the risk is
    at least that"."""
    if count >= segments:
        return 1.0
    if not 0 < risk < 1:
        return 1.0 if risk <= 0 else 0.0
    logs = [
        math.lgamma(segments + 1) - math.lgamma(i + 1) - math.lgamma(segments - i + 1)
        + i * math.log(risk) + (segments - i) * math.log1p(-risk)
        for i in range(count + 1)
    ]  # fmt: skip
    return min(1.0, math.fsum(math.exp(value) for value in logs))


def least_segments(risk: float, error: float) -> int:
    """With fewer segments, even a rule that never exceeds would not pass: (1 − risk)^n must be at most ``error``."""
    return math.ceil(math.log(error) / math.log1p(-risk))


def learn_then_test(exceeds: Flags, risk: float, error: float) -> int:
    """The number of rules that pass, from the first. ``exceeds``: [rules, segments], the most careful rule first."""
    segments = exceeds.shape[1]
    for passed, count in enumerate(exceeds.sum(axis=1).tolist()):
        if binomial_tail(count, segments, risk) > error:
            return passed
    return len(exceeds)


def conformal(exceeds: Flags, risk: float) -> int:
    """The number of rules that pass, from the first."""
    counts = np.logical_or.accumulate(exceeds, axis=0).sum(axis=1)
    return int(((counts + 1) / (exceeds.shape[1] + 1) <= risk).sum())
