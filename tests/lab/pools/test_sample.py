"""Full pools: drawn once, kept, continued; and pools that were sampled elsewhere."""

from __future__ import annotations

import json
import resource
from pathlib import Path

import numpy as np
import pytest

from quitmt.errors import InputError, UsageError
from quitmt.lab.pools.sample import FullPool, languages, recorded, sampled
from quitmt.lab.study.settings import ModelSettings
from quitmt.plan.build import build_generator
from quitmt.types import Candidate, Segment
from tests.lab.studies import Invented, write_pools

SETTINGS = ModelSettings(budget=12)
SEGMENTS = [Segment(str(number), f"source {number}") for number in range(5)]


def test_pools_hold_what_was_drawn_in_order(tmp_path: Path) -> None:
    generator = Invented()
    pools = sampled(generator, SETTINGS, SEGMENTS, tmp_path)
    assert [pool.segment for pool in pools] == SEGMENTS
    for pool in pools:
        assert [one.text for one in pool.candidates] == [generator.text(pool.segment, index) for index in range(12)]
        assert pool.candidates[3].scores == {
            "log_probability": -len(pool.candidates[3].text) / 3,
            "tokens": len(pool.candidates[3].text),
        }
        assert pool.generate_seconds > 0


def test_a_second_run_draws_nothing_and_more_segments_only_those(tmp_path: Path) -> None:
    first = sampled(Invented(), SETTINGS, SEGMENTS[:3], tmp_path)
    again = Invented()
    done: list[int] = []
    assert sampled(again, SETTINGS, SEGMENTS[:3], tmp_path, done.append) == first
    assert again.drawn == [] and sum(done) == 3
    assert sampled(again, SETTINGS, SEGMENTS, tmp_path)[:3] == first
    assert {segment for segment, _ in again.drawn} == {"3", "4"}
    assert len(list(tmp_path.iterdir())) == 1


def test_a_line_that_a_kill_cut_off_is_sampled_again(tmp_path: Path) -> None:
    first = sampled(Invented(), SETTINGS, SEGMENTS, tmp_path)
    [path] = tmp_path.iterdir()
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:3]) + lines[3][:40])
    again = Invented()
    pools = sampled(again, SETTINGS, SEGMENTS, tmp_path)
    kept = {json.loads(line)["id"] for line in lines[:3]}
    assert {segment for segment, _ in again.drawn} == {"0", "1", "2", "3", "4"} - kept
    assert [pool.candidates for pool in pools] == [pool.candidates for pool in first]
    assert len(path.read_bytes().splitlines()) == 5


def test_cutting_a_torn_line_off_never_writes_the_others_again(tmp_path: Path) -> None:
    """On a full disk, as in a kill, whatever is written anew is lost."""
    sampled(Invented(), SETTINGS, SEGMENTS, tmp_path)
    [path] = tmp_path.iterdir()
    whole = b"".join(path.read_bytes().splitlines(keepends=True)[:3])
    path.write_bytes(whole + b'{"id": "7", "sou')
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            sampled(Invented(), SETTINGS, SEGMENTS, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == whole


def test_another_seed_budget_or_source_is_another_pool(tmp_path: Path) -> None:
    sampled(Invented(), SETTINGS, SEGMENTS, tmp_path)
    for generator, settings in ((Invented(1), SETTINGS), (Invented(), ModelSettings(budget=8))):
        pools = sampled(generator, settings, SEGMENTS, tmp_path)
        assert len(generator.drawn) == 5 * settings.budget
        assert pools[0].candidates[0].text == generator.text(SEGMENTS[0], 0)
    assert len(list(tmp_path.iterdir())) == 3
    changed, generator = [Segment("0", "another source"), *SEGMENTS[1:]], Invented()
    assert sampled(generator, SETTINGS, changed, tmp_path)[0].segment == changed[0]
    assert {segment for segment, _ in generator.drawn} == {"0"}


def test_line_breaks_of_other_kinds_are_part_of_a_text(tmp_path: Path) -> None:
    odd = [Segment("1", "one\u2028two\x85three"), Segment("2", "x")]
    sampled(Invented(), SETTINGS, odd, tmp_path)
    again = Invented()
    assert [pool.segment for pool in sampled(again, SETTINGS, odd, tmp_path)] == odd
    assert again.drawn == []


def test_a_segment_that_fails_costs_the_others_nothing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"1 segments could not be sampled; the first: segment 2: .*out of ink.*again"):
        sampled(Invented(fail=frozenset("2")), SETTINGS, SEGMENTS, tmp_path)
    again = Invented()
    sampled(again, SETTINGS, SEGMENTS, tmp_path)
    assert {segment for segment, _ in again.drawn} == {"2"}


@pytest.mark.parametrize("line", ["{}", "not JSON", '{"id": "1", "source": "s", "candidates": ["a"]}', "[1]"])
def test_a_damaged_line_is_named(line: str, tmp_path: Path) -> None:
    sampled(Invented(), SETTINGS, SEGMENTS[:1], tmp_path)
    [path] = tmp_path.iterdir()
    path.write_text(path.read_text("utf-8") + line + "\n", "utf-8")
    with pytest.raises(InputError, match=r"pools-.*, line 2 is damaged: .* \(delete the line"):
        sampled(Invented(), SETTINGS, SEGMENTS[:1], tmp_path)


def test_pools_that_are_not_utf_8_are_named(tmp_path: Path) -> None:
    sampled(Invented(), SETTINGS, SEGMENTS[:1], tmp_path)
    [path] = tmp_path.iterdir()
    path.write_bytes(path.read_bytes() + b'{"id": "1", "source": "caf\xe9", "candidates": ["a"]}\n')
    with pytest.raises(InputError, match=r"pools-.*, line 2 is damaged: it is not UTF-8 \(delete the line"):
        sampled(Invented(), SETTINGS, SEGMENTS, tmp_path)
    with pytest.raises(InputError, match=r"line 2.*UTF-8"):
        recorded(str(path), SEGMENTS, 12)


def test_recorded_pools_by_id_in_any_order(tmp_path: Path) -> None:
    path = write_pools(tmp_path / "pools.jsonl", 3, 6)
    lines = path.read_text().splitlines()
    path.write_text("\n".join(reversed(lines)) + "\n")
    sources = [json.loads(line)["source"] for line in lines]
    segments = [Segment(str(number + 1), source) for number, source in enumerate(sources)]
    pools = recorded(str(path), segments[:2], 4)
    assert [pool.segment for pool in pools] == segments[:2]
    for pool, line in zip(pools, lines, strict=False):
        assert [one.text for one in pool.candidates] == json.loads(line)["candidates"][:4]
        assert np.isnan(pool.generate_seconds)


def test_recorded_pools_by_order_if_no_id_is_known(tmp_path: Path) -> None:
    path = write_pools(tmp_path / "pools.jsonl", 2, 6)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    segments = [Segment(f"doc-{number}", line["source"]) for number, line in enumerate(lines)]
    pools = recorded(str(path), segments, 6)
    assert [pool.segment for pool in pools] == segments
    assert [pool.candidates[0].text for pool in pools] == [line["candidates"][0] for line in lines]


def test_recorded_pools_that_do_not_fit(tmp_path: Path) -> None:
    path = str(write_pools(tmp_path / "pools.jsonl", 2, 4))
    with pytest.raises(InputError, match="has no pool for segment 3"):
        recorded(path, [Segment("1", "Good morning."), Segment("3", "x")], 4)
    with pytest.raises(InputError, match="the pool of segment 1 has another source than the test set"):
        recorded(path, [Segment("1", "Good evening.")], 4)
    with pytest.raises(InputError, match="has no pool for segment c"):
        recorded(path, [Segment("a", "Good morning."), Segment("b", "The door is open."), Segment("c", "x")], 4)


def test_keys_follow_the_content() -> None:
    def pool(source: str, *texts: str, q: float = 1.0, seconds: float = 1.0) -> FullPool:
        return FullPool(Segment("1", source), tuple(Candidate(text, scores={"q": q}) for text in texts), seconds)

    one = pool("s", "a", "b")
    assert one.key == pool("s", "a", "b", q=2.0, seconds=5.0).key
    assert len({one.key, pool("s", "b", "a").key, pool("t", "a", "b").key, pool("s", "a").key}) == 4
    assert one.scored_key == pool("s", "a", "b", seconds=5.0).scored_key
    assert len({one.scored_key, pool("s", "a", "b", q=2.0).scored_key, pool("s", "b", "a").scored_key}) == 3


def test_languages_and_sampling_settings() -> None:
    assert languages(ModelSettings()) == ("en", "pt")
    assert languages(ModelSettings(name="openai:x", source_language="de", target_language="cs")) == ("de", "cs")
    assert languages(ModelSettings(pools="p", source_language="de")) == ("de", None)
    generator = build_generator(ModelSettings(temperature=0.7, top_k=5, seed=3))
    assert "t:0.7" in generator.signature and "seed:3" in generator.signature and "k:5" in generator.signature
