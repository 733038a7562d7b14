"""The pass that turns around a factor of a tf32 product, where both lie as warpgroups cannot take them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
        products = {name: kernel for name, kernel in kernels.items() if _schedule_of(kernel) is not None}
        for name, calls in _calls_of(module, products).items():
            for kernel, (names, alike) in _apart(products[name], calls):
                schedule = _schedule_of(kernel)
                assert schedule is not None
                copied = _CHOICES[_decide(kernel, names, schedule, target)]
                if copied:
                    kernel.attributes[SCHEDULE] = _after(kernel, schedule, names, copied, target).to_attribute()
                for factor in copied:
                    _copy(module, alike, kernel, factor)
                    self.count("factors", len(alike))


def _schedule_of(kernel: func.FuncOp) -> _Decided | None:
    """The schedule of a product by tensor cores."""
    schedule = schedule_of(kernel) if family_of(kernel) == GEMM else None
    return schedule if isinstance(schedule, _Decided) else None


def _calls_of(module: ir.Module, kernels: Mapping[str, func.FuncOp]) -> dict[str, list[func.CallOp]]:
    """The calls of each kernel."""
    calls: dict[str, list[func.CallOp]] = {name: [] for name in kernels}
    for call in find(module, func.CallOp) if kernels else ():
        name = ir.FlatSymbolRefAttr(call.attributes["callee"]).value
        if name in calls:
            calls[name].append(call)
    return calls


def _apart(
    kernel: func.FuncOp, calls: Sequence[func.CallOp]
) -> list[tuple[func.FuncOp, tuple[Sequence[str], list[func.CallOp]]]]:
    """A kernel for each way in which factors lie in its calls: which lie across, and those calls."""
    contraction = gemm_split.contraction_of(kernel)
    groups: dict[tuple[str, ...], list[func.CallOp]] = {}
    for call in calls:
        groups.setdefault(tuple(_across(call, contraction)), []).append(call)
    found = []
    for number, (names, alike) in enumerate(groups.items()):
        own = kernel
        if number:
            clone = kernel.operation.clone(ir.InsertionPoint.after(kernel.operation))
            clone.attributes["sym_name"] = ir.StringAttr.get(f"{kernel.name.value}_{'_'.join(('across', *names))}")
            own = clone.opview
            for call in alike:
                call.attributes["callee"] = ir.FlatSymbolRefAttr.get(own.name.value)
        found.append((own, (names, alike)))
    return found


def _decide(kernel: func.FuncOp, names: Sequence[str], schedule: _Decided, target: GpuTarget) -> str:
    """Which factors are to be copied, of those that lie across. PassError where that is given and none does."""
    possible = [name for name, copied in _CHOICES.items() if {*copied} <= {*names}]
    if schedule.copied != "undecided":
        if schedule.copied not in possible:
            advice = f"What can be copied of this product: {', '.join(possible)}."
            with said_of(kernel):
                message = f"copied = '{schedule.copied}': a factor is copied where its neighbours do not lie along k"
                raise ParseError(message, advice=advice)
        return schedule.copied
    sizes = ProductSizes.of(gemm_split.contraction_of(kernel), schedule.instruction)
    # The copy engine takes rows that begin at multiples of 16 bytes.
    if schedule.instruction != "tf32" or not takes_warpgroups(sizes, target) or sizes.depth % 4:
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


def _copy(module: ir.Module, calls: Sequence[func.CallOp], kernel: func.FuncOp, name: str) -> None:
    """Give calls of a kernel a copy of a factor, in which neighbours along k lie side by side."""
    contraction = gemm_split.contraction_of(kernel)
    place = ("left", "right").index(name)
    number = ir.BlockArgument(contraction.operation.operands[place]).arg_number
    is_deep = maps_of(contraction.operation)[place][1] == contraction.depth
    copier = ""
    for call in calls:
        with ir.InsertionPoint(call), call.location:
            given = call.operands_[number]
            source = given if is_deep else transpose(given, _SWAP)
            copier = copier or _copy_kernel(module, f"{kernel.name.value}_{name}", ir.RankedTensorType(source.type))
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
