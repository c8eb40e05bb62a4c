"""What the texts that name kinds of MBR mean, and one sentence for each that means nothing."""

from __future__ import annotations

import pytest

from quitmt import rerank
from quitmt.errors import UsageError
from quitmt.rerank import variants

LOW = "lowrank,rank:10,l:0.1,tol:0.0001,1/8,seed:0"
PRUNE = "prune,c:0.99,b:500,seed:0"


@pytest.mark.parametrize(
    ("spec", "signature"),
    [
        ("prune", PRUNE),
        ("prune:", PRUNE),
        ("prune:confidence=0.9,resamples=50,seed=3", "prune,c:0.9,b:50,seed:3"),
        ("prune:schedule=4/10", "prune,c:0.99,b:500,r:4/10,seed:0"),
        ("lowrank", LOW),
        ("lowrank:reduction=16,rank=5,penalty=0.5,tolerance=0.01", "lowrank,rank:5,l:0.5,tol:0.01,1/16,seed:0"),
        ("centroid", "centroid,k:64,i:10,seed:0"),
        ("centroid:centroids=8,iterations=3,weighted=yes", "centroid,k:8,i:3,weighted,seed:0"),
        ("aggregate", "aggregate,top:20,exact"),
        ("aggregate:top=5", "aggregate,top:5,exact"),
        ("aggregate:top=0", "aggregate"),
    ],
)
def test_what_they_mean(spec: str, signature: str) -> None:
    method = variants.load(spec)
    assert method and method.signature == signature


def test_exact_has_a_reranker_of_its_own() -> None:
    assert variants.load("exact") is None
    assert rerank.load("mbr:chrf", variant="exact").signature == "mbr:chrF2|c:6"
    assert rerank.load("mbr:chrf", variant="prune").signature == f"mbr:chrF2|c:6|{PRUNE}"


def test_every_kind_that_is_listed_can_be_had() -> None:
    for usage in variants.listed().keys() - {"exact"}:
        name, _, _ = usage.partition(":")
        method, as_listed = variants.load(name), variants.load(usage)
        assert method and as_listed and method.signature == as_listed.signature  # the help has the true defaults


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("", "unknown kind of MBR '' (there is aggregate, centroid, exact, lowrank, prune)"),
        ("nonsense", "unknown kind of MBR 'nonsense' (there is aggregate"),
        ("prun", "unknown kind of MBR 'prun' (did you mean 'prune'?)"),
        ("prune:confidnce=0.9", "unknown option of prune MBR 'confidnce' (did you mean 'confidence'?)"),
        ("prune:top=5", "unknown option of prune MBR 'top'"),
        ("prune:confidence=2", "the confidence of pruning must lie between 0 and 1, not at 2"),
        (
            "prune:confidence=high",
            "'confidence=high' is not a setting of prune MBR (confidence is a number, as in confidence=0.99)",
        ),
        ("prune:confidence", "'confidence' is not a setting of prune MBR"),
        ("prune:schedule=8/x", "'schedule=8/x' is not a setting of prune MBR"),
        ("prune:schedule=16/8", "the schedule of pruning must be increasing sizes, such as 8/16/32/64"),
        ("prune:resamples=0", "pruning needs at least 1 resample, not 0"),
        ("prune:seed=-1", "a seed must be 0 or more, not -1"),
        ("prune:,", "unknown option of prune MBR ''"),
        ("exact:seed=1", "exact MBR has no options, such as 'seed=1'"),
        ("centroid:weighted=maybe", "'weighted=maybe' is not a setting of centroid MBR (weighted is yes or no"),
        ("lowrank+prune", "unknown kind of MBR 'lowrank+prune'"),
        ("lowrank:top=5", "unknown option of lowrank MBR 'top'"),
        ("aggregate:top=-1", "top must be 0 or more candidates, not -1"),
    ],
)
def test_what_means_nothing(spec: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        variants.load(spec)
    assert message in str(caught.value) and "\n" not in str(caught.value)
