"""Fetching a pair: what arrives is what was published, whatever happens on the way."""

from __future__ import annotations

import gzip
import hashlib
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from quitmt.bergamot import models, store
from quitmt.errors import ModelError, OutputError, UsageError
from quitmt.fetch import get
from tests.servers.models import ModelServer

CUT = 1000


def fetched(pair: str = "en-xx", **settings: Any) -> Any:
    return get(pair, pause=lambda _: None, **settings)


def same_model(folder: Path, original: Path) -> bool:
    [model], [vocabulary] = original.glob("model*.bin"), original.glob("vocab*.spm")
    return (folder / "model.bin").read_bytes() == model.read_bytes() and (
        folder / "vocab.spm"
    ).read_bytes() == vocabulary.read_bytes()


def test_a_pair_is_fetched_once_and_then_found(server: ModelServer, small: Path, cache: Path) -> None:
    entry = server.publish("en-xx", small, comet=0.87)
    with pytest.raises(UsageError, match=r"embedded:en-xx is not on this machine \(quitmt models get en-xx\)"):
        models.load("embedded:en-xx")
    got = fetched()
    assert got.fresh and got.name == "embedded:en-xx" and same_model(got.folder, small)
    assert sorted(path.name for path in got.folder.iterdir()) == ["model.bin", "quitmt.json", "vocab.spm"]
    assert sorted(path.name for path in cache.iterdir()) == ["en-xx"]
    known = store.manifest("en-xx")
    assert known and known.metrics == {"comet": 0.87} and known.architecture == "tiny" and known.status == "Release"
    assert models.load("embedded:en-xx").fingerprint == models.load(f"bergamot:{small}").fingerprint
    asked = len(server.asked)
    assert asked == 2 and not any("lex" in path for path, _ in server.asked)
    assert not fetched().fresh and len(server.asked) == asked
    server.models["en-xx"].remove(entry)
    server.files["/db/models.json"] = b"gone"
    assert not fetched().fresh  # it is here: the index is not needed


def test_separate_vocabularies(server: ModelServer, small: Path, tmp_path: Path) -> None:
    folder = tmp_path / "separate"
    shutil.copytree(small, folder)
    (folder / "vocab.tiny.spm").rename(folder / "srcvocab.tiny.spm")
    shutil.copy(folder / "srcvocab.tiny.spm", folder / "trgvocab.tiny.spm")
    server.publish("en-xx", folder)
    assert {path.name for path in fetched().folder.glob("*.spm")} == {"srcvocab.spm", "trgvocab.spm"}
    models.load("embedded:en-xx")


def test_a_cut_connection_is_continued_where_it_broke(server: ModelServer, small: Path) -> None:
    entry = server.publish("en-xx", small)
    server.cuts = [CUT, CUT // 2]
    shown: list[tuple[int | None, int]] = []

    class Bar:
        def update(self, _: int) -> None: ...
        def close(self) -> None: ...

    def bar(what: str, total: int | None, here: int) -> Bar:
        shown.append((total, here))
        return Bar()

    assert same_model(fetched(bar=bar).folder, small)
    path, size = server.path(entry), len(server.files[server.path(entry)])
    ranges = [wanted for asked, wanted in server.asked if asked == path]
    assert ranges == [None, f"bytes={CUT}-", f"bytes={CUT + CUT // 2}-"]
    assert shown[:3] == [(size, 0), (size, CUT), (size, CUT + CUT // 2)]


def test_a_bad_connection_is_enough_as_long_as_something_arrives(server: ModelServer, small: Path) -> None:
    server.publish("en-xx", small)
    server.cuts = [CUT] * 12
    assert same_model(fetched().folder, small) and server.cuts == []


def test_the_next_run_continues_what_a_failed_one_has_kept(server: ModelServer, small: Path, cache: Path) -> None:
    entry = server.publish("en-xx", small)
    server.cuts = [CUT, 0, 0, 0, 0]
    with pytest.raises(ModelError, match=r"the connection ended early \(the part that has arrived is kept") as failed:
        fetched()
    assert server.path(entry) in str(failed.value)
    assert not store.has("en-xx") and store.pairs() == []
    server.asked.clear()
    assert same_model(fetched().folder, small)
    assert server.asked[0] == (server.path(entry), f"bytes={CUT}-")


def test_files_that_are_complete_are_not_fetched_again(server: ModelServer, small: Path) -> None:
    entry = server.publish("en-xx", small)
    vocabulary = server.path(entry, "vocab")
    kept = server.files.pop(vocabulary)
    with pytest.raises(ModelError, match="HTTP 404"):
        fetched()
    server.files[vocabulary] = kept
    server.asked.clear()
    assert same_model(fetched().folder, small)
    assert server.asked[0][1] == f"bytes={len(server.files[server.path(entry)])}-"  # the answer is: nothing more


def test_a_server_without_ranges_begins_anew(server: ModelServer, small: Path) -> None:
    server.publish("en-xx", small)
    server.ranges = False
    server.cuts = [CUT, CUT // 2]
    assert same_model(fetched().folder, small)


def test_errors_that_pass_are_tried_again_and_others_are_not(server: ModelServer, small: Path) -> None:
    server.publish("en-xx", small)
    server.statuses = [503, 429, 500]
    assert same_model(fetched().folder, small)
    shutil.rmtree(store.folder("en-xx"))
    server.asked.clear()
    server.statuses = [403]
    with pytest.raises(ModelError, match="HTTP 403"):
        fetched()
    assert len(server.asked) == 1
    server.statuses = [503] * 5
    with pytest.raises(ModelError, match="HTTP 503"):
        fetched()


def test_a_wrong_hash_a_wrong_size_and_a_damaged_file(server: ModelServer, small: Path, cache: Path) -> None:
    entry = server.publish("en-xx", small)
    described, path = entry["files"]["model"], server.path(entry)
    right, content = dict(described), server.files[path]

    def refused(message: str) -> None:
        with pytest.raises(ModelError, match=message):
            fetched()
        assert not store.has("en-xx")
        assert not list(cache.glob(".en-xx.part/*.part"))  # nothing of it is continued

    described["uncompressedHash"] = "0" * 64
    refused(r"its SHA-256 is [0-9a-f]{12}… and should be 000000000000…")
    described |= right | {"uncompressedSize": 10**6}
    refused("bytes and should have 1,000,000")
    described |= right | {"uncompressedSize": 10}
    refused("it has more than 10 bytes")
    described |= right
    server.files[path] = content[:-3000] + bytes(3000)
    refused("cannot be decompressed|its SHA-256 is|bytes and should")
    server.files[path] = content[:-100]
    refused("cannot be decompressed: Compressed file ended before")
    server.files[path] = content
    assert same_model(fetched().folder, small)


def test_a_file_that_changed_between_two_attempts_is_fetched_anew(
    server: ModelServer, small: Path, cache: Path
) -> None:
    entry = server.publish("en-xx", small)
    server.cuts = [CUT, 0, 0, 0, 0]
    with pytest.raises(ModelError):
        fetched()
    [part] = cache.glob(".en-xx.part/model*.part")
    part.write_bytes(bytes(CUT))
    server.asked.clear()
    assert same_model(fetched().folder, small)
    assert [wanted for path, wanted in server.asked if path == server.path(entry)] == [f"bytes={CUT}-", None]


def test_a_vocabulary_of_another_model_is_not_installed(server: ModelServer, small: Path, cache: Path) -> None:
    entry = server.publish("en-xx", small)
    foreign = models.find("embedded:en-pt").source_vocabulary.read_bytes()
    server.files[server.path(entry, "vocab")] = gzip.compress(foreign, 1)
    with pytest.raises(ModelError, match=r"published for en-xx cannot be used: .* a vocabulary has 32000 entries"):
        fetched()
    assert not list(cache.iterdir())


def test_a_file_that_is_not_packed_is_taken_as_it_is(server: ModelServer, small: Path) -> None:
    entry = server.publish("en-xx", small)
    for kind in ("model", "vocab"):
        server.files[server.path(entry, kind)] = gzip.decompress(server.files[server.path(entry, kind)])
    assert same_model(fetched().folder, small)


def test_another_model_is_only_replaced_when_asked(server: ModelServer, small: Path, other: Path) -> None:
    server.publish("en-xx", small)
    server.publish("en-xx", other, architecture="base-memory")
    assert same_model(fetched(architecture="tiny").folder, small)
    with pytest.raises(UsageError, match=r"\(tiny\) \(quitmt models get en-xx --arch.* base-memory --replace"):
        fetched()
    assert same_model(fetched(replace=True).folder, other)
    assert [path.name for path in store.root().iterdir() if path.is_dir()] == ["en-xx"]


def test_files_put_there_by_hand_are_found_and_not_overwritten(server: ModelServer, small: Path, other: Path) -> None:
    shutil.copytree(small, store.folder("en-xx"))
    assert models.load("embedded:en-xx").fingerprint == models.load(f"bergamot:{small}").fingerprint
    server.publish("en-xx", other)
    with pytest.raises(UsageError, match=r"already has a model \(added manually\)"):
        fetched()
    assert models.load("embedded:en-xx").fingerprint == models.load(f"bergamot:{small}").fingerprint


def test_the_embedded_models_keep_their_names(server: ModelServer, small: Path) -> None:
    server.publish("en-pt", small)
    before = models.find("embedded:en-pt")
    got = fetched("en-pt")
    assert got.name == f"bergamot:{got.folder}" and same_model(got.folder, small)
    assert models.find("embedded:en-pt") == before


FETCH = "import sys; from quitmt.fetch import get; from quitmt.errors import QuitmtError\ntry: get('en-xx')\n"
FETCH += "except QuitmtError as error: sys.exit(str(error))"


def test_two_processes_at_once(server: ModelServer, small: Path) -> None:
    server.publish("en-xx", small)
    server.hold = threading.Event()
    first = threading.Thread(target=fetched)
    first.start()
    try:
        while not server.asked:
            assert first.is_alive()
        second = subprocess.run([sys.executable, "-c", FETCH], capture_output=True, text=True, timeout=120)
    finally:
        server.hold.set()
        first.join()
    assert second.stderr == "another process is fetching en-xx (wait until it has ended)\n"
    assert same_model(store.folder("en-xx"), small)


def test_a_killed_process_is_continued(server: ModelServer, small: Path, cache: Path) -> None:
    entry = server.publish("en-xx", small)
    server.hold = threading.Event()
    process = subprocess.Popen([sys.executable, "-c", FETCH])
    try:
        while not any(path.stat().st_size for path in cache.glob(".en-xx.part/*.part")):
            assert process.poll() is None
    finally:
        process.kill()
        process.wait()
        server.hold.set()
    server.hold = None
    server.asked.clear()
    assert same_model(fetched().folder, small)
    [(_, wanted), *_] = server.asked
    assert wanted is not None and server.asked[0][0] == server.path(entry)


def test_a_cache_that_cannot_be_written(server: ModelServer, small: Path, cache: Path) -> None:
    server.publish("en-xx", small)
    cache.parent.parent.mkdir(exist_ok=True)
    cache.parent.write_text("a file where a folder should be")
    with pytest.raises(OutputError, match=r"cannot write to .*\(set the environment variable QUITMT_CACHE .*\)"):
        fetched()


LIMITED = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"


def test_no_room(server: ModelServer, small: Path, cache: Path) -> None:
    pytest.importorskip("resource")
    server.publish("en-xx", small)
    cache.mkdir(parents=True)
    ran = subprocess.run([sys.executable, "-c", LIMITED + FETCH], capture_output=True, text=True, timeout=120)
    [line] = ran.stderr.splitlines()
    assert "there is no room for the model in" in line and "the part that has arrived is kept" in line
    [part] = cache.glob(".en-xx.part/*.part")
    assert part.stat().st_size == 4096


def test_the_manifest_has_the_hash_of_the_file(server: ModelServer, small: Path) -> None:
    server.publish("en-xx", small)
    folder = fetched().folder
    known = store.manifest("en-xx")
    assert known and known.hash == hashlib.sha256((folder / "model.bin").read_bytes()).hexdigest()
