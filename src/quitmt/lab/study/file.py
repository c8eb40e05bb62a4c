"""A study as its file says it, in TOML.

A field that does not exist is refused, so that a typing error never passes for a setting, and so is a number that no
rule could be run with. Paths are relative to where quitmt is run.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quitmt.errors import InputError, unknown
from quitmt.lab.study.settings import (
    EvaluateSettings,
    LiveSettings,
    ModelSettings,
    PaperSettings,
    RerankSettings,
    RuleSettings,
    Study,
    TestSetSettings,
)
from quitmt.recipe import files
from quitmt.recipe.fields import fields_of, read, written

MOST = {
    "[model], budget": 1_000_000,
    "[model], in_flight": 1_000_000,
    "[rules], k": 1_000_000,
    "[rules], windows": 1_000_000,
    "[rules], alpha_windows": 1_000_000,
    "[rules], steps": 1_000_000,
    "[rules], costs": 1_000_000,
    "[rules], splits": 100_000,
    "[evaluate], resamples": 10_000_000,
    "[live], windows": 1_000_000,
}
"""Numbers above these are typing errors: no pool is so large, and nothing could be computed."""

SECTIONS: dict[str, type[Any]] = {
    "test_set": TestSetSettings,
    "model": ModelSettings,
    "rerank": RerankSettings,
    "rules": RuleSettings,
    "evaluate": EvaluateSettings,
    "live": LiveSettings,
    "paper": PaperSettings,
}


@dataclass(frozen=True)
class _Texts:
    """What stands above the sections."""

    title: str | None = None
    output: str | None = None
    recipe: str | None = None


def load(path: str) -> Study:
    try:
        found = tomllib.loads(Path(path).read_text("utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}", hint="quitmt lab init writes one") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not TOML: {error}") from None
    except RecursionError:
        raise InputError(f"{path} cannot be read: it is nested too deeply") from None
    except ValueError:
        raise InputError(f"{path} cannot be read: a number in it has too many digits") from None
    return parse(found, path)


def parse(found: Mapping[str, Any], where: str) -> Study:
    for name in found:
        if name not in SECTIONS and name not in fields_of(_Texts):
            error = unknown("field of a study", name, [*fields_of(_Texts), *SECTIONS])
            raise InputError(f"{where}: {error.args[0]}", hint=error.hint)
    texts = read(
        _Texts, {name: value for name, value in found.items() if name not in SECTIONS}, _place(where), "a study"
    )
    given: dict[str, Any] = dict(written(texts))
    defaults = _of_recipe(texts.recipe, where) if texts.recipe is not None else {}
    for name, kind in SECTIONS.items():
        value = found.get(name, {})
        if not isinstance(value, dict):
            raise InputError(f"{where}: [{name}] must be a section")
        if name in found or name in defaults:
            whole = {**defaults.get(name, {}), **value}
            given[name] = read(kind, whole, _place(f"{where}, [{name}]"), f"[{name}]")
    if "test_set" not in given:
        raise InputError(f"{where} names no test set", hint="a section [test_set] with tsv, sources, name or jsonl")
    study = Study(**given)
    chosen = [kind for kind in ("tsv", "sources", "name", "jsonl") if getattr(study.test_set, kind) is not None]
    if len(chosen) != 1:
        raise InputError(f"{where}, [test_set]: exactly one of tsv, sources, name and jsonl must be there")
    _check(study, where)
    return study


def _check(study: Study, where: str) -> None:
    """Refuse numbers out of range and lists that leave nothing to do."""
    rules = study.rules
    least = {
        "[test_set], limit": (study.test_set.limit, 1),
        "[model], budget": (study.model.budget, 1),
        "[model], in_flight": (study.model.in_flight, 1),
        "[rules], k": (rules.k, 1),
        "[rules], alpha": (rules.alpha, 0),
        "[rules], windows": (rules.windows, 2),
        "[rules], alphas": (rules.alphas, 0),
        "[rules], alpha_windows": (rules.alpha_windows, 2),
        "[rules], steps": (rules.steps, 1),
        "[rules], costs": (rules.costs, 1),
        "[rules], splits": (rules.splits, 1),
        "[evaluate], resamples": (study.evaluate.resamples, 1),
        "[evaluate], seed": (study.evaluate.seed, 0),
        "[live], windows": (study.live.windows, 2),
        "[live], limit": (study.live.limit, 1),
    }
    for name, (value, lowest) in least.items():
        for one in value if isinstance(value, tuple) else () if value is None else (value,):
            if not (math.isfinite(one) and one >= lowest):
                raise InputError(f"{where}, {name} must be {lowest} or more, not {one}")
            if one > MOST.get(name, one):
                raise InputError(f"{where}, {name} must be {MOST[name]:,} or less, not {one:,}")
    lists: dict[str, tuple[object, ...]] = {
        "[rerank], rerankers": study.rerank.rerankers,
        "[rules], windows": rules.windows,
        "[rules], alphas": rules.alphas,
        "[rules], alpha_windows": rules.alpha_windows,
        "[rules], steps": rules.steps,
    }
    for name, values in lists.items():
        if not values:
            raise InputError(f"{where}, {name} must not be empty")
    may_be_empty: dict[str, tuple[object, ...]] = {
        "[rerank], accelerated": study.rerank.accelerated,
        "[rules], beyond": rules.beyond,
        "[rules], costs": rules.costs,
        "[evaluate], metrics": study.evaluate.metrics,
        "[live], rules": study.live.rules,
    }
    for name, values in {**lists, **may_be_empty}.items():
        if twice := [one for place, one in enumerate(values) if one in values[:place]]:
            raise InputError(f"{where}, {name} has {twice[0]!r} twice")


def _of_recipe(path: str, where: str) -> dict[str, dict[str, Any]]:
    """What a recipe says of a study, section by section."""
    recipe = files.load(path).recipe  # nothing is imported by reading: ``--no-functions`` may refuse what it names
    if recipe.rerank.filter is not None:
        raise InputError(f"{where}: the lab replays exact MBR and QE, and {path} has a filter", hint="leave it out")
    faster = [] if recipe.rerank.variant == "exact" else [recipe.rerank.variant]
    scoring = {name: getattr(recipe.rerank, name) for name in ("device", "dtype", "batch_tokens")}
    model = {**dict(written(recipe.model)), "budget": recipe.stop.n, "in_flight": recipe.run.in_flight}
    found = {
        "model": model,
        "rerank": {"rerankers": [recipe.rerank.name], **({"accelerated": faster} if faster else {}), **scoring},
        "rules": {"k": recipe.stop.k, "alpha": recipe.stop.alpha},
        "live": {"windows": [recipe.stop.w]} if recipe.stop.rule in (None, "quit") else {},
    }
    return {name: {key: one for key, one in own.items() if one is not None} for name, own in found.items()}


def _place(where: str) -> Callable[[str], str]:
    return lambda name: f"{where}, {name}"


def template(tsv: str = "NEWS.tsv", *, limit: int = 200, output: str = "study") -> str:
    """A study file with every field, its meaning and its default."""
    found = TEMPLATE
    for line, value in (("tsv", tsv), ("limit", limit), ("output", output)):
        before, at, rest = found.partition(f"\n{line} = ")
        old, space, meaning = rest.partition(" #")
        # What JSON makes of a text or a whole number is TOML as well.
        new = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        found = before + at + new.ljust(len(old)) + space + meaning
    return found


TEMPLATE = """\
# A study of early stopping: run it with `quitmt lab run`. What is commented out is the default, or one of several ways.
title = "A study of early stopping"
output = "study"                     # the folder for tables, figures, report.html, and cache/: what is done and kept
# recipe = "my.toml"                 # a recipe (quitmt recipe) whose model, reranker, k and n are the defaults here

[test_set]
tsv = "NEWS.tsv"                     # source <tab> reference [<tab> reference …], a segment a line
# sources = "news.en"                # or plain files, a segment a line
# references = ["news.ref.pt"]
# name = "wmt24:en-de"               # or one of sacrebleu's
# jsonl = "wmt25-genmt.jsonl"        # or the WMT25 release
limit = 200                          # the first segments only

[model]
name = "embedded:en-pt"              # any of `quitmt models`
# pools = "pools.jsonl.gz"           # or recorded pools, by the ids of the segments
# source_language = "en"             # an embedded model knows its own
# target_language = "pt"
# budget = 512                       # candidates a segment
# temperature = 1.2
# top_k = 50                         # cut-offs; none by default
# top_p = 0.95
# epsilon = 0.02
# seed = 0
# context = 0                        # chat models: show so many segments before each
# in_flight = 16                     # segments at a time; the default depends on the engine
# options = { base_url = "http://localhost:8000/v1" }

[rerank]
# rerankers = ["mbr:chrf", "qe:likelihood"]
# accelerated = ["prune", "lowrank"] # kinds of MBR to compare with, on the whole pools
# keep_pairs = false                 # keep the utilities of all pairs too (large), for analyses of your own
# device = "cuda"                    # of neural rerankers; also dtype and batch_tokens
# dtype = "float32"
# batch_tokens = 8192

[rules]
# k = 8                              # candidates a step
# alpha = 1e-3                       # how far the best score may move within a window, and QUIT stops
# windows = [2, 4, 6, 8, 10, 12, 14, 16]     # in steps
# alphas = [1e-6, 1e-5, 1e-4, 1e-3, 1e-2]    # with each of alpha_windows
# alpha_windows = [4, 8, 16]
# steps = [4, 8, 16]                 # other k, with each of alpha_windows
# beyond = ["loss", "race", "headroom"]      # rules with a threshold, at every threshold; [] for none
# costs = [64, 100, 150, 200, 250]   # mean candidates a segment at which those are compared with a fixed number
# splits = 200                       # random halves: thresholds are chosen on one half and judged on the other

[evaluate]
# metrics = ["chrf++"]               # of `quitmt score`
# resamples = 10000                  # of the paired bootstrap
# seed = 0                           # of the bootstrap
# device = "cuda"                    # of neural metrics; also dtype and batch_tokens
# dtype = "float32"
# batch_tokens = 8192
# options = { base_url = "http://localhost:8000/v1" }   # of a judge, gemba:openai:MODEL

[live]                               # for `quitmt lab live`
# windows = [4, 8, 16]
# rules = ["loss:most=0.0005", "headroom:share=0.002"]   # with a threshold; each where it fits the reranker
limit = 20                           # segments to re-run, from the first; all without this line, which takes long

# [paper]                            # put the paper's numbers beside ours
# dataset = "WMT24"
# model = "Qwen3"
"""
