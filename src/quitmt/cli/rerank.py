"""``quitmt rerank``: the same as translate on recorded pools, with no model."""

from __future__ import annotations

import argparse
import sys
import zlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

from quitmt.cli import options, results
from quitmt.cli.beside import LinesBeside, add_support, with_support
from quitmt.cli.progress import Progress
from quitmt.cli.run import Run
from quitmt.engine.driver import Item
from quitmt.errors import UsageError
from quitmt.files.lines import count_lines, name_of
from quitmt.files.pools import read_plain_pools, read_pools, reads_texts
from quitmt.generate.recorded import RecordedGenerator
from quitmt.recipe.build import Built, build
from quitmt.recipe.effective import Given
from quitmt.rerank.ranked import score_name
from quitmt.stop.steering import Steered
from quitmt.types import RecordedPool

DESCRIPTION = """\
Choose from recorded candidates, as translate would have done with them: rerank, and stop as soon as more would not
help. Pools are JSON lines, one segment each, gzip or not:

  {"id": "1", "source": "…", "candidates": ["…", …], "scores": {"NAME": [0.7, …]}, "anchors": ["…", …],
   "support": ["…", …]}

or plain text with N lines per source (--num-candidates N, --sources FILE)."""

EXAMPLES = """\
examples:
  quitmt rerank pools.jsonl.gz -o chosen.txt
  quitmt rerank pools.jsonl --stop full --jsonl full.jsonl -o /dev/null
  quitmt rerank pools.jsonl --rerank qe:recorded:kiwi -w 4
  quitmt rerank pools.jsonl --rerank qe:0.7*recorded:kiwi+0.3*likelihood
  quitmt rerank pools.jsonl --rerank mbr:chrf --filter qe:recorded:kiwi --keep 32
  quitmt rerank pools.jsonl --rerank qe:kiwi --stop full --keep-pools scored.jsonl -o best.txt  # keep all scores
  quitmt rerank samples.txt --num-candidates 64 --sources news.en"""


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "rerank",
        description=DESCRIPTION,
        epilog=options.names() + EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("pools", nargs="?", metavar="POOLS", help="a file of pools, or - for standard input")
    parser.add_argument("--num-candidates", type=int, metavar="N", help="POOLS is plain text, N lines a source")
    parser.add_argument("--sources", metavar="FILE", help="with --num-candidates: the sources, a line each")
    add_support(parser)
    model = ("model.source_language", "model.target_language", "model.anchors")
    limits = ("run.in_flight", "run.nbest", "run.deadline", "run.run_deadline", "run.allow_functions")
    options.add_recipe(parser, *model, "rerank", "stop", *limits)
    options.add_output(parser)
    parser.set_defaults(prepare=prepare)


def prepare(args: argparse.Namespace) -> tuple[Run, AsyncIterator[tuple[Item, int]]] | None:
    """None if there is nothing to do."""
    if args.pools is None and args.jsonl not in (None, "-"):
        args.pools, args.jsonl = args.jsonl, "-"  # `rerank --jsonl POOLS`: --jsonl without a FILE of its own
    if args.pools is None:
        raise UsageError("rerank needs a file of pools", hint="quitmt rerank POOLS, or - for standard input")
    recipe = with_support(options.recipe_of(args), args.support_from)
    if results.is_finished(args, None):
        return None
    generator = RecordedGenerator(origins=origins(recipe.model.anchors))
    built = build(recipe, Given(generator))
    requested, of = built.recipe.stop.max_cost, ("pools", name_of(args.pools))
    progress = Progress(built.rule.budget, quiet=args.quiet, of=of, requested=requested)
    results.check_nbest(args, built)
    driver = built.driver(progress.observer, ranked=bool(args.keep_pools))
    pools = pools_of(args, texts=reads_texts(built.recipe.rerank.name))
    settings = {"--num-candidates": args.num_candidates, **results.settings_of(built, driver)}
    inputs = [path for path in (args.pools, args.sources, *args.support_from, built.recipe.stop.profile) if path]
    outputs, journal = results.open_results(args, settings, built.rule.budget, inputs)
    outputs.opening = [*results.opening(built, recipe.stop), *outputs.opening]
    outputs.score_name = score_name(built.recipe.rerank.name)
    known = outputs.recorded if outputs.pools else None
    run = Run(driver, outputs, progress, journal, expected(args, built))
    return run, items(pools if args.quiet else told(pools), generator, known, args.support_from)


def origins(anchors: str | None) -> frozenset[str] | None:
    """Of the anchors that are used; None is all that were recorded."""
    return None if anchors is None else frozenset(word.strip() for word in anchors.split(","))


def expected(args: argparse.Namespace, built: Built) -> int | None:
    """How many pools there are, where somebody needs to know: the file may be large."""
    shared = built.recipe.run.run_deadline is not None or isinstance(built.rule, Steered)
    lines = count_lines(args.pools) if shared else None
    return None if lines is None else lines // (args.num_candidates or 1)


def pools_of(args: argparse.Namespace, *, texts: bool = True) -> AsyncIterator[RecordedPool]:
    if args.num_candidates is None:
        if args.sources:
            raise UsageError(
                "--sources goes with --num-candidates", hint="pools in JSON lines have their sources inside"
            )
        return read_pools(args.pools, texts=texts)
    if args.num_candidates < 1:
        raise UsageError(f"--num-candidates must be at least 1, not {args.num_candidates}")
    return read_plain_pools(args.pools, args.num_candidates, args.sources)


async def told(pools: AsyncIterator[RecordedPool]) -> AsyncIterator[RecordedPool]:
    """The same pools. That some are of a run that stopped early is said once, at the first of them."""
    said = False
    async for pool in pools:
        if pool.stopped_early and not said:
            said = True
            print(f"quitmt: {results.STOPPED_EARLY}", file=sys.stderr)
        yield pool


async def items(
    pools: AsyncIterator[RecordedPool],
    generator: RecordedGenerator,
    recorded: dict[str, RecordedPool] | None = None,
    support: Sequence[str] = (),
) -> AsyncIterator[tuple[Item, int]]:
    """Each pool as a segment; ``recorded`` takes it by its id. Files of ``support`` take the place of what was
    recorded."""
    count = 0
    async with LinesBeside(support, of="there are pools") as judges:
        async for pool in pools:
            count += 1
            if support:
                pool = replace(pool, segment=replace(pool.segment, support=await judges.next(count)))
            if recorded is not None:
                recorded[pool.segment.id] = pool
            yield generator.add(pool), checksum(pool)
        await judges.end(count)


def checksum(pool: RecordedPool) -> int:
    content = [pool.segment.id, pool.segment.source]
    for candidate in (*pool.candidates, *pool.anchors):
        content += [candidate.text, repr(candidate.scores)]
    content += [f"\0{text}" for text in pool.segment.support]
    return zlib.crc32("\n".join(content).encode())
