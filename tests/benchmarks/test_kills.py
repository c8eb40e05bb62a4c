"""The benchmark that kills runs, with a handful of kills."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

KILLS = Path(__file__).resolve().parents[2] / "benchmarks" / "kills.py"


def test_a_handful_of_kills() -> None:
    command = [sys.executable, str(KILLS), "--kills", "6", "--size", "1"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in ran.stdout.splitlines()[2:]]
    assert [(row[0], row[1], row[4]) for row in rows] == [
        ("translate", "3", "0"),
        ("rerank", "2", "0"),
        ("lab run", "1", "0"),
    ]
