"""``quitmt`` and ``python -m quitmt``: starts the command line, and handles an interrupt while it is loading."""

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
        # KeyboardInterrupt within an import could be turned into another exception, so exit at once.
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
    """End the process without finalizing Python: an interrupt leaves threads running in compiled code, and when they
    return to a finalized Python, C++ aborts ("terminate called without an active exception")."""
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, AttributeError, ValueError):  # closed or missing
            stream.flush()
    os._exit(code)


def _leave(*_: object) -> NoReturn:
    """Exit at once, because no work has begun."""
    _say()
    os._exit(INTERRUPTED)


def _say() -> None:
    if sys.stderr is not None:
        print("quitmt: interrupted", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
