"""Starts Ray on this machine or connects to a cluster, and checks its resources before any work starts."""

from __future__ import annotations

import logging
import math
import os
import re
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from quitmt.batch.storage import INSTALL, message_of
from quitmt.cores import cores
from quitmt.errors import InputError, MissingExtra, UsageError, counted, setting

CONNECT_SECONDS = 5.0
START_SECONDS = "300"
STARTS = 3
"""Attempts to start Ray on this machine."""
OBJECT_STORE_BYTES = 100 << 20
"""Size of the object store on this machine, which only carries part numbers and tallies."""

SHARES = 10_000
"""Ray divides a GPU or a CPU into this many shares."""

PASSED = ("OPENAI_API_KEY", "OPENAI_BASE_URL")
"""Environment variables that engines read, passed to workers on other machines."""


@dataclass(frozen=True, slots=True)
class WorkerPool:
    """The number of workers and the resources of each."""

    least: int = 1
    """Minimum number of workers. With 0, work can start before any worker fits, for clusters that grow on demand."""
    most: int = 1
    gpus: float = 0.0
    cpus: float = 1.0
    address: str | None = None
    working_dir: str | None = None
    """A folder with the user's code, which Ray copies to every worker."""
    debug: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.least <= self.most or self.most < 1:
            raise UsageError(f"{setting('batch.workers')} must be a number from 1 up or a range such as 2-8")
        for name, value in (("gpus_per_worker", self.gpus), ("cpus_per_worker", self.cpus)):
            if not 0 <= value < math.inf:
                raise UsageError(f"{setting(f'batch.{name}')} must be 0 or more, not {value:g}")
        if self.working_dir is not None and not Path(self.working_dir).is_dir():
            raise InputError(f"there is no folder {self.working_dir}")

    @classmethod
    def sized(cls, workers: str, **more: Any) -> WorkerPool:
        """Parses a number (``4``) or a range (``2-8``)."""
        sizes = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", workers)
        if not sizes:
            raise UsageError(f"{setting('batch.workers')} must be a number or a range such as 2-8, not {workers!r}")
        return cls(int(sizes[1]), int(sizes[2] or sizes[1]), **more)

    def for_parts(self, parts: int) -> WorkerPool:
        """Leaves out workers that would have nothing to do."""
        return replace(self, least=min(self.least, parts), most=min(self.most, parts))


def check_installed() -> None:
    """Raises an error if Ray is missing; called before any input is read."""
    if find_spec("ray") is None:
        raise MissingExtra("quitmt batch needs ray", hint=INSTALL)


def ray_of() -> Any:
    # Ray reads these on import: no usage statistics, no warning about zero GPUs, a long start timeout.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("RAY_raylet_start_wait_time_s", START_SECONDS)
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise MissingExtra(f"quitmt batch needs {error.name}", hint=INSTALL) from None
    return ray


@contextmanager
def connected(pool: WorkerPool) -> Iterator[Any]:
    """Yields the ray module while connected."""
    if pool.address is not None:
        _check_address(pool.address)
    ray = ray_of()
    level = logging.INFO if pool.debug else logging.ERROR
    if not pool.debug:  # Ray's C++ code warns about Ray Data's normal behaviour
        os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    more: dict[str, Any] = {"logging_level": level, "log_to_driver": pool.debug}
    if environment := _runtime_env(pool):
        more["runtime_env"] = environment
    try:
        if pool.address is None:
            # One more CPU than the workers take, so that they never starve Ray's other tasks.
            cpus = min(math.ceil(pool.most * pool.cpus), cores()) + 1
            more |= {"num_cpus": cpus, "include_dashboard": False, "object_store_memory": OBJECT_STORE_BYTES}
        # Without an address, always start a new Ray, even if one runs here or RAY_ADDRESS points to one.
        _start(ray, STARTS if pool.address is None else 1, address=pool.address or "local", **more)
    except Exception as error:  # Ray raises many kinds of exceptions
        where = f"no Ray at {pool.address}" if pool.address else "Ray doesn't start on this machine"
        hint = None if pool.address else "try again: on a very busy machine Ray may time out"
        raise UsageError(f"{where}: {message_of(error).partition('. ')[0].rstrip('.')}", hint=hint) from None
    logging.getLogger("ray.data").setLevel(level)
    try:
        _check_room(pool, [node["Resources"] for node in ray.nodes() if node["Alive"]])
        yield ray
    finally:
        ray.shutdown()


def _start(ray: Any, tries: int, **settings: Any) -> None:
    """Starts Ray, with several tries: it waits only 30 seconds for its own processes, too short on a very busy
    machine."""
    for left in reversed(range(tries)):
        try:
            ray.init(**settings)
            return
        except Exception:
            ray.shutdown()
            if not left:
                raise


def _runtime_env(pool: WorkerPool) -> dict[str, Any]:
    """The environment that Ray sets up for workers. Workers on this machine inherit the environment variables."""
    environment: dict[str, Any] = {}
    if pool.working_dir is not None:
        environment["working_dir"] = pool.working_dir
    values = {name: os.environ[name] for name in PASSED if os.environ.get(name)}
    if values and pool.address is not None:
        environment["worker_process_setup_hook"] = _passing(values)
    return environment


def _passing(values: Mapping[str, str]) -> Callable[[], None]:
    """Makes a function that every worker calls first. (With Ray's ``env_vars``, API keys would end up in its logs.)"""

    def pass_environment() -> None:
        os.environ.update(values)

    return pass_environment


def _check_address(address: str) -> None:
    """Checks quickly whether an address answers; Ray would try for a minute."""
    if address.startswith("ray://"):
        hint = f"run the command on a machine of the cluster with {setting('batch.address', 'auto')}"
        raise UsageError("Ray Data doesn't support Ray's client", hint=hint)
    if address == "auto":
        return
    host, colon, port = address.rpartition(":")
    if not colon or not re.fullmatch("[0-9]{1,9}", port):
        raise UsageError(f"{setting('batch.address')} must be HOST:PORT, or auto for this machine's cluster")
    try:
        socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
    except (OSError, OverflowError, UnicodeError) as error:
        raise UsageError(
            f"there is no Ray at {address}: {message_of(error)}", hint="ray status shows the address"
        ) from None


def _check_room(pool: WorkerPool, nodes: Sequence[Mapping[str, float]]) -> None:
    """Checks that the minimum number of workers fits, each on one machine. A local Ray never grows, so at least one
    must fit."""
    here = pool.address is None
    nodes = [{**node, "CPU": cores()} for node in nodes] if here else nodes
    least = max(pool.least, 1) if here else pool.least
    grows = "" if here else "; start the range of workers at 0 if the cluster grows on demand"
    needs = [("gpus_per_worker", "GPU", pool.gpus), ("cpus_per_worker", "CPU", pool.cpus)]
    for name, kind, each in needs:
        needed, found = least * each, sum(node.get(kind, 0.0) for node in nodes)
        if needed > found:
            who = f"{counted(least, 'worker')} with {setting(f'batch.{name}', f'{each:g}')}"
            raise UsageError(
                f"there is no room for {who}: {kind}s needed {needed:g}, found {found:g}",
                hint=f"use fewer workers or a smaller {setting(f'batch.{name}')}{grows}",
            )
    taken = {kind: each for _, kind, each in needs if each}
    fitting = sum(min(_times(node.get(kind, 0.0), each) for kind, each in taken.items()) for node in nodes if taken)
    if taken and least > fitting:
        what = " and ".join(f"{each:g} {kind}s" for kind, each in taken.items())
        raise UsageError(
            f"there is no room for {counted(least, 'worker')} with {what} on one machine each: {fitting} would fit",
            hint=f"use fewer or smaller workers{grows}",
        )


def _times(there: float, each: float) -> int:
    """How many workers fit; Ray counts in ten-thousandths."""
    return round(there * SHARES) // max(1, round(each * SHARES))
