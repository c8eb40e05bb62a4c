from __future__ import annotations

import struct

import numpy as np
import pytest

from quitmt.bergamot import binary
from quitmt.errors import ModelError

from .marian_writer import CONFIG, FLOAT32, encode, model_bytes, quantize, weights


def save(tmp_path, content):
    path = tmp_path / "model.bin"
    path.write_bytes(content)
    return path


def test_reads_what_was_written(tmp_path):
    tensors = weights(CONFIG)
    file = binary.read(save(tmp_path, model_bytes(CONFIG, tensors)))
    assert file.config == CONFIG
    assert file.tensors.keys() == tensors.keys()
    for name, values in tensors.items():
        np.testing.assert_array_equal(file.tensors[name].floats(), values)


def test_reads_int8_in_the_orientation_of_its_shape(tmp_path):
    tensors = weights(CONFIG)
    file = binary.read(save(tmp_path, model_bytes(CONFIG, tensors, quantized=True)))
    for name in ("Wemb", "encoder_l1_ffn_W1", "decoder_l1_rnn_W"):
        integers, multiplier = quantize(tensors[name])
        np.testing.assert_array_equal(file.tensors[name].values, integers)
        np.testing.assert_allclose(file.tensors[name].floats(), integers / multiplier, rtol=1e-6)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ModelError, match=r"nowhere\.bin: No such file"):
        binary.read(tmp_path / "nowhere.bin")


def test_wherever_it_is_cut_off_the_error_says_so(tmp_path):
    whole = model_bytes(CONFIG)
    for length in [*range(0, 4000, 97), *range(4000, len(whole), 5003), len(whole) - 1]:
        with pytest.raises(ModelError, match="cut short"):
            binary.read(save(tmp_path, whole[:length]))


def test_another_version_is_refused(tmp_path):
    with pytest.raises(ModelError, match="not a Marian model of version 1: its first number is 2"):
        binary.read(save(tmp_path, encode([], version=2)))


def test_another_kind_of_file_is_refused(tmp_path):
    with pytest.raises(ModelError, match="not a Marian model"):
        binary.read(save(tmp_path, b"PK\3\4 this is a zip archive or something like that"))


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (("a_W", FLOAT32, (2, 2), bytes(15)), "the data of a_W is shorter than its shape says"),
        (("a_W", FLOAT32, (-2, 2), bytes(16)), "the shape of a_W is invalid"),
        (("a_W", 0x5101, (2, 2), bytes(16)), "a_W is stored as type 0x5101, which is not supported"),
        (("a_W", 0x4101, (2, 2), bytes(16)), "the multiplier of a_W is 0.0"),
        (("a_W", 0x4101, (2, 2), bytes(4) + struct.pack("<f", float("nan"))), "the multiplier of a_W is nan"),
        (("a_W", FLOAT32, (1,) * 9, bytes(4)), "a header is invalid"),
        (("special:model.yml", 0x101, (4,), b"a: ["), "cannot be read"),
        (("special:model.yml", 0x101, (4,), b"text"), "cannot be read"),
        (("a_b", FLOAT32, (1, 1), bytes(4)), "has no special:model.yml"),
    ],
)
def test_damage_is_named(tmp_path, item, message):
    with pytest.raises(ModelError, match=message):
        binary.read(save(tmp_path, encode([item])))


def test_a_count_beyond_the_file_is_no_memory_error(tmp_path):
    with pytest.raises(ModelError, match="cut short"):
        binary.read(save(tmp_path, struct.pack("<QQ", 1, 2**60)))
