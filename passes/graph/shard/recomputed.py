"""What is computed again behind an exchange, in place of being kept in memory until it has been made.

    %e = exp(%x - %m)                 of 25152 classes in f32, twice the logits' bytes
    %s = all_reduce(sum(%e))          one number of each row
    %y = exp(barrier(%x) - %m) / %s   in place of %e / %s

On one rank both are one kernel, which goes through a row twice. Where the row's sum travels, they are two.
"""

from __future__ import annotations

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
