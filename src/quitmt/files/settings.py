"""Compares the settings of two runs: a run can only be continued with the same settings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from quitmt.errors import setting
from quitmt.files.durable import writable


@dataclass(frozen=True, slots=True)
class Difference:
    """A setting whose values in two runs differ."""

    name: str
    was: Any
    now: Any

    def since(self, earlier: str) -> str:
        """Describe the change since an ``earlier`` run: "--seed was 1 in the run of … and is 2 now"."""
        name = setting(self.name) if "." in self.name else self.name
        was, now = ("not set" if value is None else str(value) for value in (self.was, self.now))
        return f"{name} was {was} in {earlier} and is {now} now"


def as_read_back(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings as they will be after writing them to a file and reading them back."""
    found: dict[str, Any] = json.loads(writable(json.dumps(dict(settings), ensure_ascii=False)))
    return found


def difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> Difference | None:
    """The first setting that has changed, if any."""
    for name in [*now, *(name for name in before if name not in now)]:
        if before.get(name) != now.get(name):
            return Difference(name, before.get(name), now.get(name))
    return None
