"""Shared by ``quitmt score`` and ``quitmt compare``: reads systems and test sets, and scores them.

Mistakes in files and settings are reported before any metric is loaded, and all metrics are loaded before the first one
runs. If a metric fails or the run is interrupted, the scores of finished metrics are kept.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tqdm import tqdm

from quitmt.cli import options
from quitmt.errors import InputError, QuitmtError, UsageError, counted
from quitmt.evaluate.metrics import METRICS, Metric, Setup, TestSet, find, load
from quitmt.evaluate.report import Report
from quitmt.files.lines import STDIN, read_lines
from quitmt.files.outputs import STDOUT, one_line
from quitmt.metrics import devices
from quitmt.metrics.devices import Hardware
from quitmt.metrics.registry import MetricEntry
from quitmt.rerank.specs import models_of

log = logging.getLogger(__name__)

ENGINE_OPTIONS = ("base_url", "concurrency", "timeout", "max_tokens")
JUDGE_OPTIONS = ("src", "tgt", *ENGINE_OPTIONS, "gemba_cache")
HARDWARE_OPTIONS = ("device", "dtype", "batch_tokens")
MODEL_OPTIONS = (*HARDWARE_OPTIONS, *JUDGE_OPTIONS)
"""Options for scoring models and judges only."""

NAMES = options.listed("metrics (NAME, or NAME:MODEL for another checkpoint of a neural one)", METRICS)


def add_judging(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-s", "--sources", metavar="FILE", help="source texts, one segment per line")
    parser.add_argument(
        "-r",
        "--references",
        nargs="+",
        default=[],
        metavar="FILE",
        help="reference translations, one segment per line; one file per reference",
    )
    parser.add_argument(
        "-m", "--metrics", nargs="+", metavar="NAME", help="metrics from the list below [default: chrf++]"
    )
    group = parser.add_argument_group("neural metrics")
    group.add_argument("--device", help="cpu, cuda or mps [default: the fastest available]")
    group.add_argument("--dtype", help="number format, such as bfloat16 [default: float32]")
    group.add_argument(
        "--batch-tokens", type=int, metavar="N", help="tokens per batch [default: depends on the device]"
    )
    group = parser.add_argument_group("gemba (a chat model as the judge)")
    group.add_argument("--src", metavar="LANG", help="source language, for the judge's prompt")
    group.add_argument("--tgt", metavar="LANG", help="target language")
    group.add_argument("--base-url", metavar="URL", help="server of openai: models, such as http://localhost:8000/v1")
    group.add_argument(
        "--concurrency", type=int, metavar="N", help="maximum requests in flight, for openai: models [default: 256]"
    )
    group.add_argument(
        "--timeout", type=float, metavar="SECONDS", help="timeout per request, for openai: models [default: 120]"
    )
    group.add_argument("--max-tokens", type=int, metavar="N", help="maximum tokens per answer [default: 512]")
    group.add_argument(
        "--gemba-cache", metavar="DIR", help="folder for the judge's answers [default: ~/.cache/quitmt/gemba]"
    )


@dataclass(slots=True)
class Scoring:
    """Systems and metrics, and the report that they fill."""

    specs: Sequence[str]
    setup: Setup
    test_set: TestSet
    systems: dict[str, list[str]]
    report: Report
    metrics: deque[Metric]
    quiet: bool

    def load(self) -> None:
        """Load metrics that aren't models first, so that their mistakes show before models load."""
        made = {spec: load(spec, self.setup) for spec in self.specs if _model_title(spec) is None}
        names = [_model_title(spec) or made[spec].name for spec in self.specs]
        for name in names:
            if names.count(name) > 1:
                raise UsageError(f"two metrics would both be called {name}", hint="score them in two runs")
        self.metrics.extend(made[spec] if spec in made else load(spec, self.setup) for spec in self.specs)

    def run(self) -> str | None:
        """Fill the report, metric by metric. A metric that fails ends the run; returns the message."""
        texts = list(self.systems.values())
        while self.metrics:
            metric = self.metrics.popleft()  # its memory is free for the next one when it has finished
            with self._bar(metric.name, len(texts) * len(texts[0])) as bar, _quiet_judges():
                try:
                    scores = metric.evaluate(self.test_set, texts, bar.update)
                    self.report.add(metric, len(self.test_set.references), scores)
                except Exception as error:
                    log.debug("%s failed", metric.name, exc_info=error)
                    if isinstance(error, QuitmtError):
                        return str(error)
                    return f"{metric.name} failed: {type(error).__name__}: {' '.join(str(error).split())}"
            if not self.quiet:
                warning(self.report, [metric.name])
        return None

    def _bar(self, name: str, total: int) -> Any:
        return tqdm(
            desc=name,
            total=total,
            unit=" segments",
            disable=self.quiet or sys.stderr is None or not sys.stderr.isatty(),
            file=sys.stderr,
            dynamic_ncols=True,
            leave=False,
            delay=0.3,
        )


@contextmanager
def _quiet_judges() -> Iterator[None]:
    """Hide the judge's own warning about unreadable answers, because the report warns for each system."""
    logger = logging.getLogger("quitmt.evaluate.judge.gemba")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def warning(report: Report, metrics: Iterable[str]) -> None:
    for metric in metrics:
        for message in report.warnings(metric):
            print(f"quitmt: {message}", file=sys.stderr)


def prepare(args: argparse.Namespace, translations: Sequence[str]) -> Scoring:
    """Do all cheap checks and read the files."""
    specs = args.metrics or ["chrf++"]
    _refuse_twice("metric", specs)
    _refuse_twice("file", translations)
    entries = {spec: find(spec)[0] for spec in specs}
    for spec, entry in entries.items():
        if entry.needs_source and args.sources is None:
            raise UsageError(f"the metric {spec} needs the sources", hint="-s FILE")
        if entry.needs_reference and not args.references:
            raise UsageError(f"the metric {spec} needs a reference", hint="-r FILE")
        if entry.is_judge and not (args.src and args.tgt):
            raise UsageError(f"the metric {spec} needs both languages", hint="--src LANG --tgt LANG")
    setup = _setup(args, entries)
    inputs = [*([] if args.sources is None else [args.sources]), *args.references, *translations]
    check_paths(args.output, inputs)
    sources = None if args.sources is None else tuple(read_texts(args.sources))
    references = tuple(tuple(read_texts(path)) for path in args.references)
    systems = {path: read_translations(path, quiet=args.quiet, judges=specs) for path in translations}
    everything = ([] if sources is None else [sources]) + [*references, *systems.values()]
    check_sizes({path: len(texts) for path, texts in zip(inputs, everything, strict=True)})
    report = Report(tuple(systems))
    return Scoring(specs, setup, TestSet(sources, references), systems, report, deque(), args.quiet)


def _setup(args: argparse.Namespace, entries: Mapping[str, MetricEntry]) -> Setup:
    judges = any(entry.is_judge for entry in entries.values())
    models = [entry for entry in entries.values() if entry.neural]
    if not judges and (option := first_option(args, JUDGE_OPTIONS)):
        raise UsageError(f"{option} goes with gemba:, not with {' or '.join(entries)}")
    if not (judges or models) and (option := first_option(args, HARDWARE_OPTIONS)):
        raise UsageError(f"{option} goes with scoring models such as comet, not with {' or '.join(entries)}")
    hardware = Hardware(args.device, args.dtype, args.batch_tokens)
    if models and models[0].installed:  # a model would check these only after it has read its weights
        if args.device is not None:
            devices.device(args.device)
        if args.dtype is not None:
            devices.dtype(args.dtype)
    engine = {name: getattr(args, name) for name in ENGINE_OPTIONS}
    return Setup(hardware, (args.src, args.tgt), engine, args.gemba_cache)


def first_option(args: argparse.Namespace, names: Sequence[str]) -> str | None:
    """The first of some options that the user has set, as a flag."""
    return next((f"--{name.replace('_', '-')}" for name in names if getattr(args, name) is not None), None)


def _model_title(spec: str) -> str | None:
    """The heading of a model, known before it is loaded; None for other metrics."""
    entry, argument = find(spec)
    if entry.is_judge:
        argument = argument.partition(":")[2]
    return entry.titled(argument) if entry.neural or entry.is_judge else None


def check_paths(output: str, inputs: Iterable[str]) -> None:
    for path in inputs:
        if path == STDIN:
            raise UsageError("standard input cannot be scored", hint="name a file")
        if output != STDOUT and os.path.realpath(path) == os.path.realpath(output):
            raise UsageError(f"{path} is an input of this run and would be overwritten", hint="write to another file")


def check_sizes(sizes: dict[str, int]) -> None:
    (first, expected), *_ = sizes.items()
    for path, size in sizes.items():
        if not size:
            raise InputError(f"{path} is empty")
        if size != expected:
            raise InputError(f"{path} has {size} lines, but {first} has {expected}")


def _refuse_twice(kind: str, names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"the {kind} {name} is named twice")


def read_texts(path: str) -> list[str]:
    async def collect() -> list[str]:
        return [line async for line in read_lines(path)]

    return asyncio.run(collect())


def read_translations(path: str, *, quiet: bool = False, judges: Sequence[str] = ()) -> list[str]:
    """Translations, one per line, or outcomes; the first line decides which. Outcomes say by which metric they were
    chosen, and warn if that is one of the judges."""
    lines = read_texts(path)
    first = outcome_fields(lines[0]) if lines else None
    if first is None:
        return lines
    if not quiet:
        for judge in judges:
            if _chose(first, judge):
                text = f"{path} was chosen by {judge}, which favours it: judge by another metric too"
                print(f"quitmt: {text}", file=sys.stderr)
    translations, failed = [], 0
    for number, line in enumerate(lines, start=1):
        outcome = outcome_fields(line)
        if outcome is None:
            raise InputError(f"{path}, line {number}: not an outcome with a translation, unlike the lines before it")
        translations.append(one_line(outcome["translation"]))
        failed += outcome.get("stop") == "failed"
    if failed and not quiet:
        print(f"quitmt: {path}: {counted(failed, 'segment')} failed; scored with what there is", file=sys.stderr)
    return translations


def _chose(outcome: Mapping[str, Any], judge: str) -> bool:
    """Whether an evaluation metric also chose the translation, as the reranker or as the filter before it."""
    entry, argument = find(judge)
    recipe = outcome.get("recipe")
    rerank = recipe.get("rerank") if isinstance(recipe, dict) else None
    names = [rerank.get(name) for name in ("name", "filter")] if isinstance(rerank, dict) else []
    own = (argument or entry.model) if entry.neural else entry.name
    return any(own in models_of(name) for name in names if isinstance(name, str))


def outcome_fields(line: str) -> dict[str, Any] | None:
    """The fields of an outcome; None if the line isn't one."""
    if not line.lstrip().startswith("{"):
        return None
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and isinstance(found.get("translation"), str) else None
