"""Model files from a hostile world: whatever is in them, they load or a ``ModelError`` says in one line why not."""

from __future__ import annotations

import struct
import tracemalloc
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from quitmt.bergamot import binary
from quitmt.bergamot.network import Network, Weights
from quitmt.bergamot.output import OutputLayer
from quitmt.errors import ModelError

from .marian_writer import CONFIG, TEXT, encode, item, model_bytes, weights

CONFIGURED = yaml.safe_dump(CONFIG)
TENSORS = [item(name, values, False) for name, values in weights(CONFIG).items()]
WHOLE = model_bytes(CONFIG)
HEADERS = 16 + 32 * (len(TENSORS) + 1) + 2000
"""Bytes that hold the counts, names and shapes."""
LAUGHS = "a: &a [1]\n" + "".join(f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]\n" for a, b in pairwise("abcdefghi"))
NASTY = [
    "2021-13-45", "2021-01-01", "2021-01-01T99:99:99Z", "!!python/object/apply:os.system [exit]", "!!int abc",
    "!!binary x", "!!timestamp x", "!a b", "&a b", "*a", "[" * 100, "{" * 100, "- " * 300, "? " * 300, "9" * 5000,
    "-" + "9" * 300, "0x" + "f" * 5000, "1:" * 3000 + "1", "1e999999", ".nan", ".inf", "-1", "0", "2147483648",
    "9223372036854775807", "18446744073709551616", '"\\UFFFFFFFF"', '"\\uD800"', '"\\x1b[2J"', "true", "[true, true]",
    "[1, 2]", "[300.0, 300]", "[2021-01-01, 300]", "[[300], 300]", "~", "'", "|", "%", "\x07", "<<: *a", "{a: 1}",
    "a" * 70000,
]  # fmt: skip


def load(content: bytes, folder: Path) -> str | None:
    """What is said against a file, if anything."""
    path = folder / "model.bin"
    path.write_bytes(content)
    try:
        file = binary.read(path)
        network = Network(file)
        OutputLayer(Weights(file), network.architecture, None)
    except ModelError as error:
        assert len(str(error).splitlines()) == 1 and len(str(error)) < 1000 + len(str(path))
        return str(error)
    return None


def with_config(text: str | bytes) -> bytes:
    raw = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    return encode([*TENSORS, ("special:model.yml", TEXT, (len(raw) + 1,), raw + b"\0")])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile")


def test_the_file_that_is_changed_here_is_sound(folder: Path) -> None:
    assert load(WHOLE, folder) is None
    assert load(with_config(CONFIGURED), folder) is None


@pytest.mark.parametrize("value", NASTY, ids=lambda value: value[:20])
def test_every_option_with_every_nasty_value(folder: Path, value: str) -> None:
    plain = {name: yaml.safe_dump(own, default_flow_style=True).split("\n")[0] for name, own in CONFIG.items()}
    for option in [*CONFIG, "version"]:
        said = load(with_config("".join(f"{a}: {b}\n" for a, b in {**plain, option: value}.items())), folder)
        assert said is not None or option not in ("dim-emb", "dim-vocabs", "enc-depth", "type")


@pytest.mark.parametrize("depth", [10**6, 2**31, 2**59])
def test_depths_are_held_against_the_tensors(folder: Path, depth: int) -> None:
    tracemalloc.start()
    try:
        said = load(with_config(yaml.safe_dump({**CONFIG, "enc-depth": depth})), folder)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert f"too few for enc-depth {depth}" in str(said)
    assert peak < 10 * len(WHOLE) + (1 << 20)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (LAUGHS, "anchors, aliases or tags"),
        ("a: !!int 3", "anchors, aliases or tags"),
        ("a: " + "{" * 60000, "recursion"),
        ("a: 1\n---\nb: 2", "cannot be read: expected a single document"),
        ("a: " + "b" * binary.LONGEST_CONFIG, "longer than 65,536 bytes"),
        ("a: .inf", "Out of range"),
    ],
)
def test_what_no_model_needs_is_refused_by_name(folder: Path, text: str, said: str) -> None:
    assert said in str(load(with_config(text), folder))


def test_a_feed_forward_layer_whose_halves_do_not_fit(folder: Path) -> None:
    tensors = weights(CONFIG)
    tensors["encoder_l1_ffn_W2"] = tensors["encoder_l1_ffn_W2"][:8]
    assert "encoder_l1_ffn_W2 has the shape (8, 16)" in str(load(model_bytes(CONFIG, tensors), folder))


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_mutated_configurations(folder: Path, data: st.DataObject) -> None:
    text = CONFIGURED.encode()
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        stop = data.draw(st.integers(start, min(len(text), start + 40)))
        piece = st.binary(max_size=12) | st.sampled_from([value.encode("utf-8", "replace") for value in NASTY])
        text = text[:start] + data.draw(piece) + text[stop:]
    load(with_config(text), folder)


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_mutated_headers(folder: Path, data: st.DataObject) -> None:
    content = bytearray(WHOLE)
    number = st.integers(0, 2**64 - 1) | st.sampled_from([0, 1, 2**31, 2**32, 2**62, 2**63, 2**64 - 1])
    for _ in range(data.draw(st.integers(1, 3))):
        where = data.draw(st.integers(0, HEADERS))
        if data.draw(st.booleans()):
            where -= where % 8
        put = data.draw(number.map(lambda n: struct.pack("<Q", n)) | st.binary(min_size=1, max_size=4))
        content[where : where + len(put)] = put
    load(bytes(content), folder)


@pytest.mark.parametrize("shape", [(0, 2**31 - 1), (0,) + (2**31 - 1,) * 7, (2**31 - 1,) * 8])
def test_shapes_that_are_too_large_or_empty(folder: Path, shape: tuple[int, ...]) -> None:
    for kind in (TEXT, 0x404, 0x4101):
        said = load(encode([("a_W", kind, shape, bytes(64))]), folder)
        assert "a_W" in str(said)


@pytest.mark.parametrize("name", ["a\nb", "a\x1b[2Jb", "a" * 5000])
def test_names_that_would_spoil_a_message(folder: Path, name: str) -> None:
    assert "damaged" in str(load(encode([(name, 0x404, (9, 9), bytes(4))]), folder))
