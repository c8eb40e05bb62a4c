"""The board: giving up a job, and identifying rows that kill every process."""

from __future__ import annotations

from quitmt.batch.board import DEADLY_DEATHS, SUSPECT_DEATHS, Board, is_hopeless


def test_a_job_is_given_up_when_workers_start_and_nothing_gets_done() -> None:
    board = Board()
    for _ in range(8):
        board.started()
    assert not is_hopeless(board.look(), 2)
    board.broke("no more")
    board.started()
    state = board.look()
    assert is_hopeless(state, 2) and not is_hopeless(state, 3) and state.error == "no more"
    board.part(7, {"rows": 1})
    assert board.look().under_way == {7: {"rows": 1}}
    board.finished(7, {"rows": 2})
    state = board.look()
    assert (state.starts, state.finished, state.under_way) == (0, {7: {"rows": 2}}, {})
    assert board.look().finished == {}


def test_a_row_that_ends_every_process_is_found() -> None:
    board = Board()
    for _ in range(SUSPECT_DEATHS):
        assert board.begin(3) is None
    for _ in range(DEADLY_DEATHS):
        board.started()
        suspicion = board.begin(3)
        assert suspicion is not None and not suspicion.deadly
        board.row(3, "a")
        board.row(3, "b")
    assert board.look().starts == DEADLY_DEATHS
    suspicion = board.begin(3)
    assert suspicion is not None and suspicion.deadly == {"b"} and board.look().starts == 0
    board.finished(3, {})
    assert board.begin(3) is None and board.begin(4) is None
    board.row(5, "of a board that was lost")
