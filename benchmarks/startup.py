"""How long it takes to start: CPU seconds of short commands, beside Python itself.

    python benchmarks/startup.py [--rounds 15] [--base DIR]

Each command is a process of its own; user and system time, its children's too; the median over rounds in which all take
turns, after one round that is not counted (it writes the bytecode). ``--base`` is another checkout, such as a git
worktree of an older commit: it takes its turns in the same rounds, with the same Python.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
SCRIPT = "import sys; from quitmt.cli.main import main; sys.exit(main())"  # as the installed quitmt does it
COMMANDS = {
    "python -c pass": ("-c", "pass"),
    "import quitmt": ("-c", "import quitmt"),
    "import quitmt.api": ("-c", "import quitmt.api"),
    "quitmt --help": ("-c", SCRIPT, "--help"),
    "quitmt models": ("-c", SCRIPT, "models"),
    "quitmt translate --help": ("-c", SCRIPT, "translate", "--help"),
}


def cpu_seconds(words: tuple[str, ...], checkout: Path) -> float:
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    process = subprocess.Popen([sys.executable, *words], env=environment, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(words)} failed in {checkout}")
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--base", type=Path, metavar="DIR", help="another checkout to measure in the same rounds")
    args = parser.parse_args()
    checkouts = {"base": args.base.resolve(), "here": HERE} if args.base else {"here": HERE}
    seconds: dict[tuple[str, str], list[float]] = {}
    for round_number in range(args.rounds + 1):
        for command, words in COMMANDS.items():
            for name, checkout in checkouts.items():
                taken = cpu_seconds(words, checkout)
                if round_number:
                    seconds.setdefault((command, name), []).append(taken)
    print(f"| CPU seconds | {' | '.join(f'{name} | more than Python' for name in checkouts)} |")
    print("|---|" + "---:|---:|" * len(checkouts))
    medians = {key: statistics.median(taken) for key, taken in seconds.items()}
    for command in COMMANDS:
        cells = []
        for name in checkouts:
            more = medians[command, name] - medians["python -c pass", name]
            cells += [f"{medians[command, name]:.3f}", f"{more:.3f}"]
        print(f"| {command} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
