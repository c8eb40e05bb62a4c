"""``quitmt score`` as a user runs it."""

from __future__ import annotations

import csv
import gzip
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import sacrebleu
from tests.conftest import Ran

from quitmt.cli import compare, score
from quitmt.evaluate.metrics import Scores
from quitmt.evaluate.report import MetricScores, Report
from quitmt.metrics.scorer import Example

Quitmt = Callable[..., Ran]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_pool: Callable[[int, int], list[str]]) -> Path:
    """A folder to be in, with sources, two references and two systems of 12 segments each."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "my_metrics", raising=False)  # that of another test
    columns = list(zip(*(make_pool(seed, 5) for seed in range(12)), strict=True))
    for name, texts in zip(("src", "ref", "ref2", "a.txt", "b.txt"), columns, strict=True):
        Path(name).write_text("\n".join(texts) + "\n")
    Path("my_metrics.py").write_text(
        "def length(translation, reference): return len(translation)\n"
        "length.lower_is_better = True\n"
        "def breaks(translation, reference): return translation.count('\\n')\n"
        "def sourced(source, translation, reference): return len(source)\n"
        "def broken(translation, reference): raise KeyError('oh\\nno')\n"
        "def stopped(translation, reference): raise KeyboardInterrupt\n"
        "def CometKiwi(translation, reference): return 0\n"
    )
    return tmp_path


def lines(name: str) -> list[str]:
    return Path(name).read_text().splitlines()


@pytest.mark.usefixtures("here")
def test_the_table(quitmt: Quitmt) -> None:
    ran = quitmt("score", "-t", "a.txt", "b.txt", "-r", "ref", "-m", "chrf++", "my_metrics:length")
    assert (ran.code, ran.err) == (0, "")
    a, b = (sacrebleu.corpus_chrf(lines(n), [lines("ref")], word_order=2).score for n in ("a.txt", "b.txt"))
    short, long = (sum(map(len, lines(name))) / 12 for name in ("a.txt", "b.txt"))
    heading, *rows = ran.out.splitlines()[:3]
    assert heading.split() == ["chrF++", "↑", "length", "↓"]
    for row, name, chrf, length in zip(rows, ("a.txt", "b.txt"), (a, b), (short, long), strict=True):
        marks = "*" if chrf == max(a, b) else "", "*" if length == min(short, long) else ""
        assert row.split() == [name, f"{chrf:.2f}{marks[0]}", f"{length:.2f}{marks[1]}"]
    assert "chrF++ ↑ higher is better; nrefs:1|case:mixed|eff:yes|nc:6|nw:2|space:no|version:" in ran.out
    assert "length ↓ lower is better; function:my_metrics:length" in ran.out


@pytest.mark.usefixtures("here")
def test_one_system_by_default(quitmt: Quitmt) -> None:
    ran = quitmt("score", "-t", "a.txt", "-r", "ref", "ref2")
    score = sacrebleu.corpus_chrf(lines("a.txt"), [lines("ref"), lines("ref2")], word_order=2).score
    assert ran.out.splitlines()[1].split() == ["a.txt", f"{score:.2f}"] and "nrefs:2" in ran.out
    assert "*" not in ran.out


@pytest.mark.usefixtures("here")
def test_segments_in_all_formats(quitmt: Quitmt) -> None:
    words = ("score", "-t", "a.txt", "b.txt", "-r", "ref", "-m", "chrf", "bleu", "--segments")
    expected = [sacrebleu.sentence_chrf(*pair).score for pair in zip(lines("b.txt"), [[r] for r in lines("ref")])]  # noqa: B905
    as_json = json.loads(quitmt(*words, "--format", "json").out)
    assert list(as_json["metrics"]) == ["chrF", "BLEU"] and list(as_json["systems"]) == ["a.txt", "b.txt"]
    assert as_json["metrics"]["chrF"]["lower_is_better"] is False
    assert as_json["systems"]["b.txt"]["chrF"]["segments"] == expected
    assert as_json["systems"]["b.txt"]["chrF"]["system"] == sacrebleu.corpus_chrf(lines("b.txt"), [lines("ref")]).score

    rows = list(csv.DictReader(quitmt(*words, "--format", "csv").out.splitlines()))
    assert len(rows) == 2 * 2 * 13
    mine = [row for row in rows if row["system"] == "b.txt" and row["metric"] == "chrF"]
    assert [row["segment"] for row in mine] == ["", *map(str, range(1, 13))]
    assert [float(row["score"]) for row in mine[1:]] == expected

    text = quitmt(*words).out.splitlines()
    start = text.index("segment\tsystem\tchrF\tBLEU")
    assert len(text) == start + 1 + 24
    assert text[start + 2].split("\t")[:3] == ["1", "b.txt", f"{expected[0]:.2f}"]

    short = json.loads(quitmt(*words[:-1], "--format", "json").out)
    assert short["systems"]["b.txt"]["chrF"] == {"system": as_json["systems"]["b.txt"]["chrF"]["system"]}


@pytest.mark.usefixtures("here")
def test_gzip_outcomes_and_an_output_file(quitmt: Quitmt) -> None:
    options = ("-r", "ref", "-m", "chrf++", "my_metrics:breaks", "--format", "csv", "--segments")
    plain = quitmt("score", "-t", "a.txt", *options).out
    Path("a.gz").write_bytes(gzip.compress(Path("a.txt").read_bytes()))
    outcomes = [{"id": i, "translation": text.replace(" ", "\n", 1)} for i, text in enumerate(lines("a.txt"))]
    Path("a.any").write_text("".join(json.dumps(outcome) + "\n" for outcome in outcomes))
    for name in ("a.gz", "a.any"):
        ran = quitmt("score", "-t", name, *options, "-o", "out.csv")
        assert (ran.code, ran.out, ran.err) == (0, "", "")
        assert Path("out.csv").read_text().replace(name, "a.txt") == plain


@pytest.mark.usefixtures("here")
def test_failed_outcomes_are_told_of(quitmt: Quitmt) -> None:
    Path("o.jsonl").write_text('{"translation": "", "stop": "failed"}\n' + '{"translation": "x"}\n' * 11)
    ran = quitmt("score", "-t", "o.jsonl", "-r", "ref")
    assert ran.code == 0 and ran.err == "quitmt: o.jsonl: 1 segment failed; scored with what there is\n"
    assert quitmt("score", "-t", "o.jsonl", "-r", "ref", "-q").err == ""


@pytest.mark.usefixtures("here")
def test_blank_lines_are_segments(quitmt: Quitmt) -> None:
    for name in ("ref", "a.txt"):
        Path(name).write_text("\n" + "\n".join(lines(name)[1:]) + "\n")
    found = json.loads(quitmt("score", "-t", "a.txt", "-r", "ref", "--format", "json", "--segments").out)
    segments = found["systems"]["a.txt"]["chrF++"]["segments"]
    assert len(segments) == 12 and segments[0] == 0.0 and min(segments[1:]) > 0


class FakeScorer:
    signature = "fake"

    def score(self, examples: Sequence[Example], progress: object = None) -> npt.NDArray[np.float64]:
        return np.array([-len(example.translation) / 4 for example in examples])


@pytest.mark.usefixtures("here")
def test_a_neural_metric(quitmt: Quitmt, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr("quitmt.metrics.scorer.load", lambda *words: asked.append(words) or FakeScorer())
    options = ("--device", "cpu", "--dtype", "float16", "--batch-tokens", 64)
    ran = quitmt("score", "-s", "src", "-t", "a.txt", "-m", "metricx-qe:x/y", *options, "--format", "json")
    mean = sum(map(len, lines("a.txt"))) / 4 / 12
    found = json.loads(ran.out)
    assert found["metrics"] == {"MetricX-QE:y": {"signature": "fake", "lower_is_better": True}}
    assert found["systems"]["a.txt"]["MetricX-QE:y"]["system"] == pytest.approx(mean)
    ((spec, hardware),) = asked  # type: ignore[misc]
    assert spec == "metricx-qe:x/y" and (hardware.device, hardware.dtype, hardware.batch_tokens) == (
        "cpu",
        "float16",
        64,
    )


@pytest.mark.usefixtures("here")
def test_finished_metrics_survive_one_that_fails(quitmt: Quitmt) -> None:
    words = ("score", "-t", "a.txt", "-r", "ref", "--format", "csv", "-m", "chrf")
    alone = quitmt(*words)
    ran = quitmt(*words, "my_metrics:broken", "bleu")
    assert (ran.code, ran.out) == (1, alone.out)
    assert ran.err == "quitmt: my_metrics:broken failed at segment 1: KeyError: 'oh\\nno'\n"
    stopped = quitmt(*words, "my_metrics:stopped", "bleu")
    assert (stopped.code, stopped.out, stopped.err) == (130, alone.out, "quitmt: interrupted\n")


@pytest.mark.usefixtures("here")
def test_what_no_one_foresaw_is_one_line_as_well(quitmt: Quitmt, monkeypatch: pytest.MonkeyPatch) -> None:
    class OutOfMemory(FakeScorer):
        def score(self, *_: object) -> npt.NDArray[np.float64]:
            raise RuntimeError("CUDA out\nof memory")

    monkeypatch.setattr("quitmt.metrics.scorer.load", lambda *_: OutOfMemory())
    ran = quitmt("score", "-s", "src", "-t", "a.txt", "-m", "kiwi")
    assert (ran.code, ran.out, ran.err) == (1, "", "quitmt: CometKiwi failed: RuntimeError: CUDA out of memory\n")


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-t", "a.txt"], "the metric chrf++ needs a reference (-r FILE)"),
        (["-t", "a.txt", "-r", "ref", "-m", "my_metrics:sourced"], "my_metrics:sourced needs the sources"),
        (["-t", "a.txt", "-r", "ref", "-m", "chrf", "chrf"], "the metric chrf is named twice"),
        (["-t", "a.txt", "a.txt", "-r", "ref"], "the file a.txt is named twice"),
        (["-t", "a.txt", "short", "-r", "ref"], "short has 2 lines, but ref has 12"),
        (["-t", "empty", "-r", "empty"], "empty is empty"),
        (["-t", ".", "-r", "ref"], "cannot read .: Is a directory"),
        (["-t", "mixed", "-r", "ref"], "mixed, line 2: not an outcome with a translation"),
        (["-t", "a.txt", "-s", "-", "-r", "ref"], "standard input cannot be scored (name a file)"),
        (["-t", "a.txt", "-r", "ref", "-o", "./ref"], "ref is an input of this run and would be overwritten"),
        (["-t", "a.txt", "-r", "ref", "-o", "nowhere/out"], "cannot write nowhere/out: there is no folder nowhere"),
        (["-t", "a.txt", "-r", "ref", "--dtype", "x", "-m", "chrf", "bleu"], "comet, not with chrf or bleu"),
        (["-t", "a.txt", "-r", "ref", "--src", "xx"], "--src goes with gemba:, not with chrf++"),
        (["-t", "a.txt", "-s", "src", "-m", "kiwi:a/x", "kiwi:b/x"], "two metrics would both be called CometKiwi:x"),
        (
            ["-t", "a.txt", "-s", "src", "--src", "en", "--tgt", "pt", "-m", "gemba:hf:a/x", "gemba:vllm:b/x"],
            "two metrics would both be called GEMBA-MQM:x (score them in two runs)",
        ),
    ],
)
def test_bad_input(words: list[str], message: str, quitmt: Quitmt, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*_: object) -> None:
        raise AssertionError("a model was loaded before the input was checked")

    monkeypatch.setattr("quitmt.metrics.scorer.load", load)
    monkeypatch.setattr("quitmt.evaluate.judge.engines.gemba", load)
    Path("short").write_text("a\nb\n")
    Path("empty").write_text("")
    Path("mixed").write_text('{"translation": "a"}\nb\n')
    before = Path("ref").read_text()
    ran = quitmt("score", *words)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("quitmt") and message in ran.err and ran.err.count("\n") == 1
    assert Path("ref").read_text() == before


@pytest.mark.usefixtures("here")
def test_all_metrics_are_loaded_before_one_is_run(quitmt: Quitmt) -> None:
    ran = quitmt("score", "-t", "a.txt", "-r", "ref", "-m", "my_metrics:broken", "bleu:no-such")
    assert ran.code == 2 and "unknown tokenizer of BLEU 'no-such'" in ran.err


@pytest.mark.usefixtures("here")
def test_columns_stand_as_asked_whatever_is_loaded_first(quitmt: Quitmt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quitmt.metrics.scorer.load", lambda *_: FakeScorer())
    monkeypatch.setattr("quitmt.evaluate.judge.engines.gemba", lambda *_: FakeScorer())
    specs = ["kiwi:a/x", "bleu", "comet", "my_metrics:length", "gemba:hf:a/y"]
    words = ("-s", "src", "-t", "a.txt", "-r", "ref", "--src", "en", "--tgt", "pt", "--format", "json")
    titles = ["CometKiwi:x", "BLEU", "COMET", "length", "GEMBA-MQM:y"]
    assert [*json.loads(quitmt("score", *words, "-m", *specs).out)["metrics"]] == titles


def test_what_is_no_json_is_never_written() -> None:
    report = Report(("a",), {"m": MetricScores("", False, {"a": Scores(np.ones(1), np.inf)})})
    with pytest.raises(ValueError, match="not JSON compliant"):
        list(score.as_json(report, segments=False))
    with pytest.raises(ValueError, match="not JSON compliant"):
        list(compare.as_json(compare.Compared(report, "a", [], {"seed": np.nan})))


@pytest.mark.usefixtures("here")
def test_a_metric_that_chose_the_translations_is_no_independent_judge(quitmt: Quitmt) -> None:
    """Outcomes know their reranker; translations in plain text don't."""
    recipe = {"rerank": {"name": "mbr:chrf"}}
    outcomes = [{"id": i, "translation": text, "recipe": recipe} for i, text in enumerate(lines("a.txt"))]
    Path("chosen").write_text("".join(json.dumps(outcome) + "\n" for outcome in outcomes))
    warning = "quitmt: chosen was chosen by chrf, which favours it: judge by another metric too\n"
    assert quitmt("score", "-t", "chosen", "a.txt", "-r", "ref", "-m", "chrf", "bleu").err == warning
    assert quitmt("score", "-t", "chosen", "-r", "ref", "-m", "bleu").err == ""
