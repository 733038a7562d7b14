"""The pass that makes one launch of the calls of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from blu.dataclass import dataclass
from blu.dialects import plan
from blu.dialects.core.mlir import ir
from blu.passes.framework.base import Pass, find
from blu.passes.framework.launches import (
    ON_GPUS,
    LaunchWriter,
    arguments_of,
    grid_of,
    host_functions,
    kernel_of,
    launched_in,
)


@dataclass(frozen=True)
class LaunchBatches(Pass):
    """The calls of a batch become one launch of a copy of their kernel, whose blocks find the arguments of their call.

        gpu.launch_func @kernels::@rows_0 blocks in (%c12, %c1, %c1) .. args(%x0, %out0) {blu.batch = 0}
        gpu.launch_func @kernels::@rows_0 blocks in (%c12, %c1, %c1) .. args(%x1, %out1) {blu.batch = 0}

    becomes

        %x, %out = plan.each(%x0, %x1), plan.each(%out0, %out1)
        gpu.launch_func @kernels::@rows_0_batch blocks in (%c12, %c1, %c2) .. args(%x, %out)
        gpu.func @rows_0_batch(..) kernel attributes {blu.batch, ..}

    The third dimension of the launch's grid counts calls: kernels that use it themselves, and those with tensor maps,
    are launched one by one as before. Of a kernel that takes several launches, the first of all calls come before the
    second of any.
    """

    level = "kernel"

    def run(self, module: ir.Module) -> None:
        functions = [item.operation for item in find(module, "gpu.func")]
        kernels = {ir.StringAttr(item.attributes["sym_name"]).value: item for item in functions}
        for function in host_functions(module):
            writer = LaunchWriter(function)
            for batch in _batches(function.operation):
                _write(batch, kernels, writer)
                self.count("launches of batches", len(batch))
        launched = launched_in(module, kernels)
        for name, kernel in kernels.items():
            if name not in launched:
                kernel.erase()


def _batches(function: ir.Operation) -> list[list[ir.Operation]]:
    """The launches of each batch as they stand."""
    found: dict[int, list[ir.Operation]] = {}
    for launch in find(function, ON_GPUS):
        number = plan.batch_of(launch.operation)
        if number is not None:
            found.setdefault(number, []).append(launch.operation)
    return list(found.values())


def _by_kernel(launches: Sequence[ir.Operation]) -> dict[str, list[ir.Operation]]:
    """The launches of a batch by kernel, in order: every first launch of a call before any second one."""
    found: dict[str, list[ir.Operation]] = {}
    for launch in sorted(launches, key=plan.launch_of):
        found.setdefault(kernel_of(launch), []).append(launch)
    return found


def _write(batch: Sequence[ir.Operation], kernels: dict[str, ir.Operation], writer: LaunchWriter) -> None:
    """Sort the launches of a batch by kernel, after the last of them, and make one of those that may be one."""
    place = ir.InsertionPoint.after(batch[-1])
    for name, launches in _by_kernel(batch).items():
        if len(launches) > 1 and _takes_tables(launches[0]):
            with place, launches[0].location:
                _launch_together(launches, _in_batches(kernels, name), writer)
        else:
            for launch in launches:
                plan.take_out_of_batch(launch.clone(place))
        for launch in launches:
            launch.erase()


def _takes_tables(launch: ir.Operation) -> bool:
    """Whether a launch leaves the grid's third dimension free, and needs no more than pointers."""
    owners = [value.owner for value in arguments_of(launch)]
    needs_maps = any(not isinstance(owner, ir.Block) and owner.name == "plan.tensor_map" for owner in owners)
    return grid_of(launch).blocks[2] == 1 and not needs_maps


def _launch_together(launches: Sequence[ir.Operation], kernel: str, writer: LaunchWriter) -> None:
    """Emit one launch in the place of several."""
    grid = grid_of(launches[0])
    together = replace(grid, blocks=(*grid.blocks[:2], len(launches)))
    passed = zip(*map(arguments_of, launches), strict=True)
    writer.on_gpu(kernel, together, [plan.each(arguments) for arguments in passed])


def _in_batches(kernels: dict[str, ir.Operation], name: str) -> str:
    """The name of the copy of a kernel that runs for many calls."""
    copied = f"{name}_batch"
    if copied not in kernels:
        copy = kernels[name].clone(ir.InsertionPoint(kernels[name]))
        copy.attributes["sym_name"] = ir.StringAttr.get(copied)
        copy.attributes[plan.BATCH] = ir.UnitAttr.get()
        kernels[copied] = copy
    return copied
