"""What the texts that name rerankers mean, and one sentence for each that means nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quitmt import rerank
from quitmt.errors import UsageError
from quitmt.metrics import scorer
from quitmt.metrics.devices import Hardware
from quitmt.metrics.scorer import Example
from quitmt.protocols import Update
from quitmt.rerank import Reranking
from quitmt.types import Candidate, Segment, Snapshot

MODULE = """
def overlap(hypothesis, reference):
    return len(set(hypothesis) & set(reference))

def longer(source, hypothesis, reference):
    return len(hypothesis) * len(source)

def close(source, candidate):
    return -abs(len(source) - len(candidate))

class Lengths:
    signature = "lengths"
    def score(self, pairs):
        return [len(candidate.text) for _, candidate in pairs]

lengths = Lengths()
number = 7
"""


class Fake:
    """A scoring model that counts letters: of the translation, and a tenth of those of the reference."""

    def __init__(self, spec: str, hardware: Hardware) -> None:
        self.signature = f"fake {spec} {hardware.device} {hardware.dtype}"

    def score(self, examples: Sequence[Example], progress: object = None) -> Any:
        return np.array([len(one.translation) + len(one.reference or "") / 10 for one in examples])


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scorer, "load", lambda spec, hardware=None: Fake(spec, hardware or Hardware()))


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "own_metrics_of_a_test.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    return "own_metrics_of_a_test"


def best(reranker: Any, *texts: str, source: str = "source") -> Snapshot:
    pool = [Candidate(text, scores={"q": float(len(text)), "p": -1.0}) for text in texts]
    [[snapshot]] = reranker.extend([Update(reranker.open(Segment("s", source)), pool, len(pool))])
    assert isinstance(snapshot, Snapshot)
    return snapshot


def test_a_function_in_the_current_directory(module: str) -> None:
    assert best(rerank.load(f"mbr:{module}:overlap"), "a", "ab", "bc") == Snapshot(3, 1, 4 / 3)
    assert best(rerank.load(f"mbr:{module}:longer"), "a", "abc", source="xx") == Snapshot(2, 1, 6.0)
    assert best(rerank.load(f"qe:{module}:close"), "a", "abcdef", "abcdefgh") == Snapshot(3, 1, 0.0)
    assert best(rerank.load(f"qe:{module}:lengths"), "a", "bc") == Snapshot(2, 1, 2.0)
    assert rerank.load(f"qe:{module}:close").signature.startswith(f"qe:function:{module}:close|code:")
    assert rerank.load(f"qe:{module}:lengths").signature == "qe:lengths"


def test_combinations_add_up(module: str, fake: None) -> None:
    assert best(rerank.load("qe:0.5*recorded:q+2*recorded:p"), "abcd", "ab") == Snapshot(2, 0, 0.0)
    assert best(rerank.load(f"qe:-1*recorded:q + {module}:close"), "abcd", "ab") == Snapshot(2, 0, -6.0)
    assert best(rerank.load("qe:kiwi:some/model+1e-1*metricx"), "abcd", "ab").score == pytest.approx(4.4)
    assert rerank.load("qe:0.7*kiwi:m+metricx").signature == "qe:0.7*fake kiwi:m None None+1*fake metricx-qe None None"


def test_utilities_add_up(fake: None) -> None:
    """An expected utility is linear in the utility."""
    texts = "o gato dormiu", "o gato comeu", "um gato dormiu"
    chrf, bleu, both = (best(rerank.load(name), *texts) for name in ("mbr:chrf", "mbr:bleu", "mbr:2*chrf+0.5*bleu"))
    assert both.best == chrf.best == bleu.best == 0
    assert both.score == pytest.approx(2 * chrf.score + 0.5 * bleu.score)
    assert rerank.load("mbr:0.5*chrf+++comet:m").signature == "mbr:0.5*chrF2|c:6|w:2+1*fake comet:m None None"
    assert rerank.load("mbr:chrf").signature == "mbr:chrF2|c:6"


def test_a_sum_of_utilities_goes_with_faster_kinds_and_filters() -> None:
    texts = "o gato dormiu", "o gato comeu", "um gato dormiu", "a casa"
    expected = best(rerank.load("mbr:2*chrf+0.5*bleu"), *texts)
    assert best(rerank.load("mbr:2*chrf+0.5*bleu", variant="lowrank:reduction=1"), *texts).score == pytest.approx(
        expected.score
    )
    assert best(rerank.load("mbr:2*chrf+0.5*bleu", filter="qe:recorded:q"), *texts) == expected


def test_what_a_name_says_of_a_combination_is_what_the_reranker_says(fake: None) -> None:
    for name in ("mbr:0.5*chrf+0.5*comet", "mbr:rank:chrf+comet", "qe:scaled:kiwi+metricx", "qe:kiwi+metricx"):
        assert Reranking(name, support="all").traits == rerank.load(name).traits
        assert Reranking(name).neural
    assert Reranking("mbr:0.5*chrf+vote").usual_support == "all"
    assert Reranking("mbr:rank:chrf+bleu").usual_support == "anchor"


def test_scoring_models_get_their_model_and_hardware(fake: None) -> None:
    hardware = Hardware("cpu", "bfloat16")
    for spec, told in (("qe:kiwi", "kiwi"), ("qe:xcomet", "xcomet-qe"), ("qe:metricx:m", "metricx-qe:m")):
        assert rerank.load(spec, hardware=hardware).signature == f"qe:fake {told} cpu bfloat16"
    assert (
        rerank.load("mbr:xcomet:some/model", hardware=hardware).signature == "mbr:fake xcomet:some/model cpu bfloat16"
    )
    assert best(rerank.load("mbr:xcomet"), "abc", "abcd", "a").score == pytest.approx(4 + 8 / 30)


def test_which_rerankers_are_scoring_models() -> None:
    assert Reranking("mbr:comet").neural and Reranking("qe:0.5*likelihood+0.5*xcomet:m").neural
    assert Reranking("mbr:chrf", filter="qe:kiwi").neural and not Reranking("mbr:chrf", filter="qe:likelihood").neural
    assert not Reranking("qe:my_module:kiwi").neural and not Reranking("qe:recorded:comet").neural


def test_a_filter() -> None:
    reranker = rerank.load("mbr:chrf", filter="qe:recorded:q")
    assert reranker.signature == "mbr:chrF2|c:6|filter:recorded:q|m:64"
    assert rerank.load("mbr:chrf", filter="qe:recorded:q", keep=2).signature.endswith("|m:2")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("mbr:chfr", "unknown reranker 'mbr:chfr' .did you mean 'mbr:chrf'"),
        ("mbr:chrf:2", "unknown option of mbr:chrf '2'"),
        ("mbr:chrf:order=x", "'order=x' is not a setting of mbr:chrf .order is a whole number, as in order=6"),
        ("comet", "unknown reranker 'comet' .did you mean 'mbr:comet'"),
        ("xcomet", "did you mean 'mbr:xcomet' or 'qe:xcomet'"),
        ("mbr", "'mbr' lacks a metric .there is mbr:chrf, "),
        ("qe:", "'qe:' lacks a metric .there is qe:likelihood, "),
        ("qe:+recorded:q", "a metric is missing in '.recorded:q'"),
        ("mbr:vote:", "unknown reranker 'mbr:vote:'"),
        ("mbr:vote:os", "'os' does not name a module and an attribute"),
        ("mbr:vote:own_metrics_of_a_test:number", "an object of int isn't a metric .it must be answer.text."),
        ("mbr:vote:own_metrics_of_a_test:close", "cannot be called as a metric .it must be answer.text."),
        ("zzz", "there is mbr:A.X.B.Y, mbr:MODULE:NAME, mbr:bleu, mbr:chrf"),
        ("mbr:chrf+++", "a metric is missing in 'chrf...'"),
        ("mbr:0.5*chrf+0.5*zzz", "unknown reranker 'mbr:zzz'"),
        ("mbr:0.5*chrf+kiwi", "CometKiwi scores without a reference"),
        ("mbr:rank:", "a metric is missing in 'rank:'"),
        ("mbr:scaled:much*chrf", "'much' in 'scaled:much.chrf' is not a weight"),
        ("mbr:bleu:tokenize=ja", "the tokenizer of BLEU must be one of 13a, intl, zh, char, none, not 'ja'"),
        ("mbr:chrf++:words=0", "word n-grams of order 1 to 64, not 0"),
        ("qe:recorded", "needs the name of a score"),
        ("qe:likelyhood", "did you mean 'qe:likelihood'"),
        ("qe:comet", "COMET needs a reference .reranker='mbr:comet'"),
        ("mbr:kiwi", "CometKiwi scores without a reference"),
        ("qe:0.7*recorded:q+", "a metric is missing in '0.7.recorded:q.'"),
        ("qe:0.7*+recorded:q", "a metric is missing"),
        ("qe:much*recorded:q", "'much' in 'much.recorded:q' is not a weight"),
        ("qe:nan*recorded:q", "'nan' in 'nan.recorded:q' is not a weight"),
        ("qe:0.5*recorded:q+0.5*zzz", "unknown reranker 'qe:zzz'"),
        ("qe:no_such_module:x", "there is no module no_such_module"),
        ("mbr:rank:chrf+qe:likelihood", "all metrics of a sum are of one kind, and 'qe:likelihood' has its own"),
        ("mbr:own_metrics_of_a_test:nothing", "the module own_metrics_of_a_test has no nothing"),
        ("mbr:own_metrics_of_a_test:number", "an object of int isn't a metric"),
        ("qe:own_metrics_of_a_test:Lengths", "Lengths is a class, not a function"),
        ("qe:own_metrics_of_a_test:longer", "cannot be called as a metric .it must be score.source, candidate."),
    ],
)
def test_what_means_nothing(spec: str, message: str, module: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        rerank.load(spec)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"spec": "qe:likelihood", "filter": "qe:recorded:q"}, "filter goes with an mbr: reranker, not with qe:like"),
        ({"spec": "mbr:chrf", "filter": "mbr:chrf"}, "the filter 'mbr:chrf' isn't a QE metric"),
        ({"spec": "mbr:chrf", "filter": "likelihood"}, "the filter 'likelihood' isn't a QE metric"),
        ({"spec": "mbr:chrf", "filter": "qe:rank:recorded:q"}, "a filter cannot be 'qe:rank:recorded:q'"),
        ({"spec": "mbr:rank:chrf", "filter": "qe:recorded:q"}, "filter does not go with mbr:rank:chrf"),
        ({"spec": "mbr:rank:chrf", "variant": "prune"}, "mbr does not go with mbr:rank:chrf"),
        ({"spec": "mbr:chrf", "keep": 5}, "keep goes with filter .as in filter='qe:likelihood' keep=64"),
        ({"spec": "mbr:chrf", "filter": "qe:recorded:q", "keep": 0}, "at least 1 candidate, not 0"),
    ],
)
def test_filters_that_mean_nothing(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        rerank.load(**settings)


def test_likelihood_needs_to_know_its_direction() -> None:
    with pytest.raises(UsageError, match="model of the reverse direction"):
        rerank.load("qe:likelihood", languages=(None, "pt"))
