"""The index: what is preferred, what is left out, and what is said where there is no network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from quitmt.errors import ModelError, UsageError
from quitmt.fetch import get, index, read
from tests.servers.models import ModelServer

NOWHERE = "http://127.0.0.1:9"


@pytest.mark.parametrize(
    ("published", "preferred"),
    [
        ([("tiny", "Nightly"), ("base", "Release")], "base"),
        ([("base", "Nightly"), ("tiny", "Release")], "tiny"),
        ([("base", None), ("tiny", "Nightly")], "base"),
        ([("tiny", "Release Android"), ("base-memory", "Release Desktop")], "base-memory"),
        ([("base", "Release Android"), ("tiny", "Release Desktop")], "tiny"),
        ([("tiny", "Release"), ("base-memory", "Release"), ("base", "Release")], "base"),
        ([("other", "Release"), ("tiny", "Release")], "tiny"),
        ([("other", "Release"), ("tiny", "Nightly")], "other"),
    ],
)
def test_what_is_released_comes_first_and_then_the_better(
    server: ModelServer, small: Path, published: list[tuple[str, str | None]], preferred: str
) -> None:
    for architecture, status in published:
        server.publish("en-xx", small, architecture=architecture, status=status)
    found = read()
    assert found.choose("en-xx").architecture == preferred
    assert found.choose("en-xx", "tiny").architecture == "tiny" if ("tiny", "Release") in published else True


def test_an_architecture_that_is_not_published(server: ModelServer, small: Path) -> None:
    server.publish("en-xx", small, architecture="base-memory")
    with pytest.raises(UsageError, match=r"unknown architecture of en-xx 'base' \(did you mean 'base-memory'\?\)"):
        read().choose("en-xx", "base")


def test_an_unknown_pair_is_answered_with_near_ones(server: ModelServer, small: Path) -> None:
    for pair in ("de-en", "en-de", "en-fr", "en-da"):
        server.publish(pair, small)
    with pytest.raises(UsageError, match=r"published for de-fr \(there is de-en and en-fr; quitmt models list"):
        get("de-fr")
    with pytest.raises(UsageError, match=r"published for en-dk \(there is en-d. and en-d"):
        get("en-dk")
    with pytest.raises(UsageError, match=r"published for xx-yy \(quitmt models list shows all\)"):
        get("xx-yy")
    for text in ("german", "", "../en-de", "en-de/..", "en–de", "EN-DE-"):
        with pytest.raises(UsageError, match="is not a language pair"):
            get(text)


def test_entries_of_another_form_are_left_out(server: ModelServer, small: Path) -> None:
    server.publish("en-xx", small)
    usable = server.models["en-xx"][0]
    broken: list[Any] = [
        7,
        {},
        {"files": []},
        {"files": {"model": {"path": "m"}}},
        {"files": {"model": {"path": "m"}, "srcVocab": {"path": "v"}}},
        {"files": {"model": {"path": 3}, "vocab": {"path": "v"}}},
    ]
    server.models["en-xx"] = [*broken, usable | {"metrics": {"flores200-plus": {"comet": None, "bleu": 31.5}}}]
    server.models |= {"en-yy": broken, "../../etc": [usable]}
    found = read()
    assert [*found.models] == ["en-xx"]
    [model] = found.models["en-xx"]
    assert model.metrics == {"bleu": 31.5}
    assert [file.name for file in model.files] == ["model.bin", "vocab.spm"]


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"<html>", b'{"models": 3}', b'{"models": {"en-de": 3}}', b"\x1f\x8bno"]
)
def test_what_is_no_index_is_said_to_be_none(server: ModelServer, content: bytes) -> None:
    server.files["/db/models.json"] = content
    with pytest.raises(ModelError, match=r"is not an index of models|is damaged"):
        get("en-xx")


def test_files_are_where_the_index_was_or_where_mozilla_says(
    server: ModelServer, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.publish("en-xx", small)
    assert read().choose("en-xx").model.url.startswith(f"{server.url}/models/")
    monkeypatch.setattr(index, "URL", server.url)  # as if it were Mozilla's
    found = json.loads(server.index) | {"baseUrl": "http://files.example/"}
    server.files["/db/models.json"] = json.dumps(found).encode()
    assert read().choose("en-xx").model.url.startswith("http://files.example/models/")
    found["baseUrl"] = "file:///etc"
    server.files["/db/models.json"] = json.dumps(found).encode()
    assert read().choose("en-xx").model.url.startswith(f"{server.url}/models/")


def test_a_mirror_on_a_disk(server: ModelServer, small: Path, tmp_path: Path) -> None:
    server.publish("en-xx", small)
    for path, content in {**server.files, "/db/models.json": server.index}.items():
        (tmp_path / "mirror" / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "mirror" / path[1:]).write_bytes(content)
    server.asked.clear()
    assert get("en-xx", url=f"file://{tmp_path / 'mirror'}").fresh and not server.asked


def test_without_a_network_it_says_what_to_do(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUITMT_MODELS_URL", NOWHERE)
    with pytest.raises(ModelError) as unknown:
        get("en-xx")
    told = str(unknown.value)
    assert told.startswith(f"cannot read the index of models at {NOWHERE}/db/models.json: Connection refused (offline:")
    assert f"put them into {cache / 'en-xx'})" in told and "gunzip" in told and "\n" not in told


def test_an_address_that_is_none() -> None:
    with pytest.raises(ModelError, match=r"cannot read the index of models at nonsense/db/models\.json"):
        read("nonsense")
