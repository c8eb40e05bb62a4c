"""Texts with more tokens than a scoring model reads: counted, told once for each run, and marked in the outcome."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.comet.folders import make_folder
from tests.conftest import Ran
from tests.metrics.neural.tiny_metricx import make_metricx

pytest.importorskip("torch")

from quitmt.metrics import scorer
from quitmt.metrics.devices import Hardware
from quitmt.metrics.neural import tokenization
from quitmt.metrics.neural.tokenization import Cuts
from quitmt.metrics.scorer import Example

CPU = Hardware(device="cpu")
LONG, LONGER = "casa " * 600, "gato " * 900
Quitmt = Callable[..., Ran]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    root = tmp_path_factory.mktemp("models")
    found = {"comet": "regression", "kiwi": "unified", "xcomet": "xcomet"}
    made = {kind: str(make_folder(root, name)) for kind, name in found.items()}
    return {**made, "metricx": str(make_metricx(root / "metricx"))}


def test_what_is_cut_is_remembered_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenization, "REMEMBERED", 2)
    found = Cuts(512)
    for text, tokens in (("a", 1), ("b", 5), ("whole", 0), ("b", 3), ("c", 2)):
        found.note(text, tokens)
    assert found.among(["a", "b", "c", "whole"]) == [5, 2]


@pytest.mark.parametrize(
    ("kind", "limit"), [("comet", 512), ("kiwi", 512), ("xcomet", 512), ("xcomet-qe", 512), ("metricx", 1536)]
)
def test_every_kind_of_model_counts_what_it_cuts(folders: dict[str, str], kind: str, limit: int) -> None:
    model: Any = scorer.load(f"{kind}:{folders[kind.removesuffix('-qe')]}", CPU)
    model.score([Example("A house.", "uma casa", "a casa"), Example("A house.", "velha " * 2000, "a casa")])
    assert model.cuts.limit == limit
    assert model.cuts.among(["A house.", "uma casa", "a casa"]) == []
    [left_out] = model.cuts.among(["velha " * 2000])
    assert left_out > 0


def test_texts_that_are_only_together_too_long(folders: dict[str, str]) -> None:
    """CometKiwi reads translation and source as one sequence."""
    model: Any = scorer.load(f"kiwi:{folders['kiwi']}", CPU)
    half = "casa " * 180
    alone = len(model.encoder.tokenize([half])[0])
    assert alone < 512 < 2 * alone
    model.score([Example(half, half)])
    assert model.cuts.among([half]) == [2 * alone - 512]


def test_a_run_tells_and_marks_it(quitmt: Quitmt, folders: dict[str, str], tmp_path: Path) -> None:
    pools = [
        {"id": "1", "source": "A house.", "candidates": ["uma casa", "a casa"]},
        {"id": "2", "source": "A house.", "candidates": ["uma casa", LONG, LONGER]},
    ]
    (tmp_path / "pools").write_text("".join(json.dumps(pool) + "\n" for pool in pools))
    ran = quitmt(
        "rerank", tmp_path / "pools", "--rerank", f"mbr:comet:{folders['comet']}", "--device", "cpu", "--stop", "full",
        "--jsonl",
    )  # fmt: skip
    first, second = (json.loads(line).get("warnings", []) for line in ran.out.splitlines())
    assert not any("scored in part" in one for one in first)
    [told] = [one for one in second if one.startswith("scored in part: 2 of 4 texts, ")]
    assert told.endswith(" tokens left out")
    assert ran.err.count("quitmt: scored in part in 1 segment (2): ") == 1


def test_every_reranker_passes_the_question_on(folders: dict[str, str]) -> None:
    from quitmt import protocols, rerank

    comet, kiwi = f"comet:{folders['comet']}", f"kiwi:{folders['kiwi']}"
    scorer_of: Any = scorer.load(comet, CPU)
    scorer_of.cuts.note("long", 7)
    other: Any = scorer.load(kiwi, CPU)
    other.cuts.note("long", 7)
    made = [
        rerank.load(f"mbr:{comet}", hardware=CPU),
        rerank.load(f"mbr:{comet}", hardware=CPU, variant="centroid"),
        rerank.load(f"mbr:{comet}", hardware=CPU, support="given"),
        rerank.load(f"mbr:0.5*chrf+0.5*{comet}", hardware=CPU),
        rerank.load(f"mbr:rank:chrf+{comet}", hardware=CPU),
        rerank.load("mbr:chrf", hardware=CPU, filter=f"qe:{kiwi}"),
        rerank.load(f"qe:{kiwi}", hardware=CPU),
        rerank.load(f"qe:0.5*recorded:q+0.5*{kiwi}", hardware=CPU),
    ]
    assert [protocols.cut(one, ["short", "long"]) for one in made] == [[7]] * len(made)
    assert protocols.cut(rerank.load("mbr:chrf"), ["long"]) == []


def test_evaluation_tells_it_too(
    folders: dict[str, str], tmp_path: Path, quitmt: Quitmt, caplog: pytest.LogCaptureFixture
) -> None:
    for name, lines in (("src", ["A house."]), ("ref", ["a casa"]), ("out", [LONG])):
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    ran = quitmt(
        "score", "-t", tmp_path / "out", "-s", tmp_path / "src", "-r", tmp_path / "ref", "-m",
        f"comet:{folders['comet']}", "--device", "cpu",
    )  # fmt: skip
    assert ran.code == 0 and "read 1 of 3 texts only in part" in ran.err + caplog.text
