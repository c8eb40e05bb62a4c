"""Plain iteration over async iterators: what happens at the end, and when somebody leaves in the middle."""

from __future__ import annotations

import signal
import subprocess
import sys

SCRIPT = """
import quitmt, time

def sample(source, start, stop):
    time.sleep({pause})
    return [source] * (stop - start)

outcomes = quitmt.Translator(sample, n=8).stream([str(i) for i in range(100)])
print(next(outcomes).translation, flush=True)
{rest}
"""


def run(rest: str, pause: float = 0.0) -> subprocess.Popen[str]:
    code = SCRIPT.format(pause=pause, rest=rest)
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_program_may_end_with_an_iterator_open() -> None:
    with run("") as process:
        out, error = process.communicate(timeout=60)
    assert (process.returncode, out, error) == (0, "0\n", "")


def test_ctrl_c_is_a_keyboard_interrupt() -> None:
    rest = "try:\n    print('in', flush=True)\n    list(outcomes)\nexcept KeyboardInterrupt:\n    print('caught')"
    with run(rest, pause=0.3) as process:
        assert process.stdout and [process.stdout.readline() for _ in range(2)] == ["0\n", "in\n"]
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "caught\n")
    assert "Traceback" not in error  # Python may warn of a coroutine that the signal came before
