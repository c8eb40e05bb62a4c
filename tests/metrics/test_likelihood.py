"""The likelihood of the source given a candidate: the mean forced probability, copies apart."""

from __future__ import annotations

import numpy as np
import pytest

from quitmt.bergamot.models import load
from quitmt.metrics import likelihood
from quitmt.metrics.likelihood import Likelihood
from quitmt.types import Candidate, Segment

CAT = Segment("1", "The cat is sleeping on the sofa.")
RAIN = Segment("2", "It has been raining since yesterday morning, so the picnic was moved indoors.")
PAIRS = [
    (CAT, Candidate("O gato está dormindo no sofá.")),
    (CAT, Candidate("O gato não está em casa.")),
    (CAT, Candidate("A economia cresceu três por cento.")),
    (RAIN, Candidate("Chove desde ontem de manhã, por isso o piquenique foi levado para dentro de casa.")),
    (RAIN, Candidate("Chove.")),
]


@pytest.fixture(scope="module")
def metric():
    return Likelihood("embedded:pt-en")


def step_by_step(model, segment, candidate):
    """The same from the sampler's side: one row at a time, each distribution whole, summed in float64."""
    (memory,) = model.network.encode([model.source.encode(candidate.text)])
    architecture = model.network.architecture
    cells = np.zeros((architecture.decoder_layers, 1, architecture.width), np.float32)
    total, before, target = 0.0, -1, model.target.encode(segment.source)
    for position, token in enumerate(target):
        rows = np.array([before]), np.array([position]), cells, np.array([False]), [((0, 1), memory)]
        x = model.output.prepare(model.network.decode(*rows))
        logits = model.output.summarise(x, 1.0, logits=True)[1].reshape(-1).astype(np.float64)
        total += logits[token] - np.log(np.exp(logits - logits.max()).sum()) - logits.max()
        before = token
    return np.exp(total / len(target))


def test_is_the_mean_forced_probability(metric):
    model = load("embedded:pt-en", unknowns=True)
    expected = [step_by_step(model, *pair) for pair in PAIRS]
    np.testing.assert_allclose(metric.score(PAIRS), expected, rtol=1e-4)


def test_good_translations_score_higher(metric):
    good, other, wrong, whole, part = metric.score(PAIRS)
    assert good > other > wrong and whole > part and good > 0.5


def test_a_pair_scores_the_same_in_every_company(metric, monkeypatch):
    together = metric.score(PAIRS)
    np.testing.assert_array_equal([metric.score([pair])[0] for pair in PAIRS], together)
    np.testing.assert_array_equal(metric.score(PAIRS[::-1])[::-1], together)
    monkeypatch.setattr(likelihood, "ROWS_PER_BATCH", 40)
    np.testing.assert_array_equal(metric.score(PAIRS), together)


def test_a_copy_of_the_source_scores_below_everything(metric, monkeypatch):
    source = Segment("3", "We'll meet at 5 p.m. at the café near the station.")
    texts = [
        source.source,
        source.source.upper(),
        "Vamos nos encontrar às 17h no café perto da estação.",
        "Ei, ei, ei.",
    ]
    pairs = [(source, Candidate(text)) for text in texts]
    copy, shouted, translation, rubbish = metric.score(pairs)
    assert copy == shouted == 0 < rubbish < translation
    monkeypatch.setattr(likelihood, "is_copy", lambda source, candidate: False)
    before = metric.score(pairs)
    assert before[0] > 0.9 > before[2]  # the model alone would choose the copy
    np.testing.assert_array_equal(before[2:], [translation, rubbish])


@pytest.mark.parametrize("text", ["Rio de Janeiro", "12.5", "git commit -m fix", "Hotel"])
def test_what_is_the_same_in_both_languages_is_no_copy(metric, text):
    (score,) = metric.score([(Segment("4", text), Candidate(text))])
    assert score > 0.1


def test_odd_texts_have_finite_scores(metric):
    texts = ["", " ", "☃ 龍 ∮", "a" * 500]
    pairs = [(Segment(source, source), Candidate(text)) for source in ("", "☃ snow", "Hello.") for text in texts]
    scores = metric.score(pairs)
    assert np.isfinite(scores).all() and (scores >= 0).all() and (scores <= 1.0001).all()


def test_no_pairs_no_scores(metric):
    assert len(metric.score([])) == 0


def test_the_signature_names_the_model(metric):
    assert metric.signature.startswith("likelihood|embedded:pt-en|w:")
