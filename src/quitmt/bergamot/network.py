"""The network: an encoder, and a decoder that computes any mixture of rows (prefixes) at once.

The rows of many sentences follow each other without padding.

Invariant: a row's result is bit-for-bit the same whatever other rows are in the batch, because each kernel guarantees
it. So sentences may be encoded together or separately, and prefixes may be decoded in any batch.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from quitmt.bergamot import kernels
from quitmt.bergamot.architecture import Architecture, describe
from quitmt.bergamot.binary import ModelFile, Tensor
from quitmt.bergamot.microkernel import Floats, pack
from quitmt.errors import ModelError

START = -1
"""The token before the first one; its embedding is zero."""

Bounds = tuple[int, int]
"""A range of rows: the first, and the first after the range."""
Memory = tuple[tuple[Floats, Floats], ...]
"""A source sentence as the decoder sees it: keys and values for each layer."""


class Weights:
    """The tensors of a file, checked as they are taken."""

    def __init__(self, file: ModelFile) -> None:
        self._file = file

    def tensor(self, name: str, *shape: int) -> Tensor:
        """The named tensor; 0 in ``shape`` allows any extent."""
        tensor = self._file.tensors.get(name)
        if tensor is None:
            raise ModelError(f"{self._file.path} has no {name}, which its configuration requires")
        found = tensor.values.shape
        if len(found) != len(shape) or any(want not in (0, have) for want, have in zip(shape, found, strict=True)):
            raise ModelError(f"{self._file.path}: {name} has the shape {found}, but its configuration requires {shape}")
        return tensor

    def has(self, name: str) -> bool:
        return name in self._file.tensors

    def row(self, name: str, width: int) -> Floats:
        return np.ascontiguousarray(self.tensor(name, 1, width).floats()[0])


class Linear:
    """An affine layer. Several matrices become one, side by side, so that x is read once."""

    def __init__(self, matrices: Sequence[Floats], biases: Sequence[Floats], *, rectify: bool = False) -> None:
        weights = np.concatenate(matrices, axis=1)
        self.outputs, self.rectify = weights.shape[1], rectify
        self.panels, self.bias = pack(weights), np.concatenate(biases)

    def __call__(self, x: Floats) -> Floats:
        out = np.empty((len(x), self.outputs), np.float32)
        kernels.linear(x, self.panels, self.bias, self.rectify, out)
        return out


class Sublayer:
    """Normalisation and residual around each part of a layer, in the model's order."""

    def __init__(self, weights: Weights, name: str, architecture: Architecture) -> None:
        self._before, self._after = architecture.preprocess, architecture.postprocess
        width = architecture.width
        self._pre = Norm(weights, name, width, "_pre") if "n" in self._before else None
        self._post = Norm(weights, name, width) if "n" in self._after else None

    def enter(self, x: Floats) -> Floats:
        return self._pre(x.copy()) if self._pre else x

    def leave(self, output: Floats, residual: Floats) -> Floats:
        for operation in self._after:
            if operation == "a":
                output += residual
            elif operation == "n" and self._post:
                output = self._post(output)
        return output


class Norm:
    """Layer normalisation, in place."""

    def __init__(self, weights: Weights, name: str, width: int, suffix: str = "") -> None:
        self._scale = weights.row(f"{name}_ln_scale{suffix}", width)
        self._shift = weights.row(f"{name}_ln_bias{suffix}", width)

    def __call__(self, x: Floats) -> Floats:
        kernels.normalise(x, self._scale, self._shift)
        return x


class Attention:
    """Multi-head attention of rows over the keys and values of their sentence."""

    def __init__(self, weights: Weights, name: str, architecture: Architecture) -> None:
        width = architecture.width
        matrix = {part: weights.tensor(f"{name}_W{part}", width, width).floats() for part in "qkvo"}
        bias = {part: weights.row(f"{name}_b{part}", width) for part in "qkvo"}
        self._heads, self._width = architecture.heads, width
        self._query, self._output = (Linear([matrix[part]], [bias[part]]) for part in "qo")
        self._memory = Linear([matrix["k"], matrix["v"]], [bias["k"], bias["v"]])
        self._around = Sublayer(weights, f"{name}_Wo", architecture)

    def remember(self, x: Floats, bounds: Iterable[Bounds]) -> list[tuple[Floats, Floats]]:
        """The transposed keys and the values of the sentences within ``bounds``."""
        both = self._memory(x)
        return [
            (np.ascontiguousarray(both[start:stop, : self._width].T), both[start:stop, self._width :].copy())
            for start, stop in bounds
        ]

    def __call__(self, x: Floats, spans: Iterable[tuple[Bounds, tuple[Floats, Floats]]]) -> Floats:
        queries = self._query(self._around.enter(x))
        context = np.empty_like(queries)
        for (start, stop), (keys, values) in spans:
            kernels.attend(queries[start:stop], keys, values, self._heads, context[start:stop])
        return self._around.leave(self._output(context), x)

    def within(self, x: Floats, bounds: Sequence[Bounds]) -> Floats:
        """Self-attention: each sentence over itself."""
        return self(x, list(zip(bounds, self.remember(self._around.enter(x), bounds), strict=True)))


class FeedForward:
    """Two affine layers with a rectifier between them."""

    def __init__(self, weights: Weights, name: str, architecture: Architecture) -> None:
        width = architecture.width
        first = weights.tensor(f"{name}_W1", width, 0)
        inner = first.values.shape[1]
        second = weights.tensor(f"{name}_W2", inner, width)
        self._first = Linear([first.floats()], [weights.row(f"{name}_b1", inner)], rectify=True)
        self._second = Linear([second.floats()], [weights.row(f"{name}_b2", width)])
        self._around = Sublayer(weights, f"{name}_ffn", architecture)

    def __call__(self, x: Floats) -> Floats:
        return self._around.leave(self._second(self._first(self._around.enter(x))), x)


class Recurrence:
    """The SSRU: the decoder's replacement for self-attention."""

    def __init__(self, weights: Weights, name: str, architecture: Architecture) -> None:
        width = architecture.width
        matrices = [weights.tensor(f"{name}_{part}", width, width).floats() for part in ("Wf", "W")]
        self._both = Linear(matrices, [weights.row(f"{name}_bf", width), np.zeros(width, np.float32)])
        self._around = Sublayer(weights, f"{name}_ffn", architecture)

    def __call__(self, x: Floats, cells: Floats, chained: npt.NDArray[np.bool_]) -> Floats:
        both, out = self._both(self._around.enter(x)), np.empty_like(x)
        kernels.recur(both, cells, chained, out)
        return self._around.leave(out, x)


class TokenEmbedding:
    """Token vectors, scaled, with the sinusoid of their position added."""

    def __init__(self, weights: Weights, side: str, architecture: Architecture) -> None:
        encoder = side == "encoder"
        name = architecture.source_embedding if encoder else architecture.target_embedding
        count = architecture.source_vocabulary if encoder else architecture.target_vocabulary
        self._tensor = weights.tensor(name, count, architecture.width)
        self._factor = np.float32(self._tensor.scale * math.sqrt(architecture.width))
        normed = "n" in architecture.postprocess_embedding
        self._norm = Norm(weights, f"{side}_emb", architecture.width) if normed else None
        scales = architecture.width // 2
        self._frequencies = np.exp(np.arange(scales) * (-math.log(10000.0) / max(1, scales - 1)))

    def __call__(self, tokens: npt.NDArray[np.integer], positions: npt.NDArray[np.integer]) -> Floats:
        vectors = np.asarray(self._tensor.values[tokens], np.float32) * self._factor
        vectors[tokens == START] = 0
        distinct, which = np.unique(positions, return_inverse=True)
        angles = distinct[:, None] * self._frequencies
        vectors += np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)[which]
        return self._norm(vectors) if self._norm else vectors


class Network:
    """The encoder and the decoder of a model file, without the output layer."""

    def __init__(self, file: ModelFile) -> None:
        self.architecture = architecture = describe(file)
        weights = Weights(file)
        self._source, self._target = (TokenEmbedding(weights, side, architecture) for side in ("encoder", "decoder"))
        encoder = [f"encoder_l{layer + 1}" for layer in range(architecture.encoder_layers)]
        decoder = [f"decoder_l{layer + 1}" for layer in range(architecture.decoder_layers)]
        self._self = [Attention(weights, f"{name}_self", architecture) for name in encoder]
        self._encoder_inner = [FeedForward(weights, f"{name}_ffn", architecture) for name in encoder]
        self._cells = [Recurrence(weights, f"{name}_rnn", architecture) for name in decoder]
        self._context = [Attention(weights, f"{name}_context", architecture) for name in decoder]
        self._decoder_inner = [FeedForward(weights, f"{name}_ffn", architecture) for name in decoder]
        normed, width = "n" in architecture.postprocess_top, architecture.width
        self._encoder_top, self._decoder_top = (
            Norm(weights, f"{side}_top", width) if normed else None for side in ("encoder", "decoder")
        )

    def encode(self, sentences: Sequence[Sequence[int]]) -> list[Memory]:
        """Encode sentences for the decoder."""
        ends = np.cumsum([len(sentence) for sentence in sentences]).tolist()
        bounds = list(zip([0, *ends[:-1]], ends, strict=True))
        tokens = np.concatenate([np.asarray(sentence, np.int64) for sentence in sentences])
        x = self._source(tokens, np.concatenate([np.arange(len(sentence)) for sentence in sentences]))
        for attention, inner in zip(self._self, self._encoder_inner, strict=True):
            x = inner(attention.within(x, bounds))
        if self._encoder_top:
            x = self._encoder_top(x)
        return list(zip(*(attention.remember(x, bounds) for attention in self._context), strict=True))

    def decode(
        self,
        tokens: npt.NDArray[np.integer],
        positions: npt.NDArray[np.integer],
        cells: Floats,
        chained: npt.NDArray[np.bool_],
        memories: Sequence[tuple[Bounds, Memory]],
    ) -> Floats:
        """For each row's last token, the vector from which the output layer predicts the next one.

        ``cells`` is (layers, rows, width): on entry the state before each row, on return the state after it. A chained
        row continues the state of the row above, so a whole sentence can be scored at once. ``memories`` maps ranges of
        rows to their sources.
        """
        x = self._target(tokens, positions)
        for layer, recurrence in enumerate(self._cells):
            x = recurrence(x, cells[layer], chained)
            seen = [(bounds, memory[layer]) for bounds, memory in memories]
            x = self._decoder_inner[layer](self._context[layer](x, seen))
        return self._decoder_top(x) if self._decoder_top else x
