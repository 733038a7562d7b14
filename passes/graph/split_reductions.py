"""Reductions of few long rows, written as reductions of many parts and a reduction of what those give.

    %1 = "blu.max"(%0) {axes = [0]} : tensor<67108864xf32>

becomes

    %1 = "blu.reshape"(%0) : tensor<1024x65536xf32>
    %2 = "blu.max"(%1) {axes = [1]} : tensor<1024xf32>
    %3 = "blu.max"(%2) {axes = [0]} : tensor<f32>

A kernel's blocks are rows, so that a row that is alone would be one thread's, and nothing would interrupt it. How a row
is cut follows from shapes alone. Elementwise ops that only the reduction reads are done in parts with it, so that what
was not in memory before is not now.
"""

from __future__ import annotations

from math import ceil

from blu.dataclass import dataclass
from blu.dialects.core.dtypes import computing_dtype, i64, product
from blu.dialects.core.evaluation import on_operand
from blu.dialects.core.mlir import ir
from blu.dialects.core.op import OPS, attributes_of, emit, operands_of
from blu.dialects.ops.pointwise import Pointwise
from blu.dialects.tensor.tensor import Tensor

LONG = 1 << 17
"""Elements of a row from which on it is cut, if there are few."""
ENOUGH_ROWS = 64
"""Rows, or vectors of columns, that need no cutting."""
PART = 1 << 16
"""Elements that a part has: some tens of microseconds."""
SHORT = 32
"""Elements of a row that is not worth a step of its own."""
VECTOR = 128
"""Columns that are added up beside each other."""
REDUCTIONS = ("sum", "prod", "max", "min", "any", "all")
SEARCHES = {"argmax": "max", "argmin": "min"}
_ELEMENTWISE = ("where", "convert", "reduce_precision")
_ROUNDING = ("sum", "prod")


@dataclass(frozen=True)
class Cut:
    """`rows` ranges of `width` positions each, from position `start` on, of the axis that is `place`th from the end."""

    place: int
    size: int
    start: int
    rows: int
    width: int

    def of(self, value: Tensor) -> Tensor:
        """The same positions of a value, as two axes in the place of one; whatever has no such axis as it is."""
        if value.ndim < self.place:
            return value
        if value.shape[self.axis_of(value)] != self.size:
            return value.reshape(self._shape(value, 1, 1))
        done = self._again(value)
        return self._view(value) if done is None else done

    def axis_of(self, value: Tensor) -> int:
        """The axis that is cut."""
        return value.ndim - self.place

    def _shape(self, value: Tensor, rows: int, width: int) -> tuple[int, ...]:
        axis = self.axis_of(value)
        return (*value.shape[:axis], rows, width, *value.shape[axis + 1 :])

    def _view(self, value: Tensor) -> Tensor:
        window = slice(self.start, self.start + self.rows * self.width)
        within = value[(slice(None),) * self.axis_of(value) + (window,)]
        return within.reshape(self._shape(value, self.rows, self.width))

    def _again(self, value: Tensor) -> Tensor | None:
        """What an elementwise op gives there, if only one op reads it; the op itself is no longer needed then."""
        operation = value.value.owner
        if isinstance(operation, ir.Block) or len(list(value.value.uses)) > 1:
            return None
        name = operation.name.removeprefix("blu.")
        attributes = attributes_of(operation) if name in OPS else {}
        if name == "iota":
            return self._count(value, attributes["axis"])
        if name == "broadcast_to":
            attributes["shape"] = self._shape(value, self.rows, self.width)
        elif name not in _ELEMENTWISE and not (name in OPS and issubclass(OPS[name], Pointwise)):
            return None
        operands = [on_operand(lambda item: self.of(Tensor(item)), item) for item in operands_of(operation)]
        return emit(OPS[name], operands, attributes)[0]

    def _count(self, value: Tensor, along: int) -> Tensor:
        axis, iota, shape = self.axis_of(value), OPS["iota"], self._shape(value, self.rows, self.width)
        if along != axis:
            return iota(shape=shape, axis=along + (along > axis), dtype=value.dtype)
        row, position = (iota(shape=shape, axis=axis + inner, dtype=i64) for inner in range(2))
        return (row * self.width + position + self.start).astype(value.dtype)


def split(operation: ir.Operation, longest: int) -> ir.Value | None:
    """What a reduction gives, formed in parts; None for one that is not long."""
    name, attributes = operation.name.removeprefix("blu."), attributes_of(operation)
    operand, result = Tensor(operation.operands[0]), Tensor(operation.results[0])
    axes = (attributes["axis"],) if name in SEARCHES else attributes["axes"]
    if not _is_long(operand, axes, longest):
        return None
    found = searched(name, operand, axes[0], longest) if name in SEARCHES else reduced(name, operand, axes, longest)
    return found.reshape(result.shape).value


def split_dot(operation: ir.Operation, longest: int) -> ir.Value | None:
    """A product of a long row and a long column, as the sum of products that it is; None for any other product."""
    left, right, result = (Tensor(value) for value in (*operation.operands, operation.results[0]))
    if result.type.size != 1 or left.type.size < longest:
        return None
    wide = computing_dtype(left.dtype)
    terms = left.reshape((-1,)).astype(wide) * right.reshape((-1,)).astype(wide)
    return reduced("sum", terms, (0,), longest).astype(left.dtype).reshape(result.shape).value


def reduced(name: str, operand: Tensor, axes: tuple[int, ...], longest: int = LONG) -> Tensor:
    """The operand without its dimensions `axes`; f16 and bf16 are accumulated in f32 and rounded once.

    Rows of `longest` elements are cut, unless there are many of them.
    """
    if not _is_long(operand, axes, longest):
        return OPS[name](operand, axes=axes, keepdims=False)
    dtype = operand.dtype
    wide = operand.astype(computing_dtype(dtype)) if name in _ROUNDING else operand
    if len(axes) > 1 and max(axes) == operand.ndim - 1 and operand.shape[-1] >= SHORT:
        rows = reduced(name, wide, axes[-1:], longest)  # what is read elementwise is read by rows
        return reduced(name, rows, axes[:-1], longest).astype(dtype)
    axis = max(axes, key=lambda item: operand.shape[item])
    others = [item for item in axes if item != axis]
    parts = []
    for cut in _cuts(operand, axes, axis):
        inner = (axis + 1, *(item + (item > axis) for item in others))
        parts.append(reduced(name, cut.of(wide), tuple(sorted(inner)), longest))
    place = axis - sum(item < axis for item in others)
    return reduced(name, _joined(parts, place), (place,), longest).astype(dtype)


def searched(name: str, operand: Tensor, axis: int, longest: int = LONG) -> Tensor:
    """The position (i64) of the first largest or smallest element along an axis; of the first NaN, if there is one."""
    if not _is_long(operand, (axis,), longest):
        return OPS[name](operand, axis=axis, keepdims=False)
    best, places = [], []
    for cut in _cuts(operand, (axis,), axis):
        part = cut.of(operand)
        best.append(reduced(SEARCHES[name], part, (axis + 1,), longest))
        place = OPS[name](part, axis=axis + 1, keepdims=False)
        start = OPS["iota"](shape=place.shape, axis=axis, dtype=i64) * cut.width + cut.start
        places.append(start + place)
    values = _joined(best, axis)
    overall = reduced(SEARCHES[name], values, (axis,), longest).reshape(
        [1 if item == axis else size for item, size in enumerate(values.shape)]
    )
    wins = (values == overall) | (values != values)  # NaN is not itself
    return reduced("min", wins.where(_joined(places, axis), operand.shape[axis]), (axis,), longest)


def _is_long(operand: Tensor, axes: tuple[int, ...], longest: int) -> bool:
    if not axes or 0 in operand.shape or product(operand.shape[axis] for axis in axes) < longest:
        return False
    kept = [size for axis, size in enumerate(operand.shape) if axis not in axes]
    beside = _beside(operand, axes)
    return 0 < product(kept) // beside * ceil(beside / VECTOR) < ENOUGH_ROWS


def _beside(operand: Tensor, axes: tuple[int, ...]) -> int:
    """Elements that lie beside each other in rows that are all reduced."""
    return product(operand.shape[max(axes) + 1 :])


def _cuts(operand: Tensor, axes: tuple[int, ...], axis: int) -> list[Cut]:
    """The parts of an axis: as long as each other, and a rest."""
    size = operand.shape[axis]
    beside = product(operand.shape[item] for item in axes if item != axis) * _beside(operand, axes)
    width = min(max(PART // beside, 1), max(size // 2, 1))
    width = next((item for item in range(width, 2 * width) if size % item == 0), width)
    place, rows = operand.ndim - axis, size // width
    cuts = [Cut(place, size, 0, rows, width)]
    return [*cuts, Cut(place, size, rows * width, 1, size % width)] if size % width else cuts


def _joined(parts: list[Tensor], axis: int) -> Tensor:
    return parts[0] if len(parts) == 1 else OPS["concatenate"](parts, axis=axis)
