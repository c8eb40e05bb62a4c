"""The pools of every sampling of a study, and the output of greedy decoding and beam searches.

Samples and anchors are kept separately, so samplings that differ only in their anchors share their samples, and a
baseline that is also an anchor is decoded once. One model is loaded for all samplings, if its engine can change how it
samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from quitmt.errors import InputError, UsageError
from quitmt.generate.anchors import NONE, Anchored, parse
from quitmt.lab.frames import Floats
from quitmt.lab.pools import sample
from quitmt.lab.pools.sample import FullPool
from quitmt.lab.study import Study
from quitmt.lab.study.settings import SAMPLED, ModelSettings
from quitmt.plan.resolve import sampling_of
from quitmt.protocols import Generator
from quitmt.types import Segment

Build = Callable[[ModelSettings], Generator]
Counted = Callable[[str, int], AbstractContextManager[Callable[[int], object]]]
"""Opens a progress bar, from a label and the number of segments."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """The output of one decoding without reranking: greedy's, or the best hypothesis of a beam search."""

    name: str
    """``greedy``, ``beam:4``."""
    texts: tuple[str, ...]
    """One per segment."""
    cost: float
    """Candidates per segment: a beam search of size 4 computes 4."""
    seconds: Floats
    """[S]: measured; NaN for recorded ones."""


class PoolMaker:
    """Samples or reads pools, each of them once."""

    def __init__(
        self, build: Build, segments: Sequence[Segment], folder: Path, counted: Counted, *, texts: bool = True
    ) -> None:
        """Unless ``texts`` are needed, recorded pools may hold scores only."""
        self._texts = texts
        self._build, self._segments, self._folder, self._counted = build, segments, folder, counted
        self._loaded: tuple[ModelSettings, Generator] | None = None
        self._read: dict[str, list[FullPool]] = {}
        self._decoded: dict[str, list[FullPool]] = {}
        """By word: greedy and beam searches, which all samplings share."""

    def pools(self, study: Study) -> list[FullPool]:
        """The pools of one sampling, with its anchors."""
        model = study.model
        if model.pools is not None:
            return [_with_origins(pool, model) for pool in self._recorded(model)]
        generator = self.plain(model)
        with self._counted("sampling", len(self._segments)) as step:
            pools = sample.sampled(generator, model, self._segments, self._folder, step)
        for word in model.words:
            for place, anchors in enumerate(self._anchors(generator, model, word)):
                before = pools[place]
                named = tuple(replace(one, origin=word) for one in anchors.candidates)
                seconds = before.anchor_seconds + anchors.generate_seconds
                pools[place] = replace(before, anchors=(*before.anchors, *named), anchor_seconds=seconds)
        return pools

    def generator(self, model: ModelSettings) -> Generator:
        """The generator of a live run, with samples and anchors."""
        plain = self.plain(model)
        anchors = parse(model.anchors or NONE)
        return Anchored(plain, anchors, sampling_of(model)) if anchors else plain

    def plain(self, model: ModelSettings) -> Generator:
        """The generator of the samples, without anchors."""
        wanted = replace(model, anchors=NONE)
        if self._loaded is None:
            self._loaded = wanted, self._build(wanted)
        settings, generator = self._loaded
        if settings == wanted:
            return generator
        same_model = replace(wanted, **{name: getattr(settings, name) for name in SAMPLED}) == settings
        resampled: Any = getattr(generator, "resampled", None)
        return resampled(sampling_of(wanted)) if same_model and resampled else self._build(wanted)

    def baselines(self, studies: Sequence[Study]) -> list[Baseline]:
        """The baselines that the study names, and all other known greedy and beam-search outputs, ordered by cost."""
        found: dict[str, Baseline] = {}
        for study in studies:
            if study.model.pools is not None:
                pools = self._recorded(study.model)
                for word in _origins(pools):
                    found.setdefault(word, _baseline(word, _only_origin(pools, word)))
                continue
            for word in dict.fromkeys((*study.baselines.words, *study.model.words)):
                if _is_search(word) and word not in found:
                    found[word] = _baseline(word, self._anchors(self.plain(study.model), study.model, word))
        return sorted(found.values(), key=lambda one: one.cost)

    def _recorded(self, model: ModelSettings) -> list[FullPool]:
        path = model.pools or ""
        if path not in self._read:
            with self._counted(f"reading {path}", len(self._segments)) as step:
                self._read[path] = sample.recorded(path, self._segments, model.budget, texts=self._texts)
                step(len(self._segments))
        return self._read[path]

    def _anchors(self, generator: Generator, model: ModelSettings, word: str) -> list[FullPool]:
        if word in self._decoded:
            return self._decoded[word]
        (anchor,) = parse(word)
        resampled: Any = getattr(generator, "resampled", None)
        if resampled is None:
            name = generator.signature.partition("|")[0]
            raise UsageError(
                f"{name} cannot make anchors: quitmt has no control of its sampling", hint="leave them out"
            )
        sibling = resampled(anchor.sampling(sampling_of(model)))
        settings = replace(model, budget=anchor.count, anchors=NONE)
        with self._counted(word, len(self._segments)) as step:
            found = sample.sampled(sibling, settings, self._segments, self._folder, step)
        if _is_search(word):
            self._decoded[word] = found
        return found


def _is_search(word: str) -> bool:
    """Whether an anchor comes from a search, so that the sampling makes no difference to it."""
    return word == "greedy" or word.startswith("beam:")


def _baseline(word: str, pools: Sequence[FullPool]) -> Baseline:
    cost = float(np.mean([len(pool.candidates) for pool in pools]))
    seconds = np.array([pool.generate_seconds for pool in pools])
    return Baseline(word, tuple(pool.candidates[0].text for pool in pools), cost, seconds)


def _origins(pools: Sequence[FullPool]) -> Iterator[str]:
    """The greedy and beam-search anchors that every pool has."""
    for word in dict.fromkeys(one.origin for pool in pools for one in pool.anchors):
        if _is_search(word) and all(any(one.origin == word for one in pool.anchors) for pool in pools):
            yield word


def _only_origin(pools: Sequence[FullPool], word: str) -> list[FullPool]:
    """Pools whose candidates are the anchors of one origin."""
    anchors = [tuple(one for one in pool.anchors if one.origin == word) for pool in pools]
    return [FullPool(pool.segment, own, float("nan")) for pool, own in zip(pools, anchors, strict=True)]


def _with_origins(pool: FullPool, model: ModelSettings) -> FullPool:
    """The pool with only those anchors that the sampling names."""
    chosen = tuple(one for word in model.words for one in pool.anchors if one.origin == word)
    for word in model.words:
        if word not in [one.origin for one in chosen]:
            there = ", ".join(dict.fromkeys(one.origin for one in pool.anchors)) or "none"
            raise InputError(
                f"{model.pools}: the pool of segment {pool.segment.id} has no anchors of the origin {word!r}",
                hint=f"it has {there}",
            )
    return replace(pool, anchors=chosen, anchor_seconds=pool.anchor_seconds if chosen else 0.0)
