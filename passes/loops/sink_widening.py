"""The pass that lets loops read half-precision numbers themselves, instead of from a wide copy of them."""

from __future__ import annotations

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, func, ir, linalg, tensor
from blu.dialects.core.op import is_pure
from blu.passes.framework.base import Pass, find
from blu.passes.loops.fuse.loops import VIEWS, loop_nest
from blu.passes.loops.lower_to_linalg.generic import pointwise, transpose

# Views that do not show all of what they look at.
PARTIAL_VIEWS = ("tensor.extract_slice", "blu.row_windows")


@dataclass(frozen=True)
class SinkWidening(Pass):
    """A widening moves into the bodies of the elementwise loops that read it, and through views; products take halves.

        %1 = linalg.generic ins(%x : bf16) { extf }
        %2 = tensor.expand_shape %1 : f32
        %3 = linalg.generic ins(%2 : f32) { exp }

    becomes

        %2 = tensor.expand_shape %x : bf16
        %3 = linalg.generic ins(%2 : bf16) { extf, exp }

    Widening loses nothing, so no bit changes: it decides that what lies in memory between kernels is the half. A
    rounding of what was widened becomes the half itself, and a rounding of a view of something a view of its rounding.
    Reductions along rows go on reading the wide value, if any do.
    """

    level = "linalg"

    def run(self, module: ir.Module) -> None:
        for function in find(module, func.FuncOp):
            if function.is_external:
                continue
            # What values are the widening of, where that is not seen by the op that makes them.
            known: dict[ir.Value, ir.Value] = {}
            for operation in [item.operation for item in function.entry_block.operations]:
                self._visit(operation, known)
            _erase_unused(function.entry_block)

    def _visit(self, operation: ir.Operation, known: dict[ir.Value, ir.Value]) -> None:
        """Let one op read what its operands were widened from."""
        if operation.name == "linalg.generic":
            _move_halves(operation, known)
            _extract_halves(operation, known)
            _narrow_before_views(operation)
        halves = [known.get(value) or _half_of(value) for value in operation.operands]
        if not any(half is not None for half in halves):
            return
        with operation.location, ir.InsertionPoint(operation):
            if operation.name == "tensor.insert_slice":
                _insert_half(operation, halves, known)
            elif operation.name in VIEWS:
                _view_half(operation, halves[0], known)
            elif operation.name == "linalg.contract":
                _multiply_halves(operation, halves)
            elif operation.name == "linalg.generic" and (_is_pointwise(operation) or _is_column_reduction(operation)):
                _read_halves(operation, halves)


def _is_pointwise(operation: ir.Operation) -> bool:
    nest = loop_nest(operation, 0)
    return nest is not None and nest.is_pointwise


def _is_column_reduction(operation: ir.Operation) -> bool:
    """A reduction that is a kernel of its own: one along rows joins the loops that widen."""
    nest = loop_nest(operation, 0)
    return nest is not None and any(nest.reduced) and not nest.is_row_reduction


def _half_of(value: ir.Value) -> ir.Value | None:
    """What a value is the widening of, if it is one from f16 or bf16."""
    return _source_of(value, "arith.extf", (ir.F16Type, ir.BF16Type))


def _source_of(value: ir.Value, conversion: str, kinds: tuple[type, ...]) -> ir.Value | None:
    """The operand of the loop that makes `value` by nothing but a conversion from one of the element types."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "linalg.generic" or len(owner.operands) != 2:
        return None
    if not isinstance(_element(owner.operands[0]), kinds) or not _is_pointwise(owner.operation):
        return None
    body = [item.operation for item in owner.regions[0].blocks[0].operations]
    same_shape = _shape(owner.operands[0]) == _shape(value)
    return owner.operands[0] if [item.name for item in body] == [conversion, "linalg.yield"] and same_shape else None


def _element(value: ir.Value) -> ir.Type:
    return ir.RankedTensorType(value.type).element_type


def _shape(value: ir.Value) -> list[int]:
    return list(ir.RankedTensorType(value.type).shape)


def _view_half(operation: ir.Operation, half: ir.Value | None, known: dict[ir.Value, ir.Value]) -> None:
    """View the half, and widen what is seen."""
    if half is None:  # a view is of its first operand
        return
    result = operation.results[0]
    seen = view_again(operation, half)
    wide = _element(result)
    widened = pointwise(_shape(seen), [seen], wide, lambda x: arith.extf(wide, x))
    known[widened] = seen
    result.replace_all_uses_with(widened)


def view_again(operation: ir.Operation, value: ir.Value) -> ir.Value:
    """The same view of another value."""
    if operation.name == "linalg.transpose":
        return transpose(value, list(ir.DenseI64ArrayAttr(operation.attributes["permutation"])))
    type_ = ir.RankedTensorType.get(_shape(operation.results[0]), _element(value))
    operands = [value, *list(operation.operands)[1:]]
    attributes = {name: operation.attributes[name] for name in operation.attributes}
    return ir.Operation.create(operation.name, results=[type_], operands=operands, attributes=attributes).results[0]


def _insert_half(operation: ir.Operation, halves: list[ir.Value | None], known: dict[ir.Value, ir.Value]) -> None:
    """Put a half into what is made of halves only, and widen the whole."""
    source, target = halves[0], halves[1]
    if source is None or len(operation.operands) != 2:
        return
    result, into = operation.results[0], operation.operands[1]
    if target is None:
        if isinstance(into.owner, ir.Block) or into.owner.name != "tensor.empty":
            return
        target = tensor.empty(_shape(into), _element(source))
    if _element(target) != _element(source):
        return
    attributes = {name: operation.attributes[name] for name in operation.attributes}
    type_ = ir.RankedTensorType.get(_shape(result), _element(source))
    half = ir.Operation.create(operation.name, results=[type_], operands=[source, target], attributes=attributes)
    wide = _element(result)
    widened = pointwise(_shape(result), [half.results[0]], wide, lambda x: arith.extf(wide, x))
    known[widened] = half.results[0]
    result.replace_all_uses_with(widened)


def _multiply_halves(operation: ir.Operation, halves: list[ir.Value | None]) -> None:
    """A product of two halves of one dtype with wide sums."""
    left, right = halves[:2]
    if left is None or right is None or _element(left) != _element(right):
        return
    start = operation.operands[2]
    contract = linalg.ContractOp([start.type], [left, right], [start], operation.attributes["indexing_maps"])
    linalg.fill_builtin_region(contract.operation)
    for name in operation.attributes:
        if name.startswith("blu."):
            contract.operation.attributes[name] = operation.attributes[name]
    operation.results[0].replace_all_uses_with(contract.results[0])


def _narrow_before_views(operation: ir.Operation) -> None:
    """Round what a view looks at rather than what is seen: the loops that make it do that on the way to memory."""
    source = _source_of(operation.results[0], "arith.truncf", (ir.F32Type, ir.F64Type))
    seen_through: list[ir.Operation] = []
    while source is not None and (is_whole_view(source) or _takes_rows_of_product(source)):
        seen_through.append(source.owner.operation)
        source = source.owner.operands[0]
    if source is None or not seen_through or isinstance(source.owner, ir.Block):
        return
    narrow = _element(operation.results[0])
    with ir.InsertionPoint(operation), operation.location:
        value = pointwise(_shape(source), [source], narrow, lambda x: arith.truncf(narrow, x))
        for view in reversed(seen_through):
            value = view_again(view, value)
    operation.results[0].replace_all_uses_with(value)


def is_whole_view(value: ir.Value) -> bool:
    """Whether a value is all of another one in another shape or order."""
    return not isinstance(value.owner, ir.Block) and value.owner.name in VIEWS and value.owner.name not in PARTIAL_VIEWS


def _takes_rows_of_product(value: ir.Value) -> bool:
    """Whether a value is rows of a product that nobody else reads: that rounds its sums best, those between as well."""
    if isinstance(value.owner, ir.Block) or value.owner.name != "blu.row_windows":
        return False
    source = value.owner.operands[0]
    is_product = not isinstance(source.owner, ir.Block) and source.owner.name == "linalg.contract"
    return is_product and len(list(source.uses)) == 1


def _extract_halves(operation: ir.Operation, known: dict[ir.Value, ir.Value]) -> None:
    """Let a body that reads elements by index read them from halves, and widen them."""
    for item in [inner.operation for inner in operation.regions[0].blocks[0].operations]:
        if item.name != "tensor.extract":
            continue
        half = known.get(item.operands[0]) or _half_of(item.operands[0])
        if half is None:
            continue
        with ir.InsertionPoint(item), item.location:
            element = tensor.ExtractOp(half, list(item.operands)[1:]).result
            item.results[0].replace_all_uses_with(arith.extf(item.results[0].type, element))
        item.erase()


def _move_halves(operation: ir.Operation, known: dict[ir.Value, ir.Value]) -> None:
    """Let a loop that only brings elements into another order, by index, do that with halves, and widen the whole."""
    *_, found, end = [None, *(item.operation for item in operation.regions[0].blocks[0].operations)]
    if found is None or found.name != "tensor.extract" or end.operands[0] != found.results[0]:
        return
    half = known.get(found.operands[0]) or _half_of(found.operands[0])
    if half is None or len(operation.operands) != 1:
        return
    result, wide, narrow = operation.results[0], _element(operation.results[0]), _element(half)
    with ir.InsertionPoint(operation), operation.location:
        operation.operands[0] = tensor.empty(_shape(result), narrow)
    result.set_type(ir.RankedTensorType.get(_shape(result), narrow))
    operation.regions[0].blocks[0].arguments[0].set_type(narrow)
    found.operands[0] = half
    found.results[0].set_type(narrow)
    with ir.InsertionPoint.after(operation), operation.location:
        widened = pointwise(_shape(result), [result], wide, lambda x: arith.extf(wide, x))
    known[widened] = result
    result.replace_all_uses_except(widened, [widened.owner.operation])


def _read_halves(operation: ir.Operation, halves: list[ir.Value | None]) -> None:
    """Widen in the body; where the body only rounds to the half again, use that."""
    source = _source_of(operation.results[0], "arith.truncf", (ir.F32Type, ir.F64Type))
    if source is not None and halves[0] is not None and halves[0].type == operation.results[0].type:
        operation.results[0].replace_all_uses_with(halves[0])
        return
    block = operation.regions[0].blocks[0]
    for index, half in enumerate(halves[: len(operation.operands) - len(operation.results)]):
        if half is None:
            continue
        argument = block.arguments[index]
        element = argument.type
        operation.operands[index] = half
        argument.set_type(_element(half))
        with ir.InsertionPoint.at_block_begin(block):
            widening = arith.ExtFOp(element, argument)
        argument.replace_all_uses_except(widening.result, [widening.operation])


def _erase_unused(block: ir.Block) -> None:
    for operation in reversed([item.operation for item in block.operations]):
        if is_pure(operation) and not any(list(item.uses) for item in operation.results):
            operation.erase()
