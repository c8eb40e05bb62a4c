"""Test sets: sources with their references, from plain files, tab-separated ones, sacrebleu's, and WMT25's JSONL.

    sources = "news.en"                           a source a line; the files of references have as many lines
    tsv     = "news.tsv"                          source TAB reference [TAB reference …]
    name    = "wmt24:en-de"                       what sacrebleu has, with its default references
    jsonl   = "wmt25-genmt.jsonl:en-cs_CZ"        a pair of the WMT25 general release; a short en-cs will do

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
from typing import Any, ClassVar

import numpy as np

from quitmt.errors import InputError, UsageError, unknown
from quitmt.evaluate import metrics
from quitmt.files.lines import read_lines
from quitmt.lab import wmt25
from quitmt.lab.study import TestSetSettings
from quitmt.loops.iterate import iterate
from quitmt.types import Segment

_PAIR = re.compile(r"[a-z]{2,3}(_\w+)?-[a-z]{2,3}(_\w+)?")


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

    def part(self, *, first: int | None = None, sample: int | None = None, seed: int = 0) -> TestSet:
        """The first few segments, a seeded sample of them, or all.

        A sample is in the order of the whole, and a larger one of the same seed holds the smaller one. If there are
        fewer segments than asked for, all are taken.
        """
        for name, value in (("first", first), ("sample", sample)):
            if value is not None and value < 1:
                raise UsageError(f"{name} must be at least 1, not {value}")
        if first is not None and sample is not None:
            raise UsageError("a part of a test set is either the first segments or a sample, not both")
        count = len(self.segments)
        if first is not None and first < count:
            return self._only(range(first))
        if sample is not None and sample < count:
            return self._only(sorted(np.random.default_rng(seed).permutation(count)[:sample].tolist()))
        return self

    def _only(self, places: Sequence[int]) -> TestSet:
        """Some of its segments, by their places from 0."""
        return TestSet(
            self.name,
            tuple(self.segments[place] for place in places),
            tuple(tuple(texts[place] for place in places) for texts in self.references),
            tuple(self.documents[place] for place in places),
        )


def load(settings: TestSetSettings) -> TestSet:
    """The test set of a study."""
    if settings.references and settings.sources is None:
        raise UsageError("only a plain file of sources has its references in files of their own")
    if settings.tsv is not None:
        whole = from_columns(settings.tsv)
    elif settings.sources is not None:
        whole = from_files(settings.sources, settings.references)
    elif settings.name is not None:
        whole = from_sacrebleu(settings.name)
    elif settings.jsonl is not None:
        whole = from_release(*_split(settings.jsonl))
    else:
        raise UsageError("no test set is named", hint="one of tsv, sources, name and jsonl must be there")
    return whole.part(first=settings.limit)


def from_files(path: str, references: Sequence[str] = ()) -> TestSet:
    """Files of a text a line; without references, for metrics that need none."""
    sources, *translations = _aligned([path, *references])
    for name, lines in zip((path, *references), (sources, *translations), strict=True):
        _check_texts(name, lines)
    return TestSet(path, _numbered(sources), tuple(map(tuple, translations)), (None,) * len(sources))


def from_columns(path: str) -> TestSet:
    """A tab-separated file: source, reference, and more references if there are."""
    rows = [line.split("\t") for line in _lines(path)]
    for number, row in enumerate(rows, start=1):
        place = f"{path}, line {number}"
        if len(row) < 2:
            raise InputError(f"{place}: there is no reference", hint="a line is source TAB reference [TAB reference …]")
        if len(row) != len(rows[0]):
            raise InputError(f"{place}: {len(row)} columns, but {len(rows[0])} in the first line")
        for column, text in enumerate(row):
            if not text.strip():
                raise InputError(f"{place}: {f'reference {column}' if column else 'the source'} is empty")
    sources, *references = zip(*rows, strict=True) if rows else [()]
    return TestSet(path, _numbered(sources), tuple(references), (None,) * len(rows))


def from_sacrebleu(spec: str) -> TestSet:
    """A set of sacrebleu's and a language pair, ``wmt24:en-de``, downloaded if it is not here yet."""
    from sacrebleu.dataset import DATASETS

    name, _, pair = spec.rpartition(":")
    if not name:
        raise UsageError(f"the test set {spec!r} names no language pair", hint="write it as wmt24:en-de")
    if name not in DATASETS:
        raise UsageError(f"there is no test set {name!r} for {pair}", hint="sacrebleu --list shows what there is")
    dataset: Any = DATASETS[name]
    if pair not in dataset.langpairs:
        raise unknown(f"language pair of {name}", pair, dataset.langpairs)
    try:
        fields = dict(zip(dataset.fieldnames(pair), dataset.get_files(pair), strict=True))
        references = dataset.get_reference_files(pair)
    except (Exception, SystemExit) as error:  # sacrebleu leaves the program when a download is damaged
        raise InputError(
            f"the test set {spec} is not here and could not be downloaded: {error}",
            hint=f"with a network, run sacrebleu -t {name} -l {pair} --echo src ref > /dev/null, or copy the folder "
            f"~/.sacrebleu/{name} ($SACREBLEU/{name}) from a machine that has it",
        ) from None
    documents = [fields["docid"]] if "docid" in fields else []
    sources, *others = _aligned([fields["src"], *references, *documents])
    _check_texts(fields["src"], sources)  # references may be empty where sacrebleu has them so, or scores would differ
    found = tuple(others.pop()) if documents else (None,) * len(sources)
    return TestSet(spec, _numbered(sources), tuple(map(tuple, others)), found)


def from_release(path: str, pair: str | None = None, *, paragraphs: bool = True) -> TestSet:
    """A pair of the WMT25 general release; ``paragraphs`` splits its documents as its human evaluation did.

    The references are those that every segment has; some pairs of the release have none.
    """
    units = wmt25.read(path, _lines(path), pair, paragraphs=paragraphs)
    names = [name for name in units[0].references if all(unit.references.get(name, "").strip() for unit in units)]
    return TestSet(
        f"{path}:{pair}" if pair else path,
        tuple(Segment(unit.id, unit.source) for unit in units),
        tuple(tuple(unit.references[name] for unit in units) for name in sorted(names)),
        tuple(unit.document for unit in units),
    )


def _split(spec: str) -> tuple[str, str | None]:
    """A path, and the language pair after it if there is one."""
    place, _, pair = spec.rpartition(":")
    return (place, pair) if place and _PAIR.fullmatch(pair) and not Path(spec).exists() else (spec, None)


def _aligned(paths: Sequence[str]) -> list[list[str]]:
    texts = [_lines(path) for path in paths]
    for path, lines in zip(paths, texts, strict=True):
        if len(lines) != len(texts[0]):
            raise InputError(f"{path} has {len(lines)} lines, but {paths[0]} has {len(texts[0])}")
    return texts


def _lines(path: str) -> list[str]:
    return list(iterate(read_lines(path)))


def _numbered(sources: Sequence[str]) -> tuple[Segment, ...]:
    return tuple(Segment(str(number), source) for number, source in enumerate(sources, start=1))


def _check_texts(path: str, lines: Sequence[str]) -> None:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            raise InputError(f"{path}, line {number} is empty", hint="leave the segment out of all files")
