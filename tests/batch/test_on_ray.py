"""Real jobs on Ray, each in its own process. Skipped without Ray: use make test-batch."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from quitmt.batch.job import BatchJob
from quitmt.batch.rows import InputColumns
from tests.batch.jobs import FUNCTIONS, files_of, planned, recipe, results, worked

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("ray") is None, reason="needs Ray: make test-batch"),
]
ROOT = Path(__file__).parents[2]


def batch(
    job: BatchJob, *words: object, function: str = "words", **environment: str
) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT), *filter(None, sys.path)])
    own = ("--model", f"{FUNCTIONS}:{function}", "-n", 8, "-k", 4, "--rows-per-file", job.rows_per_file)
    command = [sys.executable, "-m", "quitmt", "batch", *job.inputs, "-o", job.output, *own, *words]
    whole = {**os.environ, "PYTHONPATH": paths, **environment}
    return subprocess.run([str(word) for word in command], env=whole, capture_output=True, text=True)


def said(ran: subprocess.CompletedProcess[str]) -> list[str]:
    """The lines from quitmt, without Ray's."""
    return [line for line in ran.stderr.splitlines() if line.startswith("quitmt: ")]


@pytest.fixture
def job(tmp_path: Path) -> BatchJob:
    (tmp_path / "a.txt").write_text("".join(f"line {number}.\n" for number in range(1, 61)))
    return BatchJob((f"{tmp_path}/a.txt",), str(tmp_path / "out"), recipe(), InputColumns(), rows_per_file=10)


def test_two_workers_give_the_same_as_one_and_repeat_nothing(job: BatchJob, tmp_path: Path) -> None:
    ran = batch(job, "--workers", 2, "--text", tmp_path / "text")
    assert ran.returncode == 0, ran.stderr
    assert any(line.startswith("quitmt: 60 rows, in 6 files; ") for line in said(ran)), ran.stderr
    by_hand = replace(job, output=str(tmp_path / "other"))
    worked(by_hand, range(len(planned(by_hand).parts)))
    assert [path.read_bytes() for path in files_of(job)] == [path.read_bytes() for path in files_of(by_hand)]
    lines = (tmp_path / "text").read_text().splitlines()
    assert lines == [row["translation"] for row in results(job)]
    files_of(job)[2].unlink()
    before = {path.name: path.stat().st_mtime_ns for path in files_of(job)}
    ran = batch(job, "-q", RAY_ADDRESS="127.0.0.1:1")  # without --address no other Ray is used
    assert (ran.returncode, said(ran)) == (0, [])
    after = {path.name: path.stat().st_mtime_ns for path in files_of(job)}
    assert len(after) == 6 and before.items() <= after.items()
    assert [path.read_bytes() for path in files_of(job)] == [path.read_bytes() for path in files_of(by_hand)]
    refused = batch(job, "--seed", 7)
    assert refused.returncode == 2 and "cannot continue: --seed was 0 in the job that" in refused.stderr


def test_a_worker_whose_engine_breaks_is_replaced(job: BatchJob) -> None:
    ran = batch(job, "--in-flight", 1, function="wearing", WORN_AFTER="45")
    assert ran.returncode == 0, ran.stderr
    assert len(results(job)) == 60 and not any(row["error"] for row in results(job))


def test_engines_that_are_always_broken_end_the_job(job: BatchJob) -> None:
    ran = batch(job, "--in-flight", 1, function="wearing", WORN_AFTER="0")
    assert ran.returncode == 2, ran.stderr
    *_, line = said(ran)
    assert "without finishing a part: the last one ended with: " in line
    assert "segments in a row failed" in line and "worn out" in line and not files_of(job)


def test_a_missing_import_on_workers_is_one_sentence(job: BatchJob, tmp_path: Path) -> None:
    """A trick: only the starting process can import the module."""
    (tmp_path / "own.py").write_text(
        f"import os\nif os.getppid() != {os.getpid()}:\n    raise ImportError('not here')\n"
        "def words(source, start, stop):\n    return ['x'] * (stop - start)\n"
    )
    ran = batch(job, "--model", "own:words", PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT / 'src'}{os.pathsep}{ROOT}")
    assert ran.returncode == 2, ran.stderr
    *_, line = said(ran)
    assert "a worker cannot use the recipe" in line and "--working-dir FOLDER" in line


def test_a_folder_with_functions_is_shipped_to_workers(job: BatchJob, tmp_path: Path) -> None:
    """The starting process finds the folder too, without other settings."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "shipped.py").write_text(
        "import os\ndef words(source, start, stop):\n    return [os.getcwd()] * (stop - start)\n"
    )
    ran = batch(job, "--model", "shipped:words", "--working-dir", tmp_path / "own")
    assert ran.returncode == 0, ran.stderr
    assert all("working_dir_files" in row["translation"] for row in results(job))


def test_more_workers_than_parts_are_not_started(job: BatchJob) -> None:
    """Nor more than the machine has room for."""
    refused = batch(job, "--workers", 9999, "--cpus-per-worker", 500)
    assert refused.returncode == 2
    assert "there is no room for 6 workers with --cpus-per-worker 500: CPUs needed 3000, found " in refused.stderr
    ran = batch(job, "--workers", "1-9999")
    assert ran.returncode == 0 and len(results(job)) == 60, ran.stderr


def test_a_row_that_ends_every_process_fails_and_no_other_does(job: BatchJob) -> None:
    ran = batch(job, function="deadly")
    assert ran.returncode == 1, ran.stderr
    assert len(results(job)) == 60
    assert [row["id"] for row in results(job) if row["error"]] == ["a.txt:17"]


def test_workers_of_a_cluster_get_the_key_and_ray_does_not_log_it(
    job: BatchJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ray.cluster_utils import Cluster

    key = f"key-{os.getpid()}-{time.time_ns()}"
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 3, "object_store_memory": 100 << 20})
    try:
        logs = Path(nodes.head_node.get_logs_dir_path())
        ran = batch(job, "--address", nodes.address, function="keyed", OPENAI_API_KEY=key)
    finally:
        nodes.shutdown()
    assert ran.returncode == 0, ran.stderr
    assert {row["translation"] for row in results(job)} == {key}
    texts = [path.read_bytes() for path in logs.rglob("*") if path.is_file()]
    assert texts and not any(key.encode() in text for text in texts)
