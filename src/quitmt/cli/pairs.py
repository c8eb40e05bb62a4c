"""``quitmt models get`` and ``quitmt models list``: fetch and list translation models for other languages."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from quitmt.bergamot import store
from quitmt.cli.main import INTERRUPTED, say
from quitmt.errors import ModelError

ARCHITECTURES = ("base", "base-memory", "tiny")
EXAMPLES = """\
examples:
  quitmt models list de                        # models from and into German
  quitmt models get en-de                      # the model that Firefox uses
  quitmt translate news.en -o news.de --model embedded:en-de"""
HEAD = ("pair", "architecture", "MB", "COMET", "BLEU", "")

Row = tuple[str, str, str, str, str, str]


def add_actions(parser: Any) -> None:
    """Adds two actions to ``quitmt models``, which lists engines without one."""
    parser.formatter_class, parser.epilog = argparse.RawDescriptionHelpFormatter, EXAMPLES
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    fetching = actions.add_parser(
        "get",
        help="fetch translation models for other languages",
        description="Fetch Firefox translation models, published by Mozilla, into your cache. Interrupted downloads "
        "are continued, and every model is verified.",
    )
    fetching.add_argument("pairs", nargs="+", metavar="PAIR", help="source and target language, such as en-de")
    fetching.add_argument(
        "--architecture",
        choices=ARCHITECTURES,
        help="base is the best, tiny the fastest [default: the one that Firefox uses]",
    )
    fetching.add_argument("--replace", action="store_true", help="replace an installed model of this pair")
    fetching.add_argument("-q", "--quiet", action="store_true", help="show no progress bar")
    fetching.set_defaults(act=get)
    listing = actions.add_parser(
        "list",
        help="list installed and available translation models",
        description="List the installed translation models and those that Mozilla publishes, with their size and their "
        "published quality on FLORES-200+.",
    )
    listing.add_argument(
        "languages", nargs="*", metavar="LANGUAGE", help="show only pairs with this language (de) or one pair (en-de)"
    )
    listing.add_argument("--installed", action="store_true", help="show only installed models; works offline")
    listing.set_defaults(act=show)


def get(args: argparse.Namespace) -> int:
    from tqdm import tqdm

    from quitmt import fetch

    quiet = args.quiet or sys.stderr is None or not sys.stderr.isatty()

    def bar(what: str, total: int | None, here: int) -> Any:
        return tqdm(
            desc=what, total=total, initial=here, unit="B", unit_scale=True, disable=quiet, file=sys.stderr,
            dynamic_ncols=True,
        )  # fmt: skip

    for pair in args.pairs:
        try:
            fetched = fetch.get(pair, architecture=args.architecture, replace=args.replace, bar=bar)
        except KeyboardInterrupt:
            say(f"interrupted; to continue: quitmt models get {pair}")
            return INTERRUPTED
        state = "fetched to" if fetched.fresh else "already installed in"
        say(f"{pair} {state} {fetched.folder}; use it with --model {fetched.name}")
        if pair in store.EMBEDDED:
            say(f"embedded:{pair} still means the model included in quitmt")
    return 0


def show(args: argparse.Namespace) -> int:
    print("installed, as --model embedded:PAIR")
    _print_table(_wanted(_here(), args.languages))
    if args.installed:
        return 0
    from quitmt import fetch

    try:
        index = fetch.read()
    except ModelError as error:
        say(f"{error}; showing installed models only")
        return 0
    print(f"\npublished by Mozilla ({index.generated[:10]}), to fetch: quitmt models get PAIR")
    rows = [
        (model.pair, model.architecture, _size(model.model.size), *_quality(model.metrics), model.status)
        for models in index.models.values()
        for model in models
    ]
    _print_table(_wanted(rows, args.languages))
    return 0


def _here() -> list[Row]:
    rows: list[Row] = []
    for pair in sorted({*store.EMBEDDED, *store.pairs()}):
        if pair in store.EMBEDDED:
            rows.append((pair, "tiny", "17", "", "", "included in quitmt"))
        if not store.has(pair):
            continue
        known = store.manifest(pair)
        size = sum(path.stat().st_size for path in store.folder(pair).glob("model*.bin"))
        origin = f"fetched, {known.status}" if known and known.status else "fetched" if known else "added manually"
        if pair in store.EMBEDDED:
            origin += f", as --model bergamot:{store.folder(pair)}"
        architecture, metrics = (known.architecture, known.metrics) if known else ("", {})
        rows.append((pair, architecture, _size(size), *_quality(metrics), origin))
    return rows


def _wanted(rows: Iterable[Row], languages: list[str]) -> list[Row]:
    return [row for row in rows if not languages or {row[0], *row[0].split("-")} & set(languages)]


def _size(size: int | None) -> str:
    return f"{size / 1e6:.0f}" if size else ""


def _quality(metrics: Mapping[str, float]) -> tuple[str, str]:
    comet, bleu = metrics.get("comet"), metrics.get("bleu")
    return "" if comet is None else f"{comet:.4g}", "" if bleu is None else f"{bleu:.1f}"


def _print_table(rows: list[Row]) -> None:
    if not rows:
        print("  none")
        return
    widths = [max(len(row[column]) for row in [HEAD, *rows]) for column in range(len(HEAD))]
    for row in [HEAD, *rows]:
        cells = (
            f"{cell:>{width}}" if 2 <= column <= 4 else f"{cell:<{width}}"
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        print(f"  {'  '.join(cells)}".rstrip())
