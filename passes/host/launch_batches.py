"""The pass that makes one launch of the calls of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from blu.dialects import plan
from blu.dialects.core.mlir import func, ir
from blu.passes.framework.base import Pass, find
from blu.passes.kernels.launch import GRID, MAPS


@dataclass(frozen=True)
class LaunchBatches(Pass):
    """The calls of a batch call a copy of their kernel that takes the arguments of all from a table, in one launch.

        call @rows_0(%x0, %out0) {blu.batch = 0}
        call @rows_0(%x1, %out1) {blu.batch = 0}

    becomes

        call @rows_0_batch(%x0, %out0) {blu.batch = 0}
        call @rows_0_batch(%x1, %out1) {blu.batch = 0}
        func.func @rows_0_batch(..) attributes {blu.batch, ..}

    The third dimension of the launch's grid counts calls: kernels that use it themselves, and those with tensor maps,
    are called one by one as before. Of a kernel that takes several launches, the first of all calls come before the
    second of any.
    """

    level = "kernel"

    def run(self, module: ir.Module) -> None:
        kernels = {item.name.value: item for item in find(module, func.FuncOp) if GRID in item.attributes}
        for batch in _batches(module):
            _write(batch, kernels)
            self.count("launches of batches", len(batch))


def _batches(module: ir.Module) -> list[list[ir.Operation]]:
    """The calls of each batch as they stand."""
    found: dict[int, list[ir.Operation]] = {}
    for call in find(module, func.CallOp):
        number = plan.batch_of(call.operation)
        if number is not None:
            found.setdefault(number, []).append(call.operation)
    return list(found.values())


def _by_kernel(calls: Sequence[ir.Operation]) -> dict[str, list[ir.Operation]]:
    """The calls of a batch in the order of their launches: every first launch of a call before any second one."""
    found: dict[str, list[ir.Operation]] = {}
    for call in sorted(calls, key=plan.launch_of):
        found.setdefault(ir.FlatSymbolRefAttr(call.attributes["callee"]).value, []).append(call)
    return found


def _write(batch: Sequence[ir.Operation], kernels: dict[str, func.FuncOp]) -> None:
    """Sort the calls of a batch by kernel, after the last of them, and let them call the kernels' copies."""
    place = ir.InsertionPoint.after(batch[-1])
    for name, calls in _by_kernel(batch).items():
        is_one_launch = len(calls) > 1 and _takes_tables(kernels[name])
        for call in calls:
            copy = call.clone(place)
            call.erase()
            if is_one_launch:
                copy.attributes["callee"] = ir.FlatSymbolRefAttr.get(_in_batches(kernels, name))
            else:
                plan.take_out_of_batch(copy)


def _takes_tables(kernel: func.FuncOp) -> bool:
    """Whether a kernel leaves the grid's third dimension free, and needs no more than pointers."""
    return ir.DenseI64ArrayAttr(kernel.attributes[GRID])[2] == 1 and MAPS not in kernel.attributes


def _in_batches(kernels: dict[str, func.FuncOp], name: str) -> str:
    """The name of the copy of a kernel that runs for many calls."""
    copied = f"{name}_batch"
    if copied not in kernels:
        copy = kernels[name].operation.clone(ir.InsertionPoint(kernels[name]))
        copy.attributes["sym_name"] = ir.StringAttr.get(copied)
        copy.attributes[plan.BATCH] = ir.UnitAttr.get()
        kernels[copied] = copy.opview
    return copied
