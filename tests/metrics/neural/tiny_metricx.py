"""A tiny mT5 as MetricX is one: its vocabulary and its shape, with random seeded weights, in a folder."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import sentencepiece
import torch
import transformers
from tests.comet.folders import CHECKPOINTS


def make_metricx(folder: Path) -> Path:
    folder.mkdir(parents=True)
    config = transformers.MT5Config(
        vocab_size=250112, d_model=16, d_kv=4, d_ff=32, num_layers=2, num_decoder_layers=2, num_heads=4,
        tie_word_embeddings=False, decoder_start_token_id=0, pad_token_id=0, eos_token_id=1,
    )  # fmt: skip
    torch.manual_seed(5)
    model = transformers.MT5ForConditionalGeneration(config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() > 1 and "shared" not in name and "lm_head" not in name:
                weight.normal_(std=1.2 * weight.shape[-1] ** -0.5)
        model.shared.weight.normal_()
        model.lm_head.weight[250089] = _answer(model)
    model.save_pretrained(folder)
    (folder / "spiece.model").write_bytes(_sentencepiece())
    return folder


def _answer(model: Any) -> torch.Tensor:
    """A row of the output matrix to which texts matter: about 12, and more or less by their main difference."""
    start, states = torch.zeros((1, 1), dtype=torch.long), []
    for _ in range(60):
        output = model(torch.randint(3, 300, (1, 30)), decoder_input_ids=start, output_hidden_states=True)
        states.append(output.decoder_hidden_states[-1][:, 0])
    found = torch.cat(states)
    mean = found.mean(dim=0)
    difference = torch.linalg.svd(found - mean).Vh[0]
    difference -= (difference @ mean) / (mean @ mean) * mean
    return 12 * mean / (mean @ mean) + 6 * difference / (found @ difference).std()


def _sentencepiece() -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter((CHECKPOINTS.parent / "sentences.txt").read_text("utf-8").splitlines()),
        model_writer=model, vocab_size=300, model_type="unigram", character_coverage=1.0, hard_vocab_limit=False,
        pad_id=0, eos_id=1, unk_id=2, bos_id=-1, minloglevel=2, num_threads=1,
    )  # fmt: skip
    return model.getvalue()
