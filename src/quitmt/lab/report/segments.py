"""Single segments for the report's browser: what was drawn, how it scored, and where each rule would stop.

Invariants:
- Identical candidates are one entry with their count and the place of the first. Anchors are entries too, by their
  origin; their indices count from -1 downwards.
- Whatever any rule chose is among a segment's entries, however many candidates are left out.
- The JSON cannot end the script element it stands in, and has no NaN.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from quitmt.lab.frames import Floats, QualityScores, Replayed, Trajectories

SEGMENTS = 300
CANDIDATES = 50
POINTS = 128


@dataclass(frozen=True, slots=True)
class Stop:
    rule: str
    size: int
    index: int
    """Of the candidate it would have chosen."""


@dataclass(frozen=True, slots=True)
class Track:
    """One reranker on one segment."""

    reranker: str
    sizes: Sequence[int]
    score: Sequence[float]
    """The best score at each size."""
    final: Sequence[float]
    """Each candidate's score on the whole pool; anchors from the end, so that their indices find them."""
    stops: tuple[Stop, ...]


@dataclass(frozen=True, slots=True)
class SegmentView:
    id: str
    source: str
    references: tuple[str, ...]
    candidates: Sequence[str]
    """In the order drawn."""
    tracks: tuple[Track, ...]
    quality: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """By the metric's heading: of each candidate as in ``Track.final``, NaN where nobody scored it."""
    anchors: Sequence[tuple[str, str]] = ()
    """Text and origin."""

    def text(self, index: int) -> str:
        return self.candidates[index] if index >= 0 else self.anchors[-1 - index][0]


def segment_views(
    sources: Sequence[str],
    references: Sequence[Sequence[str]],
    candidates: Sequence[Sequence[str]],
    trajectories: Sequence[Trajectories],
    rules: Sequence[Replayed],
    qualities: Sequence[QualityScores] = (),
    *,
    k: int = 8,
    limit: int = SEGMENTS,
    anchors: Sequence[Sequence[tuple[str, str]]] = (),
) -> list[SegmentView]:
    """The first segments of the study's arrays; row s of everything is segment s."""
    views = []
    for s in range(min(limit, len(sources))):
        pool = len(candidates[s])
        tracks = tuple(_track_of(each, s, pool, rules, k) for each in trajectories)
        quality = {each.metric: _own(each.values[s], pool, trajectories[0]) for each in qualities if trajectories}
        id = trajectories[0].ids[s] if trajectories else str(s + 1)
        own = anchors[s] if anchors else ()
        views.append(SegmentView(id, sources[s], tuple(references[s]), candidates[s], tracks, quality, own))
    return views


def _track_of(of: Trajectories, s: int, pool: int, rules: Sequence[Replayed], k: int) -> Track:
    mine = [rule for rule in rules if rule.reranker == of.reranker]
    stops = tuple(Stop(rule.name, int(rule.size[s]), int(rule.index[s])) for rule in mine)
    # A fixed size need not be a multiple of k, and its mark must lie on the line.
    sizes = np.array(sorted({*range(k, pool, k), pool, *(stop.size for stop in stops)}), np.int64)
    return Track(of.reranker, sizes.tolist(), of.score[s, sizes - 1].tolist(), _own(of.final[s], pool, of), stops)


def _own(row: Floats, pool: int, of: Trajectories) -> list[float]:
    """Of one pool's samples and of the anchors, which stand after the samples of the largest pool."""
    return [*row[:pool].tolist(), *row[of.best.shape[1] :].tolist()]


def embedded(views: Sequence[SegmentView], *, segments: int = SEGMENTS, candidates: int = CANDIDATES) -> str:
    """The browser's JSON: the first ``segments``, each with its best ``candidates`` and every chosen one."""
    shown = views[:segments]
    rules = list(dict.fromkeys(stop.rule for view in shown for track in view.tracks for stop in track.stops))
    metrics = list(dict.fromkeys(metric for view in shown for metric in view.quality))
    packed = [_packed(view, rules, metrics, candidates) for view in shown]
    text = json.dumps(
        {"rules": rules, "metrics": metrics, "segments": packed},
        ensure_ascii=False,
        allow_nan=False,
        separators=(",", ":"),
    )
    # No "<" at all, so neither </script> nor <!-- can appear; in JSON it may always be written as an escape.
    return text.replace("<", "\\u003c")


def _packed(view: SegmentView, rules: list[str], metrics: list[str], limit: int) -> dict[str, Any]:
    first: dict[str, int] = {}
    count: dict[str, int] = {}
    for index, text in enumerate(view.candidates):
        first.setdefault(text, index)
        count[text] = count.get(text, 0) + 1
    drawn = len(first)
    origins: dict[str, str] = {}
    for place, (text, origin) in enumerate(view.anchors):
        first.setdefault(text, -1 - place)
        origins[text] = f"{origins[text]}, {origin}" if text in origins else origin
    kept = _kept(view, list(first.values()), limit)
    place_of = {view.text(index): at for at, index in enumerate(kept)}
    return {
        "id": view.id,
        "source": view.source,
        "references": list(view.references),
        "drawn": len(view.candidates),
        "distinct": drawn,
        "anchors": len(view.anchors),
        "candidates": [
            [
                view.text(index),
                count.get(view.text(index), 0),
                index + 1 if index >= 0 else None,
                [_short(track.final[index]) for track in view.tracks],
                [_short(view.quality[metric][index]) if metric in view.quality else None for metric in metrics],
                origins.get(view.text(index), ""),
            ]
            for index in kept
        ],
        "tracks": [_track(track, view, rules, place_of) for track in view.tracks],
    }


def _kept(view: SegmentView, distinct: list[int], limit: int) -> list[int]:
    """The candidates to show: the best by each reranker in turn, and every chosen one, best first by the first one."""
    chosen = {stop.index for track in view.tracks for stop in track.stops}
    texts = {view.text(index) for index in chosen}
    orders = [sorted(distinct, key=lambda i, t=track: (-_ranked(t.final[i]), i)) for track in view.tracks]  # type: ignore[misc]
    orders = orders or [distinct]
    wanted = {index for index in distinct if view.text(index) in texts}
    share = -(-limit // len(orders))
    for order in orders:
        wanted.update(order[:share])
    return [index for index in orders[0] if index in wanted]


def _ranked(score: float) -> float:
    return score if math.isfinite(score) else -math.inf


def _track(track: Track, view: SegmentView, rules: list[str], place: dict[str, int]) -> dict[str, Any]:
    needed = {stop.size for stop in track.stops}
    stride = max(1, -(-len(track.sizes) // POINTS))
    last = len(track.sizes) - 1
    kept = [i for i, size in enumerate(track.sizes) if i % stride == 0 or i == last or size in needed]
    return {
        "reranker": track.reranker,
        "sizes": [int(track.sizes[i]) for i in kept],
        "scores": [_short(track.score[i]) for i in kept],
        "stops": [[rules.index(stop.rule), stop.size, place[view.text(stop.index)]] for stop in track.stops],
    }


def _short(value: float) -> float | None:
    """Six digits are more than a chart or a table shows."""
    return float(f"{value:.6g}") if math.isfinite(value) else None
