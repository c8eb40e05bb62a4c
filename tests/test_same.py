"""The same text, recipe and seed give the same translation in Python, ``translate``, ``batch`` and ``serve``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import quitmt as library
from quitmt.batch.job import BatchJob
from quitmt.plan import Recipe
from quitmt.plan.build import build
from quitmt.plan.resolve import resolve
from quitmt.serve.limits import Limits
from quitmt.serve.service import Served, Service
from tests.batch.jobs import planned, results, worked
from tests.conftest import Ran
from tests.serve.conftest import Model, detector, serving

LINES = ["The house is old.", "I saw a small dog in the garden.", "The house is old.", "Where is the station?"]
LINES += [*reversed(LINES), "Nobody came."]
SETTINGS = {"stop.rule": "quit", "stop.n": 24, "stop.k": 8, "stop.w": 2, "model.seed": 5}
FLAGS = ("--stop", "quit", "-n", 24, "-k", 8, "-w", 2, "--seed", 5, "-q")


def test_five_ways_to_the_same_translations(quitmt: Callable[..., Ran], tmp_path: Path) -> None:
    recipe = Recipe().changed({"model.name": "embedded:en-pt", **SETTINGS})
    in_python = [one.translation for one in library.Translator.from_recipe(recipe).translate(LINES)]
    assert len(set(in_python)) == len(set(LINES))
    known = dict(zip(LINES, in_python, strict=True))
    assert [known[source] for source in LINES] == in_python

    (tmp_path / "in.en").write_text("\n".join(LINES))
    assert quitmt("translate", tmp_path / "in.en", *FLAGS).out.splitlines() == in_python

    parts = [quitmt("translate", tmp_path / "in.en", *FLAGS, "--shard", f"{part}/4").out for part in range(1, 5)]
    assert "".join(parts).splitlines() == in_python

    job = BatchJob((f"{tmp_path}/in.en",), f"{tmp_path}/out", recipe, rows_per_file=4)
    worked(job, range(len(planned(job).parts)))
    assert [row["translation"] for row in results(job)] == in_python

    built = build(resolve(recipe))
    models = (Model(upper=True), Model(upper=False))

    def service() -> Service:
        found = Service([Served("quitmt-en-pt", "en", "pt", built, built.session())])
        found.detector = detector()
        return found

    with serving(service, models, limits=Limits(deadline=None)) as running:
        for texts in (LINES, [LINES[-1], LINES[0]]):
            status, told = running.post("/api/translate", {"text": texts, "source": "en", "target": "pt"})
            assert status == 200
            assert [one["text"] for one in told["translations"]] == [known[text] for text in texts]
