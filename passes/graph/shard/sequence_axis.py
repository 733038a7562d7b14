"""Where the rows of a sequence are in the values of a program, and how they may be split between products.

Ranks that share layers (`tp`) would all have the same activations between them, and all do the same norms. With
`blu.between = "*, tp"` on the argument of tokens, they have parts of the rows there: what was an all-reduce behind a
product of which each rank has a term is a reduce-scatter, and what the next product needs of all rows is gathered
(Korthikanti et al., "Reducing activation recomputation in large transformer models"). The sequence is followed from the
arguments through transposes and reshapes, so that of rows flattened to B*T, and of the sums over them in gradients of
weights, it is known which of them a rank has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from blu.dataclass import dataclass, field
from blu.dialects.core.mlir import func, ir
from blu.dialects.core.op import Op, attributes_of, operation_class, value_type
from blu.dialects.ops.pointwise import Pointwise
from blu.dialects.ops.reduction import Reduction
from blu.dialects.sharding import Sharding, Split, Splits, in_order
from blu.passes.graph.shard.reshaping import moved_split
from blu.plan.mesh import Mesh

Place = tuple[int, Split]
"""The dimension in which rows of sequences are, and how they may be split there."""
MAKERS = frozenset({"matmul", "take"})
"""Ops whose results, where ranks have terms of them, are activations; what else has terms is added up as it is."""


@dataclass
class SequenceAxis:
    """The places of sequences in the values of a function, by its values."""

    mesh: Mesh
    places: dict[ir.Value, Place] = field(default_factory=dict)

    @classmethod
    def of(cls, function: func.FuncOp, given: Sequence[Sharding | None], mesh: Mesh) -> SequenceAxis:
        """Follow the sequences of the arguments that have any, in order of the arguments."""
        found = cls(mesh)
        for argument, sharding in zip(function.entry_block.arguments, given, strict=True):
            for dim, splits in enumerate(sharding.dims if sharding else ()):
                for split in splits:
                    found.places[argument] = (dim, split)
        for operation in (item.operation for item in function.entry_block.operations) if found.places else ():
            op = operation_class(operation)
            if op is not None:
                found._follow(operation, op)
        return found

    def split_at(self, value: ir.Value, dim: int, splits: Splits) -> Split | None:
        """The split of the rows of a sequence, if they are in this dimension and split like this."""
        place = self.places.get(value)
        return place[1] if place is not None and place[0] == dim and place[1] in splits else None

    def _follow(self, operation: ir.Operation, op: type[Op]) -> None:
        values = [value for value in operation.operands if value in self.places]
        if not values:
            return
        rule = _RULES.get(op.name) or next((rule for base, rule in _FAMILIES.items() if issubclass(op, base)), None)
        if rule is None:
            return
        for result in operation.results:
            place = next(filter(None, (rule(self, operation, value, result) for value in values)), None)
            if place is not None and self._fits(place, result):
                self.places[result] = place

    def _fits(self, place: Place, value: ir.Value) -> bool:
        dim, split = place
        return _shape(value)[dim] % (split.groups * self.mesh.ranks(split.axis)) == 0

    def wanted(self, value: ir.Value, sharding: Sharding) -> Sharding:
        """The sharding of a result, with rows split in place of a sum where that may be."""
        place = self.places.get(value)
        if place is None or place[1].axis not in sharding.partial:
            return sharding
        dim, split = place
        rest = tuple(axis for axis in sharding.partial if axis != split.axis)
        return sharding.with_dim(dim, in_order([*sharding.dims[dim], split])).with_partial(rest)


def _shape(value: ir.Value) -> tuple[int, ...]:
    return value_type(value).shape


Rule = Callable[[SequenceAxis, ir.Operation, ir.Value, ir.Value], Place | None]


def _same(axis: SequenceAxis, operation: ir.Operation, value: ir.Value, result: ir.Value) -> Place | None:
    """The dimension that is as far from the last, if it is there whole."""
    dim, split = axis.places[value]
    place = dim + len(_shape(result)) - len(_shape(value))
    return (place, split) if place >= 0 and _shape(result)[place] == _shape(value)[dim] else None


def _reduced(axis: SequenceAxis, operation: ir.Operation, value: ir.Value, result: ir.Value) -> Place | None:
    dim, split = axis.places[value]
    attributes = attributes_of(operation)
    if dim in attributes["axes"]:
        return None
    return (dim if attributes["keepdims"] else dim - sum(other < dim for other in attributes["axes"])), split


def _transposed(axis: SequenceAxis, operation: ir.Operation, value: ir.Value, result: ir.Value) -> Place | None:
    dim, split = axis.places[value]
    return list(attributes_of(operation)["permutation"]).index(dim), split


def _reshaped(axis: SequenceAxis, operation: ir.Operation, value: ir.Value, result: ir.Value) -> Place | None:
    dim, split = axis.places[value]
    return moved_split(split, dim, _shape(value), _shape(result), axis.mesh.ranks(split.axis))


def _product(axis: SequenceAxis, operation: ir.Operation, value: ir.Value, result: ir.Value) -> Place | None:
    """Rows of the left side are rows of the result; over those that a product sums up, there are none."""
    dim, split = axis.places[value]
    is_left = value == operation.operands[0] and _shape(operation.operands[1])[:-2] == ()
    return (dim, split) if is_left and dim < len(_shape(value)) - 1 else None


def _taken(axis: SequenceAxis, operation: ir.Operation, value: ir.Value, result: ir.Value) -> Place | None:
    if value != operation.operands[1]:
        return None
    dim, split = axis.places[value]
    return dim + attributes_of(operation)["axis"], split


_KEEPING = (
    "convert",
    "where",
    "clip",
    "barrier",
    "stop_gradient",
    "reduce_precision",
    "nearest_byte",
    "checked_index",
    "broadcast_to",
)
_LAYERS = ("softmax", "log_softmax", "gelu", "silu", "layer_norm", "rms_norm", "attention", "attention_gradient")
_CUTTING = ("slice", "pad", "concatenate")
_RULES: Mapping[str, Rule] = {
    **dict.fromkeys((*_KEEPING, *_LAYERS, *_CUTTING), _same),
    "transpose": _transposed,
    "reshape": _reshaped,
    "matmul": _product,
    "take": _taken,
}
_FAMILIES: Mapping[type[Op], Rule] = {Pointwise: _same, Reduction: _reduced}
