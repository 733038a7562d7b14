"""The funcs that GPU emitters put in the place of a kernel: what one thread of a grid of blocks does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, func, ir, nvvm, scf
from blu.dialects.targets.nvidia import GpuTarget
from blu.passes.gpu import numbers
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.body import Kernel
from blu.passes.kernels.launch import CLUSTER, GRID, PER_PROCESSOR, SHARED, THREADS
from blu.plan.schema import MAX_GRID


@dataclass(frozen=True)
class Thread:
    """Where the code of a kernel runs: indices of its block and thread, and the shared memory of the block."""

    block: tuple[ir.Value, ...]
    thread: ir.Value


class GpuKernel(Kernel):
    """A kernel whose replacement is run by every thread of a grid.

        frame = GpuKernel.open(function)
        with frame.launch((blocks,), threads=256) as here:
            ... emit what one thread does; `here.block[0]` and `here.thread` are of type index

    An emitter that needs several launches one after the other opens the function several times, under other names, and
    returns the replacements in order.
    """

    @contextmanager
    def launch(
        self,
        grid: Sequence[int],
        threads: int,
        shared_bytes: int = 0,
        cluster: int = 1,
        per_processor: int = 1,
        is_small: bool = False,
    ) -> Iterator[Thread]:
        """Fill the replacement with the code of one thread.

        `cluster` neighbouring blocks run at the same time; `per_processor` blocks have enough registers on a processor.
        Of a grid that `is_small` the compiler is told so even if that is one: otherwise it saves registers that nobody
        else needs, and puts off loads until there are some.
        """
        blocks = [*grid, 1, 1][:3]
        assert blocks[0] % cluster == 0, f"a grid of {grid} in clusters of {cluster}"
        assert all(1 <= size <= limit for size, limit in zip(blocks, MAX_GRID, strict=True)), f"a grid of {grid}"
        assert 1 <= threads <= 1024, f"{threads} threads in a block"
        attributes = self.replacement.operation.attributes
        attributes[GRID] = ir.DenseI64ArrayAttr.get(blocks)
        attributes[THREADS] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), threads)
        attributes[SHARED] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), shared_bytes)
        if per_processor > 1 or is_small:
            attributes[PER_PROCESSOR] = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), per_processor)
        if cluster > 1:
            attributes[CLUSTER] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), cluster)
        with ir.InsertionPoint(self.replacement.body.blocks[0]), self.function.operation.location:
            block = tuple(_as_index(read()) for read in _BLOCK_INDICES[: len(grid)])
            yield Thread(block, _as_index(nvvm.read_ptx_sreg_tid_x()))
            func.return_([])

    def finish(self) -> list[func.FuncOp]:
        """Erase what was read; the one replacement."""
        self.function.operation.erase()
        return [self.replacement]


_FEW_THREADS = 1024
"""Of all blocks on a processor: each may have 64 registers then."""


def small_grid(blocks: int, threads: int, target: GpuTarget) -> dict[str, Any]:
    """What `launch` is told of a grid that leaves registers: how many of its blocks come to a processor."""
    each = max(1, -(-blocks // target.processors))
    return {"per_processor": each, "is_small": True} if each * threads <= _FEW_THREADS else {}


def _as_index(register: ir.Value) -> ir.Value:
    return arith.index_castui(ir.IndexType.get(), register)


_BLOCK_INDICES = (nvvm.read_ptx_sreg_ctaid_x, nvvm.read_ptx_sreg_ctaid_y, nvvm.read_ptx_sreg_ctaid_z)


@contextmanager
def when(condition: ir.Value) -> Iterator[None]:
    """Emit inside of an scf.if without results."""
    branch = scf.IfOp(condition)
    with ir.InsertionPoint(branch.then_block):
        yield
        scf.yield_([])


def repeat_while(condition: Callable[[], ir.Value]) -> None:
    """Emit a loop that does nothing but to ask."""
    loop = scf.WhileOp([], [])
    before, after = loop.before.blocks.append(), loop.after.blocks.append()
    with ir.InsertionPoint(before):
        scf.condition(condition(), [])
    with ir.InsertionPoint(after):
        scf.yield_([])


def repeat(
    begin: numbers.Number,
    end: numbers.Number,
    step: numbers.Number,
    carried: list[ir.Value],
    body: Callable[[ir.Value, list[ir.Value]], list[ir.Value]],
) -> list[ir.Value]:
    """An scf.for over i32; what it carries out."""
    loop = scf.ForOp(numbers.number(begin), numbers.number(end), numbers.number(step), carried)
    with ir.InsertionPoint(loop.body):
        scf.yield_(body(loop.induction_variable, list(loop.inner_iter_args)))
    return list(loop.results)


def below(index: ir.Value, limit: int) -> ir.Value:
    """index < limit, for indices that are not negative."""
    return arith.cmpi(arith.CmpIPredicate.ult, index, vectors.index(limit))
