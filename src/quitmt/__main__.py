"""``quitmt`` and ``python -m quitmt``: the command line, and what an interrupt does while it is loaded."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from contextlib import suppress
from typing import NoReturn

INTERRUPTED = 130


def main() -> int:
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # An exception would come out of the middle of some module, which may make another one of it.
        signal.signal(signal.SIGINT, _leave)
        from quitmt.cli.main import main as act

        signal.signal(signal.SIGINT, signal.default_int_handler)
    else:
        from quitmt.cli.main import main as act
    try:
        code = act()
    except KeyboardInterrupt:
        _say()
        code = INTERRUPTED
    if code == INTERRUPTED:
        _end(code)
    return code


def _end(code: int) -> NoReturn:
    """Without Python's own end of the process: an interrupt leaves threads behind that compute in compiled code, and
    when they come back to a Python that has ended, C++ aborts ("terminate called without an active exception")."""
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, AttributeError, ValueError):  # closed, or none
            stream.flush()
    os._exit(code)


def _leave(*_: object) -> NoReturn:
    """At once: nothing was begun that could be lost."""
    _say()
    os._exit(INTERRUPTED)


def _say() -> None:
    if sys.stderr is not None:
        print("quitmt: interrupted", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
