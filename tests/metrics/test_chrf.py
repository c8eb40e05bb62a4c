"""chrF against its definition (sacrebleu, fastchrf), and its guarantees: incremental = one-shot, bit for bit."""

from __future__ import annotations

import random
from itertools import pairwise

import fastchrf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics import CHRF

from quitmt import rerank
from quitmt.errors import RerankError, UsageError
from quitmt.metrics import chrf
from quitmt.metrics.chrf import Chrf, ChrfArena
from quitmt.protocols import Update
from quitmt.types import Candidate, Segment

SPACES = " \t\n\r\x0b\x0c\x1c\x85\xa0\u1680\u2003\u2028\u202f\u205f\u3000"
NOT_SPACES = "\u200b\u200d\ufeff\u180e\x00"
ALPHABETS = [
    "ab",
    "abcdeABCDE ,.",
    "éèêñçßøåÉ’—" + SPACES,
    "日本語翻訳 品質。、ーカ",
    "😀😃👍🏽👩\u200d💻🇧🇷",
    "aeio\u0301\u0308\u0327\u0303n",
    "سلامעברית हिन्दी" + NOT_SPACES,
    "\U0010ffff\U00010000\uffff\x7f a",
]
ANY_TEXT = st.one_of(
    *(st.text(alphabet, max_size=40) for alphabet in ALPHABETS),
    st.text(max_size=20),  # hypothesis' own text leaves surrogates out unless asked
    st.text("abc ", min_size=1, max_size=3).flatmap(lambda unit: st.integers(1, 90).map(lambda times: unit * times)),
)
SAME_ALPHABET_POOLS = st.sampled_from(ALPHABETS).flatmap(
    lambda alphabet: st.lists(st.text(alphabet, max_size=30), min_size=1, max_size=12, unique=True)
)
POOLS = st.one_of(SAME_ALPHABET_POOLS, st.lists(ANY_TEXT, min_size=1, max_size=10, unique=True))


def arena_of(utility: Chrf, *batches: list[str]) -> ChrfArena:
    arena = utility.open(Segment("s"))
    for batch in batches:
        utility.encode([(arena, batch)])
    return arena


def everything(utility: Chrf, texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    return utility.compare(arena_of(utility, texts), range(len(texts)), range(len(texts)))


def by_sacrebleu(texts: list[str], order: int = 6, beta: int = 2) -> np.ndarray:
    metric = CHRF(char_order=order, beta=beta)
    return np.array([[metric.sentence_score(h, [r]).score / 100 for r in texts] for h in texts])


def sentences(count: int, seed: int = 5, words: int = 24) -> list[str]:
    """Distinct sentences that share much, as candidates do."""
    random_words = random.Random(seed)
    vocabulary = ["".join(random_words.choices("etaoinsrhldcum", k=random_words.randint(1, 9))) for _ in range(60)]
    base = random_words.choices(vocabulary, k=words)
    pool: dict[str, None] = {}
    while len(pool) < count:
        text = [random_words.choice(vocabulary) if random_words.random() < 0.2 else word for word in base]
        pool[" ".join(text)] = None
    return list(pool)


@given(POOLS)
@settings(max_examples=250)
def test_equals_sacrebleu(texts: list[str]) -> None:
    forward, backward = everything(Chrf(), texts)
    expected = by_sacrebleu(texts)
    np.testing.assert_allclose(forward, expected, rtol=0, atol=1e-15)
    np.testing.assert_array_equal(backward, forward.T)


@given(POOLS, st.integers(1, 9), st.integers(1, 4))
@settings(max_examples=60)
def test_equals_sacrebleu_for_other_orders_and_betas(texts: list[str], order: int, beta: int) -> None:
    forward, _ = everything(Chrf(order, beta), texts)
    np.testing.assert_allclose(forward, by_sacrebleu(texts, order, beta), rtol=0, atol=1e-15)


@pytest.mark.parametrize("alphabet", ALPHABETS)
def test_equals_fastchrf_on_pools(alphabet: str) -> None:
    alphabet = alphabet.replace("\x1c", "")  # a space to Python, and so to sacrebleu, but not to fastchrf
    draw = random.Random(alphabet)
    base = draw.choices(alphabet, k=120)
    texts = list(
        dict.fromkeys("".join(draw.choice(alphabet) if draw.random() < 0.1 else c for c in base) for _ in range(70))
    )
    forward, _ = everything(Chrf(), texts)
    expected = np.array(fastchrf.pairwise_chrf([texts], [texts])[0]) / 100
    np.testing.assert_allclose(forward, expected, rtol=0, atol=1e-12)


def test_known_values() -> None:
    texts = ["", "a", "b", "ab", "a b", " \u3000\n", "aa"]
    forward, _ = everything(Chrf(), texts)
    assert forward[1, 2] == 0.0
    assert forward[1, 1] == forward[3, 4] == forward[4, 3] == 1.0, "whitespace does not count"
    assert not forward[0].any() and not forward[:, 0].any(), "an empty text matches nothing, itself included"
    assert not forward[5].any(), "nor does one of spaces"
    # "a" against "aa": order 1 alone; precision 1, recall 1/2.
    assert forward[1, 6] == pytest.approx(5 * 1 * 0.5 / (4 * 1 + 0.5), abs=1e-15)
    assert forward[6, 1] == pytest.approx(5 * 0.5 * 1 / (4 * 0.5 + 1), abs=1e-15)


def test_rows_are_hypotheses_going_forward() -> None:
    short, long = "the cat", "the cat sat on the mat"
    arena = arena_of(Chrf(), [short, long])
    forward, backward = Chrf().compare(arena, range(1), range(1, 2))
    metric = CHRF()
    assert forward[0, 0] == pytest.approx(metric.sentence_score(short, [long]).score / 100, abs=1e-15)
    assert backward[0, 0] == pytest.approx(metric.sentence_score(long, [short]).score / 100, abs=1e-15)
    assert forward[0, 0] < backward[0, 0], "β = 2: recall weighs more, and the short text lacks it"


@given(POOLS, st.data())
@settings(max_examples=120)
def test_growing_changes_no_bit(texts: list[str], data: st.DataObject) -> None:
    utility = Chrf()
    forward, backward = everything(utility, texts)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(texts)))) | {0, len(texts)})
    arena = utility.open(Segment("s"))
    for old, new in pairwise(cuts):
        utility.encode([(arena, texts[old:new])])
        ahead, back = utility.compare(arena, range(old, new), range(new))
        np.testing.assert_array_equal(ahead, forward[old:new, :new])
        np.testing.assert_array_equal(back, backward[old:new, :new])


@given(POOLS, st.data())
@settings(max_examples=60)
def test_a_pair_does_not_depend_on_the_others(texts: list[str], data: st.DataObject) -> None:
    utility = Chrf()
    forward, _ = everything(utility, texts)
    order = data.draw(st.permutations(range(len(texts))))
    shuffled, _ = everything(utility, [texts[i] for i in order])
    np.testing.assert_array_equal(shuffled, forward[np.ix_(order, order)])
    few = order[: max(1, len(order) // 2)]
    alone, _ = everything(utility, [texts[i] for i in few])
    np.testing.assert_array_equal(alone, forward[np.ix_(few, few)])


@pytest.fixture(scope="module")
def large() -> tuple[list[str], np.ndarray, np.ndarray]:
    """A pool that is large enough for every array to grow, and all of its scores."""
    texts = sentences(300)
    return texts, *everything(Chrf(), texts)


@pytest.mark.slow
def test_equals_fastchrf_on_a_large_pool(large: tuple[list[str], np.ndarray, np.ndarray]) -> None:
    texts, forward, _ = large
    expected = np.array(fastchrf.pairwise_chrf([texts], [texts])[0]) / 100
    np.testing.assert_allclose(forward, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("step", [1, 8, 50])
def test_growing_changes_no_bit_in_a_large_pool(step: int, large: tuple[list[str], np.ndarray, np.ndarray]) -> None:
    texts, forward, backward = large
    utility = Chrf()
    arena = utility.open(Segment("s"))
    for old in range(0, len(texts), step):
        utility.encode([(arena, texts[old : old + step])])
        ahead, back = utility.compare(arena, range(old, len(arena)), range(len(arena)))
        np.testing.assert_array_equal(ahead, forward[old : len(arena), : len(arena)])
        np.testing.assert_array_equal(back, backward[old : len(arena), : len(arena)])


def test_any_two_ranges() -> None:
    texts = ["", *sentences(8), "x", "日本"]
    size = len(texts)
    utility = Chrf()
    arena = arena_of(utility, texts)
    forward, backward = utility.compare(arena, range(size), range(size))
    spans = [(a, b) for a in range(size + 1) for b in range(a, size + 1)]
    for top, bottom in spans:
        for left, right in spans:
            ahead, back = utility.compare(arena, range(top, bottom), range(left, right))
            np.testing.assert_array_equal(ahead, forward[top:bottom, left:right])
            np.testing.assert_array_equal(back, backward[top:bottom, left:right])


@pytest.mark.parametrize("wrong", [range(4), range(-1, 2), range(0, 3, 2), range(2, -1, -1), range(5, 9)])
def test_ranges_outside_the_arena_are_refused(wrong: range) -> None:
    arena = arena_of(Chrf(), ["a", "b", "c"])
    with pytest.raises(IndexError):
        Chrf().compare(arena, wrong, range(3))
    with pytest.raises(IndexError):
        Chrf().compare(arena, range(3), wrong)


def test_very_long_repeats() -> None:
    texts = ["a" * 10_000, "ab" * 3_000, "a", "a" * 9_999 + "b", "", "the cat " * 700, "a" * 64, "a" * 65]
    forward, _ = everything(Chrf(), texts)
    np.testing.assert_allclose(forward, by_sacrebleu(texts), rtol=0, atol=1e-15)
    np.testing.assert_array_equal(forward, everything(Chrf(), texts[::-1])[0][::-1, ::-1])


def test_every_code_point_is_its_own() -> None:
    """Characters that would collide if their numbers were cut to 8, 16 or 20 bits."""
    points = [0x41, 0x141, 0x10041, 0x100041, 0x20041, 0x10FFFF, 0xFFFF, 0x0]
    forward, _ = everything(Chrf(), [chr(point) for point in points])
    np.testing.assert_array_equal(forward, np.eye(len(points)))


def test_lone_surrogates_are_characters_like_others() -> None:
    forward, _ = everything(Chrf(), ["\ud800", "\udc00", "\ud800\udc00", "\U00010000"])
    assert forward[0, 0] == 1.0
    assert forward[0, 1] == 0.0
    assert 0 < forward[0, 2] < 1, "two halves side by side are still two"
    assert forward[2, 3] == 0.0


def test_segments_do_not_mix() -> None:
    utility = Chrf()
    one, two = utility.open(Segment("1")), utility.open(Segment("2"))
    utility.encode([(one, ["abc", "abd"]), (two, ["xyz"]), (one, ["ab"]), (two, []), (two, ["abc", "xy"])])
    for arena, texts in ((one, ["abc", "abd", "ab"]), (two, ["xyz", "abc", "xy"])):
        assert len(arena) == 3
        np.testing.assert_array_equal(utility.compare(arena, range(3), range(3))[0], everything(utility, texts)[0])


def test_an_empty_arena_compares_nothing() -> None:
    forward, backward = Chrf().compare(Chrf().open(Segment("s")), range(0), range(0))
    assert forward.shape == backward.shape == (0, 0)


def test_what_one_text_alone_has_takes_no_bits() -> None:
    """The cost of a pair follows what candidates share, not how much nonsense each of them holds."""
    utility = Chrf()
    arena = arena_of(utility, ["abcdefgh" * 40, "日本語翻訳品質評価" * 40])
    assert not arena.bits.any()
    utility.encode([(arena, ["ax"])])
    assert sum(int(word).bit_count() for word in arena.bits.flat) == 2, "the a of two texts"


# Memory


def held(arena: ChrfArena) -> int:
    """The bytes of an arena's arrays."""
    arrays = [getattr(arena, name) for name in ChrfArena.__slots__]
    return sum(array.nbytes for array in [*arrays, *arena.points] if isinstance(array, np.ndarray))


def different(length: int, seed: int = 1) -> str:
    """A text that repeats no n-gram but single characters."""
    draw = random.Random(seed)
    return "".join(chr(draw.randrange(0x4E00, 0x9FFF)) for _ in range(length))


@pytest.mark.parametrize("length", [30_000, 100_000, 150_000])
def test_a_character_costs_less_than_300_bytes(length: int) -> None:
    for text in (different(length), "a" * length, " ".join(sentences(length // 150))[:length]):
        assert held(arena_of(Chrf(), [text])) < 300 * length


def test_a_long_text_does_not_make_short_ones_dear() -> None:
    short, long = sentences(400), different(100_000)
    assert held(arena_of(Chrf(), [*short, long])) < 300 * (len(long) + sum(map(len, short)))


def test_a_segment_that_is_too_long_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chrf, "MOST_FEATURES", 60_000)
    utility, candidates = Chrf(), [different(4_000, seed) for seed in range(4)]
    for hostile in ([*sentences(3), different(20_000)], candidates):
        guilty, other = utility.open(Segment("1")), utility.open(Segment("2"))
        utility.encode([(guilty, hostile), (other, sentences(3))])
        utility.encode([(guilty, ["more"])])
        for request in (
            lambda guilty=guilty: utility.compare(guilty, range(2), range(2)),
            lambda guilty=guilty: utility.block(guilty, np.array([0]), range(2)),
            lambda guilty=guilty: utility.pairs(guilty, np.array([0]), np.array([1])),
            lambda guilty=guilty: utility.against(guilty, range(1), np.ones((1, 1))),
        ):
            with pytest.raises(RerankError, match=r"too long for chrF: one has (20|4),000 characters \(remove such"):
                request()
        assert held(guilty) < 10_000_000
        np.testing.assert_array_equal(utility.compare(other, range(3), range(3)), everything(utility, sentences(3)))


@pytest.mark.parametrize("variant", ["exact", "lowrank", "prune", "aggregate"])
def test_a_hostile_candidate_fails_its_segment_in_one_sentence(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chrf, "MOST_FEATURES", 60_000)
    reranker = rerank.load("mbr:chrf", variant=variant)
    updates = [
        Update(reranker.open(Segment(name)), [Candidate(text) for text in [*sentences(3), long]], 4)
        for name, long in (("1", different(20_000)), ("2", "Short."))
    ]
    failed, found = reranker.extend(updates)
    assert isinstance(failed, RerankError) and "one has 20,000 characters" in str(failed)
    assert isinstance(found, list)


def test_signature_names_what_changes_results() -> None:
    assert Chrf().signature == "chrF2|c:6"
    signatures = {Chrf(order, beta).signature for order in (1, 6) for beta in (1, 2, 2.5, 2.5000001)}
    assert len(signatures) == 8


@pytest.mark.parametrize(
    ("order", "beta"), [(0, 2), (-1, 2), (10**9, 2), (6, 0), (6, -1), (6, float("nan")), (6, float("inf")), (6, 1e200)]
)
def test_settings_out_of_range_are_refused(order: int, beta: float) -> None:
    with pytest.raises(UsageError):
        Chrf(order, beta)
