"""MetricX-24: a T5 encoder and decoder that answers with one number of errors, 0 to 25, lower is better.

The score is one logit: that of the token <extra_id_10> at the first position of the decoder. So the decoder makes one
step from the start token, and of the output matrix one row is used. Inside quitmt it is negated (see
``quitmt.metrics.scorer``).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from quitmt.errors import ModelError, UsageError
from quitmt.metrics import devices
from quitmt.metrics.devices import Hardware
from quitmt.metrics.neural import hub, tokenization
from quitmt.metrics.neural.batches import Batcher
from quitmt.metrics.neural.checkpoint import fingerprint
from quitmt.metrics.neural.tokenization import Cuts
from quitmt.metrics.scorer import Example, Floats, Progress, score_once

log = logging.getLogger(__name__)

ANSWER = 250089
"""<extra_id_10> in mT5's vocabulary."""
LONGEST = 1536
WORST = 25.0
TOKENIZER = "google/mt5-xl"
SENTENCEPIECE = "spiece.model"


class Metricx:
    """MetricX with a reference. ``model`` is a name on the hub, or a folder that may also hold the tokenizer."""

    name = "metricx"
    with_reference = True

    def __init__(self, model: str, hardware: Hardware) -> None:
        self._device = devices.device(hardware.device)
        self._network = _network(model).to(self._device, devices.dtype(hardware.dtype or "float32")).eval()
        self._tokenizer = _tokenizer(model)
        self.batcher = Batcher(self._device, hardware.batch_tokens)
        self.cuts = Cuts(LONGEST)
        self._answer = self._network.lm_head.weight[ANSWER].float()
        said = f"{self._network.config.to_json_string()}{self._tokenizer.to_str()}"
        weights = fingerprint(self._network.state_dict(), said)
        self.signature = f"{self.name}|{model}|w:{weights}|{hardware.dtype or 'float32'}"

    def score(self, examples: Sequence[Example], progress: Progress | None = None) -> Floats:
        texts = [self._text(example) for example in examples]
        translations = dict(zip(texts, (example.translation for example in examples), strict=True))

        def score(distinct: list[str]) -> Floats:
            ids = self._tokenize(distinct, translations)
            errors = np.empty(len(ids))
            for batch, part in self.batcher.run(
                [len(one) for one in ids], lambda batch: self._errors([ids[index] for index in batch]), progress
            ):
                errors[batch] = part
            return -errors

        return score_once(texts, score, progress)

    def _text(self, example: Example) -> str:
        text = f"source: {example.source} candidate: {example.translation}"
        if not self.with_reference:
            return text
        if example.reference is None:
            raise UsageError("MetricX needs a reference", hint="metricx-qe needs none")
        return f"{text} reference: {example.reference}"

    def _tokenize(self, texts: list[str], translations: Mapping[str, str]) -> list[list[int]]:
        """The token ids of each input text, without the end-of-text token, which the training data didn't have.
        ``translations`` has the translation in each text."""
        encodings = self._tokenizer.encode_batch(texts)
        for text, encoding in zip(texts, encodings, strict=True):
            self.cuts.note(translations[text], tokenization.overflow(encoding))
        return [encoding.ids[:-1] for encoding in encodings]

    @torch.inference_mode()
    def _errors(self, batch: list[list[int]]) -> Any:
        longest = max(map(len, batch))
        ids = torch.zeros((len(batch), longest), dtype=torch.long)
        for row, one in enumerate(batch):
            ids[row, : len(one)] = torch.tensor(one)
        present = (torch.arange(longest) < torch.tensor([len(one) for one in batch])[:, None]).long()
        present = present.to(self._device)
        encoded = self._network.encoder(input_ids=ids.to(self._device), attention_mask=present).last_hidden_state
        start = torch.zeros((len(batch), 1), dtype=torch.long, device=self._device)
        decoded = self._network.decoder(
            input_ids=start, encoder_hidden_states=encoded, encoder_attention_mask=present, use_cache=False
        ).last_hidden_state
        return (decoded[:, 0].float() @ self._answer).clamp(0.0, WORST).cpu().double().numpy()


class MetricxQe(Metricx):
    """MetricX without a reference."""

    name = "metricx-qe"
    with_reference = False


def _network(model: str) -> Any:
    import transformers

    config = hub.config(transformers.AutoConfig, model, purpose="MetricX", trust_remote_code=False)
    if config.model_type != "mt5":
        raise ModelError(f"{model} is of the kind {config.model_type}, and MetricX is an mT5")
    if config.vocab_size <= ANSWER:
        raise ModelError(f"{model} has a vocabulary of {config.vocab_size}, too small for MetricX's answer token")
    folder = str(hub.weights(model, purpose="MetricX"))
    kind: Any = transformers.MT5ForConditionalGeneration
    try:
        with hub.quiet_loading():
            network, report = kind.from_pretrained(folder, config=config, output_loading_info=True)
    except Exception as error:  # transformers raises many kinds
        log.debug("loading the weights failed", exc_info=error)
        line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ModelError(f"the weights of {model} cannot be loaded: {line}") from None
    if missing := sorted(report["missing_keys"]):  # transformers would make them up
        raise ModelError(f"{model} lacks weights of its network, such as {missing[0]}")
    return network


def _tokenizer(model: str) -> Any:
    inside = hub.is_folder(model) and any(hub.has_file(model, name) for name in (tokenization.FILE, SENTENCEPIECE))
    name = model if inside else TOKENIZER
    # mT5's sentinels are part of its vocabulary, so there are no extra ids.
    tokenizer = tokenization.load(name, "T5", SENTENCEPIECE, purpose="the tokenizer of MetricX", extra_ids=0)
    tokenizer.enable_truncation(LONGEST)
    return tokenizer
