"""Ray: here, or a cluster at an address; what there is of it, checked before anything is started on it."""

from __future__ import annotations

import logging
import math
import os
import re
import socket
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from quitmt.batch.storage import INSTALL, told
from quitmt.cores import cores
from quitmt.errors import InputError, MissingExtra, UsageError, counted, setting

CONNECT_SECONDS = 5.0
START_SECONDS = "300"
STARTS = 3
"""Tries to start a Ray of our own."""
OBJECT_STORE_BYTES = 100 << 20
"""Here. Only numbers of parts and their tallies go through it."""

SHARES = 10_000
"""Of a GPU or a CPU: the smallest that Ray knows."""

PASSED = ("OPENAI_API_KEY", "OPENAI_BASE_URL")
"""What engines read from the environment, and workers on other machines would lack."""

GREETING = b"Set ray log level from environment variable"
"""Ray says so when it is told to say nothing."""


@dataclass(frozen=True, slots=True)
class WorkerPool:
    """How many workers, and what each of them takes."""

    least: int = 1
    """0: as few as one, and they need not fit now; for a cluster that grows when it is asked for more."""
    most: int = 1
    gpus: float = 0.0
    cpus: float = 1.0
    address: str | None = None
    working_dir: str | None = None
    """A folder with code of the user's, which Ray copies to every worker."""
    dashboard: bool = False
    debug: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.least <= self.most or self.most < 1:
            raise UsageError(f"{setting('batch.workers')} must be a number from 1 on, or a range such as 2-8")
        for name, value in (("gpus_per_worker", self.gpus), ("cpus_per_worker", self.cpus)):
            if not 0 <= value < math.inf:
                raise UsageError(f"{setting(f'batch.{name}')} must be 0 or more, not {value:g}")
        if self.working_dir is not None and not Path(self.working_dir).is_dir():
            raise InputError(f"there is no folder {self.working_dir}")

    @classmethod
    def sized(cls, workers: str, **more: Any) -> WorkerPool:
        """From ``4`` or ``2-8``."""
        found = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", workers)
        if not found:
            raise UsageError(f"{setting('batch.workers')} must be a number or a range such as 2-8, not {workers!r}")
        return cls(int(found[1]), int(found[2] or found[1]), **more)

    def for_parts(self, parts: int) -> WorkerPool:
        """Without workers that would have nothing to do."""
        return replace(self, least=min(self.least, parts), most=min(self.most, parts))


def check_installed() -> None:
    """Before anything is read."""
    if find_spec("ray") is None:
        raise MissingExtra("quitmt batch needs ray", hint=INSTALL)


def ray_of() -> Any:
    # Ray reads these when it is imported: no reports to its makers, no advice about zero GPUs, patience when busy.
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
def connected(pool: WorkerPool) -> Iterator[tuple[Any, str | None]]:
    """Ray, for as long as it is needed, and where its dashboard is."""
    if pool.address is not None:
        _check_address(pool.address)
    ray = ray_of()
    level = logging.INFO if pool.debug else logging.ERROR
    if not pool.debug:  # Ray's C++ part warns of what Ray Data does by itself
        os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    more: dict[str, Any] = {"logging_level": level, "log_to_driver": pool.debug}
    if environment := _runtime_env(pool):
        more["runtime_env"] = environment
    try:
        if pool.address is None:
            # One more than the workers take, so that whatever else Ray runs is never starved by them.
            cpus = min(math.ceil(pool.most * pool.cpus), cores()) + 1
            more |= {"num_cpus": cpus, "include_dashboard": pool.dashboard, "object_store_memory": OBJECT_STORE_BYTES}
        # Here always a new one, also where a cluster runs on this machine or RAY_ADDRESS names one.
        found = _started(ray, STARTS if pool.address is None else 1, address=pool.address or "local", **more)
    except Exception as error:  # Ray has many, and some are plain exceptions
        where = f"no Ray at {pool.address}" if pool.address else "Ray does not start here"
        hint = None if pool.address else "on a very busy machine it may take longer than Ray waits: try again"
        raise UsageError(f"{where}: {told(error).partition('. ')[0].rstrip('.')}", hint=hint) from None
    logging.getLogger("ray.data").setLevel(level)
    try:
        _check_room(pool, [node["Resources"] for node in ray.nodes() if node["Alive"]])
        yield ray, found.dashboard_url
    finally:
        ray.shutdown()


def _started(ray: Any, tries: int, **settings: Any) -> Any:
    """Ray waits 30 seconds for its own processes, whatever the settings: too little on a very busy machine."""
    for left in reversed(range(tries)):
        try:
            with _without(GREETING):
                return ray.init(**settings)
        except Exception:
            ray.shutdown()
            if not left:
                raise
    raise AssertionError("tries must be at least 1")


def _runtime_env(pool: WorkerPool) -> dict[str, Any]:
    """What Ray gives to workers. Those of this machine have its environment anyway."""
    found: dict[str, Any] = {}
    if pool.working_dir is not None:
        found["working_dir"] = pool.working_dir
    values = {name: os.environ[name] for name in PASSED if os.environ.get(name)}
    if values and pool.address is not None:
        found["worker_process_setup_hook"] = _passing(values)
    return found


def _passing(values: Mapping[str, str]) -> Callable[[], None]:
    """A function that every worker calls first. Not Ray's ``env_vars``: it writes those to its logs, keys too."""

    def pass_environment() -> None:
        os.environ.update(values)

    return pass_environment


@contextmanager
def _without(unwanted: bytes) -> Iterator[None]:
    """What C++ code writes to standard error meanwhile is passed on in the end, without these lines."""
    with tempfile.TemporaryFile() as caught:
        real = os.dup(2)
        os.dup2(caught.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(real, 2)
            os.close(real)
            caught.seek(0)
            os.write(2, b"".join(line for line in caught if unwanted not in line))


def _check_address(address: str) -> None:
    """Ray itself tries for a minute, and says a page."""
    if address.startswith("ray://"):
        hint = f"run it on a machine of the cluster, with {setting('batch.address', 'auto')}"
        raise UsageError("Ray Data does not work by way of Ray's client", hint=hint)
    if address == "auto":
        return
    host, colon, port = address.rpartition(":")
    if not colon or not re.fullmatch("[0-9]{1,9}", port):
        raise UsageError(f"{setting('batch.address')} must be HOST:PORT, or auto for the cluster of this machine")
    try:
        socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
    except (OSError, OverflowError, UnicodeError) as error:
        raise UsageError(f"there is no Ray at {address}: {told(error)}", hint="ray status says where it is") from None


def _check_room(pool: WorkerPool, nodes: Sequence[Mapping[str, float]]) -> None:
    """That so many workers fit as there must be, each on one machine. Here nothing grows, so one must."""
    here = pool.address is None
    nodes = [{**node, "CPU": cores()} for node in nodes] if here else nodes
    least = max(pool.least, 1) if here else pool.least
    grows = "" if here else ", or workers from 0 on where a cluster grows"
    needs = [("gpus_per_worker", "GPU", pool.gpus), ("cpus_per_worker", "CPU", pool.cpus)]
    for name, kind, each in needs:
        needed, found = least * each, sum(node.get(kind, 0.0) for node in nodes)
        if needed > found:
            who = f"{counted(least, 'worker')} with {setting(f'batch.{name}', f'{each:g}')}"
            raise UsageError(
                f"there is no room for {who}: {kind}s needed {needed:g}, found {found:g}",
                hint=f"fewer workers, or a smaller {setting(f'batch.{name}')}{grows}",
            )
    taken = {kind: each for _, kind, each in needs if each}
    fitting = sum(min(_times(node.get(kind, 0.0), each) for kind, each in taken.items()) for node in nodes if taken)
    if taken and least > fitting:
        what = " and ".join(f"{each:g} {kind}s" for kind, each in taken.items())
        raise UsageError(
            f"there is no room for {counted(least, 'worker')} with {what} on one machine each: {fitting} would fit",
            hint=f"fewer workers, or smaller ones{grows}",
        )


def _times(there: float, each: float) -> int:
    """How often it fits; Ray counts in ten-thousandths."""
    return round(there * SHARES) // max(1, round(each * SHARES))
