"""Random numbers by address: each is computed from (seed, content, candidate, position), independently of the others.

Philox4x64-10 (Salmon et al., 2011, "Parallel random numbers: as easy as 1, 2, 3"), as in ``numpy.random.Philox``: the
key comes from the seed and the segment's content; the counter is (candidate, position). So a segment's candidates are
one endless sequence, which may be requested in any pieces.
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

from quitmt.compiled import kernel

Words = npt.NDArray[np.uint64]

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_MULTIPLIER_0, _MULTIPLIER_1 = np.uint64(0xD2E7470EE14C6C93), np.uint64(0xCA5A826395121157)
_WEYL_0, _WEYL_1 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBB67AE8584CAA73B)
_ROUNDS = 10


def stream(seed: int, content: bytes) -> Words:
    """The Philox key of the candidates of segments with this content: two words."""
    digest = hashlib.blake2b(b"%d\0%b" % (seed, content), digest_size=16).digest()
    return np.frombuffer(digest, "<u8").astype(np.uint64)


@kernel()
def _high(a: np.uint64, b: np.uint64) -> np.uint64:
    """The upper word of the product of two words."""
    a_low, a_high, b_low, b_high = a & _LOW, a >> _HALF, b & _LOW, b >> _HALF
    middle = a_high * b_low + ((a_low * b_low) >> _HALF)
    return a_high * b_high + (middle >> _HALF) + ((a_low * b_high + (middle & _LOW)) >> _HALF)


@kernel()
def philox(keys: Words, first: Words, second: Words, out: Words) -> None:
    """The first word that Philox gives for each key and counter (first, second, 0, 0)."""
    for i in range(len(out)):
        key_0, key_1 = keys[i, 0], keys[i, 1]
        a, b, c, d = first[i], second[i], np.uint64(0), np.uint64(0)
        for _ in range(_ROUNDS):
            low_0, low_1 = _MULTIPLIER_0 * a, _MULTIPLIER_1 * c
            high_0, high_1 = _high(_MULTIPLIER_0, a), _high(_MULTIPLIER_1, c)
            a, b, c, d = high_1 ^ b ^ key_0, low_1, high_0 ^ d ^ key_1, low_0
            key_0, key_1 = key_0 + _WEYL_0, key_1 + _WEYL_1
        out[i] = a


def uniforms(keys: Words, candidates: npt.ArrayLike, positions: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """One number in [0, 1) for each (key, candidate, position)."""
    words = np.empty(len(keys), np.uint64)
    philox(keys, np.asarray(candidates, np.uint64), np.asarray(positions, np.uint64), words)
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
