"""From what the user said to what runs: ``Recipe`` → ``resolve`` → ``Plan`` → ``build``.

A ``Recipe`` is what the user said, wherever they said it: flags, keywords, a file. It is frozen, compares and hashes by
content, and remembers where each value came from. ``resolve`` is the only code that applies defaults and precedence,
chooses the stopping rule and finds mistakes; it reports all of them together and loads no model. The ``Plan`` is
complete. ``build`` loads its parts.
"""

from quitmt.plan.plan import Parts, Plan
from quitmt.plan.recipe import Origin, Recipe
from quitmt.plan.resolve import resolve
from quitmt.plan.sections import ModelRecipe, RerankRecipe, RunRecipe, StopRecipe

__all__ = ["ModelRecipe", "Origin", "Parts", "Plan", "Recipe", "RerankRecipe", "RunRecipe", "StopRecipe", "resolve"]
