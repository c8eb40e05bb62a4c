"""``quitmt batch``: what it costs beside ``translate``, what survives kills, and how much memory it takes.

    python -m benchmarks.batch overhead [--lines 2000] [--source FILE]   CPU seconds against quitmt translate
    python -m benchmarks.batch idle [--seconds 60]                       what Ray's processes take while nothing happens
    python -m benchmarks.batch faults [--rows 5000]                      kills on a cluster of three nodes
    python -m benchmarks.batch memory [--rows 10000 100000 1000000]      the driver's and a worker's

Run where ``quitmt[batch]`` is installed (``make test-batch`` makes such an environment).
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FUNCTIONS = "benchmarks.batch_functions"
WORDS = (
    "the a small old new train house river letter friend window morning answered opened found left again today".split()
)


def lines(count: int, words: int = 9) -> list[str]:
    rng = random.Random(count)
    return [f"{number} {' '.join(rng.choices(WORDS, k=words))}." for number in range(count)]


def environment(**more: str) -> dict[str, str]:
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT), *filter(None, sys.path)])
    return {"RAY_worker_niceness": "0", **os.environ, "PYTHONPATH": path, **more}


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "quitmt", *(str(word) for word in words)]


def ran(*words: object, **more: str) -> tuple[float, float]:
    """CPU seconds of a command and all its processes, and seconds by the clock."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command(*words), env=environment(**more), check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, time.perf_counter() - begun


def processes(parent: int, *, itself: bool = False) -> dict[int, tuple[str, float, int]]:
    """All descendants: name, CPU seconds and resident megabytes."""
    import psutil

    found, own = {}, psutil.Process(parent)
    for one in [*([own] if itself else []), *own.children(recursive=True)]:
        try:
            times, memory = one.cpu_times(), one.memory_info().rss >> 20
            found[one.pid] = (_name(one.cmdline()), times.user + times.system, memory)
        except psutil.Error:
            continue
    return found


def _name(words: list[str]) -> str:
    """What a process is: the title that Ray gives it, or its program and script."""
    told = [Path(word).name for word in words[:4] if not word.startswith("-")]
    return words[0].strip() if words and words[0].startswith("ray::") else " ".join(told)


class Watched:
    """A command, with what its processes take. Nobody waits for Ray's, so the kernel does not add them up."""

    def __init__(self, *words: object, **more: str) -> None:
        self.process = subprocess.Popen(command(*words), env=environment(**more))
        self.cpu: dict[int, tuple[str, float]] = {}
        self.peak: dict[str, int] = {}
        self._begun = time.perf_counter()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        import psutil

        while self.process.poll() is None:
            try:
                own = psutil.Process(self.process.pid)
                times = own.cpu_times()
                self._note(self.process.pid, "driver", times.user + times.system, own.memory_info().rss >> 20)
                for pid, (name, cpu, memory) in processes(self.process.pid).items():
                    kind = "worker" if "MapWorker" in name else "ray"
                    self._note(pid, kind, cpu, memory)
            except psutil.Error:
                pass
            time.sleep(0.3)

    def _note(self, pid: int, kind: str, cpu: float, memory: int) -> None:
        if self.cpu.get(pid, ("ray",))[0] == "worker":  # its name changes with what it does
            kind = "worker"
        self.cpu[pid] = (kind, cpu)
        self.peak[kind] = max(self.peak.get(kind, 0), memory)

    def wait(self) -> float:
        code = self.process.wait()
        self._thread.join()
        if code:
            raise SystemExit(f"quitmt ended with code {code}")
        return time.perf_counter() - self._begun

    def seconds(self, *kinds: str) -> float:
        """Of CPU, of processes of some kinds or of all."""
        return sum(cpu for name, cpu in self.cpu.values() if name in kinds or not kinds)

    def told(self, wall: float) -> str:
        parts = ", ".join(f"{kind} {self.seconds(kind):.1f}" for kind in ("driver", "worker", "ray"))
        return f"{self.seconds():7.1f} CPU s {wall:7.1f} s   ({parts})"


def overhead(args: argparse.Namespace, folder: Path) -> None:
    source = folder / "lines.en"
    given = Path(args.source).read_text("utf-8").splitlines() if args.source else lines(args.lines)
    source.write_text("".join(f"{line}\n" for line in given[: args.lines]), "utf-8")
    small = folder / "one.en"
    small.write_text("One.\n" * max(args.workers))
    # One thread for every engine, so that the same work is compared.
    one = dict.fromkeys(("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    setting = ("--max-cost", args.max_cost, "-q")
    ran("translate", small, "-o", folder / "warm", *setting, **one)
    start, wall = ran("translate", small, "-o", folder / "warm", *setting, **one)
    print(f"quitmt translate, nothing to do {start:7.1f} CPU s {wall:7.1f} s")
    alone, wall = ran("translate", source, "-o", folder / "translated", *setting, **one)
    print(f"quitmt translate               {alone:7.1f} CPU s {wall:7.1f} s", flush=True)
    walls = {}
    for workers in args.workers:
        many = ("--workers", workers, *setting)
        begun = Watched("batch", small, "-o", folder / f"small{workers}", "--rows-per-file", 1, *many, **one)
        started = begun.wait()
        print(f"quitmt batch, nothing to do    {begun.told(started)}", flush=True)
        job = Watched("batch", source, "-o", folder / f"out{workers}", *many, **one)
        walls[workers] = job.wait()
        print(f"quitmt batch, workers: {workers}       {job.told(walls[workers])}")
        worker = (job.seconds("worker") - begun.seconds("worker")) / (alone - start)
        whole = (job.seconds() - begun.seconds()) / (alone - start)
        others = (job.seconds("driver", "ray") - begun.seconds("driver", "ray")) / (walls[workers] - started)
        print(f"  without the starts: workers / translate {worker:.3f}, everything / translate {whole:.3f}")
        print(f"  driver and Ray: {1000 * others:.0f} ms of CPU per second by the clock", flush=True)
    first, last = args.workers[0], args.workers[-1]
    print(f"by the clock, {last} workers / {first}: {walls[last] / walls[first]:.2f}")


def idle(args: argparse.Namespace, folder: Path) -> None:
    """A job whose only worker sleeps: what is left is what Ray takes for being there."""
    source = folder / "rows.txt"
    source.write_text("".join(f"{line}\n" for line in lines(2)))
    model = ("--model", f"{FUNCTIONS}:asleep", "-n", 1, "-k", 1, "--stop", "full", "-q")
    job = Watched("batch", source, "-o", folder / "out", *model, ASLEEP_SECONDS=str(args.seconds + 30))
    while "worker" not in job.peak:
        time.sleep(0.5)
    time.sleep(20)  # until everything has been started
    before, begun = processes(job.process.pid, itself=True), time.perf_counter()
    time.sleep(args.seconds)
    after, seconds = processes(job.process.pid, itself=True), time.perf_counter() - begun
    rates = {pid: (cpu - before[pid][1]) / seconds * 1000 for pid, (_, cpu, _) in after.items() if pid in before}
    for pid, rate in sorted(rates.items(), key=lambda one: -one[1]):
        print(f"{rate:6.1f} ms/s  {after[pid][2]:4d} MB  {after[pid][0]}")
    print(f"{sum(rates.values()):6.1f} ms of CPU per second by the clock in all")
    job.wait()


def digest(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.glob("part-*"))}


def check_same(found: Path, undisturbed: Path, rows: int, what: str) -> None:
    import pyarrow.dataset

    ids = pyarrow.dataset.dataset(str(found)).to_table(columns=["id"])["id"].to_pylist()
    assert len(ids) == len(set(ids)) == rows, f"{what}: {len(ids)} rows, {len(set(ids))} ids"
    assert digest(found) == digest(undisturbed), f"{what}: other bytes"
    print(f"{what}: {rows} rows, none lost, none doubled, the same bytes", flush=True)


def workers() -> list[int]:
    """Those of the nodes that this process started."""
    return [pid for pid, (name, _, _) in processes(os.getpid()).items() if "MapWorker" in name]


def faults(args: argparse.Namespace, folder: Path) -> None:
    os.environ.update(environment())
    from ray.cluster_utils import Cluster

    source = folder / "rows.txt"
    source.write_text("".join(f"{line}\n" for line in lines(args.rows)))

    def words(output: str) -> list[object]:
        model = ("--model", f"{FUNCTIONS}:slow", "-n", 8, "-k", 4, "--rows-per-file", args.rows_per_file, "-q")
        return ["batch", source, "-o", folder / output, *model, "--workers", 2]

    Watched(*words("undisturbed")).wait()
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
    nodes = [cluster.add_node(num_cpus=2) for _ in range(2)]
    cluster.wait_for_nodes()
    try:
        job = Watched(*words("kills"), "--address", cluster.address)
        killed = done = 0
        while job.process.poll() is None:
            time.sleep(args.every)
            before, done = done, len(list((folder / "kills").glob("part-*")))
            # Where starting takes longer than that, nothing would ever get done.
            for pid in workers()[: done > before]:
                os.kill(pid, signal.SIGKILL)
                killed += 1
        job.wait()
        check_same(folder / "kills", folder / "undisturbed", args.rows, f"{killed} workers killed")

        job = Watched(*words("nodes"), "--address", cluster.address)
        time.sleep(args.every * 3)
        lost = 0
        while job.process.poll() is None and lost < 2:
            busy = (folder / "nodes").glob("part-*")
            if any(busy):
                cluster.remove_node(nodes.pop(0), allow_graceful=False)
                nodes.append(cluster.add_node(num_cpus=2))
                lost += 1
            time.sleep(args.every * 2)
        job.wait()
        check_same(folder / "nodes", folder / "undisturbed", args.rows, f"{lost} nodes removed, and others added")
    finally:
        cluster.shutdown()
    drivers(args, folder, words)


def drivers(args: argparse.Namespace, folder: Path, words: Any) -> None:
    """The driver, and with it the whole local Ray, killed again and again."""
    killed, rng = 0, random.Random(7)
    while True:
        job = subprocess.Popen(command(*words("driver")), env=environment())
        before, begun = len(list((folder / "driver").glob("part-*"))), time.perf_counter()
        while job.poll() is None:
            time.sleep(0.2)
            done = len(list((folder / "driver").glob("part-*"))) - before
            if killed < args.kills and done and time.perf_counter() - begun > rng.uniform(2, 4):
                os.kill(job.pid, signal.SIGKILL)
                killed += 1
                break
        if job.wait() == 0:
            break
    check_same(folder / "driver", folder / "undisturbed", args.rows, f"the driver killed {killed} times")


def memory(args: argparse.Namespace, folder: Path) -> None:
    for count in args.rows:
        source = folder / f"{count}.txt"
        with source.open("w") as file:
            file.writelines(f"row {number}\n" for number in range(count))
        model = ("--model", f"{FUNCTIONS}:quick", "--stop", "fixed:1", "-q", "--rows-per-file", 2000)
        job = Watched("batch", source, "-o", folder / f"out{count}", *model)
        seconds = job.wait()
        print(
            f"{count:9,} rows: driver {job.peak['driver']} MB, worker {job.peak['worker']} MB   ({seconds:.0f} s)",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(dest="kind", required=True)
    one = kinds.add_parser("overhead")
    one.add_argument("--lines", type=int, default=2000)
    one.add_argument("--source", help="a file of English lines; made up without it")
    one.add_argument("--max-cost", type=float, default=16)
    one.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    still = kinds.add_parser("idle")
    still.add_argument("--seconds", type=float, default=60.0)
    two = kinds.add_parser("faults")
    two.add_argument("--rows", type=int, default=5000)
    two.add_argument("--rows-per-file", type=int, default=50)
    two.add_argument("--every", type=float, default=4.0, help="seconds between kills of workers, at least")
    two.add_argument("--kills", type=int, default=3, help="of the driver")
    three = kinds.add_parser("memory")
    three.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        {"overhead": overhead, "idle": idle, "faults": faults, "memory": memory}[args.kind](args, Path(folder))


if __name__ == "__main__":
    main()
