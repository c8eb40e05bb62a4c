"""Text that is lost is not lost in silence: warnings in outcomes, and once on standard error."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Ran

import quitmt as package
from quitmt.files.outcomes import from_fields, to_fields
from quitmt.generate.function import FunctionGenerator
from quitmt.protocols import GeneratorTraits
from quitmt.types import Draw, Request, Segment

Quitmt = Callable[..., Ran]
LINES = ["The door is open.", "I love 🍕 parties!", "", "It is late. We go home. She is <b>tired</b>.", "Tea 🍵."]
PROSE = "We'll meet at the café near the station tomorrow."


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "in.en"
    path.write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    return path


def write_pools(path: Path, pools: dict[str, list[str]]) -> Path:
    lines = [json.dumps({"id": i, "source": source, "candidates": pools[source]}) for i, source in enumerate(pools)]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_run_tells_what_may_be_lost(quitmt: Quitmt, text: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    ran = quitmt("translate", text, "-n", 8, "--jsonl", out, "--show")
    found = [json.loads(line).get("warnings") for line in out.read_text().splitlines()]
    assert found[:3] == [None, ["lost characters: 🍕"], None] and found[4] == ["lost characters: 🍵"]
    assert {"several sentences", "markup"} <= set(found[3])
    assert "quitmt: lost characters (< 🍕 🍵) in 3 segments (2, 4, 5): " in ran.err
    assert "quitmt: several sentences in 1 segment (4): " in ran.err and "use --split" in ran.err
    assert ran.err.count("quitmt: markup in 1 segment (4): ") == 1
    assert "   warnings: lost characters: 🍕\n" in ran.out  # for people


def test_quiet_is_quiet(quitmt: Quitmt, text: Path) -> None:
    assert quitmt("translate", text, "-n", 8, "-q").err == ""


def test_a_resumed_run_knows_the_warnings_of_the_first(
    quitmt: Quitmt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "in.en").write_text(f"{PROSE}\nfails first\n")
    (tmp_path / "copying_sampler.py").write_text(
        "from pathlib import Path\n"
        "def sample(source, start, stop):\n"
        "    if 'fails' in source and not Path('well').exists():\n"
        "        raise ValueError('not yet')\n"
        "    return [source] * (stop - start)\n"
    )
    words = ["translate", "in.en", "--model", "copying_sampler:sample", "-n", 8, "-o", "out", "--jsonl", "out.jsonl"]
    first = quitmt(*words)
    assert first.code == 1 and "copied source in 1 segment (1): " in first.err
    (tmp_path / "well").touch()
    second = quitmt(*words, "--resume")
    assert second.code == 0 and "copied source in 1 segment (1): " in second.err
    assert json.loads((tmp_path / "out.jsonl").read_text().splitlines()[0])["warnings"] == ["copied source"]


def test_rerankers_that_choose_a_copy_are_told_on(quitmt: Quitmt, tmp_path: Path) -> None:
    pools = write_pools(
        tmp_path / "pools.jsonl", {PROSE: [PROSE, PROSE, "Até amanhã."], "Rio de Janeiro": ["Rio de Janeiro"]}
    )
    ran = quitmt("rerank", pools, "--stop", "full", "--jsonl")
    assert [json.loads(line).get("warnings") for line in ran.out.splitlines()] == [["copied source"], None]
    assert "quitmt: copied source in 1 segment (0): " in ran.err


def test_likelihood_does_not_choose_a_copy(quitmt: Quitmt, tmp_path: Path) -> None:
    translation = "Vamos nos encontrar amanhã no café perto da estação."
    pools = write_pools(
        tmp_path / "pools.jsonl",
        {PROSE: [PROSE, translation], "Hello to the two of you.": ["Hello to the two of you."]},
    )
    ran = quitmt("rerank", pools, "--rerank", "qe:likelihood", "--stop", "full")
    assert ran.out.splitlines() == [translation, "Hello to the two of you."]  # or there is nothing else


def test_the_first_ones_are_named_in_the_order_of_the_input(quitmt: Quitmt, tmp_path: Path) -> None:
    pools = {f"{PROSE} {'x' * i}": [f"{PROSE} {'x' * i}"] * (40 - i) for i in range(9)}
    ran = quitmt("rerank", write_pools(tmp_path / "pools.jsonl", pools), "-k", 1)
    assert "copied source in 9 segments (0, 1, 2, 3, 4, …): " in ran.err


def test_python_has_them_and_answers_have_none() -> None:
    def sample(source: str, start: int, stop: int) -> list[str]:
        return ["12"] * (stop - start)

    prompt = "What is the square root of one hundred and forty-four, please?"
    [outcome] = package.translate([prompt], sample, n=8)
    assert outcome.warnings == ("much shorter",)
    [answer] = package.best_of([prompt], sample, lambda prompt, candidate: 1.0, n=8)
    assert answer.text == "12" and answer.warnings == ()


def test_outcomes_of_before_are_read() -> None:
    def sample(source: str, start: int, stop: int) -> list[str]:
        return [source] * (stop - start)

    [outcome] = package.translate([PROSE], sample, n=8)
    fields = json.loads(json.dumps(to_fields(outcome)))
    assert fields["warnings"] == ["copied source"]
    assert from_fields(fields).warnings == outcome.warnings
    del fields["warnings"]
    assert from_fields(fields).warnings == ()


class Odd:
    """Does not translate, or cannot say what it does not know."""

    signature = "odd"

    def __init__(self, **traits: Any) -> None:
        self.traits = GeneratorTraits(**traits)
        self._inner = FunctionGenerator(lambda source, start, stop: ["x"] * (stop - start))

    def draw(self, asks: Sequence[Request]) -> AsyncIterator[Draw]:
        return self._inner.draw(asks)

    def unknown(self, source: str) -> str:
        raise SystemExit("a fault of its own")

    def close(self, segment: Segment) -> None:
        self._inner.close(segment)


def test_a_generator_that_cannot_tell_loses_no_translation() -> None:
    [outcome] = package.translate([PROSE], Odd(), n=8)
    assert outcome.error is None and outcome.text == "x" and outcome.warnings == ("much shorter",)


def test_what_does_not_translate_is_not_warninged_on() -> None:
    [outcome] = package.translate([PROSE], Odd(translates=False), n=8)
    assert outcome.warnings == ()
