"""The commands by which the docs convert models for ``ct2:`` are run as they stand, on tiny models of each family."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
transformers = pytest.importorskip("ctranslate2.converters.transformers")

from tests.conftest import Ran  # noqa: E402
from tests.models.zoo import Zoo  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
PAGE = (Path(__file__).parents[2] / "docs" / "engines.md").read_text("utf-8")
COMMANDS = re.findall(r"^ct2-transformers-converter .*$", PAGE, re.MULTILINE)
TINY = {"opus-mt-en-fr": "marian", "nllb-200": "nllb"}


def test_the_page_has_one_for_each_family() -> None:
    assert [command.split()[2] for command in COMMANDS] == list(TINY)


@pytest.mark.parametrize(("command", "more"), list(zip(COMMANDS, ([], ["--quantization", "int8"]), strict=True)))
def test_a_converted_model_translates(
    zoo: Zoo,
    command: str,
    more: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    quitmt: Callable[..., Ran],
) -> None:
    words = [*shlex.split(command), *more]
    model, output = words[2], words[words.index("--output_dir") + 1]
    shutil.copytree(zoo.folder(TINY[model]), tmp_path / model)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", words)
    transformers.main()
    Path("in.en").write_text("The weather is nice today.\n")
    ran = quitmt("translate", "in.en", "--model", f"ct2:{output}", "--src", "en", "--tgt", "pt", "-n", 4, "-k", 4, "-q")
    assert ran.code == 0 and ran.out.strip() and ran.err == ""
