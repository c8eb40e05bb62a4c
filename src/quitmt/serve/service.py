"""The served recipes: one per language pair, loaded once, each with one session for all requests.

Invariants: either all requested recipes are served or none; a language pair has only one recipe.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from quitmt.detect import Detector, primary
from quitmt.engine.session import Session
from quitmt.errors import ModelError, QuitmtError, UsageError, setting, speaking
from quitmt.generate.languages import name as language_name
from quitmt.loops.call import in_thread
from quitmt.plan import Recipe, files
from quitmt.plan.build import Built, build
from quitmt.plan.plan import refuse_texts
from quitmt.plan.resolve import resolve
from quitmt.protocols import GeneratorTraits, StoppingRule, traits_of
from quitmt.serve.refusals import bad

EMBEDDED = ("embedded:en-pt", "embedded:pt-en")
RULES_KEPT = 256
"""Cached rules for targets, because most clients use the same few."""


@dataclass
class Served:
    """A language pair with its model."""

    name: str
    """Its model name in OpenAI's API."""
    source: str
    target: str
    built: Built
    session: Session

    def __post_init__(self) -> None:
        self._rule_for = lru_cache(RULES_KEPT)(self.built.rule_for)

    @property
    def pair(self) -> str:
        return f"{self.source}-{self.target}"

    @property
    def takes_seeds(self) -> bool:
        return traits_of(self.built.generator, GeneratorTraits).takes_seeds

    def rule(self, max_loss: float | str | None, max_cost: float | None) -> StoppingRule | None:
        """Returns the rule for a target, or None for the recipe's own rule."""
        if max_loss is None and max_cost is None:
            return None
        try:
            return self._rule_for(max_loss=max_loss, max_cost=max_cost)
        except QuitmtError as error:
            raise bad(str(error)) from None


class Service:
    def __init__(self, served: Sequence[Served]) -> None:
        self.all = tuple(served)

    @cached_property
    def sources(self) -> list[str]:
        return list(dict.fromkeys(one.source for one in self.all))

    @cached_property
    def languages(self) -> list[str]:
        return list(dict.fromkeys(code for one in self.all for code in (one.source, one.target)))

    @cached_property
    def detector(self) -> Detector:
        return Detector(self.sources)

    def targets(self, source: str) -> list[str]:
        return [one.target for one in self.all if one.source == source]

    def find(self, source: str, target: str) -> Served:
        """Finds the pair for language codes as clients write them: pt serves pt-BR."""
        target_code = self._known(target, [one.target for one in self.all], "target")
        source_code = self._known(source, self.sources, "source")
        for one in self.all:
            if (one.source, one.target) == (source_code, target_code):
                return one
        pairs = ", ".join(f"{one.source} to {one.target}" for one in self.all)
        raise bad(f"{source_code} to {target_code} isn't served; available: {pairs}", "unsupported_pair")

    def detect(self, text: str, target: str | None = None) -> tuple[Served, float]:
        """Finds the pair for a text of unknown language, and the confidence from 0 to 1."""
        able = list(self.all)
        if target is not None:
            code = self._known(target, [one.target for one in self.all], "target")
            able = [one for one in self.all if one.target == code]
        [(source, confidence), *_] = self.detector.ranked(text, dict.fromkeys(one.source for one in able))
        return next(one for one in able if one.source == source), confidence

    def named(self, name: str) -> Served | None:
        """Finds a pair by the name of its model."""
        return next((one for one in self.all if name in (one.name, one.pair)), None)

    def _known(self, code: str, known: Iterable[str], what: str) -> str:
        codes = list(dict.fromkeys(known))
        wanted = code.replace("_", "-").lower()
        for one in codes:
            if one.lower() == wanted:
                return one
        for one in codes:
            if primary(one) == primary(wanted):
                return one
        raise bad(f"the {what} language {code[:40]!r} isn't served; available: {', '.join(codes)}", "unknown_language")

    async def start(self) -> None:
        """Starts all sessions and warms everything up, so that the first request isn't slow."""
        await asyncio.gather(in_thread(self._warm), *(one.session.start() for one in self.all))

    def _warm(self) -> None:
        """Loads the detector and the names of languages."""
        self.detect("Good morning.")
        for code in self.languages:
            language_name(code)

    async def close(self) -> None:
        await asyncio.gather(*(one.session.close() for one in self.all))

    @property
    def failure(self) -> str | None:
        """The error of the first session that ended unexpectedly, if any."""
        return next((one.session.failure for one in self.all if one.session.failure), None)


def load(paths: Sequence[str], *, allow_functions: bool = False) -> Service:
    """Loads recipes from files, or the embedded models without any. Must be called in the event loop's thread."""
    if not paths:
        names = {name: Recipe().changed({"model.name": name}) for name in EMBEDDED}
        return _service([(name, name, _built(recipe)) for name, recipe in names.items()])
    loaded = []
    for path in paths:
        recipe = files.load(path, allow_functions=allow_functions)
        with speaking(files.FileSpeaker(recipe)):
            loaded.append((path, Path(path).stem, _named(path, recipe)))
    return _service(loaded)


def _named(path: str, recipe: Recipe) -> Built:
    try:
        return _built(recipe)
    except QuitmtError as error:
        raise type(error)(f"{path} cannot be served: {error.args[0]}", hint=error.hint) from error
    except Exception as error:  # user code
        raise ModelError(f"{path} cannot be served: {type(error).__name__}: {error}") from error


def _built(recipe: Recipe) -> Built:
    refuse_texts(recipe, "a server")
    built = build(resolve(recipe))
    for name in ("source_language", "target_language"):
        if getattr(built.recipe.model, name) is None:
            raise UsageError(f"{setting(f'model.{name}')} is required", hint="a server must know its languages")
    return built


def _service(loaded: Sequence[tuple[str, str, Built]]) -> Service:
    served: dict[tuple[str, str], tuple[str, Served]] = {}
    for origin, name, built in loaded:
        model = built.recipe.model
        pair = (model.source_language or "", model.target_language or "")
        if pair in served:
            raise UsageError(
                f"{served[pair][0]} and {origin} both translate {pair[0]} to {pair[1]}", hint="give only one of them"
            )
        named = f"quitmt-{pair[0]}-{pair[1]}" if name == origin else name
        served[pair] = origin, Served(named, *pair, built, built.session(learns=True))
    return Service([one for _, one in served.values()])
