"""A server of the embedded models translates like ``quitmt translate``, whatever other requests are in progress."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.serve.conftest import Running

pytestmark = pytest.mark.slow
TEXTS = ["The house is old.", "I saw a dog near the river.\n\nNobody came."]
SEED = 7


def test_the_same_text_and_seed_give_the_same_as_translate(
    embedded: Running, quitmt: Callable[..., Any], tmp_path: Path
) -> None:
    expected = []
    for text in TEXTS:
        (tmp_path / "text").write_text(text)
        expected.append(quitmt("translate", tmp_path / "text", "--split", "-q", "--seed", SEED).out.removesuffix("\n"))
    noise = [{"text": f"This is sentence number {i}.", "target": "pt", "source": "en", "seed": i} for i in range(3)]
    asks = [
        {"text": text, "target": "pt", "source": "en", "seed": SEED, "nbest": 1 + i} for i, text in enumerate(TEXTS)
    ]
    with ThreadPoolExecutor(8) as pool:
        others = [pool.submit(embedded.post, "/api/translate", ask) for ask in noise]
        found = list(pool.map(lambda ask: embedded.post("/api/translate", ask), [*asks, *asks]))
        together = embedded.post("/api/translate", {**asks[0], "text": TEXTS})
        assert {one.result()[0] for one in others} == {200}
    assert [told["translation"]["text"] for _, told in found] == expected * 2
    assert [one["text"] for one in together[1]["translations"]] == expected


def test_both_directions_and_tokens(embedded: Running) -> None:
    assert embedded.post("/translate", {"q": "Bom dia.", "source": "pt", "target": "en"})[1] == {
        "translatedText": "Good morning."
    }
    assert embedded.metric("quitmt_tokens_total") > 0
    _, told = embedded.get("/api/languages")
    assert [(one["source"], one["target"], one["takes_seeds"]) for one in told["pairs"]] == [
        ("en", "pt", True),
        ("pt", "en", True),
    ]
