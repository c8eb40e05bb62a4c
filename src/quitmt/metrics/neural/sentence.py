"""Sentence embeddings: an encoder of transformers, the pooling of its tokens, and what a model has after that.

As sentence-transformers computes them, without it. Batches are sorted by tokens; pooling and all that follows are in
float32, whatever the network computes in.

Invariant: a text's vector depends on its tokens alone, up to rounding in batches of other shapes.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from quitmt.errors import ModelError
from quitmt.metrics import devices
from quitmt.metrics.devices import Hardware
from quitmt.metrics.neural import hub, pretrained, sentence_files, tokenization
from quitmt.metrics.neural.batches import Batcher
from quitmt.metrics.neural.checkpoint import fingerprint
from quitmt.metrics.neural.cuts import Cuts
from quitmt.metrics.neural.encoder import assign
from quitmt.metrics.neural.sentence_files import PURPOSE, SentenceModel
from quitmt.metrics.neural.tokenization import overflow

log = logging.getLogger(__name__)

Ids = tuple[int, ...]
Floats = npt.NDArray[np.float64]
ACTIVATIONS = {"Tanh": nn.Tanh, "Identity": nn.Identity}
"""Of dense layers."""


class SentenceEncoder:
    """Texts to tokens, and tokens to vectors of length 1."""

    def __init__(self, model: str, hardware: Hardware) -> None:
        recipe = sentence_files.read(model)
        self.device = devices.device(hardware.device)
        self.batcher = Batcher(self.device, hardware.batch_tokens)
        config = pretrained.config(recipe.encoder, purpose=PURPOSE)
        network = _network(recipe.encoder, config)
        self.pooling = recipe.pooling
        self.longest = _longest(recipe, network)
        """Tokens of a text that are read, those at its start and end included; None: all."""
        self.cuts = Cuts(self.longest)
        self._prompt = recipe.prompt
        self._tokenizer = _tokenizer(recipe, self.longest)
        after = nn.Sequential(*(_layer(model, kind, folder) for kind, folder in recipe.after))
        said = [config.to_json_string(), self._tokenizer.to_str(), recipe.pooling, recipe.prompt, str(after)]
        self.fingerprint = fingerprint({**network.state_dict(), **after.state_dict(prefix="after.")}, json.dumps(said))
        """Of all that makes a vector: weights, settings and tokenizer."""
        self._pad = int(getattr(config, "pad_token_id", None) or 0)
        self._network = network.to(self.device, devices.dtype(hardware.dtype or "float32")).eval()
        self._after = after.to(self.device).eval()
        # Parts that do not fit each other are found out now and not at the first candidate.
        self.width = self._vectors(self.tokenize(["a"])).shape[1]

    def tokenize(self, texts: Sequence[str]) -> list[Ids]:
        """The tokens of texts, cut to what the model reads."""
        encodings = self._tokenizer.encode_batch([f"{self._prompt}{text}" for text in texts])
        for text, encoding in zip(texts, encodings, strict=True):
            self.cuts.note(text, overflow(encoding))
        return [tuple(encoding.ids) for encoding in encodings]

    def embed(self, sequences: Sequence[Ids], progress: Callable[[int], object] | None = None) -> Floats:
        """A vector of length 1 for each sequence of tokens."""
        found = np.empty((len(sequences), self.width))

        def compute(batch: list[int]) -> Tensor:
            return self._vectors([sequences[index] for index in batch])

        for batch, vectors in self.batcher.run([len(ids) for ids in sequences], compute, progress):
            found[batch] = vectors.double().numpy()
        found /= np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-12)
        return found

    @torch.inference_mode()
    def _vectors(self, batch: Sequence[Ids]) -> Tensor:
        longest = max(map(len, batch))
        ids = torch.full((len(batch), longest), self._pad)
        for row, one in enumerate(batch):
            ids[row, : len(one)] = torch.tensor(one)
        present = torch.arange(longest) < torch.tensor([len(one) for one in batch])[:, None]
        ids, present = ids.to(self.device), present.to(self.device)
        states = self._network(input_ids=ids, attention_mask=present.long()).last_hidden_state
        pooled = torch.cat([POOLS[mode](states.float(), present) for mode in self.pooling], dim=1)
        vectors: Tensor = self._after(pooled)
        if not vectors.isfinite().all():
            hint = "take bfloat16 or float32" if states.dtype == torch.float16 else "its weights may be damaged"
            raise ModelError(f"the encoder computes numbers that are not finite in {states.dtype}", hint=hint)
        return vectors.cpu()


def _first(states: Tensor, present: Tensor) -> Tensor:
    return states[:, 0]


def _largest(states: Tensor, present: Tensor) -> Tensor:
    return states.masked_fill(~present[:, :, None], -torch.inf).amax(dim=1)


def _mean(states: Tensor, present: Tensor) -> Tensor:
    summed = torch.einsum("bth,bt->bh", states, present.float())
    return summed / present.sum(dim=1, keepdim=True)


POOLS = {"cls": _first, "max": _largest, "mean": _mean}


class _Normalize(nn.Module):
    def forward(self, vectors: Tensor) -> Tensor:
        return nn.functional.normalize(vectors, dim=1)


def _layer(model: str, kind: str, folder: str) -> nn.Module:
    """A part that comes after pooling."""
    if kind == "Normalize":
        return _Normalize()
    settings = sentence_files.settings_of(model, f"{folder}/config.json")
    name = str(settings.get("activation_function", "Tanh"))
    kind_of = ACTIVATIONS.get(name.rpartition(".")[2])
    if kind_of is None or settings.get("use_residual"):
        told = "a residual connection" if settings.get("use_residual") else f"the activation {name}"
        raise ModelError(f"{model} has a dense layer with {told}", hint=f"quitmt has {', '.join(ACTIVATIONS)}")
    try:
        linear = nn.Linear(settings["in_features"], settings["out_features"], bias=bool(settings.get("bias", True)))
    except (LookupError, TypeError):
        raise ModelError(f"{folder}/config.json of {model} cannot be read") from None
    weights = {name.removeprefix("linear."): weight for name, weight in _weights(model, folder).items()}
    assign(linear, weights, model)
    return nn.Sequential(linear.float(), kind_of())


def _weights(model: str, folder: str) -> dict[str, Tensor]:
    path = hub.either(model, f"{folder}/model.safetensors", f"{folder}/pytorch_model.bin", purpose=PURPOSE)
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        return dict(torch.load(path, map_location="cpu", weights_only=True))
    except Exception as error:
        log.debug("loading a dense layer failed", exc_info=error)
        raise ModelError(f"{folder}/{path.name} of {model} cannot be read") from None


def _network(encoder: str, config: Any) -> Any:
    """The encoder alone: without a decoder, and without a pooler, which published weights may lack."""
    import transformers

    alone = transformers.AutoModelForTextEncoding  # knows T5 and its kin, and most of the others, but not all
    kind = alone if type(config) in alone._model_mapping else transformers.AutoModel
    network = pretrained.network(kind, encoder, config, purpose=PURPOSE, unused="pooler")
    if getattr(network, "pooler", None) is not None:
        network.pooler = None
    return network


def _longest(recipe: SentenceModel, network: Any) -> int | None:
    """What the model says, or else its tokenizer, and no more than the network has positions for."""
    allowed = sentence_files.tokens_allowed(recipe.encoder)
    said = recipe.longest or allowed
    positions = getattr(network.config, "max_position_embeddings", None) or -1
    if positions < 0:  # positions are relative, and there is no end of them
        return said
    places = getattr(getattr(network, "embeddings", None), "position_embeddings", None)
    padding = getattr(places, "padding_idx", None)
    if padding is not None:  # RoBERTa and its kin count from the one after padding's
        positions -= padding + 1
    return positions if said is None else min(said, positions)


def _tokenizer(recipe: SentenceModel, longest: int | None) -> Any:
    from tokenizers import normalizers

    tokenizer = tokenization.load(recipe.encoder, "Auto", "vocab.txt", purpose=PURPOSE)
    if recipe.lower:
        own = [] if tokenizer.normalizer is None else [tokenizer.normalizer]
        tokenizer.normalizer = normalizers.Sequence([normalizers.Lowercase(), *own])
    if longest is not None:
        tokenizer.enable_truncation(longest)
    return tokenizer
