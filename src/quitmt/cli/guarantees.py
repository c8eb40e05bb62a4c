"""``quitmt calibrate --equivalent``: references and metrics of a guarantee about quality, and its printed result."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass

from tqdm import tqdm

from quitmt.calibrate import choose, quality, tost, winners
from quitmt.calibrate.choose import PoolOrigin
from quitmt.calibrate.observe import Observed
from quitmt.calibrate.profile import Point, Profile, QualityGuarantee
from quitmt.calibrate.quality import QualityRequest
from quitmt.cli import scoring
from quitmt.errors import UsageError
from quitmt.evaluate.metrics import Metric, Setup, find, load
from quitmt.metrics.devices import Hardware
from quitmt.plan import Recipe
from quitmt.types import RecordedPool

ONLY_QUALITY = ("references", "metrics")
CONFIDENCE = 0.95
FURTHER = 10
"""Cheaper rules are mentioned if this many times the segments could prove them."""
IN_ORDER = "Rules are tested from careful to cheap; after the first that fails, the rest of its kind are not tested."
ABOUT = 1.1
"""Costs that differ by no more than this factor count as about the same."""


def add(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("a guarantee about quality")
    group.add_argument(
        "--equivalent", metavar="M", help="mean quality within M standard deviations of the whole pool's, as 0.02sd"
    )
    group.add_argument("--not-worse", metavar="M", help="the same, but the quality may be better")
    group.add_argument("-r", "--references", nargs="+", metavar="FILE", help="reference files, with one line per pool")
    group.add_argument(
        "-m", "--metric", dest="metrics", action="append", metavar="NAME",
        help="metric of quitmt score; may be repeated, and the guarantee holds for each [default: chrf++]",
    )  # fmt: skip


def is_requested(args: argparse.Namespace) -> bool:
    """Whether the guarantee is about quality; refuses options of the other kind."""
    targets = {"--max-loss": args.max_loss, "--equivalent": args.equivalent, "--not-worse": args.not_worse}
    named = [name for name, value in targets.items() if value is not None]
    if len(named) != 1:
        problem = f"{' and '.join(named)} are different guarantees" if named else "name a guarantee"
        raise UsageError(problem, hint=f"give one of {', '.join(targets)}")
    if args.max_loss is None:
        if args.risk is not None:
            raise UsageError(f"--risk goes with --max-loss, not with {named[0]}")
        return True
    other = next((name for name in ONLY_QUALITY if getattr(args, name) is not None), None)
    if other is not None:
        flag = "--metric" if other == "metrics" else f"--{other}"
        raise UsageError(f"{flag} goes with --equivalent and --not-worse, not with --max-loss")
    return False


def request_of(
    args: argparse.Namespace, confidence: float | None, shape: tuple[int, int], rules: tuple[str, ...]
) -> QualityRequest:
    name = "equivalent" if args.equivalent is not None else "not_worse"
    margin = quality.margin_in(getattr(args, name), name)
    if confidence is None:
        raise UsageError("--confidence none goes with --max-loss", hint="name one, as 0.95")
    step, budget = shape
    return QualityRequest(margin, name == "not_worse", confidence, step=step, budget=budget, rules=rules)


@dataclass(frozen=True, slots=True)
class Judging:
    """The metrics and references that judge translations."""

    specs: tuple[str, ...]
    setup: Setup
    files: dict[str, list[str]]
    """References, by path."""

    def check(self, pools: Sequence[RecordedPool]) -> None:
        """Refuse metrics and references that do not fit these pools, before they are scored."""
        for spec in self.specs:
            if find(spec)[0].needs_source and not all(pool.segment.source for pool in pools):
                raise UsageError(f"the metric {spec} needs the sources, but these pools have none")
        for path, texts in self.files.items():
            winners.in_order_of(pools, texts, path)

    def load(self) -> list[Metric]:
        return [load(spec, self.setup) for spec in self.specs]


def prepare(args: argparse.Namespace, recipe: Recipe) -> Judging:
    """Check metrics and references before any work."""
    specs, files = tuple(args.metrics or ["chrf++"]), args.references or []
    for spec in specs:
        entry, _ = find(spec)
        if specs.count(spec) > 1:
            raise UsageError(f"the metric {spec} is named twice")
        if entry.needs_reference and not files:
            raise UsageError(f"the metric {spec} needs references", hint="--references FILE")
        if entry.is_judge and None in recipe.model.languages:
            raise UsageError(f"the metric {spec} needs both languages", hint="--src LANG --tgt LANG")
        entry.require(f"the metric {spec}")
    hardware = Hardware(recipe.rerank.device, recipe.rerank.dtype, recipe.rerank.batch_tokens)
    setup = Setup(hardware, recipe.model.languages)
    return Judging(specs, setup, {path: scoring.read_texts(path) for path in files})


def calibrated(
    judging: Judging,
    request: QualityRequest,
    observed: Sequence[Observed],
    pools: Sequence[RecordedPool],
    source: PoolOrigin,
    *,
    held_out: int,
    quiet: bool,
) -> Profile:
    """The first ``held_out`` pools have references too, and count for nothing."""
    references = [winners.in_order_of(pools, texts, path)[held_out:] for path, texts in judging.files.items()]
    observed, pools = observed[held_out:], pools[held_out:]
    found = choose.replayed(observed, request)
    chosen = winners.winners(observed, pools, found)
    judged = []
    for metric in judging.load():
        with tqdm(total=len(chosen.texts), desc=metric.name, unit=" translations", disable=quiet or None) as bar:
            judged.append(chosen.judged(metric, references, bar.update))
    return quality.calibrate(observed, found, judged, request, source)


def lines(found: Profile, guarantee: QualityGuarantee, shown: Sequence[Point], chosen: Point) -> list[str]:
    """The curve, the choice, and the cost of the guarantee."""
    margin = guarantee.margin
    heads = "".join(f"{f'{name}, sd':>14}" for name in guarantee.metrics)
    said = [f"{'rule':<28}{'candidates':>11}{heads}{'segments':>10}  guarantee"]
    failed = first_failures(found.curve)
    for point in shown:
        differences = "".join(f"{(point.quality or {})[name]:>+14.4f}" for name in guarantee.metrics)
        needed = f"{point.segments:,}" if point.segments is not None else "–"
        unproven = "not proven" if point in failed else "not tested"
        mark = "kept <- chosen" if point == chosen else "kept" if point.proven else unproven
        said.append(f"{point.rule:<28}{point.mean_size:>11.1f}{differences}{needed:>10}  {mark}")
    said += [
        *([IN_ORDER] if failed else []),
        "",
        f"{found.rule}: {guarantee}.",
        f"It takes {chosen.mean_size:.0f} of {found.budget} candidates, the mean of {guarantee.segments} segments.",
        "sd: the difference to the whole pool in standard deviations of its quality over segments; positive where the "
        "rule is better.",
        "segments: about how many segments like these the proof needs; – where the rule is outside "
        f"{margin:g} sd here.",
        f"Assumptions: the segments are a random sample of what you translate; {tost.ASSUMPTION}.",
    ]
    most = FURTHER * guarantee.segments
    cheaper = [one for one in found.curve if one.mean_size < 0.9 * chosen.mean_size and (one.segments or most) < most]
    if cheaper:
        least = _easiest(cheaper)
        could = f"{least.rule} could be proven with about {least.segments:,}"
        said.append(f"With more segments: {could}, and takes {least.mean_size:.0f} candidates.")
    return said


def first_failures(curve: Sequence[Point]) -> list[Point]:
    """The first rule of each chain that did not pass its test, which ends the chain."""
    found: dict[str, Point] = {}
    for point in curve:
        if not point.proven:
            found.setdefault(_chain(point.rule), point)
    return list(found.values())


def _chain(rule: str) -> str:
    """A rule without its threshold, which comes last; two chains of one kind may differ in other settings."""
    return re.sub("[:,][^:,]*$", "", rule)


def _easiest(points: Sequence[Point]) -> Point:
    """The rule whose proof needs the fewest segments, among those that cost about as little as the cheapest."""
    most = ABOUT * min(one.mean_size for one in points)
    near = [one for one in points if one.mean_size <= most]
    return min(near, key=lambda one: (one.segments or 0, one.mean_size))
