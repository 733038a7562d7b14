"""Results that may be written over donated arguments: which belong together, and which kernels may do it."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, TypeVar

from blu.dataclass import dataclass, field
from blu.dialects.core.mlir import func, ir
from blu.dialects.core.modules import end_of
from blu.passes.framework.families import family_of
from blu.passes.loops.fuse.loops import captured, loop_nest

Answer = TypeVar("Answer")


@dataclass
class KernelAnswers:
    """What is asked of a kernel at each of its calls, which are many: found once, while kernels stay what they are."""

    _found: dict[tuple, Any] = field(default_factory=dict)

    def ask(self, question: Callable[..., Answer], kernel: func.FuncOp, *number: int) -> Answer:
        """What a function says of a kernel, or of its argument or result of a number."""
        key = question, kernel.operation, *number
        if key not in self._found:
            self._found[key] = question(kernel, *number)
        return self._found[key]


def reads_where_it_writes(kernel: func.FuncOp, number: int) -> bool:
    """Whether a kernel reads an argument only element by element, at the place where it writes its results.

    Such a kernel may write a result over the argument: the emitters of rows and of what follows a contraction promise
    to read all that an element needs first.
    """
    argument = kernel.arguments[number]
    if not family_of(kernel).writes_over_elements or _is_multiplied(kernel, argument):
        return False
    shape = tuple(ir.RankedTensorType(argument.type).shape)
    results = [item for item in end_of(kernel.entry_block).operands if not _is_added_up(item)]
    if {tuple(ir.RankedTensorType(item.type).shape) for item in results} != {shape}:
        return False
    return all(_is_elementwise(use.owner.operation, argument) for use in argument.uses)


def _is_multiplied(kernel: func.FuncOp, argument: ir.Value) -> bool:
    """Whether a factor of a product that the kernel makes is made of an argument: other elements need that, too."""
    products = (item.operation for item in kernel.entry_block.operations if item.operation.name == "linalg.contract")
    waiting, seen = [value for product in products for value in list(product.operands)[:2]], set()
    while waiting:
        value = waiting.pop()
        if value == argument:
            return True
        if not isinstance(value.owner, ir.Block) and value not in seen:
            seen.add(value)
            waiting.extend(value.owner.operands)
    return False


def _is_added_up(result: ir.Value) -> bool:
    """Whether a result is the sums over ranges of rows of another one, which lie elsewhere."""
    nest = None if isinstance(result.owner, ir.Block) else loop_nest(result.owner, 0)
    return nest is not None and nest.sums_product


def walks_again(kernel: func.FuncOp) -> bool:
    """Whether a kernel of rows walks over a row more than once: it writes results in one walk, and reads in others."""
    loops = (item.operation for item in kernel.entry_block.operations if item.operation.name == "linalg.generic")
    nests = [loop_nest(operation, 0) for operation in loops]
    return family_of(kernel).writes_over_rows and any(nest is None or not nest.is_pointwise for nest in nests)


def _is_elementwise(operation: ir.Operation, argument: ir.Value) -> bool:
    nest = loop_nest(operation, 0)
    if nest is None or not nest.is_pointwise:
        return False
    identity = tuple(range(len(nest.sizes)))
    direct = [dims for value, dims in zip(nest.inputs, nest.dims, strict=False) if value == argument]
    return argument not in captured(operation) and all(dims == identity for dims in direct)


def reads_rows_in_place(kernel: func.FuncOp, number: int) -> bool:
    """Whether a kernel of rows reads an argument only row by row, for the elements of its result in the same rows."""
    if not family_of(kernel).writes_over_rows:
        return False
    argument = kernel.arguments[number]
    shape = tuple(ir.RankedTensorType(argument.type).shape)
    return all(_reads_own_row(use.owner.operation, argument, shape) for use in argument.uses)


def _reads_own_row(operation: ir.Operation, argument: ir.Value, shape: tuple[int, ...]) -> bool:
    nest = loop_nest(operation, 0)
    if nest is None or nest.sizes != shape or not (nest.is_pointwise or nest.is_row_reduction):
        return False
    identity = tuple(range(len(shape)))
    direct = [dims for value, dims in zip(nest.inputs, nest.dims, strict=False) if value == argument]
    return argument not in captured(operation) and all(dims == identity for dims in direct)


def writes_rows_last(kernel: func.FuncOp, number: int) -> bool:
    """Whether a kernel of rows writes one of several results in its last walk over them.

    All other results are then numbers of rows, as a loss beside its gradient, made of nothing that this one is not made
    of, too.
    """
    *loops, end = (item.operation for item in kernel.entry_block.operations)
    needed, waiting = set(), [end.operands[number]]
    size = prod(ir.RankedTensorType(waiting[0].type).shape)
    while waiting:
        owner = waiting.pop().owner
        if not isinstance(owner, ir.Block) and owner not in needed:
            needed.add(owner)
            waiting += [*owner.operands, *captured(owner)]
    return all(operation in needed or _makes_numbers(operation, size) for operation in loops)


def _makes_numbers(operation: ir.Operation, size: int) -> bool:
    """Whether an op does no more than to compute with less than `size` numbers each, or computes nothing."""
    if operation.name != "linalg.generic":
        return operation.name in ("tensor.empty", "linalg.fill", "arith.constant")
    nest = loop_nest(operation, 0)
    return nest is not None and nest.is_pointwise and prod(nest.sizes) < size
