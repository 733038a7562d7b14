"""Builders of linalg.generic that all rules share: broadcasting pointwise loops and reductions in canonical form.

Canonical form: leading dimensions that all operands treat alike are collapsed into one, the last dimension stays alone.
`[B, T, C] + [C]` becomes a loop over `[B*T, C]`, so that ops which walk the same data get the same loop bounds:
what the fuser looks for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import groupby

from blu.dialects.core.dtypes import product
from blu.dialects.core.mlir import arith, ir, linalg, tensor
from blu.dialects.core.remembering import once

Body = Callable[..., ir.Value | Sequence[ir.Value]]
PARALLEL, REDUCTION = "parallel", "reduction"
RESHAPES = ("tensor.collapse_shape", "tensor.expand_shape")


def iterators(kinds: Sequence[str]) -> ir.ArrayAttr:
    """The attribute iterator_types, of PARALLEL and REDUCTION."""
    return ir.ArrayAttr.get([_iterator((ir.Context.current, kind)) for kind in kinds])


@once
def _iterator(place: tuple[ir.Context, str]) -> ir.Attribute:
    context, kind = place
    return ir.Attribute.parse(f"#linalg.iterator_type<{kind}>", context)


def projection(rank: int, dims: Sequence[int]) -> ir.AffineMap:
    """The map (d0, .., d<rank-1>) -> (d<dims[0]>, ..)."""
    return _projection((ir.Context.current, rank, tuple(dims)))


@once
def _projection(place: tuple[ir.Context, int, tuple[int, ...]]) -> ir.AffineMap:
    context, rank, dims = place
    return ir.AffineMap.get(rank, 0, [ir.AffineExpr.get_dim(dim, context) for dim in dims], context)


def maps_attribute(maps: Sequence[ir.AffineMap]) -> ir.ArrayAttr:
    """The attribute indexing_maps."""
    return ir.ArrayAttr.get([ir.AffineMapAttr.get(item) for item in maps])


def empty(shape: Sequence[int], element: ir.Type) -> ir.Value:
    """A tensor without values, to write into."""
    type_ = ir.RankedTensorType.get(shape, element)
    return ir.Operation.create("tensor.empty", results=[type_]).result


def generic(
    inputs: Sequence[ir.Value],
    outputs: Sequence[ir.Value],
    maps: Sequence[ir.AffineMap],
    kinds: Sequence[str],
    body: Body,
) -> list[ir.Value]:
    """A linalg.generic whose region `body` writes: given all scalars, it returns what to yield."""
    # Not by upstream's class, nor the yield: there are thousands.
    operation = ir.Operation.create(
        linalg.GenericOp.OPERATION_NAME,
        results=[value.type for value in outputs],
        operands=[*inputs, *outputs],
        attributes={
            "indexing_maps": maps_attribute(maps),
            "iterator_types": iterators(kinds),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(inputs), len(outputs)]),
        },
        regions=1,
    )
    elements = [ir.ShapedType(value.type).element_type for value in (*inputs, *outputs)]
    block = operation.regions[0].blocks.append(*elements)
    with ir.InsertionPoint(block):
        result = body(*block.arguments)
        yielded = list(result) if isinstance(result, (list, tuple)) else [result]
        ir.Operation.create(linalg.YieldOp.OPERATION_NAME, operands=yielded)
    return list(operation.results)


def shape_of(value: ir.Value) -> tuple[int, ...]:
    """The static shape of a tensor."""
    return tuple(ir.RankedTensorType(value.type).shape)


def reshape(value: ir.Value, shape: Sequence[int]) -> ir.Value:
    """`value` with another shape of the same size, as collapse_shape and expand_shape, seen through those before it."""
    source, target = shape_of(value), tuple(shape)
    while source != target and not isinstance(value.owner, ir.Block) and value.owner.name in RESHAPES:
        value = value.owner.operands[0]
        source = shape_of(value)
    if source == target:
        return value
    element = ir.RankedTensorType(value.type).element_type
    if not source:
        return _expand(value, [], target, element, 0)
    if not target:
        return tensor.CollapseShapeOp(ir.RankedTensorType.get([], element), value, _reassociation([])).result
    groups = common_factors(source, target)
    middle = [product(source[dim] for dim in left) for left, _ in groups]
    collapsed = _collapse(value, [left for left, _ in groups], middle, element, len(source))
    return _expand(collapsed, [right for _, right in groups], target, element, len(middle))


def _collapse(value: ir.Value, groups: list, shape: list[int], element: ir.Type, rank: int) -> ir.Value:
    if rank == len(groups):
        return value
    type_ = ir.RankedTensorType.get(shape, element)
    return tensor.CollapseShapeOp(type_, value, _reassociation(groups)).result


def _expand(value: ir.Value, groups: list, shape: tuple[int, ...], element: ir.Type, rank: int) -> ir.Value:
    if rank == len(shape):
        return value
    type_ = ir.RankedTensorType.get(shape, element)
    return tensor.ExpandShapeOp(type_, value, _reassociation(groups), [], list(shape)).result


def _reassociation(groups: list) -> ir.ArrayAttr:
    i64 = ir.IntegerType.get_signless(64)
    return ir.ArrayAttr.get([ir.ArrayAttr.get([ir.IntegerAttr.get(i64, dim) for dim in group]) for group in groups])


def common_factors(source: Sequence[int], target: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Split two shapes of equal size into the shortest runs of dimensions with equal products.

    [2, 3, 4] and [6, 4] give [([0, 1], [0]), ([2], [1])]. Where a size is 0, everything is one run.
    """
    if 0 in source:
        return [(list(range(len(source))), list(range(len(target))))]
    groups: list[tuple[list[int], list[int]]] = []
    left = right = 0
    while left < len(source) or right < len(target):
        first, second = [left], [right]
        if left >= len(source) or right >= len(
            target
        ):  # only unit dimensions are left on one side: the last run takes them
            groups[-1][0].extend(range(left, len(source)))
            groups[-1][1].extend(range(right, len(target)))
            break
        sizes = [source[left], target[right]]
        left, right = left + 1, right + 1
        while sizes[0] != sizes[1]:
            if sizes[0] < sizes[1]:
                sizes[0] *= source[left]
                first.append(left)
                left += 1
            else:
                sizes[1] *= target[right]
                second.append(right)
                right += 1
        groups.append((first, second))
    return groups


def runs(size: int, alike: Callable[[int, int], bool]) -> list[list[int]]:
    """Maximal runs of adjacent dimensions for which `alike(previous, next)` holds."""
    result: list[list[int]] = []
    for dim in range(size):
        if result and alike(result[-1][-1], dim):
            result[-1].append(dim)
        else:
            result.append([dim])
    return result


def pointwise(shape: Sequence[int], inputs: Sequence[ir.Value], element: ir.Type, body: Body) -> ir.Value:
    """A loop over `shape` that reads broadcast `inputs` and gives one tensor of `element`s, in canonical form.

    Inputs that are splat constants are written into the body, so `body` always gets one scalar for each input.
    """
    constants = {index: splat for index, value in enumerate(inputs) if (splat := splat_of(value)) is not None}
    tensors = [value for index, value in enumerate(inputs) if index not in constants]
    groups, shapes = _canonical(tuple(shape), tuple(_aligned(shape_of(value), len(shape)) for value in tensors))
    loop = [product(shape[dim] for dim in group) for group in groups]
    operands = [reshape(value, [loop[dim] for dim in dims]) for value, dims in zip(tensors, shapes, strict=True)]
    maps = [projection(len(loop), dims) for dims in (*shapes, range(len(loop)))]

    def with_constants(*scalars: ir.Value) -> ir.Value | Sequence[ir.Value]:
        remaining = iter(scalars[:-1])
        arguments = [_scalar(constants[i]) if i in constants else next(remaining) for i in range(len(inputs))]
        return body(*arguments)

    (result,) = generic(operands, [empty(loop, element)], maps, [PARALLEL] * len(loop), with_constants)
    return reshape(result, shape)


def _scalar(attribute: ir.Attribute) -> ir.Value:
    return arith.constant(attribute.type, attribute)


def splat_of(value: ir.Value) -> ir.Attribute | None:
    """The element of a constant whose elements are all equal, or None for other values."""
    owner = value.owner
    if isinstance(owner, ir.Block):
        return None
    if owner.name == "linalg.fill":
        return _constant_scalar(owner.operands[0])
    if owner.name != "arith.constant":
        return None
    dense = owner.attributes["value"]
    if not isinstance(dense, ir.DenseElementsAttr) or not dense.is_splat:
        return None
    return dense.get_splat_value()


def _constant_scalar(value: ir.Value) -> ir.Attribute | None:
    owner = value.owner
    return owner.attributes["value"] if not isinstance(owner, ir.Block) and owner.name == "arith.constant" else None


def _aligned(shape: tuple[int, ...], rank: int) -> tuple[int, ...]:
    return (1,) * (rank - len(shape)) + shape


@lru_cache
def _canonical(
    shape: tuple[int, ...], operands: tuple[tuple[int, ...], ...]
) -> tuple[list[list[int]], list[list[int]]]:
    """The runs of loop dimensions, and for each operand which of the runs it has (the others it is broadcast over)."""

    def present(operand: tuple[int, ...], dim: int) -> bool | None:
        return None if shape[dim] == 1 else operand[dim] != 1

    def consistent(group: list[int], operand: tuple[int, ...]) -> bool:
        return len({present(operand, dim) for dim in group} - {None}) <= 1

    groups: list[list[int]] = []
    for dim in range(len(shape)):
        stays_alone = dim == len(shape) - 1 and shape[dim] != 1  # a kept dimension of a row reduction joins the rows
        if groups and not stays_alone and all(consistent([*groups[-1], dim], operand) for operand in operands):
            groups[-1].append(dim)
        else:
            groups.append([dim])

    def has(operand: tuple[int, ...], group: list[int]) -> bool:
        return next((known for dim in group if (known := present(operand, dim)) is not None), True)

    return groups, [[index for index, group in enumerate(groups) if has(operand, group)] for operand in operands]


def reduction_runs(rank: int, axes: Sequence[int]) -> list[tuple[bool, list[int]]]:
    """Runs of dimensions that are all reduced or all kept: (reduced, dims)."""
    return [(reduced, list(dims)) for reduced, dims in groupby(range(rank), key=lambda dim: dim in axes)]


def reduce(value: ir.Value, axes: Sequence[int], initial: Sequence[ir.Value], body: Body) -> list[ir.Value]:
    """Reduce `axes` of a tensor; `initial` are the scalars each result starts from. Kept dimensions stay in order.

    `body(element, *accumulators)` gives the next accumulators. Results have the shape of the kept dimensions.
    """
    shape = shape_of(value)
    groups = reduction_runs(len(shape), axes)
    loop = [product(shape[dim] for dim in dims) for _, dims in groups]
    kept = [index for index, (reduced, _) in enumerate(groups) if not reduced]
    outputs = [fill(scalar, [loop[index] for index in kept]) for scalar in initial]
    maps = [projection(len(loop), range(len(loop)))] + [projection(len(loop), kept)] * len(initial)
    kinds = [REDUCTION if reduced else PARALLEL for reduced, _ in groups]
    results = generic([reshape(value, loop)], outputs, maps, kinds, body)
    return [reshape(result, [size for dim, size in enumerate(shape) if dim not in axes]) for result in results]


def fill(scalar: ir.Value, shape: Sequence[int]) -> ir.Value:
    """A tensor with one scalar everywhere."""
    target = empty(shape, scalar.type)
    operation = linalg.FillOp([target.type], [scalar], [target])
    linalg.fill_builtin_region(operation.operation)
    return operation.results[0]


def transpose(value: ir.Value, permutation: Sequence[int]) -> ir.Value:
    """linalg.transpose, which bufferization turns into a strided view."""
    shape = shape_of(value)
    target = empty([shape[dim] for dim in permutation], ir.RankedTensorType(value.type).element_type)
    order = ir.DenseI64ArrayAttr.get(list(permutation))
    operation = linalg.TransposeOp([target.type], value, target, order)
    linalg.fill_builtin_region(operation.operation)
    return operation.results[0]


def constant(element: ir.Type, value: float | int | bool) -> ir.Value:
    """A scalar arith.constant of a float or signless integer type."""
    if isinstance(element, ir.IntegerType):
        wrapped = int(value) if element.width > 1 else bool(value)
        return arith.constant(element, ir.IntegerAttr.get(element, wrapped))
    if isinstance(element, ir.IndexType):
        return arith.constant(element, ir.IntegerAttr.get(element, int(value)))
    return arith.constant(element, ir.FloatAttr.get(element, float(value)))
