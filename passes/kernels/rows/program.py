"""What the row emitter does with a group of ops: the analysis that the fuser asks and the emitter follows.

The shared space has row dimensions (parallel) and column dimensions (those that some op reduces). Two plans exist:
* `across`: lanes run along a column dimension; a row is walked once per level, with reductions ending a level;
* `along`: lanes run along a parallel dimension; columns, if any, are walked in order, one accumulator per lane.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod

from blu.dataclass import dataclass, field
from blu.dialects.core.mlir import ir
from blu.passes.kernels.rows.reductions import Fold, Search, read_reduction
from blu.passes.kernels.rows.scope import ROW
from blu.passes.kernels.rows.space import PLAIN, Access, Refused, RowNode, read_node, shape_of, share_space

MAX_OPS = 128
MANY_ROWS = 512
"""From so many on, rows are walked where nothing is reduced, but each has a result; fewer leave cores idle."""
SLOW_OPS = {"arith.divf": 5, "arith.remf": 20, "arith.divsi": 20, "arith.divui": 20, "arith.remsi": 20,
            "arith.remui": 20, "tensor.extract": 6, "linalg.yield": 0, "arith.constant": 0}  # fmt: skip
MATH_COST = 25
CHEAP_MATH = ("math.absf", "math.absi", "math.copysign", "math.fma", "math.floor", "math.ceil", "math.sqrt")
Strides = Callable[[ir.Value], "tuple[int, ...] | None"]


@dataclass(frozen=True)
class RowRefusal:
    """Why a group cannot be one row kernel."""

    reason: str

    def __bool__(self) -> bool:
        return False


@dataclass(frozen=True)
class Made:
    """Where a value of the group comes from: result `place` of node `node`."""

    node: int
    place: int


@dataclass(frozen=True)
class RowProgram:
    """The analysed group.

    `sizes` by group dimension; `columns` are the reduced ones, `vector_dim` the one that lanes run along (None: there
    is none) and `across` says whether it is a column. `makers` knows the values made inside, `fills` the ones that are
    a constant everywhere, `outputs` those used outside. `levels` has one entry per node: the walk over the columns in
    which a node can run. `dependence` maps every body value and group value to the dimensions that it varies with.
    """

    nodes: tuple[RowNode, ...]
    sizes: tuple[int, ...]
    columns: frozenset[int]
    vector_dim: int | None
    across: bool
    makers: dict[ir.Value, Made]
    fills: dict[ir.Value, ir.Attribute]
    outputs: tuple[ir.Value, ...]
    levels: tuple[int, ...]
    reductions: dict[int, list[Fold] | Search | None]
    dependence: dict[ir.Value, frozenset[int]] = field(repr=False)

    def access_of(self, value: ir.Value) -> Access:
        """How a value made in the group is laid over the space."""
        made = self.makers[value]
        return self.nodes[made.node].result_access(made.place)

    def level_of(self, value: ir.Value) -> int:
        """The first level whose walk can use the value (a reduction's result exists one level later)."""
        made = self.makers.get(value)
        if made is None:
            return 0
        return self.levels[made.node] + (1 if self.nodes[made.node].is_reduction else 0)

    def is_wide(self, value: ir.Value) -> bool:
        """Whether the value has one element per column."""
        return any(dim in self.columns for dim in self.access_of(value))


def accepts(operations: Iterable[ir.Operation | ir.OpView]) -> bool:
    """Whether the row emitter can take these ops as one kernel."""
    return bool(analyse(operations))


def analyse(operations: Iterable[ir.Operation | ir.OpView], strides: Strides | None = None) -> RowProgram | RowRefusal:
    """Analyse linalg.generic, linalg.fill and tensor.empty ops (in SSA order) as one group.

    Every result with a use outside of `operations` is an output. `strides` gives the strides of outside tensors;
    without it they are taken to be row-major. A Refusal is false and has the reason.
    """
    try:
        return _analyse([operation.operation for operation in operations], strides or (lambda value: None))
    except Refused as refused:
        return RowRefusal(str(refused))


def _analyse(operations: Sequence[ir.Operation], strides: Strides) -> RowProgram:
    if len(operations) > MAX_OPS:
        raise Refused(f"{len(operations)} ops are more than {MAX_OPS}")
    fills = _read_fills(operations)
    work = [operation for operation in operations if operation.name == "linalg.generic"]
    if not work:
        raise Refused("there is no linalg.generic")
    nodes, sizes = share_space([read_node(operation) for operation in work])
    fills |= _read_empties(nodes)
    makers = {result: Made(number, place) for number, node in enumerate(nodes)
              for place, result in enumerate(node.operation.results)}  # fmt: skip
    _check_captures(nodes, makers, fills)
    outputs = _outputs(operations, nodes, fills)
    columns = _columns(nodes, len(sizes)) or _not_of_all(nodes, makers, outputs, sizes)
    _check_outputs(nodes, makers, outputs, columns, len(sizes))
    reductions = {number: _read_reduction(node, fills) for number, node in enumerate(nodes) if node.is_reduction}
    vector_dim = _vector_dim(nodes, sizes, columns, makers, set(outputs), fills, reductions, strides)
    dependence = _dependence(nodes, fills)
    levels = _levels(nodes, makers)
    across = vector_dim in columns
    return RowProgram(
        tuple(nodes), tuple(sizes), columns, vector_dim, across, makers, fills, outputs, levels, reductions, dependence
    )


def _read_reduction(node: RowNode, fills: dict[ir.Value, ir.Attribute]) -> list[Fold] | Search | None:
    """How a reduction can have lanes. The lanes of a search all start from the same constants."""
    reduction = read_reduction(node.body, node.num_inputs)
    constant = all(operand in fills for operand in list(node.operation.operands)[node.num_inputs :])
    return None if isinstance(reduction, Search) and not constant else reduction


def _read_fills(operations: Sequence[ir.Operation]) -> dict[ir.Value, ir.Attribute]:
    """The constants behind linalg.fill; refuses ops of any other kind."""
    fills: dict[ir.Value, ir.Attribute] = {}
    for operation in operations:
        if operation.name == "linalg.fill":
            scalar = constant_of(operation.operands[0])
            if scalar is None:
                raise Refused(f"{operation.location} fills with a value that is not a constant")
            fills[operation.results[0]] = scalar
        elif operation.name not in (*PLAIN, "linalg.generic"):
            raise Refused(f"{operation.name} is no pointwise op and no reduction")
    return fills


def _read_empties(nodes: Sequence[RowNode]) -> dict[ir.Value, ir.Attribute]:
    """A zero for each tensor.empty that is read: it has no elements, or nobody may care which."""
    read = {operand for node in nodes for operand in list(node.operation.operands)[: node.num_inputs]}
    empties = [value for value in read if not isinstance(value.owner, ir.Block) and value.owner.name == "tensor.empty"]
    types = {value: value.type.element_type for value in empties}
    kinds = {
        value: ir.FloatAttr if isinstance(type_, ir.FloatType) else ir.IntegerAttr for value, type_ in types.items()
    }
    return {value: kinds[value].get(types[value], 0) for value in empties}


def constant_of(value: ir.Value) -> ir.Attribute | None:
    """The attribute of a scalar constant, or the element of a tensor constant whose elements are all alike."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.operation.name != "arith.constant":
        return None
    attribute = owner.operation.attributes["value"]
    if not isinstance(attribute, ir.DenseElementsAttr):
        return attribute
    return attribute.get_splat_value() if attribute.is_splat else None


def captured(node: RowNode) -> list[ir.Value]:
    """The tensors that the body gathers from."""
    return [operation.operands[0] for operation in node.body.operations if operation.operation.name == "tensor.extract"]


def _check_captures(
    nodes: Sequence[RowNode], makers: dict[ir.Value, Made], fills: dict[ir.Value, ir.Attribute]
) -> None:
    for node in nodes:
        if any(table in makers or table in fills for table in captured(node)):
            raise Refused(f"{node.operation.location} gathers from a value of the group")
        for operation in node.body.operations:
            if len(operation.operation.regions):
                raise Refused(f"{operation.operation.name} in a body")


def _columns(nodes: Sequence[RowNode], dims: int) -> frozenset[int]:
    columns = {dim for node in nodes for dim in node.columns}
    for node in nodes:
        if node.is_reduction and (node.columns != columns or len(node.domain) != dims):
            raise Refused(f"{node.operation.location} reduces other dimensions than the rest of the group")
    return frozenset(columns)


def _not_of_all(nodes: Sequence[RowNode], makers: dict, outputs: Sequence[ir.Value], sizes: Sequence[int]) -> frozenset:
    """Where nothing is reduced, the dimensions that some outputs have not: then each of many rows is walked once."""
    accesses = [nodes[makers[value].node].result_access(makers[value].place) for value in outputs]
    missing = frozenset().union(*(frozenset(range(len(sizes))) - {*access} for access in accesses))
    is_many = prod(size for dim, size in enumerate(sizes) if dim not in missing) >= MANY_ROWS
    return missing if is_many else frozenset()


def _outputs(operations: Sequence[ir.Operation], nodes: Sequence[RowNode], fills: dict) -> tuple[ir.Value, ...]:
    inside = set(operations)
    results = [result for node in nodes for result in node.operation.results]
    outputs = [value for value in results if any(use.owner.operation not in inside for use in value.uses)]
    for value in fills:
        if any(use.owner.operation not in inside for use in value.uses):
            raise Refused("a fill is a result of its own")
    return tuple(outputs)


def _check_outputs(
    nodes: Sequence[RowNode], makers: dict, outputs: Sequence[ir.Value], columns: frozenset, dims: int
) -> None:
    """An output must be written once: by all rows, and by all columns or after them."""
    rows = frozenset(range(dims)) - columns
    for value in outputs:
        made = makers[value]
        access = frozenset(dim for dim in nodes[made.node].result_access(made.place) if dim is not None)
        if access not in (rows, rows | columns):
            raise Refused(
                f"{nodes[made.node].operation.location} gives a result that has not all dimensions of the group"
            )


def _vector_dim(nodes, sizes, columns, makers, outputs, fills, reductions, strides: Strides) -> int | None:
    """The dimension along which most bytes are contiguous. Reductions that must run in order cannot have lanes."""
    ordered = any(reduction is None for reduction in reductions.values())
    weights = {dim: 0.0 for dim in range(len(sizes)) if not (ordered and dim in columns)}
    for node in nodes:
        operands = [item for item in zip(node.operation.operands, node.accesses, strict=True)
                    if item[0] not in makers and item[0] not in fills]  # fmt: skip
        results = [
            (value, node.result_access(makers[value].place)) for value in node.operation.results if value in outputs
        ]
        for value, access in (*operands, *results):
            for dim, step in zip(access, strides(value) or _row_major(shape_of(value)), strict=True):
                if dim in weights and step == 1:
                    weights[dim] += prod(shape_of(value)) + 0.5 * (dim in columns)
    return max(weights, key=lambda dim: (weights[dim], dim), default=None)


def _row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of a row-major tensor; the last dimension that is not 1 has stride 1."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def _levels(nodes: Sequence[RowNode], makers: dict[ir.Value, Made]) -> tuple[int, ...]:
    levels: list[int] = []
    for node in nodes:
        made = [makers[operand] for operand in node.operation.operands if operand in makers]
        before = [levels[maker.node] + (1 if nodes[maker.node].is_reduction else 0) for maker in made]
        levels.append(max(before, default=0))
    return tuple(levels)


def _dependence(nodes: Sequence[RowNode], fills: dict) -> dict[ir.Value, frozenset[int]]:
    found: dict[ir.Value, frozenset[int]] = {}
    for node in nodes:
        for argument, operand, access in zip(node.body.arguments, node.operation.operands, node.accesses, strict=True):
            outside = frozenset(dim for dim in access if dim is not None)
            found[argument] = frozenset() if operand in fills else found.get(operand, outside)
        if node.is_reduction:
            found.update((argument, node.domain) for argument in list(node.body.arguments)[node.num_inputs :])
        for operation in node.body.operations:
            _depend(operation.operation, node, found)
    return found


def _depend(operation: ir.Operation, node: RowNode, found: dict[ir.Value, frozenset[int]]) -> None:
    if operation.name == "linalg.yield":
        for place, (result, operand) in enumerate(zip(node.operation.results, operation.operands, strict=True)):
            access = frozenset(dim for dim in node.result_access(place) if dim is not None)
            found[result] = access | {ROW} if node.is_reduction else found.get(operand, frozenset())
        return
    dims = frozenset().union(*(found.get(operand, frozenset()) for operand in operation.operands))
    if operation.name == "linalg.index":
        dim = node.dims[operation.attributes["dim"].value]
        dims = frozenset() if dim is None else frozenset([dim])
    for result in operation.results:
        found[result] = dims


def cost_of(node: RowNode) -> int:
    """The work of one element of a node, in units of a simple vector instruction."""
    return sum(_op_cost(operation.operation.name) for operation in node.body.operations)


def _op_cost(name: str) -> int:
    if name in SLOW_OPS:
        return SLOW_OPS[name]
    return MATH_COST if name.startswith("math.") and name not in CHEAP_MATH else 1
