from __future__ import annotations

import asyncio
import threading
import time

import pytest

from quitmt.bergamot.sampling import Sampler
from quitmt.errors import GenerationError, ModelError, UsageError
from quitmt.generate.bergamot import BergamotGenerator
from quitmt.sampling import Sampling
from quitmt.types import Ask, Segment

ONE = Segment("1", "The river froze early this winter.")
TWO = Segment("2", "My brother repairs old radios.")


@pytest.fixture(scope="module")
def generator():
    return BergamotGenerator("embedded:en-pt", Sampling(seed=4))


async def collect(generator, *asks):
    return [draw async for draw in generator.draw(asks)]


def candidates(generator, segment, start, stop):
    (draw,) = asyncio.run(collect(generator, Ask(segment, start, stop)))
    assert (draw.segment, draw.start) == (segment, start)
    return draw.candidates


def test_every_call_may_have_its_own_event_loop(generator):
    whole = candidates(generator, ONE, 0, 24)
    assert len(whole) == 24
    assert candidates(generator, ONE, 0, 8) + candidates(generator, ONE, 8, 24) == whole


def test_concurrent_calls_join_one_batch(generator):
    async def both():
        return await asyncio.gather(collect(generator, Ask(ONE, 0, 8)), collect(generator, Ask(TWO, 0, 8)))

    first, second = asyncio.run(both())
    assert first[0].candidates == candidates(generator, ONE, 0, 8)
    assert second[0].candidates == candidates(generator, TWO, 0, 8)


def test_threads_with_their_own_loops(generator):
    found = {}

    def work(segment):
        found[segment] = candidates(generator, segment, 0, 12)

    threads = [threading.Thread(target=work, args=(segment,)) for segment in (ONE, TWO)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {segment: candidates(generator, segment, 0, 12) for segment in (ONE, TWO)}


def test_an_ask_for_nothing_is_answered(generator):
    assert candidates(generator, ONE, 5, 5) == ()


def test_a_range_that_makes_no_sense_is_refused(generator):
    with pytest.raises(UsageError, match="candidates 3 to 2"):
        candidates(generator, ONE, 3, 2)


def test_the_event_loop_stays_free(generator):
    async def work():
        ticks = 0
        task = asyncio.create_task(collect(generator, Ask(Segment("free", ONE.source), 0, 32)))
        while not task.done():
            await asyncio.sleep(0)
            ticks += 1
        return ticks

    assert asyncio.run(work()) > 1


def test_closing_ends_the_draws_of_that_segment_only(monkeypatch):
    generator = BergamotGenerator("embedded:en-pt")
    step, closed = Sampler.step, threading.Event()

    def waiting_step(sampler):
        closed.wait()
        return step(sampler)

    monkeypatch.setattr(Sampler, "step", waiting_step)

    async def work():
        task = asyncio.create_task(collect(generator, Ask(ONE, 0, 8), Ask(TWO, 0, 8), Ask(ONE, 8, 9)))
        await asyncio.sleep(0.05)
        generator.close(ONE)
        closed.set()
        return await task

    assert [draw.segment for draw in asyncio.run(work())] == [TWO]


@pytest.mark.slow
def test_leaving_early_stops_the_work():
    generator = BergamotGenerator("embedded:en-pt")

    async def work():
        draws = generator.draw([Ask(ONE, 0, 4), Ask(TWO, 0, 100_000)])
        async for draw in draws:
            assert draw.segment == ONE
            break
        await draws.aclose()

    asyncio.run(work())
    while generator._worker._running:
        time.sleep(0.01)
    assert not generator._part.sampler.busy and not generator._part.orders


def test_a_failure_is_an_answer_and_not_the_end(monkeypatch):
    generator = BergamotGenerator("embedded:en-pt")
    expected = candidates(generator, ONE, 0, 4)
    with monkeypatch.context() as broken:

        def fail(sampler):
            raise MemoryError("no room")

        broken.setattr(Sampler, "step", fail)
        draws = asyncio.run(collect(generator, Ask(ONE, 0, 4), Ask(TWO, 0, 4)))
    assert len(draws) == 2
    for draw in draws:
        assert isinstance(draw.error, GenerationError) and "no room" in str(draw.error) and not draw.candidates
    assert candidates(generator, ONE, 0, 4) == expected


def test_a_segment_that_cannot_be_encoded_fails_alone(generator):
    bad = Segment("bad", "\ud800 half a pair")
    draws = {draw.segment: draw for draw in asyncio.run(collect(generator, Ask(bad, 0, 2), Ask(TWO, 0, 2)))}
    assert draws[TWO].error is None and len(draws[TWO].candidates) == 2
    assert draws[bad].error is None or isinstance(draws[bad].error, GenerationError)


def test_greedy_gives_one_text():
    greedy = BergamotGenerator("embedded:en-pt", Sampling(temperature=0))
    assert len({candidate.text for candidate in candidates(greedy, ONE, 0, 5)}) == 1


def test_the_signature_names_every_setting():
    plain = BergamotGenerator("embedded:en-pt").signature
    assert plain.startswith("embedded:en-pt|w:") and plain.endswith("|t:1.2|seed:0")
    cut = BergamotGenerator(
        "embedded:en-pt", Sampling(temperature=1, top_k=5, top_p=0.9, epsilon=0.02, seed=3)
    ).signature
    assert cut.endswith("|t:1|k:5|p:0.9|e:0.02|seed:3")


def test_a_bad_setting_or_model_is_refused():
    with pytest.raises(UsageError, match="temperature must be"):
        BergamotGenerator("embedded:en-pt", Sampling(temperature=-1))
    with pytest.raises(UsageError, match="embedded:en-qq is not on this machine"):
        BergamotGenerator("embedded:en-qq")
    with pytest.raises(ModelError, match="no folder"):
        BergamotGenerator("bergamot:nowhere")
