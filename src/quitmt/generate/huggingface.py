"""Hugging Face models in this process: ``hf:MODEL``, a folder or a name on the hub.

Seq2seq translation models (see ``decoding/seq2seq``) and causal ones with a prompt (``decoding/causal``) share our
decoding loop (``decoding/walk``). transformers' ``generate`` is unsuitable because it draws a whole batch from one
random stream, so a candidate would depend on the others; here it depends only on (seed, segment, index).

The engine follows a model's generation settings for start, forced first, suppressed and end tokens. It ignores those
that would change the distribution (temperature, top-k, repetition penalty, …), because ``Sampling`` defines that.

Invariants: torch is imported only when the first generator is created; one thread does the work.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable
from typing import Any, Self

from quitmt.errors import MissingExtra, ModelError, UsageError
from quitmt.generate.decoding.hypotheses import HypothesisSampler
from quitmt.generate.decoding.rounds import Openings, RoundSampler
from quitmt.generate.prompts import template
from quitmt.generate.worker import Batches, ThreadedGenerator, Worker
from quitmt.loops.faults import first_line
from quitmt.metrics import devices
from quitmt.metrics.neural import hub
from quitmt.metrics.neural.checkpoint import fingerprint
from quitmt.protocols import GeneratorTraits
from quitmt.sampling import Sampling

log = logging.getLogger(__name__)

BATCH, LARGEST_BATCH = 64, 1024
BYTES_KEPT = 1 << 31
"""Maximum bytes of encoded sources and prompt caches, for callers who never close segments."""
TOKENIZERS = ("tokenizer.json", "tokenizer_config.json", "vocab.json", "spiece.model", "sentencepiece.bpe.model")
"""Every tokenizer has at least one of these files."""
SENTENCE_LEVEL = frozenset({"marian", "m2m_100", "mbart", "nllb-moe", "fsmt"})
"""Families trained on sentence pairs. NLLB's dense models have the type m2m_100. MADLAD was trained on longer texts."""


class HuggingFaceGenerator(ThreadedGenerator):
    """Samples with transformers. ``batch`` is the maximum number of candidates computed at once [default: by the free
    memory]; it is halved whenever memory runs out."""

    def __init__(
        self,
        model: str,
        sampling: Sampling,
        *,
        languages: tuple[str | None, str | None] = (None, None),
        prompt: str | None = None,
        clean: bool = True,
        max_tokens: int | None = None,
        device: str | None = None,
        dtype: str | None = None,
        batch: int | None = None,
    ) -> None:
        if batch is not None and batch < 1:
            raise UsageError(f"batch must be 1 or more, not {batch}")
        path = model.removeprefix("hf:")
        here = _is_here(path)
        config, tokenizer = _load_config(path, here), _load_tokenizer(path, here)
        self._place = devices.device(device)
        network = _load_network(path, here, config, self._place, _dtype(dtype, self._place, config))
        from quitmt.generate.decoding.causal import CausalDecoder
        from quitmt.generate.decoding.seq2seq import Seq2SeqDecoder

        weights = fingerprint(network.state_dict(), str(tokenizer.chat_template))
        fields = [f"hf:{path}", f"w:{weights}", str(network.dtype).removeprefix("torch.")]
        decoder: Seq2SeqDecoder | CausalDecoder
        translates = True
        if config.is_encoder_decoder:
            if prompt is not None:
                raise UsageError(f"{path} does not take a prompt", hint="it is a translation model, not a chat model")
            decoder = Seq2SeqDecoder(network, tokenizer, path, languages, max_tokens)
            fields += [f"{source}-{target}" for source, target in [languages] if source or target]
        else:
            filled = template.made(prompt, path, languages)
            decoder = CausalDecoder(network, tokenizer, path, filled, clean=clean, max_tokens=max_tokens)
            fields += [f"prompt:{filled.signature}", *([] if clean else ["raw"])]
            translates = filled.template.clean
        self.traits = GeneratorTraits(
            sentence_level=config.model_type in SENTENCE_LEVEL, translates=translates, takes_seeds=True
        )
        self._lacks = _lacking(tokenizer)
        fields += [f"max:{max_tokens}"] if max_tokens else []
        self._fields, self._decoder, self._ends = fields, decoder, _ends(network, tokenizer)
        self._openings = Openings(decoder, bytes_kept=BYTES_KEPT)
        self._start(sampling, batch or _batch(network, self._place))
        self._worker = Worker(Batches(self._sampler), "quitmt-huggingface")

    def _start(self, sampling: Sampling, batch: int) -> None:
        self.signature = "|".join([*self._fields, sampling.signature])
        self._sampler: RoundSampler | HypothesisSampler
        if sampling.beam is None:
            self._sampler = RoundSampler(self._decoder, sampling, self._ends, self._openings, batch=batch)
        else:
            self._sampler = HypothesisSampler(self._decoder, sampling.beam, self._ends, self._openings, batch=batch)

    def resampled(self, sampling: Sampling) -> Self:
        """The same model, thread and cache of sources and prompts with other sampling settings."""
        other = copy.copy(self)
        other._start(sampling, self._sampler.batch)
        other._worker = self._worker.beside(Batches(other._sampler))
        return other


def _lacking(tokenizer: Any) -> Callable[[str], bool]:
    unknown = tokenizer.unk_token_id
    return lambda text: unknown is not None and unknown in tokenizer(text, add_special_tokens=False)["input_ids"]


def _transformers() -> Any:
    try:
        import torch  # noqa: F401
        import transformers
    except ImportError:
        raise MissingExtra("hf: models need torch and transformers", hint="pip install 'quitmt[hf]'") from None
    return transformers


def _is_here(path: str) -> bool:
    """Whether a model is in a folder or complete in the cache. Otherwise check that the hub is reachable, because
    transformers would try for half a minute and then claim that there is no such model."""
    _transformers()
    if hub.is_folder(path):
        return True
    needed = hub.has_file(path, "config.json") and hub.has_weights(path)
    if needed and any(hub.has_file(path, name) for name in TOKENIZERS):
        return True
    hub.require(path, purpose="hf:")
    return False


def _load_config(path: str, here: bool) -> Any:
    try:
        return _transformers().AutoConfig.from_pretrained(path, local_files_only=here)
    except Exception as error:  # transformers raises OSError, ValueError, KeyError and more, by what is wrong
        log.debug("loading the config failed", exc_info=error)
        hint = "it must be a folder with a config.json of a known kind, or a name on the hub that can be reached"
        raise ModelError(f"{path!r} is not a Hugging Face model", hint=hint) from None


def _load_tokenizer(path: str, here: bool) -> Any:
    error: Exception | None = None
    try:
        tokenizer = _transformers().AutoTokenizer.from_pretrained(path, local_files_only=here)
        if len(tokenizer.get_vocab()) > len(tokenizer.all_special_tokens):
            return tokenizer
    except ImportError as missing:  # SentencePiece, protobuf and the like, by the tokenizer's kind
        needs = " ".join(str(missing).split())
        raise MissingExtra(f"the tokenizer of {path!r} needs more: {needs}", hint="pip install 'quitmt[hf]'") from None
    except Exception as caught:  # as above
        error = caught
    log.debug("loading the tokenizer failed", exc_info=error)
    hint = "save it there: tokenizer.json, or the vocabulary and SentencePiece files of its kind"
    raise ModelError(f"{path!r} has no tokenizer that can be read", hint=hint)


def _load_network(path: str, here: bool, config: Any, device: Any, dtype: Any) -> Any:
    transformers = _transformers()
    kind = transformers.AutoModelForSeq2SeqLM if config.is_encoder_decoder else transformers.AutoModelForCausalLM
    if type(config) not in kind._model_mapping:
        raise ModelError(f"{path!r} is of a type that does not generate text: {config.model_type}")
    try:
        return kind.from_pretrained(path, config=config, dtype=dtype, local_files_only=here).to(device).eval()
    except Exception as error:
        log.debug("loading the weights failed", exc_info=error)
        raise ModelError(f"the weights of {path!r} cannot be loaded: {first_line(error)}") from None


def _dtype(name: str | None, device: Any, config: Any) -> Any:
    """bfloat16 if the GPU has it, else float16, but float32 for T5, which overflows in float16. On CPUs float32,
    because 16 bits are slower there."""
    import torch

    if name is not None:
        return devices.dtype(name)
    if device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False):
        return torch.bfloat16
    half = device.type in ("cuda", "mps") and "t5" not in config.model_type
    return torch.float16 if half else torch.float32


def _batch(network: Any, device: Any) -> int:
    """On CUDA, a power of two of rows whose caches and distributions fill half of the free memory."""
    if device.type != "cuda":
        return BATCH
    import torch

    config = network.config.get_text_config(decoder=True)
    free, _ = torch.cuda.mem_get_info(device)
    layers = int(getattr(config, "decoder_layers", None) or getattr(config, "num_hidden_layers", None) or 12)
    cache = 4 * layers * config.hidden_size * network.dtype.itemsize * BATCH * 8  # keys and values, twice, 512 tokens
    rows = free // 2 // (cache + 32 * config.vocab_size)
    return max(1, min(LARGEST_BATCH, 1 << max(0, int(rows).bit_length() - 1)))


def _ends(network: Any, tokenizer: Any) -> Any:
    """The tokens that end a text, and those that are never generated."""
    import torch

    from quitmt.generate.decoding.walk import Ends

    settings = network.generation_config
    ends = settings.eos_token_id if settings.eos_token_id is not None else tokenizer.eos_token_id
    if ends is None:
        raise ModelError("the model does not say which token ends a text", hint="set eos_token_id in its config")
    phrases = settings.bad_words_ids or []
    if any(len(phrase) != 1 for phrase in phrases):
        raise ModelError("the model bans phrases of several tokens, which is not supported", hint="see bad_words_ids")
    never = {*(phrase[0] for phrase in phrases), *(settings.suppress_tokens or [])}
    vocabulary = network.get_output_embeddings().weight.shape[0]
    barred = torch.zeros(vocabulary, dtype=torch.bool)
    barred[_tokens_of(tokenizer) :] = True  # padding rows of the embedding matrix
    barred[sorted(never)] = True
    first = barred.clone()
    first[list(settings.begin_suppress_tokens or [])] = True
    tokens = frozenset([ends] if isinstance(ends, int) else ends)
    return Ends(tokens, first.to(network.device), barred.to(network.device))


def _tokens_of(tokenizer: Any) -> int:
    named = [*tokenizer.get_vocab().values(), *getattr(tokenizer, "lang_token_to_id", {}).values()]
    return int(max(named)) + 1
