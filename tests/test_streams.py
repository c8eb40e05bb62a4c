from __future__ import annotations

import numpy as np
import pytest

from quitmt.streams import philox, stream, uniforms


@pytest.mark.parametrize("seed", range(5))
def test_philox_is_that_of_numpy(seed):
    randoms = np.random.default_rng(seed)
    key = randoms.integers(0, 2**64, 2, np.uint64)
    first, second = (int(word) for word in randoms.integers(1, 2**64, 2, np.uint64))
    counter = first + (second << 64) - 1  # numpy counts up before it generates
    words = np.empty(1, np.uint64)
    philox(key[None], np.array([first], np.uint64), np.array([second], np.uint64), words)
    assert words[0] == np.random.Philox(key=key, counter=counter).random_raw()


def test_a_number_has_an_address_and_no_history():
    keys = np.tile(stream(0, b"a"), (6, 1))
    together = uniforms(keys, [0, 0, 1, 1, 2, 2], [0, 1, 0, 1, 0, 1])
    assert uniforms(keys[:1], [1], [1])[0] == together[3]
    assert len(set(together.tolist())) == 6


def test_streams_differ_by_seed_and_segment():
    keys = [stream(seed, segment).tolist() for seed in (0, 1, 11) for segment in (b"a", b"b", b"1a", b"")]
    assert len({tuple(key) for key in keys}) == len(keys)


def test_numbers_are_uniform():
    keys = np.tile(stream(7, b"x"), (20000, 1))
    numbers = uniforms(keys, np.arange(20000) // 20, np.arange(20000) % 20)
    assert numbers.min() >= 0 and numbers.max() < 1
    counts, _ = np.histogram(numbers, 20, (0, 1))
    assert ((counts - 1000) ** 2 / 1000).sum() < 43.8  # chi-square, 19 degrees of freedom, 0.1%
