"""Generators: one file a backend, and the names they go by."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from quitmt.errors import UsageError, unknown
from quitmt.prompts import template
from quitmt.protocols import Generator
from quitmt.sampling import Sampling


@dataclass(frozen=True, slots=True)
class Backend:
    """A kind of model: where its class is, which options it takes, and what must be installed for it."""

    usage: str
    meaning: str
    location: str
    """module:class"""
    options: frozenset[str] = frozenset()
    needs: tuple[str, ...] = ()
    """Modules that its extra installs."""
    extra: str | None = None
    in_flight: int = 64
    """Segments to work on at a time by default: enough to fill one GPU's batch with windows (docs/benchmarks.md)."""

    @property
    def installed(self) -> bool:
        return all(importlib.util.find_spec(module) is not None for module in self.needs)

    @property
    def command(self) -> str | None:
        """What installs it."""
        return f"pip install 'quitmt[{self.extra}]'" if self.extra else None


_PROMPTED = frozenset({"prompt", "clean", "max_tokens"})

BACKENDS = {
    "embedded": Backend(
        "embedded:en-pt, embedded:pt-en",
        "English to Portuguese and back, in this process; comes with quitmt",
        "quitmt.generate.bergamot:BergamotGenerator",
        in_flight=16,
    ),
    "bergamot": Backend(
        "bergamot:PATH",
        "a folder with a Bergamot or Firefox translation model, in this process",
        "quitmt.generate.bergamot:BergamotGenerator",
        in_flight=16,
    ),
    "openai": Backend(
        "openai:MODEL",
        "an OpenAI-compatible server (vLLM, SGLang, llama.cpp, Ollama, …) at --base-url",
        "quitmt.generate.openai:OpenAIGenerator",
        _PROMPTED | {"base_url", "api", "concurrency", "timeout", "logprobs"},
        ("aiohttp", "langcodes"),
        "openai",
    ),
    "hf": Backend(
        "hf:MODEL",
        "a Hugging Face model in this process: Marian, NLLB, M2M100, mBART, MADLAD, or any chat model",
        "quitmt.generate.huggingface:HuggingFaceGenerator",
        _PROMPTED | {"device", "dtype", "batch"},
        ("torch", "transformers", "langcodes"),
        "hf",
    ),
    "vllm": Backend(
        "vllm:MODEL",
        "a chat model on vLLM in this process, all segments in one continuous batch",
        "quitmt.generate.vllm:VllmGenerator",
        _PROMPTED | {"dtype", "engine_args"},
        ("vllm", "langcodes"),
        "vllm",
    ),
    "ct2": Backend(
        "ct2:PATH",
        "a folder with a CTranslate2 model and its tokenizer",
        "quitmt.generate.ctranslate2:CTranslate2Generator",
        frozenset({"max_tokens", "device", "compute_type"}),
        ("ctranslate2", "langcodes"),
        "ct2",
    ),
}

MODELS = {backend.usage: backend.meaning for backend in BACKENDS.values()}


def resolve(model: str | None, source: str | None, target: str | None) -> tuple[str, str | None, str | None]:
    """Fill in what is not given: the languages from the model, or the embedded model from the languages.

    >>> resolve(None, "pt", None)
    ('embedded:pt-en', 'pt', 'en')
    """
    if model is None:
        source = source or ("pt" if target == "en" else "en")
        target = target or ("en" if source == "pt" else "pt")
        return f"embedded:{source}-{target}", source, target
    backend, _, pair = model.partition(":")
    if backend != "embedded":
        return model, source, target
    own_source, _, own_target = pair.partition("-")
    if source not in (None, own_source) or target not in (None, own_target):
        asked = f"{source or own_source} to {target or own_target}"
        raise UsageError(f"{model} translates {own_source} to {own_target}, not {asked}")
    return model, own_source, own_target


def load(
    spec: str,
    sampling: Sampling | None = None,
    *,
    languages: tuple[str | None, str | None] = (None, None),
    options: Mapping[str, Any] | None = None,
) -> Generator:
    """The generator a text like ``embedded:en-pt`` or ``openai:Qwen/Qwen3-8B`` names.

    ``options`` are the backend's own; those that are None count as not given, and one that it does not have is refused.
    """
    name, _, model = spec.partition(":")
    backend = BACKENDS.get(name)
    if backend is None or not model:
        known = [usage for one in BACKENDS.values() for usage in one.usage.split(", ")]
        raise unknown("model", spec, known)
    given = {option: value for option, value in (options or {}).items() if value is not None}
    if strangers := sorted(given.keys() - backend.options):
        takers = ", ".join(f"{key}:" for key, one in BACKENDS.items() if strangers[0] in one.options)
        raise UsageError(f"--{strangers[0].replace('_', '-')} goes with {takers} not with {name}:")
    if "prompt" in given and not template.load(given["prompt"]).clean:
        given.setdefault("clean", False)
    if given.get("max_tokens", 1) < 1:
        raise UsageError(f"at least 1 token must be allowed, not {given['max_tokens']}")
    module, _, attribute = backend.location.partition(":")
    make: Any = getattr(importlib.import_module(module), attribute)
    sampling = sampling or Sampling()
    if not backend.extra:
        return make(spec, sampling)  # type: ignore[no-any-return]
    return make(model, sampling, languages=languages, **given)  # type: ignore[no-any-return]
