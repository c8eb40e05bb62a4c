"""What two runs were told, compared: whoever goes on with a run must be told the same."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from quitmt.errors import setting
from quitmt.files.durable import writable


@dataclass(frozen=True, slots=True)
class Difference:
    """A setting that two runs have in two ways."""

    name: str
    was: Any
    now: Any

    @property
    def told(self) -> str:
        """The setting by the name that whoever reads it knows it by."""
        return setting(self.name) if "." in self.name else self.name

    def since(self, earlier: str) -> str:
        """What changed since a run that ``earlier`` names: "--seed was 1 in the run that … holds and is 2 now"."""
        was, now = ("not given" if value is None else str(value) for value in (self.was, self.now))
        return f"{self.told} was {was} in {earlier} and is {now} now"


def as_read_back(settings: Mapping[str, Any]) -> dict[str, Any]:
    """As they will be read from a file that they are written to."""
    found: dict[str, Any] = json.loads(writable(json.dumps(dict(settings), ensure_ascii=False)))
    return found


def difference(
    before: Mapping[str, Any], now: Mapping[str, Any], names: Iterable[str] | None = None
) -> Difference | None:
    """The first setting that is another one now, of all or of those that are named."""
    wanted = [*now, *(name for name in before if name not in now)] if names is None else names
    for name in wanted:
        if before.get(name) != now.get(name):
            return Difference(name, before.get(name), now.get(name))
    return None
