"""Functions that a study names: found in every field, without being imported."""

from __future__ import annotations

from typing import Any

import pytest

from quitmt.lab.study import parse
from quitmt.lab.study.functions import in_study

FIELDS: list[tuple[str, str, Any]] = [
    ("model", "name", "evil:generate"),
    ("rerank", "rerankers", ["mbr:chrf", "mbr:evil:utility"]),
    ("rerank", "rerankers", ["qe:evil:score"]),
    ("rerank", "rerankers", ["qe:0.5*likelihood+0.5*evil:score"]),
    ("rerank", "rerankers", ["mbr:vote:evil:answer"]),
    ("rules", "beyond", ["evil:rule"]),
    ("live", "rules", ["evil:rule"]),
    ("evaluate", "metrics", ["chrf++", "evil:metric"]),
]


@pytest.mark.parametrize(("section", "field", "value"), FIELDS)
def test_a_function_is_found_by_its_field(section: str, field: str, value: Any) -> None:
    study = parse({"test_set": {"tsv": "a"}, section: {field: value}}, "s.toml")
    spec = value[-1] if isinstance(value, list) else value
    assert list(in_study(study)) == [(f"[{section}], {field}", spec)]


def test_our_own_names_are_no_functions() -> None:
    study = parse(
        {
            "test_set": {"tsv": "a"},
            "model": {"name": "openai:org/model:free"},
            "rerank": {
                "rerankers": [
                    "mbr:chrf",
                    "mbr:vote",
                    "mbr:comet:org/model",
                    "qe:0.7*kiwi+0.3*likelihood",
                    "qe:recorded:q",
                ]
            },
            "live": {"rules": ["loss:most=0.0005", "headroom"]},
            "evaluate": {"metrics": ["chrf", "bleu:zh", "comet:org/model", "gemba:openai:m"]},
        },
        "s.toml",
    )
    assert list(in_study(study)) == []
    assert list(in_study(parse({"test_set": {"tsv": "a"}}, "s.toml"))) == []


def test_pools_need_no_model() -> None:
    study = parse({"test_set": {"tsv": "a"}, "model": {"name": "evil:x", "pools": "p.jsonl"}}, "s.toml")
    assert list(in_study(study)) == []
