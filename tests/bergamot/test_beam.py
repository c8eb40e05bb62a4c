"""Beam search against a plain one, against all continuations that there are, and against greedy."""

from __future__ import annotations

import numpy as np
import pytest

from quitmt.bergamot import beam as module
from quitmt.bergamot import sources
from quitmt.bergamot.beam import BeamSearch
from quitmt.bergamot.models import find
from quitmt.bergamot.sampling import Sampler
from quitmt.bergamot.sources import Sources
from quitmt.sampling import Sampling
from quitmt.types import Request, Segment

from .plain_network import PlainNetwork

SEGMENTS = [
    Segment("a", "The old bridge was closed for repairs."),
    Segment("b", "Nobody expected the meeting to last so long."),
    Segment("c", "Yes."),
]


def run(search, *requests):
    """The draws of these requests, admitted together."""
    numbers = [search.admit(request) for request in requests]
    done = {}
    while search.busy:
        done |= dict(search.step())
    return [done[number] for number in numbers]


def hypotheses(model, size, segment):
    (found,) = run(BeamSearch(model, size), Request(segment, 0, size))
    return found.candidates


def plain_search(model, network, segment, size):
    """Whole distributions in float64, one hypothesis after the other: (text, log P, tokens), the best first."""
    source, end = model.source.encode(segment.source), model.target.end
    memory, limit = network.encode(source), sources.LENGTH_FACTOR * len(source) + sources.LENGTH_EXTRA
    under_way, ended = [((), 0.0, network.start(1))], []
    while under_way:
        continued = []
        for path, score, cells in under_way:
            x, after = network.step(list(path[-1:]) or None, len(path), cells, memory)
            logits = network.logits(x)[0]
            steps = logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())
            likeliest = np.argsort(-steps, kind="stable")[:size].tolist()
            continued += [((*path, token), score + steps[token], after) for token in likeliest if steps[token] > -1e8]
        best = sorted(continued, key=lambda one: -one[1])[: size - len(ended)]
        ended += [one for one in best if one[0][-1] == end or len(one[0]) == limit]
        under_way = [one for one in best if one[0][-1] != end and len(one[0]) < limit]
    ended.sort(key=lambda one: -one[1] / len(one[0]))
    return [(model.target.decode([t for t in path if t != end]), score, len(path)) for path, score, _ in ended]


def same(ours, expected):
    assert [(one.text, one.tokens) for one in ours] == [(text, tokens) for text, _, tokens in expected]
    np.testing.assert_allclose([one.log_probability for one in ours], [score for _, score, _ in expected], atol=3e-4)


@pytest.mark.parametrize("size", [1, 2, 5, 12])
def test_equals_a_plain_search(tiny, tiny_folder, size):
    network = PlainNetwork(tiny_folder / "model.tiny.bin", unknown=tiny.target.unknown)
    for segment in (*SEGMENTS, Segment("empty", "")):
        same(hypotheses(tiny, size, segment), plain_search(tiny, network, segment, size))


def test_equals_a_plain_search_of_a_real_model(embedded):
    network = PlainNetwork(find("embedded:en-pt").model, unknown=embedded.target.unknown)
    for segment in SEGMENTS[:2]:
        same(hypotheses(embedded, 4, segment), plain_search(embedded, network, segment, 4))


def test_a_beam_wider_than_the_vocabulary_looks_at_everything(tiny, tiny_folder, monkeypatch):
    """With two tokens at most there are 298 + 298 · 299 texts. 299 first tokens are kept: none is lost."""
    monkeypatch.setattr(sources, "LENGTH_FACTOR", 0)
    monkeypatch.setattr(sources, "LENGTH_EXTRA", 2)
    network = PlainNetwork(tiny_folder / "model.tiny.bin", unknown=tiny.target.unknown)
    memory, size, end = network.encode(tiny.source.encode("Yes.")), 400, tiny.target.end
    x, cells = network.step(None, 0, network.start(1), memory)
    first = network.logits(x)[0] - np.log(np.exp(network.logits(x)[0]).sum())
    x, _ = network.step(list(range(300)), 1, [np.repeat(one, 300, axis=0) for one in cells], memory)
    second = network.logits(x) - np.log(np.exp(network.logits(x)).sum(axis=1, keepdims=True))
    both = first[:, None] + second
    both[end] = -np.inf
    best = np.sort(both.reshape(-1))[::-1][: size - 1]  # one of the 400 is the empty text
    ours = hypotheses(tiny, size, Segment("x", "Yes."))
    assert len(ours) == size
    found = sorted((one.log_probability for one in ours if one.tokens == 2), reverse=True)
    np.testing.assert_allclose(found, best, atol=3e-4)
    (empty,) = [one for one in ours if one.tokens == 1]
    assert empty.text == "" and empty.log_probability == pytest.approx(first[end], abs=3e-4)


def test_a_beam_of_one_is_greedy(embedded):
    greedy = Sampler(embedded, Sampling(0.0))
    for segment in SEGMENTS:
        assert hypotheses(embedded, 1, segment) == run(greedy, Request(segment, 0, 1))[0].candidates


def test_they_are_distinct_and_the_best_comes_first(embedded):
    for segment in SEGMENTS:
        found = hypotheses(embedded, 8, segment)
        scores = [one.log_probability / one.tokens for one in found]
        assert len(found) == 8 and scores == sorted(scores, reverse=True)
        assert len({one.log_probability for one in found}) == 8


@pytest.mark.parametrize("rows", [1, 7])
def test_company_pieces_and_order_do_not_matter(embedded, monkeypatch, rows):
    alone = [hypotheses(embedded, 5, segment) for segment in SEGMENTS]
    monkeypatch.setattr(module, "ROWS_PER_STEP", rows)
    together = run(BeamSearch(embedded, 5), *(Request(segment, 0, 5) for segment in reversed(SEGMENTS)))
    assert [found.candidates for found in reversed(together)] == alone
    search = BeamSearch(embedded, 5)
    late, early = run(search, Request(SEGMENTS[0], 2, 9), Request(SEGMENTS[0], 0, 2))
    assert early.candidates + late.candidates == alone[0]
    assert late.ended and not early.ended


def test_nothing_comes_after_the_last(tiny):
    search = BeamSearch(tiny, 3)
    (whole,) = run(search, Request(SEGMENTS[0], 0, 3))
    (after,) = run(search, Request(SEGMENTS[0], 3, 8))
    (long_after,) = run(BeamSearch(tiny, 3), Request(SEGMENTS[0], 40, 48))
    assert whole.ended and len(whole.candidates) == 3
    assert after.ended and long_after.ended and after.candidates == long_after.candidates == ()


@pytest.fixture
def decoded(tiny, monkeypatch):
    """The rows of each step of the tiny model's decoder."""
    rows, decode = [], tiny.network.decode
    monkeypatch.setattr(tiny.network, "decode", lambda tokens, *more: rows.append(len(tokens)) or decode(tokens, *more))
    return rows


def test_a_search_is_made_once_and_kept_until_it_is_released(tiny, decoded, monkeypatch):
    search = BeamSearch(tiny, 3)

    def find(segment):
        """What is found, and whether it had to be searched for."""
        before = len(decoded)
        (found,) = run(search, Request(segment, 0, 3))
        return found.candidates, len(decoded) > before

    first, made = find(SEGMENTS[0])
    assert made and find(SEGMENTS[0]) == (first, False)
    search.forget(SEGMENTS[0])
    assert find(SEGMENTS[0]) == (first, True)
    monkeypatch.setattr(module, "SEARCHES_KEPT", 1)
    assert find(SEGMENTS[1])[1] and not find(SEGMENTS[1])[1]
    assert find(SEGMENTS[0]) == (first, True), "the older one was forgotten"


def test_what_nobody_waits_for_is_not_searched(tiny, decoded):
    search, twin = BeamSearch(tiny, 3), Segment(SEGMENTS[1].id, SEGMENTS[1].source)
    keep, drop, other = (search.admit(Request(segment, 0, 3)) for segment in (SEGMENTS[0], SEGMENTS[1], twin))
    search.step()
    search.abort([drop])
    search.forget(SEGMENTS[1])
    search.step()
    assert decoded == [2, 6], "the twin goes on"
    search.abort([other])
    done = {}
    while search.busy:
        done |= dict(search.step())
    assert set(decoded[2:]) <= {1, 2, 3}
    assert list(done) == [keep] and done[keep].candidates == hypotheses(tiny, 3, SEGMENTS[0])


def test_a_hypothesis_that_does_not_end_is_cut_off(tiny, monkeypatch):
    monkeypatch.setattr(sources, "LENGTH_FACTOR", 0)
    monkeypatch.setattr(sources, "LENGTH_EXTRA", 3)
    found = hypotheses(tiny, 40, SEGMENTS[1])
    assert len(found) == 40 and max(one.tokens for one in found) == 3
    assert all(np.isfinite(one.log_probability) for one in found)


def test_a_source_is_encoded_once_for_all_who_decode_it(tiny, monkeypatch):
    shared, runs = Sources(tiny), []
    encode = tiny.network.encode
    monkeypatch.setattr(tiny.network, "encode", lambda sentences: runs.append(1) or encode(sentences))
    sampler, search = Sampler(tiny, Sampling(1.0), shared), BeamSearch(tiny, 2, shared)
    for count in (1, 2):
        asked = [decoder.admit(Request(SEGMENTS[0], 0, 2)) for decoder in (sampler, search)]
        assert len(runs) == count
        for decoder, number in zip((sampler, search), asked, strict=True):
            decoder.abort([number])
            decoder.forget(SEGMENTS[0])


def test_seconds_are_shared_among_segments(tiny):
    found = run(BeamSearch(tiny, 4), *(Request(segment, 0, 4) for segment in SEGMENTS))
    assert all(one.seconds > 0 for one in found)
