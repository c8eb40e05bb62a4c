"""What the names of rerankers mean: the metric behind ``mbr:`` and ``qe:``, as texts from users.

    mbr:  chrf | comet | xcomet | metricx | embedding, the last four with :MODEL or without | MODULE:NAME
          vote, with :MODULE:NAME or without
    qe:   likelihood[:MODEL] | recorded:NAME | kiwi | xcomet | metricx, with :MODEL or without | MODULE:NAME
          WEIGHT*METRIC+WEIGHT*METRIC…, where a metric without a weight counts once

Our own names win over modules of the same name. A ``+`` always separates metrics, so no model in such a text has one.
"""

from __future__ import annotations

import math
from typing import Any

from quitmt.devices import Hardware
from quitmt.errors import UsageError, unknown
from quitmt.metrics import scorer
from quitmt.metrics.combined import Combined
from quitmt.metrics.function import as_estimator, as_utility, attribute
from quitmt.metrics.scorer import KINDS
from quitmt.protocols import QualityEstimator, Utility

RERANKERS = {
    "mbr:chrf": "the candidate the others agree with most, by chrF (exact)",
    "mbr:comet": "… by COMET-22; mbr:comet:MODEL takes another checkpoint",
    "mbr:xcomet": "… by xCOMET-XXL, or :MODEL",
    "mbr:metricx": "… by MetricX-24-XXL, or :MODEL",
    "mbr:embedding": "… by the cosine of sentence embeddings of a small multilingual model; mbr:embedding:MODEL takes "
    "any that sentence-transformers publishes",
    "mbr:vote": "… by the answers they give: the last one marked as such, or the last number, or the whole text; "
    "mbr:vote:MODULE:NAME takes a function of yours, answer(text)",
    "mbr:MODULE:NAME": "… by a function of yours, u(hypothesis, reference) or u(source, hypothesis, reference), or a "
    "Utility object, of a module that is installed or in the current directory",
    "qe:likelihood": "the candidate from which the reverse model would most likely recover the source; "
    "qe:likelihood:MODEL takes another reverse model",
    "qe:kiwi": "the candidate that CometKiwi-22 likes best, or :MODEL",
    "qe:xcomet": "… xCOMET-XXL without a reference, or :MODEL (also xcomet-qe)",
    "qe:metricx": "… MetricX-24-XXL without a reference, or :MODEL (also metricx-qe)",
    "qe:recorded:NAME": "the candidate with the highest recorded score NAME of its pool",
    "qe:MODULE:NAME": "… the highest score(source, candidate), a function of yours, or a QualityEstimator object",
    "qe:A*X+B*Y": "… the highest sum of several: qe:0.7*kiwi+0.3*likelihood",
}

Languages = tuple[str | None, str | None]

WITHOUT_REFERENCE = {"xcomet": "xcomet-qe", "metricx": "metricx-qe"}
"""Metrics that go by one name and come in two kinds."""


def utility(spec: str, hardware: Hardware | None = None) -> Utility[Any]:
    """The utility behind ``mbr:``."""
    if spec == "chrf":
        from quitmt.metrics.chrf import Chrf

        return Chrf()
    if spec.partition(":")[0] in KINDS:
        return scorer.utility(spec, hardware)  # type: ignore[no-any-return]
    name, colon, argument = spec.partition(":")
    if name == "vote" and (argument or not colon):
        from quitmt.metrics.vote import Vote

        return Vote(attribute(argument), name=argument) if argument else Vote()
    if colon and name not in ("chrf", "vote"):
        return as_utility(attribute(spec), spec)
    raise unknown("reranker", f"mbr:{spec}", RERANKERS)


def estimator(spec: str, languages: Languages, hardware: Hardware | None = None) -> QualityEstimator:
    """The quality estimator behind ``qe:``, which may be a combination of several."""
    terms = [_term(text, spec) for text in spec.split("+")]
    found = [_one_estimator(name, languages, hardware) for _, name in terms]
    if len(terms) == 1 and terms[0][0] is None:
        return found[0]
    return Combined(found, [1.0 if weight is None else weight for weight, _ in terms])


def is_neural(spec: str) -> bool:
    """Whether a spec, with its ``mbr:`` or ``qe:``, names a scoring model, which has a device and a number format."""
    kind, _, rest = spec.partition(":")
    texts = rest.split("+") if kind == "qe" else [rest]
    return any(text.rpartition("*")[2].strip().partition(":")[0] in KINDS for text in texts)


def needs_source(spec: str) -> bool:
    """Whether scores of a spec, with its ``mbr:`` or ``qe:``, mean nothing without a source."""
    texts = spec.partition(":")[2].split("+")
    names = {text.rpartition("*")[2].strip().partition(":")[0] for text in texts}
    return "likelihood" in names or any(name in KINDS and KINDS[name].needs_source for name in names)


def _term(text: str, spec: str) -> tuple[float | None, str]:
    """A metric and its weight; None if there is none."""
    weight, star, name = text.strip().rpartition("*")
    if not name.strip():
        raise UsageError(f"a metric is missing in {spec!r}", hint="write WEIGHT*METRIC+WEIGHT*METRIC")
    if not star:
        return None, name
    try:
        value = float(weight)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UsageError(f"{weight!r} in {spec!r} is not a weight", hint="it must be a number, such as 0.7*kiwi")
    return value, name.strip()


def _one_estimator(spec: str, languages: Languages, hardware: Hardware | None) -> QualityEstimator:
    name, colon, argument = spec.partition(":")
    if name == "recorded":
        from quitmt.metrics.recorded import RecordedScores

        if not argument:
            raise UsageError("qe:recorded needs the name of a score, such as qe:recorded:likelihood")
        return RecordedScores(argument)
    if name == "likelihood":
        from quitmt.metrics.likelihood import Likelihood

        return Likelihood(argument or _reverse_model(*languages))
    if name in KINDS:
        return scorer.estimator(f"{WITHOUT_REFERENCE.get(name, name)}{colon}{argument}", hardware)
    if colon:
        return as_estimator(attribute(spec), spec)
    raise unknown("reranker", f"qe:{spec}", RERANKERS)


def _reverse_model(source: str | None, target: str | None) -> str:
    if not (source and target):
        raise UsageError(
            "qe:likelihood needs a model of the reverse direction",
            hint="name one, as in qe:likelihood:bergamot:PATH, or give --src and --tgt for an embedded one",
        )
    return f"embedded:{target}-{source}"
