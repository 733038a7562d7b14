"""Which functions of a module are kernels, and which ops have kernels of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from blu.dialects.core.mlir import func, ir
from blu.dialects.core.modules import code_text
from blu.dialects.core.op import OPS
from blu.dialects.plan import LOOP
from blu.passes.framework.base import find
from blu.passes.framework.families import is_kernel
from blu.plan.routines import ROUTINES

UNSIGNED = "blu.unsigned"
"""Of a collective from level linalg on, where types of integers say nothing of signs: they are unsigned."""
TUNED = "blu.tuned"
"""Of a module: schedules by problems (passes/kernels/isolate.py) for which they were found to be faster."""
WISHES = "blu.schedules"
"""Of a module: fields of schedules by the names of kernels, for blu-choose-schedules: {gemm_0 = {split = 4 : i64}}."""


def kernels_in(module: ir.Module) -> dict[str, func.FuncOp]:
    """The kernels of a module, by name."""
    return {item.name.value: item for item in find(module, func.FuncOp) if is_kernel(item)}


def wished_in(module: ir.Module) -> set[str]:
    """The names of kernels for whose schedules somebody has wishes: they stay apart, under these names."""
    wishes = module.operation.attributes.get(WISHES, None)
    # Those of another form are refused where schedules are chosen.
    return {item.name for item in wishes} if isinstance(wishes, ir.DictAttr) else set()


def callee_of(call: func.CallOp | ir.Operation) -> str:
    """The name of the function that is called."""
    return ir.FlatSymbolRefAttr(call.attributes["callee"]).value


def calls_of(module: ir.Module, kernels: Iterable[str]) -> dict[str, list[func.CallOp]]:
    """The calls of each of some kernels, by their names, in the order of the text."""
    calls: dict[str, list[func.CallOp]] = {name: [] for name in kernels}
    for call in find(module, func.CallOp) if calls else ():
        if (name := callee_of(call)) in calls:
            calls[name].append(call)
    return calls


def erase_uncalled(module: ir.Module, kernels: Mapping[str, func.FuncOp]) -> None:
    """Erase those of some kernels that nobody calls any more."""
    for name, calls in calls_of(module, kernels).items():
        if not calls:
            kernels[name].operation.erase()


def call_in_place_of(
    results: Sequence[ir.Value], name: str, operands: Sequence[ir.Value], before: func.CallOp, location: ir.Location
) -> None:
    """Call a kernel before another call; what read these results reads the kernel's, which are as many."""
    with ir.InsertionPoint(before), location:
        call = func.CallOp([result.type for result in results], name, operands)
    for old, new in zip(results, call.results, strict=True):
        old.replace_all_uses_with(new)


def text_of(kernel: func.FuncOp) -> str:
    """The text of a kernel without its name and the user's lines: equal for kernels that are equal."""
    return code_text(kernel).replace(f"@{kernel.name.value}(", "@kernel(", 1)


def is_host_step(operation: str) -> bool:
    """Whether an op, by its name in IR, is done by the host program as it is."""
    dialect, _, name = operation.partition(".")
    return operation == LOOP or (dialect == "blu" and name in OPS and OPS[name].host_step)


def is_collective(operation: str) -> bool:
    """Whether an op, by its name in IR, is what ranks do together."""
    return operation != LOOP and is_host_step(operation) and not is_routine(operation)


def is_routine(operation: str) -> bool:
    """Whether an op, by its name in IR, is one of `blu.plan.routines`, which the host computes."""
    return operation.partition(".")[2] in ROUTINES


def has_own_kernel(operation: str) -> bool:
    """Whether an op, by its name in IR, is taken by kernels as it is."""
    dialect, _, name = operation.partition(".")
    return dialect == "blu" and name in OPS and OPS[name].kernel
