"""``quitmt models``: the models and metrics there are, what is installed, and the command that adds what is missing."""

from __future__ import annotations

import argparse
from typing import Any

from quitmt.generate import BACKENDS
from quitmt.generate.judge import ENGINES
from quitmt.metrics.scorer import KINDS, Kind
from quitmt.prompts.template import names

MARKS = {True: "ready  ", False: "missing"}
CHECKPOINT = "checkpoints/model.ckpt"
"""The weights of COMET and its kin; those of others are where transformers keeps them."""


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "models",
        help="list the kinds of models and metrics, and what is installed",
        description="List the kinds of models that --model takes and the metrics that -m and --rerank take, which are "
        "ready, and how to add the others.",
    )
    parser.set_defaults(act=act)


def act(_: argparse.Namespace) -> int:
    for backend in BACKENDS.values():
        print(f"{MARKS[backend.installed]}  {backend.usage:<32}{backend.meaning}")
        if not backend.installed:
            print(f"         {'':<32}{backend.command}")
    print(f"\nprompt templates for chat models (--prompt): {', '.join(names())}, or a file of your own")
    print("\nmetrics (-m of score and compare; as mbr: or qe: of --rerank):")
    print(f"{MARKS[True]}  {'chrf, chrf++, bleu':<20}come with quitmt")
    judges = any(BACKENDS[engine].installed for engine in ENGINES)
    engines = ", ".join(ENGINES)
    print(f"{MARKS[judges]}  {'gemba:ENGINE:MODEL':<20}a chat model on any of {engines} above; not for --rerank")
    width = max(len(kind.model) for kind in KINDS.values())
    for name, kind in KINDS.items():
        print(f"{MARKS[kind.installed]}  {name:<20}{kind.model:<{width}}  {_state(kind)}")
    return 0


def _state(kind: Kind) -> str:
    """Whether its checkpoint is at hand, and the command that adds what is not there."""
    if not kind.installed:
        return f"pip install 'quitmt[{kind.extra}]'"
    from quitmt.neural import hub

    if any(hub.has_file(kind.model, name) for name in (CHECKPOINT, *hub.WEIGHTS)):
        return "cached"
    return f"not downloaded yet: hf download {kind.model}"
