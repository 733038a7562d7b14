"""The pass that turns around a factor of a tf32 product, where both lie as warpgroups cannot take them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from blu.dialects.core.mlir import func, ir
from blu.dialects.targets.nvidia import GpuTarget
from blu.errors import ParseError
from blu.passes.framework.base import Pass, find
from blu.passes.framework.families import GEMM, ROWS, SCHEDULE, family_of, mark
from blu.passes.framework.kernels import kernels_in
from blu.passes.gpu.gemm import split as gemm_split
from blu.passes.gpu.gemm.choice import ProductSizes, takes_warpgroups, warpgroup_split
from blu.passes.gpu.gemm.rows import MOST_ROWS
from blu.passes.gpu.gemm.schedule import ProductSchedule, WgmmaSchedule, schedule_of
from blu.passes.kernels.contraction import Contraction, maps_of
from blu.passes.kernels.schedules import said_of
from blu.passes.loops.lower_to_linalg.generic import PARALLEL, empty, generic, projection, transpose

_COPIED_BYTES, _LAUNCH = 3.2e6, 3.0
_PRODUCTS = (2.0e8, 1.55e8, 0.85e8)
"""Bytes a microsecond that copies read and write, and microseconds that a launch takes; multiply-adds a microsecond by
how many factors lie across: as warpgroups read them, with one of them in registers, and by single warps."""
_Decided = ProductSchedule | WgmmaSchedule
_CHOICES = {"none": (), "left": ("left",), "right": ("right",), "both": ("left", "right")}
_SWAP = [1, 0]


@dataclass(frozen=True)
class CopyFactors(Pass):
    """Of a product x^T y of tf32, the narrower factor is copied so that neighbours along k lie side by side.

        %0 = linalg.transpose %x : tensor<65536x768xf32> -> tensor<768x65536xf32>
        %1 = call @gemm_0(%0, %y) : (tensor<768x65536xf32>, tensor<65536x3072xf32>) -> tensor<768x3072xf32>

    becomes

        %1 = call @gemm_0_left(%0) : (tensor<768x65536xf32>) -> tensor<768x65536xf32>
        %2 = call @gemm_0(%1, %y)

    since warpgroups take one factor of tf32 that lies the other way (register_factor.py), but not two. The copy is read
    and written once, at the speed of memory; products by single warps take twice as long. One that could go through
    registers is copied, too, where that takes less time. Which factors are copied is `copied` in the kernel's schedule:
    "left", "right", "both" or "none". Where it is "undecided", this pass decides.
    """

    level = "linalg"

    def run(self, module: ir.Module) -> None:
        kernels, target = kernels_in(module), GpuTarget.of(module)
        for call in list(find(module, func.CallOp)):
            kernel = kernels[ir.FlatSymbolRefAttr(call.attributes["callee"]).value]
            schedule = schedule_of(kernel) if family_of(kernel) == GEMM else None
            if not isinstance(schedule, ProductSchedule | WgmmaSchedule):
                continue
            copied = _CHOICES[_decide(call, kernel, schedule, target)]
            if copied:
                names = _across(call, gemm_split.contraction_of(kernel))
                kernel.attributes[SCHEDULE] = _after(kernel, schedule, names, copied, target).to_attribute()
            for name in copied:
                _copy(module, call, kernel, name)
                self.count("factors")


def _decide(call: func.CallOp, kernel: func.FuncOp, schedule: _Decided, target: GpuTarget) -> str:
    """Which factors are to be copied. PassError where that is given and there is nothing to copy."""
    contraction = gemm_split.contraction_of(kernel)
    names = _across(call, contraction)
    possible = [name for name, copied in _CHOICES.items() if {*copied} <= {*names}]
    if schedule.copied != "undecided":
        if schedule.copied not in possible:
            advice = f"What can be copied of this product: {', '.join(possible)}."
            with said_of(kernel):
                message = f"copied = '{schedule.copied}': a factor is copied where its neighbours do not lie along k"
                raise ParseError(message, advice=advice)
        return schedule.copied
    sizes = ProductSizes.of(contraction, schedule.instruction)
    if schedule.instruction != "tf32" or not takes_warpgroups(sizes, target):
        return "none"
    return min(possible, key=lambda name: _microseconds(sizes, len(names), _CHOICES[name]))


def _microseconds(sizes: ProductSizes, across: int, copied: Sequence[str]) -> float:
    """What a product takes of whose factors `across` lie so, where some are copied before."""
    widths = {"left": sizes.rows, "right": sizes.columns}
    moved = sum(2 * 4 * widths[name] * sizes.depth for name in copied)
    products = sizes.rows * sizes.columns * sizes.depth / _PRODUCTS[across - len(copied)]
    return products + moved / _COPIED_BYTES + len(copied) * _LAUNCH


def _after(
    kernel: func.FuncOp, schedule: _Decided, names: Sequence[str], copied: Sequence[str], target: GpuTarget
) -> _Decided:
    """The schedule of a kernel that gets copies; where k was split as was chosen, by the tiles that it has then."""
    sizes = ProductSizes.of(gemm_split.contraction_of(kernel), schedule.instruction)
    name = next(name for name, choice in _CHOICES.items() if choice == copied)
    (left,) = [item for item in names if item not in copied] or ["none"]
    is_chosen = schedule.split == warpgroup_split(sizes, target) and sizes.rows > MOST_ROWS
    split = warpgroup_split(sizes, target, left) if is_chosen else schedule.split
    return replace(schedule, copied=name, split=split)


def _across(call: func.CallOp, contraction: Contraction) -> list[str]:
    """The factors that are matrices whose neighbours in memory do not lie along k, as far as can be seen here."""
    if contraction.outer or contraction.outer_depth:
        return []
    maps, arguments = maps_of(contraction.operation), list(contraction.operation.operands)[:2]
    found = []
    for name, value, dims in zip(("left", "right"), arguments, maps, strict=False):
        if not isinstance(value.owner, ir.Block) or len(dims) != 2:
            continue
        given = call.operands_[ir.BlockArgument(value).arg_number]
        if dims[0 if _is_transposed(given) else 1] != contraction.depth:
            found.append(name)
    return found


def _is_transposed(value: ir.Value) -> bool:
    """Whether a matrix is a transposed view of one whose rows lie in memory."""
    is_transposed = False
    while not isinstance(value.owner, ir.Block):
        view = value.owner.operation
        if view.name not in ("linalg.transpose", "tensor.extract_slice", "blu.barrier"):
            break
        is_transposed ^= view.name == "linalg.transpose"
        value = view.operands[ir.OpResult(value).result_number]
    return is_transposed


def _copy(module: ir.Module, call: func.CallOp, kernel: func.FuncOp, name: str) -> None:
    """Give the kernel a copy of a factor, in which neighbours along k lie side by side."""
    contraction = gemm_split.contraction_of(kernel)
    place = ("left", "right").index(name)
    value = contraction.operation.operands[place]
    number = ir.BlockArgument(value).arg_number
    is_deep = maps_of(contraction.operation)[place][1] == contraction.depth
    with ir.InsertionPoint(call), call.location:
        given = call.operands_[number]
        source = given if is_deep else transpose(given, _SWAP)
        copier = _copy_kernel(module, f"{kernel.name.value}_{name}", ir.RankedTensorType(source.type))
        copy = func.CallOp([source.type], copier, [source]).results[0]
        call.operation.operands[number] = copy if is_deep else transpose(copy, _SWAP)


def _copy_kernel(module: ir.Module, name: str, type_: ir.RankedTensorType) -> str:
    """A kernel that gives what it is given."""
    with ir.InsertionPoint(module.body):
        kernel = func.FuncOp(name, ([type_], [type_]), visibility="private")
        mark(kernel, ROWS)
        block = kernel.add_entry_block([ir.Location.current])
    with ir.InsertionPoint(block):
        target = empty(type_.shape, type_.element_type)
        maps = [projection(2, [0, 1])] * 2
        (copy,) = generic(list(block.arguments), [target], maps, [PARALLEL] * 2, lambda given, before: given)
        func.ReturnOp([copy])
    return name
