"""Kernels of the `gpu` dialect: in one `gpu.module`, as MLIR's readers expect them, and out of it to be lowered.

MLIR's conversions to the LLVM dialect run on a module of functions and cannot be nested in a `gpu.module`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from blu.dialects.core.mlir import func, gpu, ir
from blu.dialects.core.modules import attribute_names, end_of
from blu.passes.framework.launches import KERNELS, GridLaunch, code_of, holders_in
from blu.passes.kernels.launch import CLUSTER, GRID, MAPS, SHARED, THREADS

_OF_LAUNCHES = (GRID, THREADS, SHARED, CLUSTER, MAPS)
_OF_FUNCTIONS = ("sym_visibility",)


def grid_of_kernel(kernel: func.FuncOp) -> GridLaunch:
    """The launch that an emitter has asked for."""
    x, y, z = ir.DenseI64ArrayAttr(kernel.attributes[GRID])
    threads, shared = (ir.IntegerAttr(kernel.attributes[name]).value for name in (THREADS, SHARED))
    cluster = ir.IntegerAttr(kernel.attributes[CLUSTER]).value if CLUSTER in kernel.attributes else 1
    return GridLaunch((x, y, z), threads, shared, cluster)


def put_into_gpu_module(module: ir.Module, kernels: Sequence[func.FuncOp]) -> None:
    """Make `gpu.func`s of emitted kernels, beside all that they refer to; the module has a host function besides."""
    module.operation.attributes["gpu.container_module"] = ir.UnitAttr.get()
    others = code_of(module)
    with ir.InsertionPoint(module.body), ir.Location.unknown():
        block = gpu.GPUModuleOp(KERNELS).operation.regions[0].blocks.append()
    made = {kernel.operation for kernel in kernels}
    for operation in others:
        if operation in made:
            _to_gpu_func(operation, block)
        else:
            block.append(operation)


@contextmanager
def as_functions(module: ir.Module) -> Iterator[ir.Module]:
    """The kernels as `func.func`s of a module of their own; what becomes of them there goes back at the end."""
    alone = ir.Module.create(module.operation.location)
    for name in attribute_names(module):
        alone.operation.attributes[name] = module.operation.attributes[name]
    holders = holders_in(module.operation)
    for operation in code_of(module) if holders else ():
        _to_function(operation, alone.body)
    yield alone
    for item in list(alone.body.operations):
        if "nvvm.kernel" in item.operation.attributes:
            item.operation.attributes["gpu.kernel"] = ir.UnitAttr.get()
        holders[0].regions[0].blocks[0].append(item.operation)


def _to_gpu_func(kernel: ir.Operation, block: ir.Block) -> None:
    """Move the body of a kernel into a `gpu.func`; what its launches say is left to them."""
    attributes = {name: kernel.attributes[name] for name in kernel.attributes if name not in _OF_FUNCTIONS}
    threads = ir.IntegerAttr(attributes[THREADS]).value
    attributes["known_block_size"] = ir.DenseI32ArrayAttr.get([threads, 1, 1])
    if CLUSTER in attributes:
        blocks = ir.IntegerAttr(attributes[CLUSTER]).value
        attributes["nvvm.cluster_dim"] = ir.DenseI32ArrayAttr.get([blocks, 1, 1])
    kept = {name: item for name, item in attributes.items() if name not in _OF_LAUNCHES}
    none = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0)
    own = {"gpu.kernel": ir.UnitAttr.get(), "workgroup_attributions": none}
    with ir.InsertionPoint(block), kernel.location:
        made = ir.Operation.create("gpu.func", attributes={**kept, **own}, regions=1)
    _move_body(kernel, made, "gpu.return")


def _to_function(operation: ir.Operation, block: ir.Block) -> None:
    """Move a `gpu.func` out, or what it refers to."""
    with ir.InsertionPoint(block), operation.location:
        if operation.name != "gpu.func":
            block.append(operation)
            return
        name = ir.StringAttr(operation.attributes["sym_name"]).value
        function = func.FuncOp(name, ir.TypeAttr(operation.attributes["function_type"]).value)
    for item in operation.attributes:
        if item.startswith(("blu.", "nvvm.")):
            function.attributes[item] = operation.attributes[item]
    threads, *_ = ir.DenseI32ArrayAttr(operation.attributes["known_block_size"])
    function.attributes[THREADS] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), threads)
    _move_body(operation, function.operation, "func.return")


def _move_body(source: ir.Operation, target: ir.Operation, terminator: str) -> None:
    source.regions[0].blocks[0].append_to(target.regions[0])
    last = end_of(target.regions[0].blocks[0])
    with ir.InsertionPoint(last), last.location:
        ir.Operation.create(terminator)
    last.erase()
    source.erase()
