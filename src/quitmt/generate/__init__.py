"""The names and options of all generators. Their backends are modules of this package."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from quitmt import names
from quitmt.bergamot import store
from quitmt.errors import ModelError, QuitmtError, UsageError, setting, unknown
from quitmt.generate.anchors import NONE, Anchor
from quitmt.generate.languages import without_region
from quitmt.generate.prompts import template
from quitmt.names import FLAG, FLOAT, INT, TABLE, TEXT, TEXTS, Name, Names, Option
from quitmt.protocols import Generator
from quitmt.sampling import Sampling

Languages = tuple[str | None, str | None]

OPTIONS = {
    "base_url": Option(
        TEXTS, None, "the server's address, such as http://localhost:8000/v1; several servers share the work", "URL"
    ),
    "api": Option(TEXT, "chat", "the server's interface", choices=("chat", "completions")),
    "concurrency": Option(INT, 256, "maximum requests in flight per server", "N"),
    "timeout": Option(FLOAT, 120.0, "timeout per request", "SECONDS"),
    "patience": Option(FLOAT, 300.0, "how long to retry a failing request", "SECONDS"),
    "prompt": Option(TEXT, None, "prompt template for chat models, by name or file (chosen by the model)", "NAME"),
    "logprobs": Option(FLAG, False, "request log-probabilities, for kept pools"),
    "clean": Option(FLAG, True, "remove everything around the translation in a chat model's answer"),
    "device": Option(TEXT, None, "cpu, cuda, mps (the fastest available)"),
    "dtype": Option(TEXT, None, "float32, bfloat16, … (chosen by the device)"),
    "compute_type": Option(TEXT, None, "int8, float16, … (as the model was converted)", "TYPE"),
    "batch": Option(INT, None, "maximum candidates decoded together (as memory allows)", "N"),
    "max_tokens": Option(INT, None, "maximum tokens per candidate (as the model allows)", "N"),
    "engine_args": Option(TABLE, None, "arguments for the engine, such as '{\"tensor_parallel_size\": 2}'", "JSON"),
}
"""The options of all backends; each backend lists those it takes."""
_PROMPTED = ("prompt", "clean", "max_tokens")


@dataclass(frozen=True)
class Backend(Name):
    """A kind of model."""

    takes: tuple[str, ...] = ()
    """Names of the options that it takes."""
    lacks: tuple[str, ...] = ()
    """Sampling settings that the engine lacks."""
    temperature: float = 0.7
    """Default temperature: at 1.0 a full-size model already samples from a long tail of wrong tokens
    (docs/anchors.md)."""
    anchors: str = "greedy"
    """Default anchors."""
    in_flight: int = 64
    """Default number of segments in flight: enough that their windows fill one GPU's batch (docs/benchmarks.md)."""
    examples: tuple[str, ...] = ()
    """Known models."""
    others: Callable[[str], None] | None = None
    """Raises an error if a name outside ``examples`` isn't a model. If this is None, only the examples are valid."""
    whole_name: bool = False
    """Whether the factory takes the whole name and no languages."""
    own_options: Mapping[str, Option] = field(default_factory=dict)
    """Options that a plug-in's factory takes."""

    def usage(self, name: str) -> str:
        return ", ".join(self.examples) or f"{name}:{self.argument}"

    @property
    def engine_options(self) -> Mapping[str, Option]:
        return {name: OPTIONS[name] for name in self.takes} | dict(self.own_options)

    @property
    def prompted(self) -> bool:
        """Whether the model gets a prompt, which may include preceding sentences."""
        return "prompt" in self.takes


def _plug_in(found: Any, name: str) -> Backend:
    """The backend of a factory ``make(model, sampling, languages=…, **options)`` in an installed package."""
    meaning = (inspect.getdoc(found) or f"{name}, from an installed package").splitlines()[0]
    options = names.options_of(found, without=("model", "sampling", "languages"))
    return Backend(meaning, found, argument="MODEL", own_options=options, anchors=NONE)


BEAMS = "beam:4"
"""The anchors of full-size translation models, where beam search beats greedy decoding (docs/anchors.md)."""
_BERGAMOT = "quitmt.generate.bergamot:BergamotGenerator"
BACKENDS = Names(
    "model",
    {
        "embedded": Backend(
            "English to Portuguese and back, in this process; comes with quitmt (quitmt models get adds other pairs)",
            _BERGAMOT,
            argument="en-pt",
            in_flight=16,
            whole_name=True,
            temperature=0.8,
            examples=tuple(f"embedded:{pair}" for pair in store.EMBEDDED),
            others=store.require,
        ),
        "bergamot": Backend(
            "a folder with a Bergamot or Firefox translation model, in this process",
            _BERGAMOT,
            argument="PATH",
            in_flight=16,
            whole_name=True,
            temperature=0.8,
        ),
        "openai": Backend(
            "an OpenAI-compatible server (vLLM, SGLang, llama.cpp, Ollama, …) at its base URL",
            "quitmt.generate.openai:OpenAIGenerator",
            argument="MODEL",
            takes=(*_PROMPTED, "base_url", "api", "concurrency", "timeout", "patience", "logprobs"),
            lacks=("epsilon", "beam"),
            needs=("aiohttp", "langcodes"),
            extra="openai",
        ),
        "hf": Backend(
            "a Hugging Face model in this process: Marian, NLLB, M2M100, mBART, MADLAD, or any chat model",
            "quitmt.generate.huggingface:HuggingFaceGenerator",
            argument="MODEL",
            takes=(*_PROMPTED, "device", "dtype", "batch"),
            anchors=BEAMS,
            needs=("torch", "transformers", "langcodes"),
            extra="hf",
        ),
        "vllm": Backend(
            "a chat model on vLLM in this process, all segments in one continuous batch",
            "quitmt.generate.vllm:VllmGenerator",
            argument="MODEL",
            takes=(*_PROMPTED, "dtype", "engine_args"),
            lacks=("epsilon", "beam"),
            needs=("vllm", "langcodes"),
            extra="vllm",
        ),
        "ct2": Backend(
            "a folder with a CTranslate2 model and its tokenizer",
            "quitmt.generate.ctranslate2:CTranslate2Generator",
            argument="PATH",
            takes=("max_tokens", "device", "compute_type"),
            anchors=BEAMS,
            lacks=("epsilon", "min_p"),
            needs=("ctranslate2", "langcodes"),
            extra="ct2",
        ),
    },
    group="quitmt.generators",
    plug_in=_plug_in,
)
OWN = {"MODULE:NAME": "your function sample(source, start, stop), or your Generator object"}


def resolve(model: str | None, source: str | None, target: str | None) -> tuple[str, str | None, str | None]:
    """Fill in missing languages from the model, or a missing model from the languages. A single language is paired with
    English, and English with Portuguese, which is always installed. Embedded models ignore regions.

    >>> resolve(None, "pt", None), resolve(None, "en-US", "de")
    (('embedded:pt-en', 'pt', 'en'), ('embedded:en-de', 'en', 'de'))
    """
    embedded = model is None or model.startswith("embedded:")
    source, target = (without_region(code) if code and embedded else code for code in (source, target))
    if model is None:
        source = source or ("pt" if target == "en" else "en")
        target = target or ("pt" if source == "en" else "en")
        return f"embedded:{source}-{target}", source, target
    backend, _, pair = model.partition(":")
    if backend != "embedded":
        return model, source, target
    own_source, _, own_target = pair.partition("-")
    if source not in (None, own_source) or target not in (None, own_target):
        requested = f"{source or own_source} to {target or own_target}"
        raise UsageError(f"{model} translates {own_source} to {own_target}, not {requested}")
    return model, own_source, own_target


@dataclass(frozen=True, slots=True)
class Model:
    """A model's name and its backend, which is None for user code (MODULE:NAME)."""

    spec: str
    backend: Backend | None

    @property
    def kind(self) -> str:
        return self.spec.partition(":")[0]

    def check(
        self, sampling: Sampling, languages: Languages, options: Mapping[str, Any], *, installed: bool = True
    ) -> None:
        """Raise an error for mistakes that can be detected without loading the model. If ``installed`` is false, the
        packages that the backend needs may be missing."""
        backend, name = self.backend, self.kind
        if backend is None:
            if options:
                raise UsageError(
                    f"{setting(f'model.options.{min(options)}')} goes with an engine, not with {self.spec}"
                )
            names.attribute(self.spec)
            return
        known = backend.engine_options
        for option, value in options.items():
            if option not in known:
                raise _stranger(option, name)
            if not known[option].type.accepts(value) or (known[option].choices and value not in known[option].choices):
                field = f"model.options.{option}"
                raise UsageError(f"{setting(field)} must be {known[option].allowed}, not {value!r}", field=field)
        sampling.refuse(f"{name}:", *backend.lacks)
        if options.get("max_tokens", 1) < 1:
            message = f"at least 1 token must be allowed, not {options['max_tokens']}"
            raise UsageError(message, field="model.options.max_tokens")
        if "prompt" in options:
            template.load(options["prompt"])
        if installed:
            backend.require(f"{name}:")

    def check_anchors(self, anchors: Sequence[Anchor]) -> None:
        """Refuse anchors that the engine can't make, as far as can be detected without loading it."""
        for anchor in anchors:
            if self.backend is None and not hasattr(names.attribute(self.spec), "resampled"):
                hint = f"give {setting('model.anchors', 'none')}, or supply your own translations"
                raise UsageError(f"{self.spec} cannot make anchors, because it has no resampled()", hint=hint)
            if anchor.beam is not None and self.backend is not None and "beam" in self.backend.lacks:
                raise UsageError(
                    f"{self.kind}: has no beam search for {setting('model.anchors', anchor.text)}",
                    hint=f"it has {setting('model.anchors', 'greedy')} and {setting('model.anchors', '4@0.3')}",
                )

    def load(self, sampling: Sampling, languages: Languages, options: Mapping[str, Any]) -> Generator:
        """Load the generator; call ``check`` first."""
        backend = self.backend
        if backend is None:
            from quitmt.generate.function import as_generator

            return as_generator(names.attribute(self.spec), self.spec)
        settings = dict(options)
        if "prompt" in settings and not template.load(settings["prompt"]).clean:
            settings.setdefault("clean", False)
        make: Any = backend.factory
        if backend.whole_name:
            return make(self.spec, sampling)  # type: ignore[no-any-return]
        try:
            return make(self.spec.partition(":")[2], sampling, languages=languages, **settings)  # type: ignore[no-any-return]
        except Exception as error:
            if isinstance(error, QuitmtError) or self.kind in BACKENDS.own:
                raise
            reason = f"{type(error).__name__}: {' '.join(str(error).split())}"  # user code
            raise ModelError(f"the model {self.spec} cannot be made: {reason}") from error


def find(spec: str) -> Model:
    """Look up a model by a name like ``openai:Qwen/Qwen3-8B``."""
    name, _, model = spec.partition(":")
    if name in BACKENDS and model:
        backend = BACKENDS[name]
        if backend.examples and spec not in backend.examples:
            if backend.others is None:
                raise _unknown(spec)
            backend.others(spec)
        return Model(spec, backend)
    if model and name not in BACKENDS and names.is_module(name.removesuffix(".py")):
        return Model(spec, None)
    raise _unknown(spec)


def _unknown(spec: str) -> UsageError:
    known = [usage for name, one in BACKENDS.sound().items() for usage in one.usage(name).split(", ")]
    return unknown("model", spec, [*known, *OWN])


def _stranger(option: str, name: str) -> UsageError:
    backends = BACKENDS.sound()
    takers = [f"{key}:" for key, backend in backends.items() if option in backend.engine_options]
    if not takers:
        every = {known for backend in backends.values() for known in backend.engine_options}
        error = unknown(f"option of {name}:", option, BACKENDS[name].engine_options or every)
        error.about(f"model.options.{option}")
        return error
    field = f"model.options.{option}"
    return UsageError(f"{setting(field)} goes with {', '.join(takers)} not with {name}:", field=field)


def load(
    spec: str,
    sampling: Sampling | None = None,
    *,
    languages: Languages = (None, None),
    options: Mapping[str, Any] | None = None,
) -> Generator:
    """Load a generator by a name like ``embedded:en-pt``. ``options`` are the backend's; None means unset."""
    model, sampling = find(spec), sampling or Sampling()
    settings = {option: value for option, value in (options or {}).items() if value is not None}
    model.check(sampling, languages, settings)
    return model.load(sampling, languages, settings)
