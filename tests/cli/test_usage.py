"""Words that a command line does not know: one sentence that says what was perhaps meant."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.conftest import Ran

Quitmt = Callable[..., Ran]


def test_no_words_at_all(quitmt: Quitmt) -> None:
    ran = quitmt()
    assert ran.code == 2 and not ran.out
    assert ran.err.startswith("usage: quitmt ") and "translate lines of text" in ran.err


@pytest.mark.parametrize("command", ["translate", "rerank", "export", "score", "compare", "batch"])
def test_help_begins_with_examples(command: str, quitmt: Quitmt) -> None:
    told = quitmt(command, "--help").out
    assert "examples:" in told and f"\n  quitmt {command} " in told


def test_help_lists_the_names_that_can_be_given(quitmt: Quitmt) -> None:
    told = quitmt("translate", "--help").out
    for name in (
        "embedded:en-pt",
        "openai:MODEL",
        "mbr:chrf",
        "qe:likelihood",
        "lowrank:reduction=8",
        "loss",
        "fixed:N",
    ):
        assert name in told


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("translat", "quitmt: unknown command 'translat' (did you mean 'translate'?)"),
        ("score -t x -r x --format jsno", "unknown value of --format 'jsno' (did you mean 'json'?)"),
        ("score -r x", "quitmt score: the following arguments are required: -t"),
        ("xyz.en", "quitmt: unknown command 'xyz.en' (there is batch, calibrate, "),
        ("translate x --temprature 1", "--temprature 1 (did you mean --temperature?; see quitmt translate --help)"),
        ("translate x --max-los 1", "unrecognized arguments: --max-los 1 (did you mean --max-loss?"),
        ("translate x --margins=1", "(--margins is an option of quitmt compare; see quitmt translate --help)"),
        ("translate x --debug", "(it goes before the command: quitmt --debug translate; see quitmt translate --help)"),
        ("translate x y", "quitmt translate: unrecognized arguments: y (see quitmt translate --help)"),
        ("rerank x --zzzz", "quitmt rerank: unrecognized arguments: --zzzz (see quitmt rerank --help)"),
        ("models list --zzzz", "quitmt models: unrecognized arguments: --zzzz (see quitmt models --help)"),
    ],
)
def test_unknown_words(words: str, message: str, quitmt: Quitmt) -> None:
    ran = quitmt(*words.split())
    assert ran.code == 2 and ran.err.count("\n") == 1 and message in ran.err
