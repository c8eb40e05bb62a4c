"""Builds tiny Hugging Face models: the architectures and tokenizers of the large ones, with random seeded weights.

Each ``make_*`` writes a folder that ``from_pretrained`` reads, in about a second. The weights are scaled up so that the
distributions are neither flat nor certain: sampling meets likely and unlikely tokens, and candidates end.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import sentencepiece
import torch
import transformers

SENTENCES = """The weather is nice today.
She lost her keys on the way to the office, so she had to call her sister.
No.
The old house at the end of the street was sold last week.
They are reading a long book about the history of the city.
My brother cooks dinner every evening, and I wash the dishes.
We do not know when the next train will arrive.
O tempo está bom hoje.
Ela perdeu as chaves a caminho do escritório e teve de ligar à irmã.
A casa velha no fim da rua foi vendida na semana passada.
Eles estão a ler um livro longo sobre a história da cidade.
O meu irmão faz o jantar todas as noites, e eu lavo a louça.
Não sabemos quando vai chegar o próximo comboio.
Das Wetter ist heute schön, und die Kinder spielen im Garten.""".splitlines()
ENGLISH = 7
"""So many of them, the first ones."""
CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% if enable_thinking is defined and not enable_thinking %}"
    "<|quiet|>{% endif %}{% endif %}"
)
SPREAD = 3.0
"""What the random weights of the last layer are multiplied by, and those of the tokens that end a text once more."""


def make_sentencepiece(prefix: Path, size: int = 150, sentences: list[str] = SENTENCES) -> Path:
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences), model_prefix=str(prefix), vocab_size=size, model_type="unigram",
        hard_vocab_limit=False, minloglevel=2, num_threads=1,
    )  # fmt: skip
    return prefix.with_suffix(".model")


def make_marian(folder: Path, *, codes: tuple[str, ...] = (), apart: bool = False) -> Path:
    """A Marian model as OPUS-MT ones are; with ``codes``, one with several target languages; ``apart``, one whose
    sides have pieces of their own, all of which are in its vocabulary."""
    folder.mkdir(parents=True)
    sides = (SENTENCES[:ENGLISH], SENTENCES[ENGLISH:]) if apart else (SENTENCES, SENTENCES)
    pieces: dict[str, None] = {}
    for name, sentences in zip(("source.spm", "target.spm"), sides, strict=True):
        spm = make_sentencepiece(folder / "spm", sentences=sentences)
        pieces.update(dict.fromkeys(_pieces(spm)[3:]))
        (folder / name).write_bytes(spm.read_bytes())
    vocabulary = ["</s>", "<unk>", *(f">>{code}<<" for code in codes), *pieces, "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({piece: i for i, piece in enumerate(vocabulary)}))
    tokenizer = transformers.MarianTokenizer(
        str(folder / "source.spm"), str(folder / "target.spm"), str(folder / "vocab.json")
    )
    pad = len(vocabulary) - 1
    config = transformers.MarianConfig(
        vocab_size=len(vocabulary), d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, max_position_embeddings=96,
        pad_token_id=pad, eos_token_id=0, decoder_start_token_id=pad, forced_eos_token_id=None, scale_embedding=True,
    )  # fmt: skip
    return _save(folder, transformers.MarianMTModel, config, tokenizer, ends=[0], bad_words_ids=[[pad]])


def make_m2m100(folder: Path) -> Path:
    folder.mkdir(parents=True)
    spm = make_sentencepiece(folder / "spm")
    vocabulary = ["<s>", "<pad>", "</s>", "<unk>", *_pieces(spm)[3:]]
    (folder / "vocab.json").write_text(json.dumps({piece: i for i, piece in enumerate(vocabulary)}))
    tokenizer = transformers.M2M100Tokenizer(str(folder / "vocab.json"), str(spm), num_madeup_words=0)
    size = len(vocabulary) + len(tokenizer.lang_code_to_id)
    return _save(folder, transformers.M2M100ForConditionalGeneration, _m2m100(size), tokenizer, ends=[2])


def make_nllb(folder: Path) -> Path:
    folder.mkdir(parents=True)
    tokenizer = transformers.NllbTokenizer(
        **_bpe(["<s>", "<pad>", "</s>", "<unk>"]), extra_special_tokens=["eng_Latn", "por_Latn", "zho_Hant"]
    )
    return _save(folder, transformers.M2M100ForConditionalGeneration, _m2m100(len(tokenizer)), tokenizer, ends=[2])


def make_madlad(folder: Path) -> Path:
    """A T5 with ``<2pt>`` tokens."""
    folder.mkdir(parents=True)
    pieces = [("<unk>", 0.0), ("<s>", 0.0), ("</s>", 0.0), *((f"<2{code}>", 0.0) for code in ("pt", "de", "zh_Hant"))]
    processor = sentencepiece.SentencePieceProcessor(model_file=str(make_sentencepiece(folder / "spm")))
    pieces += [(processor.id_to_piece(i), processor.get_score(i)) for i in range(3, processor.get_piece_size())]
    tokenizer = transformers.T5Tokenizer(
        vocab=pieces, unk_token="<unk>", eos_token="</s>", pad_token="<s>", extra_ids=0,
        additional_special_tokens=["<2pt>", "<2de>", "<2zh_Hant>"],
    )  # fmt: skip
    config = transformers.T5Config(
        vocab_size=len(tokenizer), d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, pad_token_id=1,
        eos_token_id=2, decoder_start_token_id=0, feed_forward_proj="gated-gelu", tie_word_embeddings=False,
    )  # fmt: skip
    return _save(folder, transformers.T5ForConditionalGeneration, config, tokenizer, ends=[2])


def make_chat(folder: Path, *, template: bool = True) -> Path:
    """A Llama with grouped heads and two tokens that end an answer."""
    folder.mkdir(parents=True)
    special = ["<|pad|>", "<|text|>", "<|end|>", "<|user|>", "<|assistant|>", "<|quiet|>"]
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=_chat_tokenizer(special), pad_token="<|pad|>", eos_token="<|end|>",
        extra_special_tokens=special[3:],
    )  # fmt: skip
    if template:
        tokenizer.chat_template = CHAT_TEMPLATE
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=256, pad_token_id=0, bos_token_id=None, eos_token_id=[2, 1],
    )  # fmt: skip
    return _save(folder, transformers.LlamaForCausalLM, config, tokenizer, ends=[1, 2])


def _m2m100(size: int) -> Any:
    return transformers.M2M100Config(
        vocab_size=size, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, max_position_embeddings=128,
        pad_token_id=1, bos_token_id=0, eos_token_id=2, decoder_start_token_id=2, encoder_layerdrop=0.0,
        decoder_layerdrop=0.0, tie_word_embeddings=False,
    )  # fmt: skip


def _save(folder: Path, kind: Any, config: Any, tokenizer: Any, *, ends: list[int], **generation: Any) -> Path:
    torch.manual_seed(7)
    model = kind(config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() > 1 and "position" not in name:
                torch.nn.init.normal_(weight, std=weight.shape[-1] ** -0.5)
        _spread(model, ends)
    model.generation_config.update(num_beams=1, max_length=None, **generation)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _spread(model: Any, ends: list[int]) -> None:
    """Make the output distributions uneven, and endings likely enough for candidates to end."""
    if hasattr(model, "final_logits_bias"):  # tied embeddings: larger ones would only repeat the last token
        model.final_logits_bias[0, ends] = 4.0
        model.get_input_embeddings().weight[model.config.pad_token_id] = 0.0  # as in Marian's own, which begin with it
        return
    head = model.get_output_embeddings().weight
    head.mul_(SPREAD)
    head[ends] *= SPREAD


def _pieces(spm: Path) -> list[str]:
    processor = sentencepiece.SentencePieceProcessor(model_file=str(spm))
    return [processor.id_to_piece(i) for i in range(processor.get_piece_size())]


def _bpe(special: list[str]) -> dict[str, Any]:
    """The vocabulary and merges of a small BPE, as NLLB's tokenizer takes them."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    bpe = Tokenizer(models.BPE(unk_token="<unk>"))
    bpe.pre_tokenizer = pre_tokenizers.Metaspace()
    bpe.train_from_iterator(SENTENCES, trainers.BpeTrainer(vocab_size=150, special_tokens=special, show_progress=False))
    model = json.loads(bpe.to_str())["model"]
    return {"vocab": model["vocab"], "merges": [tuple(merge) for merge in model["merges"]]}


def _chat_tokenizer(special: list[str]) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=special,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    bpe.train_from_iterator(SENTENCES, trainer)
    return bpe
