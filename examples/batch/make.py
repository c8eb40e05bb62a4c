"""Writes the input of ``make batch-demo``: two small files of English lines, one compressed, some lines twice."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

SUBJECTS = ("The train", "My neighbour", "The old library", "Our meeting", "The weather forecast", "A small boat")
EVENTS = ("was late again this morning.", "will be closed until Monday.", "surprised everyone in the village.")


def main(folder: Path) -> None:
    lines = [f"{subject} {event}" for subject in SUBJECTS for event in EVENTS]
    first, second = lines, [*lines[::3], "Thank you very much for your help."]
    (folder / "in").mkdir(parents=True, exist_ok=True)
    (folder / "in" / "a.en").write_text("".join(f"{line}\n" for line in first), "utf-8")
    compressed = gzip.compress("".join(f"{line}\n" for line in second).encode(), mtime=0)
    (folder / "in" / "b.en.gz").write_bytes(compressed)
    (folder / "all.en").write_text("".join(f"{line}\n" for line in [*first, *second]), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
