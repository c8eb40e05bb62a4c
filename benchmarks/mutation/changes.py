"""Mutants: small changes of the core's source that a good test suite notices, each with its exact position."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CORE = ("engine/*", "stop/*", "rerank/*", "calibrate/*", "metrics/chrf*", "files/journal", "files/durable",
        "files/locks", "files/outcomes", "files/outputs", "files/settings")  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    text: str
    kind: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column} {self.kind}: {self.text}"

    @property
    def package(self) -> str:
        return self.file.split("/")[0]


SWAPS: dict[type[ast.AST], tuple[type[Any], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE), ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,), ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,), ast.Add: (ast.Sub,), ast.Sub: (ast.Add,), ast.Mult: (ast.Div,), ast.Div: (ast.Mult,),
    ast.FloorDiv: (ast.Mult,), ast.Mod: (ast.Mult,), ast.Pow: (ast.Mult,), ast.BitAnd: (ast.BitOr,),
    ast.BitOr: (ast.BitAnd,), ast.LShift: (ast.RShift,), ast.RShift: (ast.LShift,), ast.And: (ast.Or,),
    ast.Or: (ast.And,),
}  # fmt: skip
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}
STATEMENTS = ("removed", "assignment")
REMOVED = (ast.Expr, ast.AugAssign, ast.Delete, ast.Raise, ast.Break, ast.Continue)


def changes(node: ast.AST) -> Iterator[tuple[str, str, ast.AST]]:
    """Kinds of change, new texts, and the nodes whose text they replace."""
    match node:
        case ast.Compare(ops=ops):
            for place, op in enumerate(ops):
                for other in SWAPS[type(op)]:
                    changed = [*ops[:place], other(), *ops[place + 1 :]]
                    yield "comparison", ast.unparse(ast.Compare(node.left, changed, node.comparators)), node
        case ast.BinOp(op=op) if type(op) in SWAPS:
            yield "arithmetic", ast.unparse(ast.BinOp(node.left, SWAPS[type(op)][0](), node.right)), node
        case ast.BoolOp(op=op):
            yield "and/or", ast.unparse(ast.BoolOp(SWAPS[type(op)][0](), node.values)), node
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield "sign", ast.unparse(operand), node
        case ast.Constant(value=bool() as value):
            yield "constant", str(not value), node
        case ast.Constant(value=int() | float() as value):
            yield from (("constant", repr(value + step), node) for step in (1, -1))
        case ast.Name(id=name) if name in NAMES:
            yield "min/max", NAMES[name], node
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield "return", "None", value
        case ast.AugAssign(op=op) if type(op) in SWAPS:
            yield "assignment", ast.unparse(ast.AugAssign(node.target, SWAPS[type(op)][0](), node.value)), node
    match node:
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            if isinstance(test, ast.Name | ast.Attribute | ast.Call):
                yield "condition", f"not {ast.unparse(test)}", test
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "removed", "pass", node
        case ast.Expr(value=ast.Constant()):
            pass
        case _ if isinstance(node, REMOVED):
            yield "removed", "pass", node


def mutants_of(file: str, source: str) -> list[Mutant]:
    found = []

    def visit(node: ast.AST) -> None:
        for kind, text, at in changes(node):
            found.append(Mutant(file, at.lineno, at.col_offset, at.end_lineno, at.end_col_offset, text, kind))  # type: ignore
        for name, value in ast.iter_fields(node):
            if name not in ("annotation", "returns", "decorator_list") and getattr(node, "arg", "") != "strict":
                for child in value if isinstance(value, list) else [value]:
                    if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr):  # it has no positions
                        visit(child)

    visit(ast.parse(source))
    return found


def mutated(source: str, mutant: Mutant) -> str:
    """The source with its change. No other line moves."""
    lines = source.encode().splitlines(keepends=True)
    before, after = lines[mutant.line - 1][: mutant.column], lines[mutant.end_line - 1][mutant.end_column :]
    lost = b"\n" * (mutant.end_line - mutant.line)
    if mutant.kind in STATEMENTS:
        new = before + mutant.text.encode() + after + lost
    else:
        new = before + b"(" + mutant.text.encode() + lost + b")" + after
    lines[mutant.line - 1 : mutant.end_line] = [new]
    return b"".join(lines).decode()


def core(src: Path) -> list[str]:
    paths = sorted(path for pattern in CORE for path in (src / "quitmt").glob(f"{pattern}.py"))
    return [str(path.relative_to(src / "quitmt")) for path in paths]


def sample(src: Path, count: int, seed: int) -> list[Mutant]:
    """Each file has a share by the number of its mutants; the order is random, so that any start of it is a sample."""
    rng = random.Random(seed)
    every = [mutants_of(file, (src / "quitmt" / file).read_text("utf-8")) for file in core(src)]
    total = sum(map(len, every))
    drawn: list[Mutant] = []
    due = 0.0
    for found in every:
        due += count * len(found) / total
        drawn += rng.sample(found, round(due) - len(drawn))
    return rng.sample(drawn, len(drawn))
