"""Bodies of linalg ops emitted inside a row kernel: every value in the outermost scope that can hold it, as a scalar
where it is the same for all lanes, as a Consecutive where it counts lanes, and as a vector otherwise."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from blu.dialects.core.mlir import arith, ir, vector
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.inline import clone_operation
from blu.passes.kernels.rows.lanes import (
    Consecutive,
    load_each,
    load_lanes,
    load_scalar,
    store_lanes,
    store_scalar,
    widen,
)
from blu.passes.kernels.rows.layout import FlatBuffer, Layout
from blu.passes.kernels.rows.program import RowProgram, constant_of
from blu.passes.kernels.rows.scope import LanePosition, Scope
from blu.passes.kernels.rows.space import Access, RowNode

Lane = ir.Value | Consecutive
Scopes = Sequence[Scope]


class BodyEmitter:
    """Emits nodes of a program at given scopes (outermost first).

    `inputs` maps an outside tensor to its flat memref and the strides of its dimensions, `reloads` a value of the group
    to the buffer that it is read back from.
    """

    def __init__(self, program: RowProgram, layout: Layout, entry: Scope):
        self.program = program
        self.layout = layout
        self.entry = entry
        self.inputs: dict[ir.Value, tuple[FlatBuffer, Sequence[int]]] = {}
        self.reloads: dict[ir.Value, FlatBuffer] = {}
        self.homes: dict[ir.Value, Scope] = {}
        self.constants: dict[ir.Value, ir.Attribute] = {}
        # The dimensions of the layout that those of the program have become, which is asked for each value.
        self._merged: dict[frozenset[int], frozenset[int]] = {}

    def constant(self, attribute: ir.Attribute) -> ir.Value:
        """A scalar constant, once for the kernel."""
        value = self.entry.find(
            ("constant", attribute.type, attribute), lambda: arith.constant(attribute.type, attribute)
        )
        self.constants[value] = attribute
        return value

    def index(self, number: int) -> ir.Value:
        return self.constant(ir.IntegerAttr.get(ir.IndexType.get(), number))

    def scope_of(self, dims: Collection[int], scopes: Scopes) -> Scope:
        """The outermost scope that knows all of `dims`."""
        for scope in scopes:
            if scope.bound.issuperset(dims):
                return scope
        raise AssertionError("the innermost scope knows all dimensions")

    def home_of(self, value: ir.Value, scopes: Scopes) -> Scope:
        """The scope of a value of the group or of a body."""
        dependence = self.program.dependence[value]
        dims = self._merged.get(dependence)
        if dims is None:
            dims = self._merged[dependence] = self.layout.dims(dependence)
        return self.scope_of(dims, scopes)

    def lookup(self, value: ir.Value, scopes: Scopes) -> Lane:
        """What has been emitted for a value of the group or of a body."""
        attribute = constant_of(value)
        if attribute is not None:
            return self.constant(attribute)
        return self.home_of(value, scopes).memo[value]

    def remember(self, value: ir.Value, emitted: Lane, scopes: Scopes) -> None:
        self.home_of(value, scopes).memo[value] = emitted

    def as_vector(self, emitted: Lane, scopes: Scopes) -> ir.Value:
        """The value in all lanes of the innermost scope, in which the caller stands."""
        position = position_of(scopes)
        if isinstance(emitted, Consecutive):
            return scopes[-1].find(("widen", emitted.base), lambda: widen(emitted, position))
        if position.lanes == 1 or vectors.is_vector(emitted):
            return emitted
        type_ = vectors.vector_type(position.lanes, emitted.type)
        if emitted in self.constants:
            splat = ir.DenseElementsAttr.get_splat(type_, self.constants[emitted])
            return self.entry.find(("constant", type_, splat), lambda: arith.constant(type_, splat))
        home = self.homes.get(emitted, scopes[-1])
        return home.find(("splat", emitted, position.lanes), lambda: vector.broadcast(type_, emitted))

    # Memory

    def linear(self, strides: dict[int, int], scopes: Scopes) -> ir.Value:
        """The number of the element that the indices of the scopes lead to."""
        result = self.index(0)
        for scope in scopes:
            steps = tuple((dim, strides[dim]) for dim in scope.indices if strides.get(dim))
            if steps:
                result = scope.find(
                    ("linear", result, steps), lambda r=result, s=steps, o=scope: self._advance(r, s, o)
                )
            position, stride = scope.position, strides.get(self.layout.vector_dim, 0)
            if position and stride:
                start = scope.find(
                    ("start", result, stride), lambda r=result, s=stride, p=position: self._step(r, p.base, s)
                )
                result = scope.find(
                    ("offset", start, stride),
                    lambda v=start, s=stride, p=position: self._step(v, self.index(p.offset), s),
                )
        return result

    def _advance(self, base: ir.Value, steps: Sequence[tuple[int, int]], scope: Scope) -> ir.Value:
        for dim, stride in steps:
            base = self._step(base, scope.indices[dim], stride)
        return base

    def _step(self, base: ir.Value, index: ir.Value, stride: int) -> ir.Value:
        distance = index if stride == 1 else arith.muli(index, self.index(stride))
        return distance if base == self.index(0) else arith.addi(base, distance)

    def load(self, buffer: FlatBuffer, scopes: Scopes) -> ir.Value:
        """The elements of a buffer for the scopes: a scalar where lanes do not matter."""
        dims = frozenset(buffer.strides)
        scope = self.scope_of(dims, scopes)
        inner = scopes[: scopes.index(scope) + 1]
        return scope.find(("load", buffer.flat, tuple(buffer.strides.items())), lambda: self._load(buffer, inner))

    def _load(self, buffer: FlatBuffer, scopes: Scopes) -> ir.Value:
        index, position = self.linear(buffer.strides, scopes), self._position(buffer, scopes)
        if position is None:
            value = load_scalar(buffer, index)
            self.homes[value] = scopes[-1]
            return value
        return load_lanes(buffer, index, buffer.strides[self.layout.vector_dim], position)

    def _position(self, buffer: FlatBuffer, scopes: Scopes) -> LanePosition | None:
        """The position to load or store lanes at; None if the buffer has one element for all lanes."""
        position = position_of(scopes)
        lanes = position is not None and position.lanes > 1 and self.layout.vector_dim in buffer.strides
        return position if lanes else None

    def store(self, value: ir.Value, buffer: FlatBuffer, scopes: Scopes) -> None:
        """Write a value of the group at the innermost scope."""
        emitted, scope = self.lookup(value, scopes), scopes[-1]
        with scope.cursor.point:
            index, position = self.linear(buffer.strides, scopes), self._position(buffer, scopes)
            if position is None:
                store_scalar(self.as_scalar(emitted), buffer, index)
            else:
                lanes = self.as_vector(emitted, scopes)
                store_lanes(lanes, buffer, index, buffer.strides[self.layout.vector_dim], position)

    def as_scalar(self, emitted: Lane) -> ir.Value:
        return emitted.base if isinstance(emitted, Consecutive) else emitted

    def buffer(self, value: ir.Value, access: Access) -> FlatBuffer:
        """An outside tensor as a buffer laid over the space."""
        flat, steps = self.inputs[value]
        return FlatBuffer(flat.flat, flat.element, self.layout.strides(access, steps))

    # Bodies

    def read(self, value: ir.Value, access: Access, scopes: Scopes) -> Lane:
        """An operand of a node: a constant, a value of the group, or a load."""
        if value in self.program.fills:
            return self.constant(self.program.fills[value])
        if constant_of(value) is not None:
            return self.constant(constant_of(value))
        if value in self.reloads and self.program.dependence[value] & self.program.columns:
            return self.load(self.reloads[value], scopes)
        if value in self.program.makers:
            return self.lookup(value, scopes)
        return self.load(self.buffer(value, access), scopes)

    def inline(self, node: RowNode, scopes: Scopes, skip: Collection[ir.Operation] = ()) -> None:
        """Emit a node's body. Accumulators of a reduction must have been remembered by the caller, or not be needed."""
        for number, (argument, operand) in enumerate(zip(node.body.arguments, node.operation.operands, strict=True)):
            accumulator = node.is_reduction and number >= node.num_inputs
            if accumulator or not len(list(argument.uses)) or argument in self.home_of(argument, scopes).memo:
                continue
            with node.operation.location:
                self.remember(argument, self.read(operand, node.accesses[number], scopes), scopes)
        for operation in node.body.operations:
            operation = operation.operation
            if operation.name == "linalg.yield":
                self._yield(node, operation, scopes)
            elif operation not in skip and operation.name != "arith.constant":
                self._emit(operation, node, scopes)

    def _yield(self, node: RowNode, operation: ir.Operation, scopes: Scopes) -> None:
        if node.is_reduction:
            return
        for result, operand in zip(node.operation.results, operation.operands, strict=True):
            self.remember(result, self.lookup(operand, scopes), scopes)

    def _emit(self, operation: ir.Operation, node: RowNode, scopes: Scopes) -> None:
        scope = self.home_of(operation.results[0], scopes)
        if operation.results[0] in scope.memo:
            return
        inner = scopes[: scopes.index(scope) + 1]
        with operation.location, scope.cursor.point:
            emitted = self._emit_one(operation, node, inner)
        scope.memo.update(zip(operation.results, emitted, strict=True))
        for value in emitted:
            if isinstance(value, ir.Value):
                self.homes[value] = scope

    def _emit_one(self, operation: ir.Operation, node: RowNode, scopes: Scopes) -> list[Lane]:
        if operation.name == "linalg.index":
            return [self._loop_index(node.dims[operation.attributes["dim"].value], scopes)]
        operands = [self.lookup(operand, scopes) for operand in operation.operands if not _is_tensor(operand)]
        if operation.name == "tensor.extract":
            return [self._gather(operation.operands[0], operands, scopes)]
        counting = _keep_counting(operation, operands)
        if counting is not None:
            return [Consecutive(clone_operation(operation, counting).results[0])]
        if any(isinstance(operand, Consecutive) or vectors.is_vector(operand) for operand in operands):
            operands = [self.as_vector(operand, scopes) for operand in operands]
        return list(clone_operation(operation, operands).results)

    def _loop_index(self, dim: int | None, scopes: Scopes) -> Lane:
        if dim is None:
            return self.index(0)
        if dim != self.layout.vector_dim:
            return next(scope.indices[dim] for scope in scopes if dim in scope.indices)
        position = position_of(scopes)
        index = self._step(position.base, self.index(position.offset), 1) if position.offset else position.base
        return index if position.lanes == 1 else Consecutive(index)

    def _gather(self, table: ir.Value, indices: list[Lane], scopes: Scopes) -> ir.Value:
        """table[indices]: contiguous lanes if only the last index counts them, one scalar load per lane otherwise."""
        flat, steps = self.inputs[table]
        if not any(isinstance(index, Consecutive) or vectors.is_vector(index) for index in indices):
            return load_scalar(flat, self._place([(index, step) for index, step in zip(indices, steps, strict=True)]))
        position = position_of(scopes)
        if not any(isinstance(index, ir.Value) and vectors.is_vector(index) for index in indices):
            start = self._place([(self.as_scalar(index), step) for index, step in zip(indices, steps, strict=True)])
            stride = sum(step for index, step in zip(indices, steps, strict=True) if isinstance(index, Consecutive))
            return load_lanes(flat, start, stride, position)
        places = []
        for lane in range(position.count):
            terms = [(_lane_of(index, lane), step) for index, step in zip(indices, steps, strict=True)]
            places.append(self._place(terms))
        return load_each(flat, places, position)

    def _place(self, terms: Sequence[tuple[ir.Value, int]]) -> ir.Value:
        result = self.index(0)
        for index, step in terms:
            result = self._step(result, index, step) if step else result
        return result


def position_of(scopes: Scopes) -> LanePosition | None:
    """The position of the scope that has one."""
    return next((scope.position for scope in scopes if scope.position), None)


def _lane_of(index: Lane, lane: int) -> ir.Value:
    """The scalar index in one lane."""
    if isinstance(index, Consecutive):
        return vectors.offset(index.base, lane)
    return vector.extract(index, [], [lane]) if vectors.is_vector(index) else index


def _keep_counting(operation: ir.Operation, operands: Sequence[Lane]) -> list[ir.Value] | None:
    """Scalar operands, if the result counts lanes again (a cast of an index, an offset); None if it does not."""
    counting = [isinstance(operand, Consecutive) for operand in operands]
    scalars = [isinstance(operand, ir.Value) and not vectors.is_vector(operand) for operand in operands]
    if not any(counting) or not all(c or s for c, s in zip(counting, scalars, strict=True)):
        return None
    cast = operation.name in ("arith.index_cast", "arith.index_castui")
    sum_ = operation.name == "arith.addi" and sum(counting) == 1
    difference = operation.name == "arith.subi" and counting == [True, False]
    if not (cast or sum_ or difference):
        return None
    return [operand.base if isinstance(operand, Consecutive) else operand for operand in operands]


def _is_tensor(value: ir.Value) -> bool:
    return isinstance(value.type, ir.RankedTensorType)
