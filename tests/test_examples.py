"""The programs in examples/ run and print what they guarantee; small here, so that it takes no time."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from tests import notebook

EXAMPLES = Path(__file__).parents[1] / "examples"


def load(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rows(text: str, columns: int) -> dict[str, list[float]]:
    """The lines that end in so many numbers, by what stands before them."""
    found = {}
    for line in text.splitlines():
        words = line.rsplit(maxsplit=columns)
        numbers = [word.rstrip("%") for word in words[1:]]
        if len(numbers) == columns and all(number.replace(".", "").isdigit() for number in numbers):
            found[words[0].strip()] = [float(number) for number in numbers]
    return found


def test_tours(capsys: pytest.CaptureFixture[str]) -> None:
    tours = load("tours")
    tours.main(["--problems", "3", "--cities", "9", "-n", "64"])
    found = rows(capsys.readouterr().out, 5)
    assert {*found} == {*tours.RULES} - {"fixed:128"}
    assert found["full"][1:] == [100.0, 64.0, 64.0, 64.0]
    for score, share, size, fewest, most in found.values():
        assert 0 < score <= found["full"][0] <= 1 and share <= 100 and fewest <= size <= most <= 64
    assert found["headroom:top=1,minimum=16,looks=2,share=0.005"][2] < 64


def test_tours_are_round_trips_and_no_reward_is_above_1() -> None:
    tours = load("tours")
    for seed in range(3):
        prompt = tours.make_prompt(7, seed)
        for tour in tours.sample(prompt, 0, 20):
            assert sorted(map(int, tour.split())) == list(range(7))
            assert 0 < tours.reward(prompt, tour) <= 1
    assert tours.sample(prompt, 3, 5) == tours.sample(prompt, 0, 9)[3:5]


def test_self_consistency(capsys: pytest.CaptureFixture[str]) -> None:
    example = load("self_consistency")
    example.main([])
    out = capsys.readouterr().out
    assert "simulated solver" in out
    found = rows(out, 2)
    assert {*found} == {"one solution, on average", *(f"vote, {way}" for way in example.WAYS)}
    single, full, early = (found[name] for name in ("one solution, on average", "vote, full", "vote, consistency"))
    assert single[0] < early[0] <= full[0] == 100 and early[1] < full[1] == 64


def test_the_notebook_prints_what_it_shows() -> None:
    cells = [*notebook.run(json.loads((EXAMPLES / "quitmt.ipynb").read_text("utf-8")))]
    assert len(cells) == 4
    for cell, printed in cells:
        assert printed and notebook.shown(cell) == printed, "run make notebook"
