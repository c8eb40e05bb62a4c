"""The benchmark that kills runs, with one kill of each command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

KILLS = Path(__file__).resolve().parents[2] / "benchmarks" / "kills.py"


def test_killed_runs_are_continued_to_the_same_results() -> None:
    command = [sys.executable, str(KILLS), "--kills", "3", "--size", "1"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in ran.stdout.splitlines()[2:]]
    assert [(row[0], row[1], row[4]) for row in rows] == [
        ("translate", "1", "0"),
        ("rerank", "1", "0"),
        ("lab run", "1", "0"),
    ]
