"""A part of a program written again for each of some ranges of rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from blu.dataclass import dataclass, field
from blu.dialects.core.dtypes import f32
from blu.dialects.core.mlir import ir
from blu.dialects.core.op import OPS, attributes_of, emit, emitting_at, is_pure, value_type
from blu.dialects.ops.contraction import ROUNDING
from blu.dialects.ops.identity import Barrier
from blu.dialects.ops.pointwise import Pointwise
from blu.dialects.tensor.tensor import Tensor

_ELEMENTWISE = ("where", "convert", "reduce_precision", "nearest_byte", "gelu", "silu", "barrier")
_REDUCTIONS = ("sum", "max", "min")
# The operand of settle_rows that all rows share.
_WEIGHTS = 3
# The axis of what is the sum over all rows.
SUMMED = -1


class NotByRowsError(Exception):
    """An op does more than to work on each row alone, or to sum over them."""


@dataclass
class Chunks:
    """Ops that make and read values of many rows, in program order, and the axis of each result's rows.

    The axis of a sum over all rows is SUMMED. `around` are all ops from the first member to the last, `place` is the
    one after them.
    """

    members: list[ir.Operation]
    around: list[ir.Operation]
    place: ir.Operation
    count: int
    axes: dict[ir.Value, int] = field(default_factory=dict)
    # For each result what it is for each range of rows, or a sum up to the end of each range.
    parts: dict[ir.Value, list[Tensor]] = field(default_factory=dict)

    @classmethod
    def of(cls, product: ir.Operation, block: ir.Block, count: int) -> Chunks:
        """All that is computed from a product until it is small. NotByRowsError where that cannot be cut."""
        operations = [item.operation for item in block.operations]
        members = _members(product, operations)
        first, last = operations.index(members[0]), operations.index(members[-1])
        chunks = cls(members, operations[first : last + 1], operations[last + 1], count)
        for operation in members:
            chunks.axes |= dict.fromkeys(operation.results, chunks._axis_of(operation))
        if not all(map(is_pure, chunks._those_after())):
            raise NotByRowsError("what an op with effects reads")
        return chunks

    def write(self) -> None:
        """Write the ops for each range of rows, put results together, and drop what was there."""
        late, wholes = self._those_after(), []
        for number in range(self.count):
            self._write_part(number)
        for value, axis in self.axes.items():
            if any(use.owner.operation not in self.members for use in value.uses):
                with ir.InsertionPoint(self.place), emitting_at(value.owner.location):
                    wholes.append(self._whole(value, axis).value)
                value.replace_all_uses_with(wholes[-1])
        for operation in late:
            operation.move_before(self.place)
            _read_apart(operation, self.count, {*wholes, *(result for item in late for result in item.results)})
        for operation in reversed(self.members):
            operation.erase()

    def _those_after(self) -> list[ir.Operation]:
        """Other ops between the first and the last of these that need some of them."""
        members, found, needed = set(self.members), [], set(self.axes)
        for operation in self.around:
            if operation not in members and not needed.isdisjoint(operation.operands):
                found.append(operation)
                needed.update(operation.results)
        return found

    # What each op does to the axis of rows.
    def _axis_of(self, operation: ir.Operation) -> int:
        name = operation.name.removeprefix("blu.")
        inside = [(value, self.axes[value]) for value in operation.operands if value in self.axes]
        if not is_pure(operation):
            raise NotByRowsError(f"{name}, which has effects")
        if any(axis == SUMMED for _, axis in inside):
            raise NotByRowsError(f"{name} of a sum over rows")
        if name == "matmul":
            return self._axis_of_product(operation)
        if not inside and name != "reshape" and not _is_elementwise(name):
            raise NotByRowsError(name)
        shape = value_type(operation.results[0]).shape
        if _is_elementwise(name):
            found = {axis + len(shape) - len(value_type(value).shape) for value, axis in inside} or {0}
            axis = found.pop()
            if found:
                raise NotByRowsError(f"{name} of rows along several axes")
        else:
            value, axis = (inside or [(operation.operands[0], 0)])[0]
            axis = _moved_axis(name, attributes_of(operation), axis, len(value_type(value).shape))
        if axis >= len(shape) or shape[axis] % self.count:
            raise NotByRowsError(f"{name} of so many rows")
        return axis

    def _axis_of_product(self, operation: ir.Operation) -> int:
        """Rows of the left factor are those of the product; a product over all rows is a sum."""
        lhs, rhs = operation.operands
        shapes = [value_type(value).shape for value in (lhs, rhs)]
        if len(shapes[1]) == 2 and rhs not in self.axes and self.axes.get(lhs, 0) == 0 and len(shapes[0]) >= 2:
            return 0
        if len(shapes[0]) == len(shapes[1]) == 2 and self.axes.get(lhs, 1) == 1 and self.axes.get(rhs, 0) == 0:
            return SUMMED
        raise NotByRowsError("matmul")

    # Writing.
    def _write_part(self, number: int) -> None:
        outside: dict[ir.Value, Tensor] = {}
        with ir.InsertionPoint(self.place):
            for operation in self.members:
                with emitting_at(operation.location):
                    made = self._again(operation, number, outside)
                    for value, result in zip(operation.results, made, strict=True):
                        parts = self.parts.setdefault(value, [])
                        parts.append(parts[-1] + result if self.axes[value] == SUMMED and parts else result)

    def _again(self, operation: ir.Operation, number: int, outside: dict[ir.Value, Tensor]) -> list[Tensor]:
        """What an op gives for one range of rows."""
        name, result = operation.name.removeprefix("blu."), operation.results[0]
        if name == "barrier" and operation.operands[0] in self.axes:
            # What comes after it reads the same rows at once: a loss and its gradient read them together.
            return [self.parts[operation.operands[0]][number]]
        attributes = attributes_of(operation)
        axis = self.axes[result]
        if name in ("reshape", "broadcast_to"):
            shape = list(attributes["shape"])
            shape[axis] //= self.count
            attributes["shape"] = tuple(shape)
        operands = []
        for index, value in enumerate(operation.operands):
            if value in self.axes:
                operands.append(self.parts[value][number])
                continue
            if value not in outside:
                outside[value] = _apart(value, number)
            operands.append(self._range(outside[value], self._axis_of_operand(operation, index), number))
        if axis == SUMMED and _is_turned(result):
            lhs, rhs = (factor.transpose(1, 0) for factor in operands)
            operands = [rhs, lhs]
        if axis == SUMMED and (half := str(operands[0].dtype)) in ROUNDING:
            # A product of the same numbers that is not rounded before it is added to the others.
            operands, attributes["precision"] = [item.astype(f32) for item in operands], half
        return emit(OPS[name], operands, attributes)

    def _axis_of_operand(self, operation: ir.Operation, index: int) -> int | None:
        """The axis of rows of an operand that is made elsewhere; None where all of it belongs to each range."""
        axis = self.axes[operation.results[0]]
        shape = value_type(operation.operands[index]).shape
        if operation.name == "blu.matmul":
            if axis == SUMMED:
                return 1 - index
            return 0 if index == 0 else None
        if operation.name == "blu.settle_rows":
            return None if index == _WEIGHTS else axis
        if not _is_elementwise(operation.name.removeprefix("blu.")):
            return axis
        axis -= len(value_type(operation.results[0]).shape) - len(shape)
        return axis if axis >= 0 and shape[axis] != 1 else None

    def _range(self, value: Tensor, axis: int | None, number: int) -> Tensor:
        if axis is None:
            return value
        size = value.shape[axis] // self.count
        place = slice(number * size, (number + 1) * size)
        return value[(slice(None),) * axis + (place,)]

    def _whole(self, value: ir.Value, axis: int) -> Tensor:
        """The result for all rows, from those for the ranges."""
        parts = self.parts[value]
        if axis != SUMMED:
            return emit(OPS["concatenate"], [parts], {"axis": axis})[0]
        total = parts[-1].astype(value_type(value).dtype)
        return total.transpose(1, 0) if _is_turned(value) else total


def _apart(value: ir.Value, number: int) -> Tensor:
    """A value that ranges of rows do not share, so that nothing is computed for several of them together.

    Barriers around one value are one, so each range has another number of them.
    """
    if not isinstance(value.owner, ir.Block) and not list(value.owner.operands):
        return Tensor(value)
    for _ in range(number + 1):
        value = Barrier(Tensor(value)).value
    return Tensor(value)


def _read_apart(operation: ir.Operation, number: int, results: set[ir.Value]) -> None:
    """Let an op that comes after all ranges of rows read other values apart.

    What they are for each range is then not computed together with it, as late as that.
    """
    for index, value in enumerate(operation.operands):
        if value not in results:
            with ir.InsertionPoint(operation), emitting_at(operation.location):
                operation.operands[index] = _apart(value, number).value


def _members(product: ir.Operation, operations: list[ir.Operation]) -> list[ir.Operation]:
    """The ops that make or read values as large as a product and made from it, and those on the way between them."""
    size = value_type(product.results[0]).size
    large, waiting = {product}, [product]
    while waiting:
        operation = waiting.pop()
        made = [value.owner for value in operation.operands if value_type(value).size == size]
        found = [item for item in made if operation != product and not isinstance(item, ir.Block)]
        if value_type(operation.results[0]).size == size:
            found += [use.owner.operation for use in operation.results[0].uses if len(use.owner.results)]
        found = [item for item in found if item not in large]
        large.update(found)
        waiting.extend(found)
    starts = _reached(operations, large, lambda item: (value.owner for value in item.operands))
    ends = _reached(operations[::-1], large, lambda item: (use.owner.operation for use in _uses(item)))
    return _with_numbers_of_rows(operations, starts & ends, size // value_type(product.results[0]).shape[-1])


def _with_numbers_of_rows(operations: list[ir.Operation], found: set[ir.Operation], rows: int) -> list[ir.Operation]:
    """With what makes a number for each row for nobody else: better done on the way than stored."""
    for operation in reversed(operations):
        name, users = operation.name.removeprefix("blu."), [use.owner.operation for use in _uses(operation)]
        is_read = users and all(user in found for user in users)
        if not is_read or name not in OPS or value_type(operation.results[0]).size != rows:
            continue
        if list(operation.operands) and (name == "reshape" or _is_elementwise(name)):
            found.add(operation)
    return [item for item in operations if item in found]


def _uses(operation: ir.Operation) -> Iterable[ir.OpOperand]:
    return (use for result in operation.results for use in result.uses)


def _reached(operations: Iterable[ir.Operation], marked: set[ir.Operation], neighbours: Any) -> set[ir.Operation]:
    """Those that are marked, or have a neighbour before them that is reached."""
    found = set()
    for operation in operations:
        if operation in marked or any(item in found for item in neighbours(operation)):
            found.add(operation)
    return found


def _is_elementwise(name: str) -> bool:
    return name in _ELEMENTWISE or issubclass(OPS[name], Pointwise)


def _moved_axis(name: str, attributes: dict[str, Any], axis: int, rank: int) -> int:
    """Where the rows of an op's operand are in its result."""
    if name in _REDUCTIONS and axis not in attributes["axes"]:
        return axis if attributes["keepdims"] else axis - sum(other < axis for other in attributes["axes"])
    if name == "transpose":
        return attributes["permutation"].index(axis)
    if name == "broadcast_to":
        return axis + len(attributes["shape"]) - rank
    if name in ("reshape", "cross_entropy", "settle_rows") and axis == 0:
        return 0
    raise NotByRowsError(name)


def _is_turned(value: ir.Value) -> bool:
    """Whether a matrix is only read transposed: it is then formed so."""
    users = [use.owner.operation for use in value.uses]
    return bool(users) and all(user.name == "blu.transpose" for user in users)
