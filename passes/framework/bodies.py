"""Bodies of ops in passes: as functions that can be called, and as blocks to walk through."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import count

from blu.dataclass import dataclass
from blu.dialects.core.marks import marks_of
from blu.dialects.core.mlir import func, ir
from blu.dialects.core.modules import end_of, operations_in
from blu.dialects.core.op import body_blocks_of, value_type
from blu.dialects.core.regions import copy_block, listed
from blu.dialects.core.remat import ATTRIBUTE, CONTRACTIONS, Mark
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ShapeError


@dataclass(frozen=True)
class Body:
    """A body as the function that it was traced from. Called, it writes its ops once more, at the insertion point.

    It takes all arguments of the body, what the op captures included, and gives a tuple. Parts that `blu.checkpoint`
    has marked in it are others in each call. ShapeError for arguments of other types than the body's.
    """

    name: str
    block: ir.Block
    parts: _Parts

    def __call__(self, *arguments: Tensor) -> tuple[Tensor, ...]:
        return self.with_kept(*arguments)[0]

    def with_kept(self, *arguments: Tensor) -> tuple[tuple[Tensor, ...], list[Tensor]]:
        """The same, and what gradients keep of its inside: results of contractions, unless `blu.checkpoint` says that
        they are computed again."""
        wanted = [value_type(argument) for argument in self.block.arguments]
        if [argument.type for argument in arguments] != wanted:
            given = listed(argument.type for argument in arguments)
            raise ShapeError(f"the body {self.name} takes {listed(wanted)}, and is called with {given}")
        values = dict(zip(self.block.arguments, (argument.value for argument in arguments), strict=True))
        results = copy_block(self.block, values)
        self._mark_again(values)
        kept = [Tensor(values[result]) for item in self.block.operations if _is_kept(item) for result in item.results]
        return tuple(map(Tensor, results)), kept

    @property
    def num_results(self) -> int:
        """How many tensors it gives."""
        return len(end_of(self.block).operands)

    @property
    def num_kept(self) -> int:
        """How many tensors of its inside gradients keep."""
        return sum(len(item.results) for item in self.block.operations if _is_kept(item))

    def _mark_again(self, values: dict[ir.Value, ir.Value]) -> None:
        """Give copies the mark of the op that they take the place of, or else numbers of parts of their own."""
        numbers: dict[int, int] = {}
        for operation in (item.operation for item in self.block.operations if len(item.results)):
            copy, outer = values[operation.results[0]].owner.operation, marks_of(operation.name).get(ATTRIBUTE)
            if outer is not None:
                copy.attributes[ATTRIBUTE] = outer
            elif (mark := Mark.of(operation)) is not None:
                if mark.region not in numbers:
                    numbers[mark.region] = next(self.parts.numbers)
                copy.attributes[ATTRIBUTE] = Mark(mark.policy, numbers[mark.region]).to_attribute()


def _is_kept(operation: ir.OpView | ir.Operation) -> bool:
    mark = Mark.of(operation.operation)
    if mark is not None:
        return mark.keeps(operation.operation)
    return operation.operation.name in (*CONTRACTIONS, "blu.convolution")


@dataclass(frozen=True)
class _Parts:
    """The parts of the function that an op is in."""

    operation: ir.Operation

    @cached_property
    def numbers(self) -> Iterator[int]:
        """Numbers that no part has yet."""
        around = self.operation
        while not isinstance(around.opview, func.FuncOp):
            around = around.parent.operation
        marks = map(Mark.of, operations_in(around))
        return count(1 + max((mark.region for mark in marks if mark is not None), default=0))


def bodies_of(operation: ir.Operation) -> dict[str, Body]:
    """The bodies of an op by the names of its regions, which functions of its class take them as."""
    parts = _Parts(operation)
    return {name: Body(name, block, parts) for name, block in body_blocks_of(operation).items()}


def blocks_of(function: func.FuncOp) -> list[ir.Block]:
    """The block of a function, and before that those of the bodies in it, the innermost first."""
    inner = [block for item in operations_in(function.operation) for region in item.regions for block in region]
    return [*inner[::-1], *function.regions[0].blocks]
