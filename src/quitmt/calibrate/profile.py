"""A profile: a rule that keeps a guarantee, the guarantee, and the conditions it was proven for. A JSON file."""

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

from quitmt.errors import InputError, OutputError, UsageError, setting
from quitmt.names import is_function, refuse_functions
from quitmt.stop import RULES

log = logging.getLogger(__name__)

VERSION = 2
LARGEST = 1 << 24
"""Most characters of a file: a profile has a line per rule that was tried, and other files may never end."""


@dataclass(frozen=True, slots=True)
class Point:
    """A rule on the calibration set."""

    rule: str
    """As ``--stop`` takes it."""
    mean_size: float
    """Candidates per segment."""
    mean_loss: float
    """In units of the score."""
    exceeding: float | None
    """The share of segments that lose more than the guarantee allows; None for a guarantee about quality."""
    proven: bool
    quality: dict[str, float] | None = None
    """For a guarantee about quality, by metric: rule − whole pool in σ, positive where the rule is better."""
    segments: int | None = None
    """About how many segments the proof needs; None if these segments break the guarantee."""


@dataclass(frozen=True, slots=True)
class Guarantee:
    max_loss: float
    """In units of the score."""
    risk: float
    """The largest share of segments that may lose more."""
    confidence: float | None
    """None for a guarantee that holds on average over calibration sets."""
    segments: int

    def __str__(self) -> str:
        # Not rounded: 97.5% are not 98%.
        sure = "on average" if self.confidence is None else f"with {100 * self.confidence:.10g}% confidence"
        return f"{sure}, no more than {100 * self.risk:.10g}% of segments lose more than {self.max_loss:.4g} of score"


@dataclass(frozen=True, slots=True)
class QualityGuarantee:
    """The mean quality equals that of the whole pool within a margin."""

    margin: float
    """In standard deviations of the whole pool's quality over segments."""
    not_worse: bool
    """True for "not worse", False for "equivalent"."""
    confidence: float
    segments: int
    metrics: dict[str, float]
    """By metric: the standard deviation of the whole pool's quality."""
    signatures: dict[str, str]
    """By metric."""

    def __str__(self) -> str:
        names = list(self.metrics)
        by = " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
        sure, within = f"with {100 * self.confidence:.10g}% confidence", f"{self.margin:.10g} sd"
        if self.not_worse:
            return f"{sure}, the mean quality is not worse than the whole pool's by more than {within} by {by}"
        return f"{sure}, the mean quality is equivalent to the whole pool's within {within} by {by}"


@dataclass(frozen=True, slots=True)
class Profile:
    rule: str
    """The cheapest rule that keeps the guarantee."""
    step: int
    budget: int
    generator: str
    """Signature of the generator of the pools, without its seed; empty if unknown."""
    reranker: str
    """Signature."""
    source_language: str | None
    target_language: str | None
    guarantee: Guarantee | QualityGuarantee
    spread: float
    """Standard deviation of the whole pool's best score over segments: the sd of ``--max-loss 0.02sd``."""
    curve: tuple[Point, ...]
    """Every rule that was tried."""
    recipe: dict[str, Any] | None = None
    """The recipe of the calibration, except settings that do not affect results."""

    def check_fits(
        self,
        generator: str | None,
        reranker: str,
        languages: tuple[str | None, str | None],
        shape: tuple[int, int],
        *,
        own: bool = True,
    ) -> None:
        """Refuse another reranker, because thresholds are in the units of its scores. Warn about all other differences.
        ``generator`` is None for recorded pools, which are not checked. ``own`` is False for the profiles that come
        with quitmt."""
        if own and self.reranker != reranker:
            raise UsageError(
                f"{setting('stop.profile')} was made for {setting('rerank.name')} {self.reranker}, not for {reranker}",
                hint="rerank as it was calibrated, or calibrate again",
            )
        for difference in self.differences(generator, languages, shape):
            log.warning(f"the figures of this rule need not hold here: {difference}")

    def differences(
        self, generator: str | None, languages: tuple[str | None, str | None], shape: tuple[int, int]
    ) -> Iterator[str]:
        """Differences between a run and the calibration, in words."""
        if generator is not None and not self.generator:
            yield "they do not say which model sampled their pools"
        elif generator is not None and not self.is_of(generator):
            yield f"they are for the candidates of {self.generator}, not of {seedless(generator)}"
        own = self.source_language, self.target_language
        if None not in (*languages, *own) and languages != own:
            yield f"they are for {own[0]}-{own[1]}, not for {languages[0]}-{languages[1]}"
        if shape != (self.step, self.budget):
            (k, n), names = shape, ("stop.k", "stop.n")
            made = " ".join(setting(name, value) for name, value in zip(names, (self.step, self.budget), strict=True))
            requested = " ".join(setting(name, value) for name, value in zip(names, (k, n), strict=True))
            yield f"they are for {made}, not for {requested}"

    def is_of(self, generator: str) -> bool:
        """Whether its pools came from a generator with this signature, with any seed."""
        return _weighed(self.generator) == _weighed(seedless(generator))

    def within_loss(self, max_loss: float) -> Point | None:
        """The cheapest rule whose mean loss on the calibration set is at most ``max_loss``."""
        return min(
            (one for one in self.curve if one.mean_loss <= max_loss), key=lambda one: one.mean_size, default=None
        )

    def within_cost(self, max_cost: float) -> Point | None:
        """The rule that loses least with at most ``max_cost`` candidates per segment on average."""
        found = [one for one in self.curve if one.mean_size <= max_cost]
        return min(found, key=lambda one: (one.mean_loss, one.mean_size), default=None)

    @property
    def functions(self) -> list[str]:
        """The rules that are user functions; reading them from a file must be allowed explicitly."""
        rules = (self.rule, *(point.rule for point in self.curve))
        return [rule for rule in rules if is_function(rule, RULES)]

    def to_json(self) -> str:
        fields = {"profile": VERSION, **asdict(self)}
        if isinstance(self.guarantee, Guarantee):
            fields["curve"] = [{k: v for k, v in point.items() if v is not None} for point in fields["curve"]]
        return json.dumps(fields, indent=1, ensure_ascii=False) + "\n"


def seedless(generator: str) -> str:
    """A generator's signature without its seed: samples with another seed keep the guarantee as well."""
    return re.sub(r"[|,]seed:[^|,]*", "", generator)


def _weighed(generator: str) -> str:
    """A signature without the model's name if it identifies the weights: one folder may have several spellings."""
    name, mark, rest = generator.partition("|w:")
    return f"{name.partition(':')[0]}{mark}{rest}" if mark else generator


def write(profile: Profile, path: str) -> None:
    try:
        Path(path).write_text(profile.to_json(), encoding="utf-8")
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from None


def read(path: str, *, allow_functions: bool = False) -> Profile:
    """A profile whose rules are functions is refused, unless they are allowed."""
    try:
        with Path(path).open(encoding="utf-8") as file:
            found = parse(file.read(LARGEST))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError):
        raise InputError(f"{path} is not a profile", hint="quitmt calibrate writes them") from None
    if not allow_functions:
        refuse_functions((f"{path}, rule", rule) for rule in found.functions)
    return found


def parse(text: str) -> Profile:
    fields: dict[str, Any] = json.loads(text)
    if fields.pop("profile") != VERSION:
        raise ValueError("another version")
    guaranteed = fields.pop("guarantee")
    guarantee = (
        _checked(QualityGuarantee(**guaranteed)) if "metrics" in guaranteed else _checked(Guarantee(**guaranteed))
    )
    curve = tuple(_checked(Point(**point)) for point in fields.pop("curve"))
    return _checked(Profile(guarantee=guarantee, curve=curve, **fields))


Part = TypeVar("Part", Profile, Guarantee, QualityGuarantee, Point)
HINTS: dict[type, dict[str, Any]] = {
    kind: get_type_hints(kind) for kind in (Profile, Guarantee, QualityGuarantee, Point)
}


def _checked(part: Part) -> Part:
    """Check a part that was read from a file: every field has its type, and no number is NaN or infinite."""
    for name, hint in HINTS[type(part)].items():
        if not _fits(getattr(part, name), hint):
            raise TypeError(f"{name} is {getattr(part, name)!r}")
    return part


def _fits(value: Any, hint: Any) -> bool:
    if isinstance(hint, UnionType):
        return any(_fits(value, one) for one in get_args(hint))
    if get_origin(hint) is dict:
        inner = get_args(hint)[1]
        return isinstance(value, dict) and (inner is Any or all(_fits(one, inner) for one in value.values()))
    if hint is float:
        return type(value) in (int, float) and math.isfinite(value)
    return type(value) is (get_origin(hint) or hint)
