"""Finds regular expressions whose matching time can grow faster than their text.

A backtracking matcher explores the paths of a nondeterministic automaton. The number of paths over a word grows
polynomially or worse exactly if there are two states p ≠ q and a word v with p →v p, p →v q and q →v q, or a cycle
with two edges side by side (Weber and Seidl 1991; for matchers Weideman et al. 2016). So we build the automaton from
the tree of Python's own parser, and look for p, q and v. A search may begin anywhere, which is one more state that
loops on every character: ``\\s+$`` is quadratic when it is searched for and linear when it is matched.

Where there is a match already, the matcher ends in it rather than backtracks, so q's loop must avoid such places.

Approximations, all of which report too much rather than too little: assertions may always hold, backreferences match
what their group can match, and atomic groups backtrack. Exact are possessive repeats of one character,
negative lookaheads of one, and a word boundary or a lookbehind of one at the beginning. Repeats with an upper limit are
unrolled a few times.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

UNROLLED = 3
"""Copies of a repeat with a limit. A limit above ``UNLIMITED`` counts as none."""
UNLIMITED = 1000
SAMPLES = " \t\n\r\x00\x1fabzABZ_09.,:;<>/\\\"'()-é中\u2028\U0001f375"
"""Characters that stand for their kind, in addition to those of the expression."""


def _is_word(one: str) -> bool:
    return one.isalnum() or one == "_"


Condition = Callable[[str, str, int], bool]
"""On the character before a match and its first one, with the flags."""
CATEGORIES: dict[Any, Callable[[str], bool]] = {
    codes.CATEGORY_DIGIT: str.isdigit,
    codes.CATEGORY_SPACE: str.isspace,
    codes.CATEGORY_WORD: _is_word,
    codes.CATEGORY_NOT_DIGIT: lambda one: not one.isdigit(),
    codes.CATEGORY_NOT_SPACE: lambda one: not one.isspace(),
    codes.CATEGORY_NOT_WORD: lambda one: not _is_word(one),
}
SINGLE = (codes.LITERAL, codes.NOT_LITERAL, codes.ANY, codes.IN)


@dataclass
class _Automaton:
    """States are numbers. A free edge may forbid the next character: it looks ahead, or ends a possessive repeat."""

    alphabet: str
    flags: int
    reads: dict[int, tuple[frozenset[str], int]] = field(default_factory=dict)
    free: dict[int, list[tuple[int, frozenset[str], bool]]] = field(default_factory=lambda: defaultdict(list))
    uncertain: set[int] = field(default_factory=set)
    """States whose way on depends on an assertion, so that they may be no match."""
    groups: dict[int, Any] = field(default_factory=dict)
    states: int = 0

    def state(self) -> int:
        self.states += 1
        return self.states - 1

    def link(self, start: int, end: int, forbidden: frozenset[str] = frozenset(), *, possessive: bool = False) -> None:
        self.free[start].append((end, forbidden, possessive))

    def add(self, tree: Any, start: int) -> int:
        """Add what a sequence matches after ``start``; the state in which it ends."""
        for code, argument in tree:
            start = self._add_one(code, argument, start)
        return start

    def _add_one(self, code: Any, argument: Any, start: int) -> int:
        if code in SINGLE:
            self.reads[start] = (self.characters(code, argument), end := self.state())
            return end
        if code is codes.SUBPATTERN:
            number, _, _, tree = argument
            self.groups[number] = tree
            return self.add(tree, start)
        if code is codes.ATOMIC_GROUP:
            return self.add(argument, start)
        if code is codes.GROUPREF:
            return self.add(self.groups[argument], start)
        if code is codes.BRANCH:
            return self._branch(argument[1], start)
        if code is codes.GROUPREF_EXISTS:
            return self._branch([one for one in argument[1:] if one is not None], start, optional=argument[2] is None)
        if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            return self._repeat(*argument, start, possessive=code is codes.POSSESSIVE_REPEAT)
        return self._assertion(code, argument, start)

    def _assertion(self, code: Any, argument: Any, start: int) -> int:
        end = self.state()
        if code is codes.ASSERT_NOT and argument[0] > 0 and _is_single(argument[1]):
            self.link(start, end, self.characters(*argument[1][0]))
            return end
        self.uncertain.add(start)
        self.link(start, end)
        if code in (codes.ASSERT, codes.ASSERT_NOT) and argument[0] > 0:  # what is read ahead costs time as well
            self.link(start, ahead := self.state())
            self.uncertain.add(self.add(argument[1], ahead))
        return end

    def _branch(self, trees: Any, start: int, *, optional: bool = False) -> int:
        end = self.state()
        for tree in trees:
            self.link(start, first := self.state())
            self.link(self.add(tree, first), end)
        if optional:
            self.link(start, end)
        return end

    def _repeat(self, least: int, most: int, tree: Any, start: int, *, possessive: bool) -> int:
        inside = self.characters(*tree[0]) if possessive and _is_single(tree) else frozenset()
        for _ in range(min(least, UNROLLED)):
            start = self.add(tree, start)
        end = self.state()
        if most > UNLIMITED:
            self.link(start, loop := self.state())
            self.link(loop, first := self.state())
            self.link(self.add(tree, first), loop)
            self.link(loop, end, inside, possessive=possessive)
            return end
        for _ in range(min(most, least + UNROLLED) - least):
            self.link(start, end)
            self.link(start, first := self.state())
            start = self.add(tree, first)
        self.link(start, end)
        return end

    def after(self, last: str, conditions: list[Condition]) -> frozenset[str]:
        """The characters that may come first where the one before is ``last``."""
        return frozenset(one for one in self.alphabet if all(holds(last, one, self.flags) for holds in conditions))

    def characters(self, code: Any, argument: Any) -> frozenset[str]:
        return frozenset(one for one in self.alphabet if _matches(code, argument, one, self.flags))


def superlinear(pattern: str, flags: int = 0, *, method: str = "search") -> str | None:
    """A word that can be repeated to slow ``method`` down, as a reader may want to try it; None if there is none.

    >>> superlinear(r"\\s+$")
    "'\\\\t'"
    >>> superlinear(r"\\s+$", method="match") is None
    True
    """
    tree = _parser.parse(pattern, flags)
    automaton = _Automaton(_alphabet(tree), tree.state.flags)
    conditions, rest = _beginning(tree)
    start = automaton.state()
    end = automaton.add(rest, start)
    anywhere = None
    if method not in ("match", "fullmatch") and not _begins_at_start(tree):
        anywhere = {one: automaton.after(one, conditions) for one in automaton.alphabet}
    return _Search(automaton, start, set() if method == "fullmatch" else {end}, anywhere).word()


class _Search:
    """Looks for p, q and v in the automaton without free edges.

    A search that has not begun to match is in a negative state, by which characters may come first after the last one.
    """

    def __init__(
        self, automaton: _Automaton, start: int, accepting: set[int], anywhere: dict[str, frozenset[str]] | None
    ) -> None:
        self._automaton = automaton
        self._edges: dict[int, dict[str, list[int]]] = {}
        for state in [start, *(end for _, end in automaton.reads.values())]:
            self._edges[state] = self._readable(state)
        first = {start}
        if anywhere is not None:
            outside = {firsts: -number for number, firsts in enumerate(sorted(set(anywhere.values()), key=sorted), 1)}
            for firsts, state in outside.items():
                self._edges[state] = {
                    one: [outside[anywhere[one]], *(self._edges[start].get(one, []) if one in firsts else [])]
                    for one in automaton.alphabet
                }
            first |= set(outside.values())
        self._unmatched = {state: self._without_match(state, accepting) for state in self._edges}
        """The edges on which there is no match yet."""
        self._from = {state: self._reachable(state) for state in self._edges}
        """The states that a word, not empty, leads to from each."""
        self._to = {state: {one for one in self._edges if state in self._from[one]} for state in self._edges}
        self._cyclic = {one for one in self._edges if one in self._from[one] and first & (self._to[one] | {one})}

    def word(self) -> str | None:
        return next((repr(self._common(p, q) or one) for p, q, one in self._pairs()), None)

    def _pairs(self) -> Iterator[tuple[int, int, str]]:
        """States p and q between which there is such a word; the last is one for p = q."""
        components = {
            p: frozenset(q for q in self._cyclic if q in self._from[p] and p in self._from[q]) for p in self._cyclic
        }
        for p in sorted(self._cyclic):
            for one, ends in self._unmatched[p].items():  # two edges side by side
                if any(ends.count(q) > 1 for q in components[p] & set(ends)):
                    yield p, p, one
        for component in sorted(set(components.values()), key=sorted):
            yield from self._ambiguous(component)
        for p in sorted(self._cyclic):
            for q in sorted((self._cyclic & self._from[p]) - components[p]):
                if self._common(p, q):
                    yield p, q, ""

    def _ambiguous(self, component: frozenset[int]) -> Iterator[tuple[int, int, str]]:
        """Two states that one word leads to from the same state, and another word leads from to the same state."""
        before: dict[tuple[int, int], set[tuple[int, int]]] = defaultdict(set)
        found, left = set[tuple[int, int]](), [(one, one) for one in component]
        while left:
            if (here := left.pop()) in found:
                continue
            found.add(here)
            a, b = self._edges[here[0]], self._unmatched[here[1]]
            for one in a.keys() & b.keys():
                for pair in product(component & set(a[one]), component & set(b[one])):
                    before[pair].add(here)
                    left.append(pair)
        back, left = set[tuple[int, int]](), [(one, one) for one in component]
        while left:
            if (here := left.pop()) not in back:
                back.add(here)
                left += before[here]
        return ((p, q, "") for p, q in sorted(found & back) if p != q)

    def _common(self, p: int, q: int) -> str:
        """The shortest v with p →v p, p →v q and q →v q, the last without passing a match; empty if there is none."""
        begin, goal = (p, p, q), (p, q, q)
        before: dict[tuple[int, ...], tuple[tuple[int, ...], str]] = {}
        queue = deque([begin])
        inside_p, to_q, inside_q = self._to[p] & self._from[p], self._to[q], self._to[q] & self._from[q]
        while queue:
            here = queue.popleft()
            for one, thirds in self._unmatched[here[2]].items():
                firsts, seconds = (set(self._edges[state].get(one, ())) for state in here[:2])
                for there in product(firsts & inside_p, seconds & to_q, inside_q.intersection(thirds)):
                    if there not in before:
                        before[there] = (here, one)
                        queue.append(there)
            if goal in before:
                return "".join(reversed(list(_walk(before, goal, begin))))
        return ""

    def _readable(self, state: int) -> dict[str, list[int]]:
        """Where each character leads, as often as there are ways."""
        found: dict[str, list[int]] = defaultdict(list)
        for (last, forbidden), count in self._ways(state).items():
            if last in self._automaton.reads:
                characters, end = self._automaton.reads[last]
                for one in characters - forbidden:
                    found[one] += [end] * count
        return found

    def _ways(self, state: int) -> Counter[tuple[int, frozenset[str]]]:
        """The states that free edges lead to, and whether in one way or (as 2) in several.

        No way takes an edge twice: ``(a*)*`` goes on in its inner or in its outer loop.
        """
        found: Counter[tuple[int, frozenset[str]]] = Counter()
        left = [(state, frozenset[str](), frozenset[tuple[int, int]]())]
        while left:
            here, forbidden, passed = left.pop()
            if found[here, forbidden] < 2:
                found[here, forbidden] += 1
                for end, more, _ in self._automaton.free.get(here, ()):
                    if (here, end) not in passed:
                        left.append((end, forbidden | more, passed | {(here, end)}))
        return found

    def _without_match(self, state: int, accepting: set[int]) -> dict[str, list[int]]:
        """The edges of a state but for the characters before which there is a match already."""
        left, passed, matched = [(state, frozenset[str]())], set[tuple[int, frozenset[str]]](), set[str]()
        while left:
            here, refused = left.pop()
            if here in accepting:
                matched |= set(self._automaton.alphabet) - refused
            if here not in self._automaton.uncertain and (here, refused) not in passed:
                passed.add((here, refused))
                left += [
                    (end, refused | (set() if possessive else forbidden))
                    for end, forbidden, possessive in self._automaton.free.get(here, ())
                ]
        return {one: ends for one, ends in self._edges[state].items() if one not in matched}

    def _reachable(self, state: int) -> set[int]:
        found, left = set[int](), [state]
        while left:
            new = {end for ends in self._edges[left.pop()].values() for end in ends} - found
            found |= new
            left += new
        return found


def _walk(before: dict[tuple[int, ...], tuple[tuple[int, ...], str]], goal: Any, begin: Any) -> Iterator[str]:
    here, one = before[goal]
    yield one
    while here != begin:
        here, one = before[here]
        yield one


def _matches(code: Any, argument: Any, one: str, flags: int) -> bool:
    if code is codes.ANY:
        return one != "\n" or bool(flags & re.DOTALL)
    if code is codes.LITERAL:
        return one == chr(argument) or bool(flags & re.IGNORECASE and one.lower() == chr(argument).lower())
    if code is codes.NOT_LITERAL:
        return not _matches(codes.LITERAL, argument, one, flags)
    if code is codes.RANGE:
        low, high = argument
        return any(
            low <= ord(case) <= high
            for case in ({one.lower(), one.upper()} if flags & re.I else {one})
            if len(case) == 1
        )
    if code is codes.CATEGORY:
        return CATEGORIES[argument](one)
    negated = argument[0][0] is codes.NEGATE
    return negated != any(_matches(*item, one, flags) for item in argument[negated:])


def _alphabet(tree: Any) -> str:
    found = set(SAMPLES)
    left = [tree]
    while left:
        item = left.pop()
        if isinstance(item, _parser.SubPattern):
            item = item.data
        if isinstance(item, tuple) and len(item) == 2 and item[0] in (codes.LITERAL, codes.NOT_LITERAL):
            found.add(chr(item[1]))
        elif isinstance(item, tuple) and len(item) == 2 and item[0] is codes.RANGE:
            found.update(map(chr, item[1]))
        elif isinstance(item, list | tuple):
            left += item
    return "".join(sorted(found))


def _beginning(tree: Any) -> tuple[list[Condition], Any]:
    """What an expression says about the character before its match, and the rest of it."""
    conditions: list[Condition] = []
    for place, (code, argument) in enumerate(tree):
        if code is codes.AT and argument is codes.AT_BOUNDARY:
            conditions.append(lambda last, one, _: _is_word(last) != _is_word(one))
        elif code in (codes.ASSERT, codes.ASSERT_NOT) and argument[0] < 0 and _is_single(argument[1]):
            conditions.append(_lookbehind(code is codes.ASSERT, *argument[1][0]))
        else:
            return conditions, tree[place:]
    return conditions, []


def _lookbehind(wanted: bool, code: Any, argument: Any) -> Condition:
    return lambda last, _, flags: _matches(code, argument, last, flags) is wanted


def _is_single(tree: Any) -> bool:
    return len(tree) == 1 and tree[0][0] in SINGLE


def _begins_at_start(tree: Any) -> bool:
    code, argument = tree[0] if len(tree) else (None, None)
    return code is codes.AT and (
        argument is codes.AT_BEGINNING_STRING
        or (argument is codes.AT_BEGINNING and not tree.state.flags & re.MULTILINE)
    )
