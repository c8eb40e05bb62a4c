"""``quitmt models``: the models and metrics there are, what is installed, and the command that adds what is missing.

``quitmt models get`` and ``list``, for translation models of other languages, are in ``pairs``.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from quitmt.cli import pairs
from quitmt.errors import UsageError
from quitmt.evaluate.judge.engines import ENGINES
from quitmt.generate import BACKENDS
from quitmt.generate.prompts.template import names
from quitmt.metrics.registry import SCORING_MODELS, MetricEntry

MARKS = {True: "ready  ", False: "missing"}
CHECKPOINT = "checkpoints/model.ckpt"
"""The weights of COMET, CometKiwi and xCOMET; MetricX's are where transformers keeps them."""
TOKENIZERS = ("tokenizer.json", "sentencepiece.bpe.model", "spiece.model")
"""A model needs one of them."""
METRICX_TOKENIZER = "google/mt5-xl"
"""As in ``quitmt.metrics.metricx``, which imports torch: too slow for a list."""


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "models",
        description="List the kinds of models that --model takes and the metrics that -m and --rerank take, which are "
        "ready, and how to add the others. With an ACTION: translation models for other languages.",
    )
    pairs.add_actions(parser)
    parser.set_defaults(act=act)


def act(_: argparse.Namespace) -> int:
    for name, backend in BACKENDS.entries():
        if isinstance(backend, UsageError):
            print(f"{MARKS[False]}  {name:<32}{backend}")
            continue
        print(f"{MARKS[backend.installed]}  {backend.usage(name):<32}{backend.meaning}")
        if not backend.installed:
            print(f"         {'':<32}{backend.command}")
    print(f"\nprompt templates for chat models (--prompt): {', '.join(names())}, or a file of your own")
    print("\nmetrics (-m of score and compare; as mbr: or qe: of --rerank):")
    print(f"{MARKS[True]}  {'chrf, chrf++, bleu':<20}come with quitmt")
    print(f"{MARKS[True]}  {'vote':<20}comes with quitmt: do two candidates give the same answer; for mbr: only")
    judges = any(BACKENDS[engine].installed for engine in ENGINES)
    engines = ", ".join(ENGINES)
    print(f"{MARKS[judges]}  {'gemba:ENGINE:MODEL':<20}a chat model on any of {engines} above; not for --rerank")
    width = max(len(kind.model) for kind in SCORING_MODELS.values())
    for name, kind in SCORING_MODELS.items():
        print(f"{MARKS[kind.installed]}  {name:<20}{kind.model:<{width}}  {_state(kind)}")
    return 0


def _state(kind: MetricEntry) -> str:
    """Whether all its files are on this machine, and the commands that add missing ones."""
    if not kind.installed:
        return f"pip install 'quitmt[{kind.extra}]'"
    commands = " && ".join(_commands(kind))
    return f"not downloaded yet: {commands}" if commands else "cached"


def _commands(kind: MetricEntry) -> Iterator[str]:
    from quitmt.metrics.neural import hub

    if kind.scorer.startswith("quitmt.metrics.embedding:"):  # one repository has everything
        needed: tuple[str, ...] = ("modules.json", "config.json", TOKENIZERS[0])
        if not (all(hub.has_file(kind.model, name) for name in needed) and hub.has_weights(kind.model)):
            yield f"hf download {kind.model}"
        return
    if kind.scorer.startswith("quitmt.metrics.metricx:"):
        complete = hub.has_file(kind.model, "config.json") and hub.has_weights(kind.model)
        part: str | None = METRICX_TOKENIZER
        needed = ()
    else:
        part, needed = _encoder(kind.model), ("config.json",)
        complete = part is not None and hub.has_file(kind.model, CHECKPOINT)
    if not complete:
        yield f"hf download {kind.model}"
    if part is None:  # only the downloaded model says which encoder it needs
        return
    if not (all(hub.has_file(part, name) for name in needed) and any(hub.has_file(part, name) for name in TOKENIZERS)):
        yield f"hf download {part} --include '*.json' --include '*.model'"  # its weights, many gigabytes, are not used


def _encoder(model: str) -> str | None:
    """The model whose configuration and tokenizer a COMET checkpoint uses, if its settings can be read."""
    from quitmt.metrics.neural import hub

    if not hub.has_file(model, "hparams.yaml"):
        return None
    import yaml

    try:
        settings = yaml.safe_load(hub.file(model, "hparams.yaml", purpose=model).read_text("utf-8"))
    except (OSError, ValueError, ArithmeticError, RecursionError, yaml.YAMLError):
        return None
    name = settings.get("pretrained_model") if isinstance(settings, dict) else None
    return name if isinstance(name, str) else None
