"""``quitmt`` and ``python -m quitmt``: the command line, and what an interrupt does while it is loaded."""

from __future__ import annotations

import os
import signal
import sys
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
        return act()
    except KeyboardInterrupt:
        _say()
        return INTERRUPTED


def _leave(*_: object) -> NoReturn:
    """At once: nothing was begun that could be lost."""
    _say()
    os._exit(INTERRUPTED)


def _say() -> None:
    if sys.stderr is not None:
        print("quitmt: interrupted", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
