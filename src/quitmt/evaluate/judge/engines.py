"""Judges of translations: chat models on any of our engines, with the prompt of GEMBA-MQM.

A judge is a generator with another prompt, so it isn't part of ``quitmt.metrics``, which must not import engines.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from quitmt import generate
from quitmt.errors import UsageError
from quitmt.evaluate.judge.cache import default_folder
from quitmt.evaluate.judge.gemba import Gemba, Judge
from quitmt.generate.prompts import template
from quitmt.sampling import Sampling

ENGINES = ("openai", "hf", "vllm")
MAX_TOKENS = 512
"""Maximum length of an answer: a list of errors, of which only the first few count."""


def gemba(
    spec: str,
    languages: tuple[str | None, str | None],
    options: Mapping[str, Any] | None = None,
    cache: str | Path | None = None,
) -> Gemba:
    """The judge with a name like ``gemba:openai:MODEL``, ``gemba:hf:MODEL`` or ``gemba:vllm:MODEL``.

    ``options`` belong to the engine, such as base_url. Answers are kept in the folder ``cache`` [default:
    ``cache.default_folder``].
    """
    engine, _, model = spec.removeprefix("gemba:").partition(":")
    if engine not in ENGINES or not model:
        known = ", ".join(f"gemba:{name}:MODEL" for name in ENGINES)
        raise UsageError(f"{spec!r} isn't a judge, which must be a chat model", hint=f"there is {known}")
    settings = {name: value for name, value in (options or {}).items() if value is not None}
    if wrong := sorted(settings.keys() & {"prompt", "clean"}):
        raise UsageError(f"a judge has its own prompt and takes no {wrong[0]}")
    settings = {"max_tokens": MAX_TOKENS, **settings, "prompt": _prompt(model), "clean": False}
    generator = generate.load(f"{engine}:{model}", Sampling(temperature=0.0), languages=languages, options=settings)
    return Gemba(cast(Judge, generator), cache=Path(cache) if cache is not None else default_folder())


def _prompt(model: str) -> str:
    name = f"judges/gemba-mqm-{template.for_model(model)}"
    return name if name in template.judges() else "judges/gemba-mqm"
