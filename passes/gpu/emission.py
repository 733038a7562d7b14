"""Kernels of a module written by their emitters: one after the other, or side by side by other processes.

What an emitter writes depends on its kernel and the target, and on nothing else of the module. So a kernel may travel
to another process, in a module of its own, and its code comes back.
"""

from __future__ import annotations

import io
from collections.abc import Mapping

from blu.dialects.core.context import kept_context
from blu.dialects.core.mlir import func, ir
from blu.dialects.core.remembering import remembering
from blu.dialects.targets.nvidia import ATTRIBUTE, GpuTarget
from blu.errors import BluError
from blu.passes.framework.families import family_of
from blu.passes.framework.kernels import kernels_in
from blu.passes.framework.others import others
from blu.passes.gpu.families import EMITTERS
from blu.passes.gpu.shared import declare_array

Launches = list[func.FuncOp]
LAUNCHES = "blu.launches"
"""Of a module that comes back: the names of what the kernel has become, in the order of launches."""


def emit_kernels(kernels: Mapping[str, func.FuncOp], target: GpuTarget) -> dict[str, Launches]:
    """What kernels of one module become, in their places."""
    ask = others()
    if ask is not None and kernels:
        try:
            found = ask([_alone(kernel, target) for kernel in kernels.values()])
        except BluError:
            pass  # what is wrong is said below, as if nobody had been asked
        else:
            return {name: _taken(kernels[name], code) for name, code in zip(kernels, found, strict=True)}
    return {name: _emit(kernel, target) for name, kernel in kernels.items()}


def emit_alone(given: bytes) -> bytes:
    """What a kernel becomes that is given in a module of its own; as bytecode, both."""
    with kept_context(), ir.Location.unknown(), remembering():
        module = ir.Module.parse(given)
        (kernel,) = kernels_in(module).values()
        names = [launched.name.value for launched in _emit(kernel, GpuTarget.of(module))]
        module.operation.attributes[LAUNCHES] = ir.ArrayAttr.get(list(map(ir.StringAttr.get, names)))
        return _bytecode(module)


def _emit(kernel: func.FuncOp, target: GpuTarget) -> Launches:
    return EMITTERS[family_of(kernel).name].emit(kernel, target)


def _alone(kernel: func.FuncOp, target: GpuTarget) -> bytes:
    """A module of nothing but a kernel, for a target."""
    alone = ir.Module.create(ir.Location.unknown())
    alone.operation.attributes[ATTRIBUTE] = target.to_attribute()
    kernel.operation.clone(ir.InsertionPoint(alone.body))
    return _bytecode(alone)


def _taken(kernel: func.FuncOp, code: bytes) -> Launches:
    """Put what a kernel has become elsewhere in its place."""
    module = ir.Module.parse(code)
    named: dict[str, func.FuncOp] = {}
    for item in list(module.body.operations):
        if isinstance(item, func.FuncOp):
            item.operation.move_before(kernel.operation)
            named[item.name.value] = item
        else:
            declare_array(kernel)  # all that emitters declare
    kernel.operation.erase()
    return [named[ir.StringAttr(name).value] for name in ir.ArrayAttr(module.operation.attributes[LAUNCHES])]


def _bytecode(module: ir.Module) -> bytes:
    written = io.BytesIO()
    module.operation.write_bytecode(written)
    return written.getvalue()
