"""The soak against a server that means harm, in its quick form: one command, and what it guarantees."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_nothing_innocent_is_lost_or_changed() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "hostile.py"), "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    hostile = next(line for line in done.stdout.splitlines() if line.startswith("| hostile"))
    innocent, lost, poisoned, failed = [int(cell) for cell in hostile.split("|")[2:6]]
    assert (innocent, lost, poisoned, failed) == (72, 0, 8, 8)
    assert "Outcomes of the innocent segments are equal." in done.stdout
    for sign in ("429", "504", "dropped", "timeout", "unusable"):
        assert sign in hostile, "the server did no harm of this kind"
    assert float(hostile.split("|")[8]) < 800, (
        "a bomb alone has 128 MiB, compiling takes some 300, and an endless body has no end"
    )
