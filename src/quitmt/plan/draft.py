"""A plan in the making: the recipe as far as it is filled in, and the mistakes so far."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from quitmt.errors import Mistakes, QuitmtError, UsageError, placed, setting
from quitmt.plan.plan import Parts
from quitmt.plan.recipe import OBJECT, Origin, Recipe
from quitmt.protocols import GeneratorTraits, traits_of
from quitmt.rerank.anchors import TEXTS


class PlanDraft:
    """The steps of ``resolve`` fill in fields; a step that depends on a failed one does what it can without it."""

    def __init__(self, recipe: Recipe, parts: Parts, *, installed: bool) -> None:
        self.said, self.recipe, self.parts, self.installed = recipe, recipe, parts, installed
        self.recorded = parts.generator is not None and traits_of(parts.generator, GeneratorTraits).recorded
        self._errors: dict[str, QuitmtError] = {}

    @contextmanager
    def collected(self, field: str | None = None) -> Iterator[None]:
        """Collect the mistake that the block raises; ``field`` is the setting that it is about."""
        try:
            if field is None:
                yield
            else:
                with placed(field):
                    yield
        except QuitmtError as error:
            self._errors.setdefault(str(error), error)

    @property
    def mistakes(self) -> int:
        return len(self._errors)

    def raise_mistakes(self) -> None:
        """Raise all mistakes together, or the only one as it is."""
        errors = [*self._errors.values()]
        if errors:
            raise errors[0] if len(errors) == 1 else Mistakes(errors)

    def fill(self, field: str, value: Any, origin: Origin) -> None:
        """Set a field that the user left open."""
        section, _, name = field.partition(".")
        if value is not None and getattr(getattr(self.recipe, section), name) is None:
            self.recipe = self.recipe.changed({field: value}, lambda _: origin)

    @property
    def title(self) -> str:
        """What messages call the reranker, and the key to what is known about it."""
        given, own = self.parts.reranker, self.recipe.rerank
        if given is not None:
            return given.signature.partition("|")[0]
        return f"{own.name} with {setting('rerank.support', TEXTS)}" if own.support == TEXTS else own.name

    def refuse_object(self, name: str | None, field: str) -> None:
        """Refuse the name of a part that was an object."""
        if name is not None and name.startswith(OBJECT):
            hint = "give the recipe a name for it: module:attribute"
            was = f"{setting(field)} {name!r} was an object of a Python program"
            raise UsageError(f"{was} and cannot be made again", hint=hint)

    def name_objects(self, chosen: str | None) -> None:
        """Name the parts that are objects; ``chosen`` is the rule that a profile's object chose."""
        parts, changes = self.parts, dict[str, Any]()
        named = (("model.name", parts.generator), ("rerank.name", parts.reranker), ("stop.rule", parts.rule))
        for field, part in named:
            if part is not None:
                changes[field] = f"{OBJECT}{part.signature.partition('|')[0]}"
        if parts.rule is not None:
            changes |= {"stop.k": parts.rule.step, "stop.n": parts.rule.budget}
        if parts.profile is not None and chosen is not None:
            changes |= {"stop.rule": chosen, "stop.max_loss": None, "stop.max_cost": None}
        self.recipe = self.recipe.changed(changes, lambda _: Origin("keyword"))

    def complete(self) -> Recipe:
        """The recipe, with an origin for every value that is a field's own default."""
        origins, default = dict(self.recipe.origins), Recipe().to_fields()
        for section, fields in self.recipe.to_fields().items():
            for name, value in fields.items():
                if default.get(section, {}).get(name) == value:
                    origins.setdefault(f"{section}.{name}", Origin("default"))
        return replace(self.recipe, origins=origins)
