"""A mistake in a function of the user's ends a run soon, with what to do; nothing else does."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import Ran

from quitmt.failures import ENOUGH
from quitmt.loops.faults import place_of

Quitmt = Callable[..., Ran]

FUNCTIONS = """
import json
from dataclasses import dataclass
from quitmt.errors import GenerationError
from quitmt.types import Draw

SAMPLED = []

def sample(source, start, stop):
    SAMPLED.append(source)
    return [f"{source} {index % 3}" for index in range(start, stop)]

def broken_sample(source, start, stop):
    SAMPLED.append(source)
    return json.loads("{")

def utility(hypothesis, reference):
    return 1 / 0

def forgotten(hypothesis, reference):
    len(hypothesis)

def score(source, candidate):
    return {}[candidate]

def once(source, candidate):
    return 1.0 if source == "line 12" else {}[candidate]

def varied(source, candidate):
    return {}[candidate] if source.endswith("3") else 1 / 0

class Away:
    signature = "away"

    async def draw(self, asks):
        for ask in asks:
            SAMPLED.append(ask.segment.source)
            yield Draw(ask.segment, ask.start, (), error=GenerationError("the server is away"))

    def close(self, segment):
        pass

away = Away()

@dataclass
class Rule:
    step: int = 4
    budget: int = 8
    signature = "rule"
    def open(self): return self
    def observe(self, snapshot): raise LookupError("which one?")
    def horizon(self, size): return 8
"""
LINES = 200


@pytest.fixture
def functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """In their folder, beside a file of lines; what was sampled for."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "functions_with_mistakes", raising=False)
    Path("functions_with_mistakes.py").write_text(FUNCTIONS)
    Path("in").write_text("".join(f"line {number}\n" for number in range(1, LINES + 1)))
    monkeypatch.syspath_prepend(tmp_path)
    import functions_with_mistakes  # type: ignore[import-not-found]

    sampled: list[str] = functions_with_mistakes.SAMPLED
    return sampled


def run(quitmt: Quitmt, *words: str) -> Ran:
    usual = ["--model", "MINE:sample", "--rerank", "mbr:chrf", "-n", "8", "-k", "4", "-o", "out"]
    given = [word.replace("MINE", "functions_with_mistakes") for word in [*usual, *words]]
    return quitmt("translate", "in", *given)


@pytest.mark.parametrize(
    ("words", "told", "line"),
    [
        (["--model", "MINE:broken_sample"], "sampling failed: JSONDecodeError: ", 'json.loads("{")'),
        (["--rerank", "mbr:MINE:utility"], "the utility failed: ZeroDivisionError: division by zero", "1 / 0"),
        (["--rerank", "mbr:MINE:forgotten"], "the utility failed: TypeError: ", None),
        (["--rerank", "qe:MINE:score"], "scoring failed: KeyError: 'line 1 0'", "return {}[candidate]"),
        (["--stop", "MINE:Rule"], "failed in observe: LookupError: which one?", "raise Lookup"),
    ],
)
def test_one_mistake_ends_the_run(
    words: list[str], told: str, line: str | None, quitmt: Quitmt, functions: list[str]
) -> None:
    ran = run(quitmt, *words)
    first, second = ran.err.splitlines()[-2:]
    assert ran.code == 1 and len(set(functions)) < LINES / 2
    assert first.startswith(f"quitmt: stopped: the first {ENOUGH} segments failed because of the same mistake: segment")
    assert told in first
    if line:
        number = next(n for n, text in enumerate(FUNCTIONS.splitlines(), start=1) if line in text)
        assert first.endswith(f"(functions_with_mistakes.py, line {number})")
    assert second.startswith("quitmt: to continue when it is fixed: quitmt translate in ") and " --resume; " in second
    assert second.endswith("quitmt --debug translate … shows the traceback")
    entries = [json.loads(entry) for entry in Path("out.journal").read_text().splitlines()[1:]]
    assert sum(entry.get("stop") == "failed" for entry in entries) == ENOUGH


@pytest.mark.parametrize(
    "words", [["--model", "MINE:away"], ["--rerank", "qe:MINE:once"], ["--rerank", "qe:MINE:varied"]]
)
def test_other_failures_are_outcomes(words: list[str], quitmt: Quitmt, functions: list[str]) -> None:
    ran = run(quitmt, *words)
    assert ran.code == 1 and "stopped" not in ran.err and " segments failed, the first with: " in ran.err
    assert len(set(functions)) == LINES == len(Path("out").read_text().splitlines())


def test_going_on_when_it_is_mended(quitmt: Quitmt, functions: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(quitmt, "--model", "MINE:broken_sample").code == 1
    import functions_with_mistakes as module

    monkeypatch.setattr(module, "broken_sample", module.sample)
    ran = run(quitmt, "--model", "MINE:broken_sample", "--resume")
    assert ran.code == 0 and len(Path("out").read_text().splitlines()) == LINES


def test_a_mended_metric_is_another_one_and_costs_nothing(
    quitmt: Quitmt, functions: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["--rerank", "mbr:MINE:utility"]
    assert run(quitmt, *words).code == 1
    import functions_with_mistakes as module

    monkeypatch.setattr(module, "utility", lambda hypothesis, reference: float(hypothesis == reference))
    refused = run(quitmt, *words, "--resume", "-n", "4")
    assert refused.code == 2 and "cannot resume: -n was 8" in refused.err
    ran = run(quitmt, *words, "--resume")
    assert ran.code == 0 and "which finished no segment: starting from the beginning" in ran.err
    assert len(Path("out").read_text().splitlines()) == LINES


def test_the_place_is_the_users_own_line() -> None:
    async def awaits() -> None:
        await asyncio.sleep(0)
        json.loads("{")

    with pytest.raises(ValueError) as caught:
        asyncio.run(awaits())
    assert place_of(caught.value) == f"test_mistakes.py, line {awaits.__code__.co_firstlineno + 2}"
    with pytest.raises(ZeroDivisionError) as none:
        exec("1 / 0")
    assert (place_of(none.value) or "").startswith("test_mistakes.py, line ")
    assert place_of(ValueError("never raised")) is None
