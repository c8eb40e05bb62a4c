"""Rerankers whose scores are relative to their pool: QUIT is neither their default nor to be had."""

from __future__ import annotations

import pytest

from quitmt.errors import UsageError
from quitmt.plan import Recipe, resolve
from quitmt.protocols import RerankerTraits, traits_of
from quitmt.rerank import load

BY_POOL = ["mbr:rank:chrf+bleu", "qe:rank:likelihood+recorded:q", "mbr:scaled:chrf+vote", "qe:scaled:recorded:q"]


def recipe(name: str, **stop: object) -> Recipe:
    return Recipe().changed({"rerank.name": name, **{f"stop.{field}": value for field, value in stop.items()}})


@pytest.mark.parametrize("name", BY_POOL)
def test_their_default_is_a_fixed_number(name: str) -> None:
    assert resolve(recipe(name)).recipe.stop.rule == "fixed:64"
    assert resolve(recipe(name, n=16)).recipe.stop.rule == "fixed:16"
    assert resolve(recipe(name, max_cost=20)).recipe.stop.rule == "auto"
    recipe(name).check()


@pytest.mark.parametrize("name", BY_POOL)
@pytest.mark.parametrize("stop", [{"rule": "quit"}, {"w": 4}, {"alpha": 0.01}])
def test_quit_is_refused(name: str, stop: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="compares scores of growing pools"):
        recipe(name, **stop).check()


@pytest.mark.parametrize("name", BY_POOL[2:])
def test_what_is_loaded_says_the_same_as_its_name(name: str) -> None:
    told = traits_of(load(name), RerankerTraits)
    assert told.comparable is resolve(recipe(name)).traits.comparable is False


@pytest.mark.parametrize("name", ["mbr:chrf", "mbr:0.5*chrf+0.5*bleu", "qe:likelihood", "mbr:vote"])
def test_sums_of_scores_as_they_are_compare(name: str) -> None:
    assert resolve(recipe(name)).traits.comparable
