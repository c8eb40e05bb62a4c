"""What to use, in words and in two tables: the opening of the report.

A sentence says nothing that its numbers do not show: where the interval of a difference holds 0, no difference shows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from quitmt.evaluate.equivalence import Comparison
from quitmt.lab.report.choices import BestAtCost, Overview
from quitmt.lab.report.options import Way
from quitmt.lab.report.paper_tables import GREEDY_NOTE
from quitmt.lab.report.tables import Cell, Column, Table, columns_in_use
from quitmt.lab.rows import MetricColumn

FEW = 100
"""Segments, below which intervals say little about others."""
MANY = 3
"""Whole pools, beyond which a sentence only names them."""
COST_NOTE = "Candidates: samples and anchors per segment; of a beam search its hypotheses."
SECONDS_NOTE = (
    "Seconds per segment. Estimated: from a replay of the whole pools. Live: measured in a run of the rule. Greedy and "
    "beam searches are measured as they are decoded."
)


def sentences(found: Overview | None) -> tuple[str, ...]:
    if found is None:
        return ("No metric judges the translations, so nothing can be recommended: name one in [evaluate].",)
    return tuple(_sentences(found))


def _sentences(found: Overview) -> Iterator[str]:
    best, cheapest = found.choices[-1], found.cheapest
    yield f"Best of all: {_choice(best, found)}"
    if found.segments < FEW:
        yield (
            f"These are {found.segments} segments. Fewer than {FEW} say little about other texts: take the order as a "
            f"hint, and run more segments before you decide."
        )
    if cheapest is not None and cheapest.option is not best.option:
        yield f"Cheapest that nothing here is shown to be better than: {_choice(cheapest, found, sure=False)}"
    if best.held_out is not None:
        gain = _number(best.held_out, found.judged, signed=True)
        yield (
            f"The best of many flatters itself. If one half of the segments chooses and the other half judges, the "
            f"best of all is {gain} {found.judged.heading} from greedy."
        )
    yield from _pools(found)


def stop_reason(found: Overview | None) -> Iterator[str]:
    """Is it worth it at all? Nothing where that is not known."""
    if found is None or found.greedy is None:
        return
    best = found.choices[-1]
    if not best.option.reranker or best.greedy is None:
        yield f"Is reranking worth it here? No: {best.option.name} is the best of all, and it reranks nothing."
        return
    judged = found.judged
    gain = f"{_versus(best.greedy, judged)} {judged.heading}, for {best.option.cost:.1f} candidates per segment"
    shown = _direction(best.greedy, judged)
    answer = "Yes: the best is shown to be better than greedy decoding" if shown > 0 else "It is not shown"
    if shown <= 0:
        answer += ": no configuration is better than greedy decoding beyond chance"
    yield f"Is reranking worth it here? {answer} ({gain})."


def _pools(found: Overview) -> Iterator[str]:
    """Which whole pools are better than greedy, and which are not."""
    if found.greedy is None:
        yield (
            "Greedy decoding is not among the options, so nothing is compared with it: set anchors = "
            '"greedy,beam:4" in [baselines], or record it with the pools.'
        )
        return
    told: dict[int, list[tuple[Way, str]]] = {-1: [], 0: [], 1: []}
    for option, against in zip(found.options, found.against, strict=True):
        if option.rule.startswith("all ") and against:
            compared = against[found.judged.name]
            told[_direction(compared, found.judged)].append((option, _versus(compared, found.judged)))
    heads = {-1: "Worse than greedy", 0: "Not shown to be better than greedy", 1: "Better than greedy"}
    for shown, pools in told.items():
        if len(pools) > MANY:
            yield f"{heads[shown]} with the whole pool (the table of all options says by how much): {_grouped(pools)}."
        elif pools:
            yield f"{heads[shown]} with the whole pool: {'; '.join(f'{one.name} ({by})' for one, by in pools)}."


def _grouped(pools: Sequence[tuple[Way, str]]) -> str:
    """Samplings by reranker."""
    samplings: dict[str, list[str]] = {}
    for one, _ in pools:
        samplings.setdefault(one.reranker, []).append(one.sampling or "samples")
    return "; ".join(f"{reranker} ({' · '.join(names)})" for reranker, names in samplings.items())


def _choice(one: BestAtCost, found: Overview, *, sure: bool = True) -> str:
    option, judged = one.option, found.judged
    cost = f"{option.cost:.1f} candidates per segment" if option.cost != 1 else "1 candidate per segment"
    said = f"{option.name}, with {cost}{_seconds(option)}: {judged.heading} {_number(one.value, judged)}"
    if one.greedy is not None:
        shown = _direction(one.greedy, judged)
        said += f", against greedy {_versus(one.greedy, judged)}"
        said += "; no difference shows" if shown == 0 else ""
    said += "."
    if sure:
        said += f" It is the best in {100 * one.best_again:.0f}% of resamples of the segments."
    return said


def _seconds(option: Way) -> str:
    if option.live is not None:
        return f" and {_short(option.live.seconds)} s, measured live"
    return f" and {_short(option.estimated)} s, estimated" if option.estimated is not None else ""


def _short(seconds: float) -> str:
    return f"{seconds:.3f}" if seconds < 1 else f"{seconds:.1f}"


def _versus(compared: Comparison, metric: MetricColumn) -> str:
    low, high = (_number(end, metric, signed=True) for end in compared.interval)
    return f"{_number(compared.difference, metric, signed=True)}, 95% interval {low} to {high}"


def _number(value: float, metric: MetricColumn, *, signed: bool = False) -> str:
    return Column("", "", metric.decimals, signed=signed).text(value)


def _direction(compared: Comparison, metric: MetricColumn) -> int:
    low, high = compared.interval
    sign = int(low > 0) - int(high < 0)
    return -sign if metric.lower_is_better else sign


def choices_table(found: Overview) -> Table:
    """A row a limit of cost."""
    judged = found.judged
    columns = [
        Column("at_most", "Candidates, at most"),
        Column("use", "Use"),
        Column("quality", judged.heading, judged.decimals, judged.lower_is_better),
        Column("minus_greedy", "− greedy", judged.decimals, judged.lower_is_better, signed=True),
        Column("best_again_percent", "Best again, %", 0),
        *_cost_columns(),
    ]
    rows = []
    for one in found.choices:
        limit = "any" if math.isinf(one.limit) else f"{one.limit:.0f}"
        if one is found.choices[-1] and not math.isinf(one.limit):
            limit += ", or any"
        lead = [Cell(limit), Cell(one.option.name), Cell(one.value), _difference(one.greedy)]
        rows.append((*lead, Cell(100 * one.best_again), *_cost(one.option)))
    used, shown = columns_in_use(columns, rows)
    notes = (
        "The best by the first metric among all that cost no more. Best again: the resamples of the segments in which "
        "it is the best of these too; where several are as good as each other, each has a share.",
        GREEDY_NOTE,
        COST_NOTE,
        SECONDS_NOTE,
    )
    return Table("choices", "The best at each cost", tuple(used), tuple(shown), notes)


def options_table(found: Overview) -> Table:
    """A row an option: greedy and beam searches first, then sampling by sampling."""
    columns = _lead_columns()
    for metric in found.metrics:
        columns += [
            Column(metric.name, metric.heading, metric.decimals, metric.lower_is_better),
            Column(f"{metric.name}_minus_greedy", "− greedy", metric.decimals, metric.lower_is_better, signed=True),
        ]
    columns += _cost_columns()
    rows = []
    for option, against in zip(found.options, found.against, strict=True):
        if option.in_table:
            cells = _lead(option)
            for metric in found.metrics:
                mean = float(option.quality[metric.name].mean())
                cells += [Cell(mean), _difference(against.get(metric.name))]
            rows.append((*cells, *_cost(option)))
    used, shown = columns_in_use(columns, rows)
    return Table(
        "options",
        "Greedy, beam search, and every sampling, reranker and rule",
        tuple(used),
        tuple(shown),
        (GREEDY_NOTE, COST_NOTE, SECONDS_NOTE),
    )


def _lead_columns() -> list[Column]:
    return [Column("sampling", "Sampling"), Column("reranker", "Reranker"), Column("rule", "Rule")]


def _lead(option: Way) -> list[Cell]:
    return [Cell(option.sampling or None), Cell(option.reranker or None), Cell(option.rule)]


def _cost_columns() -> list[Column]:
    return [
        Column("mean_n", "Samples", 1, lower_is_better=True),
        Column("candidates", "Candidates", 1, lower_is_better=True),
        Column("seconds_estimated", "Seconds", 4, lower_is_better=True, basis="estimated"),
        Column("seconds_live", "Seconds", 4, lower_is_better=True, basis="live"),
    ]


def _cost(option: Way) -> list[Cell]:
    live = option.live.seconds if option.live is not None else None
    return [Cell(option.size), Cell(option.cost), Cell(option.estimated), Cell(live)]


def _difference(compared: Comparison | None) -> Cell:
    return Cell(compared.difference, interval=compared.interval) if compared is not None else Cell(None)
