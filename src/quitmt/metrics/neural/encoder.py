"""The encoder of a COMET checkpoint: XLM-R or XLM-R-XL, its tokenizer, and the mix of its layers.

A sentence's vector is γ · Σ w_l · pool(h_l): the mix of the layers, then the mean over its tokens (regression) or the
first token alone (unified). Pooling is linear, so each layer is pooled at once and dropped; memory never holds the
tokens of all 25 layers. Layers above the last one with a weight aren't computed.

Invariants:
- A text's vector depends on the text alone, up to rounding in batches of other shapes.
- Pooling and mixing are in float32, whatever the network computes in.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from quitmt.errors import ModelError
from quitmt.metrics import devices
from quitmt.metrics.devices import Hardware
from quitmt.metrics.neural import hub, tokenization
from quitmt.metrics.neural.batches import Batcher
from quitmt.metrics.neural.checkpoint import Checkpoint
from quitmt.metrics.neural.tokenization import Cuts, overflow

log = logging.getLogger(__name__)

Ids = list[int]
Then = Callable[[list[int], Tensor, Tensor | None], Any]
SENTENCEPIECE = "sentencepiece.bpe.model"
NETWORKS = {"XLM-RoBERTa": "XLMRoberta", "XLM-RoBERTa-XL": "XLMRobertaXL"}
"""Encoders of published checkpoints → their names in transformers."""


class Encoder:
    """Texts to token ids, and batches of ids to vectors."""

    def __init__(
        self, checkpoint: Checkpoint, hardware: Hardware, *, pool: str, layer: int | str, tagged: int = 0
    ) -> None:
        """``layer`` is "mix" or a number; ``tagged`` is a layer whose token states ``encode`` returns."""
        if pool not in POOLS:
            raise ModelError(f"{checkpoint.model} pools by {pool!r}", hint=f"quitmt has {', '.join(POOLS)}")
        self.device = devices.device(hardware.device)
        self.batcher = Batcher(self.device, hardware.batch_tokens)
        config = _config(checkpoint)
        self._tokenizer = _tokenizer(checkpoint, int(config.max_position_embeddings) - 4)
        self.files = _digest(checkpoint)
        self.longest = int(config.max_position_embeddings) - 2
        """Maximum tokens of the network; a single text is cut two tokens earlier, as in the original."""
        self.cuts = Cuts(self.longest)
        self.pad, self.end = int(config.pad_token_id), int(config.eos_token_id)
        self.width = int(config.hidden_size)
        self._pool = POOLS[pool]
        self._weights, self._scale = _mix(checkpoint, layer, int(config.num_hidden_layers) + 1)
        self._normalised = layer == "mix" and bool(checkpoint.settings.get("layer_norm"))
        self._network = _network(checkpoint, config).to(self.device, devices.dtype(hardware.dtype or "float32")).eval()
        self._tap: Callable[[int, Tensor], None] = lambda index, hidden: None
        self._busy = threading.Lock()
        self._attach(max(tagged, *(index for index, weight in enumerate(self._weights) if weight)))

    def _attach(self, highest: int) -> None:
        """Report each layer's output as it is computed, and remove the layers above the highest needed one."""
        layers = self._network.encoder.layer
        for index, module in enumerate([self._network.embeddings, *layers[:-1]]):
            module.register_forward_hook(partial(self._report, index))
        self._network.encoder.layer = layers[:highest]

    def _report(self, index: int, _: Any, __: Any, output: Any) -> None:
        self._tap(index, output[0] if isinstance(output, tuple) else output)

    def tokenize(self, texts: Sequence[str]) -> list[Ids]:
        """The token ids of texts, truncated to the encoder's limit, with start and end."""
        encodings = self._tokenizer.encode_batch(list(texts))
        for text, encoding in zip(texts, encodings, strict=True):
            self.cuts.note(text, overflow(encoding))
        return [encoding.ids for encoding in encodings]

    def join(self, first: Ids, *others: Ids, of: str) -> Ids:
        """Several texts as one sequence: <s> a </s></s> b </s> …, without padding ids that a text spells out. Truncated
        tokens count as a cut ``of`` the scored text."""
        joined = [token for token in first if token != self.pad]
        for ids in others:
            joined += [self.end, *(token for token in ids[1:] if token != self.pad)]
        self.cuts.note(of, len(joined) - self.longest)
        return joined[: self.longest]

    def encode(
        self,
        sequences: Sequence[Ids],
        progress: Callable[[int], object] | None = None,
        *,
        layer: int | None = None,
        then: Then = lambda batch, vectors, states: (vectors, states),
    ) -> Iterator[tuple[list[int], Any]]:
        """Yield batches: the indices of sequences with (vectors, token states of ``layer`` or None), or with the result
        of ``then``. If a batch runs out of memory, it is retried with fewer sequences."""

        def compute(batch: list[int]) -> Any:
            return then(batch, *self._vectors([sequences[index] for index in batch], layer))

        yield from self.batcher.run([len(ids) for ids in sequences], compute, progress)

    @torch.inference_mode()
    def _vectors(self, batch: Sequence[Ids], layer: int | None) -> tuple[Tensor, Tensor | None]:
        """The mixed and pooled vector of each sequence, in float32."""
        longest = max(map(len, batch))
        ids = torch.full((len(batch), longest), self.pad)
        for row, one in enumerate(batch):
            ids[row, : len(one)] = torch.tensor(one)
        lengths = torch.tensor([len(one) for one in batch])
        present = torch.arange(longest) < lengths[:, None]
        ids, present = ids.to(self.device), present.to(self.device)
        with self._busy:
            return self._mixed(ids, present, layer)

    def _mixed(self, ids: Tensor, present: Tensor, layer: int | None) -> tuple[Tensor, Tensor | None]:
        total = torch.zeros((len(ids), self.width), device=self.device)
        states: list[Tensor] = []
        counted = present & (ids != self.pad)

        def take(index: int, hidden: Tensor) -> None:
            if index == layer:
                states.append(hidden)
            if self._weights[index]:
                output = _normalised(hidden, present) if self._normalised else hidden
                total.add_(self._pool(output, counted, present), alpha=self._weights[index])

        self._tap = take
        last = self._network(input_ids=ids, attention_mask=present.long()).last_hidden_state
        if len(self._network.encoder.layer) == len(self._weights) - 1:
            take(len(self._weights) - 1, last)
        if not total.isfinite().all():
            hint = "take bfloat16 or float32" if last.dtype == torch.float16 else "its weights may be damaged"
            raise ModelError(f"the encoder computes numbers that are not finite in {last.dtype}", hint=hint)
        return total * self._scale, states[0] if states else None


def _first(hidden: Tensor, counted: Tensor, present: Tensor) -> Tensor:
    return hidden[:, 0].float()


def _mean(hidden: Tensor, counted: Tensor, present: Tensor) -> Tensor:
    """The original leaves tokens that spell padding out of the sum but counts them."""
    summed = torch.einsum("bth,bt->bh", hidden.float(), counted.float())
    return summed / present.sum(dim=1, keepdim=True)


POOLS = {"avg": _mean, "cls": _first}


def _normalised(hidden: Tensor, present: Tensor) -> Tensor:
    """A layer's states, normalized to mean 0 and deviation 1 over all of a text's tokens."""
    mask = present[:, :, None].float()
    count = mask.sum(dim=(1, 2), keepdim=True) * hidden.shape[-1]
    centred = hidden.float() - (hidden.float() * mask).sum(dim=(1, 2), keepdim=True) / count
    variance = ((centred * mask) ** 2).sum(dim=(1, 2), keepdim=True) / count
    return centred / torch.sqrt(variance + 1e-12)


def _mix(checkpoint: Checkpoint, layer: int | str, layers: int) -> tuple[list[float], float]:
    """The weight of each layer, and γ."""
    if layer != "mix":
        if not (isinstance(layer, int) and 0 <= layer < layers):
            raise ModelError(f"{checkpoint.model} takes layer {layer!r}, and its encoder has 0 to {layers - 1}")
        return [float(index == layer) for index in range(layers)], 1.0
    names = [f"layerwise_attention.scalar_parameters.{index}" for index in range(layers)]
    if not all(name in checkpoint.weights for name in [*names, "layerwise_attention.gamma"]):
        raise ModelError(f"{checkpoint.model} has no mix of {layers} layers", hint="its encoder may be another one")
    raw = torch.cat([checkpoint.weights[name].float() for name in names])
    sparse = checkpoint.settings.get("layer_transformation") == "sparsemax"
    weights = sparsemax(raw) if sparse else torch.softmax(raw, dim=0)
    return weights.tolist(), float(checkpoint.weights["layerwise_attention.gamma"])


def sparsemax(scores: Tensor) -> Tensor:
    """The nearest point of the simplex (Martins & Astudillo 2016): like softmax, but with true zeros.

    >>> sparsemax(torch.tensor([1.0, 0.5, -2.0])).tolist()
    [0.75, 0.25, 0.0]
    """
    descending = scores.sort(descending=True).values
    beyond = descending.cumsum(dim=0) - 1
    support = int((descending * torch.arange(1, len(scores) + 1) > beyond).sum())
    return torch.clamp(scores - beyond[support - 1] / support, min=0)


def _config(checkpoint: Checkpoint) -> Any:
    import transformers

    name = str(checkpoint.settings.get("encoder_model"))
    if name not in NETWORKS:
        raise ModelError(f"{checkpoint.model} has the encoder {name}", hint=f"quitmt has {', '.join(NETWORKS)}")
    kind = getattr(transformers, f"{NETWORKS[name]}Config")
    return hub.config(kind, checkpoint.pretrained, purpose=f"the encoder of {checkpoint.model}")


def _digest(checkpoint: Checkpoint) -> str:
    """A digest of the encoder's configuration and tokenizer."""
    model, purpose = checkpoint.pretrained, f"the encoder of {checkpoint.model}"
    files = hub.file(model, "config.json", purpose=purpose), tokenization.file(model, SENTENCEPIECE, purpose=purpose)
    return "".join(hashlib.blake2b(path.read_bytes(), digest_size=8).hexdigest() for path in files)


def _tokenizer(checkpoint: Checkpoint, longest: int) -> Any:
    purpose = f"the tokenizer of {checkpoint.model}"
    tokenizer = tokenization.load(checkpoint.pretrained, "XLMRoberta", SENTENCEPIECE, purpose=purpose)
    tokenizer.enable_truncation(longest)
    return tokenizer


def _network(checkpoint: Checkpoint, config: Any) -> Any:
    import transformers

    with torch.device("meta"):  # the weights are replaced at once
        kind = getattr(transformers, f"{NETWORKS[checkpoint.settings['encoder_model']]}Model")
        network = kind(config, add_pooling_layer=False)
    assign(network, checkpoint.part("encoder.model."), checkpoint.model)
    for name, buffer in (("position_ids", torch.arange), ("token_type_ids", torch.zeros)):
        length = config.max_position_embeddings
        setattr(network.embeddings, name, buffer(length, dtype=torch.long)[None])  # the weights don't have them
    return network


def assign(module: Any, weights: Mapping[str, Tensor], model: str) -> None:
    """Load a module's weights; additional ones are ignored (position ids, poolers)."""
    try:
        missing, _ = module.load_state_dict(weights, strict=False, assign=True)
    except RuntimeError as error:
        log.debug("the weights do not fit", exc_info=error)
        raise ModelError(f"the weights of {model} do not fit the network that its settings describe") from None
    if missing:
        raise ModelError(f"{model} lacks weights of its network, such as {missing[0]}")
