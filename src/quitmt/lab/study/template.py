"""The study file that ``quitmt lab init`` writes."""

from __future__ import annotations

import json


def template(tsv: str = "NEWS.tsv", *, limit: int = 200, output: str = "study") -> str:
    """A study file with every field, its meaning and its default."""
    found = TEMPLATE
    for line, value in (("tsv", tsv), ("limit", limit), ("output", output)):
        before, at, rest = found.partition(f"\n{line} = ")
        old, space, meaning = rest.partition(" #")
        # JSON texts and whole numbers are valid TOML.
        new = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        found = before + at + new.ljust(len(old)) + space + meaning
    return found


TEMPLATE = """\
# A study of early stopping: run it with `quitmt lab run`. Commented lines show defaults, or alternatives.
title = "A study of early stopping"
output = "study"                     # folder for tables, figures, report.html, and cache/ with everything computed
# recipe = "my.toml"                 # a recipe (quitmt recipe) whose model, reranker, k and n are the defaults here

[test_set]
tsv = "NEWS.tsv"                     # source <tab> reference [<tab> reference …], one segment per line
# sources = "news.en"                # or plain files, one segment per line
# references = ["news.ref.pt"]
# name = "wmt24:en-de"               # or one of sacrebleu's test sets
# jsonl = "wmt25-genmt.jsonl"        # or the WMT25 release
limit = 200                          # only the first segments

[model]
name = "embedded:en-pt"              # any of `quitmt models`
# pools = "pools.jsonl.gz"           # or recorded pools, by the ids of the segments
# source_language = "en"             # an embedded model knows its languages
# target_language = "pt"
# budget = 512                       # candidates per segment
# temperature = 1.2
# top_k = 50                         # cut-offs; none by default
# top_p = 0.95
# epsilon = 0.02
# min_p = 0.05
# anchors = "none"                   # candidates that are not samples: some of greedy, beam:N, N@T, with commas
# seed = 0
# context = 0                        # chat models: earlier segments shown before each segment
# in_flight = 16                     # segments at a time; the default depends on the engine
# options = { base_url = "http://localhost:8000/v1" }

[rerank]
# rerankers = ["mbr:chrf", "qe:likelihood"]
# accelerated = ["prune", "lowrank"] # kinds of MBR to compare with, on the whole pools
# support = "all"                    # judges of a candidate: all samples, or the others; with anchors the others
# device = "cuda"                    # for neural rerankers; also dtype and batch_tokens
# dtype = "float32"
# batch_tokens = 8192

[rules]
# k = 8                              # candidates per step
# alpha = 1e-3                       # QUIT stops if the best score moves no more than this within a window
# windows = [2, 4, 6, 8, 10, 12, 14, 16]     # in steps
# alphas = [1e-6, 1e-5, 1e-4, 1e-3, 1e-2]    # with each of alpha_windows
# alpha_windows = [4, 8, 16]
# steps = [4, 8, 16]                 # other k, with each of alpha_windows
# beyond = ["loss", "headroom"]      # rules with a threshold, at every threshold; [] for none
# costs = [64, 100, 150, 200, 250]   # mean candidates per segment at which those are compared with a fixed number
# splits = 200                       # random halves: thresholds are chosen on one half and judged on the other

[evaluate]
# metrics = ["chrf++"]               # any of `quitmt score`
# resamples = 10000                  # of the paired bootstrap
# seed = 0                           # of the bootstrap
# device = "cuda"                    # for neural metrics; also dtype and batch_tokens
# dtype = "float32"
# batch_tokens = 8192
# options = { base_url = "http://localhost:8000/v1" }   # for a judge, gemba:openai:MODEL

[baselines]
anchors = "greedy,beam:4"            # decoded once, to compare everything else with; "none" for none

[live]                               # for `quitmt lab live`
# windows = [4, 8, 16]
# rules = ["loss:most=0.0005", "headroom:share=0.002"]   # with a threshold; each where it fits the reranker
limit = 20                           # segments to re-run, from the first; without this line all, which takes long
# samplings = ["anchored"]           # those to re-run, by name; all by default

# [[samplings]]                      # another sampling beside that of [model]; as many as you like
# name = "anchored"
# temperature = 0.7                  # also top_k, top_p, epsilon, min_p, seed; the rest is as in [model]
# anchors = "greedy,beam:4"
# support = "others"
# pools = "anchored.jsonl.gz"        # or recorded pools

# [paper]                            # show the paper's numbers beside ours
# dataset = "WMT24"
# model = "Qwen3"
"""
