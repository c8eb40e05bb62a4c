"""The sampler against a plain one with the same random numbers, and what it computes, keeps and forgets."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from quitmt.bergamot import sources
from quitmt.bergamot.models import find
from quitmt.bergamot.sampling import Sampler
from quitmt.bergamot.sources import LENGTH_EXTRA, LENGTH_FACTOR
from quitmt.sampling import Sampling
from quitmt.streams import stream, uniforms
from quitmt.types import Request, Segment

from .plain_network import PlainNetwork

SEGMENTS = [
    Segment("a", "The old bridge was closed for repairs."),
    Segment("b", "Nobody expected the meeting to last so long."),
    Segment("c", "Yes."),
]


def run(sampler, *requests):
    """The candidates of these requests, admitted together."""
    numbers = [sampler.admit(request) for request in requests]
    done = {}
    while sampler.busy:
        done |= dict(sampler.step())
    return [list(done[number].candidates) for number in numbers]


def plain_samples(model, network, segment, count, temperature, seed=0):
    """A row for every candidate, whole distributions, float64; the same random numbers. Token paths."""
    source = model.source.encode(segment.source)
    memory, cells, tokens = network.encode(source), network.start(count), None
    keys, alive = np.tile(stream(seed, segment.content), (count, 1)), np.ones(count, bool)
    paths = [[] for _ in range(count)]
    for position in range(LENGTH_FACTOR * len(source) + LENGTH_EXTRA):
        x, cells = network.step(tokens, position, cells, memory)
        logits = network.logits(x) / temperature
        running = np.cumsum(np.exp(logits - logits.max(axis=1, keepdims=True)), axis=1)
        numbers = uniforms(keys, np.arange(count), np.full(count, position))
        tokens = (running <= (numbers * running[:, -1])[:, None]).sum(axis=1)
        for candidate in np.flatnonzero(alive):
            paths[candidate].append(int(tokens[candidate]))
        alive &= tokens != model.target.end
        if not alive.any():
            break
    return paths


@pytest.mark.slow
def test_equals_a_plain_sampler_with_the_same_random_numbers(embedded):
    network = PlainNetwork(find("embedded:en-pt").model, unknown=embedded.target.unknown)
    (ours,) = run(Sampler(embedded, Sampling(1.2)), Request(SEGMENTS[0], 0, 8))
    paths = plain_samples(embedded, network, SEGMENTS[0], 8, 1.2)
    end = embedded.target.end
    texts = [embedded.target.decode([token for token in path if token != end]) for path in paths]
    assert [candidate.text for candidate in ours] == texts
    assert [candidate.tokens for candidate in ours] == [len(path) for path in paths]
    source = embedded.source.encode(SEGMENTS[0].source)
    for candidate, path in list(zip(ours, paths, strict=True))[:2]:
        assert candidate.log_probability == pytest.approx(network.log_probability(source, path), abs=2e-4)


def test_equals_a_plain_sampler_on_many_candidates(tiny, tiny_folder):
    network = PlainNetwork(tiny_folder / "model.tiny.bin", unknown=tiny.target.unknown)
    (ours,) = run(Sampler(tiny, Sampling(1.0, seed=5)), Request(SEGMENTS[2], 0, 300))
    paths = plain_samples(tiny, network, SEGMENTS[2], 300, 1.0, seed=5)
    texts = [tiny.target.decode([token for token in path if token != tiny.target.end]) for path in paths]
    assert sum(candidate.text == text for candidate, text in zip(ours, texts, strict=True)) >= 299


def test_first_tokens_have_the_frequencies_of_the_softmax(tiny, tiny_folder, monkeypatch):
    monkeypatch.setattr(sources, "LENGTH_FACTOR", 0)
    monkeypatch.setattr(sources, "LENGTH_EXTRA", 1)
    network = PlainNetwork(tiny_folder / "model.tiny.bin", unknown=tiny.target.unknown)
    temperature, size = 1.3, 4000
    x, _ = network.step(None, 0, network.start(1), network.encode(tiny.source.encode(SEGMENTS[1].source)))
    weights = np.exp(network.logits(x)[0] / temperature)
    expected = Counter()
    for token, weight in enumerate(weights / weights.sum()):
        expected["" if token == tiny.target.end else tiny.target.decode([token])] += size * weight
    (candidates,) = run(Sampler(tiny, Sampling(temperature, seed=1)), Request(SEGMENTS[1], 0, size))
    counts = Counter(candidate.text for candidate in candidates)
    assert counts.keys() <= expected.keys()
    common = [text for text, times in expected.items() if times >= 5]
    observed = np.array([counts[text] for text in common])
    observed, wanted = np.append(observed, size - observed.sum()), np.array([expected[text] for text in common])
    wanted = np.append(wanted, size - wanted.sum())
    chi_square, freedom = ((observed - wanted) ** 2 / wanted).sum(), len(wanted) - 1
    assert chi_square < freedom + 3.1 * np.sqrt(2 * freedom) + 5  # beyond this at most once in a thousand


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [Sampling(1.2), Sampling(1.1, top_k=50, top_p=0.9, min_p=0.02, epsilon=0.01)],
    ids=["whole", "cut off"],
)
def test_company_pieces_and_order_do_not_matter(embedded, settings):
    size = 24
    (alone,) = run(Sampler(embedded, settings), Request(SEGMENTS[0], 0, size))
    together = run(Sampler(embedded, settings), *(Request(segment, 0, size) for segment in reversed(SEGMENTS)))
    assert together[-1] == alone
    sampler, pieces = Sampler(embedded, settings), []
    for start, stop in ((0, 1), (1, 9), (9, size)):
        pieces += run(sampler, Request(SEGMENTS[0], start, stop), Request(SEGMENTS[1], 5 * start, 5 * stop))[0]
    assert pieces == alone
    (late,) = run(Sampler(embedded, settings), Request(SEGMENTS[0], 10, size))
    assert late == alone[10:]


def test_a_request_may_join_while_others_are_under_way(embedded):
    whole = run(Sampler(embedded, Sampling(1.2)), *(Request(segment, 0, 16) for segment in SEGMENTS))
    sampler, done, numbers = Sampler(embedded, Sampling(1.2)), {}, []
    for segment in SEGMENTS:
        numbers.append(sampler.admit(Request(segment, 0, 16)))
        for _ in range(3):
            done |= dict(sampler.step())
    while sampler.busy:
        done |= dict(sampler.step())
    assert [list(done[number].candidates) for number in numbers] == whole


def test_a_prefix_is_computed_once(embedded):
    sampler = Sampler(embedded, Sampling(1.2))
    first = run(sampler, Request(SEGMENTS[0], 0, 64))
    rows, tokens = sampler.tally.rows, sampler.tally.tokens
    assert rows < tokens / 2
    assert run(sampler, Request(SEGMENTS[0], 0, 64)) == first
    assert (sampler.tally.rows, sampler.tally.tokens) == (rows, 2 * tokens)


def test_with_little_memory_prefixes_are_forgotten_and_nothing_else_changes(embedded):
    sampler, requests = (
        Sampler(embedded, Sampling(1.2), bytes_kept=30_000),
        [Request(one, 0, 16) for one in SEGMENTS[:2]],
    )
    first = run(sampler, *requests)
    rows = sampler.tally.rows
    assert run(sampler, *requests) == first == run(Sampler(embedded, Sampling(1.2)), *requests)
    assert sampler.tally.rows == 2 * rows


def test_releasing_a_segment_aborts_its_requests_and_forgets_its_prefixes(embedded):
    sampler = Sampler(embedded, Sampling(1.2))
    keep, drop = sampler.admit(Request(SEGMENTS[0], 0, 8)), sampler.admit(Request(SEGMENTS[1], 0, 8))
    sampler.step()
    sampler.abort([drop])
    sampler.forget(SEGMENTS[1])
    done = {}
    while sampler.busy:
        done |= dict(sampler.step())
    alone = Sampler(embedded, Sampling(1.2))
    assert list(done) == [keep] and [list(done[keep].candidates)] == run(alone, Request(SEGMENTS[0], 0, 8))
    alone.forget(SEGMENTS[0])
    rows = alone.tally.rows
    assert run(alone, Request(SEGMENTS[0], 0, 8)) == [list(done[keep].candidates)]
    assert alone.tally.rows == 2 * rows


def test_candidates_follow_the_content_and_the_seed_whatever_the_id(embedded):
    def texts(seed, segment):
        (candidates,) = run(Sampler(embedded, Sampling(1.2, seed=seed)), Request(segment, 0, 16))
        return tuple(candidate.text for candidate in candidates)

    source, first, other = SEGMENTS[0].source, texts(0, SEGMENTS[0]), texts(1, SEGMENTS[0])
    assert texts(0, Segment("twin", source)) == first
    assert texts(0, Segment("a", source, seed=1)) == other
    assert len({first, other, texts(0, Segment("a", source, "It rained."))}) == 3


def test_a_candidate_that_does_not_end_is_cut_off(tiny):
    sampler = Sampler(tiny, Sampling(3.0))
    (candidates,) = run(sampler, Request(Segment("x", "a"), 0, 200))
    limit = LENGTH_FACTOR * len(tiny.source.encode("a")) + LENGTH_EXTRA
    longest = [candidate for candidate in candidates if candidate.tokens == limit]
    assert longest and max(candidate.tokens for candidate in candidates) == limit
    assert all(np.isfinite(candidate.log_probability) for candidate in candidates)


def test_an_empty_and_a_very_long_source_are_sampled(tiny):
    sampler = Sampler(tiny, Sampling(1.0))
    empty, long = run(sampler, Request(Segment("e", ""), 0, 4), Request(Segment("l", "the cat " * 150), 0, 2))
    assert len(empty) == 4 and len(long) == 2


def test_seconds_are_shared_among_requests(embedded):
    sampler, seconds = Sampler(embedded, Sampling(1.2)), []
    for segment in SEGMENTS:
        sampler.admit(Request(segment, 0, 8))
    while sampler.busy:
        seconds += [draw.seconds for _, draw in sampler.step()]
    assert len(seconds) == 3 and all(second > 0 for second in seconds)
