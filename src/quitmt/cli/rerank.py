"""``quitmt rerank``: the same as translate, but with recorded pools instead of a model."""

from __future__ import annotations

import argparse
import sys
import zlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

from quitmt.cli import options, results
from quitmt.cli.inputs import LinesBeside
from quitmt.cli.run import Run, Source, add_support, begin, execute, recipe_of
from quitmt.engine.driver import Item
from quitmt.errors import UsageError
from quitmt.files.lines import count_lines, name_of
from quitmt.files.pools import read_plain_pools, read_pools
from quitmt.generate.recorded import RecordedGenerator
from quitmt.plan.build import Built, build
from quitmt.plan.plan import Parts
from quitmt.plan.resolve import resolve
from quitmt.rerank.specs import reads_texts
from quitmt.stop.steering import Steered
from quitmt.types import RecordedPool

DESCRIPTION = """\
Choose from recorded candidates exactly as translate would: rerank, and stop as soon as more candidates would not
help. Pools are JSON lines, one per segment, plain or gzip:

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
    parser.add_argument("pools", nargs="?", metavar="POOLS", help="file of pools, or - for standard input")
    parser.add_argument(
        "--num-candidates", type=int, metavar="N", help="read POOLS as plain text with N lines per source"
    )
    parser.add_argument("--sources", metavar="FILE", help="with --num-candidates: the sources, one per line")
    add_support(parser)
    model = ("model.source_language", "model.target_language", "model.anchors")
    limits = ("run.in_flight", "run.nbest", "run.deadline", "run.run_deadline", "run.allow_functions")
    options.add_recipe(parser, *model, "rerank", "stop", *limits)
    options.add_output(parser)
    parser.set_defaults(act=act)


def act(args: argparse.Namespace) -> int:
    prepared = prepare(args)
    return 0 if prepared is None else execute(*prepared, args.words)


def prepare(args: argparse.Namespace) -> tuple[Run, AsyncIterator[tuple[Item, int]]] | None:
    """Open everything; None if there is nothing to do."""
    if args.pools is None:
        raise UsageError("rerank needs a file of pools", hint="quitmt rerank POOLS, or - for standard input")
    recipe = recipe_of(args)
    if results.is_finished(args, None):
        return None
    generator = RecordedGenerator(origins=_origins(recipe.model.anchors))
    built = build(resolve(recipe, Parts(generator)))
    pools = _pools(args, texts=reads_texts(built.recipe.rerank.name))
    source = Source(
        "pools",
        name_of(args.pools),
        [path for path in (args.pools, args.sources, *args.support_from) if path],
        {"--num-candidates": args.num_candidates},
        expected=_expected(args, built),
    )
    run = begin(args, recipe.stop, built, source)
    recorded = run.outputs.recorded if run.outputs.pools else None
    return run, items(pools if args.quiet else _warned(pools), generator, recorded, args.support_from)


def _origins(anchors: str | None) -> frozenset[str] | None:
    """The origins of the anchors to use; None means all recorded ones."""
    return None if anchors is None else frozenset(word.strip() for word in anchors.split(","))


def _expected(args: argparse.Namespace, built: Built) -> int | None:
    """The number of pools, counted only if the run needs it, because the file may be large."""
    shared = built.recipe.run.run_deadline is not None or isinstance(built.rule, Steered)
    lines = count_lines(args.pools) if shared else None
    return None if lines is None else lines // (args.num_candidates or 1)


def _pools(args: argparse.Namespace, *, texts: bool = True) -> AsyncIterator[RecordedPool]:
    if args.num_candidates is None:
        if args.sources:
            raise UsageError("--sources goes with --num-candidates", hint="JSON pools contain their sources")
        return read_pools(args.pools, texts=texts)
    if args.num_candidates < 1:
        raise UsageError(f"--num-candidates must be at least 1, not {args.num_candidates}")
    return read_plain_pools(args.pools, args.num_candidates, args.sources)


async def _warned(pools: AsyncIterator[RecordedPool]) -> AsyncIterator[RecordedPool]:
    """The same pools, with a warning at the first one of a run that stopped early."""
    warned = False
    async for pool in pools:
        if pool.stopped_early and not warned:
            warned = True
            print(f"quitmt: {results.STOPPED_EARLY}", file=sys.stderr)
        yield pool


async def items(
    pools: AsyncIterator[RecordedPool],
    generator: RecordedGenerator,
    recorded: dict[str, RecordedPool] | None = None,
    support: Sequence[str] = (),
) -> AsyncIterator[tuple[Item, int]]:
    """Each pool as a segment with a checksum. Pools are added to ``recorded`` by id, and files of ``support`` replace
    recorded pseudo-references."""
    count = 0
    async with LinesBeside(support, of="there are pools") as judges:
        async for pool in pools:
            count += 1
            if support:
                pool = replace(pool, segment=replace(pool.segment, support=await judges.next(count)))
            if recorded is not None:
                recorded[pool.segment.id] = pool
            yield generator.add(pool), _checksum(pool)
        await judges.end(count)


def _checksum(pool: RecordedPool) -> int:
    content = [pool.segment.id, pool.segment.source]
    for candidate in (*pool.candidates, *pool.anchors):
        content += [candidate.text, repr(candidate.scores)]
    content += [f"\0{text}" for text in pool.segment.support]
    return zlib.crc32("\n".join(content).encode())
