"""The func that CPU emitters put in the place of a kernel: a loop over a range of blocks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from blu.dialects.core.mlir import func, ir, scf
from blu.passes.framework.launches import BLOCKS, CHUNK
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.body import Kernel


class KernelBody(Kernel):
    """A kernel whose replacement takes two more arguments, the range of blocks to compute."""

    @contextmanager
    def grid(self, blocks: int, chunk: int = 1, is_last: bool = True) -> Iterator[ir.Value]:
        """Fill the replacement: inside, operations are emitted for the yielded block index.

        Erases the old func, unless more launches are still to be made from it.
        """
        i64 = ir.IntegerType.get_signless(64)
        attributes = self.replacement.operation.attributes
        attributes[BLOCKS] = ir.IntegerAttr.get(i64, blocks)
        attributes[CHUNK] = ir.IntegerAttr.get(i64, chunk)
        *_, begin, end = self.replacement.arguments
        entry = self.replacement.body.blocks[0]
        with ir.InsertionPoint(entry):
            loop = scf.ForOp(begin, end, vectors.index(1))
            func.return_([])
        with ir.InsertionPoint(loop.body):
            yield loop.induction_variable
            scf.yield_([])
        if is_last:
            self.function.operation.erase()


def open_kernel(function: func.FuncOp, name: str = "") -> KernelBody:
    """Read a kernel, and create beside it the func with the two extra arguments `begin` and `end`."""
    index = ir.IndexType.get()
    return KernelBody.open(function, (index, index), name)


@contextmanager
def scratch_scope(replacement: func.FuncOp) -> Iterator[None]:
    """Emit at the start of the func, before the grid: the place for memref.alloca and constants."""
    with ir.InsertionPoint.at_block_begin(replacement.body.blocks[0]):
        yield


@contextmanager
def for_range(
    begin: ir.Value | int, end: ir.Value | int, step: int = 1, carried: list[ir.Value] | None = None
) -> Iterator[scf.ForOp]:
    """An scf.for from `begin` to `end`; with `carried` values the caller ends the body by scf.yield_."""
    bounds = [value if isinstance(value, ir.Value) else vectors.index(value) for value in (begin, end, step)]
    loop = scf.ForOp(*bounds, carried or [])
    with ir.InsertionPoint(loop.body):
        yield loop
        if carried is None:
            scf.yield_([])
