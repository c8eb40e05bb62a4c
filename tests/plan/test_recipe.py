"""Recipes as data: content, not identity, and nothing lost on the way to a file and back."""

from __future__ import annotations

import json
import pickle
import tomllib
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quitmt.plan import Recipe, files
from quitmt.plan.fields import fields_of
from quitmt.plan.sections import OUTSIDE, SECTIONS

texts = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=12)
numbers = st.floats(allow_nan=False, allow_infinity=False)
integers = st.integers(-(2**64) + 1, 2**64 - 1)
settings = st.fixed_dictionaries(
    {},
    optional={
        "model.name": texts,
        "model.source_language": texts,
        "model.temperature": numbers,
        "model.top_k": integers,
        "model.seed": integers,
        "model.options.base_url": texts,
        "model.options.engine_args": st.dictionaries(texts, integers | texts | st.booleans(), max_size=3),
        "rerank.name": texts,
        "rerank.filter": texts,
        "rerank.keep": integers,
        "stop.rule": texts,
        "stop.max_loss": texts | numbers,
        "stop.alpha": numbers,
        "stop.single_step_window": st.booleans(),
        "run.deadline": numbers,
        "run.speculate": st.booleans(),
    },
)


def read_back(text: str, path: str) -> Recipe:
    """It may name functions; that they are allowed is not said by the file."""
    return files.parse(text, path, allow_functions=True).changed({"run.allow_functions": False})


@given(settings)
def test_nothing_is_lost_in_files(changes: dict[str, Any]) -> None:
    recipe = Recipe().changed(changes)
    for comments in (True, False):
        assert read_back(files.to_toml(recipe, comments=comments), "my.toml") == recipe
    assert read_back(json.dumps(recipe.to_fields()), "my.json") == recipe
    assert pickle.loads(pickle.dumps(recipe)) == recipe  # as a cluster ships it


@given(settings, settings)
def test_equal_content_is_an_equal_recipe(one: dict[str, Any], other: dict[str, Any]) -> None:
    first, second = Recipe().changed(one), Recipe().changed(other)
    assert first == Recipe().changed(one) and hash(first) == hash(Recipe().changed(one))
    assert (first == second) == (first.to_fields() == second.to_fields())


def test_it_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        Recipe().stop.w = 3  # type: ignore[misc]
    given = {"base_url": "http://a/v1"}
    recipe = Recipe().changed({"model.name": "openai:m"}).from_fields({"model": {"options": given}})
    given["base_url"] = "http://b/v1"
    assert recipe.model.options == {"base_url": "http://a/v1"}


def test_a_loss_is_one_wish_however_it_is_written() -> None:
    assert Recipe().changed({"stop.max_loss": 0.0005}) == Recipe().changed({"stop.max_loss": "0.0005"})


def test_results_do_not_depend_on_where_and_how_fast() -> None:
    recipe = Recipe().changed({"model.name": "openai:m", "model.options.prompt": "qwen3"})
    elsewhere = {
        "model.options.base_url": "http://secret@a/v1",
        "model.options.concurrency": 3,
        "rerank.device": "cuda",
        "run.in_flight": 2,
        "run.deadline": 3.0,
    }
    assert recipe.changed(elsewhere).of_results() == recipe.of_results()
    assert recipe.changed({"rerank.dtype": "float16"}).of_results() != recipe.of_results()
    assert recipe.of_results()["model"]["options"] == {"prompt": "qwen3"}


def test_the_printed_recipe_has_every_field() -> None:
    text = files.to_toml(Recipe())
    assert list(tomllib.loads(text)) == ["model", "rerank", "stop", "run"]
    for kind in SECTIONS.values():
        for name, declared in fields_of(kind).items():
            assert (f"{name} = " in text) is (name not in OUTSIDE)
            assert declared.meaning and (declared.flags or name == "options")
