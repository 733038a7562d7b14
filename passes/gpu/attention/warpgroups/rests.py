"""Whether any query that a block of keys walks over has a rest (ShiftedRows): asked once, before the walk.

Tiles are then walked over without asking each time, and without a branch that keeps instructions apart.
"""

from __future__ import annotations

from functools import partial

from blu.dialects.core.mlir import arith, ir, llvm, vector
from blu.passes.gpu import numbers
from blu.passes.gpu.attention.key_gradient import Queries
from blu.passes.gpu.attention.operands import COPY_BYTES, pointer
from blu.passes.gpu.attention.slopes import NUMBER_BYTES, any_lane, any_of
from blu.passes.gpu.attention.warpgroups.stages import THREADS
from blu.passes.gpu.isa import barrier, shared_memory
from blu.passes.gpu.isa.warp import WARP
from blu.passes.gpu.kernel import repeat, when

BYTES = THREADS // WARP * NUMBER_BYTES
"""Of shared memory, for what each warp has found."""
_EACH = COPY_BYTES // NUMBER_BYTES
_AT_ONCE = 2
"""Tiles of which a thread reads before it looks at any."""


def any_of_block(walk: Queries, thread: ir.Value, address: ir.Value) -> ir.Value:
    """Whether any query of a walk has a rest, for all threads of a group, which are all that a block has."""
    threads = walk.rows // _EACH  # of a tile
    first = numbers.divide(thread, threads)
    none = arith.constant(ir.IntegerType.get_signless(1), 0)
    tiles = THREADS // threads
    found = repeat(first, walk.total, _AT_ONCE * tiles, [none], partial(_look, walk, thread, tiles))
    own = numbers.number(numbers.add(address, numbers.multiply(numbers.divide(thread, WARP), NUMBER_BYTES)))
    in_warp = arith.select(any_lane(found), numbers.number(1), numbers.number(0))
    with when(numbers.is_equal(numbers.remainder(thread, WARP), 0)):
        shared_memory.st(own, 0, [in_warp])
    barrier.sync()
    words = shared_memory.ld(address, 0, THREADS // WARP, numbers.i32())
    return any_of([arith.cmpi(arith.CmpIPredicate.ne, word, numbers.number(0)) for word in words])


def _look(walk: Queries, thread: ir.Value, tiles: int, number: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
    """Look at a thread's rests of a tile, and of one that is so many further, or the last."""
    rests = []
    for place in range(_AT_ONCE):
        tile = numbers.number(numbers.smaller(numbers.add(number, place * tiles), numbers.subtract(walk.total, 1)))
        rests += _load(walk, thread, tile)
    some = [arith.cmpf(arith.CmpFPredicate.UNE, item, numbers.real(0)) for item in rests]
    return [any_of([*carried, *some])]


def _load(walk: Queries, thread: ir.Value, tile: ir.Value) -> list[ir.Value]:
    head, first = walk.locate(tile)
    own = numbers.multiply(numbers.remainder(thread, walk.rows // _EACH), _EACH)
    source = walk.gradient.left_at(walk.flat_head(head), numbers.add(first, own))[1]
    four = llvm.load(ir.VectorType.get([_EACH], numbers.f32()), pointer(source), alignment=COPY_BYTES)
    return [vector.extract(four, [], [place]) for place in range(_EACH)]
