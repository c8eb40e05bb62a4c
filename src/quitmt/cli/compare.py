"""``quitmt compare``: whether other systems are as good as a base, metric by metric."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np

from quitmt.cli import score, scoring
from quitmt.errors import UsageError, unknown
from quitmt.evaluate import equivalence
from quitmt.evaluate.equivalence import LEAST, MARGINS, RESAMPLES, Comparison, Pair
from quitmt.evaluate.report import MetricScores, Report, metric_fields, parse
from quitmt.files.outputs import Output

DESCRIPTION = """\
Compare systems with a base: is a cheaper one as good, is an expensive one better? A paired bootstrap over segments
gives the difference of the mean segment scores with its 95% interval, a mark for equivalence within a margin (TOST),
and the numbers of segments that are better, equal and worse. BASE and OTHER are translations, as in quitmt score. Or
give BASE alone, a file that quitmt score --format json --segments wrote; then nothing is scored again."""

EXAMPLES = """\
examples:
  quitmt translate news.en --anchors greedy --stop fixed:1 -o greedy.pt      # greedy decoding
  quitmt translate news.en --anchors beam:4 --stop fixed:1 -o beam.pt        # beam search
  quitmt translate news.en --anchors none --stop fixed:1 -o sample.pt        # one sample
  quitmt compare greedy.pt beam.pt sample.pt quit.pt full.pt -r news.ref.pt  # is reranking worth it at all?
  quitmt compare full.pt quit.pt -r news.ref.pt                              # is stopping early as good?
  quitmt compare full.pt quit.pt fixed.pt -s news.en -r news.ref.pt -m chrf++ comet metricx
  quitmt score -t full.pt quit.pt -r news.ref.pt --format json --segments -o scores.json
  quitmt compare scores.json                      # its first system with the others
  quitmt compare scores.json --base quit.pt --margins 0.1 0.05 0.02 --format csv"""

DAGGER = "†"


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "compare",
        description=DESCRIPTION,
        epilog=scoring.NAMES + EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("base_file", metavar="BASE", help="translations of the base system, or scores of all systems")
    parser.add_argument("others", nargs="*", metavar="OTHER", help="translations of other systems")
    scoring.add_judging(parser)
    group = parser.add_argument_group("comparison")
    group.add_argument("--base", metavar="NAME", help="system to compare the others with [default: the first]")
    group.add_argument(
        "--resamples", type=int, default=RESAMPLES, metavar="N", help="bootstrap resamples [default: 10000]"
    )
    group.add_argument("--seed", type=int, default=0, help="random seed of the resamples [default: 0]")
    group.add_argument(
        "--margins",
        type=float,
        nargs="+",
        default=list(MARGINS),
        metavar="M",
        help="equivalence margins, in standard deviations of the base's segment scores [default: 0.05 0.02]",
    )
    score.add_result(parser)
    parser.set_defaults(act=act)


@dataclass(frozen=True, slots=True)
class Row:
    """One system compared with the base by one metric."""

    metric: str
    system: str
    comparison: Comparison

    @property
    def segments(self) -> int:
        return self.comparison.wins + self.comparison.ties + self.comparison.losses

    @property
    def within(self) -> tuple[float, ...]:
        """The equivalence margins to show; none if there are too few segments."""
        return self.comparison.within if self.segments >= LEAST else ()


@dataclass(frozen=True, slots=True)
class Compared:
    report: Report
    base: str
    rows: list[Row]
    settings: dict[str, Any]


def act(args: argparse.Namespace) -> int:
    _check(args)
    if not args.others:
        return _recorded(args)
    work = scoring.prepare(args, [args.base_file, *args.others])
    base = _base(args, work.report)
    output = Output(args.output)
    failure: str | None = None
    with closing(output):
        try:
            work.load()
            failure = work.run()
        finally:
            if work.report.columns:
                _write(output, work.report, base, args)
    return score.conclude(failure)


def _check(args: argparse.Namespace) -> None:
    equivalence.check_settings(args.resamples, args.margins)
    if args.seed < 0:
        raise UsageError(f"--seed must be 0 or more, not {args.seed}")
    args.margins = sorted(set(args.margins), reverse=True)


def _recorded(args: argparse.Namespace) -> int:
    """Compare the systems of a file of scores."""
    path = args.base_file
    scoring.check_paths(args.output, [path])
    text = "\n".join(scoring.read_texts(path))
    if not text.lstrip().startswith("{") or scoring.outcome_fields(text.partition("\n")[0]):
        raise UsageError(f"there is nothing to compare {path} with", hint="quitmt compare BASE OTHER …")
    option = scoring.first_option(args, scoring.MODEL_OPTIONS)
    for name, value in (("-s", args.sources), ("-r", args.references), ("-m", args.metrics), (option, option)):
        if value:
            raise UsageError(f"{name} goes with translations; {path} has its scores already")
    report = parse(text, path)
    if len(report.systems) < 2:
        raise UsageError(f"{path} has the scores of one system only", hint="give quitmt score -t two or more")
    base = _base(args, report)
    if not args.quiet:
        scoring.warning(report, report.columns)
    with closing(Output(args.output)) as output:
        _write(output, report, base, args)
    return 0


def _base(args: argparse.Namespace, report: Report) -> str:
    if args.base is not None and args.base not in report.systems:
        raise unknown("system", args.base, report.systems)
    return args.base or report.systems[0]


def _write(output: Output, report: Report, base: str, args: argparse.Namespace) -> None:
    names = [(metric, system) for metric in report.columns for system in report.systems if system != base]
    pairs = [_pair(report.columns[metric], base, system) for metric, system in names]
    found = equivalence.compare(pairs, resamples=args.resamples, margins=args.margins, rng=args.seed)
    rows = [Row(*name, comparison) for name, comparison in zip(names, found, strict=True)]
    settings = {"resamples": args.resamples, "seed": args.seed, "margins": args.margins}
    render = {"text": as_text, "json": as_json, "csv": as_csv}[args.format]
    for line in render(Compared(report, base, rows, settings)):
        output.write(line)


def _pair(column: MetricScores, base: str, system: str) -> Pair:
    return Pair(column.scores[base].segments, column.scores[system].segments, column.lower_is_better)


def as_text(result: Compared) -> Iterator[str]:
    report, resamples, seed = result.report, result.settings["resamples"], result.settings["seed"]
    yield f"base: {result.base}; {report.segments:,} segments, {resamples:,} resamples, seed {seed}"
    yield ""
    table = [["metric", "system", "base", "other", "difference", "95% interval", "σ", "", "win/tie/loss"]]
    table += [_cells(result, row) for row in result.rows]
    yield from score.aligned(_left(_left(table, 1), 7))
    yield ""
    yield from _legend(result)
    yield from score.signatures(report)


def _cells(result: Compared, row: Row) -> list[str]:
    column, found = result.report.columns[row.metric], row.comparison
    decimals = column.decimals
    base, other = column.scores[result.base].system, column.scores[row.system].system
    low, high = (f"{end:+.{decimals}f}" for end in found.interval)
    return [
        f"{row.metric} {column.arrow}",
        row.system,
        f"{base:.{decimals}f}",
        f"{other:.{decimals}f}",
        f"{found.difference:+.{decimals}f}",
        f"[{low}, {high}]",
        f"{found.sigma:.{decimals}f}",
        DAGGER * len(row.within),
        f"{found.wins}/{found.ties}/{found.losses}",
    ]


def _left(table: Sequence[list[str]], column: int) -> list[list[str]]:
    width = max(len(row[column]) for row in table)
    return [[*row[:column], row[column].ljust(width), *row[column + 1 :]] for row in table]


def _legend(result: Compared) -> Iterator[str]:
    marks = [f"{DAGGER * count} within {m:g}σ" for count, m in enumerate(result.settings["margins"], start=1)]
    yield f"equivalent: {', '.join(marks)}: the 5th to 95th percentile of the resampled difference is within it"
    fewest = min((row.segments for row in result.rows), default=LEAST)
    if fewest < LEAST:
        yield f"{fewest} segments are too few to decide about equivalence: a mark needs {LEAST} or more"
    yield "σ is the standard deviation of the base's segment scores; difference is other − base, of mean segment scores"
    whole = [name for name, column in result.report.columns.items() if _of_whole_corpora(column)]
    if whole:
        yield f"base and other are scores of whole corpora for {', '.join(whole)}, not means of segments"
    for row in result.rows:
        if row.comparison.left_out:
            lacking = f"{row.comparison.left_out} of {result.report.segments} segments lack a score of one of the two"
            yield f"{row.metric}, {row.system}: {lacking}, and only base and other count them"
    down = [name for name, column in result.report.columns.items() if column.lower_is_better]
    if down:
        yield f"lower is better for {', '.join(down)}: a negative difference is an improvement, a lower score a win"


def _of_whole_corpora(column: MetricScores) -> bool:
    return not all(math.isclose(scores.system, np.nanmean(scores.segments)) for scores in column.scores.values())


def as_json(result: Compared) -> Iterator[str]:
    fields = {
        "base": result.base,
        "segments": result.report.segments,
        **result.settings,
        "metrics": metric_fields(result.report),
        "comparisons": [_fields(result, row) for row in result.rows],
    }
    yield json.dumps(fields, ensure_ascii=False, indent=2, allow_nan=False)


def _fields(result: Compared, row: Row) -> dict[str, Any]:
    column, found = result.report.columns[row.metric], row.comparison
    base, other = column.scores[result.base], column.scores[row.system]
    compared = _pair(column, result.base, row.system).scored
    return {
        "metric": row.metric,
        "system": row.system,
        "base_score": base.system,
        "score": other.system,
        "base_mean": float(compared.base.mean()),
        "mean": float(compared.other.mean()),
        "difference": found.difference,
        "interval_95": found.interval,
        "interval_90": found.tost_interval,
        "sigma": found.sigma,
        "equivalent_within": row.within,
        "p_values": found.p_values,
        "wins": found.wins,
        "ties": found.ties,
        "losses": found.losses,
        "left_out": found.left_out,
    }


def as_csv(result: Compared) -> Iterator[str]:
    """One row per comparison; lists in JSON become one column per item."""
    names: list[str] = []
    for row in result.rows:
        cells = _flat(_fields(result, row), result)
        if not names:
            names = list(cells)
            yield score.csv_line(names)
        yield score.csv_line([cells[name] for name in names])


def _flat(fields: dict[str, Any], result: Compared) -> dict[str, Any]:
    cells: dict[str, Any] = {}
    for name, value in fields.items():
        if name.startswith("interval"):
            cells[f"{name}_low"], cells[f"{name}_high"] = value
        elif name == "equivalent_within":
            cells[name] = min(value, default="")
        elif name == "p_values":
            for margin, p in zip(result.settings["margins"], value, strict=True):
                cells[f"p_{margin:g}"] = p
        else:
            cells[name] = value
    return cells
