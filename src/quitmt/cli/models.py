"""``quitmt models``: the backends, what is installed, and the command that adds what is missing."""

from __future__ import annotations

import argparse
from typing import Any

from quitmt.generate import BACKENDS
from quitmt.prompts.template import names


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "models",
        help="list the kinds of models, and what is installed",
        description="List the kinds of models that --model takes, which are ready, and how to add the others.",
    )
    parser.set_defaults(act=act)


def act(_: argparse.Namespace) -> int:
    for backend in BACKENDS.values():
        mark = "ready  " if backend.installed else "missing"
        print(f"{mark}  {backend.usage:<32}{backend.meaning}")
        if not backend.installed:
            print(f"         {'':<32}{backend.command}")
    print(f"\nprompt templates for chat models (--prompt): {', '.join(names())}, or a file of your own")
    return 0
