"""One grammar for names, and names from installed packages: examples/plug_in, installed for real."""

from __future__ import annotations

import json
import os
import re
import tomllib
from pathlib import Path

import pytest

from quitmt import names, stop
from quitmt.errors import UsageError
from quitmt.generate.recorded import RecordedGenerator
from quitmt.names import FLAG, FLOAT, INT, SIZES, TABLE, TEXT, Option
from quitmt.plan import Recipe
from quitmt.plan.build import build
from quitmt.plan.plan import Parts
from quitmt.plan.resolve import resolve
from tests.conftest import Ran
from tests.forks import forked

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "plug_in"


def test_options_are_those_of_the_factory() -> None:
    def factory(
        step: int, most: float = 0.5, looks: int = 2, wide: bool = False, sizes: tuple[int, ...] = (1, 2)
    ) -> None:
        """As rules and methods are made."""

    options = names.options_of(factory, without=("looks",))
    assert {name: (one.type, one.default) for name, one in options.items()} == {
        "most": (FLOAT, 0.5),
        "wide": (FLAG, False),
        "sizes": (SIZES, (1, 2)),
    }
    text = "most=1e-3,wide=yes,sizes=4/8"
    assert names.parsed(text, options, "it") == {"most": 1e-3, "wide": True, "sizes": (4, 8)}


@pytest.mark.parametrize(
    ("option", "text", "value"),
    [
        (Option(INT), "12", 12),
        (Option(TEXT), "a,b", "a,b"),
        (Option(TABLE), '{"a": [1]}', {"a": [1]}),
        (Option(TEXT, choices=("chat", "completions")), "chat", "chat"),
    ],
)
def test_values(option: Option, text: str, value: object) -> None:
    assert option.parsed(text) == value and option.type.accepts(value)


@pytest.mark.parametrize(
    ("option", "text"),
    [
        (Option(INT), "1.5"),
        (Option(FLAG), "true"),
        (Option(TABLE), "[]"),
        (Option(TABLE), "[" * 10_000),
        (Option(TEXT, choices=("chat",)), "talk"),
    ],
)
def test_values_that_are_none(option: Option, text: str) -> None:
    with pytest.raises(ValueError):
        option.parsed(text)


MODULE = """
from dataclasses import dataclass
from quitmt import StopReason
from quitmt.stop.fixed import Fixed

@dataclass(frozen=True)
class Every:
    step: int = 8
    budget: int = 512
    each: int = 3
    @property
    def signature(self): return f"every|k:{self.step}|{self.each}|n:{self.budget}"
    def open(self): return self
    def observe(self, snapshot): return StopReason.STABLE if snapshot.size >= self.each * self.step else None
    def horizon(self, size): return self.each * self.step

@dataclass(frozen=True)
class Brief(Every):
    step: int = 4
    budget: int = 64

@dataclass(frozen=True)
class Told:
    step: int
    budget: int
    signature = "told"
    def open(self): return self

ready = Fixed(5, 5)
number = 3
def judge(snapshot): return None
def fails(step): raise ZeroDivisionError("at once")
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "own_rules_of_a_test.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    return "own_rules_of_a_test"


def test_rules_of_ones_own(module: str) -> None:
    assert stop.load(f"{module}:Every:each=2", k=4, n=64).signature == "every|k:4|2|n:64"
    assert stop.load(f"{module}:Every").signature == "every|k:8|3|n:512"
    assert stop.load(f"{module}:ready", k=4, n=64).signature == "fixed|k:5|n:5"


def test_a_rule_has_its_own_numbers_unless_it_is_told_others(module: str) -> None:
    def numbers(rule: str, **given: int) -> tuple[int, int, int | None, int | None]:
        recipe = Recipe().changed({"stop.rule": rule, **{f"stop.{name}": n for name, n in given.items()}})
        built = build(resolve(recipe, Parts(RecordedGenerator())))
        return built.rule.step, built.rule.budget, built.recipe.stop.k, built.recipe.stop.n

    assert numbers(f"{module}:Brief") == (4, 64, 4, 64)
    assert numbers(f"{module}:Brief", n=32) == (4, 32, 4, 32)
    assert numbers(f"{module}:Brief", k=2) == (2, 64, 2, 64)
    assert numbers(f"{module}:Told") == (8, 512, 8, 512)
    assert numbers(f"{module}:ready") == numbers(f"{module}:ready", n=5) == (5, 5, 5, 5)
    with pytest.raises(UsageError, match=rf"{module}:ready is made already, with n=5 \(leave n out, or name the class"):
        numbers(f"{module}:ready", n=64)


@pytest.mark.parametrize("rule", ["full", "fixed:8", "auto", "loss:most=0.01", "own_rules_of_a_test:Brief"])
@pytest.mark.parametrize(("field", "value"), [("w", 4), ("alpha", 0.1), ("single_step_window", True)])
def test_settings_that_a_rule_does_not_take(
    rule: str, field: str, value: object, module: str, caplog: pytest.LogCaptureFixture
) -> None:
    Recipe().changed({"stop.rule": "quit:watch=advantage", f"stop.{field}": value}).check()
    assert not caplog.messages
    Recipe().changed({"stop.rule": rule, f"stop.{field}": value}).check()
    assert caplog.messages == [f"{field} does nothing with {rule}: it goes with rule='quit'"]


def test_a_rule_takes_the_place_of_the_window_of_a_preset() -> None:
    full = Recipe.from_fields({"preset": "paper", "stop": {"rule": "full"}})
    assert build(resolve(full, Parts(RecordedGenerator()))).rule.signature == "full|k:8|n:512"
    Recipe.from_fields({"preset": "paper", "stop": {"max_loss": 0.01}}).check()


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("nowhere_at_all:Rule", "there is no module nowhere_at_all"),
        ("own_rules_of_a_test:Evry", "the module own_rules_of_a_test has no Evry (did you mean 'Every'?)"),
        (
            "own_rules_of_a_test.py:Every",
            "there is no module own_rules_of_a_test.py (write own_rules_of_a_test, without .py)",
        ),
        (
            "own_rules_of_a_test:Every:ech=2",
            "unknown option of the stopping rule own_rules_of_a_test:Every:ech=2 'ech'",
        ),
        (
            "own_rules_of_a_test:Brief:budget=64",
            "the budget of a rule is a setting of the run, not an option of the stopping rule own_rules_of_a_test:Brief"
            ":budget=64 (give n=64)",
        ),
        (
            "own_rules_of_a_test:judge",
            "own_rules_of_a_test:judge is a function of snapshot, and a stopping rule is a class, or a function that "
            "makes one (docs/extending.md",
        ),
        ("own_rules_of_a_test:number", "own_rules_of_a_test:number isn't a stopping rule: it has no signature"),
        (
            "own_rules_of_a_test:fails",
            "the stopping rule own_rules_of_a_test:fails cannot be made: ZeroDivisionError: at",
        ),
    ],
)
def test_rules_that_are_none(spec: str, said: str, module: str) -> None:
    with pytest.raises(UsageError) as caught:
        stop.load(spec)
    assert str(caught.value).startswith(said)


COMMANDS = {
    "all three": "translate --model shuffle:- --option capitals=yes --rerank mbr:overlap --stop patience:steps=2 -n 64 "
    "--jsonl",
    "another reranker": ["translate", "--model", "shuffle: ", "--rerank", "qe:brevity", "-n", "8"],
    "help": "translate --help",
    "a misspelt name": "translate --stop patiense",
    "a broken rule": "translate --stop broken",
    "a broken reranker": "translate --rerank qe:broken",
    "a bad option": "translate --model shuffle:x --option capitals=maybe",
    "help of rerank": "rerank --help",
    "models": "models",
    "a misspelt name of ours": "translate --model opnai:x",
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ran]:
    """Where the example is installed as pip would: its module, and its metadata beside it."""
    place = tmp_path_factory.mktemp("site")
    (place / "quitmt_example.py").write_text((EXAMPLE / "quitmt_example.py").read_text())
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    info = place / f"quitmt_example-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    groups = {**project["entry-points"]}
    for group, name in (("quitmt.rules", "broken"), ("quitmt.rerankers", "qe:broken"), ("quitmt.generators", "broken")):
        odd = {f"{name}-odd": "builtins:dict" if name == "broken" else "sys:maxsize"}
        groups[group] = {**groups[group], name: "not_there_at_all:Part", **odd}
    lines = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in own.items()) for group, own in groups.items()
    ]
    (info / "entry_points.txt").write_text("\n".join(lines))
    path = os.pathsep.join([str(place), os.environ.get("PYTHONPATH", "")])
    return forked(COMMANDS, tmp_path_factory.mktemp("here"), text="one two three\n", environment={"PYTHONPATH": path})


def test_an_installed_package_adds_names(runs: dict[str, Ran]) -> None:
    ran = runs["all three"]
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    assert sorted(found["translation"].split("-")) == ["One", "Three", "Two"]
    assert found["signature"].startswith(
        "patience|k:8|steps:2|n:64|gen:shuffle:-,capitals:True,t:0.7,seed:0|rerank:mbr:"
    )
    assert found["recipe"]["model"]["options"] == {"capitals": True}
    assert sorted(runs["another reranker"].out.split()) == ["one", "three", "two"]


def test_their_names_are_in_help_and_errors(runs: dict[str, Ran]) -> None:
    told = runs["help"].out
    assert "patience:steps=3" in told and "Stop when the best score has not risen for some steps." in told
    assert "shuffle:MODEL" in told and "mbr:overlap" in told
    for name, said in (
        ("a misspelt name", "did you mean 'patience'?"),
        ("a bad option", "--option capitals must be yes or no, not 'maybe'"),
    ):
        assert runs[name].code == 2 and said in runs[name].err and runs[name].err.count("\n") == 1


def test_a_broken_package_breaks_only_its_own_names(runs: dict[str, Ran]) -> None:
    for name, what in (("a broken rule", "stopping rule 'broken'"), ("a broken reranker", "reranker 'qe:broken'")):
        said = f"quitmt: the {what} of the package quitmt-example fails while it is imported: ModuleNotFound"
        assert runs[name].code == 2 and runs[name].err.startswith(said) and runs[name].err.count("\n") == 1
    told = re.sub(r"\s+", " ", runs["help"].out)
    assert "the stopping rule 'broken' of the package quitmt-example fails while" in told
    assert runs["help of rerank"].code == 0
    listed = runs["models"]
    assert listed.code == 0 and "the model 'broken' of the package quitmt-example fails while" in listed.out
    ours = runs["a misspelt name of ours"]
    assert ours.code == 2 and "did you mean 'openai:MODEL'?" in ours.err


def test_the_page_shows_the_example() -> None:
    page = (ROOT / "docs" / "extending.md").read_text()
    shown = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)[0]
    assert shown in (EXAMPLE / "pyproject.toml").read_text()
