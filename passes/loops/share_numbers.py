"""The pass that lets kernels which differ in numbers only be one kernel."""

from __future__ import annotations

import re
from collections.abc import Sequence

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, func, ir
from blu.dialects.core.modules import end_of
from blu.passes.framework.base import Pass, find, replace
from blu.passes.framework.families import is_kernel
from blu.passes.framework.kernels import calls_of, text_of
from blu.passes.loops.fuse.fuse import remap
from blu.passes.loops.fuse.loops import loop_nest
from blu.passes.loops.lower_to_linalg.generic import PARALLEL, generic, projection

# Ops that do the same whether an operand of theirs is a constant or not.
USERS = {f"arith.{name}" for name in ("addf", "subf", "mulf", "divf", "maximumf", "minimumf", "cmpf", "select")}
_CONSTANT = re.compile(r"(= arith\.constant )\S+( : f\d+)$", re.MULTILINE)


@dataclass(frozen=True)
class ShareNumbers(Pass):
    """Kernels of many loops that are alike but for the numbers in them become one, which is told the numbers.

        %1 = call @rows_0(%x)                                   %1 = call @rows_0(%x, dense<2.0>)
        %2 = call @rows_1(%1)                                   %2 = call @rows_0(%1, dense<3.0>)
        func.func private @rows_0(%x) { .. mulf %in, 2.0 }      func.func private @rows_0(%x, %a) { .. mulf %in, %in_0 }
        func.func private @rows_1(%x) { .. mulf %in, 3.0 }

    What a long program with parts that are alike takes to compile is then what one of each kind takes. Numbers that
    are the same in all of them stay where they are, and so do all numbers of fewer kernels than `fewest_kernels`, or of
    kernels of fewer loops than `fewest_loops`: those are quick to compile.
    """

    level = "linalg"
    fewest_kernels: int = 3
    fewest_loops: int = 24

    def run(self, module: ir.Module) -> None:
        shared = [kernels for kernels in _alike(module, self.fewest_loops) if len(kernels) >= self.fewest_kernels]
        shared = [kernels for kernels in shared if _varying(kernels)]
        if not shared:
            return
        calls = calls_of(module, [kernel.function.name.value for kernels in shared for kernel in kernels])
        for kernels in shared:
            _share(kernels, calls)
            self.count("kernels shared", len(kernels) - 1)


@dataclass(frozen=True)
class _Numbered:
    """A kernel, and the numbers in it: in kernels whose text is alike they stand at the same places."""

    function: func.FuncOp
    constants: tuple[ir.Operation, ...]


def _alike(module: ir.Module, fewest_loops: int) -> list[list[_Numbered]]:
    """Kernels of so many loops that are the same but for numbers that could as well come from outside."""
    by_text: dict[str, list[_Numbered]] = {}
    for kernel in [item for item in find(module, func.FuncOp) if is_kernel(item)]:
        operations = [item.operation for item in kernel.entry_block.operations]
        if sum(item.name == "linalg.generic" for item in operations) >= fewest_loops:
            constants = tuple(item for item in operations if item.name == "arith.constant" and _is_float(item))
            by_text.setdefault(_text_without(constants, kernel), []).append(_Numbered(kernel, constants))
    by_code: dict[tuple, list[_Numbered]] = {}
    for text, kernels in by_text.items():
        free = [_may_come_from_outside(constant) for constant in kernels[0].constants]
        for kernel in kernels:
            fixed = tuple(value for value, is_free in zip(_values(kernel), free, strict=True) if not is_free)
            by_code.setdefault((text, fixed), []).append(kernel)
    return list(by_code.values())


def _text_without(constants: Sequence[ir.Operation], kernel: func.FuncOp) -> str:
    """A kernel's text without its name and its numbers; with them where some stand inside of loops."""
    text = text_of(kernel)
    masked, count = _CONSTANT.subn(r"\1number\2", text)
    return masked if count == len(constants) else text


def _values(kernel: _Numbered) -> list[ir.Attribute]:
    return [constant.attributes["value"] for constant in kernel.constants]


def _is_float(constant: ir.Operation) -> bool:
    return isinstance(constant.results[0].type, ir.F32Type | ir.F64Type)


def _may_come_from_outside(constant: ir.Operation) -> bool:
    """Whether a number is only used by arithmetic in elementwise loops."""
    users = [use.owner.operation for use in constant.results[0].uses]
    return all(user.name in USERS and _is_elementwise(user.parent.operation) for user in users)


def _is_elementwise(operation: ir.Operation) -> bool:
    nest = loop_nest(operation, 0)
    return nest is not None and nest.is_pointwise


def _varying(kernels: Sequence[_Numbered]) -> list[int]:
    """The places of numbers that are not the same in all of the kernels."""
    columns = zip(*map(_values, kernels), strict=True)
    return [place for place, column in enumerate(columns) if len(set(column)) > 1]


def _share(kernels: Sequence[_Numbered], calls: dict[str, list[func.CallOp]]) -> None:
    """Let all calls of the kernels be calls of the first one with their numbers."""
    places, first = _varying(kernels), kernels[0].function
    for kernel in kernels:
        values = _values(kernel)
        for call in calls[kernel.function.name.value]:
            _call_with(call, first.name.value, [values[place] for place in places])
    for kernel in kernels[1:]:
        kernel.function.operation.erase()
    _take_from_outside(first, [kernels[0].constants[place] for place in places])


def _call_with(call: func.CallOp, name: str, numbers: Sequence[ir.Attribute]) -> None:
    with ir.InsertionPoint(call), call.operation.location:
        values = [arith.ConstantOp(*_as_tensor(number)).result for number in numbers]
        other = func.CallOp([item.type for item in call.results], name, [*call.operation.operands, *values])
    replace(call, list(other.results))


def _as_tensor(number: ir.Attribute) -> tuple[ir.Type, ir.Attribute]:
    type_ = ir.RankedTensorType.get([], ir.FloatAttr(number).type)
    return type_, ir.DenseElementsAttr.get_splat(type_, number)


def _take_from_outside(kernel: func.FuncOp, constants: Sequence[ir.Operation]) -> None:
    """Make constants of a kernel its last arguments."""
    block = kernel.entry_block
    types = [ir.RankedTensorType.get([], constant.results[0].type) for constant in constants]
    numbers = {
        constant.results[0]: block.add_argument(type_, constant.location)
        for constant, type_ in zip(constants, types, strict=True)
    }
    signature = ir.FunctionType.get([argument.type for argument in block.arguments], kernel.type.results)
    kernel.attributes["function_type"] = ir.TypeAttr.get(signature)
    for operation in [item.operation for item in block.operations if item.operation.name == "linalg.generic"]:
        _read_numbers(operation, numbers)
    for constant in constants:
        constant.erase()


def _read_numbers(operation: ir.Operation, numbers: dict[ir.Value, ir.Value]) -> None:
    """Let an elementwise loop read those of its constants that are arguments of the kernel now."""
    nest, block = loop_nest(operation, 0), operation.regions[0].blocks[0]
    used = list(dict.fromkeys(value for item in block.operations for value in item.operands if value in numbers))
    if nest is None or not used:
        return
    rank, count = len(nest.sizes), len(nest.inputs)
    maps = [*nest.maps[:count], *[projection(rank, [])] * len(used), *nest.maps[count:]]
    inputs = [*nest.inputs, *(numbers[value] for value in used)]

    def body(*elements: ir.Value) -> list[ir.Value]:
        own = [*elements[:count], *elements[len(inputs) :]]
        values = dict(zip([*block.arguments, *used], [*own, *elements[count : len(inputs)]], strict=True))
        for item in list(block.operations)[:-1]:
            clone = item.operation.clone()
            remap(clone, values)
            values.update(zip(item.results, clone.results, strict=True))
        return [values.get(value, value) for value in end_of(block).operands]

    with ir.InsertionPoint(operation), operation.location:
        replace(operation, generic(inputs, nest.outputs, maps, [PARALLEL] * rank, body))
