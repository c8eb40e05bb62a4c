"""``quitmt calibrate``: find the rule that keeps a guarantee, from recorded pools."""

from __future__ import annotations

import argparse
import asyncio
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from quitmt import generate, stop
from quitmt.calibrate import choose, observe, profile, quality
from quitmt.calibrate.choose import LossRequest, PoolOrigin
from quitmt.calibrate.observe import Observed
from quitmt.calibrate.profile import Guarantee, Point, Profile, QualityGuarantee
from quitmt.cli import guarantees, options
from quitmt.cli.results import STOPPED_EARLY
from quitmt.defaults import BUDGET, STEP
from quitmt.errors import InputError, UsageError, setting
from quitmt.files.locks import same_file
from quitmt.files.outputs import Output
from quitmt.files.pools import read_pools
from quitmt.generate.recorded import RecordedGenerator
from quitmt.names import without_options
from quitmt.plan import Recipe, StopRecipe
from quitmt.plan.choose import loss_in
from quitmt.plan.plan import Parts, refuse_texts
from quitmt.plan.resolve import resolve
from quitmt.protocols import Reranker
from quitmt.rerank.specs import reads_texts
from quitmt.stop.threshold import Threshold
from quitmt.types import RecordedPool

DESCRIPTION = """\
Find the cheapest stopping rule that keeps a guarantee. You need about 100 full pools, of segments like those that you
will translate. A guarantee can be about quality, with references, as --equivalent 0.02sd -m chrf++ --references FILE:

  with 95% confidence, the mean quality is equivalent to the whole pool's within 0.02 sd by chrF++

With --not-worse the quality may also be better. The sd is the standard deviation of the whole pool's quality over
segments. Rules are tested one after the other, from the most careful on, by two one-sided tests (TOST), until one
fails. With several metrics, the guarantee holds for each of them.

Or a guarantee is about the reranker's score, without references, as --max-loss 0.01 --risk 0.1 --confidence 0.9:

  with 90% confidence, no more than 10% of segments lose more than 0.01 of score

A segment loses the difference between the winner of its full pool and the winner where the rule stops, both scored on
the full pool. The guarantee holds for finite samples and any scores. The pools must be a random sample of the text
that you will translate. Rules are tested one after the other, from the most careful on, by exact binomial tests.

With --confidence none, the guarantee holds on average over samples (conformal risk control). It costs less, and
only the first rule is tested. With --max-loss in sd, the sd is that of the same pools.

The profile records its model and settings, and translate --profile warns if yours differ."""

EXAMPLES = """\
examples:
  quitmt translate sample.en --stop full --keep-pools pools.jsonl -o /dev/null
  quitmt calibrate pools.jsonl --references sample.ref.pt -m chrf++ --equivalent 0.02sd -o chrf.json
  quitmt calibrate pools.jsonl --max-loss 0.01 -o chrf.json
  quitmt translate news.en --profile chrf.json -o news.pt
  quitmt translate news.en --profile chrf.json --max-cost 100 -o news.pt    # another point of its curve
  quitmt calibrate pools.jsonl --rerank qe:likelihood --max-loss 0.2sd --risk 0.2 -o likelihood.json"""

POOLS_AT_ONCE = 8
ROWS = 9
"""Printed rows per rule."""


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "calibrate",
        description=DESCRIPTION,
        epilog=options.rerankers() + EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "pools", metavar="POOLS", help="full pools as JSON lines, as translate --keep-pools writes them"
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="file for the profile [default: only print it]")
    parser.add_argument(
        "--max-loss",
        metavar="L",
        help="guarantee about the score: largest loss of a segment, in units of the score or, as 0.1sd, in standard "
        "deviations over segments",
    )
    parser.add_argument(
        "--risk", type=float, metavar="A", help="with --max-loss: share of segments that may lose more [default: 0.1]"
    )
    about = (
        "confidence of the guarantee; with --max-loss also none, for on average [default: 0.95 for quality, else 0.9]"
    )
    parser.add_argument("--confidence", metavar="C", help=about)
    parser.add_argument(
        "--rule",
        action="append",
        metavar="NAME",
        help="loss, headroom, fixed or MODULE:NAME, with or without settings; may be repeated "
        "[default: loss and fixed for mbr, headroom and fixed for qe]",
    )
    guarantees.add(parser)
    scoring = ("rerank.device", "rerank.dtype", "rerank.batch_tokens")
    languages = ("model.source_language", "model.target_language")
    usual = {"stop.k": f"{STEP}, for qe: 1", "stop.n": f"as many as the smallest pool has, {BUDGET} at most"}
    wanted = ("rerank.name", *scoring, "stop.k", "stop.n", *languages, "run.allow_functions")
    options.add_recipe(parser, *wanted, usual=usual)
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress bar")
    parser.set_defaults(act=act)


def act(args: argparse.Namespace) -> int:
    recipe = options.recipe_of(args)
    # Only k and n of the recipe's rule count, because calibration chooses the rule.
    step = recipe.stop.k or (1 if recipe.rerank.name.startswith("qe:") else None)
    recipe = replace(recipe, stop=StopRecipe(rule="full", k=step, n=recipe.stop.n))
    for name, usual in (("variant", "exact"), ("filter", None)):
        if getattr(recipe.rerank, name) != usual:
            raise UsageError(f"rules are replayed only on exact mbr: and on qe:, without {setting(f'rerank.{name}')}")
    refuse_texts(recipe, "a replay")
    plan = resolve(recipe, Parts(RecordedGenerator()))
    assert plan.reranking is not None
    whole, step, budget = plan.recipe, plan.step, plan.budget
    requested = _requested(args, step, budget, tuple(args.rule or choose.default_rules(recipe.rerank.name)))
    if args.output is not None:
        _check_output(args)
    judging = guarantees.prepare(args, recipe) if isinstance(requested, quality.QualityRequest) else None
    for rule in _thresholds(requested):
        stop.check_fits(rule, plan.traits, recipe.rerank.name)
    reranker = plan.reranking.load(whole.model.languages, plan.hardware)
    observe.check(reranker)
    pools = asyncio.run(_read(args.pools, texts=reads_texts(recipe.rerank.name)))
    if recipe.stop.n is None:
        budget = _common(pools, budget, quiet=args.quiet)
        whole, requested = replace(whole, stop=replace(whole.stop, n=budget)), replace(requested, budget=budget)
    pools = _of_budget(pools, budget, quiet=args.quiet)
    generator = _generator(pools)
    if judging is not None:
        judging.check(pools)
    observed = _observed(reranker, pools, _thresholds(requested), quiet=args.quiet)
    held_out, requested, top = choose.with_tops(observed, requested)
    if top is not None and not args.quiet:
        text = f"the first {held_out} pools only set the top of headroom, which is {top:.4g}"
        print(f"quitmt: {text}", file=sys.stderr)
    source = PoolOrigin(generator, reranker.signature, *recipe.model.languages, whole.of_results())
    if isinstance(requested, quality.QualityRequest):
        assert judging is not None
        found = guarantees.calibrated(judging, requested, observed, pools, source, held_out=held_out, quiet=args.quiet)
    else:
        observed = observed[held_out:]
        request = replace(requested, max_loss=loss_in(args.max_loss, choose.spread(observed)))
        found = choose.calibrate(observed, request, source)
    print(described(found))
    if args.output:
        profile.write(found, args.output)
        print(f"\nwritten to {args.output}; use it with:")
        allowed = ["--allow-functions"] if found.functions else []
        same = [*_same(recipe, generator), "--profile", args.output, *allowed]
        words = ["quitmt", "translate", *same, "INPUT", "-o", "OUTPUT"]
        print(f"  {shlex.join(words)}")
    return 0


def _requested(
    args: argparse.Namespace, step: int, budget: int, rules: tuple[str, ...]
) -> LossRequest | quality.QualityRequest:
    if guarantees.is_requested(args):
        return guarantees.request_of(args, _confidence(args.confidence, guarantees.CONFIDENCE), (step, budget), rules)
    loss_in(args.max_loss, 1.0)  # raises errors before any work
    risk = 0.1 if args.risk is None else args.risk
    confidence = _confidence(args.confidence, 0.9)
    return LossRequest(1.0, risk, confidence, step=step, budget=budget, rules=rules)


def _thresholds(requested: LossRequest | quality.QualityRequest) -> list[Threshold]:
    return [requested.rule(spec) for spec in requested.rules if spec != "fixed"]


def _generator(pools: Sequence[RecordedPool]) -> str:
    generators = {profile.seedless(pool.generator) for pool in pools}
    if len(generators) > 1:
        raise InputError(f"the pools come from different models: {', '.join(sorted(generators))}")
    return generators.pop()


def _same(recipe: Recipe, generator: str) -> list[str]:
    """The flags of a run with the calibrated settings."""
    model = generator.partition("|")[0]
    usual = Recipe()
    settings = {
        "--model": model if model.partition(":")[0] in generate.BACKENDS else None,
        "--rerank": recipe.rerank.name if recipe.rerank.name != usual.rerank.name else None,
        "--src": recipe.model.source_language,
        "--tgt": recipe.model.target_language,
    }
    return [word for name, value in settings.items() if value for word in (name, value)]


def _check_output(args: argparse.Namespace) -> None:
    """Refuse an output that cannot be written or is an input, before any work."""
    if args.output == "-":
        raise UsageError("write the profile to a file, not to standard output")
    for path in (args.pools, *(args.references or ())):
        if same_file(path, args.output):
            raise UsageError(f"{path} is an input of this run and would be overwritten", hint="write to another file")
    if Path(args.output).is_file() or not Path(args.output).exists():
        Output(args.output).close()


def _confidence(text: str | None, usual: float) -> float | None:
    if text is None or text == "none":
        return usual if text is None else None
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"--confidence must be a number between 0 and 1, or none, not {text!r}") from None


async def _read(path: str, *, texts: bool) -> list[RecordedPool]:
    pools = [pool async for pool in read_pools(path, texts=texts)]
    if not pools:
        raise InputError(f"{path} has no pools")
    return pools


def _common(pools: Sequence[RecordedPool], most: int, *, quiet: bool) -> int:
    """The number of candidates that all pools have, up to ``most``. Pools that stopped early do not count here; they
    are refused later if they are too small."""
    least = min((len(pool.candidates) for pool in pools if not pool.stopped_early), default=most)
    if least >= most:
        return most
    if not quiet:
        print(f"quitmt: the smallest pool has {least} candidates: calibrating with -n {least}", file=sys.stderr)
    return least


def _of_budget(pools: Sequence[RecordedPool], budget: int, *, quiet: bool) -> list[RecordedPool]:
    """The first ``budget`` candidates of each pool, because a run would not see the others."""
    for pool in pools:
        if len(pool.candidates) < budget:
            early = ": its run stopped early, so later candidates are unknown"
            least = min(len(one.candidates) for one in pools)
            raise InputError(
                f"the pool of segment {pool.segment.id} has {len(pool.candidates)} candidates, fewer than {budget}"
                + early * pool.stopped_early,
                hint=f"sample them with --stop full -n {budget}, or give -n {least}",
            )
    if any(pool.stopped_early for pool in pools) and not quiet:
        print(f"quitmt: {STOPPED_EARLY}", file=sys.stderr)
    return [replace(pool, candidates=pool.candidates[:budget]) for pool in pools]


def _observed(
    reranker: Reranker[Any], pools: Sequence[RecordedPool], rules: Sequence[Threshold], *, quiet: bool
) -> list[Observed]:
    found = list[Observed]()
    with tqdm(total=len(pools), desc="scoring", unit=" segments", disable=quiet or None) as bar:
        for start in range(0, len(pools), POOLS_AT_ONCE):
            batch = pools[start : start + POOLS_AT_ONCE]
            seen = observe.observe(reranker, batch)
            found += [one.without_snapshots(rules) for one in seen]
            bar.update(len(batch))
    return found


def described(found: Profile) -> str:
    """The curve, the choice, and the cost of the guarantee."""
    chosen = next(point for point in found.curve if point.rule == found.rule)
    if isinstance(found.guarantee, QualityGuarantee):
        shown = _shown(found.curve, [chosen, *guarantees.first_failures(found.curve)])
        return "\n".join(guarantees.lines(found, found.guarantee, shown, chosen))
    guarantee = found.guarantee
    lines = [
        f"{'rule':<28}{'candidates':>11}{'mean loss':>12}{f'above {guarantee.max_loss:.3g}':>14}  guarantee",
        *(_row(point, chosen, guarantee) for point in _shown(found.curve, [chosen])),
        "",
        f"{found.rule}: {found.guarantee}.",
        f"{chosen.mean_size:.0f} of {found.budget} candidates, mean over {found.guarantee.segments} segments.",
    ]
    cheaper = [point for point in found.curve if point.exceeding is not None and point.exceeding <= guarantee.risk]
    least = min(cheaper, key=lambda point: point.mean_size)
    if least.mean_size < chosen.mean_size:
        kept = f"{least.rule} keeps to it on these segments with {least.mean_size:.0f}"
        lines.append(f"Cost of the proof: {kept}, which may be luck.")
    return "\n".join(lines)


def kind_of(rule: str) -> str:
    """A rule without its settings."""
    return "fixed" if rule.startswith("fixed:") else without_options(rule)


def _row(point: Point, chosen: Point, guarantee: Guarantee) -> str:
    tested = guarantee.confidence is not None or kind_of(point.rule) == kind_of(chosen.rule)
    unproven = "not proven" if tested else "not tested"
    mark = "kept <- chosen" if point == chosen else "kept" if point.proven else unproven
    numbers = f"{point.mean_size:>11.1f}{point.mean_loss:>12.2g}{point.exceeding:>14.1%}"
    return f"{point.rule:<28}{numbers}  {mark}"


def _shown(curve: Sequence[Point], always: Sequence[Point]) -> list[Point]:
    """A few rules of each kind, evenly spaced by cost, and those that must be shown, such as the chosen one."""
    shown = list[Point]()
    for name in dict.fromkeys(kind_of(point.rule) for point in curve):
        own = [point for point in curve if kind_of(point.rule) == name]
        most, least = own[0].mean_size, own[-1].mean_size
        wanted = [most * (least / most) ** (i / (ROWS - 1)) for i in range(ROWS)]
        picked = [min(own, key=lambda point, size=size: abs(point.mean_size - size)) for size in wanted]  # type: ignore[misc]
        shown += [point for point in own if point in picked or point in always]
    return shown
