"""Recipes: what a run is made of, as data; the only place that builds generators, rerankers and rules together.

A ``Recipe`` is frozen, compares and hashes by content, and is written as TOML or JSON. ``check`` finds what is wrong
with it before anything is loaded, ``build`` makes its parts.
"""

from quitmt.recipe.recipe import ModelRecipe, Recipe, RerankRecipe, RunRecipe, StopRecipe

__all__ = ["ModelRecipe", "Recipe", "RerankRecipe", "RunRecipe", "StopRecipe"]
