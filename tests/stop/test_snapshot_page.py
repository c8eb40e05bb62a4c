"""The guide lists every field that a stopping rule sees."""

from __future__ import annotations

import re
from dataclasses import fields

from tests.documents import DOCS

from quitmt.types import Snapshot


def test_the_guide_lists_the_fields_of_a_snapshot() -> None:
    section = (DOCS / "extending.md").read_text("utf-8").partition("## What a rule sees")[2].partition("\n## ")[0]
    listed = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
    own = [one.name for one in fields(Snapshot)]
    derived = [name for name, value in vars(Snapshot).items() if isinstance(value, property)]
    assert sorted(listed) == sorted([*own, *derived])
