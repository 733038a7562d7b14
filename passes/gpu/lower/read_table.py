"""Kernels that run for many calls at once: where each block finds the arguments of its call."""

from __future__ import annotations

from blu.dialects.core.mlir import ir, llvm, nvvm

_POINTER_BYTES = 8
# Stands for an index that is a value, in the list of a getelementptr's indices.
_DYNAMIC = -(2**31)


def read_arguments_from_table(kernel: ir.Operation) -> None:
    """Let a kernel at level "llvm" take the address of a table in place of its pointers.

        llvm.func @rows_0_batch(%x: !llvm.ptr, %out: !llvm.ptr)

    becomes

        llvm.func @rows_0_batch(%table: !llvm.ptr) { %call = nvvm.read.ptx.sreg.ctaid.z  ..  %x = llvm.load .. }

    The table holds the arguments of the first call, then those of the second. It is read as what never changes while
    the kernel runs; indexing it costs no local memory, as indexing parameters would.
    """
    block = kernel.regions[0].blocks[0]
    pointers = list(block.arguments)
    generic, in_memory = ir.Type.parse("!llvm.ptr"), ir.Type.parse("!llvm.ptr<1>")
    table = block.add_argument(generic, kernel.location)
    with ir.InsertionPoint.at_block_begin(block), kernel.location:
        row = ir.Type.parse(f"!llvm.array<{len(pointers)} x i64>")
        call = llvm.zext(ir.IntegerType.get_signless(64), nvvm.read_ptx_sreg_ctaid_z())
        for number, pointer in enumerate(pointers):
            slot = llvm.getelementptr(generic, table, [call], [_DYNAMIC, number], row, None)
            loaded = llvm.load(in_memory, slot, alignment=_POINTER_BYTES, invariant=True)
            pointer.replace_all_uses_with(llvm.addrspacecast(generic, loaded))
    for _ in pointers:
        block.erase_argument(0)
    kernel.attributes["function_type"] = ir.TypeAttr.get(ir.Type.parse("!llvm.func<void (ptr)>"))
    if "arg_attrs" in kernel.attributes:
        del kernel.attributes["arg_attrs"]
