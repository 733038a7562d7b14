"""Approximate functions of the GPU, for kernels whose results have 16 bits, or are products by warpgroups of tf32.

    %1 = math.exp %0 : f32           ->     %a = arith.mulf %0, %log2_e : f32
                                            %1 = llvm.intr.exp2(%a) {fastmathFlags = #llvm.fastmath<afn>}

The errors (about 2 units in the last place of f32, and for exp x more, |x| / 2 of them) are far below what rounding to
bf16 or f16 leaves, and factors to tf32. Other kernels that write f32 keep functions that are right to the last digits.

Not the logarithm: lg2.approx has an absolute error near 1, where the logarithm itself is small, and LLVM has no
pattern for it.

Source of the errors: PTX ISA, "ex2.approx", "lg2.approx", "div.approx", "sqrt.approx".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from itertools import compress

from blu.dialects.core.mlir import arith, func, ir, vector
from blu.passes.framework.base import find
from blu.passes.gpu.isa import approx, cvt
from blu.passes.kernels import lanes as vectors

ATTRIBUTE, FUSES = "blu.rounds_to_halves", "blu.fuses_arithmetic"
Rule = Callable[[list[ir.Value]], ir.Value]


def mark(launched: list[func.FuncOp], fuses: bool = False) -> None:
    """Remember on what a kernel has become that its results, or the factors of its product, are rounded so.

    With `fuses`, products and sums become one operation, and x / y is x times the reciprocal of y: for kernels whose
    arithmetic has to hide behind something else.
    """
    for function in launched:
        function.attributes[ATTRIBUTE] = ir.UnitAttr.get()
        if fuses:
            function.attributes[FUSES] = ir.UnitAttr.get()


def writes_halves(kernel: func.FuncOp) -> bool:
    """Whether all results of a kernel, still on tensors, are f16 or bf16."""
    results = [op.operation.operands[1] for op in find(kernel, "bufferization.materialize_in_destination")]
    elements = [ir.MemRefType(result.type).element_type for result in results]
    return bool(elements) and all(isinstance(element, ir.F16Type | ir.BF16Type) for element in elements)


def approximate(function: func.FuncOp, operations: dict[str, list[ir.Operation]]) -> None:
    """Let a marked kernel use the GPU's own approximations. What is replaced is no longer in its `operations`."""
    if ATTRIBUTE not in function.attributes:
        return
    if FUSES not in function.attributes:
        _replace(operations, _RULES)
        return
    _fuse(item for name in _FUSED for item in operations.get(name, ()))
    _fuse(_replace(operations, {**_RULES, "arith.divf": _divide_by_reciprocal}))
    for operation in operations.get("arith.extf", ()):
        _round_in_pairs(operation)


def _replace(operations: dict[str, list[ir.Operation]], rules: Mapping[str, Rule]) -> list[ir.Operation]:
    """Do as rules say with the operations of f32 that they are for; what gives the results now, and what that reads."""
    made: list[ir.Operation] = []
    for name, rule in rules.items():
        found = operations.get(name, [])
        are_f32 = [isinstance(_element(item.results[0].type), ir.F32Type) for item in found]
        operations[name] = [item for item, is_f32 in zip(found, are_f32, strict=True) if not is_f32]
        for operation in compress(found, are_f32):
            with ir.InsertionPoint(operation), operation.location:
                result = rule(operation.operands)
            operation.results[0].replace_all_uses_with(result)
            operation.erase()
            owners = [result.owner, *(operand.owner for operand in result.owner.operands)]
            made += [owner for owner in owners if not isinstance(owner, ir.Block)]
    return made


def _fuse(operations: Iterable[ir.Operation]) -> None:
    """Let products and sums become one operation."""
    contract = ir.Attribute.parse("#arith.fastmath<contract>")
    for operation in operations:
        if operation.name in _FUSED:
            operation.attributes["fastmath"] = contract


def _element(type_: ir.Type) -> ir.Type:
    return ir.VectorType(type_).element_type if isinstance(type_, ir.VectorType) else type_


def _times(value: ir.Value, factor: float) -> ir.Value:
    return arith.mulf(value, vectors.constant(value.type, factor))


def _intrinsic(name: str, value: ir.Value) -> ir.Value:
    flags = {"fastmathFlags": ir.Attribute.parse("#llvm.fastmath<afn>")}
    return ir.Operation.create(f"llvm.intr.{name}", results=[value.type], operands=[value], attributes=flags).result


def _divide(operands: list[ir.Value]) -> ir.Value:
    left, right = operands
    return arith.divf(left, right, fastmath=ir.Attribute.parse("#arith.fastmath<afn>"))


def _round_in_pairs(widening: ir.Operation) -> None:
    """Of what is rounded to bf16 and widened again, round two at a time: LLVM takes a slow instruction for each."""
    narrow, wide = widening.operands[0], widening.results[0].type
    is_rounded = not isinstance(narrow.owner, ir.Block) and narrow.owner.name == "arith.truncf"
    if not is_rounded or not isinstance(wide, ir.VectorType) or not isinstance(_element(narrow.type), ir.BF16Type):
        return
    value, count = narrow.owner.operands[0], ir.VectorType(wide).shape[0]
    users = [use.owner.operation for use in widening.results[0].uses]
    # LLVM adds pairs in bf16 where operands and result are: leave it that.
    if value.type != wide or count % 2 or _is_of_pairs(value) or all(map(_is_of_pairs, [u.results[0] for u in users])):
        return
    with ir.InsertionPoint(widening), widening.location:
        elements = [vector.extract(value, [], [lane]) for lane in range(count)]
        pairs = [cvt.rn_x2(*elements[lane : lane + 2], "bf16") for lane in range(0, count, 2)]
        rounded = [number for pair in pairs for number in cvt.unpack(pair, "bf16")]
        widening.results[0].replace_all_uses_with(vector.from_elements(wide, rounded))
    widening.erase()


def _is_of_pairs(value: ir.Value) -> bool:
    """Whether a value is a sum of numbers that were widened, and is only narrowed again."""
    if isinstance(value.owner, ir.Block) or value.owner.name not in ("arith.addf", "arith.subf"):
        return False
    operands = [operand.owner for operand in value.owner.operands]
    is_wide = all(not isinstance(owner, ir.Block) and owner.name == "arith.extf" for owner in operands)
    return is_wide and all(use.owner.operation.name == "arith.truncf" for use in value.uses)


def _divide_by_reciprocal(operands: list[ir.Value]) -> ir.Value:
    left, right = operands
    reciprocal = approx.of_each(right, approx.rcp)
    return reciprocal if constant_of(left) == 1.0 else arith.mulf(left, reciprocal)


def constant_of(value: ir.Value) -> float | None:
    """The number that a scalar or all elements of a vector are, where it is known."""
    if isinstance(value.owner, ir.Block):
        return None
    if value.owner.name == "vector.broadcast":
        return constant_of(value.owner.operands[0])
    if value.owner.name != "arith.constant":
        return None
    attribute = value.owner.attributes["value"]
    if isinstance(attribute, ir.FloatAttr):
        return ir.FloatAttr(attribute).value
    elements = ir.DenseFPElementsAttr(attribute)
    return ir.FloatAttr(elements.get_splat_value()).value if elements.is_splat else None


def scaled(value: ir.Value, factor: float) -> ir.Value:
    """value * factor, the factor being put into constants where there are such to be multiplied."""
    found = _with_factor(value, factor)
    return _times(value, factor) if found is None else found


def _with_factor(value: ir.Value, factor: float) -> ir.Value | None:
    """The same, or None where there is no constant to put it into."""
    constant = constant_of(value)
    if constant is not None:
        return vectors.constant(value.type, constant * factor)
    if isinstance(value.owner, ir.Block) or value.owner.name not in _LINEAR:
        return None
    name, operands = value.owner.name, list(value.owner.operands)
    if name == "arith.mulf":
        factors = (
            (_with_factor(operand, factor), other) for operand, other in zip(operands, operands[::-1], strict=True)
        )
        return next((arith.mulf(found, other) for found, other in factors if found is not None), None)
    found = [_with_factor(operand, factor) for operand in operands]
    if any(item is None for item in found):
        return None
    return arith.negf(found[0]) if name == "arith.negf" else arith.addf(*found)


_LINEAR = ("arith.negf", "arith.addf", "arith.mulf")
_FUSED = ("arith.mulf", "arith.addf", "arith.subf")
_RULES: dict[str, Rule] = {
    "math.exp": lambda operands: _intrinsic("exp2", _times(operands[0], math.log2(math.e))),
    "math.exp2": lambda operands: _intrinsic("exp2", operands[0]),
    "math.sqrt": lambda operands: _intrinsic("sqrt", operands[0]),
    "arith.divf": _divide,
}
