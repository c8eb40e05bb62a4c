"""Test sets: sources with their references, from plain files, tab-separated ones, sacrebleu's, and WMT25's JSONL.

    news.en (and references apart)    a source a line; the files of references have as many lines
    news.tsv                          source TAB reference [TAB reference …]
    wmt24:en-de                       what sacrebleu has, with its default references
    wmt25-genmt.jsonl:en-cs_CZ        a pair of the WMT25 general release (see ``wmt25``); a short en-cs will do

Invariants:
- Ids are unique and stable: the line number, as ``quitmt translate`` has it, or the id within the release. A sample
  keeps the ids of the whole, so what was sampled for a part serves the whole too.
- Every source is text, and every reference translation covers every segment.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from quitmt.engine.bridge import iterate
from quitmt.errors import InputError, UsageError, unknown
from quitmt.evaluate import metrics
from quitmt.files.lines import read_lines
from quitmt.lab import wmt25
from quitmt.types import Segment

_PAIR = re.compile(r"[a-z]{2,3}(_\w+)?-[a-z]{2,3}(_\w+)?")
_JSONL = (".jsonl", ".jsonl.gz")
_TSV = (".tsv", ".tsv.gz", ".tab")


@dataclass(frozen=True, slots=True)
class TestSet:
    """Segments, with what their translations are judged by."""

    __test__: ClassVar[bool] = False  # not for pytest, whatever its name

    name: str
    segments: tuple[Segment, ...]
    references: tuple[tuple[str, ...], ...]
    """One tuple for each reference translation, as in ``evaluate``; there may be none."""
    documents: tuple[str | None, ...]
    """The document of each segment, where that is known."""

    def __post_init__(self) -> None:
        if not self.segments:
            raise InputError(f"the test set {self.name} has no segments")
        seen: set[str] = set()
        for segment in self.segments:
            if segment.id in seen:
                raise InputError(f"the test set {self.name} has the id {segment.id!r} a second time")
            seen.add(segment.id)
        for texts in (self.documents, *self.references):
            if len(texts) != len(self.segments):
                raise InputError(f"the test set {self.name} has {len(self.segments)} segments, but {len(texts)} texts")

    @property
    def judged(self) -> metrics.TestSet:
        """As metrics want it."""
        return metrics.TestSet(tuple(segment.source for segment in self.segments), self.references)

    def only(self, places: Sequence[int]) -> TestSet:
        """Some of its segments, by their places from 0."""
        return TestSet(
            self.name,
            tuple(self.segments[place] for place in places),
            tuple(tuple(texts[place] for place in places) for texts in self.references),
            tuple(self.documents[place] for place in places),
        )


def load(
    spec: str,
    *,
    references: Sequence[str] = (),
    first: int | None = None,
    sample: int | None = None,
    seed: int = 0,
    paragraphs: bool = True,
) -> TestSet:
    """The test set a text names (see above), all of it, its first few segments, or a seeded sample of them.

    ``references`` are the files that go with a plain file of sources. ``paragraphs`` splits the documents of WMT25's
    release as its human evaluation did. A sample is in the order of the whole, a larger one of the same seed holds the
    smaller one, and if there are fewer segments than asked for, all are taken.
    """
    for name, value in (("first", first), ("sample", sample)):
        if value is not None and value < 1:
            raise UsageError(f"{name} must be at least 1, not {value}")
    if first is not None and sample is not None:
        raise UsageError("a part of a test set is either the first segments or a sample, not both")
    whole = _whole(spec, references, paragraphs)
    count = len(whole.segments)
    if first is not None and first < count:
        return whole.only(range(first))
    if sample is not None and sample < count:
        return whole.only(sorted(np.random.default_rng(seed).permutation(count)[:sample].tolist()))
    return whole


def _whole(spec: str, references: Sequence[str], paragraphs: bool) -> TestSet:
    place, _, pair = spec.rpartition(":")
    has_pair = bool(place and _PAIR.fullmatch(pair)) and not Path(spec).exists()
    path = place if has_pair else spec
    if path.endswith((*_JSONL, *_TSV)) or (has_pair and not Path(path).exists()):
        if references:
            raise UsageError(f"the test set {spec} brings its own references", hint="name no files of references")
        if path.endswith(_JSONL):
            return _from_release(spec, path, pair if has_pair else None, paragraphs)
        return _from_sacrebleu(spec, path, pair) if has_pair else _from_columns(spec)
    if not references:
        hint = "name files of references, a .tsv file, or a set of sacrebleu's such as wmt24:en-de"
        raise UsageError(f"the test set {spec} has no references", hint=hint)
    return _from_files(spec, spec, references, None)


def _from_files(name: str, source: str, references: Sequence[str], documents: str | None) -> TestSet:
    sources = _lines(source)
    aligned = [_lines(path) for path in (*references, *([documents] if documents else []))]
    for path, lines in zip((*references, documents), aligned, strict=False):
        if len(lines) != len(sources):
            raise InputError(f"{path} has {len(lines)} lines, but {source} has {len(sources)}")
    for path, lines in zip((source, *references), (sources, *aligned), strict=False):
        for number, line in enumerate(lines, start=1):
            _check_text(line, f"{path}, line {number}", "it")
    ids = aligned.pop() if documents else [None] * len(sources)
    return TestSet(name, _numbered(sources), tuple(map(tuple, aligned)), tuple(ids))


def _from_columns(path: str) -> TestSet:
    rows = [line.split("\t") for line in _lines(path)]
    for number, row in enumerate(rows, start=1):
        place = f"{path}, line {number}"
        if len(row) < 2:
            raise InputError(f"{place}: there is no reference", hint="a line is source TAB reference [TAB reference …]")
        if len(row) != len(rows[0]):
            raise InputError(f"{place}: {len(row)} columns, but {len(rows[0])} in the first line")
        for column, text in enumerate(row):
            _check_text(text, place, f"reference {column}" if column else "the source")
    sources, *references = zip(*rows, strict=True) if rows else [()]
    return TestSet(path, _numbered(sources), tuple(references), (None,) * len(rows))


def _from_sacrebleu(spec: str, name: str, pair: str) -> TestSet:
    from sacrebleu.dataset import DATASETS

    if name not in DATASETS:
        raise unknown("test set", name, DATASETS)
    dataset = DATASETS[name]
    if pair not in dataset.langpairs:
        raise unknown(f"language pair of {name}", pair, dataset.langpairs)
    try:
        fields = dict(zip(dataset.fieldnames(pair), dataset.get_files(pair), strict=True))
        references = dataset.get_reference_files(pair)
    except (Exception, SystemExit) as error:  # sacrebleu leaves the program when a download is damaged
        raise InputError(
            f"the test set {spec} is not here and could not be downloaded: {error}",
            hint=f"with a network, run: sacrebleu -t {name} -l {pair} --echo src ref > /dev/null; or copy the folder "
            f"~/.sacrebleu/{name} ($SACREBLEU/{name}) from a machine that has it",
        ) from None
    return _from_files(spec, fields["src"], references, fields.get("docid"))


def _from_release(spec: str, path: str, pair: str | None, paragraphs: bool) -> TestSet:
    units = wmt25.read(path, _lines(path), pair, paragraphs=paragraphs)
    for unit in units:
        _check_text(unit.source, unit.place, "the source")
    names = [name for name in units[0].references if all(unit.references.get(name, "").strip() for unit in units)]
    return TestSet(
        spec,
        tuple(Segment(unit.id, unit.source) for unit in units),
        tuple(tuple(unit.references[name] for unit in units) for name in sorted(names)),
        tuple(unit.document for unit in units),
    )


def _lines(path: str) -> list[str]:
    return list(iterate(read_lines(path)))


def _numbered(sources: Sequence[str]) -> tuple[Segment, ...]:
    return tuple(Segment(str(number), source) for number, source in enumerate(sources, start=1))


def _check_text(text: str, place: str, what: str) -> None:
    if not text.strip():
        raise InputError(f"{place}: {what} is empty", hint="a test set has a source and references on every line")
