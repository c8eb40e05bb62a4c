"""Test sets of every kind, and one clear sentence for each that cannot be used."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest
from sacrebleu.dataset import DATASETS

from quitmt.errors import InputError, UsageError
from quitmt.lab.study.settings import TestSetSettings
from quitmt.lab.study.testsets import StudyTestSet, from_columns, from_files, from_release, from_sacrebleu, load
from quitmt.types import Segment


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name: str, *lines: str) -> str:
    Path(name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return name


def refused(kind: type[Exception], message: str) -> Any:
    return pytest.raises(kind, match=re.escape(message))


def test_a_line_of_files_is_a_segment() -> None:
    paths = [write("a", "one", "two\u2028and a half"), write("b", "um", "dois"), write("c", "UM", "DOIS")]
    found = from_files(paths[0], paths[1:])
    assert found.segments == (Segment("1", "one"), Segment("2", "two\u2028and a half"))
    assert found.references == (("um", "dois"), ("UM", "DOIS"))


def test_references_may_be_missing_and_files_compressed() -> None:
    Path("a.gz").write_bytes(gzip.compress(b"eins\nzwei\n"))
    found = from_files("a.gz")
    assert [segment.source for segment in found.segments] == ["eins", "zwei"]
    assert found.references == ()


def test_files_that_do_not_fit_are_refused() -> None:
    write("a", "one", "two")
    with refused(InputError, "b has 3 lines, but a has 2"):
        from_files("a", [write("b", "um", "dois", "três")])
    with refused(InputError, "b, line 2 is empty"):
        from_files("a", [write("b", "um", " ")])
    with refused(InputError, "empty has no segments"):
        from_files(write("empty"))
    with refused(InputError, "cannot read nowhere"):
        from_files("nowhere")


def test_columns_are_source_and_references() -> None:
    found = from_columns(write("n.tsv", "one\tum\tUM", "two\tdois\tDOIS"))
    assert [(segment.id, segment.source) for segment in found.segments] == [("1", "one"), ("2", "two")]
    assert found.references == (("um", "dois"), ("UM", "DOIS"))


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ("two", "n.tsv, line 2: there is no reference (a line is source TAB reference"),
        ("", "n.tsv, line 2: there is no reference"),
        ("two\tdois\tDOIS", "n.tsv, line 2: 3 columns, but 2 in the first line"),
        ("two\t", "n.tsv, line 2: reference 1 is empty"),
        ("\tdois", "n.tsv, line 2: the source is empty"),
    ],
)
def test_the_line_of_columns_that_is_wrong_is_named(second: str, message: str) -> None:
    with refused(InputError, message):
        from_columns(write("n.tsv", "one\tum", second))


def test_an_empty_file_of_columns_is_refused() -> None:
    with refused(InputError, "the test set n.tsv has no segments"):
        from_columns(write("n.tsv"))


WMT24 = """<?xml version='1.0' encoding='utf-8'?>
<dataset id="wmttest2024">
  <collection id="general">
    <doc origlang="en" id="news.1" domain="news">
      <src lang="en"><p><seg id="1">One.</seg><seg id="2">Two.</seg></p></src>
      <ref lang="de" translator="refA"><p><seg id="1">Eins.</seg><seg id="2">Zwei.</seg></p></ref>
      <ref lang="de" translator="refB"><p><seg id="1">EINS.</seg><seg id="2">ZWEI.</seg></p></ref>
    </doc>
    <doc origlang="en" id="speech.7" domain="speech">
      <src lang="en"><p><seg id="1">Three.</seg></p></src>
      <ref lang="de" translator="refA"><p><seg id="1">Drei.</seg></p></ref>
      <ref lang="de" translator="refB"><p><seg id="1">DREI.</seg></p></ref>
    </doc>
    <doc origlang="en" id="suite" testsuite="x" domain="suite">
      <src lang="en"><p><seg id="1">Four.</seg></p></src>
      <ref lang="de" translator="refA"><p><seg id="1">Vier.</seg></p></ref>
    </doc>
  </collection>
</dataset>
"""


@pytest.fixture
def downloaded(here: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """sacrebleu's WMT24 in a folder of ours, with a release of three segments."""
    monkeypatch.setattr(DATASETS["wmt24"], "_outdir", str(here / "wmt24"))
    monkeypatch.setattr(DATASETS["wmt24"], "_rawdir", str(here / "wmt24" / "raw"))
    monkeypatch.setattr("sacrebleu.dataset.base.download_file", lambda *_, **__: None)
    raw = here / "wmt24" / "raw" / "xml" / "wmttest2024.en-de.all.xml"
    raw.parent.mkdir(parents=True)
    raw.write_text(WMT24, encoding="utf-8")
    return DATASETS["wmt24"]


@pytest.mark.usefixtures("downloaded")
def test_a_set_of_sacrebleus_with_its_official_reference() -> None:
    found = from_sacrebleu("wmt24:en-de")
    assert [(segment.id, segment.source) for segment in found.segments] == [
        ("1", "One."),
        ("2", "Two."),
        ("3", "Three."),
    ]
    assert found.references == (("Eins.", "Zwei.", "Drei."),)
    assert found.name == "wmt24:en-de"


def test_several_references_where_sacrebleu_has_several(downloaded: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(downloaded.kwargs, "refs", ["refA", "refB"])
    found = from_sacrebleu("wmt24:en-de").references
    assert sorted(found) == [("EINS.", "ZWEI.", "DREI."), ("Eins.", "Zwei.", "Drei.")]


@pytest.mark.parametrize("error", [URLError("no route to host"), SystemExit(1)])
def test_without_a_network_it_says_what_to_download_and_how(
    here: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(DATASETS["wmt24"], "_outdir", str(here / "wmt24"))
    monkeypatch.setattr(DATASETS["wmt24"], "_rawdir", str(here / "wmt24" / "raw"))
    monkeypatch.setattr("sacrebleu.dataset.base.download_file", fail)
    with pytest.raises(InputError) as raised:
        from_sacrebleu("wmt24:en-de")
    assert "the test set wmt24:en-de is not on this machine and could not be downloaded" in str(raised.value)
    assert "sacrebleu -t wmt24 -l en-de --echo src" in str(raised.value)


def test_names_that_sacrebleu_does_not_have() -> None:
    with refused(UsageError, "there is no test set 'wmt42' for en-de (sacrebleu --list"):
        from_sacrebleu("wmt42:en-de")
    with refused(UsageError, "unknown language pair of wmt24 'en-dd' (did you mean 'en-de'?)"):
        from_sacrebleu("wmt24:en-dd")
    with refused(UsageError, "'wmt24' names no language pair (write it as wmt24:en-de)"):
        from_sacrebleu("wmt24")


def document(name: str = "en-cs_CZ_#_news_#_d1", **fields: object) -> dict[str, object]:
    texts = {"src_text": "A b.\n\nC d.", "refs": {"refA": {"ref": "Á b.\n\nČ d."}}}
    return {"doc_id": name, "src_lang": "en", "tgt_lang": "cs_CZ", "domain": "news", "video": None, **texts, **fields}


def release(*lines: dict[str, object], name: str = "wmt25.jsonl") -> str:
    return write(name, *(json.dumps(line) for line in lines))


def test_documents_are_split_into_the_segments_of_the_human_evaluation() -> None:
    documents = from_release(release(document(), document("en-cs_CZ_#_social_#_d2", src_text="E", refs={"refA": "É"})))
    assert [segment.id for segment in documents.segments] == [
        "en-cs_CZ_#_news_#_d1_#_0",
        "en-cs_CZ_#_news_#_d1_#_1",
        "en-cs_CZ_#_social_#_d2_#_0",
    ]
    assert [segment.source for segment in documents.segments] == ["A b.", "C d.", "E"]
    assert documents.references == (("Á b.", "Č d.", "É"),)
    evaluated = [
        {"doc_id": segment.id, "src_text": segment.source, "tgt_text": {"refA": text, "Yolu": "?", "reform": "!"}}
        for segment, text in zip(documents.segments, documents.references[0], strict=True)
    ]
    segments = from_release(release(*evaluated, name="humeval.jsonl"))
    assert segments.segments == documents.segments
    assert segments.references == documents.references


def test_several_references_and_those_that_some_segments_lack() -> None:
    texts = {"src_text": ["E", "F"]}
    first = document(refs={"refB": "1\n\n2", "refA": {"ref": "3\n\n4"}, "refC": "5\n\n6"})
    second = document("en-cs_CZ_#_news_#_d2", **texts, refs={"refA": "7\n\n8", "refB": "9\n\n0", "refC": None})
    found = from_release(release(first, second))
    assert found.references == (("3", "4", "7", "8"), ("1", "2", "9", "0"))  # refA, then refB
    assert from_release(release(document(refs={}))).references == ()


def test_blank_paragraphs_are_no_segments() -> None:
    blank = document(src_text="A\n\n \n\nB", refs={"refA": "a\n\n\n\nb"})
    found = from_release(release(blank))
    assert [segment.id[-1] for segment in found.segments] == ["0", "2"]
    assert found.references == (("a", "b"),)


def test_one_pair_of_a_release() -> None:
    names = ["en-cs_CZ_#_n_#_1", "en-sr_Cyrl_RS_#_n_#_1", "en-sr_Latn_RS_#_n_#_1", "cs-de_DE_#_n_#_1"]
    path = release(*map(document, names), document("d5", src_lang="ja", tgt_lang="zh_CN"))
    for pair, name in [("en-cs", names[0]), ("en-sr_Latn_RS", names[2]), ("cs-de_DE", names[3]), ("ja-zh", "d5")]:
        assert from_release(path, pair).segments[0].id == f"{name}_#_0"
    with refused(UsageError, "en-sr may be en-sr_Cyrl_RS or en-sr_Latn_RS"):
        from_release(path, "en-sr")
    with refused(UsageError, "wmt25.jsonl has 5 language pairs, and none was named (add it, as in"):
        from_release(path)
    with refused(UsageError, "unknown language pair of wmt25.jsonl 'en-cz'"):
        from_release(path, "en-cz")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "x.jsonl, line 2: not JSON"),
        ("version https://git-lfs.github.com/spec/v1", "run git lfs pull"),
        ("[1]", "x.jsonl, line 2: a line must be a JSON object, not list"),
        ('{"doc_id": "en-cs_#_1"}', 'x.jsonl, line 2: there is no "src_text"'),
        ('{"src_text": "a"}', 'x.jsonl, line 2: there is no "doc_id"'),
        ('{"doc_id": 7, "src_text": "a"}', 'line 2: "doc_id" must be a text'),
        ('{"doc_id": "d", "src_text": "a"}', 'neither "doc_id" nor "src_lang" and "tgt_lang" name'),
        ('{"doc_id": "en-cs_CZ_#_1", "src_text": 3}', 'line 2: "src_text" must be a text, not int'),
        ('{"doc_id": "en-cs_CZ_#_1", "src_text": "a", "refs": "b"}', 'line 2: "refs" must be an object'),
        ('{"doc_id": "en-cs_CZ_#_1", "src_text": "a", "refs": {"refA": 3}}', "the reference refA must be a text"),
        (
            json.dumps(document()),
            "line 2: the id 'en-cs_CZ_#_news_#_d1_#_0' occurs a second time, first on x.jsonl",
        ),
        (
            json.dumps(document("en-cs_CZ_#_2", refs={"refA": "a"})),
            "line 2: the source has 2 paragraphs, but refA has 1 (take the file of its human evaluation",
        ),
    ],
)
def test_the_line_of_a_release_that_is_wrong_is_named(line: str, message: str) -> None:
    with refused(InputError, message):
        from_release(write("x.jsonl", json.dumps(document()), line))


def test_a_release_of_nothing_is_refused() -> None:
    for lines in ((), (json.dumps(document(src_text=" ", refs={})),)):
        with refused(InputError, "x.jsonl has no segments"):
            from_release(write("x.jsonl", *lines))


@pytest.fixture
def whole() -> StudyTestSet:
    texts = tuple(f"r{number}" for number in range(50))
    segments = tuple(Segment(str(number), f"s{number}") for number in range(50))
    return StudyTestSet("numbers", segments, (texts, texts))


def test_the_first_segments(whole: StudyTestSet) -> None:
    found = whole.first(3)
    assert [segment.id for segment in found.segments] == ["0", "1", "2"]
    assert found.references == (("r0", "r1", "r2"),) * 2
    assert whole.first(50) == whole.first(51) == whole


def test_what_a_study_names() -> None:
    write("a", "one", "two"), write("b", "um", "dois")
    plain = load(TestSetSettings(sources="a", references=("b",), limit=1))
    assert (plain.segments, plain.references) == ((Segment("1", "one"),), (("um",),))
    assert load(TestSetSettings(tsv=write("c.txt", "one\tum", "two\tdois"))).references == (("um", "dois"),)
    path = release(document(), document("en-de_DE_#_n_#_1"))
    assert load(TestSetSettings(jsonl=f"{path}:en-cs")).segments[0].id == "en-cs_CZ_#_news_#_d1_#_0"
    with refused(UsageError, "there is no test set 'wmt42'"):
        load(TestSetSettings(name="wmt42:en-de"))
    with refused(UsageError, "only a plain file of sources has its references in separate files"):
        load(TestSetSettings(tsv="c.txt", references=("b",)))


def test_a_colon_in_a_files_name_is_a_colon() -> None:
    path = release(document(), name="x:en-de")
    assert len(load(TestSetSettings(jsonl=path)).segments) == 2
