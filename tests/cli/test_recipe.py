"""``quitmt recipe`` and ``--recipe``: what is printed is what runs, and a flag wins over the file."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.conftest import Ran

from quitmt.plan import Recipe, files

Quitmt = Callable[..., Ran]


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").write_text("Good morning.\nThe door is open.\n")
    return tmp_path / "in"


def signatures(ran: Ran) -> set[str]:
    assert ran.code == 0, ran.err
    return {json.loads(line)["signature"] for line in ran.out.splitlines()}


def test_what_is_printed_is_what_runs(quitmt: Quitmt, text: Path) -> None:
    words = ("--rerank", "qe:likelihood", "-w", 2, "-n", 32, "--seed", 3, "--temperature", 0.9)
    printed = quitmt("recipe", *words)
    assert printed.code == 0 and printed.err == ""
    Path("my.toml").write_text(printed.out)
    as_json = quitmt("recipe", *words, "--json")
    assert files.load("my.toml") == Recipe.from_fields(json.loads(as_json.out))
    Path("my.json").write_text(as_json.out)
    by_flags = signatures(quitmt("translate", text, *words, "--jsonl"))
    for path in ("my.toml", "my.json"):
        assert signatures(quitmt("translate", text, "--recipe", path, "--jsonl")) == by_flags


def test_the_origin_of_every_value_is_printed(quitmt: Quitmt, text: Path) -> None:
    Path("my.toml").write_text('preset = "paper"\n[stop]\nn = 64\n')
    ran = quitmt("recipe", "--recipe", "my.toml", "--seed", 3)
    lines = {line.partition(" ")[0]: line for line in ran.out.splitlines()}
    assert lines["n"].startswith("n = 64") and lines["n"].endswith("(my.toml, line 3)")
    assert lines["seed"].endswith("(--seed)") and lines["w"].endswith("(preset paper)")
    assert lines["in_flight"].endswith("(default of embedded)")
    origins = json.loads(quitmt("recipe", "--recipe", "my.toml", "--seed", 3, "--json").out)["origins"]
    assert origins["stop.n"] == "my.toml, line 3" and origins["model.seed"] == "--seed"


def test_flags_win_over_the_file(quitmt: Quitmt, text: Path) -> None:
    Path("my.toml").write_text("[stop]\nw = 2\nn = 16\n[rerank]\nname = 'qe:likelihood'\n")
    [found] = signatures(quitmt("translate", text, "--recipe", "my.toml", "-w", 4, "--jsonl"))
    assert found.startswith("quit|k:8|w:4|a:0.001|n:16|") and "rerank:qe:likelihood" in found


def test_pools_and_calibration_take_it_too(quitmt: Quitmt, text: Path) -> None:
    Path("my.toml").write_text("[stop]\nw = 2\nn = 16\n[model]\nseed = 4\n")
    kept = quitmt(
        "translate", text, "--recipe", "my.toml", "--stop", "full", "--keep-pools", "pools", "-o", "/dev/null"
    )
    assert kept.code == 0
    [found] = signatures(quitmt("rerank", "pools", "--recipe", "my.toml", "--jsonl"))
    assert found.startswith("quit|k:8|w:2|a:0.001|n:16|gen:recorded")
    words = ("--max-loss", 1, "--risk", 0.9, "--confidence", "none", "-o", "profile.json")
    assert quitmt("calibrate", "pools", "--recipe", "my.toml", *words).code == 0
    profile = json.loads(Path("profile.json").read_text())
    assert profile["budget"] == 16 and profile["recipe"]["rerank"]["name"] == "mbr:chrf"
    other = quitmt("rerank", "pools", "--profile", "profile.json", "--rerank", "qe:likelihood")
    assert other.code == 2 and "--rerank is qe:likelihood, and --profile was made for mbr:chrf" in other.err


@pytest.mark.parametrize(
    ("recipe", "words", "said"),
    [
        ("[rerank]\nkeep = 3\n", ("--keep", 4), "--keep goes with --filter"),
        (
            "[model]\nname = 'openai:m'\noptions = { max_tokens = 5 }\n",
            ("--max-tokens", 0),
            "at least 1 token must be allowed, not 0",
        ),
    ],
)
def test_bad_recipes(recipe: str, words: tuple[object, ...], said: str, quitmt: Quitmt, text: Path) -> None:
    Path("my.toml").write_text(recipe)
    for command in (("translate", text), ("recipe",)):
        ran = quitmt(*command, "--recipe", "my.toml", *words)
        assert ran.code == 2 and ran.err.startswith(f"quitmt: {said}") and ran.err.count("\n") == 1
        assert ran.out == ""


def test_a_recipe_is_not_overwritten(quitmt: Quitmt, text: Path) -> None:
    Path("my.toml").write_text("[stop]\nn = 16\n")
    ran = quitmt("translate", text, "--recipe", "my.toml", "-o", "my.toml")
    assert ran.code == 2 and "my.toml is an input of this run and would be overwritten" in ran.err


@pytest.mark.parametrize(
    ("recipe", "words", "rule"),
    [
        ("[stop]\nrule = 'quit'\n", ("--max-cost", 100), "loss"),
        ("[stop]\nrule = 'quit'\nmax_loss = 0.1\n", ("--stop", "full"), "full"),
        ("[stop]\nrule = 'auto'\nmax_loss = 0.1\n", ("--max-cost", 100), "loss"),
        ("[stop]\nrule = 'auto'\nmax_loss = 0.1\n", ("--stop", "quit"), "quit"),
    ],
)
def test_a_wish_takes_the_place_of_a_rule_and_a_rule_of_wishes(
    recipe: str, words: tuple[object, ...], rule: str, quitmt: Quitmt, text: Path
) -> None:
    Path("my.toml").write_text(recipe)
    ran = quitmt("translate", text, "--recipe", "my.toml", *words, "--jsonl", "-q")
    assert {one.partition("|")[0] for one in signatures(ran)} == {rule}


def test_another_direction_than_the_printed_one(quitmt: Quitmt, text: Path) -> None:
    Path("my.toml").write_text(quitmt("recipe").out)
    ran = quitmt("recipe", "--recipe", "my.toml", "--src", "pt", "--json")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["model"]["name"] == "embedded:pt-en"


def test_a_profile_that_a_recipe_names_is_not_overwritten(quitmt: Quitmt, text: Path) -> None:
    Path("pools").write_text("".join(f'{{"id": "{n}", "candidates": ["a b", "a c", "a b"]}}\n' for n in range(9)))
    words = ("-n", 3, "-k", 1, "--max-loss", 1, "--risk", 0.9, "--confidence", "none", "-o", "mine.json")
    assert quitmt("calibrate", "pools", *words).code == 0
    Path("my.toml").write_text("[stop]\nprofile = 'mine.json'\n")
    ran = quitmt("rerank", "pools", "--recipe", "my.toml", "-o", "mine.json")
    assert ran.code == 2 and "mine.json is an input of this run and would be overwritten" in ran.err


def test_a_recipe_for_another_machine(quitmt: Quitmt, text: Path) -> None:
    """What is not installed here may be there."""
    ran = quitmt("recipe", "--model", "vllm:m", "--src", "en", "--tgt", "de", "--bare")
    assert ran.code == 0 and "vllm:m" in ran.out
    if find_spec("vllm") is None:
        assert ran.err == "quitmt: here, vllm: needs vllm (pip install 'quitmt[vllm]')\n"


def test_the_same_wish_is_one_text_however_it_is_written(quitmt: Quitmt, text: Path) -> None:
    printed = {quitmt("recipe", "--max-loss", loss, "--bare").out for loss in ("0.0010", "1e-3", ".001")}
    assert len(printed) == 1 and 'max_loss = "0.001"' in printed.pop()
    assert 'max_loss = "0.02sd"' in quitmt("recipe", "--max-loss", "0.020sd", "--bare").out


def test_recorded_pools_carry_no_sampling(quitmt: Quitmt, text: Path) -> None:
    """Nobody knows how they were sampled; a recipe's model does not count."""
    Path("pools").write_text('{"id": "1", "candidates": ["a b", "a c", "a b"]}\n')
    Path("my.toml").write_text("[model]\ntemperature = 0.5\n")
    for words in ((), ("--recipe", "my.toml")):
        [line] = quitmt("rerank", "pools", "--jsonl", *words).out.splitlines()
        assert json.loads(line)["recipe"]["model"] == {
            "name": "object:recorded",
            "source_language": "en",
            "target_language": "pt",
        }
