"""Whole exports: documented columns and types, summaries, and errors of one sentence."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet
from tests.conftest import Ran

from quitmt.errors import QuitmtError
from quitmt.export import ExportSettings, export, writers
from quitmt.export.formats import FORMATS

Quitmt = Callable[..., Ran]
SOURCE = "The old house {} is near the river."
TEXTS = ["A casa velha {} fica perto do rio.", "A casa antiga {} é perto do rio.", "A casa {} do rio é velha."]
ABOUT = {"id": "string", "source": "string", "size": "int64", "stop": "string", "signature": "string"}
TYPES = {
    "sft": {"prompt": "string", "completion": "string", "score": "double"},
    "parallel": {"source": "string", "target": "string", "score": "double"},
    "dpo": {"prompt": "string", "chosen": "string", "rejected": "string"}
    | {"score_chosen": "double", "score_rejected": "double", "margin": "double"},
    "kto": {"prompt": "string", "completion": "string", "label": "bool", "score": "double"},
    "ranked": {"prompt": "string", "completions": "list<element: string>", "scores": "list<element: double>"}
    | {"counts": "list<element: int64>", "log_probabilities": "list<element: double>"},
    "reward": {"prompt": "string", "completion": "string", "score": "double"}
    | {"count": "int64", "log_probability": "double"},
}
"""As documented in docs/training-data.md."""
CHAT = "list<element: struct<role: string, content: string>>"


def pool(number: int, **fields: Any) -> dict[str, Any]:
    texts = [text.format(number) for text in (*TEXTS, TEXTS[0])]
    scores = {"q": [0.9, 0.5, 0.1, 0.9]}
    return {"id": number, "source": SOURCE.format(number), "candidates": texts, "scores": scores, **fields}


def write(path: Path, *lines: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return path


@pytest.fixture
def pools(tmp_path: Path) -> Path:
    return write(tmp_path / "pools.jsonl", *(pool(number, generator="g") for number in range(5)))


def rows_of(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".parquet":
        found: list[dict[str, Any]] = parquet.read_table(path).to_pylist()
        return found
    data = path.read_bytes()
    return [json.loads(line) for line in (gzip.decompress(data) if path.suffix == ".gz" else data).splitlines()]


@pytest.mark.parametrize("name", FORMATS)
def test_parquet_and_json_lines_have_the_same_rows(name: str, pools: Path, tmp_path: Path) -> None:
    for suffix in ("parquet", "jsonl", "jsonl.gz"):
        export(pools, tmp_path / f"out.{suffix}", format=name)
    table = parquet.read_table(tmp_path / "out.parquet")
    wanted = {**TYPES[name], **{key: kind for key, kind in ABOUT.items() if key not in TYPES[name]}}
    assert {field.name: str(field.type) for field in table.schema} == wanted
    rows = rows_of(tmp_path / "out.parquet")
    assert rows == rows_of(tmp_path / "out.jsonl") == rows_of(tmp_path / "out.jsonl.gz")
    assert len(rows) == {"kto": 10, "reward": 15}.get(name, 5) and list(rows[0]) == list(wanted)
    assert (rows[0]["id"], rows[0]["size"], rows[0]["signature"]) == ("0", 4, "g")


def test_contents_of_rows(pools: Path, tmp_path: Path) -> None:
    best, middle, worst = (text.format(0) for text in TEXTS)
    found = {name: tmp_path / f"{name}.jsonl" for name in FORMATS}
    for name, path in found.items():
        export([pools], path, ExportSettings(name), about=False)
    first = {name: rows_of(path)[0] for name, path in found.items()}
    source = SOURCE.format(0)
    assert first["sft"] == {"prompt": source, "completion": best}
    assert first["parallel"] == {"source": source, "target": best}
    assert first["dpo"] == {"prompt": source, "chosen": best, "rejected": worst}
    assert first["kto"] == {"prompt": source, "completion": best, "label": True}
    assert rows_of(found["kto"])[1] == {"prompt": source, "completion": worst, "label": False}
    assert first["ranked"] == {"prompt": source, "completions": [best, middle, worst], "scores": [0.9, 0.5, 0.1]}
    assert [row["score"] for row in rows_of(found["reward"])[:3]] == [0.9, 0.5, 0.1]


@pytest.mark.parametrize("name", ["sft", "dpo", "kto", "ranked", "reward"])
def test_chats(name: str, pools: Path, tmp_path: Path) -> None:
    settings = ExportSettings(name, prompt="instruct", chat=True, languages=("en", "pt"))
    export(pools, tmp_path / "out.parquet", settings)
    schema = parquet.read_table(tmp_path / "out.parquet").schema
    assert str(schema.field("prompt").type) == CHAT
    [message] = rows_of(tmp_path / "out.parquet")[0]["prompt"]
    assert message["role"] == "user" and "from English into Portuguese" in message["content"]
    assert message["content"].endswith(SOURCE.format(0))
    answers = [key for key, kind in FORMATS[name].trained.items() if kind == "completion"]
    for key in answers:
        [answer] = rows_of(tmp_path / "out.parquet")[0][key]
        assert answer["role"] == "assistant" and "{" not in answer["content"]
    assert answers or str(schema.field("completions").type) == f"list<element: {CHAT}>"


def test_a_template_whose_contents_are_lists(pools: Path, tmp_path: Path) -> None:
    settings = ExportSettings("sft", prompt="translategemma", chat=True, languages=("en", "pt"))
    export(pools, tmp_path / "out.parquet", settings)
    [message] = rows_of(tmp_path / "out.parquet")[0]["prompt"]
    assert message["content"][0]["text"] == SOURCE.format(0)


def test_two_files_and_tsv(tmp_path: Path) -> None:
    breaks = pool(1, candidates=["A casa\tvelha\nfica {} perto do rio."], scores={"q": [1]})
    path = write(tmp_path / "pools.jsonl", breaks, pool(2))
    export(path, tmp_path / "train.en", format="parallel", targets=str(tmp_path / "train.pt"))
    export(path, tmp_path / "train.tsv", format="parallel")
    sides = [(tmp_path / name).read_text("utf-8").splitlines() for name in ("train.en", "train.pt")]
    assert sides[1][0] == "A casa velha fica {} perto do rio." and len(sides[0]) == len(sides[1]) == 2
    assert (tmp_path / "train.tsv").read_text("utf-8").splitlines() == [
        "\t".join(pair) for pair in zip(*sides, strict=True)
    ]


def test_the_summary_gives_reasons(quitmt: Quitmt, tmp_path: Path) -> None:
    failed = {"id": "f", "source": "s", "translation": "", "index": None, "score": None, "size": 0, "stop": "failed"}
    lines = [
        pool(1),
        pool(1, id="again"),
        pool(2, source=""),
        pool(3, candidates=["A casa velha fica perto do rio."] * 4),
        pool(4, scores={"q": [0.5] * 4}),
        pool(5, candidates=[SOURCE.format(5)] * 3 + [SOURCE.format(5).upper()]),
        pool(6, scores={"q": [None] * 4}),
        failed,
    ]
    ran = quitmt("export", write(tmp_path / "in.jsonl", *lines), "--as", "dpo", "-o", tmp_path / "out.jsonl")
    assert ran.code == 0 and ran.out == ""
    one, other = ran.err.splitlines()
    assert one == "quitmt: 1 of 8 sources gave 1 pairs"
    reasons = {
        "are duplicates", "have no source", "have only one distinct candidate", "have no candidate below the margin",
        "have only candidates that the filters remove", "have no scored candidate", "failed",
    }  # fmt: skip
    told = other.removeprefix("quitmt: 7 gave none: ").split(", ")
    assert {reason.partition(" ")[2] for reason in told} == reasons and len(told) == 7


BARE = {"id": 1, "source": SOURCE, "candidates": ["a", "b"]}
LISTLESS = {"id": 1, "source": "s", "translation": "t", "index": 0, "score": 1.0, "size": 1, "stop": "stable"}
BAD: dict[str, tuple[list[dict[str, Any]], dict[str, Any], str]] = {
    "no scores": ([BARE], {}, "in.jsonl, line 1: the pool has no scores"),
    "one candidate": (
        [pool(1, candidates=["A casa"], scores={"q": [1]})],
        {},
        "none of 1 sources gave a row: 1 have only one distinct candidate",
    ),
    "all equal": ([pool(1, candidates=["A casa"] * 4)], {"format": "ranked"}, "1 have only one distinct candidate"),
    "no source": ([pool(1, source=""), pool(2, source=" ")], {"format": "sft"}, "2 have no source"),
    "no languages": ([pool(1)], {"format": "sft", "chat": True, "prompt": "instruct"}, "must be told the languages"),
    "an unknown format": ([pool(1)], {"format": "dop"}, "unknown format 'dop' (did you mean 'dpo'?)"),
    "no list": ([LISTLESS], {}, "outcome 1 has no n-best list, which dpo needs (translate or rerank again with "),
    "nothing": ([], {"format": "sft"}, "the input is empty"),
    "no pairs": ([pool(1)], {"pairs": 0}, "pairs must be at least 1"),
    "two files of pairs": ([pool(1)], {"targets": "x.pt"}, "targets needs the format 'parallel'"),
    "a bad line": ([{"id": 1, "candidates": [1]}], {}, "in.jsonl, line 1: candidate 0 is not a text"),
}


@pytest.mark.parametrize("output", ["out.parquet", "out.jsonl"])
@pytest.mark.parametrize("what", BAD)
def test_bad_input_leaves_no_output(what: str, output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines, settings, message = BAD[what]
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "in.jsonl", *lines)
    with pytest.raises(QuitmtError) as caught:
        export("in.jsonl", output, **settings)
    assert message in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


def test_the_outputs_name_determines_its_format(pools: Path, tmp_path: Path) -> None:
    with pytest.raises(QuitmtError, match="the output's file name must show its format"):
        export(pools, tmp_path / "out.csv")


@pytest.mark.parametrize(
    ("line", "words", "message"),
    [
        (pool(1), "--pairs 0", "--pairs must be at least 1"),
        (
            BARE,
            "",
            "line 1: the pool has no scores (score it with: quitmt rerank in.jsonl --rerank mbr:chrf "
            "--stop full --keep-pools scored.jsonl)",
        ),
    ],
)
def test_errors_on_the_command_line_are_one_sentence(
    line: dict[str, Any], words: str, message: str, quitmt: Quitmt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "in.jsonl", line)
    ran = quitmt("export", "in.jsonl", "--as", "dpo", "-o", "out.jsonl", *words.split())
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("quitmt: ") and message in ran.err and ran.err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


def test_existing_files_are_not_overwritten(quitmt: Quitmt, pools: Path, tmp_path: Path) -> None:
    (tmp_path / "out.jsonl").write_text("mine")
    (tmp_path / "out.pt").write_text("mine")
    before = pools.read_bytes()
    assert "exists" in quitmt("export", pools, "--as", "dpo", "-o", tmp_path / "out.jsonl").err
    two = ("-o", tmp_path / "out.en", "--targets", tmp_path / "out.pt")
    assert "out.pt already exists" in quitmt("export", pools, "--as", "parallel", *two).err
    assert "is an input" in quitmt("export", pools, "--as", "dpo", "-o", pools).err
    assert (tmp_path / "out.jsonl").read_text() == (tmp_path / "out.pt").read_text() == "mine"
    assert pools.read_bytes() == before and not (tmp_path / "out.en").exists()


def test_standard_output(quitmt: Quitmt, pools: Path) -> None:
    ran = quitmt("export", pools, "--as", "sft", "-o", "-", "-q")
    assert ran.code == 0 and ran.err == "" and len(ran.out.splitlines()) == 5


def test_row_groups_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory doesn't grow with the file."""
    monkeypatch.setattr(writers, "GROUP_ROWS", 4)
    export(write(tmp_path / "p.jsonl", *map(pool, range(10))), tmp_path / "a.parquet", format="sft")
    file = parquet.ParquetFile(tmp_path / "a.parquet")
    assert [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)] == [4, 4, 2]
    monkeypatch.setattr(writers, "GROUP_CHARACTERS", 1)
    export(tmp_path / "p.jsonl", tmp_path / "b.parquet", format="sft")
    assert parquet.ParquetFile(tmp_path / "b.parquet").num_row_groups == 10
