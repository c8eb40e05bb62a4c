"""Mutants of a small module: what is changed, that no line moves, and which functions have new code."""

from __future__ import annotations

from benchmarks.mutation.changes import mutants_of, mutated
from benchmarks.mutation.children import replaced

SOURCE = '''\
LIMIT = 3


def found(values: list[int], most: int = 8) -> int | None:
    """What fits."""
    for value in values:
        if value < LIMIT and (
            value
            != most
        ):
            return value
    values.clear()
    return None


def after() -> str:
    return "unchanged"
'''
EXPECTED = {
    "LIMIT = (4)", "LIMIT = (2)", "most: int = (9)", "most: int = (7)", "(value <= LIMIT)", "(value >= LIMIT)",
    "(value < LIMIT or value != most", "(value == most", "return (None)", "    pass\n",
}  # fmt: skip


def test_mutants_change_one_thing_and_move_no_line() -> None:
    texts = [mutated(SOURCE, one) for one in mutants_of("m.py", SOURCE)]
    assert {part for part in EXPECTED if sum(part in text for text in texts) == 1} == EXPECTED
    assert len({len(text.splitlines()) for text in [SOURCE, *texts]}) == 1
    assert len(set(texts)) == len(texts) == len(EXPECTED)


def test_code_is_replaced_unless_importing_runs_it() -> None:
    old = compile(SOURCE, "m.py", "exec", dont_inherit=True)
    for one in mutants_of("m.py", SOURCE):
        found = replaced(old, compile(mutated(SOURCE, one), "m.py", "exec", dont_inherit=True))
        if one.line in (1, 4):
            assert found is None
        else:
            assert found is not None and [code.co_name for code in found] == ["found"]
