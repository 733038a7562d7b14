"""The pass that copies factors of products, where these do not lie as warpgroups take them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress

from blu.dataclass import dataclass
from blu.dialects.core.mlir import func, ir
from blu.dialects.targets.nvidia import GpuTarget
from blu.passes.framework.base import Pass, find
from blu.passes.framework.families import GEMM, SCHEDULE, family_of
from blu.passes.framework.kernels import calls_of, kernels_in
from blu.passes.gpu.gemm import split as gemm_split
from blu.passes.gpu.gemm.few_rows.prologue import makes_rows
from blu.passes.gpu.gemm.schedule import schedule_of
from blu.passes.gpu.lower.factors.choice import (
    CHOICES,
    DEEP,
    Decided,
    Lie,
    decide,
    lie_of,
    schedule_after,
    schedule_by_warps,
)
from blu.passes.gpu.lower.factors.copies import Copier, Wish, parts_of
from blu.passes.gpu.lower.factors.turn_rows import RowTurner


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
    registers is copied, too, where that takes less time.

    The copy engine takes rows that begin at multiples of 16 bytes. Of others, of all types, copies have longer rows:

        %1 = tensor.insert_slice %x into %0 : tensor<4097x1025xbf16> into tensor<4097x1032xbf16>
        %2 = tensor.extract_slice %1 : tensor<4097x1032xbf16> to tensor<4097x1025xbf16>

    A kernel of rows that adds up columns, too, leaves its rows turned around itself (turn_rows.py).

    Which factors are copied is `copied` in the kernel's schedule: "left", "right", "both" or "none". Where it is
    "undecided", this pass decides.
    """

    level = "linalg"

    def run(self, module: ir.Module) -> None:
        kernels, target = kernels_in(module), GpuTarget.of(module)
        turner = RowTurner(module, kernels)
        products = {name: kernel for name, kernel in kernels.items() if _schedule_of(kernel) is not None}
        wanted: list[Wish] = []
        for name, calls in calls_of(module, products).items():
            for kernel, (lie, alike) in _apart(products[name], calls, turner):
                schedule = _schedule_of(kernel)
                assert schedule is not None
                copied = CHOICES[decide(kernel, lie, schedule, target)]
                if copied:
                    kernel.attributes[SCHEDULE] = schedule_after(kernel, schedule, lie, copied, target).to_attribute()
                elif lie.unaligned:
                    kernel.attributes[SCHEDULE] = schedule_by_warps(kernel, schedule, target).to_attribute()
                for factor in copied:
                    is_turned = factor in lie.across and schedule.instruction in DEEP
                    name, number = f"{kernel.name.value}_{factor}", _number_of(kernel, factor)
                    wanted += [Wish(call, number, is_turned, name) for call in alike]
        order = {call.results[0]: place for place, call in enumerate(find(module, func.CallOp) if wanted else ())}
        wanted.sort(key=lambda wish: order[wish.call.results[0]])  # copies come before all who share them
        made = [wish.is_turned and turner.maker(wish.given, wish.call.operation) is not None for wish in wanted]
        turner.turn((wish.call.operation, wish.number) for wish in compress(wanted, made))
        left = [wish for wish, is_made in zip(wanted, made, strict=True) if not is_made]
        copier = Copier(module, parts_of([wish.given for wish in left]))
        for wish in left:
            copier.copy(wish)
        self.count("factors", len(left))
        self.count("factors turned around where they are made", len(wanted) - len(left))


def _schedule_of(kernel: func.FuncOp) -> Decided | None:
    """The schedule of a product by tensor cores."""
    schedule = schedule_of(kernel) if family_of(kernel) == GEMM and not makes_rows(kernel) else None
    return schedule if isinstance(schedule, Decided) else None


def _apart(
    kernel: func.FuncOp, calls: Sequence[func.CallOp], turner: RowTurner
) -> list[tuple[func.FuncOp, tuple[Lie, list[func.CallOp]]]]:
    """A kernel for each way in which factors lie in its calls: how they do, and those calls."""
    contraction = gemm_split.contraction_of(kernel)
    groups: dict[Lie, list[func.CallOp]] = {}
    for call in calls:
        groups.setdefault(lie_of(call, contraction, turner), []).append(call)
    found = []
    for number, (lie, alike) in enumerate(groups.items()):
        own = kernel
        if number:
            clone = kernel.operation.clone(ir.InsertionPoint.after(kernel.operation))
            clone.attributes["sym_name"] = ir.StringAttr.get(f"{kernel.name.value}_across_{number}")
            own = clone.opview
            for call in alike:
                call.attributes["callee"] = ir.FlatSymbolRefAttr.get(own.name.value)
        found.append((own, (lie, alike)))
    return found


def _number_of(kernel: func.FuncOp, factor: str) -> int:
    """Which of a kernel's arguments a factor is."""
    operation = gemm_split.contraction_of(kernel).operation
    return ir.BlockArgument(operation.operands[("left", "right").index(factor)]).arg_number
