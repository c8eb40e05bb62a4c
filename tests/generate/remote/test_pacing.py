"""How much is in flight and when to pause: plain state, tried without any server."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from quitmt.generate.remote.limits import Circuit, RetryPolicy, Sign, Width
from quitmt.generate.remote.pacing import Gate


def answers(width: Width, count: int, *, too_much: bool = False, sender: str | None = None) -> None:
    """Of as many senders, unless one is given."""
    for index in range(count):
        width.learn(width.round, int(width), sender or f"{too_much} {index}", too_much=too_much)


def test_width_doubles_a_round_up_to_its_ceiling() -> None:
    width, seen = Width(100), []
    for _ in range(4):
        seen.append(int(width))
        answers(width, int(width))
    assert seen == [16, 32, 64, 100]


def test_width_halves_when_all_is_too_much_and_then_grows_by_one() -> None:
    width = Width(64, start=64)
    answers(width, 64, too_much=True)
    assert int(width) == 32
    answers(width, 32)
    assert int(width) == 33


def narrowed(width: Width) -> Width:
    """One that doubles no more."""
    answers(width, int(width), too_much=True)
    return width


def test_stray_refusals_hardly_count() -> None:
    width = narrowed(Width(200, start=200))
    answers(width, 2, too_much=True)
    answers(width, 98)
    assert int(width) == 99


def test_stray_refusals_do_not_end_the_doubling() -> None:
    width = Width(256)
    answers(width, 2, too_much=True)
    answers(width, 14)
    assert int(width) == 32


def test_one_sender_among_others_does_not_change_the_width() -> None:
    width = Width(256)
    for _ in range(10):
        answers(width, int(width) // 2, too_much=True, sender="poisoned")
        answers(width, int(width) - int(width) // 2, sender="another")
    assert int(width) == 256


def test_a_sender_that_is_alone_is_heard() -> None:
    width = Width(64, start=64)
    answers(width, 64, too_much=True, sender="only")
    assert int(width) == 32


def test_a_burst_counts_once() -> None:
    width = Width(64, start=64)
    for index in range(64 + 100):  # all were sent in the first round
        width.learn(0, 64, index, too_much=True)
    assert int(width) == 32


def test_width_settles_near_what_the_server_can_take() -> None:
    width, refused = Width(256), 0
    for _ in range(100):
        round, sent = width.round, int(width)
        for index in range(sent):
            width.learn(round, sent, index, too_much=index >= 4)
        refused += max(0, sent - 4)
    assert int(width) <= 8 and refused < 200, "25,000 at the ceiling"


def test_width_that_is_not_used_does_not_grow() -> None:
    width = Width(100)
    for index in range(50):
        width.learn(width.round, 3, index, too_much=False)
    assert int(width) == 16


@given(st.integers(1, 300), st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=400))
def test_width_stays_in_its_bounds(ceiling: int, said: list[tuple[int, bool]]) -> None:
    width = Width(ceiling)
    for sender, too_much in said:
        width.learn(width.round, int(width), sender, too_much=too_much)
        assert 1 <= int(width) <= ceiling


def fail(circuit: Circuit, now: float, count: int = 1, *, senders: int = 99, reached: bool = False) -> None:
    for index in range(count):
        circuit.failed(now, index % senders, Sign.BAD if reached else Sign.UNREACHED, probe=False)


def test_circuit_opens_probes_and_closes() -> None:
    circuit = Circuit(RetryPolicy(failures=3, pause_seconds=1, pause_ceiling_seconds=3, patience_seconds=100))
    circuit.answered(0)
    fail(circuit, 0, 2)
    assert not circuit.is_open
    circuit.failed(0, "third", Sign.UNREACHED, probe=False)
    assert circuit.delay(0.25) == 0.75 and circuit.delay(1) == 0
    pauses = []
    for now in (10, 20, 30):
        assert circuit.enter() and circuit.delay(now) == float("inf"), "one probe at a time"
        circuit.failed(now, "probe", Sign.UNREACHED, probe=True)
        pauses.append(circuit.delay(now))
    assert pauses == [2, 3, 3]
    assert circuit.enter()
    circuit.answered(40)
    assert not circuit.is_open and not circuit.enter() and circuit.away_seconds == 40


def test_a_false_alarm_is_no_time_away() -> None:
    circuit = Circuit(RetryPolicy(failures=3))
    circuit.answered(0)
    fail(circuit, 1, 3)
    assert circuit.is_open and circuit.enter()
    circuit.answered(20)
    assert circuit.away_seconds == 0


def test_circuit_counts_failures_in_a_row_only() -> None:
    circuit = Circuit(RetryPolicy(failures=3))
    for _ in range(10):
        circuit.answered(0)
        fail(circuit, 0, 2)
    assert not circuit.is_open


def test_circuit_is_not_opened_by_one_sender() -> None:
    circuit = Circuit(RetryPolicy(failures=3))
    circuit.answered(0)
    fail(circuit, 0, 1000, senders=1)
    assert not circuit.is_open
    circuit.failed(0, "another", Sign.UNREACHED, probe=False)
    assert circuit.is_open


def test_circuit_waits_longer_with_a_server_that_answers_though_badly() -> None:
    circuit = Circuit(RetryPolicy(failures=3, grace_seconds=30, patience_seconds=100))
    fail(circuit, 0, 1000, reached=True)
    assert not circuit.is_open
    fail(circuit, 31, reached=True)
    assert circuit.is_open
    circuit.enter()
    circuit.failed(99, "probe", Sign.BAD, probe=True)
    assert not circuit.given_up
    circuit.enter()
    circuit.failed(100, "probe", Sign.BAD, probe=True)
    assert circuit.given_up, "the patience began with the first failure"


def test_circuit_gives_up_only_after_a_probe() -> None:
    circuit = Circuit(RetryPolicy(failures=3, patience_seconds=100))
    circuit.answered(0)
    fail(circuit, 1, 2)
    fail(circuit, 900, 2)
    assert circuit.is_open and not circuit.given_up


def test_circuit_gives_up_sooner_on_a_server_never_heard_of() -> None:
    policy = RetryPolicy(failures=2, patience_seconds=100, first_patience_seconds=5)
    strange, known = Circuit(policy), Circuit(policy)
    known.answered(0)
    for circuit in (strange, known):
        fail(circuit, 0, 2)
        circuit.enter()
        circuit.failed(6, "probe", Sign.UNREACHED, probe=True)
    assert strange.given_up and not known.given_up
    known.enter()
    known.failed(101, "probe", Sign.UNREACHED, probe=True)
    assert known.given_up


def test_a_cancelled_probe_lets_another_one_go() -> None:
    circuit = Circuit(RetryPolicy())
    circuit.failed(0, "one", Sign.UNREACHED, probe=False)
    assert circuit.enter()
    circuit.abandoned(probe=True)
    assert circuit.delay(99) == 0 and circuit.enter()


def test_whoever_waits_for_the_circuit_and_is_cancelled_lets_the_next_one_wait() -> None:
    now = 0.0

    async def sleep(seconds: float) -> None:
        nonlocal now
        sleeping.append(seconds)
        if len(sleeping) == 1:
            await asyncio.sleep(60)
        now += seconds

    async def work() -> None:
        gate = Gate(1, RetryPolicy(failures=1, first_patience_seconds=99), sleep, lambda: now)
        one = await gate.enter("s")
        assert one is not None
        first, second = asyncio.create_task(gate.enter("s")), asyncio.create_task(gate.enter("s"))
        await asyncio.sleep(0)
        gate.leave(one, Sign.UNREACHED)
        while not sleeping:
            await asyncio.sleep(0)
        first.cancel()
        probe = await asyncio.wait_for(second, 5)
        assert probe is not None and probe.probe

    sleeping: list[float] = []
    asyncio.run(work())


def test_time_is_shared_among_what_is_in_flight() -> None:
    now = 0.0

    async def work() -> list[float]:
        nonlocal now
        gate = Gate(8, RetryPolicy(), asyncio.sleep, lambda: now)
        one, other = await gate.enter("s"), await gate.enter("s")
        assert one is not None and other is not None
        now = 4.0
        first = gate.leave(one, Sign.GOOD)
        now = 7.0
        return [first, gate.leave(other, Sign.GOOD)]

    assert asyncio.run(work()) == [2.0, 5.0]
