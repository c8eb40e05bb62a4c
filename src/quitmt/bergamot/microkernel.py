"""A small matrix product written directly in LLVM vector operations; all other kernels are built on it.

BLAS is unsuitable because OpenBLAS rounds a row differently in batches of different sizes, and a resumed run forms
different batches. Here each output adds up its inputs in order, one fused multiply-add at a time, so a row's result
depends on that row alone. At loading, weights are packed once in the order in which they are read. Small batches are
also cheaper than with BLAS, because BLAS packs at every call.

Invariants: ``product6`` and ``product1`` give bitwise the same numbers for a row; a panel has ``PANEL`` outputs and is
stored as (inputs, PANEL).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from quitmt.compiled import intrinsic

if TYPE_CHECKING:
    from llvmlite import ir

PANEL = 16
"""Outputs per panel: two vectors of eight. With ROWS rows they just fit into the sixteen registers of AVX2."""
ROWS = 6
"""Rows that are multiplied with a panel at once."""
LANES = 8
UNROLL = 4
"""Inputs per iteration of the inner loop."""

Floats = npt.NDArray[np.float32]


def pack(weights: Floats) -> Floats:
    """(inputs, outputs) → (panels, inputs, PANEL); the last panel is padded with zeros."""
    inputs, outputs = weights.shape
    panels = -(-outputs // PANEL)
    padded = np.zeros((-(-inputs // UNROLL) * UNROLL, panels * PANEL), np.float32)
    padded[:inputs, :outputs] = weights
    return np.ascontiguousarray(padded.reshape(len(padded), panels, PANEL).transpose(1, 0, 2))


def _emit(rows: int) -> Any:
    """An intrinsic (x, x_stride, panel, inputs, out, out_stride) that multiplies ``rows`` rows of x with one panel.

    x, panel and out are addresses, strides count floats, and ``inputs`` is a multiple of UNROLL.
    """

    def generate(_context: Any, builder: ir.IRBuilder, _signature: Any, arguments: Any) -> Any:
        from llvmlite import ir
        from numba.core import cgutils

        x, x_stride, panel, inputs, out, out_stride = arguments
        number, vector = ir.FloatType(), ir.VectorType(ir.FloatType(), LANES)
        integer = ir.IntType(64)
        x_start = builder.inttoptr(x, number.as_pointer())
        panel_start = builder.inttoptr(panel, number.as_pointer())
        out_start = builder.inttoptr(out, number.as_pointer())
        kind = ir.FunctionType(vector, [vector, vector, vector])
        fma: Any = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fmuladd.v{LANES}f32")  # type: ignore[no-untyped-call]
        row_starts = [builder.gep(x_start, [builder.mul(x_stride, integer(row))]) for row in range(rows)]
        entry = builder.block
        loop, done = builder.append_basic_block("product"), builder.append_basic_block("stored")
        builder.branch(loop)
        builder.position_at_end(loop)
        k = builder.phi(integer)
        k.add_incoming(integer(0), entry)
        carried = []
        for _ in range(rows * PANEL // LANES):
            phi = builder.phi(vector)
            phi.add_incoming(ir.Constant(vector, [0.0] * LANES), entry)
            carried.append(phi)
        sums: list[Any] = list(carried)
        for step in range(UNROLL):
            sums = _one_input(builder, fma, sums, row_starts, panel_start, builder.add(k, integer(step)))
        following = builder.add(k, integer(UNROLL))
        k.add_incoming(following, loop)
        for phi, value in zip(carried, sums, strict=True):
            phi.add_incoming(value, loop)
        builder.cbranch(builder.icmp_signed("<", following, inputs), loop, done)
        builder.position_at_end(done)
        for number_of, value in enumerate(sums):
            row, part = divmod(number_of, PANEL // LANES)
            offset = builder.add(builder.mul(out_stride, integer(row)), integer(part * LANES))
            target = builder.bitcast(builder.gep(out_start, [offset]), vector.as_pointer())
            builder.store(value, target, align=4)
        return _context.get_dummy_value()

    @intrinsic
    def product(_typing: Any, x: Any, x_stride: Any, panel: Any, inputs: Any, out: Any, out_stride: Any) -> Any:
        from numba import types

        return types.void(types.intp, types.intp, types.intp, types.intp, types.intp, types.intp), generate

    return product


def _one_input(
    builder: ir.IRBuilder, fma: Any, sums: list[Any], row_starts: list[Any], panel: Any, k: Any
) -> list[Any]:
    """The sums after input ``k``: for each row, its number times the panel's two vectors is added."""
    from llvmlite import ir

    integer, vector = ir.IntType(64), ir.VectorType(ir.FloatType(), LANES)
    parts = []
    for part in range(PANEL // LANES):
        offset = builder.add(builder.mul(k, integer(PANEL)), integer(part * LANES))
        parts.append(builder.load(builder.bitcast(builder.gep(panel, [offset]), vector.as_pointer()), align=4))
    mask = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    undefined = ir.Constant(vector, ir.Undefined)
    after = []
    for row, start in enumerate(row_starts):
        value = builder.load(builder.gep(start, [k]))
        single = builder.insert_element(undefined, value, ir.IntType(32)(0))
        spread = builder.shuffle_vector(single, undefined, mask)
        for part, weights in enumerate(parts):
            after.append(builder.call(fma, [spread, weights, sums[row * len(parts) + part]]))
    return after


product6 = _emit(ROWS)
product1 = _emit(1)
