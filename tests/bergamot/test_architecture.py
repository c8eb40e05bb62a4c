from __future__ import annotations

import pytest

from quitmt.bergamot.models import load
from quitmt.errors import ModelError

from .marian_writer import CONFIG, weights, write_folder


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("type", "s2s"),
        ("transformer-decoder-autoreg", "self-attention"),
        ("transformer-decoder-autoreg", "average-attention"),
        ("dec-cell", "gru"),
        ("transformer-ffn-activation", "swish"),
        ("transformer-ffn-depth", 3),
        ("transformer-postprocess", "dhn"),
        ("transformer-preprocess", "r"),
        ("transformer-train-position-embeddings", True),
        ("transformer-tied-layers", [1, 1]),
        ("transformer-no-projection", True),
        ("transformer-rnn-projection", True),
        ("right-left", True),
        ("input-types", ["sequence", "class"]),
        ("dim-vocabs", [300, 300, 300]),
        ("dim-emb", 20),
        ("transformer-heads", 0),
        ("enc-depth", "six"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(tmp_path, option, value):
    folder = write_folder(tmp_path, {**CONFIG, option: value}, tensors=weights(CONFIG))
    with pytest.raises(ModelError) as caught:
        load(f"bergamot:{folder}")
    assert f"{option} {value!r} is not supported" in str(caught.value)


def test_a_missing_weight_is_named(tmp_path):
    tensors = weights(CONFIG)
    del tensors["decoder_l1_context_Wk"]
    with pytest.raises(ModelError, match="has no decoder_l1_context_Wk"):
        load(f"bergamot:{write_folder(tmp_path, tensors=tensors)}")


def test_a_weight_of_another_shape_is_named(tmp_path):
    folder = write_folder(tmp_path, {**CONFIG, "dim-emb": 32}, tensors=weights(CONFIG))
    with pytest.raises(ModelError, match=r"Wemb has the shape \(300, 16\), but .* requires \(300, 32\)"):
        load(f"bergamot:{folder}")
