"""Kernels that find the stable order of integers in each row, by counting: each thread places one key.

A key's place is the number of keys that are smaller, or equal and before it: n comparisons a key, without memory to
work in.
"""

from __future__ import annotations

from math import ceil, prod

from blu.dialects.gpu_target import GpuTarget
from blu.dialects.mlir import arith, func, ir, memref, scf
from blu.dialects.op import operands_of
from blu.passes.gpu.kernel import GpuKernel, below, when
from blu.passes.kernels.lanes import index
from blu.passes.kernels.updates import find_operation

THREADS = 256


def emit(kernel: func.FuncOp, target: GpuTarget) -> list[func.FuncOp]:
    """Replace a kernel around a blu.argsort of keys [rows, n] along the last dimension, ascending."""
    operation = find_operation(kernel, "blu.argsort")
    frame = GpuKernel.open(kernel)
    keys, order = frame.buffers[operands_of(operation)[0]], frame.outputs[0][1]
    rows, width = ir.MemRefType(keys.type).shape
    with kernel.location, frame.launch((max(1, ceil(rows * width / THREADS)),), THREADS) as here:
        point = arith.addi(arith.muli(here.block[0], index(THREADS)), here.thread)
        with when(below(point, prod((rows, width)))):
            row, column = arith.divui(point, index(width)), arith.remui(point, index(width))
            place = _place_of(keys, row, column, width)
            memref.store(arith.index_cast(ir.IntegerType.get_signless(64), column), order, [row, place])
    return frame.finish()


def _place_of(keys: ir.Value, row: ir.Value, column: ir.Value, width: int) -> ir.Value:
    own = memref.load(keys, [row, column])
    loop = scf.ForOp(index(0), index(width), index(1), [index(0)])
    with ir.InsertionPoint(loop.body):
        at, count = loop.induction_variable, loop.inner_iter_args[0]
        other = memref.load(keys, [row, at])
        smaller = arith.cmpi(arith.CmpIPredicate.slt, other, own)
        equal = arith.cmpi(arith.CmpIPredicate.eq, other, own)
        before = arith.andi(equal, arith.cmpi(arith.CmpIPredicate.ult, at, column))
        step = arith.index_castui(ir.IndexType.get(), arith.ori(smaller, before))
        scf.yield_([arith.addi(count, step)])
    return loop.results[0]
