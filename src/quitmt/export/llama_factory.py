"""The entry of ``dataset_info.json`` by which LLaMA-Factory finds a data set and its columns.

It makes the chat by its own templates, so prompts and answers are plain texts there.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from quitmt.errors import InputError, OutputError, UsageError
from quitmt.export.formats import FORMATS

INFO = "dataset_info.json"
_COLUMNS: dict[str, dict[str, str]] = {
    "sft": {"prompt": "prompt", "response": "completion"},
    "dpo": {"prompt": "prompt", "chosen": "chosen", "rejected": "rejected"},
    "kto": {"prompt": "prompt", "response": "completion", "kto_tag": "label"},
}


def check(name: str, output: str, data_format: str, *, chat: bool) -> dict[str, Any]:
    """All entries of the file beside the output with this one added; nothing is written yet."""
    if data_format not in _COLUMNS:
        raise UsageError(
            f"LLaMA-Factory has no entry for the format {data_format!r}", hint=f"{', '.join(_COLUMNS)} have"
        )
    if chat:
        raise UsageError("LLaMA-Factory makes the chat by itself", hint="give it plain prompts")
    if not output.endswith((".jsonl", ".json", ".parquet")):
        raise UsageError(f"LLaMA-Factory reads .jsonl and .parquet, not {output!r}")
    path = _path(output)
    known: Any = {}
    if path.exists():
        try:
            known = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError):
            known = None
        if not isinstance(known, dict):
            raise InputError(f"{path} is no JSON object", hint="mend it, or write to another folder")
    if name in known:
        raise OutputError(f"{path} has an entry {name!r} already", hint="name another one, or remove it first")
    assert data_format in FORMATS
    entry: dict[str, Any] = {"file_name": Path(output).name, "columns": _COLUMNS[data_format]}
    return {**known, name: {**entry, "ranking": True} if data_format == "dpo" else entry}


def write(entries: dict[str, Any], output: str) -> Path:
    path = _path(output)
    new = path.with_name(f"{INFO}.new")
    try:
        new.write_text(json.dumps(entries, ensure_ascii=False, indent=2) + "\n", "utf-8")
        new.replace(path)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from None
    return path


def _path(output: str) -> Path:
    return Path(output).with_name(INFO)
