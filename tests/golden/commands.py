"""What the golden files are of: commands as a user types them, in a folder with the inputs.

Everything goes through the command line, which may gain settings but may not lose these.
"""

from __future__ import annotations

RULES = {
    "quit": "",
    "quit, other settings": "-k 4 -w 2 --alpha 0.01 -n 48",
    "quit, one step": "-w 1 --single-step-window",
    "full": "--stop full",
    "full, smaller": "--stop full -n 32 -k 5",
    "fixed": "--stop fixed:64",
    "fixed, other step": "--stop fixed:3 -k 2",
    "loss": "--stop loss:most=0.0005,new=0.1,scale=1,minimum=32",
    "loss, options": "--stop loss:most=0.01,new=0.2,scale=1,minimum=16,looks=3 -k 4 -n 128",
    "headroom": "--stop headroom --rerank qe:recorded:q",
    "headroom, options": "--stop headroom:share=0.01,top=5,minimum=8,looks=4 -k 2 --rerank qe:recorded:q",
    "max loss": "--max-loss 0.02",
}

RERANKERS = {
    "vote": "--rerank mbr:vote",
    "vote by a function": "--rerank mbr:vote:golden_functions:last_word",
    "likelihood": "--rerank qe:likelihood",
    "likelihood, other direction": "--rerank qe:likelihood --src pt --tgt en",
    "likelihood, named": "--rerank qe:likelihood:embedded:pt-en",
    "recorded": "--rerank qe:recorded:q",
    "weighted": "--rerank qe:0.7*recorded:q+0.3*likelihood",
    "weighted, without weights": "--rerank qe:recorded:q+recorded:tokens",
    "weighted, one": "--rerank qe:2*recorded:q",
    "weighted, negative": "--rerank qe:recorded:q+-0.25*recorded:tokens",
    "filtered": "--filter qe:likelihood",
    "filtered, keep": "--filter qe:recorded:q --keep 12",
    "filtered by a sum": "--filter qe:0.5*recorded:q+likelihood --keep 5",
    "filtered vote": "--rerank mbr:vote --filter qe:recorded:q --keep 7",
    "utility": "--rerank mbr:golden_functions:common",
    "utility of three": "--rerank mbr:golden_functions:common_of_three",
    "estimator": "--rerank qe:golden_functions:nearness",
    "estimator in a sum": "--rerank qe:0.01*golden_functions:nearness+recorded:q",
}

VARIANTS = {
    kind: f"--mbr {kind}"
    for kind in (
        "prune",
        "prune:confidence=0.9,resamples=100,schedule=4/8/32,seed=3",
        "lowrank",
        "lowrank:reduction=4,rank=3,penalty=0.2,tolerance=0.001,seed=1",
        "aggregate",
        "aggregate:top=0",
    )
}
VARIANTS["prune of a function"] = "--mbr prune --rerank mbr:golden_functions:common"

NEURAL = {
    "comet": "--rerank mbr:comet:regression",
    "comet, norm": "--rerank mbr:comet:regression-norm",
    "comet, bfloat16": "--rerank mbr:comet:regression --metric-dtype bfloat16",
    "kiwi": "--rerank qe:kiwi:unified",
    "xcomet": "--rerank mbr:xcomet:xcomet",
    "xcomet without references": "--rerank qe:xcomet:xcomet",
    "weighted kiwi": "--rerank qe:0.5*kiwi:unified+recorded:q",
    "filtered by kiwi": "--filter qe:kiwi:unified --keep 9",
    "centroid": "--rerank mbr:comet:regression --mbr centroid",
    "centroid, options": "--rerank mbr:comet:regression --mbr centroid:centroids=4,iterations=3,weighted=yes,seed=2",
    "aggregate": "--rerank mbr:comet:regression --mbr aggregate",
}
"""With the tiny checkpoints of ``tests/comet`` and ``FEW``; only their signatures, as their scores depend on torch."""
FEW = "--stop full -n 2"

RERANK = {
    **{f"rule: {name}": words for name, words in RULES.items()},
    **{f"reranker: {name}": words for name, words in RERANKERS.items()},
    **{f"kind: {name}": words for name, words in VARIANTS.items()},
}
"""``quitmt rerank pools.jsonl``: outcomes are compared, signatures among them."""

SMALL = "-k 4 -w 3 --alpha 0.005 -n 64"
TRANSLATE = {
    "mbr": SMALL,
    "likelihood": f"{SMALL} --rerank qe:likelihood",
    "cut off": f"{SMALL} -n 24 --top-k 20 --top-p 0.95 --epsilon 0.001 --seed 7",
    "cool": f"{SMALL} --temperature 0.5 --stop full -n 16",
    "greedy": "--temperature 0 -n 2 -k 2 --stop full",
    "loss": f"{SMALL} --stop loss:most=0.01,minimum=8,new=0.1,scale=1",
    "filtered": f"{SMALL} --filter qe:likelihood --keep 8",
    "backwards": "--src pt --tgt en -n 16 -k 4 -w 2 --seed 3",
}
"""``quitmt translate sources.en``: outcomes and kept pools."""
KEPT = ("mbr", "cut off", "backwards")
"""The translations whose pools are golden too."""

GUARANTEE = "--max-loss 0.5sd --risk 0.5 --confidence none"
PROFILES = {
    "mbr": f"{GUARANTEE} -n 64 --src en --tgt pt --rule loss:new=0.1,scale=1,minimum=32 --rule fixed",
    "qe": f"{GUARANTEE} -n 48 -k 4 --rerank qe:recorded:q --rule fixed",
}

JOURNALS = {
    "translate": f"translate - {SMALL} --in-flight 2 -o out.txt --jsonl out.jsonl --keep-pools out.pools",
    "rerank": "rerank - -w 4 -k 4 --in-flight 1 -o out.txt",
}
