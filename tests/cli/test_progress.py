"""What a run says it cost."""

from __future__ import annotations

import pytest

from quitmt.cli.progress import UNIT, Bar, Bill, Progress
from quitmt.errors import GenerationError
from quitmt.types import Candidate, Finished, Outcome, Seconds, Segment, StopReason


def finished(generate: float, size: int, *, tokens: int | None = 5, kept: int | None = None) -> Finished:
    segment = Segment("1", "a source")
    outcome = Outcome(
        "1",
        "a source",
        "a text",
        0,
        0.5,
        size,
        StopReason.DECIDED,
        (0.5,),
        Seconds(generate, 0.25),
        budget=20,
        anchors=1,
    )
    pool = [Candidate("a text", tokens=tokens)] * (size if kept is None else kept)
    return Finished(segment, outcome, pool, anchors=[Candidate("an anchor", tokens=7)])


@pytest.mark.parametrize("shares_beginnings", [False, True])
def test_seconds_tokens_and_what_the_whole_budget_would_cost(shares_beginnings: bool) -> None:
    """Seconds are only estimated where further candidates cost as much as the first ones."""
    bill = Bill(shares_beginnings=shares_beginnings)
    bill.add(finished(2.0, 3), possible=21)
    bill.add(finished(1.0, 9), possible=21)
    seconds = "" if shares_beginnings else f"{2.0 / 4 * 21 + 1.0 / 10 * 21:.1f} s generating, "
    tokens = f"{22 / 4 * 21 + 52 / 10 * 21:.0f} tokens"
    assert bill.line() == (
        f"3.0 s generating and 0.5 s reranking, 74 tokens; all candidates would take about {seconds}{tokens} (estimate)"
    )


def test_nothing_is_estimated_where_all_candidates_were_used() -> None:
    bill = Bill()
    bill.add(finished(2.0, 20), possible=21)
    assert bill.line() == "2.0 s generating and 0.2 s reranking, 107 tokens"


def test_tokens_are_not_said_unless_all_are_known() -> None:
    for one in (finished(2.0, 20, tokens=None), finished(2.0, 20, kept=19)):
        bill = Bill()
        bill.add(finished(2.0, 20), possible=21)
        bill.add(one, possible=21)
        assert bill.line() == "4.0 s generating and 0.5 s reranking"


def test_recorded_pools_have_been_paid_for() -> None:
    bill = Bill()
    bill.add(finished(0.0, 3), possible=21)
    assert bill.line() is None


def test_the_first_failure_is_the_first_of_the_input() -> None:
    progress = Progress(8, quiet=True)
    for position in (5, 2, 9):
        segment = Segment(str(position), "a source")
        progress.add(
            Finished.without_candidates(segment, StopReason.FAILED, "", GenerationError(f"error of {position}")),
            position,
        )
    assert (progress.failed, progress.first_error) == (3, "error of 2")


def test_the_bar_counts_segments() -> None:
    def meter(seconds: float) -> str:
        return Bar.format_meter(10, 20, 10 * seconds, unit=UNIT)

    assert "0.50 segments/s" not in meter(2.0) and "2.00s/segment]" in meter(2.0)
    assert "2.00 segments/s]" in meter(0.5)
