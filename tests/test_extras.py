"""A plain install: whatever needs an extra says so in one line, with the command that installs it."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from quitmt.generate import BACKENDS
from quitmt.metrics.registry import RERANKERS, SCORING_MODELS
from tests.conftest import Ran
from tests.forks import forked

ROOT = Path(__file__).parents[1]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
PLAIN = """
import sys
from importlib.machinery import PathFinder

MISSING = {
    "aiohttp", "ctranslate2", "huggingface_hub", "langcodes", "language_data", "matplotlib", "pyarrow", "ray",
    "sacremoses", "scipy", "sentence_transformers", "torch", "transformers", "vllm",
}

class Installed:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return None if name.partition(".")[0] in MISSING else PathFinder.find_spec(name, path, target)

sys.meta_path = [Installed if finder is PathFinder else finder for finder in sys.meta_path]
assert not MISSING & set(sys.modules)
"""
"""The modules of the extras cannot be imported."""
STUDY = """
[test_set]
tsv = "test.tsv"
[model]
budget = 8
"""
VECTORS = """
from quitmt.metrics.chrf import Chrf

class Mine(Chrf):
    def vectors(self, arena): ...

mine = Mine()
"""
"""A utility for centroids that needs no extra."""
NEEDY_RERANKERS = [name for name in RERANKERS if RERANKERS[name].extra]
NEEDY_BACKENDS = [name for name in BACKENDS if BACKENDS[name].extra]
SCORE = "score -t reference.txt -s source.txt -r reference.txt -m"
COMMANDS = {
    **{
        f"rerank {name}": f"rerank pools.jsonl --rerank {name}"
        for name in [*NEEDY_RERANKERS, "qe:0.5*kiwi+0.5*likelihood"]
    },
    **{f"rerank {name}:MODEL": f"rerank pools.jsonl --rerank {name}:some/model" for name in NEEDY_RERANKERS},
    **{
        f"rerank {name} by": f"rerank pools.jsonl --rerank {name} --mbr centroid"
        for name in ("mbr:comet", "mbr:embedding")
    },
    **{
        f"filter {name}": f"rerank pools.jsonl --filter {name} --keep 4" for name in NEEDY_RERANKERS if name[:2] == "qe"
    },
    "translate by comet": "translate source.txt --rerank mbr:comet",
    **{f"translate with {name}": f"translate source.txt --model {name}:some/model" for name in NEEDY_BACKENDS},
    "translate with a server": "translate source.txt --model openai:m --base-url http://[::1]:9/v1 --src en --tgt de",
    **{f"score {name}": f"{SCORE} {name}" for name in SCORING_MODELS},
    "rerank my own by centroids": "rerank pools.jsonl --rerank mbr:mine:mine --mbr centroid",
    "score gemba:openai": f"{SCORE} gemba:openai:m --src en --tgt pt --base-url http://127.0.0.1:9/v1",
    "score gemba:hf": f"{SCORE} gemba:hf:some/model --src en --tgt pt",
    "score gemba:vllm": f"{SCORE} gemba:vllm:some/model --src en --tgt pt",
    "calibrate": "calibrate pools.jsonl --max-loss 0.1 -n 24 --rerank mbr:comet -o profile.json",
    "lab run": "lab run study.toml",
    "lab live": "lab live study.toml",
    "batch": "batch source.txt -o out",
}


SOUND = {
    "rerank": "rerank pools.jsonl -q",
    "score": "score -t reference.txt -r reference.txt -q",
    "models": "models",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plain")
    (path / "source.txt").write_text("Good morning.\nIt rains.\n")
    (path / "reference.txt").write_text("Bom dia.\nChove.\n")
    pools = [
        {"id": str(number), "source": source, "candidates": ["Bom dia.", "Chove.", "Ele saiu."] * 8}
        for number, source in enumerate(["Good morning.", "It rains."] * 20)
    ]
    (path / "pools.jsonl").write_text("".join(json.dumps(pool) + "\n" for pool in pools))
    (path / "study.toml").write_text(STUDY)
    (path / "test.tsv").write_text("Good morning.\tBom dia.\nIt rains.\tChove.\n")
    (path / "mine.py").write_text(VECTORS)
    return path


@pytest.fixture(scope="module")
def runs(folder: Path) -> dict[str, Ran]:
    environment = {"PYTHONPATH": str(ROOT / "src"), "HF_HUB_OFFLINE": "1"}
    return forked({**COMMANDS, **SOUND}, folder, before=PLAIN, environment=environment)


@pytest.mark.parametrize("name", COMMANDS)
def test_one_line_with_the_command_that_installs_it(name: str, runs: dict[str, Ran], folder: Path) -> None:
    ran = runs[name]
    assert (ran.code, ran.out) == (2, ""), ran.err
    [line] = ran.err.splitlines()
    command, _, rest = line.partition("pip install 'quitmt[")[2].partition("]'")
    assert command in EXTRAS and rest == ")", line
    assert not (folder / "profile.json").exists()


@pytest.mark.parametrize("name", SOUND)
def test_what_needs_no_extra_runs(name: str, runs: dict[str, Ran]) -> None:
    assert runs[name].code == 0, runs[name].err
