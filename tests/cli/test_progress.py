"""What a run says it cost."""

from __future__ import annotations

from quitmt.cli.progress import Bill, Progress
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


def test_seconds_and_tokens_are_added_up() -> None:
    bill = Bill()
    bill.add(finished(2.0, 3))
    bill.add(finished(1.0, 9))
    assert bill.line() == "3.0 s generating and 0.5 s reranking, 74 tokens"


def test_tokens_are_not_said_unless_all_are_known() -> None:
    for one in (finished(2.0, 20, tokens=None), finished(2.0, 20, kept=19)):
        bill = Bill()
        bill.add(finished(2.0, 20))
        bill.add(one)
        assert bill.line() == "4.0 s generating and 0.5 s reranking"


def test_recorded_pools_have_been_paid_for() -> None:
    bill = Bill()
    bill.add(finished(0.0, 3))
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
