"""A plain install: whatever needs an extra says so in one line, with the command that installs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from quitmt.generate import BACKENDS
from quitmt.metrics.scorer import KINDS
from quitmt.rerank.specs import RERANKERS

ROOT = Path(__file__).parents[1]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
PLAIN = """
import sys
from importlib.machinery import PathFinder

MISSING = {
    "aiohttp", "ctranslate2", "huggingface_hub", "langcodes", "language_data", "matplotlib", "pyarrow", "ray",
    "sacremoses", "scipy", "torch", "transformers", "vllm",
}

class Installed:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return None if name.partition(".")[0] in MISSING else PathFinder.find_spec(name, path, target)

sys.meta_path = [Installed if finder is PathFinder else finder for finder in sys.meta_path]
assert not MISSING & set(sys.modules)
from quitmt.__main__ import main
sys.exit(main())
"""
"""Runs quitmt where the modules of the extras are not installed."""
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
    **{f"score {name}": f"{SCORE} {name}" for name in KINDS},
    "rerank my own by centroids": "rerank pools.jsonl --rerank mbr:mine:mine --mbr centroid",
    "score gemba:openai": f"{SCORE} gemba:openai:m --src en --tgt pt --base-url http://127.0.0.1:9/v1",
    "score gemba:hf": f"{SCORE} gemba:hf:some/model --src en --tgt pt",
    "score gemba:vllm": f"{SCORE} gemba:vllm:some/model --src en --tgt pt",
    "calibrate --plot": "calibrate pools.jsonl --max-loss 0.1 -n 24 --plot curve.svg -o profile.json",
    "calibrate": "calibrate pools.jsonl --max-loss 0.1 -n 24 --rerank mbr:comet -o profile.json",
    "lab run": "lab run study.toml",
    "lab live": "lab live study.toml",
    "batch": "batch source.txt -o out",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "source.txt").write_text("Good morning.\nIt rains.\n")
    (tmp_path / "reference.txt").write_text("Bom dia.\nChove.\n")
    pools = [
        {"id": str(number), "source": source, "candidates": ["Bom dia.", "Chove.", "Ele saiu."] * 8}
        for number, source in enumerate(["Good morning.", "It rains."] * 20)
    ]
    (tmp_path / "pools.jsonl").write_text("".join(json.dumps(pool) + "\n" for pool in pools))
    (tmp_path / "study.toml").write_text(STUDY)
    (tmp_path / "test.tsv").write_text("Good morning.\tBom dia.\nIt rains.\tChove.\n")
    (tmp_path / "mine.py").write_text(VECTORS)
    return tmp_path


def plain(folder: Path, words: list[str]) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-c", PLAIN, *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("name", COMMANDS)
def test_one_line_with_the_command_that_installs_it(folder: Path, name: str) -> None:
    ran = plain(folder, COMMANDS[name].split())
    assert (ran.returncode, ran.stdout) == (2, ""), ran.stderr
    [line] = ran.stderr.splitlines()
    command, _, rest = line.partition("pip install 'quitmt[")[2].partition("]'")
    assert command in EXTRAS and rest == ")", line
    assert not (folder / "profile.json").exists()


def test_what_needs_no_extra_runs(folder: Path) -> None:
    for words in ("rerank pools.jsonl -q", "score -t reference.txt -r reference.txt -q", "models"):
        ran = plain(folder, words.split())
        assert ran.returncode == 0, ran.stderr
