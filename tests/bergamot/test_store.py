"""Where fetched models lie, and what counts as a pair."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from platformdirs import user_cache_path

from quitmt.bergamot import models, store


def test_the_cache_of_the_system_or_the_one_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QUITMT_CACHE", raising=False)
    assert store.root() == user_cache_path("quitmt", appauthor=False) / "models"
    monkeypatch.setenv("QUITMT_CACHE", "~/mine")
    assert store.folder("en-de") == Path.home() / "mine" / "models" / "en-de"


def test_pairs() -> None:
    assert all(map(store.is_pair, ["en-de", "en-zh_hant", "yue-en"]))
    assert not any(
        map(store.is_pair, ["", "en", "en-", "-de", "../en-de", "en-de/", "en-de.part", ".en-de", "en-de\n"])
    )


def test_only_folders_of_pairs_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUITMT_CACHE", str(tmp_path))
    assert store.pairs() == []
    for name in ("en-de", ".en-fr.part", "cs-en", "index"):
        (store.root() / name).mkdir(parents=True)
    (store.root() / "en-it").touch()
    assert store.pairs() == ["cs-en", "en-de"]


@pytest.mark.parametrize("content", ["", "[]", "{broken", '{"unknown": 1}', "\udcff"])
def test_a_manifest_that_cannot_be_read_is_none(content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUITMT_CACHE", str(tmp_path))
    store.folder("en-de").mkdir(parents=True)
    (store.folder("en-de") / store.MANIFEST).write_bytes(content.encode("utf-8", "surrogateescape"))
    assert store.manifest("en-de") is None
    known = store.Manifest("tiny", "Release", "abc", "http://x", {"bleu": 3.5})
    (store.folder("en-de") / store.MANIFEST).write_text(json.dumps(asdict(known)))
    assert store.manifest("en-de") == known


def test_every_embedded_pair_has_its_folder() -> None:
    assert {*models.FOLDERS} == {*store.EMBEDDED}
