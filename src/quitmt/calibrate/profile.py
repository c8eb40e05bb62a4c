"""A profile: the rule that keeps a promise, what the promise is, and for what it was proven. A file of JSON."""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from quitmt.errors import InputError, OutputError

log = logging.getLogger(__name__)

VERSION = 1


@dataclass(frozen=True, slots=True)
class Point:
    """A rule on the calibration set."""

    rule: str
    """As ``--stop`` takes it."""
    mean_size: float
    """Candidates a segment."""
    mean_loss: float
    """In units of the score."""
    exceeding: float
    """The share of segments that lose more than the promise allows."""
    proven: bool


@dataclass(frozen=True, slots=True)
class Promise:
    max_loss: float
    """In units of the score."""
    risk: float
    """At most this share of segments loses more."""
    confidence: float | None
    """With this confidence; None: on average over calibration sets."""
    segments: int

    def __str__(self) -> str:
        # Not rounded: 97.5% are not 98%.
        sure = "on average" if self.confidence is None else f"with {100 * self.confidence:.10g}% confidence"
        return f"{sure}, no more than {100 * self.risk:.10g}% of segments lose more than {self.max_loss:.4g} of score"


@dataclass(frozen=True, slots=True)
class Profile:
    rule: str
    """The cheapest one that keeps the promise."""
    step: int
    budget: int
    generator: str
    """Signature of what the pools were sampled with, without its seed; empty if that is not known."""
    reranker: str
    """Signature."""
    source_language: str | None
    target_language: str | None
    promise: Promise
    spread: float
    """Standard deviation over segments of the whole pool's best score: the sd of ``--max-loss 0.02sd``."""
    curve: tuple[Point, ...]
    """Every rule that was looked at."""

    def differences(
        self, generator: str, reranker: str, languages: tuple[str | None, str | None], step: int, budget: int
    ) -> Iterator[str]:
        """What the promise does not hold for, in words."""
        if not self.generator and generator:
            yield "it does not say which model its pools came from"
        elif self.generator != seedless(generator):
            yield f"it is for the candidates of {self.generator}, not of {seedless(generator)}"
        if self.reranker != reranker:
            yield f"it is for {self.reranker}, not for {reranker}"
        if None not in (*languages, self.source_language, self.target_language) and languages != (
            self.source_language,
            self.target_language,
        ):
            own = f"{self.source_language}-{self.target_language}"
            yield f"it is for {own}, not for {languages[0]}-{languages[1]}"
        if (step, budget) != (self.step, self.budget):
            yield f"it is for -k {self.step} -n {self.budget}, not for -k {step} -n {budget}"

    def warn(
        self, generator: str, reranker: str, languages: tuple[str | None, str | None], step: int, budget: int
    ) -> None:
        """Say where a run is not what the profile was made for."""
        for difference in self.differences(generator, reranker, languages, step, budget):
            log.warning("the figures of this rule need not hold here: %s", difference)

    def within_loss(self, max_loss: float) -> Point | None:
        """The cheapest rule whose mean loss on the calibration set is at most that."""
        return min((one for one in self.curve if one.mean_loss <= max_loss), key=_cost, default=None)

    def within_cost(self, max_cost: float) -> Point | None:
        """The rule that loses least with at most so many candidates a segment, on average."""
        found = [one for one in self.curve if one.mean_size <= max_cost]
        return min(found, key=lambda one: (one.mean_loss, one.mean_size), default=None)

    def to_json(self) -> str:
        return json.dumps({"profile": VERSION, **asdict(self)}, indent=1, ensure_ascii=False) + "\n"


def _cost(point: Point) -> float:
    return point.mean_size


def seedless(generator: str) -> str:
    """A generator's signature without its seed: other samples of the same distribution keep the promise as well."""
    return re.sub(r"[|,]seed:[^|,]*", "", generator)


def write(profile: Profile, path: str) -> None:
    try:
        Path(path).write_text(profile.to_json(), encoding="utf-8")
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from None


def read(path: str) -> Profile:
    try:
        return parse(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise InputError(f"{path} is not a profile", hint="quitmt calibrate writes them") from None


def parse(text: str) -> Profile:
    fields: dict[str, Any] = json.loads(text)
    if fields.pop("profile") != VERSION:
        raise ValueError("another version")
    promise = _checked(Promise(**fields.pop("promise")))
    curve = tuple(_checked(Point(**point)) for point in fields.pop("curve"))
    return _checked(Profile(promise=promise, curve=curve, **fields))


Part = TypeVar("Part", Profile, Promise, Point)


def _checked(part: Part) -> Part:
    """A file may hold anything: every field must be of its type, and no number NaN or infinite."""
    for name, wanted in get_type_hints(type(part)).items():
        value = getattr(part, name)
        allowed = get_args(wanted) if isinstance(wanted, UnionType) else (get_origin(wanted) or wanted,)
        number = float in allowed and type(value) is int
        if not (number or type(value) in allowed) or (isinstance(value, float) and not math.isfinite(value)):
            raise TypeError(f"{name} is {value!r}")
    return part
