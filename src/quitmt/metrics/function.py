"""Turns any function into a metric: ``u(hypothesis, reference)`` or ``u(source, hypothesis, reference)`` as utility,
``score(source, candidate)`` as estimator, plain or async."""

from __future__ import annotations

import functools
import hashlib
import inspect
from collections.abc import Awaitable, Callable, Sequence
from types import CodeType
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from quitmt.errors import UsageError
from quitmt.loops.waiting import Awaiting
from quitmt.protocols import QualityEstimator, Utility, UtilityTraits
from quitmt.types import Candidate, Segment


class FunctionArena:
    __slots__ = ("source", "texts")

    def __init__(self, source: str) -> None:
        self.source = source
        self.texts: list[str] = []


class FunctionUtility:
    """Calls the function once for each ordered pair of distinct texts."""

    traits = UtilityTraits(encodes_whole=True)

    def __init__(self, function: Callable[..., float], *, name: str | None = None) -> None:
        self._function = function
        self._takes_source = takes_source(function, "u(hypothesis, reference) or u(source, hypothesis, reference)")
        self.signature = f"function:{name or _name(function)}{code(function)}"

    def open(self, segment: Segment) -> FunctionArena:
        return FunctionArena(segment.source)

    def encode(self, batch: Sequence[tuple[FunctionArena, Sequence[str]]]) -> None:
        for arena, texts in batch:
            arena.texts.extend(texts)

    def compare(
        self, arena: FunctionArena, rows: range, columns: range
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        known: dict[tuple[int, int], float] = {}

        def utility(hypothesis: int, reference: int) -> float:
            pair = hypothesis, reference
            if pair not in known:  # rows and columns may overlap
                known[pair] = self._call(arena, hypothesis, reference)
            return known[pair]

        forward = [[utility(row, column) for column in columns] for row in rows]
        backward = [[utility(column, row) for column in columns] for row in rows]
        shape = len(rows), len(columns)
        return np.array(forward, dtype=np.float64).reshape(shape), np.array(backward, dtype=np.float64).reshape(shape)

    def pairs(
        self, arena: FunctionArena, rows: npt.NDArray[np.int64], columns: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.float64]:
        scores = [self._call(arena, *pair) for pair in zip(rows.tolist(), columns.tolist(), strict=True)]
        return np.array(scores, dtype=np.float64)

    def _call(self, arena: FunctionArena, hypothesis: int, reference: int) -> float:
        before = (arena.source,) if self._takes_source else ()
        return float(self._function(*before, arena.texts[hypothesis], arena.texts[reference]))


class FunctionEstimator:
    """Calls ``score(source, candidate)`` once per pair, or a ``batched`` ``score(pairs)`` once for all pairs, which may
    have many sources. The awaitables of async functions are awaited together."""

    def __init__(self, function: Callable[..., Any], *, name: str | None = None, batched: bool = False) -> None:
        self._function, self._batched = function, batched
        wanted = ("score(pairs), with a list of (source, candidate)", 1) if batched else ("score(source, candidate)", 2)
        self.signature = signed(function, name, *wanted)
        self._awaiting: Awaiting | None = None

    def score(self, pairs: Sequence[tuple[Segment, Candidate]]) -> npt.NDArray[np.float64]:
        texts = [(segment.source, candidate.text) for segment, candidate in pairs]
        if self._batched:
            [scores] = self._awaited([self._function(texts)])
        else:
            scores = self._awaited([self._function(*pair) for pair in texts])
        return np.asarray(scores, np.float64)

    def _awaited(self, results: list[Any]) -> list[Any]:
        if not any(isinstance(one, Awaitable) for one in results):
            return results
        self._awaiting = self._awaiting or Awaiting()
        return self._awaiting.all(results)


def as_utility(thing: Any, name: str | None = None) -> Utility[Any]:
    """Returns a utility unchanged and wraps a function."""
    if _has(thing, "open", "encode", "compare"):
        return cast(Utility[Any], _signed(thing))
    return FunctionUtility(_callable(thing, "a function or a Utility (open, encode, compare)"), name=name)


def as_estimator(thing: Any, name: str | None = None) -> QualityEstimator:
    """Returns a quality estimator unchanged and wraps a function."""
    if _has(thing, "score"):
        return cast(QualityEstimator, _signed(thing))
    return FunctionEstimator(_callable(thing, "a function or a QualityEstimator (score)"), name=name)


def _has(thing: Any, *methods: str) -> bool:
    return not isinstance(thing, type) and all(callable(getattr(thing, name, None)) for name in methods)


def _signed(thing: Any) -> Any:
    if not isinstance(getattr(thing, "signature", None), str):
        hint = "a short text that names it and every setting that changes its results"
        raise UsageError(f"the metric {_name(thing)} has no signature", hint=hint)
    return thing


def _callable(thing: Any, wanted: str) -> Any:
    if isinstance(thing, type):
        raise UsageError(f"{thing.__qualname__} is a class, not {wanted}", hint="name an object of it")
    if not callable(thing):
        raise UsageError(f"an object of {type(thing).__qualname__} isn't a metric", hint=f"it must be {wanted}")
    return thing


def _name(thing: Any) -> str:
    return str(getattr(thing, "__qualname__", type(thing).__qualname__))


def signed(function: Any, name: str | None, wanted: str, count: int) -> str:
    """The signature of a function; raises UsageError if it doesn't take ``count`` arguments."""
    _check_arguments(_callable(function, wanted), count, wanted)
    return f"function:{name or _name(function)}{code(function)}"


def code(function: Any) -> str:
    """A digest of a function's code and defaults, so that an edited function has another signature. It leaves out the
    functions that it calls, and is empty for built-in functions, which have no code."""
    text = _code(function)
    return f"|code:{hashlib.blake2b(text.encode(), digest_size=4).hexdigest()}" if text else ""


def _code(function: Any) -> str:
    if isinstance(function, functools.partial):
        inner = _code(function.func)
        return inner and inner + _constant(function.args) + _constant(tuple(sorted(function.keywords.items())))
    called = function if hasattr(function, "__code__") else function.__call__
    compiled = getattr(called, "__code__", None)
    text = ""
    if isinstance(compiled, CodeType):
        named = tuple(sorted((getattr(called, "__kwdefaults__", None) or {}).items()))
        text = _constant(compiled) + _constant(getattr(called, "__defaults__", None)) + _constant(named)
    decorated = getattr(function, "__wrapped__", None)
    return text if decorated is None else text + _code(decorated)


def _constant(value: Any) -> str:
    """A text that is the same in every process. Values that aren't constants are represented by their type, because
    their ``repr`` may hold an address and mutable ones may be caches."""
    if isinstance(value, CodeType):
        names = value.co_varnames[: value.co_argcount] + value.co_names + value.co_freevars
        parts = [value.co_code, value.co_exceptiontable, names, value.co_consts]
        return f"code({','.join(map(_constant, parts))})"
    if isinstance(value, tuple):
        return f"({','.join(map(_constant, value))})"
    if isinstance(value, frozenset):  # its order differs between processes
        return f"{{{','.join(sorted(map(_constant, value)))}}}"
    if value is None or value is ... or type(value) in (bool, int, float, complex, str, bytes):
        return repr(value)
    return type(value).__qualname__


def _parameters(function: Callable[..., float]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):  # some built-in functions have no signature
        return None


def takes_source(function: Callable[..., float], wanted: str) -> bool:
    """Whether a function takes (source, hypothesis, reference) rather than (hypothesis, reference).

    A third parameter with a default is the reference only if the first is ``source`` or ``src``. Raises UsageError for
    functions that take neither.
    """
    signature = _parameters(function)
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    texts = [one for one in signature.parameters.values() if one.kind in kinds] if signature else []
    required = sum(one.default is inspect.Parameter.empty for one in texts)
    three = required == 3 or (required < 3 <= len(texts) and texts[0].name in ("source", "src"))
    _check_arguments(function, 3 if three else 2, wanted)
    return three


def _check_arguments(function: Callable[..., float], count: int, wanted: str) -> None:
    signature = _parameters(function)
    try:
        if signature is not None:
            signature.bind(*[""] * count)
    except TypeError:
        message = f"{_name(function)}{signature} cannot be called as a metric"
        raise UsageError(message, hint=f"it must be {wanted}") from None
