"""How ops are done for many slices at once: rules that `blu.vmap` follows, of which each op's class names one.

A rule gets an op of one slice as a `Batched`, and gives results for all of them, along a new first dimension.

| rule | of ops |
|---|---|
| `elementwise` | that broadcast their operands |
| `along` | whose attributes `axis` or `axes` say where they work |
| `in_front` | whose attributes have an entry for each dimension |
| `folded` | whose first dimension is one of slices already |
| `at_the_end` | that work on the last dimensions, however many are before them |
| `in_turn` | of any other kind: a loop does one slice after the other |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from blu.dataclass import dataclass, field
from blu.dialects.core.dtypes import TensorType
from blu.dialects.core.fields import on_operand
from blu.dialects.tensor.tensor import Tensor

if TYPE_CHECKING:
    from blu.dialects.core.op import Op


@dataclass(frozen=True)
class Slices:
    """An operand: one tensor for all slices, or (`is_batched`) one for each, along the first dimension."""

    tensor: Tensor
    is_batched: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """That of a slice."""
        return self.tensor.shape[1:] if self.is_batched else self.tensor.shape


@dataclass(frozen=True)
class Batched:
    """An op on one slice that is to be done for `size` of them: `operands` are by fields, each a `Slices`, a list of
    them, or None. `bodies` take a `Slices` for each of their arguments and give batched tensors."""

    cls: type[Op]
    size: int
    operands: list[Any]
    attributes: dict[str, Any]
    results: tuple[TensorType, ...]
    bodies: Mapping[str, Callable[..., list[Tensor]]] = field(default_factory=dict)

    def each(self, item: Slices) -> Tensor:
        """An operand with all slices along its first dimension."""
        if item.is_batched:
            return item.tensor
        shape = (self.size, *item.shape)
        return item.tensor.reshape((1, *item.shape)).broadcast_to(shape)

    def aligned(self, item: Slices, ndim: int) -> Tensor:
        """An operand whose slices have so many dimensions, ones before those that they have."""
        if not item.is_batched:
            return item.tensor
        return item.tensor.reshape((self.size, *(1,) * (ndim - len(item.shape)), *item.shape))

    def emit(self, operands: Sequence[Any], **changed: Any) -> list[Tensor]:
        """The op on other operands, with some attributes changed."""
        found = self.cls(*operands, **{**self.attributes, **changed})
        return list(found) if isinstance(found, tuple) else [found]

    def spread(self, results: Sequence[Tensor]) -> list[Tensor]:
        """Results in the shapes that they have for all slices."""
        return [item.reshape((self.size, *type_.shape)) for item, type_ in zip(results, self.results, strict=True)]

    @property
    def flat(self) -> list[Slices]:
        """All operands in a row."""
        groups = (item if isinstance(item, list) else [item] for item in self.operands)
        return [item for group in groups for item in group if item is not None]


Rule = Callable[[Batched], Sequence[Tensor]]


def elementwise(op: Batched) -> list[Tensor]:
    """Operands get ones between the slices and the dimensions that they have."""
    ndim = max((len(item.shape) for item in op.flat), default=0)
    return op.emit([on_operand(lambda item: op.aligned(item, ndim), item) for item in op.operands])


def along(op: Batched) -> list[Tensor]:
    """The axes move on by one."""
    changed: dict[str, Any] = {}
    if "axis" in op.attributes:
        changed["axis"] = op.attributes["axis"] + 1
    if "axes" in op.attributes:
        changed["axes"] = tuple(axis + 1 for axis in op.attributes["axes"])
    return op.emit([on_operand(op.each, item) for item in op.operands], **changed)


def at_the_end(op: Batched) -> list[Tensor]:
    """Of the first operand there is one for each slice; the others are for all."""
    first, *others = op.operands
    if any(item is not None and item.is_batched for item in others):
        return in_turn(op)
    return op.emit([op.each(first), *(on_operand(lambda item: item.tensor, item) for item in others)])


def in_front(**entries: Any) -> Rule:
    """Attributes get an entry for the slices: a number, or "size" for how many there are."""

    def rule(op: Batched) -> list[Tensor]:
        first, *others = op.operands
        if any(item is not None and item.is_batched for item in others):
            return in_turn(op)
        changed = {
            name: (op.size if entry == "size" else entry, *op.attributes[name]) for name, entry in entries.items()
        }
        rest = [on_operand(lambda item: item.tensor, item) for item in others]
        return op.emit([op.each(first), *rest], **changed)

    return rule


def folded(*names: str, without: str = "") -> Rule:
    """The slices of the operands of some fields are put together with their first dimension; all others are for all
    slices, or else these are done in turn, as they are with an operand in the field `without`."""

    def rule(op: Batched) -> list[Tensor]:
        declared = [item.name for item in op.cls.given_fields()]
        pairs = list(zip(declared, op.operands, strict=True))
        if any(item is not None and (item.is_batched or name == without) for name, item in pairs if name not in names):
            return in_turn(op)
        given = []
        for name, item in pairs:
            tensor = None if item is None else item.tensor
            if name in names and item is not None:
                tensor = op.each(item).reshape((op.size * item.shape[0], *item.shape[1:]))
            given.append(tensor)
        return op.spread(op.emit(given))

    return rule


def in_turn(op: Batched) -> list[Tensor]:
    """A loop does the op for one slice after the other."""
    from blu.dialects.ops.control.scan import Scan

    moving = [item.tensor for item in op.flat if item.is_batched]

    def step(*slices: Tensor) -> list[Tensor]:
        others = iter(slices)
        return op.emit(
            [on_operand(lambda item: next(others) if item.is_batched else item.tensor, item) for item in op.operands]
        )

    return list(Scan([], moving, body=step, length=op.size, reverse=False, saved=0))


def starts_of_all(op: Batched) -> list[Tensor] | None:
    """Where windows of all slices start, by the last operands, and 0 along the slices; None where each has its own."""
    starts = op.operands[-1]
    is_own = not starts or any(start.is_batched for start in starts)
    return None if is_own else [starts[0].tensor * 0, *(start.tensor for start in starts)]
