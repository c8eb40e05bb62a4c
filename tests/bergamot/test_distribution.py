"""Distributions over the vocabulary, cut off and chosen from, against plain numpy on whole ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quitmt.bergamot import output
from quitmt.bergamot.distribution import floor, shape, stage_one
from quitmt.bergamot.microkernel import PANEL
from quitmt.bergamot.output import BLOCK
from quitmt.sampling import Sampling


def warp(logits, settings):
    """The warpers as everybody writes them: one after the other on whole distributions."""
    scores = logits.astype(np.float64) / settings.temperature
    keep = np.ones(len(scores), bool)

    def probabilities():
        weights = np.where(keep, np.exp(scores - scores.max()), 0)
        return weights / weights.sum()

    if settings.top_k is not None:
        keep &= scores >= np.sort(scores)[-min(settings.top_k, len(scores))]
    if settings.top_p is not None and settings.top_p < 1:
        p = probabilities()
        order = np.argsort(-p, kind="stable")
        before = np.cumsum(p[order]) - p[order]
        smallest = p[order[before < settings.top_p][-1]]
        keep &= p >= smallest
    if settings.min_p:
        p = probabilities()
        keep &= p >= settings.min_p * p.max()
    if settings.epsilon:
        p = probabilities()
        keep &= (p >= settings.epsilon) | (p == p.max())
    return keep


@given(
    st.lists(st.integers(-40, 40), min_size=1, max_size=40),
    st.sampled_from([0.5, 1.0, 1.3]),
    st.none() | st.integers(1, 50),
    st.none() | st.sampled_from([0.05, 0.33, 0.81, 0.97, 1.0]),
    st.none() | st.sampled_from([0.0, 0.013, 0.11, 0.77]),
    st.none() | st.sampled_from([0.0, 0.017, 0.23, 0.71, 1.0]),
)
def test_a_floor_keeps_what_the_cut_offs_keep(numbers, temperature, top_k, top_p, epsilon, min_p):
    logits = (np.array(numbers) / 7).astype(np.float32)
    settings = Sampling(temperature, top_k, top_p, epsilon, min_p=min_p)
    scaled = (logits.astype(np.float64) - logits.max()) * settings.rate
    np.testing.assert_array_equal(logits >= floor(logits, scaled, settings), warp(logits, settings))


def vectors(model, rows):
    randoms = np.random.default_rng(1)
    width = model.network.architecture.width
    return model.output.prepare(randoms.standard_normal((rows, width)).astype(np.float32))


@pytest.mark.parametrize("temperature", [0.7, 1.0, 1.2])
def test_masses_and_normalisers_are_those_of_the_softmax(embedded, temperature):
    x = vectors(embedded, 7)
    _, whole = embedded.output.summarise(x, 1.0, logits=True)
    logits = whole.reshape(len(x), -1).astype(np.float64)
    shapes = shape(embedded.output, x, Sampling(temperature))
    np.testing.assert_allclose(shapes.normalisers, np.log(np.exp(logits).sum(axis=1)), atol=1e-5)
    masses = np.exp((logits - logits.max(axis=1, keepdims=True)) / temperature).reshape(whole.shape).sum(axis=2)
    np.testing.assert_allclose(shapes.masses, masses, rtol=1e-5, atol=1e-30)


def test_the_logits_are_the_products_and_never_unknown(embedded):
    x = vectors(embedded, 7)
    logits = embedded.output.summarise(x, 1.0, logits=True)[1].reshape(7, -1)
    weights = embedded.output.panels.reshape(-1, x.shape[1], PANEL).transpose(0, 2, 1).reshape(-1, x.shape[1])
    expected = x.astype(np.float64) @ weights.T.astype(np.float64) + embedded.output.bias.reshape(-1)
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-4)
    assert (logits[:, embedded.target.unknown] < -1e8).all()
    tokens = np.array([5, 300, 31999, 0, 17, 1000, 6])
    np.testing.assert_allclose(embedded.output.logits(x, tokens), expected[np.arange(7), tokens], atol=1e-4)


def test_the_number_of_threads_changes_no_bit(embedded, monkeypatch):
    x = vectors(embedded, 9)
    monkeypatch.setattr(output, "_threads", lambda: 1)
    sums, logits = embedded.output.summarise(x, 0.8, logits=True)
    for parts in (2, 5):
        monkeypatch.setattr(output, "_threads", lambda parts=parts: parts)
        again = embedded.output.summarise(x, 0.8, logits=True)
        np.testing.assert_array_equal(again[0], sums)
        np.testing.assert_array_equal(again[1], logits)


@pytest.mark.parametrize(
    "settings",
    [Sampling(1.2), Sampling(0.8, top_k=9), Sampling(1, top_p=0.9), Sampling(1.1, min_p=0.05), Sampling(0)],
    ids=str,
)
def test_two_stages_choose_what_one_would(tiny, settings):
    """The tiny model's vocabulary of 300 ends in the middle of its second block."""
    x = np.repeat(vectors(tiny, 5), 200, axis=0)
    uniforms = np.tile(np.linspace(0, 1, 200, endpoint=False), 5)
    if settings.greedy:
        uniforms[:] = 0
    shapes = shape(tiny.output, x, settings)
    blocks, targets = stage_one(shapes.masses, uniforms)
    rows = np.arange(len(x))
    tokens, chosen = tiny.output.pick(x, settings.rate, rows, blocks, targets, shapes.peaks, shapes.floors)
    logits = tiny.output.summarise(x, 1.0, logits=True)[1].reshape(len(x), -1)
    np.testing.assert_array_equal(chosen, logits[rows, tokens])
    kept = logits >= shapes.floors[:, None]
    assert kept[rows, tokens].all()
    weights = np.where(kept, np.exp((logits - shapes.peaks[:, None]).astype(np.float64) * settings.rate), 0)
    running = np.cumsum(weights, axis=1)
    expected = (running <= (uniforms * running[:, -1])[:, None]).sum(axis=1)
    assert (tokens == expected).mean() > 0.998  # a number on the border between two tokens may fall either way
    if settings.greedy:
        np.testing.assert_array_equal(tokens, logits.argmax(axis=1))


def test_a_number_next_to_one_finds_a_token_that_can_be_chosen(tiny):
    x = vectors(tiny, 50)
    shapes = shape(tiny.output, x, Sampling(1.0))
    blocks, targets = stage_one(shapes.masses, np.full(50, 1 - 2.0**-53))
    tokens, _ = tiny.output.pick(x, 1.0, np.arange(50), blocks, targets * (1 + 1e-6), shapes.peaks, shapes.floors)
    assert (tokens < tiny.output.vocabulary).all() and (tokens != tiny.target.unknown).all()
    assert tiny.output.blocks * BLOCK > tiny.output.vocabulary
