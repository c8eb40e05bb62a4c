"""The same network written plainly: dense numpy matrices, one row a candidate, no sharing, no packing.

The oracle of the tests (in float64), and the sampler that the benchmark compares with (in float32, batched, with BLAS).
Only for models with everything tied, as the embedded ones are.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from quitmt.bergamot import binary


class PlainNetwork:
    def __init__(self, path: Path, dtype=np.float64, unknown: int | None = None):
        file = binary.read(path)
        self.dtype = dtype
        self.config = file.config
        self.w = {
            name: np.ascontiguousarray(tensor.floats().astype(dtype))
            for name, tensor in file.tensors.items()
            if not name.endswith("QuantMultA")
        }
        self.width, self.heads = self.config["dim-emb"], self.config["transformer-heads"]
        self.layers = self.config["dec-depth"]
        self.output = np.ascontiguousarray(self.w["Wemb"].T)
        self.output_bias = self.w["decoder_ff_logit_out_b"][0].copy()
        if unknown is not None:
            self.output_bias[unknown] = -np.inf

    def positions(self, positions):
        scales = self.width // 2
        angles = np.asarray(positions)[:, None] * np.exp(np.arange(scales) * (-math.log(10000.0) / (scales - 1)))
        return np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(self.dtype)

    def affine(self, x, name, letter, suffix=""):
        return x @ self.w[f"{name}_W{letter}{suffix}"] + self.w[f"{name}_b{letter}{suffix}"]

    def norm(self, x, name, suffix=""):
        centred = x - x.mean(axis=-1, keepdims=True)
        deviation = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + self.dtype(1e-6))
        return centred / deviation * self.w[f"{name}_ln_scale{suffix}"] + self.w[f"{name}_ln_bias{suffix}"]

    def enter(self, x, name):
        return self.norm(x, name, "_pre") if "n" in self.config["transformer-preprocess"] else x

    def leave(self, output, x, name):
        after = self.config["transformer-postprocess"]
        return self.norm(output + x, name) if "n" in after else output + x

    def top(self, x, side):
        return self.norm(x, f"{side}_top") if "n" in self.config["transformer-postprocess-top"] else x

    def split(self, x):
        return x.reshape(len(x), self.heads, -1).transpose(1, 0, 2)

    def attention(self, x, name, keys, values):
        queries = self.split(self.affine(self.enter(x, f"{name}_Wo"), name, "q"))
        scores = queries @ keys.transpose(0, 2, 1) / self.dtype(math.sqrt(self.width // self.heads))
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        scores /= scores.sum(axis=-1, keepdims=True)
        context = (scores @ values).transpose(1, 0, 2).reshape(len(x), self.width)
        return self.leave(self.affine(context, name, "o"), x, f"{name}_Wo")

    def memory(self, x, name):
        return self.split(self.affine(x, name, "k")), self.split(self.affine(x, name, "v"))

    def feed_forward(self, x, name):
        inner = np.maximum(self.affine(self.enter(x, f"{name}_ffn"), name, "", "1"), 0)
        return self.leave(self.affine(inner, name, "", "2"), x, f"{name}_ffn")

    def encode(self, ids):
        x = self.w["Wemb"][ids] * self.dtype(math.sqrt(self.width)) + self.positions(range(len(ids)))
        for layer in range(1, self.config["enc-depth"] + 1):
            name = f"encoder_l{layer}_self"
            x = self.attention(x, name, *self.memory(self.enter(x, f"{name}_Wo"), name))
            x = self.feed_forward(x, f"encoder_l{layer}_ffn")
        x = self.top(x, "encoder")
        return [self.memory(x, f"decoder_l{layer}_context") for layer in range(1, self.layers + 1)]

    def start(self, rows):
        return [np.zeros((rows, self.width), self.dtype) for _ in range(self.layers)]

    def step(self, tokens, position, cells, memory):
        """Vectors of the rows whose last tokens these are (None: the beginning), and their states."""
        rows = len(cells[0])
        x = np.zeros((rows, self.width), self.dtype)
        if tokens is not None:
            x = self.w["Wemb"][tokens] * self.dtype(math.sqrt(self.width))
        x = x + self.positions([position])
        after = []
        for layer in range(1, self.layers + 1):
            name = f"decoder_l{layer}_rnn"
            inner = self.enter(x, f"{name}_ffn")
            gate = 1 / (1 + np.exp(-(inner @ self.w[f"{name}_Wf"] + self.w[f"{name}_bf"])))
            cell = gate * cells[layer - 1] + (1 - gate) * (inner @ self.w[f"{name}_W"])
            after.append(cell)
            x = self.leave(np.maximum(cell, 0), x, f"{name}_ffn")
            x = self.attention(x, f"decoder_l{layer}_context", *memory[layer - 1])
            x = self.feed_forward(x, f"decoder_l{layer}_ffn")
        return self.top(x, "decoder"), after

    def logits(self, x):
        return x @ self.output + self.output_bias

    def log_probability(self, source, target):
        """log P(target | source), step by step; both closed by the end-of-sentence mark."""
        memory, cells, tokens, total = self.encode(source), self.start(1), None, 0.0
        for position, token in enumerate(target):
            x, cells = self.step(tokens, position, cells, memory)
            logits = self.logits(x)[0]
            peak = logits.max()
            total += logits[token] - peak - np.log(np.exp(logits - peak).sum())
            tokens = [token]
        return float(total)
