"""CometKiwi (``unified_metric`` checkpoints): scores a translation by its source alone.

Translation and source go through the encoder as one sequence; the first token's vector, mixed over the layers, goes
into the head. Equal pairs are scored once, the rest in batches by tokens over all segments.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from quitmt.errors import ModelError
from quitmt.metrics.devices import Hardware
from quitmt.metrics.neural import checkpoint
from quitmt.metrics.neural.encoder import Encoder
from quitmt.metrics.neural.head import feed_forward
from quitmt.metrics.scorer import Example, Floats, Progress, score_once


class Kiwi:
    """A unified checkpoint, ready to score without references."""

    def __init__(self, model: str, hardware: Hardware) -> None:
        loaded = checkpoint.load(model, "unified_metric")
        settings = loaded.settings
        if "src" not in settings["input_segments"]:
            raise ModelError(f"{model} does not read sources", hint="take a checkpoint of CometKiwi")
        self.encoder = Encoder(loaded, hardware, pool="cls", layer=settings["sent_layer"])
        network = feed_forward(loaded.part("estimator.ff."), settings, self.encoder.width, model)
        self._head = network.to(self.encoder.device)
        self.cuts = self.encoder.cuts
        self.signature = f"kiwi|{model}|w:{loaded.fingerprint(self.encoder.files)}|{hardware.dtype or 'float32'}"

    @torch.inference_mode()
    def score(self, examples: Sequence[Example], progress: Progress | None = None) -> Floats:
        pairs = [(example.translation, example.source) for example in examples]
        return score_once(pairs, partial(self._pairs, progress=progress), progress)

    def _pairs(self, pairs: list[tuple[str, str]], progress: Progress | None) -> Floats:
        texts = list(dict.fromkeys(text for pair in pairs for text in pair))
        ids = dict(zip(texts, self.encoder.tokenize(texts), strict=True))
        joined = [self.encoder.join(ids[translation], ids[source], of=translation) for translation, source in pairs]
        scores = np.empty(len(pairs))
        for batch, part in self.encoder.encode(joined, progress, then=self._scores):
            scores[batch] = part
        return scores

    def _scores(self, batch: list[int], vectors: Tensor, states: Tensor | None) -> Floats:
        return np.asarray(self._head(vectors)[:, 0].cpu().double().numpy())
