"""Parts that are given as objects or functions: taken as they are, or refused with the nearest right thing."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from quitmt import rerank, stop
from quitmt.errors import UsageError
from quitmt.generate.function import as_generator
from quitmt.protocols import Generator, Reranker, StoppingRule

REFERENCES = frozenset(("reference", "references", "ref", "refs"))
HYPOTHESES = frozenset(("hypothesis", "hypotheses", "hyp", "candidate", "cand", "translation", "mt"))
SOURCES = frozenset(("source", "sources", "src", "prompt"))
"""What parameters of functions are called, by which a utility is told from a reward."""


def generator_of(model: Any) -> Generator:
    _refuse_class("model", model)
    found = as_generator(model)
    _refuse_lacking("model", found, "generator", ("signature", "close"), "quitmt.protocols.Generator")
    return found


def reranker_of(given: Any) -> Reranker[Any]:
    """A reranker, or a reward as one."""
    for own in (rerank.mbr, rerank.qe):
        if given is own:
            name = own.__name__
            hint = f"give it a metric: {name}(metric)"
            raise UsageError(f"reranker must be a reranker, not quitmt.{name} itself", hint=hint)
    _refuse_class("reranker", given)
    if hasattr(given, "extend"):
        _refuse_lacking("reranker", given, "reranker", ("signature", "open"), "quitmt.protocols.Reranker")
        return given  # type: ignore[no-any-return]
    if all(hasattr(given, part) for part in ("open", "encode", "compare")):
        raise UsageError(f"reranker: {type(given).__name__} is a utility", hint="wrap it in quitmt.mbr")
    if callable(given) and not hasattr(given, "score"):
        _refuse_utility(given)
    return rerank.qe(given)


def rule_of(given: Any) -> StoppingRule:
    _refuse_class("rule", given)
    return stop.checked(given, f"rule: {getattr(given, '__name__', type(given).__name__)}")


def _refuse_class(keyword: str, given: Any) -> None:
    if isinstance(given, type):
        hint = f"give an object of it, as {given.__name__}() makes"
        raise UsageError(f"{keyword}: {given.__name__} is a class", hint=hint)


def _refuse_lacking(keyword: str, given: Any, what: str, parts: tuple[str, ...], protocol: str) -> None:
    lacking = [part for part in parts if not hasattr(given, part)]
    if lacking:
        told = f"{type(given).__name__} is no {what}: it has no {' and no '.join(lacking)}"
        raise UsageError(f"{keyword}: {told}", hint=f"{protocol} says what one has")


def _refuse_utility(function: Callable[..., Any]) -> None:
    """A function of two texts is a reward, of a source and a candidate, unless the names of its parameters say else."""
    names = _positional(function)
    shown = f"{getattr(function, '__name__', type(function).__name__)}({', '.join(names)})"
    if not REFERENCES.isdisjoint(names[:2]) or (len(names) == 3 and names[2] in REFERENCES):
        told = f"reranker: {shown} compares with a reference, so it is a utility"
        raise UsageError(told, hint="wrap it in quitmt.mbr")
    if len(names) == 2 and (names[0] in HYPOTHESES or (names[1] in SOURCES and names[0] not in SOURCES)):
        hint = "take the source first; a utility of two candidates is wrapped in quitmt.mbr"
        raise UsageError(f"reranker: {shown} is called with (source, candidate), in this order", hint=hint)


def _positional(function: Callable[..., Any]) -> list[str]:
    """The names of the parameters that must be given, in lower case; none where a function does not tell."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [one.name.lower() for one in parameters if one.kind in kinds and one.default is inspect.Parameter.empty]
