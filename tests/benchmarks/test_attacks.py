"""The fuzz of the server, in its quick form: one command, and what it guarantees."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("aiohttp")
ROOT = Path(__file__).resolve().parents[2]


def test_nonsense_is_refused_without_an_error_of_ours() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "attacks.py"), "fuzz", "--requests", "300"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    row = done.stdout.splitlines()[-1].split("|")
    assert [cell.strip() for cell in (row[1], row[3], row[4])] == ["300", "0", "0"], done.stdout + done.stderr
    assert "× 200" in row[2] and "× 400" in row[2]
