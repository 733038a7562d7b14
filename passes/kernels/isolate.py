"""A program of one kernel alone, whose arguments lie as they do where the kernel is called.

Before schedules are chosen, kernels take tensors, and the host program passes them views of others:

    %t = linalg.transpose ins(%w) outs(%e) permutation = [1, 0]
    %1 = call @gemm_3(%x, %t)        ->      func.func @main(%x, %w) { %t = .. ; call @kernel(%x, %t) }

so that strides, once there is memory, are the same. Two kernels of which this text is equal are the same problem.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator

from blu.dialects.core.mlir import func, ir
from blu.dialects.core.modules import attribute_names, code_text
from blu.dialects.targets.description import ATTRIBUTE
from blu.passes.framework.base import find
from blu.passes.framework.kernels import TUNED, WISHES, kernels_in

KERNEL, MAIN = "kernel", "main"
VIEWS = frozenset(
    {
        *("tensor.collapse_shape", "tensor.expand_shape", "tensor.extract_slice", "tensor.cast", "tensor.empty"),
        *("linalg.transpose", "blu.barrier"),
    }
)
"""Ops of the host program that move nothing, or nothing that a kernel would notice."""


def isolated(module: ir.Module, names: Collection[str]) -> Iterator[tuple[str, ir.Module]]:
    """The programs of kernels by their names, each as it is called first, which is called "kernel" in its own.

    They have the module's attributes but for what these say of schedules.
    """
    kernels, calls = kernels_in(module), dict[str, func.CallOp]()
    for call in find(module, func.CallOp):
        calls.setdefault(call.callee.value, call)
    for name in names:
        yield name, _alone(module, kernels[name], calls[name])


def _alone(module: ir.Module, kernel: func.FuncOp, call: func.CallOp) -> ir.Module:
    alone = ir.Module.create(kernel.operation.location)
    for attribute in attribute_names(module):
        if attribute not in (WISHES, TUNED):
            alone.operation.attributes[attribute] = module.operation.attributes[attribute]
    with ir.InsertionPoint(alone.body), call.operation.location:
        copy = kernel.operation.clone()
        copy.attributes["sym_name"] = ir.StringAttr.get(KERNEL)
        _write_main(call)
    return alone


def problem_of(alone: ir.Module) -> str:
    """What a kernel is asked to do, on which target and on operands that lie how, as a hash of its program's text."""
    texts = [str(alone.operation.attributes[ATTRIBUTE]), *(code_text(item) for item in alone.body)]
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:24]


def _write_main(call: func.CallOp) -> None:
    users = (*_views_of(call), call.operation, *(view for result in call.results for view in _views_after(result)))
    made = {value for user in users for value in user.results}
    read = dict.fromkeys(value for user in users for value in user.operands)
    leaves = [value for value in read if value not in made]
    ends = [value for user in users for value in user.results if value not in read and _is_computed(user)]
    main = func.FuncOp(MAIN, ([value.type for value in leaves], [value.type for value in ends]))
    for attribute, shown in (("blu.inputs", leaves), ("blu.results", ends)):
        main.attributes[attribute] = ir.ArrayAttr.get([ir.TypeAttr.get(value.type) for value in shown])
    block = main.add_entry_block()
    values = dict(zip(leaves, block.arguments, strict=True))
    with ir.InsertionPoint(block):
        for user in users:
            copy = user.clone()
            for index, operand in enumerate(user.operands):
                copy.operands[index] = values[operand]
            values |= zip(user.results, copy.results, strict=True)
            if user == call.operation:
                copy.attributes["callee"] = ir.FlatSymbolRefAttr.get(KERNEL)
        func.ReturnOp([values[value] for value in ends])


def _is_computed(operation: ir.Operation) -> bool:
    return operation.name != "tensor.empty"


def _views_of(call: func.CallOp) -> Iterator[ir.Operation]:
    """The views that its operands are, those that are read before those that read them."""
    found: dict[ir.Operation, None] = {}

    def visit(value: ir.Value) -> None:
        owner = value.owner
        if isinstance(owner, ir.Block) or owner.operation.name not in VIEWS or owner.operation in found:
            return
        for operand in owner.operation.operands:
            visit(operand)
        found[owner.operation] = None

    for operand in call.operation.operands:
        visit(operand)
    yield from found


def _views_after(result: ir.Value) -> Iterator[ir.Operation]:
    """The views as which alone a result is read, with what they are written into: its strides are theirs."""
    while len(uses := list(result.uses)) == 1 and (view := uses[0].owner.operation).name in VIEWS:
        for operand in view.operands:
            if operand != result and not isinstance(operand.owner, ir.Block):
                yield operand.owner.operation
        yield view
        result = view.results[0]
