"""The journal: damaged lines are done again, and candidates of unfinished segments come back."""

from __future__ import annotations

from pathlib import Path

import pytest

from quitmt.errors import InputError, OutputError, UsageError
from quitmt.files.journal import Journal
from quitmt.types import Begun, Candidate, Finished, Outcome, Segment, StopReason

SETTINGS = {"-k": 8, "--prompt": "odd \udcff name"}
POOL = [Candidate(f"candidate {i}", -0.5 * i, i, {"kiwi": 0.25}) for i in range(20)]


def segment(position: int) -> Segment:
    return Segment(str(position), f"source {position}")


def finished(position: int, stop: StopReason = StopReason.STABLE, error: str | None = None) -> Finished:
    one = segment(position)
    outcome = Outcome(one.id, one.source, f"text {position}", 0, 0.5, 8, stop, (0.25, 0.5), signature="s", error=error)
    return Finished(one, outcome, ())


def begin(path: Path, *, resume: bool = False) -> Journal:
    journal = Journal(path, SETTINGS)
    journal.start(resume=resume)
    return journal


def add_drawn(journal: Journal, position: int, start: int, new: list[Candidate], *, check: int) -> None:
    journal.add_drawn(position, start, Begun(segment(position), [*[Candidate("")] * start, *new]), check)


def drawn(journal: Journal, position: int, check: int) -> tuple[Candidate, ...]:
    begun = journal.drawn(position, segment(position), check)
    return tuple(begun.candidates) if begun else ()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A journal with five finished segments, and two of eight that were begun."""
    journal = begin(tmp_path / "x.journal")
    for position in range(5):
        journal.add(position, finished(position), check=position)
    add_drawn(journal, 6, 0, POOL[:8], check=6)
    add_drawn(journal, 7, 0, POOL[:3], check=7)
    add_drawn(journal, 6, 8, POOL[8:], check=6)
    journal.close(done=False)
    return tmp_path / "x.journal"


def test_what_was_done_and_begun_comes_back(path: Path) -> None:
    journal = begin(path, resume=True)
    assert [journal.find(position, segment(position), position) for position in range(6)] == [
        *(finished(position) for position in range(5)),
        None,
    ]
    assert journal.begun == 2 and journal.length == 8
    assert drawn(journal, 6, 6) == tuple(POOL) and drawn(journal, 7, 7) == tuple(POOL[:3])
    assert drawn(journal, 5, 5) == ()
    journal.add(6, finished(6), 6)
    journal.close(done=False)
    again = begin(path, resume=True)
    assert again.find(6, segment(6), 6) == finished(6) and again.begun == 1
    again.close(done=True)
    assert not path.exists()


def test_a_resumed_run_is_told_how_many_are_done(path: Path) -> None:
    journal = Journal(path, SETTINGS)
    assert journal.start(resume=True) == 5
    journal.close(done=False)


def test_a_segment_that_failed_keeps_its_candidates(path: Path) -> None:
    journal = begin(path, resume=True)
    journal.add(6, finished(6, StopReason.FAILED, "half of a pair: \ud83d"), 6)
    journal.close(done=False)
    again = begin(path, resume=True)
    assert again.find(6, segment(6), 6) is None and drawn(again, 6, 6) == tuple(POOL)
    again.close(done=False)


def test_candidates_after_a_gap_are_not_used_and_later_ones_replace(path: Path) -> None:
    journal = begin(path, resume=True)
    add_drawn(journal, 7, 5, POOL[5:9], check=7)
    add_drawn(journal, 7, 2, POOL[12:16], check=7)
    journal.close(done=False)
    again = begin(path, resume=True)
    assert drawn(again, 7, 7) == (*POOL[:2], *POOL[12:16])
    with pytest.raises(InputError, match="line 7 of the input has changed"):
        drawn(again, 6, 5)
    again.close(done=False)


def test_a_run_with_nothing_but_candidates_is_not_overwritten(tmp_path: Path) -> None:
    journal = begin(tmp_path / "j")
    add_drawn(journal, 0, 0, POOL, check=0)
    journal.close(done=False)
    with pytest.raises(UsageError, match="holds 0 finished segments and candidates of 1 unfinished segments"):
        begin(tmp_path / "j")


def test_every_flipped_bit_is_found(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Refused, or warned of and done again; never believed."""
    data = path.read_bytes()
    begins = data.index(b"\n") + 1
    for place in range(0, len(data) * 8, 43):
        flipped = bytearray(data)
        flipped[place // 8] ^= 1 << place % 8
        path.write_bytes(flipped)
        caplog.clear()
        if place // 8 < begins:
            with pytest.raises((InputError, UsageError)):
                begin(path, resume=True)
            continue
        journal = begin(path, resume=True)
        found = [journal.find(position, segment(position), position) for position in range(5)]
        assert all(one in (None, finished(position)) for position, one in enumerate(found))
        pools = [drawn(journal, 6, 6), drawn(journal, 7, 7)]
        assert pools[0] in (tuple(POOL), tuple(POOL[:8]), ()) and pools[1] in (tuple(POOL[:3]), ())
        lost = found.count(None) + (len(pools[0]) < 20) + (len(pools[1]) < 3)
        assert 1 <= lost <= 2  # two, if a line break was hit
        assert "damaged" in caplog.text or flipped[-1] != data[-1]
        journal.close(done=False)


def test_locked_before_it_is_read(path: Path) -> None:
    """While its run lives, nobody is told to delete or to resume it."""
    living = begin(path, resume=True)
    for resume in (False, True):
        with pytest.raises(OutputError, match="another run is writing to"):
            begin(path, resume=resume)
    living.close(done=False)


def test_half_a_first_line_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "j").write_bytes(b'{"settings"')
    journal = begin(tmp_path / "j", resume=True)
    journal.close(done=False)
    assert not (tmp_path / "j").exists()
