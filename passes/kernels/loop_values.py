"""One element of a tensor value inside of a kernel, computed where it is needed, with scalars."""

from __future__ import annotations

from collections.abc import Sequence

from blu.dialects.core.mlir import arith, ir, memref, scf
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.body import Kernel
from blu.passes.kernels.cursor import Cursor, split_index
from blu.passes.kernels.inline import clone_operation

Indices = Sequence[ir.Value]


class Evaluator:
    """Emits elements of tensor values at a cursor; `known` are those that the code around it has emitted."""

    def __init__(self, frame: Kernel, cursor: Cursor, known: dict[object, list[ir.Value]] | None = None):
        self.frame = frame
        self.cursor = cursor
        self.known = dict(known or {})

    def value(self, tensor: ir.Value, indices: Indices) -> ir.Value:
        """The element of `tensor` at `indices`."""
        if tensor in self.frame.buffers:
            return self._load(tensor, indices)
        operation = tensor.owner.operation
        key = (operation, layout_of(tensor), *indices)
        if key not in self.known:
            self.known[key] = VALUES[operation.name](self, operation, indices, tensor)
        results = self.known[key]
        return results[list(operation.results).index(tensor)] if len(results) > 1 else results[0]

    def _load(self, tensor: ir.Value, indices: Indices) -> ir.Value:
        key = (tensor, *indices)
        if key not in self.known:
            with self.cursor.point:
                self.known[key] = [memref.load(self.frame.buffers[tensor], list(indices))]
        return self.known[key][0]

    def index(self, number: int) -> ir.Value:
        with self.cursor.point:
            return vectors.index(number)

    def scalar(self, value: ir.Value) -> ir.Value:
        """A scalar constant, emitted again here."""
        attribute = value.owner.operation.attributes["value"]
        with self.cursor.point:
            return arith.constant(value.type, attribute)

    def operands(self, generic: ir.Operation, loops: Indices, count: int) -> list[ir.Value | None]:
        """The first `count` operands of a structured op for one iteration; None where the body does not look."""
        arguments = list(generic.regions[0].blocks[0].arguments)
        values: list[ir.Value | None] = []
        for operand, argument, map_ in zip(generic.operands, arguments, _maps(generic), strict=False):
            if len(values) == count:
                break
            used = len(list(argument.uses)) > 0
            values.append(self.operand(operand, map_, loops) if used else None)
        return values

    def operand(self, operand: ir.Value, map_: ir.AffineMap, loops: Indices) -> ir.Value:
        """One operand of a structured op for one iteration."""
        if not isinstance(operand.type, ir.RankedTensorType):
            return self.scalar(operand)
        return self.value(operand, [self._result(expression, loops) for expression in map_.results])

    def _result(self, expression: ir.AffineExpr, loops: Indices) -> ir.Value:
        if isinstance(expression, ir.AffineDimExpr):
            return loops[expression.position]
        if isinstance(expression, ir.AffineConstantExpr):
            return self.index(expression.value)
        combine = {ir.AffineAddExpr: arith.addi, ir.AffineMulExpr: arith.muli, ir.AffineFloorDivExpr: arith.divui}
        assert type(expression) in combine, f"index {expression}"
        left, right = self._result(expression.lhs, loops), self._result(expression.rhs, loops)
        with self.cursor.point:
            return combine[type(expression)](left, right)

    def body(self, block: ir.Block, arguments: Sequence[ir.Value | None], loops: Indices) -> list[ir.Value]:
        """Emit a linalg body for one iteration; returns what it yields."""
        values = {
            argument: value for argument, value in zip(block.arguments, arguments, strict=True) if value is not None
        }

        def look_up(value: ir.Value) -> ir.Value:
            return values[value] if value in values else self.scalar(value)

        for operation in block.operations:
            operation = operation.operation
            if operation.name == "linalg.yield":
                return [look_up(operand) for operand in operation.operands]
            if operation.name == "linalg.index":
                values[operation.results[0]] = loops[operation.attributes["dim"].value]
                continue
            with operation.location:
                if operation.name == "tensor.extract":
                    indices = [look_up(operand) for operand in list(operation.operands)[1:]]
                    emitted = [self.value(operation.operands[0], indices)]
                else:
                    operands = [look_up(operand) for operand in operation.operands]
                    with self.cursor.point:
                        emitted = list(clone_operation(operation, operands).results)
            values.update(zip(operation.results, emitted, strict=True))
        raise AssertionError("a linalg body without linalg.yield")


def layout_of(tensor: ir.Value) -> str:
    """Results of one generic are evaluated together if they are laid out alike."""
    operation = tensor.owner.operation
    if operation.name != "linalg.generic":
        return ""
    place = list(operation.results).index(tensor)
    return str(_maps(operation)[len(operation.opview.inputs) + place])


def _maps(operation: ir.Operation) -> list[ir.AffineMap]:
    return [attribute.value for attribute in operation.attributes["indexing_maps"]]


def loop_sizes(operation: ir.Operation) -> list[int]:
    """The sizes of a structured op's loops, from the shapes of its operands."""
    maps = _maps(operation)
    sizes = [1] * maps[0].n_dims
    for operand, map_ in zip(operation.operands, maps, strict=True):
        shape = operand.type.shape if isinstance(operand.type, ir.RankedTensorType) else []
        for size, expression in zip(shape, map_.results, strict=True):
            if isinstance(expression, ir.AffineDimExpr):
                sizes[expression.position] = size
    return sizes


def _structured(evaluator: Evaluator, operation: ir.Operation, indices: Indices, tensor: ir.Value) -> list[ir.Value]:
    """linalg.generic and linalg.contract: the loops that the result's indices do not fix are walked here, in order."""
    place = list(operation.results).index(tensor)
    maps, sizes = _maps(operation), loop_sizes(operation)
    inputs = len(maps) - len(operation.results)
    loops: list[ir.Value | None] = [None] * len(sizes)
    bounds = {loop: (evaluator.index(0), evaluator.index(size)) for loop, size in enumerate(sizes) if size != 1}
    for index, expression in zip(indices, maps[inputs + place].results, strict=True):
        if isinstance(expression, ir.AffineDimExpr):
            loops[expression.position] = index
        elif isinstance(expression, ir.AffineFloorDivExpr):
            loop = expression.lhs.position
            bounds[loop] = _range(evaluator, index, expression.rhs.value, sizes[loop])
    walked = {loop: bounds[loop] for loop, index in enumerate(loops) if index is None and loop in bounds}
    loops = [evaluator.index(0) if index is None and loop not in walked else index for loop, index in enumerate(loops)]
    with operation.location:
        if not walked:
            return _iteration(evaluator, operation, loops, None)
        filled = [walked[loop][0] if index is None else index for loop, index in enumerate(loops)]
        starts = [evaluator.operand(operation.operands[inputs + number], maps[inputs + number], filled)
                  for number in range(len(operation.results))]  # fmt: skip
        return _walk(evaluator, operation, loops, walked, starts)


def _range(evaluator: Evaluator, number: ir.Value, length: int, size: int) -> tuple[ir.Value, ir.Value]:
    """The bounds of range `number` of a loop that is cut into ranges."""
    with evaluator.cursor.point:
        begin = arith.muli(number, vectors.index(length))
        return begin, arith.minui(vectors.offset(begin, length), vectors.index(size))


def _walk(
    evaluator: Evaluator, operation: ir.Operation, loops: list, walked: dict[int, tuple], carried: list
) -> list[ir.Value]:
    if not walked:
        return _iteration(evaluator, operation, loops, carried)
    (loop, (begin, end)), *rest = walked.items()

    def body(cursor: Cursor, index: ir.Value, values: list[ir.Value]) -> list[ir.Value]:
        inside = Evaluator(evaluator.frame, cursor, evaluator.known)
        return _walk(inside, operation, [*loops[:loop], index, *loops[loop + 1 :]], dict(rest), values)

    return evaluator.cursor.loop(begin, end, evaluator.index(1), carried, body)


def _iteration(evaluator: Evaluator, operation: ir.Operation, loops: Indices, carried: list | None) -> list[ir.Value]:
    block = operation.regions[0].blocks[0]
    inputs = len(block.arguments) - len(operation.results)
    count = inputs if carried is not None else len(block.arguments)
    arguments = evaluator.operands(operation, loops, count)
    return evaluator.body(block, [*arguments, *(carried or [])], loops)


def _fill(evaluator: Evaluator, operation: ir.Operation, indices: Indices, tensor: ir.Value) -> list[ir.Value]:
    return [evaluator.scalar(operation.operands[0])]


def _constant(evaluator: Evaluator, operation: ir.Operation, indices: Indices, tensor: ir.Value) -> list[ir.Value]:
    dense = operation.attributes["value"]
    assert dense.is_splat, "a constant tensor in a kernel must have equal elements: others are inputs"
    element = dense.get_splat_value()
    with evaluator.cursor.point:
        return [arith.constant(element.type, element)]


def _empty(evaluator: Evaluator, operation: ir.Operation, indices: Indices, tensor: ir.Value) -> list[ir.Value]:
    """Nobody may rely on an element that was never written; zero keeps results repeatable."""
    with evaluator.cursor.point:
        return [vectors.constant(tensor.type.element_type, 0)]


def _transpose(evaluator: Evaluator, operation: ir.Operation, indices: Indices, tensor: ir.Value) -> list[ir.Value]:
    permutation = list(operation.attributes["permutation"])
    places = [permutation.index(dim) for dim in range(len(permutation))]
    return [evaluator.value(operation.operands[0], [indices[place] for place in places])]


def _copy(evaluator: Evaluator, operation: ir.Operation, indices: Indices, tensor: ir.Value) -> list[ir.Value]:
    return [evaluator.value(operation.operands[0], indices)]


def _reshape(evaluator: Evaluator, operation: ir.Operation, indices: Indices, tensor: ir.Value) -> list[ir.Value]:
    """tensor.expand_shape and tensor.collapse_shape: the element with the same number in row-major order."""
    source = operation.operands[0]
    if 0 in source.type.shape:
        return [evaluator.value(source, [evaluator.index(0)] * source.type.rank)]
    collapses = operation.name == "tensor.collapse_shape"
    many = source if collapses else tensor
    result: list[ir.Value] = []
    for number, attribute in enumerate(operation.attributes["reassociation"]):
        dims = [item.value for item in attribute]
        sizes = {dim: many.type.shape[dim] for dim in dims}
        if collapses:
            split = split_index(evaluator.cursor, indices[number], sizes, vectors.index)
            result += [split[dim] for dim in dims]
        else:
            result.append(_linear(evaluator, [indices[dim] for dim in dims], list(sizes.values())))
    result += [evaluator.index(0)] * (source.type.rank - len(result))
    return [evaluator.value(source, result)]


def _linear(evaluator: Evaluator, indices: Indices, sizes: Sequence[int]) -> ir.Value:
    with evaluator.cursor.point:
        result = vectors.index(0)
        for index, size in zip(indices, sizes, strict=True):
            result = arith.addi(arith.muli(result, vectors.index(size)), index)
    return result


def _slice(operation: ir.Operation, small: ir.Value, rank: int) -> tuple[list[int], list[int], list[int | None]]:
    """Static offsets and strides of a slice, and for each dimension of the large tensor that of the small one."""
    offsets, sizes, strides = (list(operation.attributes[f"static_{name}"]) for name in ("offsets", "sizes", "strides"))
    assert min([*offsets, 0]) >= 0, "offsets of a slice must be static"
    to_drop, places, place = rank - small.type.rank, [], 0
    for size in sizes:
        # Which ones of size 1 are dropped does not matter: all of them have index 0.
        drop = size == 1 and to_drop > 0
        to_drop -= drop
        places.append(None if drop else place)
        place += not drop
    return offsets, strides, places


def _extract_slice(evaluator: Evaluator, operation: ir.Operation, indices: Indices, tensor: ir.Value) -> list[ir.Value]:
    source = operation.operands[0]
    offsets, strides, places = _slice(operation, tensor, source.type.rank)
    result = []
    for offset, stride, place in zip(offsets, strides, places, strict=True):
        with evaluator.cursor.point:
            scaled = vectors.index(0) if place is None else arith.muli(indices[place], vectors.index(stride))
            result.append(vectors.offset(scaled, offset))
    return [evaluator.value(source, result)]


def _insert_slice(evaluator: Evaluator, operation: ir.Operation, indices: Indices, tensor: ir.Value) -> list[ir.Value]:
    """The source where the index lies on the slice, the destination elsewhere."""
    source, destination = operation.operands[0], operation.operands[1]
    offsets, strides, places = _slice(operation, source, tensor.type.rank)
    inner: list[ir.Value] = [evaluator.index(0)] * source.type.rank
    with evaluator.cursor.point:
        inside = vectors.constant(ir.IntegerType.get_signless(1), 1)
        for dim, (offset, stride, place) in enumerate(zip(offsets, strides, places, strict=True)):
            distance = arith.subi(indices[dim], vectors.index(offset))
            # An index before the offset wraps round to a huge one, which the comparison rejects as well.
            size = 1 if place is None else source.type.shape[place]
            on = arith.cmpi(arith.CmpIPredicate.ult, arith.divui(distance, vectors.index(stride)), vectors.index(size))
            exact = arith.cmpi(arith.CmpIPredicate.eq, arith.remui(distance, vectors.index(stride)), vectors.index(0))
            inside = arith.andi(inside, arith.andi(on, exact))
            if place is not None:
                inner[place] = arith.divui(distance, vectors.index(stride))
        branch = scf.IfOp(inside, [tensor.type.element_type], has_else=True)
    for block, value, place in ((branch.then_block, source, inner), (branch.else_block, destination, list(indices))):
        cursor = Cursor(block)
        element = Evaluator(evaluator.frame, cursor, evaluator.known).value(value, place)
        with cursor.point:
            scf.YieldOp([element])
    return [branch.operation.results[0]]


VALUES = {
    "linalg.generic": _structured,
    "linalg.contract": _structured,
    "linalg.fill": _fill,
    "linalg.transpose": _transpose,
    "linalg.copy": _copy,
    "tensor.collapse_shape": _reshape,
    "tensor.expand_shape": _reshape,
    "tensor.extract_slice": _extract_slice,
    "tensor.insert_slice": _insert_slice,
    "tensor.empty": _empty,
    "arith.constant": _constant,
}
