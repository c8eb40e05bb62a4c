"""Rules by their names: what they mean, which settings are refused, and what each rule needs of its reranker."""

from __future__ import annotations

from dataclasses import replace

import pytest

from quitmt import rerank, stop
from quitmt.errors import UsageError
from quitmt.protocols import RerankerTraits
from quitmt.stop.window import Quit

EXACT = RerankerTraits("mbr", gives_rivals=True, gives_scores=True)
QE = RerankerTraits("qe", running_best=True, gives_scores=True)
NEITHER = RerankerTraits("mbr")


def test_names_and_their_defaults() -> None:
    assert stop.load("quit") == Quit(8, 8, 1e-3, 512)
    found = {name: stop.find("fixed:9" if name == "fixed" else name) for name in stop.RULES}
    assert all(rule.default("step") == (1 if name == "headroom" else 8) for name, rule in found.items())
    assert {rule.default("budget") for rule in found.values()} == {512}
    assert stop.load("full", n=100).budget == 100
    assert stop.load("fixed:64").budget == 64
    assert stop.load("quit", k=4, w=2, alpha=1e-6, n=99).signature == "quit|k:4|w:2|a:1e-06|n:99"


@pytest.mark.parametrize(
    ("spec", "settings", "message"),
    [
        ("qiut", {}, "unknown stopping rule 'qiut' (did you mean 'quit'?)"),
        ("fixed", {}, "'fixed' must be fixed:N with a whole number N of at least 1, such as fixed:64"),
        ("fixed:0", {}, "'fixed:0' must be fixed:N"),
        ("fixed:x", {}, "'fixed:x' must be fixed:N"),
        ("fixed:600", {}, "'fixed:600' is more than the budget of 512 candidates"),
        ("full:3", {}, "the stopping rule full has no options, such as '3'"),
        ("quit", {"k": 0}, "k must be a whole number of at least 1, not 0"),
        ("quit", {"w": -1}, "w must be"),
        ("full", {"n": 0}, "n must be"),
        ("quit", {"alpha": -1.0}, "alpha must be"),
        ("quit", {"alpha": float("nan")}, "alpha must be"),
        ("quit", {"alpha": float("inf")}, "alpha must be"),
        ("quit:watch=all", {}, "quit watches best or advantage, not 'all'"),
        ("loss:new=x", {}, "'new=x' is not a setting of the stopping rule loss (new is a number, as in new=0.03)"),
        ("loss:y=1", {}, "unknown option of the stopping rule loss 'y'"),
        ("loss:most=-1", {}, "most of the loss rule must be a number of at least 0, not -1.0"),
        ("loss:minimum=0", {}, "minimum must be a whole number of at least 1, not 0"),
        ("headroom:top=inf", {}, "top of the headroom rule must be a number or auto, not inf"),
        ("headroom:cap=-1", {}, "cap of the headroom rule must be a number of at least 0"),
        ("consistency:doubt=nan", {}, "doubt of the consistency rule must be a number of at least 0, not nan"),
    ],
)
def test_what_is_no_rule_is_refused(spec: str, settings: dict[str, float], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        stop.load(spec, **settings)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("spec", "good", "bad", "message"),
    [
        ("loss", EXACT, QE, "the rule loss needs exact MBR, not mine"),
        ("headroom", QE, EXACT, "the rule headroom is for QE, not for mine"),
        ("consistency", replace(EXACT, votes=True), EXACT, "the rule consistency counts answers, and mine has none"),
        ("quit", NEITHER, replace(NEITHER, comparable=False), "the rule quit compares scores of growing pools"),
        ("quit:watch=advantage", replace(EXACT, comparable=False), NEITHER, "the rule quit needs the scores of all"),
        ("fixed:8", replace(NEITHER, comparable=False), None, ""),
    ],
)
def test_what_a_rule_needs_of_its_reranker(
    spec: str, good: RerankerTraits, bad: RerankerTraits | None, message: str
) -> None:
    rule = stop.load(spec)
    assert stop.fits(rule, good)
    if bad:
        assert not stop.fits(rule, bad)
        with pytest.raises(UsageError) as caught:
            stop.check_fits(rule, bad, "mine")
        assert str(caught.value).startswith(message)


def test_quit_says_how_to_watch_scores_that_do_not_compare() -> None:
    for traits, expected in ((EXACT, "quit:watch=advantage"), (NEITHER, "fixed:64")):
        with pytest.raises(UsageError) as caught:
            stop.check_fits(stop.load("quit"), replace(traits, comparable=False), "mine")
        assert expected in str(caught.value.hint)


def test_names_of_rerankers_know_which_are_votes() -> None:
    assert rerank.Reranking("mbr:vote", support="all").traits.votes
    assert not rerank.Reranking("mbr:vote", support="others").traits.votes
    assert not rerank.Reranking("mbr:chrf", support="all").traits.votes
