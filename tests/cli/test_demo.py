"""The demo: four ways side by side, and one closing sentence that counts what they did."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from tests.conftest import Ran

from quitmt.cli.demo import Shown, closing, described, summary
from quitmt.types import Outcome, StopReason


def shown(way: str, translation: str, size: int, seconds: float) -> Shown:
    return Shown(way, Outcome("1", "source", translation, 0, 1.0, size, StopReason.BUDGET, (1.0,)), seconds)


def row(greedy: str, reranked: str, default: str) -> list[Shown]:
    ways = ("greedy", greedy, 1, 0.1), ("all 512", reranked, 512, 4.0), ("QUIT", reranked, 500, 4.0)
    return [*(shown(*way) for way in ways), shown("default", default, 8, 0.5)]


ROWS = [row("a", "b", "b"), row("c", "d", "c")]


def test_each_way_is_marked_by_whether_it_chose_what_all_candidates_choose() -> None:
    assert [line.split()[-2:] for line in described(ROWS[0])] == [["≠", "a"], ["=", "b"], ["=", "b"], ["=", "b"]]


def test_the_summary_counts_choices_candidates_and_seconds() -> None:
    told = summary(ROWS)
    assert "default  same 1 of 2 times,    16 candidates (1.6%), 1.0 CPU s (12%)" in told
    assert "greedy   same 0 of 2 times,     2 candidates (0.2%), 0.2 CPU s (2%)" in told
    assert told.endswith(closing(ways(ROWS)))


def ways(rows: list[list[Shown]]) -> dict[str, Sequence[Shown]]:
    return {column[0].method: column for column in zip(*rows, strict=True)}


def test_the_closing_says_what_was_gained_and_what_it_cost() -> None:
    assert closing(ways(ROWS)) == (
        "The default changed 1 of 2 greedy translations. It took 5.0 times as long as greedy decoding, and was 8.0 "
        "times as fast as all 512."
    )


def test_the_closing_says_where_greedy_decoding_is_enough() -> None:
    said = "Greedy decoding agreed with them at least as often, so it is enough for such sentences."
    rows = [row("a", "a", "b"), row("c", "c", "c"), row("d", "e", "d")]
    assert closing(ways(rows)).endswith(said)
    assert said not in closing(ways(rows[:2]))
    assert said not in closing(ways([row("a", "b", "c")] * 4))


def test_sentences_of_ones_own(quitmt: Callable[..., Ran], tmp_path: Path) -> None:
    (tmp_path / "mine.en").write_text("Good morning.\n\n")
    ran = quitmt("demo", tmp_path / "mine.en")
    assert ran.code == 0
    assert ran.out.count("Bom dia.") == 4
    assert "The default changed 0 of 1 greedy translations" in ran.out


def test_a_file_that_is_not_there(quitmt: Callable[..., Ran]) -> None:
    ran = quitmt("demo", "nowhere.en")
    assert (ran.code, ran.out, ran.err) == (2, "", "quitmt: cannot read nowhere.en: No such file or directory\n")
