"""The pass that rewrites every `blu` op as linalg on tensors, by the rule registered under its name."""

from __future__ import annotations

from collections.abc import Sequence

from blu.dataclass import dataclass
from blu.dialects.core.dialect import YIELD
from blu.dialects.core.dtypes import tensor_type
from blu.dialects.core.mlir import func, ir
from blu.dialects.core.op import is_pure, operation_class
from blu.passes.framework.base import Pass
from blu.passes.framework.kernels import UNSIGNED, has_own_kernel, is_collective, is_host_step, is_routine
from blu.passes.loops.lower_to_linalg.checks import check_routine
from blu.passes.loops.lower_to_linalg.generic import RESHAPES
from blu.passes.loops.lower_to_linalg.rules import RULES, describe, storage

_SEEN_THROUGH = (*RESHAPES, "arith.constant")


@dataclass(frozen=True)
class LowerToLinalg(Pass, name="lower-to-linalg"):
    """Every `blu` op becomes linalg on signless tensors, in canonical loops (see generic.py); shape ops become views.

        %1 = "blu.add"(%0, %bias) : (tensor<2x3x4xf32>, tensor<4xf32>) -> tensor<2x3x4xf32>

    becomes

        %a = tensor.collapse_shape %0 [[0, 1], [2]] : tensor<2x3x4xf32> into tensor<6x4xf32>
        %b = linalg.generic {maps = [(i, j) -> (i, j), (i, j) -> (j), (i, j) -> (i, j)]} ins(%a, %bias) ...
        %1 = tensor.expand_shape %b [[0, 1], [2]] : tensor<6x4xf32> into tensor<2x3x4xf32>

    A reshape of a reshape is one of what that is made of, so that none are left between ops over the same data, and one
    tensor.empty stands for all of its type.
    The function keeps the types that callers know, signedness included, in `blu.inputs` and `blu.results`.
    With `keeps_subnormals`, exponentials of f32 are not 0 where they are subnormal, and so is what is made of them.
    With `moves_in_loops`, what is padded between its first and its last dimension is written by one loop, padding and
    all, rather than put into what is filled, and rows between which others are dropped are no view, but are put
    together once, for all who read them. Processors fill and copy faster than they compute where to read.
    """

    level = "blu"
    leads_to = "linalg"
    keeps_subnormals: bool = True
    moves_in_loops: bool = False

    def run(self, module: ir.Module) -> None:
        for operation in list(module.body.operations):
            if isinstance(operation, func.FuncOp):
                with operation.operation.location:
                    self._lower_function(operation)

    def _lower_function(self, function: func.FuncOp) -> None:
        """Write a function with signless types beside the old one, then drop the old one."""
        old = function.entry_block
        inputs = [_signless(argument.type) for argument in old.arguments]
        results = [_signless(type_) for type_ in function.type.results]
        with ir.InsertionPoint(function):
            lowered = func.FuncOp(function.name.value, (inputs, results))
            _copy_attributes(function, lowered)
            for name, types in (("blu.inputs", function.type.inputs), ("blu.results", function.type.results)):
                lowered.attributes[name] = ir.ArrayAttr.get([ir.TypeAttr.get(type_) for type_ in types])
            locations = [argument.location for argument in old.arguments]
            block = lowered.add_entry_block(locations)
        values = dict(zip(old.arguments, block.arguments, strict=True))
        with ir.InsertionPoint(block):
            for operation in old.operations:
                self._lower_operation(operation.operation, values)
        _erase_unread(block)
        _share_empty(block)
        function.operation.erase()

    def _lower_operation(self, operation: ir.Operation, values: dict[ir.Value, ir.Value]) -> None:
        with operation.location:
            results = _clone(operation, values) if _is_kept(operation) else self._apply_rule(operation, values)
        values.update(zip(operation.results, results, strict=True))
        if is_routine(operation.name):
            with operation.location:
                check_routine(operation, results[-1])

    def _apply_rule(self, operation: ir.Operation, values: dict[ir.Value, ir.Value]) -> Sequence[ir.Value]:
        rule = RULES.get(operation.name.removeprefix("blu."))
        if rule is None:
            which = ", which has regions," * bool(len(operation.regions))
            self.fail(
                operation, f"no rule lowers {operation.name}{which} to linalg", advice=_before_lowering(operation)
            )
        result = rule(
            describe(operation, values.__getitem__, self.keeps_subnormals, self.moves_in_loops, self._lower_body)
        )
        return [result] if isinstance(result, ir.Value) else list(result)

    def _lower_body(self, block: ir.Block, *arguments: ir.Value) -> list[ir.Value]:
        """Write what a body computes of lowered values; what it gives, lowered."""
        values = dict(zip(block.arguments, arguments, strict=True))
        for operation in (item.operation for item in block.operations):
            if operation.name == YIELD:
                return [values[value] for value in operation.operands]
            self._lower_operation(operation, values)
        raise AssertionError("a body ends in a yield")


def _before_lowering(operation: ir.Operation) -> str:
    """What to do about an op that no rule is for."""
    cls, name = operation_class(operation), operation.name.removeprefix("blu.")
    if cls is not None and cls.decompose is not None:
        return "It is made of other ops: run blu-decompose before."
    if name in ("scan", "while_loop"):
        return "Its body becomes a function: run blu-outline-loops before."
    return f'Write one: @lowers("{name}") in passes/loops/lower_to_linalg/, or give the op a decompose.'


def _is_kept(operation: ir.Operation) -> bool:
    """Whether an op keeps its form: of another dialect, or one that a kernel takes whole. None takes bodies."""
    has_rule = operation.name.removeprefix("blu.") in RULES
    if operation_class(operation) is None or is_host_step(operation.name):
        return True
    if has_own_kernel(operation.name) and not has_rule:
        return True
    return not len(operation.regions) and not is_pure(operation)


def _erase_unread(block: ir.Block) -> None:
    """Erase reshapes of which rules have read what is behind them, and constants that are in loops by now."""
    for operation in reversed([item.operation for item in block.operations]):
        if operation.name in _SEEN_THROUGH and not any(list(result.uses) for result in operation.results):
            operation.erase()


def _share_empty(block: ir.Block) -> None:
    """Let one tensor without values stand for all of its type: what is written into it is another value each time."""
    first: dict[ir.Type, ir.Value] = {}
    for operation in [item.operation for item in block.operations if item.operation.name == "tensor.empty"]:
        (value,) = operation.results
        if first.setdefault(value.type, value) != value:
            value.replace_all_uses_with(first[value.type])
            operation.erase()


def _signless(type_: ir.Type) -> ir.Type:
    return storage(tensor_type(type_)) if isinstance(type_, ir.RankedTensorType) else type_


def _is_unsigned(value: ir.Value) -> bool:
    return tensor_type(value.type).dtype.kind == "unsigned"


def _clone(operation: ir.Operation, values: dict[ir.Value, ir.Value]) -> Sequence[ir.Value]:
    attributes = {name: operation.attributes[name] for name in operation.attributes}
    if is_collective(operation.name) and any(map(_is_unsigned, operation.operands)):
        attributes[UNSIGNED] = ir.UnitAttr.get()
    return ir.Operation.create(
        operation.name,
        results=[_signless(result.type) for result in operation.results],
        operands=[values[operand] for operand in operation.operands],
        attributes=attributes,
    ).results


def _copy_attributes(source: func.FuncOp, target: func.FuncOp) -> None:
    for name in source.attributes:
        if name not in ("sym_name", "function_type"):
            target.attributes[name] = source.attributes[name]
