"""Test sets: sources with their references, from plain or tab-separated files, sacrebleu, or WMT25's JSONL.

    sources = "news.en"                           one source per line; files of references have as many lines
    tsv     = "news.tsv"                          source TAB reference [TAB reference …]
    name    = "wmt24:en-de"                       a test set of sacrebleu, with its default references
    jsonl   = "wmt25-genmt.jsonl:en-cs_CZ"        a pair of the WMT25 general release; en-cs is enough if it is unique

Invariants:
- Ids are unique and stable: the line number, as in ``quitmt translate``, or the id within the release. The first part
  of a test set has the same ids, so its samples serve the whole test set too.
- Every source has text, and every reference translation covers every segment.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from quitmt.errors import InputError, UsageError, unknown
from quitmt.files.lines import read_lines
from quitmt.lab.study import wmt25
from quitmt.lab.study.settings import TestSetSettings
from quitmt.loops.iterate import iterate
from quitmt.types import Segment

_PAIR = re.compile(r"[a-z]{2,3}(_\w+)?-[a-z]{2,3}(_\w+)?")


@dataclass(frozen=True, slots=True)
class StudyTestSet:
    """Segments with their references."""

    __test__: ClassVar[bool] = False  # its name looks like a test to pytest

    name: str
    segments: tuple[Segment, ...]
    references: tuple[tuple[str, ...], ...]
    """One tuple per reference translation, as in ``evaluate``; there may be none."""

    def __post_init__(self) -> None:
        if not self.segments:
            raise InputError(f"the test set {self.name} has no segments")

    def first(self, count: int) -> StudyTestSet:
        """The first segments, or all if there are fewer."""
        return StudyTestSet(self.name, self.segments[:count], tuple(texts[:count] for texts in self.references))


def load(settings: TestSetSettings) -> StudyTestSet:
    """The test set of a study."""
    if settings.references and settings.sources is None:
        raise UsageError("only a plain file of sources has its references in separate files")
    if settings.tsv is not None:
        whole = from_columns(settings.tsv)
    elif settings.sources is not None:
        whole = from_files(settings.sources, settings.references)
    elif settings.name is not None:
        whole = from_sacrebleu(settings.name)
    else:
        whole = from_release(*_split(settings.jsonl or ""))
    return whole if settings.limit is None else whole.first(settings.limit)


def from_files(path: str, references: Sequence[str] = ()) -> StudyTestSet:
    """Files with one text per line; without references for metrics that need none."""
    sources, *translations = _aligned([path, *references])
    for name, lines in zip((path, *references), (sources, *translations), strict=True):
        _check_texts(name, lines)
    return StudyTestSet(path, _numbered(sources), tuple(map(tuple, translations)))


def from_columns(path: str) -> StudyTestSet:
    """A tab-separated file: source, reference, and optional further references."""
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
    return StudyTestSet(path, _numbered(sources), tuple(references))


def from_sacrebleu(spec: str) -> StudyTestSet:
    """A test set of sacrebleu and a language pair, ``wmt24:en-de``, downloaded if necessary."""
    from sacrebleu.dataset import DATASETS

    name, _, pair = spec.rpartition(":")
    if not name:
        raise UsageError(f"the test set {spec!r} names no language pair", hint="write it as wmt24:en-de")
    if name not in DATASETS:
        raise UsageError(f"there is no test set {name!r} for {pair}", hint="sacrebleu --list shows all test sets")
    dataset: Any = DATASETS[name]
    if pair not in dataset.langpairs:
        raise unknown(f"language pair of {name}", pair, dataset.langpairs)
    try:
        fields = dict(zip(dataset.fieldnames(pair), dataset.get_files(pair), strict=True))
        references = dataset.get_reference_files(pair)
    except (Exception, SystemExit) as error:  # sacrebleu exits when a download is damaged
        raise InputError(
            f"the test set {spec} is not on this machine and could not be downloaded: {error}",
            hint=f"with a network, run sacrebleu -t {name} -l {pair} --echo src ref > /dev/null, or copy the folder "
            f"~/.sacrebleu/{name} ($SACREBLEU/{name}) from a machine that has it",
        ) from None
    sources, *others = _aligned([fields["src"], *references])
    _check_texts(fields["src"], sources)  # sacrebleu's own empty references are kept, so that scores agree with it
    return StudyTestSet(spec, _numbered(sources), tuple(map(tuple, others)))


def from_release(path: str, pair: str | None = None) -> StudyTestSet:
    """A pair of the WMT25 general release, with documents split as in its human evaluation.

    Only references that every segment has are kept; some pairs of the release have none.
    """
    units = wmt25.read(path, _lines(path), pair)
    names = [name for name in units[0].references if all(unit.references.get(name, "").strip() for unit in units)]
    return StudyTestSet(
        f"{path}:{pair}" if pair else path,
        tuple(Segment(unit.id, unit.source) for unit in units),
        tuple(tuple(unit.references[name] for unit in units) for name in sorted(names)),
    )


def _split(spec: str) -> tuple[str, str | None]:
    """A path, and the language pair after it, if any."""
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
