"""The Python API: plain and async, callables as anything, and watching a run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

import quitmt
from quitmt.engine.driver import Driver
from quitmt.errors import AllFailed, InputError, QuitmtError
from quitmt.types import Outcome


def sample(source: str, start: int, stop: int) -> list[str]:
    return [f"{source}{'!' * (index % 5)}" for index in range(start, stop)]


async def sample_async(source: str, start: int, stop: int) -> list[quitmt.Candidate]:
    await asyncio.sleep(0)
    return [quitmt.Candidate(text) for text in sample(source, start, stop)]


def test_plain_and_async_functions_as_generators_give_the_same() -> None:
    sources = ["one", "", "two", "one"]
    outcomes = quitmt.translate(sources, sample, n=40)
    again = quitmt.translate(sources, sample_async, n=40)
    assert [o.translation for o in outcomes] == [o.translation for o in again]
    assert [o.trajectory for o in outcomes] == [o.trajectory for o in again]
    assert [o.source for o in outcomes] == sources
    assert outcomes[1].translation == "" and outcomes[1].size == 0


def test_async_inside_a_running_loop() -> None:
    async def work() -> list[str]:
        found = await quitmt.translate_async(["one", "two"], sample_async, n=16)
        pool = await quitmt.rerank_pool_async(["a", "b", "b"])
        return [o.translation for o in found] + [pool.translation]

    assert asyncio.run(work())[2] == "b"


def test_plain_functions_work_inside_a_running_loop_too() -> None:
    async def as_in_a_notebook() -> str:
        return quitmt.rerank_pool(["a", "b", "b"]).translation

    assert asyncio.run(as_in_a_notebook()) == "b"


def test_an_endless_input_is_streamed() -> None:
    def endless() -> AsyncIterator[str]:
        number = 0
        while True:
            number += 1
            yield f"source {number}"

    stream = quitmt.Translator(sample, n=8, in_flight=2).stream(endless())
    assert [next(stream).source for _ in range(3)] == ["source 1", "source 2", "source 3"]
    stream.close()


def test_segments_with_ids_of_their_own() -> None:
    [outcome] = quitmt.translate([quitmt.Segment("doc1.7", "one")], sample, n=8)
    assert outcome.id == "doc1.7"


def test_watching_sees_every_step_and_agrees_with_the_outcome() -> None:
    settings = {"reranker": quitmt.qe(lambda source, text: len(text)), "k": 2, "w": 2, "n": 12}
    moments = list(quitmt.watch("abc", sample, **settings))
    [outcome] = quitmt.translate(["abc"], sample, **settings)
    assert tuple(moment.snapshot.score for moment in moments) == outcome.trajectory
    assert [moment.stop_reason for moment in moments[:-1]] == [None] * (len(moments) - 1)
    assert moments[-1].stop_reason is outcome.stop
    assert moments[-1].translation == outcome.translation
    assert sum(len(moment.new) for moment in moments) == outcome.size
    assert [len(moment.new) for moment in moments] == [2] * len(moments)


def test_watching_may_end_early() -> None:
    watching = quitmt.watch("abc", sample, k=8)
    assert next(watching).snapshot.size == 8
    watching.close()


def test_objects_of_ones_own() -> None:
    rule = quitmt.Quit(step=2, window=2, alpha=10, budget=8)
    utility = quitmt.mbr(lambda hypothesis, reference: -abs(len(hypothesis) - len(reference)), name="length")
    translator = quitmt.Translator(sample, reranker=utility, rule=rule)
    [outcome] = translator.translate(["x"])
    assert (outcome.size, outcome.stop) == (4, quitmt.StopReason.STABLE)
    assert outcome.signature.startswith("quit|k:2|w:2|a:10|n:8|gen:function:sample|rerank:mbr:function:length,code:")


def test_a_pool_with_scores() -> None:
    pool = [quitmt.Candidate("a", scores={"kiwi": 0.3}), quitmt.Candidate("b", scores={"kiwi": 0.9})]
    assert quitmt.rerank_pool(pool, reranker="qe:recorded:kiwi").translation == "b"


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: quitmt.rerank_pool([]), InputError, "the pool has no candidates"),
        (lambda: quitmt.translate(["a"], sample, temperature=1), TypeError, "temperature: sampling settings"),
        (lambda: list(quitmt.watch("a", lambda s, i, j: "text")), QuitmtError, "it must return a list of candidates"),
        (lambda: list(quitmt.watch("a", lambda s, i, j: [1])), QuitmtError, "must be a text, not int"),
    ],
)
def test_mistakes_are_explained(call: object, error: type[Exception], message: str) -> None:
    assert callable(call)
    with pytest.raises(error, match=message):
        call()


def test_every_public_name_is_there() -> None:
    for name in quitmt.__all__:
        assert getattr(quitmt, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = quitmt.nonsense


def test_filters_go_with_rerankers_given_by_name() -> None:
    pool = [quitmt.Candidate("aaaa", scores={"q": 1.0}), quitmt.Candidate("b", scores={"q": 3.0})]
    pool += [quitmt.Candidate("aaaa", scores={"q": 2.0}), quitmt.Candidate("b", scores={"q": 0.0})] * 2
    assert quitmt.rerank_pool(pool, rule="full").index == 0
    assert quitmt.rerank_pool(pool, rule="full", filter="qe:recorded:q", keep=1).index == 1
    assert quitmt.rerank_pool(pool, rule="full", filter="qe:recorded:q", keep=3).index == 2
    with pytest.raises(TypeError, match="filter, keep and hardware go with a reranker given by name"):
        quitmt.rerank_pool(pool, reranker=quitmt.qe(lambda s, c: 1.0), keep=3)


def test_deadlines_return_the_best_so_far() -> None:
    """The budget is so much more than the time that no machine is too fast."""
    endless = {"rule": "full", "n": 1_000_000, "reranker": quitmt.qe(lambda source, text: len(text)), "deadline": 0.02}
    outcomes = quitmt.translate(["one", "two"], sample, run_deadline=3600, **endless)
    assert [outcome.stop for outcome in outcomes] == [quitmt.StopReason.DEADLINE] * 2
    assert all(outcome.translation for outcome in outcomes)
    *_, last = quitmt.watch("one", sample, **endless)
    assert last.stop_reason is quitmt.StopReason.DEADLINE and last.translation.startswith("one")
    assert quitmt.rerank_pool(["a", "b", "b"], deadline=3600).translation == "b"


def test_a_list_is_paced_and_what_may_be_endless_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    announced: list[int | None] = []
    original = Driver.run

    def run(self: Driver, items: Any, *, expected: int | None = None) -> Any:
        announced.append(expected)
        return original(self, items, expected=expected)

    monkeypatch.setattr(Driver, "run", run)
    for sources in (["one", "", "two"], iter(["one", "two"])):
        quitmt.translate(sources, sample, n=8)
    assert announced == [3, None]


def test_one_text_is_no_list_of_texts() -> None:
    with pytest.raises(TypeError, match="a list of texts is wanted, not one text"):
        quitmt.translate("Good morning.", lambda source, start, stop: ["x"] * (stop - start))


def test_wishes_with_rerankers_that_have_no_name() -> None:
    def sample(source: str, start: int, stop: int) -> list[str]:
        return [str(index % 7) for index in range(start, stop)]

    def reward(source: str, candidate: str) -> float:
        return float(candidate)

    [outcome] = quitmt.best_of(["x"], sample, reward, max_cost=20)
    assert (outcome.size, outcome.signature.partition("|")[0]) == (20, "paced")
    [voted] = quitmt.best_of(["x"], sample, quitmt.vote(lambda text: "same"), max_loss=0.01)
    assert voted.signature.partition("|")[0] == "loss"
    with pytest.raises(QuitmtError, match=r"rule='auto' does not know what qe:function:.*reward loses"):
        quitmt.best_of(["x"], sample, reward, max_loss=0.1)


def bad(source: str, start: int, stop: int) -> list[str]:
    if source.startswith("bad"):
        raise RuntimeError(f"no {source}")
    return [source] * (stop - start)


def reward(source: str, candidate: str) -> float:
    return 1.0 / candidate.find("x") if candidate else 0.0


@pytest.mark.parametrize(
    "call",
    [
        lambda sources: quitmt.translate(sources, bad),
        lambda sources: asyncio.run(quitmt.translate_async(sources, bad)),
        lambda sources: quitmt.best_of(sources, bad, reward),
        lambda sources: asyncio.run(quitmt.best_of_async(sources, bad, reward)),
        lambda sources: quitmt.Translator(bad).translate(iter(sources)),
    ],
)
def test_when_all_fail_it_is_an_exception_with_their_outcomes(
    call: Callable[[list[str]], list[Outcome]], caplog: pytest.LogCaptureFixture
) -> None:
    told = r"^all 2 segments failed, the first with: segment 1: .*: no bad one \(test_api.py, line"
    with pytest.raises(AllFailed, match=told) as caught:
        call(["bad one", "", "bad two"])
    assert [bool(outcome.error) for outcome in caught.value.outcomes] == [True, False, True]
    assert isinstance(caught.value, QuitmtError) and not caplog.records
    with pytest.raises(AllFailed, match=r"^segment 1: sampling failed: RuntimeError: no bad \("):
        call(["bad"])
    assert call([]) == [] and [outcome.error for outcome in call(["", " "])] == [None, None]


def test_when_some_fail_it_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    outcomes = quitmt.translate(["good", "bad one", "", "bad two"], bad)
    assert [bool(outcome.error) for outcome in outcomes] == [False, True, False, True]
    [warning] = caplog.records
    assert warning.levelname == "WARNING"
    assert warning.message.startswith("2 of 3 segments failed, the first with: segment 2: sampling failed: Runtime")
    caplog.clear()
    quitmt.translate(["good", "fine"], bad)
    assert not caplog.records


def test_a_stream_gives_failures_as_they_are_and_warns_at_its_end(caplog: pytest.LogCaptureFixture) -> None:
    stream = quitmt.Translator(bad, in_flight=1).stream(["bad one", "bad two"])
    assert "no bad one" in (next(stream).error or "") and not caplog.records
    assert len(list(stream)) == 1
    assert [one.message.partition(",")[0] for one in caplog.records] == ["all 2 segments failed"]


def test_one_pool_that_fails_has_its_outcome() -> None:
    with pytest.raises(AllFailed, match="ZeroDivisionError") as caught:
        quitmt.rerank_pool(["x"], reranker=reward)
    [outcome] = caught.value.outcomes
    assert outcome.stop is quitmt.StopReason.FAILED


def test_languages_find_the_model() -> None:
    back = quitmt.Translator(languages=("pt", "en"))
    assert back.recipe.model.name == "embedded:pt-en"
    assert quitmt.Translator(languages=(None, "en")).recipe.model.name == "embedded:pt-en"
    assert quitmt.Translator().recipe.model.name == "embedded:en-pt"
