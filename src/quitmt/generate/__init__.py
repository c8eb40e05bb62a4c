"""Generators: one file a backend, and the names they go by."""

from __future__ import annotations

from quitmt.errors import UsageError, unknown
from quitmt.protocols import Generator

MODELS = {
    "embedded:en-pt": "English to Portuguese, comes with quitmt",
    "embedded:pt-en": "Portuguese to English, comes with quitmt",
    "bergamot:PATH": "a folder with a Bergamot or Firefox translation model",
}


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
    *,
    temperature: float = 1.2,
    top_k: int | None = None,
    top_p: float | None = None,
    epsilon: float | None = None,
    seed: int = 0,
) -> Generator:
    """The generator a text like ``embedded:en-pt`` names."""
    backend = spec.partition(":")[0]
    if backend in ("embedded", "bergamot"):
        from quitmt.generate.bergamot import BergamotGenerator

        return BergamotGenerator(spec, temperature=temperature, top_k=top_k, top_p=top_p, epsilon=epsilon, seed=seed)
    raise unknown("model", spec, MODELS)
