"""Metrics by name: scoring models and functions as metrics of systems."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from quitmt.errors import InputError, RerankError, UsageError
from quitmt.evaluate.metrics import METRICS, Progress, ScorerMetric, Setup, TestSet, find, load
from quitmt.metrics.devices import Hardware
from quitmt.metrics.registry import EVALUATORS, SCORING_MODELS
from quitmt.metrics.scorer import Example


class FakeScorer:
    """The length of all texts; negative, as a scorer of a metric that is published the other way round."""

    signature = "fake|x:1"

    def __init__(self, sign: int = 1) -> None:
        self.calls: list[list[Example]] = []
        self.sign = sign

    def score(self, examples: Sequence[Example], progress: Progress | None = None) -> npt.NDArray[np.float64]:
        self.calls.append(list(examples))
        for _ in examples:
            if progress:
                progress(1)
        return np.array([self.sign * float(len(f"{e.source}{e.translation}{e.reference}")) for e in examples])


def scored(kind: str, scorer: FakeScorer) -> ScorerMetric:
    """As the table makes it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("quitmt.metrics.scorer.load", lambda *_: scorer)
        metric = load(kind)
    assert isinstance(metric, ScorerMetric)
    return metric


SET = TestSet(("s", "ss", "s"), (("r", "rr", "r"), ("rrr", "rrr", "rrr")))
SYSTEMS = [["a", "aa", "a"], ["a", "bbb", "a"]]


def test_references_are_averaged_and_examples_scored_once() -> None:
    scorer = FakeScorer()
    metric = scored("comet", scorer)
    reported: list[int] = []
    found = metric.evaluate(SET, SYSTEMS, reported.append)
    assert [scores.segments.tolist() for scores in found] == [[4.0, 6.5, 4.0], [4.0, 7.5, 4.0]]
    assert [scores.system for scores in found] == [14.5 / 3, 15.5 / 3]
    (examples,) = scorer.calls
    assert len(examples) == len(set(examples)) == 6  # of 2 systems × 2 references × 3 segments
    assert sum(reported) == 6 and len(reported) == 6  # 2 systems × 3 segments
    assert (metric.name, metric.signature_for(2)) == ("COMET", "fake|x:1|refs:2,mean")
    assert metric.needs_source and metric.needs_reference and not metric.lower_is_better


def test_one_reference_and_none() -> None:
    one = scored("comet", FakeScorer())
    for count in (2, 1):  # a signature does not remember what was evaluated before
        one.evaluate(TestSet(SET.sources, SET.references[:count]), SYSTEMS)
        assert [one.signature_for(number) for number in (1, 2)] == ["fake|x:1", "fake|x:1|refs:2,mean"]
    scorer = FakeScorer()
    none = scored("kiwi", scorer)
    none.evaluate(SET, SYSTEMS)
    assert not none.needs_reference and none.signature_for(0) == none.signature_for(2) == "fake|x:1"
    assert scorer.calls == [[Example("s", "a"), Example("ss", "aa"), Example("ss", "bbb")]]


def test_lower_is_better_is_published_so() -> None:
    metric = scored("metricx", FakeScorer(sign=-1))
    found = metric.evaluate(TestSet(SET.sources, SET.references[:1]), SYSTEMS)
    assert metric.lower_is_better and found[1].segments.tolist() == [3.0, 7.0, 3.0]
    assert found[1].system == pytest.approx(13 / 3)


def test_bad_scores_are_refused() -> None:
    class Bad(FakeScorer):
        def score(self, examples: Sequence[Example], progress: Progress | None = None) -> npt.NDArray[np.float64]:
            return np.array([1.0, np.nan, 1.0])[: self.sign]

    with pytest.raises(RerankError, match="CometKiwi: the score of 'aa' is nan"):
        scored("kiwi", Bad(3)).evaluate(SET, SYSTEMS)
    with pytest.raises(RerankError, match="CometKiwi gave 2 scores for 3 examples"):
        scored("kiwi", Bad(2)).evaluate(SET, SYSTEMS)


class Holes(FakeScorer):
    """No score for the shortest translation, and whatever is said for the longest."""

    def __init__(self, longest: float = 3.0) -> None:
        super().__init__()
        self.longest = longest

    def score(self, examples: Sequence[Example], progress: Progress | None = None) -> npt.NDArray[np.float64]:
        return np.array([[np.nan, 2.0, self.longest][len(example.translation) - 1] for example in examples])


def judge(scorer: FakeScorer) -> ScorerMetric:
    return ScorerMetric(scorer, name="J", needs_reference=False, gaps=True)


def test_what_a_judge_leaves_open_does_not_count() -> None:
    first, second = judge(Holes()).evaluate(SET, [["a", "aa", "bbb"], ["aa", "aa", "bbb"]])
    assert first.segments.tolist() == pytest.approx([np.nan, 2.0, 3.0], nan_ok=True)
    assert (first.system, first.left_out) == (2.5, 1)
    assert (second.system, second.left_out) == (7 / 3, 0)


def test_a_judge_that_leaves_everything_open_is_refused() -> None:
    with pytest.raises(RerankError, match=r"J: none of the 3 answers about a system can be read \(the model may"):
        judge(Holes()).evaluate(SET, [["aa", "aa", "aa"], ["a", "a", "a"]])


def test_a_judge_has_no_infinite_scores_either() -> None:
    with pytest.raises(RerankError, match="J: the score of 'bbb' is -inf"):
        judge(Holes(-np.inf)).evaluate(SET, [["a", "aa", "bbb"]])


def test_a_ragged_test_set() -> None:
    with pytest.raises(InputError, match="sources and references have 1 and 2 segments"):
        TestSet(("a",), (("b", "c"),))


def test_every_name_is_explained_and_knows_what_it_needs() -> None:
    assert {*EVALUATORS} == {"chrf", "chrf++", "bleu", "gemba", *SCORING_MODELS} == {*METRICS} - {"module:attribute"}
    assert [name for name, entry in EVALUATORS.items() if entry.is_judge] == ["gemba"]
    assert find("gemba:openai:a/b")[0].needs_source and not find("gemba:openai:a/b")[0].needs_reference
    for name, kind in SCORING_MODELS.items():
        entry, argument = find(f"{name}:some/model")
        assert (entry.needs_source, entry.needs_reference) == (kind.needs_source, kind.needs_reference)
        assert argument == "some/model"
    assert [name for name, kind in SCORING_MODELS.items() if not kind.needs_source] == ["embedding"]
    assert not find("chrf")[0].needs_source and find("chrf")[0].needs_reference


def test_models_are_loaded_with_their_hardware(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, Hardware]] = []

    def load_scorer(spec: str, hardware: Hardware) -> FakeScorer:
        asked.append((spec, hardware))
        return FakeScorer()

    monkeypatch.setattr("quitmt.metrics.scorer.load", load_scorer)
    hardware = Hardware("cpu", "float32", 99)
    setup = Setup(hardware)
    assert load("comet", setup).name == "COMET"
    assert load("kiwi:Unbabel/wmt23-cometkiwi-da-xl", setup).name == "CometKiwi:wmt23-cometkiwi-da-xl"
    assert asked == [("comet", hardware), ("kiwi:Unbabel/wmt23-cometkiwi-da-xl", hardware)]


@pytest.mark.parametrize(
    ("engine", "shared"),
    [("openai", {}), ("hf", {"device": "cpu", "dtype": "float16"}), ("vllm", {"dtype": "float16"})],
)
def test_a_judge_is_made_with_what_its_engine_takes(
    engine: str, shared: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[object] = []
    monkeypatch.setattr("quitmt.evaluate.judge.engines.gemba", lambda *words: asked.append(words) or FakeScorer())
    setup = Setup(Hardware("cpu", "float16", 9), ("en", "pt"), {"max_tokens": 5}, tmp_path)
    metric = load(f"gemba:{engine}:a/b", setup)
    assert (metric.name, metric.lower_is_better) == ("GEMBA-MQM:b", False)
    assert asked == [(f"gemba:{engine}:a/b", ("en", "pt"), {**shared, "max_tokens": 5}, tmp_path)]


def test_unknown_names() -> None:
    with pytest.raises(UsageError, match=r"unknown metric 'commet' \(did you mean 'comet'\?\)"):
        load("commet")


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = "metrics_of_a_user"
    (tmp_path / f"{name}.py").write_text(
        """
calls = []
def two(translation, reference, factor=10):
    calls.append((translation, reference))
    return factor * len(translation) - len(reference)
def three(source, translation, reference): return len(source) * len(translation)
three.lower_is_better = True
def one(translation): return 0
def four(a, b, c, d): return 0
def named(translation, reference, *, factor): return 0
def broken(translation, reference): return 1 // (len(translation) - 2)
def endless(translation, reference): return float("inf") if translation == "bbb" else 0
def word(translation, reference): return "good"
def leaves(translation, reference): raise SystemExit(0)
def vast(translation, reference): return -1e308
number = 7
"""
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, name, raising=False)  # that of another test
    return name


def test_a_function_of_two(module: str) -> None:
    metric = load(f"{module}:two")
    reported: list[int] = []
    found = metric.evaluate(TestSet(None, SET.references), SYSTEMS, reported.append)
    assert [scores.segments.tolist() for scores in found] == [[8.0, 17.5, 8.0], [8.0, 27.5, 8.0]]
    assert found[0].system == 33.5 / 3 and sum(reported) == 6
    assert metric.name == "two"
    assert re.fullmatch(rf"function:{module}:two\|code:[0-9a-f]{{8}}\|refs:2,mean", metric.signature_for(2))
    assert not metric.needs_source and metric.needs_reference and not metric.lower_is_better
    calls = sys.modules[module].calls
    assert len(calls) == len(set(calls)) == 6


def test_a_function_of_three(module: str) -> None:
    metric = load(f"{module}:three")
    found = metric.evaluate(TestSet(SET.sources, SET.references[:1]), SYSTEMS)
    assert found[1].segments.tolist() == [1.0, 6.0, 1.0]
    assert metric.needs_source and metric.lower_is_better
    assert re.fullmatch(rf"function:{module}:three\|code:[0-9a-f]{{8}}", metric.signature_for(1))


def test_an_edited_function_has_another_signature(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = load(f"{module}:word").signature_for(1)
    assert load(f"{module}:word").signature_for(1) == before
    monkeypatch.setattr(sys.modules[module], "word", lambda translation, reference: "bad")
    assert load(f"{module}:word").signature_for(1) != before


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("number", r"number is a int \(it must be a function of \(translation, reference\) or \(source, "),
        ("one", r"one\(.*\) cannot be called as a metric \(it must be a function of \(translation, reference\) or"),
        ("four", "cannot be called as a metric"),
        ("named", "cannot be called as a metric"),
    ],
)
def test_functions_that_cannot_be_metrics(name: str, message: str, module: str) -> None:
    with pytest.raises(UsageError, match=message):
        load(f"{module}:{name}")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("broken", "broken failed at segment 2: ZeroDivisionError: "),
        ("endless", "endless gave inf for segment 2, not a number within ±1e\\+100"),
        ("vast", "vast gave -1e\\+308 for segment 1, not a number within"),
        ("leaves", "leaves failed at segment 1: SystemExit: 0"),
        ("word", "word failed at segment 1: ValueError: could not convert"),
    ],
)
def test_functions_that_fail(name: str, message: str, module: str) -> None:
    with pytest.raises(RerankError, match=message):
        load(f"{module}:{name}").evaluate(SET, SYSTEMS)
