"""The elementwise operations around a contraction: evaluated at one vector of results, and stored.

Every tensor of the kernel is a function of the point in the contraction's iteration space, so the epilogue is emitted
by asking for the outputs: each operation asks for its operands, down to the sum itself, buffers and constants.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, ir, vector
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.contraction import Contraction, Dim, IndexedBuffer, Point, maps_of, position
from blu.passes.kernels.inline import inline_vector
from blu.passes.loops.fuse.loops import loop_nest

Dims = tuple[Dim, ...]
Known = dict[tuple[ir.Value, Dims], ir.Value]
"""Values of tensors at one point, by the dims that they are read at."""


@dataclass(frozen=True)
class ColumnSum:
    """Sums of ranges of `length` rows of output number `output`, written to `target`, whose rows are the ranges.

    What is added up is `terms`: the output, or what it is in f32.

    Rows and columns are those of the output, which may be the contraction's columns and rows.

    Who writes them may share out the rows to the ranges otherwise: whoever reads them adds them all up.
    """

    output: int
    length: int
    target: IndexedBuffer
    terms: ir.Value


@dataclass(frozen=True)
class RangeOfRow:
    """Sums of ranges of `length` columns of a tensor, which output number `output` is, rounded, written to `target`.

    A row of `target` has the ranges of a row.
    """

    terms: ir.Value
    output: int
    length: int
    target: IndexedBuffer


@dataclass(frozen=True)
class Epilogue:
    """What becomes of the sums: `outputs` pairs each output buffer with the tensor that it receives.

    `sums` are those down the columns of outputs, `row_sums` those along rows of what outputs round. GPUs alone have
    them, and sums along whole rows. What is `made` already is given to who evaluates.
    """

    contraction: Contraction
    buffers: Mapping[ir.Value, ir.Value]
    outputs: Sequence[tuple[ir.Value, IndexedBuffer]]
    sums: Sequence[ColumnSum] = ()
    row_sums: Sequence[RangeOfRow] = ()
    made: Sequence[tuple[ir.Value, Dims]] = ()

    def store(self, total: ir.Value, point: Point, lanes: int, count: int) -> None:
        """Write all outputs at `point` for `count` of `lanes` columns; `total` is the vector of finished sums.

        All are evaluated before the first is written: an output may lie over what another one reads.
        """
        self.write(self.evaluate(total, point, lanes, count), point, lanes, count)

    def evaluate(
        self, total: ir.Value, point: Point, lanes: int, count: int, known: Known | None = None
    ) -> list[ir.Value]:
        """The value of each output at `point`, none of them written yet. `known` is what `read` gave there."""
        return self.evaluate_terms(total, point, lanes, count, known)[0]

    def evaluate_terms(
        self, total: ir.Value, point: Point, lanes: int, count: int, known: Known | None = None
    ) -> tuple[list[ir.Value], list[ir.Value]]:
        """The same, and the terms of each of `row_sums`."""
        evaluation = _Evaluation(self, total, point, lanes, count, dict(known or {}))
        values = [evaluation.value(tensor, target.dims) for tensor, target in self.outputs]
        return values, [evaluation.value(item.terms, item.target.dims) for item in self.row_sums]

    def asks_for_indices(self, operation: ir.Operation) -> bool:
        """Whether the body of a linalg.generic has a linalg.index."""
        if operation not in self._asking:
            body = operation.regions[0].blocks[0].operations
            self._asking[operation] = any(item.operation.name == "linalg.index" for item in body)
        return self._asking[operation]

    @cached_property
    def _asking(self) -> dict[ir.Operation, bool]:
        return {}

    @cached_property
    def reads(self) -> list[tuple[ir.Value, Dims]]:
        """The buffers that are read beside the product, and how."""
        found: dict[tuple[ir.Value, Dims], None] = {}
        seen: set[tuple[ir.Value, Dims]] = set()
        waiting = [(tensor, target.dims) for tensor, target in self.outputs]
        while waiting:
            tensor, dims = waiting.pop()
            definition = _definition(tensor)
            if (tensor, dims) in seen or (tensor, dims) in self.made or definition == self.contraction.operation:
                continue
            seen.add((tensor, dims))
            if tensor in self.buffers:
                found[tensor, dims] = None
            elif definition is not None and definition.name == "linalg.generic":
                waiting.extend(_operands_at(definition, tensor, dims, self.contraction.columns))
        return list(found)

    @cached_property
    def row_numbers(self) -> list[ir.Value]:
        """What is found for each row of the result, by sums along it and from these, in order; empty without sums."""
        found: list[ir.Value] = []
        for operation in self.contraction.operation.parent.regions[0].blocks[0].operations:
            nest = loop_nest(operation.operation, 0) if operation.operation.name == "linalg.generic" else None
            rows = self.contraction.size(self.contraction.rows)
            if nest is not None and (nest.is_row_reduction or nest.sizes == (rows,)):
                found += operation.operation.results
        return found if any(map(is_row_sum, found)) else []

    def accumulate(self, tensor: ir.Value, before: ir.Value, total: ir.Value, point: Point, known: Known) -> ir.Value:
        """A sum along rows (a vector) with the element or elements at a point added to it."""
        lanes = ir.VectorType(before.type).shape[0]
        evaluation = _Evaluation(self, total, point, lanes, lanes, dict(known))
        operation, dims = tensor.owner.operation, (self.contraction.rows,)
        operands = _operands_at(operation, tensor, dims, self.contraction.columns)
        (value,) = inline_vector(
            operation.regions[0].blocks[0], [*(evaluation.value(*item) for item in operands[:-1]), before], lanes
        )
        return value

    def row_number(self, tensor: ir.Value, total: ir.Value, point: Point, known: Known) -> ir.Value:
        """What is found for the row of a point from its sums, a scalar."""
        value = _Evaluation(self, total, point, 1, 1, dict(known)).value(tensor, (self.contraction.rows,))
        return vector.extract(value, [], [0]) if isinstance(value.type, ir.VectorType) else value

    @cached_property
    def whole_reads(self) -> list[tuple[ir.Value, Dims]]:
        """Those of which each element of the result reads its own."""
        whole = {self.contraction.rows, self.contraction.columns}
        return [(tensor, dims) for tensor, dims in self.reads if whole <= {*dims}]

    def read(self, point: Point, lanes: int, count: int, biases: bool = False) -> Known:
        """What `whole_reads` are at `point`, before the sums are; with `biases`, what all `reads` are."""
        columns = self.contraction.columns
        return {(tensor, dims): IndexedBuffer(self.buffers[tensor], dims).load(point, columns, lanes, count)
                for tensor, dims in (self.reads if biases else self.whole_reads)}  # fmt: skip

    def write(self, values: Sequence[ir.Value], point: Point, lanes: int, count: int) -> None:
        """Write what `evaluate` has given."""
        for value, (_, target) in zip(values, self.outputs, strict=True):
            value = vectors.splat(value, lanes)
            with value.owner.location if isinstance(value.owner, ir.Operation | ir.OpView) else ir.Location.unknown():
                target.store(value, point, self.contraction.columns, count)

    @property
    def operation_count(self) -> int:
        """How many scalar operations the bodies hold: what one more copy of the epilogue costs in code."""
        seen, stack = set(), [tensor for tensor, _ in self.outputs]
        while stack:
            tensor = stack.pop()
            owner = _definition(tensor)
            if owner is not None and owner not in seen and owner != self.contraction.operation:
                seen.add(owner)
                stack.extend(owner.operands)
        return sum(len(list(op.regions[0].blocks[0].operations)) - 1 for op in seen if op.name == "linalg.generic")


def read_epilogue(
    contraction: Contraction, buffers: Mapping[ir.Value, ir.Value], outputs: Sequence[tuple[ir.Value, ir.Value]]
) -> Epilogue:
    """Find out which iteration dim each output dimension follows."""
    known: dict[ir.Value, Dims] = {contraction.operation.results[0]: contraction.result_dims}
    for operation in contraction.operation.parent.regions[0].blocks[0].operations:
        if operation.operation.name == "linalg.generic" and not _is_range_sum(operation.operation):
            _follow(operation.operation, known)
    added = [(tensor, buffer) for tensor, buffer in outputs if _is_range_sum(_definition(tensor))]
    outputs = [output for output in outputs if output not in added]
    # What does not depend on the product is here because it walks the same elements.
    dims = {tensor: known.get(tensor, contraction.result_dims) for tensor, _ in outputs}
    targets = [(tensor, IndexedBuffer(buffer, dims[tensor])) for tensor, buffer in outputs]
    sums = [_range_sum(contraction, tensor, buffer, outputs) for tensor, buffer in added]
    columns = [item for item in sums if isinstance(item, ColumnSum)]
    return Epilogue(contraction, buffers, targets, columns, [item for item in sums if isinstance(item, RangeOfRow)])


def _is_range_sum(operation: ir.Operation | None) -> bool:
    nest = None if operation is None else loop_nest(operation, 0)
    return nest is not None and nest.sums_product


def _range_sum(
    contraction: Contraction, tensor: ir.Value, buffer: ir.Value, outputs: Sequence[tuple[ir.Value, ir.Value]]
) -> ColumnSum | RangeOfRow:
    nest = loop_nest(tensor.owner, 0)
    assert nest is not None, "a sum over ranges without loops"
    rows, known = nest.inputs[0], [output for output, _ in outputs]
    if nest.columns_length:
        roundings = [number for number, value in enumerate(known) if rows in (value, *value.owner.operands)]
        return RangeOfRow(rows, roundings[0], nest.columns_length, IndexedBuffer(buffer, contraction.result_dims))
    same = [
        item for item in known if item == rows or (is_rounding(_definition(item)) and item.owner.operands[0] == rows)
    ]
    number = known.index(next(iter(same), rows.owner.operands[0]))  # halves are widened
    return ColumnSum(number, nest.range_length, IndexedBuffer(buffer, contraction.result_dims), rows)


def is_sum(operation: ir.Operation) -> bool:
    """Whether a reduction of one tensor does nothing but to add."""
    block = operation.regions[0].blocks[0]
    body = [item.operation for item in block.operations]
    names = [item.name for item in body]
    return names == ["arith.addf", "linalg.yield"] and {*body[0].operands} == {*block.arguments}


def is_rounding(operation: ir.Operation | None) -> bool:
    """Whether all that an op does is to round f32 to halves."""
    if operation is None or operation.name != "linalg.generic":
        return False
    body = [item.operation for item in operation.regions[0].blocks[0].operations]
    return [item.name for item in body] == ["arith.truncf", "linalg.yield"] and len(operation.operands) == 2


def _follow(operation: ir.Operation, known: dict[ir.Value, Dims]) -> None:
    """Record the dims of an operation's results, where one of its operands has known ones."""
    maps = maps_of(operation)
    loops: dict[int, Dim] = {}
    for operand, map_ in zip(operation.operands, maps, strict=True):
        for loop, dim in zip(map_, known.get(operand, ()), strict=False):
            if loop is not None and loops.get(loop) is None:
                loops[loop] = dim
    if loops:
        for result, map_ in zip(operation.results, maps[len(maps) - len(operation.results) :], strict=True):
            known[result] = tuple(None if loop is None else loops.get(loop) for loop in map_)


def _definition(value: ir.Value) -> ir.Operation | None:
    return None if isinstance(value.owner, ir.Block) else value.owner.operation


@dataclass
class _Evaluation:
    """The values of the kernel's tensors at one point; each is computed once."""

    epilogue: Epilogue
    total: ir.Value
    point: Point
    lanes: int
    count: int
    done: Known

    def value(self, tensor: ir.Value, dims: Dims) -> ir.Value:
        """The tensor's element (scalar), or elements along the columns (vector), at the point."""
        if (tensor, dims) not in self.done:
            self.compute(tensor, dims)
        return self.done[tensor, dims]

    def compute(self, tensor: ir.Value, dims: Dims) -> None:
        contraction, definition = self.epilogue.contraction, _definition(tensor)
        if tensor in self.epilogue.buffers:
            operand = IndexedBuffer(self.epilogue.buffers[tensor], dims)
            with definition.location:
                self.done[tensor, dims] = operand.load(self.point, contraction.columns, self.lanes, self.count)
        elif definition == contraction.operation:
            self.done[tensor, dims] = self.rounded(tensor)
        elif definition.name == "linalg.fill":
            self.done[tensor, dims] = _constant(definition.operands[0])
        else:
            assert definition.name == "linalg.generic", f"a GEMM epilogue cannot hold {definition.name}"
            self.inline(definition, tensor, dims)

    def rounded(self, tensor: ir.Value) -> ir.Value:
        """The sums, in the element type that the contraction promises."""
        element = ir.ShapedType(tensor.type).element_type
        if element == self.epilogue.contraction.accumulator:
            return self.total
        return arith.truncf(vectors.vector_type(self.lanes, element), self.total)

    def inline(self, operation: ir.Operation, tensor: ir.Value, dims: Dims) -> None:
        """Emit the body of a linalg.generic; all its results at once."""
        maps, loops = maps_of(operation), _loops_at(operation, tensor, dims)
        results = maps[len(maps) - len(operation.results) :]
        arguments = [
            None if _is_empty(operand) else self.value(operand, place)
            for operand, place in _operands_at(operation, tensor, dims, self.epilogue.contraction.columns)
        ]
        block = operation.regions[0].blocks[0]
        indices = self.loop_indices(loops, _loop_count(operation)) if self.epilogue.asks_for_indices(operation) else ()
        values = inline_vector(block, arguments, self.lanes, indices)
        for result, map_, value in zip(operation.results, results, values, strict=True):
            self.done[result, tuple(None if loop is None else loops.get(loop) for loop in map_)] = value

    def loop_indices(self, loops: Mapping[int, Dim], count: int) -> list[ir.Value]:
        """What linalg.index yields for each loop."""
        indices = []
        for loop in range(count):
            dim = loops.get(loop)
            base = position(dim, self.point)
            on_columns = dim is not None and dim == self.epilogue.contraction.columns
            indices.append(vectors.lane_indices(base, self.lanes) if on_columns else base)
        return indices


def _loops_at(operation: ir.Operation, tensor: ir.Value, dims: Dims) -> dict[int, Dim]:
    """The dims of a linalg.generic's loops, where its result `tensor` is asked for at `dims`."""
    maps = maps_of(operation)
    own = maps[len(maps) - len(operation.results) + list(operation.results).index(tensor)]
    return {loop: dim for loop, dim in zip(own, dims, strict=True) if loop is not None}


def is_row_sum(tensor: ir.Value) -> bool:
    """Whether a tensor is a reduction along rows."""
    nest = None if _definition(tensor) is None else loop_nest(tensor.owner.operation, 0)
    return nest is not None and nest.is_row_reduction


def _operands_at(
    operation: ir.Operation, tensor: ir.Value, dims: Dims, columns: int | None
) -> list[tuple[ir.Value, Dims]]:
    """The operands of a linalg.generic, and where they are read for its result `tensor` at `dims`; loops that are
    reduced go along columns."""
    loops = _loops_at(operation, tensor, dims)
    loops = {**dict.fromkeys(range(_loop_count(operation)), columns), **loops}
    return [(operand, tuple(None if loop is None else loops.get(loop) for loop in map_))
            for operand, map_ in zip(operation.operands, maps_of(operation), strict=True)]  # fmt: skip


def _is_empty(value: ir.Value) -> bool:
    definition = _definition(value)
    return definition is not None and definition.name == "tensor.empty"


def _loop_count(operation: ir.Operation) -> int:
    return operation.attributes["indexing_maps"][0].value.n_dims


def _constant(value: ir.Value) -> ir.Value:
    """A scalar constant, emitted again."""
    owner = value.owner.operation
    assert owner.name == "arith.constant", f"a GEMM kernel fills with {owner.name}"
    return arith.constant(value.type, owner.attributes["value"])
