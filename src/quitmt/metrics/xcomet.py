"""xCOMET (``xcomet_metric`` checkpoints): regression scores and error spans together, with a reference or without.

A translation is read with its source, with its reference, and with both. The score is 0.12, 0.33 and 0.33 times the
three regression scores, each at most 1, plus 0.22 times the share of 25 points that the error spans leave: a minor one
costs 1, a major one 5, a critical one 10. Spans come from the tokens' probabilities, averaged over the three readings.
Without a reference there is one reading, with the weight of all three.

Equal sequences are read once: in MBR, a translation's reading with its source serves all of its references.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from quitmt.errors import UsageError
from quitmt.metrics.devices import Hardware
from quitmt.metrics.neural import checkpoint
from quitmt.metrics.neural.encoder import Encoder, Ids, assign
from quitmt.metrics.neural.head import feed_forward
from quitmt.metrics.scorer import Example, Floats, Progress, scaled, score_once

READING_WEIGHTS = (0.12, 0.33, 0.33)
SPAN_WEIGHT = 0.22
TAG_WEIGHTS = (0.1667, 0.3333, 0.5)
LABELS = ("none", "minor", "major", "critical")
COSTS = np.array([0.0, 1.0, 5.0, 10.0])
MOST_POINTS = 25.0
EXAMPLES_AT_ONCE = 4096
"""The probabilities of tokens are kept for at most so many examples."""

Reading = tuple[tuple[int, ...], int]
"""The ids of a sequence, and how many of them belong to the translation."""


class Xcomet:
    """xCOMET with a reference."""

    name = "xcomet"
    with_reference = True

    def __init__(self, model: str, hardware: Hardware) -> None:
        loaded = checkpoint.load(model, "xcomet_metric")
        settings = loaded.settings
        self._layer = int(settings["word_layer"])
        self.encoder = Encoder(loaded, hardware, pool="cls", layer=settings["sent_layer"], tagged=self._layer)
        network = feed_forward(loaded.part("estimator.ff."), settings, self.encoder.width, model)
        self._head = network.to(self.encoder.device)
        self.cuts = self.encoder.cuts
        with torch.device("meta"):
            tagger = nn.Linear(self.encoder.width, len(LABELS))
        assign(tagger, {name: weight.float() for name, weight in loaded.part("hidden2tag.").items()}, model)
        self._tagger = tagger.to(self.encoder.device)
        self.signature = f"{self.name}|{model}|w:{loaded.fingerprint(self.encoder.files)}|{hardware.dtype or 'float32'}"

    def score(self, examples: Sequence[Example], progress: Progress | None = None) -> Floats:
        if self.with_reference and any(example.reference is None for example in examples):
            raise UsageError("xCOMET needs a reference", hint="xcomet-qe needs none")
        return score_once(examples, partial(self._blocks, progress=progress), progress)

    def _blocks(self, examples: list[Example], progress: Progress | None) -> Floats:
        starts = range(0, len(examples), EXAMPLES_AT_ONCE)
        blocks = [self._block(examples[start : start + EXAMPLES_AT_ONCE], progress) for start in starts]
        return np.concatenate([np.zeros(0), *blocks])

    def _block(self, examples: Sequence[Example], progress: Progress | None) -> Floats:
        texts = {text for example in examples for text in (example.translation, example.source, example.reference)}
        known = sorted(text for text in texts if text is not None)
        ids = dict(zip(known, self.encoder.tokenize(known), strict=True))
        readings = [self._readings(example, ids) for example in examples]
        distinct = list(dict.fromkeys(one for three in readings for one in three))
        scores, tags = self._read(distinct, scaled(progress, len(distinct), len(examples)))
        return np.array([self._combined(three, scores, tags) for three in readings])

    def _readings(self, example: Example, ids: dict[str, Ids]) -> list[Reading]:
        translation, source = ids[example.translation], ids[example.source]
        join = partial(self.encoder.join, of=example.translation)
        joined = [join(translation, source)]
        if self.with_reference:
            assert example.reference is not None
            reference = ids[example.reference]
            joined.append(join(translation, reference))
            joined.append(join(translation, source, reference))
        return [(tuple(one), min(len(translation), len(one))) for one in joined]

    @torch.inference_mode()
    def _read(
        self, readings: list[Reading], progress: Progress | None
    ) -> tuple[dict[Reading, float], dict[Reading, npt.NDArray[np.float32]]]:
        """The score of each reading, at most 1, and the probabilities of each label for the translation's tokens."""
        scores, tags = {}, {}
        sequences = [list(ids) for ids, _ in readings]

        def score_and_tag(
            batch: list[int], vectors: Tensor, states: Tensor | None
        ) -> tuple[list[float], npt.NDArray[np.float32]]:
            assert states is not None
            longest = max(readings[index][1] for index in batch)
            probabilities = self._tagger(states[:, :longest].float()).softmax(dim=2).cpu().numpy()
            return self._head(vectors)[:, 0].clamp(max=1.0).cpu().tolist(), probabilities

        for batch, (found, probabilities) in self.encoder.encode(
            sequences, progress, layer=self._layer, then=score_and_tag
        ):
            for row, index in enumerate(batch):
                scores[readings[index]] = found[row]
                tags[readings[index]] = probabilities[row, : readings[index][1]]
        return scores, tags

    def _combined(
        self, readings: list[Reading], scores: dict[Reading, float], tags: dict[Reading, npt.NDArray[np.float32]]
    ) -> float:
        weights, shares = (READING_WEIGHTS, TAG_WEIGHTS) if len(readings) > 1 else ((sum(READING_WEIGHTS),), (1.0,))
        regression = sum(weight * scores[one] for weight, one in zip(weights, readings, strict=True))
        length = min(len(tags[one]) for one in readings)  # they differ only if a text spells out padding
        probabilities = sum(np.float32(share) * tags[one][:length] for share, one in zip(shares, readings, strict=True))
        labels = np.argmax(probabilities, axis=1)
        return regression + SPAN_WEIGHT * (MOST_POINTS - min(MOST_POINTS, span_points(labels))) / MOST_POINTS


class XcometQe(Xcomet):
    """xCOMET without a reference."""

    name = "xcomet-qe"
    with_reference = False


def span_points(labels: npt.NDArray[np.int64]) -> float:
    """The cost of the error spans. A span has the label of its first token and ends before a token without an error; as
    in the original, a span that reaches the end of the translation doesn't count.

    >>> span_points(np.array([0, 1, 3, 0, 2, 0, 3]))
    6.0
    """
    wrong = labels > 0
    starts = np.flatnonzero(wrong & ~np.concatenate(([False], wrong[:-1])))
    right = np.flatnonzero(~wrong)
    ended = starts[starts < right[-1]] if len(right) else starts[:0]
    return float(COSTS[labels[ended]].sum())
