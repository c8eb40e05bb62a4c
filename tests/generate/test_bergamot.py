"""The embedded generator: one thread for all who draw, and what is done when they close, leave or fail."""

from __future__ import annotations

import asyncio
import threading

import pytest

from quitmt.bergamot.sampling import Sampler
from quitmt.errors import GenerationError, UsageError
from quitmt.generate.bergamot import BergamotGenerator
from quitmt.protocols import GeneratorTraits, traits_of
from quitmt.sampling import Sampling
from quitmt.types import Request, Segment

ONE = Segment("1", "The river froze early this winter.")
TWO = Segment("2", "My brother repairs old radios.")


@pytest.fixture(scope="module")
def generator():
    return BergamotGenerator("embedded:en-pt", Sampling(seed=4))


async def collect(generator, *requests):
    return [draw async for draw in generator.draw(requests)]


def candidates(generator, segment, start, stop):
    (draw,) = asyncio.run(collect(generator, Request(segment, start, stop)))
    assert (draw.segment, draw.start) == (segment, start)
    return draw.candidates


def test_threads_with_event_loops_of_their_own_may_draw_at_once(generator):
    found = {}

    def work(segment):
        found[segment] = candidates(generator, segment, 0, 12)

    threads = [threading.Thread(target=work, args=(segment,)) for segment in (ONE, TWO)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {segment: candidates(generator, segment, 0, 12) for segment in (ONE, TWO)}


def test_a_range_that_makes_no_sense_is_refused(generator):
    with pytest.raises(UsageError, match="candidates 3 to 2"):
        candidates(generator, ONE, 3, 2)


class HeldUp:
    """Steps of samplers that wait for a test."""

    def __init__(self, monkeypatch):
        self.begun, self.go_on, self.steps, step = threading.Event(), threading.Event(), 0, Sampler.step

        def wait(sampler):
            self.steps += 1
            self.begun.set()
            self.go_on.wait()
            return step(sampler)

        monkeypatch.setattr(Sampler, "step", wait)


def test_closing_ends_the_draws_of_that_segment_only(generator, monkeypatch):
    held, generator = HeldUp(monkeypatch), generator.resampled(Sampling(seed=5))

    async def work():
        task = asyncio.create_task(collect(generator, Request(ONE, 0, 8), Request(TWO, 0, 8), Request(ONE, 8, 9)))
        await asyncio.to_thread(held.begun.wait)
        generator.close(ONE)
        held.go_on.set()
        return await task

    assert [draw.segment for draw in asyncio.run(work())] == [TWO]


def test_leaving_early_stops_the_work(generator, monkeypatch):
    held, generator = HeldUp(monkeypatch), generator.resampled(Sampling(seed=5))

    async def work():
        task = asyncio.create_task(collect(generator, Request(TWO, 0, 1000)))
        await asyncio.to_thread(held.begun.wait)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        held.go_on.set()

    asyncio.run(work())
    for thread in threading.enumerate():
        if thread.name == "quitmt-bergamot":
            thread.join()  # it ends when nothing is left to do
    assert held.steps == 1


def test_a_failure_is_an_answer_and_not_the_end(generator, monkeypatch):
    expected = candidates(generator, ONE, 0, 4)
    with monkeypatch.context() as broken:

        def fail(sampler):
            raise MemoryError("no room")

        broken.setattr(Sampler, "step", fail)
        draws = asyncio.run(collect(generator, Request(ONE, 0, 4), Request(TWO, 0, 4)))
    assert len(draws) == 2
    for draw in draws:
        assert isinstance(draw.error, GenerationError) and "no room" in str(draw.error) and not draw.candidates
    assert candidates(generator, ONE, 0, 4) == expected


def test_a_segment_that_cannot_be_encoded_fails_alone(generator):
    bad = Segment("bad", "\ud800 half a pair")
    draws = {draw.segment: draw for draw in asyncio.run(collect(generator, Request(bad, 0, 2), Request(TWO, 0, 2)))}
    assert draws[TWO].error is None and len(draws[TWO].candidates) == 2
    assert draws[bad].error is None or isinstance(draws[bad].error, GenerationError)


def test_greedy_gives_one_text(generator):
    greedy = generator.resampled(Sampling(temperature=0))
    assert len({candidate.text for candidate in candidates(greedy, ONE, 0, 5)}) == 1


def test_traits_and_characters_that_the_vocabulary_lacks(generator):
    assert traits_of(generator, GeneratorTraits).sentence_level
    assert generator.unknown("The door is open, são José!") == ""
    assert generator.unknown("I love 🍕 and 水 and 🍕.") == "🍕水"


def test_the_signature_names_every_setting(generator):
    plain = generator.resampled(Sampling()).signature
    assert plain.startswith("embedded:en-pt|w:") and plain.endswith("|t:1.2|seed:0")
    cut = generator.resampled(Sampling(temperature=1, top_k=5, top_p=0.9, epsilon=0.02, seed=3)).signature
    assert cut.endswith("|t:1|k:5|p:0.9|e:0.02|seed:3")
