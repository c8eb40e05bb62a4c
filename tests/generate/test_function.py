"""Functions as generators: closing a segment ends what is under way for it, and nothing else."""

from __future__ import annotations

import asyncio

from quitmt.generate.function import FunctionGenerator
from quitmt.types import Draw, Request, Segment


def test_closing_a_segment_cancels_what_is_awaited_for_it_and_the_others_go_on() -> None:
    ended = list[str]()

    async def work() -> list[Draw]:
        begun, release = asyncio.Event(), asyncio.Event()

        async def sample(source: str, start: int, stop: int) -> list[str]:
            try:
                begun.set()
                await (asyncio.Event() if source == "hung" else release).wait()
            finally:
                ended.append(source)
            return [source] * (stop - start)

        generator, segments = FunctionGenerator(sample), [Segment("1", "hung"), Segment("2", "good")]

        async def close() -> None:
            await begun.wait()
            generator.close(Segment("1", "hung"))  # an equal one, of another run
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert ended == []
            generator.close(segments[0])
            while not ended:
                await asyncio.sleep(0)
            release.set()

        closing = asyncio.create_task(close())
        async with asyncio.timeout(60):
            draws = [draw async for draw in generator.draw([Request(segment, 0, 2) for segment in segments])]
            await closing
        return draws

    [draw] = asyncio.run(work())
    assert draw.segment.id == "2" and len(draw.candidates) == 2
    assert ended == ["hung", "good"]
