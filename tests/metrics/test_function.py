"""Any function as a metric, and what ``module:attribute`` finds."""

from __future__ import annotations

import math
import os.path
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quitmt.errors import UsageError
from quitmt.metrics.function import FunctionUtility, as_estimator, as_utility
from quitmt.names import attribute
from quitmt.types import Segment


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry not in ("", str(tmp_path))])
    return tmp_path


def test_attributes_of_installed_modules() -> None:
    assert attribute("os.path:join") is os.path.join
    assert attribute("os:path.join") is os.path.join


def test_the_current_directory_counts_only_while_importing(here: Path) -> None:
    (here / "only_here_for_a_test.py").write_text("import helper_only_here\nclass A:\n    b = helper_only_here.x\n")
    (here / "helper_only_here.py").write_text("x = 5\n")
    before = list(sys.path)
    assert attribute("only_here_for_a_test:A.b") == 5
    assert sys.path == before


def test_what_is_installed_wins_over_the_current_directory(here: Path) -> None:
    (here / "wave.py").write_text("raise RuntimeError('the wrong one')\n")
    sys.modules.pop("wave", None)
    assert callable(attribute("wave:open"))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("no_such_module_here:x", "there is no module no_such_module_here"),
        ("os.nowhere:x", "there is no module os.nowhere"),
        ("os:nothing.join", "the module os has no nothing.join"),
        ("os:path.nothing", "the module os has no path.nothing"),
        ("os", "'os' does not name a module and an attribute"),
        ("os:", "'os:' does not name"),
        ("os:a:b", "'os:a:b' does not name"),
        ("a/b.py:c", "'a/b.py:c' does not name"),
        ("broken_for_a_test:x", "fails while it is imported: ValueError: two lines$"),
        ("needs_more_for_a_test:x", "fails while it is imported: ModuleNotFoundError: No module named 'not_there'"),
    ],
)
def test_what_cannot_be_found(spec: str, message: str, here: Path) -> None:
    (here / "broken_for_a_test.py").write_text("raise ValueError('two\\nlines')\n")
    (here / "needs_more_for_a_test.py").write_text("import not_there\n")
    with pytest.raises(UsageError, match=message):
        attribute(spec)


def with_option(hypothesis: str, reference: str, scale: float = 10.0) -> float:
    return scale * len(hypothesis) + len(reference)


def with_source(source: str, hypothesis: str, reference: str = "") -> float:
    return 100 * len(source) + 10 * len(hypothesis) + len(reference)


@pytest.mark.parametrize(
    ("function", "forward", "backward"),
    [
        (lambda h, r: 10 * len(h) + len(r), 12, 21),
        (lambda s, h, r: 100 * len(s) + 10 * len(h) + len(r), 312, 321),
        (with_option, 12, 21),
        (with_source, 312, 321),
        (lambda *texts: 10 * len(texts[0]) + len(texts[1]), 12, 21),
    ],
)
def test_two_parameters_or_three(function: Callable[..., float], forward: float, backward: float) -> None:
    utility = FunctionUtility(function)
    arena = utility.open(Segment("1", "abc"))
    utility.encode([(arena, ["a", "bb"])])
    found = utility.compare(arena, range(1), range(1, 2))
    assert (found[0].tolist(), found[1].tolist()) == ([[forward]], [[backward]])


@pytest.mark.parametrize("wrong", [lambda h: 0.0, lambda a, b, c, d: 0.0, lambda h, *, r: 0.0, 7, str, "text"])
def test_what_is_no_utility(wrong: object) -> None:
    with pytest.raises(UsageError):
        as_utility(wrong)


@pytest.mark.parametrize("wrong", [lambda s: 0.0, lambda s, h, r: 0.0, None, dict])
def test_what_is_no_estimator(wrong: object) -> None:
    with pytest.raises(UsageError):
        as_estimator(wrong)


def test_objects_must_say_what_they_are() -> None:
    class Nameless:
        def score(self, pairs: object) -> list[float]:
            return []

    with pytest.raises(UsageError, match="Nameless has no signature"):
        as_estimator(Nameless())
    named = Nameless()
    named.signature = "named"  # type: ignore[attr-defined]
    assert as_estimator(named) is named


# Signatures


MODULE = """
import functools

def plain(a, b, scale=1.0): return scale * sum(len(w) for w in (a + b).split() if w not in {"x", "y", "z"})
class Callable:
    def __call__(self, a, b): return 1.0
made = Callable()
bound = Callable().__call__
cached = functools.lru_cache(lambda a, b: 1.0)
part = functools.partial(lambda a, b, c: 1.0, c=2)
def with_object(a, b, *, key=object(), memo={}): return 1.0
"""


def signatures(folder: Path, text: str, *names: str) -> list[str]:
    """As a process of its own finds them, whose texts have other hashes and whose objects other addresses."""
    folder.mkdir(exist_ok=True)
    (folder / "signed_for_a_test.py").write_text(text)
    told = "from quitmt.metrics.function import *\nimport sys, signed_for_a_test as m\n"
    told += "for name in sys.argv[1:]: print(as_utility(getattr(m, name)).signature)"
    command = [sys.executable, "-B", "-c", told, *names]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.split()


def test_a_function_s_signature_is_the_same_in_every_process(tmp_path: Path) -> None:
    names = ["plain", "made", "bound", "cached", "part", "with_object"]
    first = signatures(tmp_path, MODULE, *names)
    assert all("|code:" in signature for signature in first) and len(first) == len(names)
    assert signatures(tmp_path / "other", "# moved by a line\n" + MODULE, *names) == first


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("plain", "len(w)", "abs(w)"),
        ("plain", "scale *", "scale +"),
        ("plain", "(a + b)", "(b + a)"),
        ("plain", "scale=1.0", "scale=2.0"),
        ("plain", '"z"', '"w"'),
        ("made", "return 1.0", "return 2.0"),
        ("bound", "return 1.0", "return 2.0"),
        ("cached", "lambda a, b: 1.0", "lambda a, b: 2.0"),
        ("part", "c: 1.0", "c: 2.0"),
        ("part", "c=2", "c=3"),
        ("with_object", "key=object()", "key=None"),
    ],
)
def test_an_edited_function_has_another_signature(name: str, old: str, new: str) -> None:
    assert old in MODULE
    before: dict[str, Any] = {}
    after: dict[str, Any] = {}
    exec(MODULE, before)
    exec(MODULE.replace(old, new), after)
    for make in (as_utility, as_estimator):
        assert make(before[name], "n").signature != make(after[name], "n").signature


def test_what_has_no_code_is_signed_by_its_name() -> None:
    assert as_utility(math.dist).signature == "function:dist"


def test_pairs_call_the_function_once_each_way() -> None:
    called: list[tuple[str, str]] = []

    def utility(hypothesis: str, reference: str) -> float:
        called.append((hypothesis, reference))
        return len(hypothesis) - 2 * len(reference)

    made = FunctionUtility(utility)
    arena = made.open(Segment("1"))
    made.encode([(arena, ["a", "bb", "ccc"])])
    assert made.pairs(arena, np.array([0, 2]), np.array([1, 0])).tolist() == [-3.0, 1.0]
    assert called == [("a", "bb"), ("ccc", "a")]


def test_a_module_that_ends_the_program_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ends_it_all.py").write_text("import sys\nsys.exit(0)\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="the module ends_it_all fails while it is imported: SystemExit: 0"):
        attribute("ends_it_all:f")
