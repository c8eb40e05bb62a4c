"""Runs the code of a notebook, cell by cell, and writes what each cell prints into it (`make notebook`).

    python -m tests.notebook examples/quitmt.ipynb

Plain Python is enough for cells that only print: nbclient and a kernel would be 29 more packages to install.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any


def run(notebook: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """Each cell of code with what it prints, in one namespace, as a kernel has it."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            printed = io.StringIO()
            with redirect_stdout(printed):
                exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
            yield cell, printed.getvalue()


def shown(cell: dict[str, Any]) -> str:
    """What a reader sees below a cell."""
    return "".join(text for output in cell["outputs"] for text in output["text"])


def main(path: Path) -> None:
    notebook = json.loads(path.read_text("utf-8"))
    for number, (cell, printed) in enumerate(run(notebook), 1):
        lines = printed.splitlines(keepends=True)
        cell["outputs"] = [{"name": "stdout", "output_type": "stream", "text": lines}] if lines else []
        cell["execution_count"] = number
    path.write_text(json.dumps(notebook, ensure_ascii=False, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
