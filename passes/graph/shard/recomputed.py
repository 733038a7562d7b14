"""What is computed again, in place of being kept in memory: behind an exchange, until that has been made.

    %e = exp(%x - %m)                 of 25152 classes in f32, twice the logits' bytes
    %s = all_reduce(sum(%e))          one number of each row
    %y = exp(barrier(%x) - %m) / %s   in place of %e / %s

On one rank both are one kernel, which goes through a row twice. Where the row's sum travels, they are two. In the same
way a rank that needs its part of what is made of a parameter makes no more than that:

    %y = slice(%w) * %decay           in place of slice(%w * %decay)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from blu.dialects.core.fields import on_operand
from blu.dialects.core.mlir import ir
from blu.dialects.core.op import attributes_of, emit, operands_of, operation_class
from blu.dialects.ops.identity import Barrier
from blu.dialects.ops.pointwise import Pointwise
from blu.dialects.tensor.tensor import Tensor

_CHEAP = ("convert", "where", "clip")


def computed_again(tensor: Tensor) -> Tensor:
    """The tensor by other ops, where elementwise ones make it of one tensor of its shape; else as it is."""
    leaves: set[ir.Value] = set()
    _find_leaves(tensor.value, tensor.shape, leaves, set())
    if tensor.value in leaves or len(leaves) != 1:
        return tensor
    again = {leaf: Barrier(Tensor(leaf)) for leaf in leaves}
    return _again(tensor.value, tensor.shape, again)


def part_of(tensor: Tensor, cut: Callable[[Tensor], Tensor]) -> Tensor:
    """What `cut` leaves of a tensor.

    Where elementwise ops make that of an argument and scalars, they are done on what is left of the argument, which is
    in memory anyway.
    """
    leaves: set[ir.Value] = set()
    _find_leaves(tensor.value, tensor.shape, leaves, seen := set())
    is_of_argument = len(leaves) == 1 and all(isinstance(leaf.owner, ir.Block) for leaf in leaves)
    if not is_of_argument or not all(_has_scalars_beside(value) for value in seen - leaves):
        return cut(tensor)
    return _again(tensor.value, tensor.shape, {leaf: cut(Tensor(leaf)) for leaf in leaves})


def _has_scalars_beside(value: ir.Value) -> bool:
    """Whether what an op reads has its result's shape, or is one number."""
    shape = Tensor(value).shape
    return all(Tensor(operand).shape in (shape, ()) for operand in value.owner.operands)


def _is_elementwise(value: ir.Value) -> bool:
    cls = None if isinstance(value.owner, ir.Block) else operation_class(value.owner)
    return cls is not None and (issubclass(cls, Pointwise) or cls.name in _CHEAP)


def _find_leaves(value: ir.Value, shape: tuple[int, ...], leaves: set[ir.Value], seen: set[ir.Value]) -> None:
    if value in seen or Tensor(value).shape != shape:
        return
    seen.add(value)
    if not _is_elementwise(value):
        leaves.add(value)
        return
    for operand in value.owner.operands:
        _find_leaves(operand, shape, leaves, seen)


def _again(value: ir.Value, shape: tuple[int, ...], made: dict[ir.Value, Tensor]) -> Tensor:
    if value in made or Tensor(value).shape != shape:
        return made.get(value, Tensor(value))
    operation = value.owner
    cls = operation_class(operation)
    assert cls is not None, operation.name
    given: list[Any] = [on_operand(lambda item: _again(item, shape, made), item) for item in operands_of(operation)]
    [made[value]] = emit(cls, given, attributes_of(operation))
    return made[value]
