"""The benchmark that kills runs, with two kills. (Of translate: tests/cli/test_resume.py; of studies: tests/lab.)"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

KILLS = Path(__file__).resolve().parents[2] / "benchmarks" / "kills.py"


def test_killed_runs_are_continued_to_the_same_results() -> None:
    command = [sys.executable, str(KILLS), "--kills", "2", "--size", "1", "--only", "rerank"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in ran.stdout.splitlines()[2:]]
    assert ("rerank", "2", "0") in [(row[0], row[1], row[4]) for row in rows]
