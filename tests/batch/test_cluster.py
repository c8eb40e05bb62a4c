"""Worker pools: errors of one sentence, and the settings that Ray is started with."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from quitmt.batch import cluster
from quitmt.batch.cluster import WorkerPool, connected
from quitmt.errors import QuitmtError, UsageError
from tests.batch.local_ray import LocalRay


def started(monkeypatch: pytest.MonkeyPatch, pool: WorkerPool, machines: Sequence[Mapping[str, float]]) -> LocalRay:
    ray = LocalRay()
    ray.machines = tuple(machines)
    monkeypatch.setattr(cluster, "ray_of", lambda: ray)
    with connected(pool) as found:
        assert found is ray
    return ray


def test_a_number_or_a_range_of_workers() -> None:
    assert WorkerPool.sized("3") == WorkerPool(3, 3)
    assert WorkerPool.sized("0-8") == WorkerPool(0, 8)
    assert WorkerPool(0, 9999).for_parts(3) == WorkerPool(0, 3)
    assert WorkerPool(4, 8).for_parts(2) == WorkerPool(2, 2)
    assert WorkerPool(2, 4).for_parts(100) == WorkerPool(2, 4)


@pytest.mark.parametrize("workers", ["two", "²", "1-²", "2-", "0", "4-2"])
def test_invalid_numbers_of_workers(workers: str) -> None:
    with pytest.raises(UsageError, match=r"^workers must be a number .*or a range such as 2-8"):
        WorkerPool.sized(workers)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"gpus": -1.0}, "gpus_per_worker must be 0 or more, not -1"),
        ({"working_dir": "/nowhere"}, "there is no folder /nowhere"),
    ],
)
def test_workers_that_cannot_be(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(QuitmtError) as caught:
        WorkerPool(**settings)
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("here", "address must be HOST:PORT, or auto for this machine's cluster"),
        ("here:²", "address must be HOST:PORT, or auto for this machine's cluster"),
        ("a..b:1", "there is no Ray at a..b:1: "),
        ("ray://h:1", "Ray Data doesn't support Ray's client"),
    ],
)
def test_addresses_without_a_ray(address: str, said: str) -> None:
    with pytest.raises(UsageError) as caught, connected(WorkerPool(address=address)):
        pass
    assert str(caught.value).startswith(said)


def test_a_port_where_nothing_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    with pytest.raises(UsageError, match=rf"^there is no Ray at {address}: "), connected(WorkerPool(address=address)):
        pass


SMALL, ONES, THREES = [{"CPU": 3.0, "GPU": 1.0}], [{"CPU": 8.0, "GPU": 1.0}] * 4, [{"CPU": 8.0, "GPU": 3.0}] * 2


@pytest.mark.parametrize(
    ("pool", "machines"),
    [
        (WorkerPool(1, 8, gpus=1.0, address="auto"), SMALL),
        (WorkerPool(4, 8, gpus=1.0, address="auto"), ONES),
        (WorkerPool(2, 3, gpus=2.0, address="auto"), THREES),
        (WorkerPool(20, 20, gpus=0.3, cpus=0.0, address="auto"), THREES),
        (WorkerPool(99, 99, cpus=0.0, address="auto"), ONES),
        (WorkerPool(0, 8, gpus=2.0, address="auto"), ONES),  # a cluster that grows
        (WorkerPool(0, 8, gpus=2.0, address="auto"), []),
    ],
)
def test_workers_that_fit(pool: WorkerPool, machines: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    assert started(monkeypatch, pool, machines).started["address"] == "auto"


@pytest.mark.parametrize(
    ("pool", "machines", "said"),
    [
        (WorkerPool(2, 2, gpus=1.0, address="auto"), SMALL, r"2 workers with .*: GPUs needed 2, found 1 \(use fewer"),
        (WorkerPool(4, 4, address="auto"), SMALL, r"4 workers with .*: CPUs needed 4, found 3 \(use fewer"),
        (
            WorkerPool(1, 8, gpus=2.0, address="auto"),
            ONES,
            r"1 worker with 2 GPUs and 1 CPUs on one machine each: 0 would fit \(use fewer",
        ),
        (WorkerPool(3, 3, gpus=2.0, address="auto"), THREES, "3 workers with 2 GPUs and 1 CPUs on .* each: 2 would"),
        (
            WorkerPool(1, 1, gpus=1.0, address="auto"),
            [{"CPU": 8.0}, {"GPU": 8.0}],
            "1 worker .*: 0 would fit",
        ),
    ],
)
def test_workers_that_do_not_fit(
    pool: WorkerPool, machines: list[Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match=f"^there is no room for {said}"):
        started(monkeypatch, pool, machines)


def test_here_nothing_grows_and_cores_are_those_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "cores", lambda: 2)
    there = [{"CPU": 9.0}]
    assert started(monkeypatch, WorkerPool(2, 8), there).started["num_cpus"] == 3  # one more, for Ray itself
    assert started(monkeypatch, WorkerPool(8, 8, cpus=0.25), there).started["address"] == "local"
    with pytest.raises(UsageError, match=r"^there is no room for 3 workers with .*: CPUs needed 3, found 2 \(use"):
        started(monkeypatch, WorkerPool(3, 3), there)
    with pytest.raises(UsageError, match=r"^there is no room for 1 worker with .*: GPUs needed 1, found 0 \(use"):
        started(monkeypatch, WorkerPool(0, 4, gpus=1.0), there)


def test_remote_workers_get_the_engines_environment_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert "runtime_env" not in started(monkeypatch, WorkerPool(), ONES).started
    elsewhere = WorkerPool(address="auto", working_dir=".")
    given = started(monkeypatch, elsewhere, ONES).started["runtime_env"]
    assert "secret" not in str(given), "Ray writes it to its logs"
    monkeypatch.setenv("OPENAI_API_KEY", "other")
    given["worker_process_setup_hook"]()
    assert os.environ["OPENAI_API_KEY"] == "secret" and "OPENAI_BASE_URL" not in os.environ
    monkeypatch.setenv("OPENAI_API_KEY", "")
    assert started(monkeypatch, elsewhere, ONES).started["runtime_env"] == {"working_dir": "."}


@pytest.mark.parametrize(("failures", "address", "tries"), [(2, None, 3), (3, None, 3), (1, "auto", 1)])
def test_a_ray_of_our_own_that_starts_too_slowly_is_started_again(
    monkeypatch: pytest.MonkeyPatch, failures: int, address: str | None, tries: int
) -> None:
    class Slow(LocalRay):
        tried = 0

        def init(self, **settings: Any) -> Any:
            self.tried += 1
            if self.tried <= failures:
                raise RuntimeError("The current node timed out during startup. This could happen because")
            return super().init(**settings)

    ray = Slow()
    monkeypatch.setattr(cluster, "ray_of", lambda: ray)
    if failures < tries:
        with connected(WorkerPool(address=address)):
            assert ray.tried == tries
    else:
        with pytest.raises(UsageError, match="The current node timed out"), connected(WorkerPool(address=address)):
            pass
        assert ray.tried == tries
