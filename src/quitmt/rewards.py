"""Rerankers as rewards, in the shape that TRL's GRPO trainer calls: (prompts, completions, **columns) → floats.

    trainer = GRPOTrainer(model, reward_funcs=quitmt.reward("qe:kiwi"), …)

Names are those of rerankers, and so are the numbers: a reward is the score that the reranker gives the same completion
in the same pool. All completions of a call are scored together, equal ones of a source once; the metric is loaded once,
when the reward is made.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from quitmt.errors import InputError, QuitmtError, RerankError, UsageError
from quitmt.generate.recorded import RecordedGenerator
from quitmt.metrics.devices import Hardware
from quitmt.metrics.function import as_utility
from quitmt.plan import keywords
from quitmt.plan.plan import Parts, refuse_texts
from quitmt.plan.resolve import resolve
from quitmt.protocols import QualityEstimator, Reranker, RerankerTraits, Update, Utility, ranked, traits_of
from quitmt.rerank import Reranking
from quitmt.rerank.anchors import Support, check_support
from quitmt.rerank.mbr import Mbr
from quitmt.rerank.qe import Qe
from quitmt.types import Candidate, Segment

SOURCE = "source"
"""The default column for sources."""

Prompt = str | Sequence[Mapping[str, Any]]
"""A text, or the messages of a chat."""
Source = str | Callable[[Any], str] | None
Languages = tuple[str | None, str | None]


class _Scored:
    """Shared by both kinds of rewards: finds the texts in a trainer's arguments."""

    def __init__(self, reranker: Reranker[Any], source: Source, name: str) -> None:
        self._reranker, self._source = reranker, source
        self._needs_source = traits_of(reranker, RerankerTraits).needs_source
        self.signature = reranker.signature
        self.__name__ = name  # trainers use it in logs

    def _texts(
        self, prompts: Sequence[Prompt], completions: Sequence[Prompt], columns: Mapping[str, Any]
    ) -> tuple[list[str], list[str]]:
        """The source and the translation of each completion."""
        if len(prompts) != len(completions):
            raise InputError(f"there are {len(prompts)} prompts and {len(completions)} completions")
        sources = self._sources(prompts, columns)
        if self._needs_source and (blank := [place for place, text in enumerate(sources) if not text.strip()]):
            raise InputError(f"{self.__name__} needs a source, and that of completion {blank[0]} is blank")
        return sources, [_text(one, "assistant") for one in completions]

    def _sources(self, prompts: Sequence[Prompt], columns: Mapping[str, Any]) -> list[str]:
        if callable(self._source):
            return [self._source(prompt) for prompt in prompts]
        column = SOURCE if self._source is None else self._source
        if column in columns:
            found = columns[column]
            if len(found) != len(prompts) or not all(isinstance(one, str) for one in found):
                raise InputError(f"the column {column!r} must have one text for each of the {len(prompts)} prompts")
            return list(found)
        if self._source is not None:
            lists = sorted(name for name, value in columns.items() if isinstance(value, list))
            raise InputError(f"there is no column {column!r}", hint=f"there is {', '.join(lists)}" if lists else None)
        return [_text(prompt, "user") for prompt in prompts]


class Reward(_Scored):
    """Scores each completion by its source."""

    _reranker: Qe

    def __call__(self, prompts: Sequence[Prompt], completions: Sequence[Prompt], **columns: Any) -> list[float]:
        sources, texts = self._texts(prompts, completions, columns)
        groups = _groups(sources)
        pools = [
            (Segment(str(number), source), [Candidate(texts[place]) for place in places])
            for number, (source, places) in enumerate(groups.items())
        ]
        found = [0.0] * len(texts)
        for places, scores in zip(groups.values(), self._reranker.scores(pools), strict=True):
            if isinstance(scores, QuitmtError):
                raise scores
            for place, score in zip(places, scores, strict=True):
                found[place] = score
        return found


class GroupReward(_Scored):
    """Scores each completion against the others of its prompt."""

    def __init__(self, reranker: Reranker[Any], source: Source, name: str, size: int | None) -> None:
        super().__init__(reranker, source, name)
        self._size = size

    def __call__(self, prompts: Sequence[Prompt], completions: Sequence[Prompt], **columns: Any) -> list[float]:
        sources, texts = self._texts(prompts, completions, columns)
        groups = list(
            _groups([(repr(prompt), source) for prompt, source in zip(prompts, sources, strict=True)]).values()
        )
        if self._size and (wrong := [places for places in groups if len(places) % self._size]):
            hint = "give each process whole groups: a batch per device that is a multiple of num_generations"
            raise InputError(f"a group has {len(wrong[0])} completions, not {self._size}", hint=hint)
        states = [self._reranker.open(Segment(str(n), sources[places[0]])) for n, places in enumerate(groups)]
        updates = [
            Update(state, [Candidate(texts[place]) for place in places], len(places))
            for state, places in zip(states, groups, strict=True)
        ]
        found = [0.0] * len(texts)
        for places, update, snapshots in zip(groups, updates, self._reranker.extend(updates), strict=True):
            if isinstance(snapshots, QuitmtError):
                raise snapshots
            scores = {texts[places[index]]: score for index, score in ranked(self._reranker, update.state)}
            if len(places) == 1:  # a single completion: the reranker's score for a pool of one
                scores = {texts[places[0]]: snapshots[-1].score}
            for place in places:
                if texts[place] not in scores:
                    raise RerankError(f"{self.__name__} gave completion {place} no score")
                found[place] = scores[texts[place]]
        return found


def reward(
    metric: str | Callable[..., Any] | QualityEstimator,
    *,
    source: Source = None,
    languages: Languages = (None, None),
    hardware: Hardware | None = None,
    name: str | None = None,
) -> Reward:
    """A reward by quality estimation, for TRL's GRPO trainer and everything else that calls rewards in that way.

    ``metric`` is the name of a ``qe:`` reranker, with or without its ``qe:`` ("qe:kiwi", "0.7*metricx+0.3*kiwi",
    "qe:likelihood" with ``languages``, "qe:my_module:score"), a function ``score(source, candidate)``, or a
    ``QualityEstimator``. The source text is the data set's column ``source`` if there is one; otherwise it is
    the prompt, or the user's last message of a chat. ``source`` names another column, or is a
    function of the prompt. ``name`` appears in the trainer's logs.

    >>> import quitmt
    >>> nearness = quitmt.reward(lambda source, candidate: -abs(len(source) - len(candidate)), name="nearness")
    >>> nearness(prompts=["Translate: Olá", "Translate: Olá"], completions=["Hi", "Hello"], source=["Olá", "Olá"])
    [-1.0, -2.0]
    """
    named = _named(metric, "qe")
    if isinstance(named, str) and (named.startswith("mbr:") or Reranking(named).by_pool):
        raise _comparing(metric)
    made = _made(named, languages=languages, hardware=hardware)
    if not isinstance(made, Qe):
        raise _comparing(metric)
    return Reward(made, source, name or _display_name(metric))


def group_reward(
    metric: str | Callable[..., Any] | Utility[Any] | Reranker[Any],
    *,
    support: str | None = None,
    size: int | None = None,
    source: Source = None,
    languages: Languages = (None, None),
    hardware: Hardware | None = None,
    name: str | None = None,
) -> GroupReward:
    """A reward by comparison: each completion against the others of its prompt, as MBR compares candidates.

    ``metric`` is the name of a reranker, with or without its ``mbr:`` ("mbr:chrf", "0.5*chrf+0.5*comet", "mbr:vote",
    "qe:rank:kiwi+metricx"), a function ``u(hypothesis, reference)``, a ``Utility``, or a reranker such as
    ``quitmt.vote(…)``. ``support`` says who judges: the ``others``, or ``all`` including the completion itself. A
    group is all completions of a call with the same prompt. With ``size``, a group of another size is an error, such as
    half a group on each of two devices. ``source`` and ``name`` are as for ``reward``.

    >>> import quitmt
    >>> agreement = quitmt.group_reward("mbr:chrf")
    >>> [round(one, 2) for one in agreement(prompts=["x"] * 3, completions=["the cat", "the cat", "a dog"])]
    [0.53, 0.53, 0.04]
    """
    if size is not None and size < 1:
        raise UsageError(f"size must be at least 1, not {size}")
    if not isinstance(metric, str):
        reranker: Any = metric if hasattr(metric, "extend") else Mbr(as_utility(metric), _judges(support))
        return GroupReward(
            _made(reranker, languages=languages, hardware=hardware), source, name or _display_name(metric), size
        )
    made = _made(_named(metric, "mbr"), languages=languages, hardware=hardware, support=support)
    return GroupReward(made, source, name or metric, size)


def _comparing(metric: Any) -> UsageError:
    hint = "take quitmt.group_reward"
    return UsageError(f"{_display_name(metric)!r} compares candidates with each other", hint=hint)


def _judges(support: str | None) -> Support:
    if support is not None:
        check_support(support)
    return "all" if support == "all" else "others"


def _named(metric: Any, kind: str) -> Any:
    """Add ``kind`` to a name without ``mbr:`` or ``qe:``."""
    if not isinstance(metric, str) or metric.partition(":")[0] in ("mbr", "qe"):
        return metric
    return f"{kind}:{metric}"


def _display_name(metric: Any) -> str:
    return metric if isinstance(metric, str) else str(getattr(metric, "__name__", type(metric).__name__))


def _made(metric: Any, **settings: Any) -> Reranker[Any]:
    """The reranker that ``quitmt.rerank_pool`` would use."""
    recipe, given = keywords.read({"reranker": metric, **settings})
    if given.reranker is not None:
        return given.reranker
    refuse_texts(recipe, "a reward")
    plan = resolve(recipe, Parts(RecordedGenerator()))
    assert plan.reranking is not None
    return plan.reranking.load(recipe.model.languages, plan.hardware)  # no language is guessed for a reward


def _groups(keys: Sequence[Hashable]) -> dict[Any, list[int]]:
    """Key → its places, in order of appearance."""
    found: dict[Any, list[int]] = {}
    for place, key in enumerate(keys):
        found.setdefault(key, []).append(place)
    return found


def _text(given: Any, role: str) -> str:
    """A text unchanged, or the content of the last chat message by ``role``."""
    if isinstance(given, str):
        return given
    messages = list(given) if isinstance(given, Sequence) else []
    own = [one for one in messages if isinstance(one, Mapping) and one.get("role") == role]
    if not own:
        raise InputError(f"expected a text or chat messages with one by the {role}, not {given!r:.80}")
    content = own[-1].get("content")
    if isinstance(content, str):
        return content
    parts = [part.get("text") for part in content or () if isinstance(part, Mapping)]
    return "".join(part for part in parts if isinstance(part, str))
