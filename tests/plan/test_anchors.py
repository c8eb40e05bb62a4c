"""Anchors, support, safe sampling and presets in recipes."""

from __future__ import annotations

from pathlib import Path

import pytest

import quitmt
from quitmt.errors import QuitmtError, UsageError
from quitmt.plan import Recipe, files
from quitmt.plan.plan import Parts
from quitmt.plan.resolve import resolve

PAPER = {
    "model.temperature": 1.2, "model.anchors": "none", "rerank.support": "all", "stop.rule": "quit", "stop.k": 8,
    "stop.n": 512, "stop.w": 8, "stop.alpha": 1e-3,
}  # fmt: skip


def whole(**values: object) -> Recipe:
    return resolve(Recipe().changed({name.replace("__", "."): value for name, value in values.items()})).recipe


def test_the_default_is_anchored() -> None:
    recipe = whole()
    assert recipe.model.anchors not in (None, "none") and recipe.rerank.support == "anchor"
    assert recipe.stop.rule == "auto" and recipe.model.temperature is not None


def test_the_paper_is_one_word_away(tmp_path: Path) -> None:
    path = tmp_path / "paper.toml"
    path.write_text('preset = "paper"\n[stop]\nw = 4\n')
    made = [
        Recipe().changed(PAPER),
        quitmt.Translator(preset="paper").recipe,
        files.load(str(path)),
        Recipe.from_fields({"preset": "paper"}),
    ]
    for recipe in made:
        found = resolve(recipe).recipe
        assert (found.model.temperature, found.model.anchors, found.rerank.support) == (1.2, "none", "all")
        assert (found.stop.rule, found.stop.k, found.stop.n) == ("quit", 8, 512)
    assert [recipe.stop.w for recipe in made] == [8, 8, 4, 8]
    signature = quitmt.Translator(preset="paper", n=16).translate(["Good morning."])[0].signature
    assert "t:1.2" in signature and ",a:" not in signature and "s:" not in signature.partition("rerank:")[2]


@pytest.mark.parametrize(
    ("values", "anchors"),
    [
        ({"model__anchors": "none"}, "none"),
        ({"model__temperature": 0.0}, "none"),  # samples that are all greedy need no greedy anchor
        ({"rerank__support": "all"}, "none"),  # their agreement with themselves would hide it
        ({"model__name": "math:floor"}, None),  # how a function samples is its own business
    ],
)
def test_where_there_are_none(values: dict[str, object], anchors: str | None) -> None:
    assert whole(**values).model.anchors == anchors


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"model.anchors": "gready"}, "anchors must be none, or some of greedy, beam:N, N@T"),
        ({"model.anchors": "none,greedy"}, "anchors must be none, or some of greedy"),
        ({"model.anchors": "greedy,greedy"}, "names the same anchor twice"),
        ({"model.anchors": "beam:0"}, "not 'beam:0'"),
        ({"model.anchors": "4@0"}, "not '4@0'"),
        ({"model.anchors": ""}, "not ''"),
        ({"model.name": "openai:x", "model.options.base_url": "http://x", "model.anchors": "beam:4"}, "no beam search"),
        ({"model.name": "math:floor", "model.anchors": "greedy"}, "math:floor cannot make anchors"),
        ({"rerank.support": "some"}, "support must be one of anchor, others, all, given, not 'some'"),
        ({"rerank.support": "anchor", "rerank.variant": "prune"}, "support='anchor' goes with exact MBR"),
        ({"model.min_p": 1.5}, "min_p must be at least 0 and at most 1"),
    ],
)
def test_what_is_wrong(values: dict[str, object], told: str) -> None:
    with pytest.raises(QuitmtError, match=told.replace("(", r"\(")):
        resolve(Recipe().changed(values), installed=False)


def test_unknown_presets_are_refused() -> None:
    with pytest.raises(UsageError, match=r"unknown preset 'papper'.*did you mean 'paper'"):
        quitmt.Translator(preset="papper")
    with pytest.raises(QuitmtError, match="preset must be a text"):
        Recipe.from_fields({"preset": 3})


def test_a_reranker_that_knows_no_anchors_gets_none_unasked() -> None:
    class Unaware:
        signature = "unaware"

        def open(self, segment: object) -> None:
            return None

        def extend(self, updates: object) -> list[object]:
            return []

    given = Parts(reranker=Unaware())  # type: ignore[arg-type]
    assert resolve(Recipe(), given).recipe.model.anchors == "none"
    with pytest.raises(UsageError, match="unaware scores samples only, no anchors"):
        resolve(Recipe().changed({"model.anchors": "greedy"}), given)
