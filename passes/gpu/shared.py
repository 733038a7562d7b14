"""The shared memory of a block: one array of bytes per kernel, cut into ranges before the kernel is launched.

    shared = SharedMemory()
    tiles, sums = shared.take(3 * 16384, alignment=1024), shared.take(512)
    with frame.launch(grid, threads, shared.bytes) as here:
        base = shared_address(frame)  # i32; a range begins at base + tiles

The size is given at launch, so a kernel may use all that the GPU has (GpuTarget.shared_bytes), and ranges that are not
used at the same time may be one.
"""

from __future__ import annotations

from blu.dataclass import dataclass
from blu.dialects.core.mlir import func, ir, llvm
from blu.passes.gpu.kernel import GpuKernel

SYMBOL = "blu_shared"
ALIGNMENT = 1024
"""Of the array, in bytes: what Hopper's swizzled tiles need."""


@dataclass
class SharedMemory:
    """Hands out ranges of the array; `bytes` is what has been handed out so far, with the gaps between them."""

    bytes: int = 0

    def take(self, size: int, alignment: int = 16) -> int:
        """The offset in bytes of `size` more bytes."""
        assert ALIGNMENT % alignment == 0, f"shared memory is aligned to {ALIGNMENT} bytes, not to {alignment}"
        offset = -(-self.bytes // alignment) * alignment
        self.bytes = offset + size
        return offset


def shared_pointer(frame: GpuKernel) -> ir.Value:
    """The array's beginning, an !llvm.ptr<3>, at the current insertion point."""
    declare_array(frame.replacement)
    return llvm.mlir_addressof(_pointer(), SYMBOL)


def shared_address(frame: GpuKernel) -> ir.Value:
    """The same as the i32 that PTX instructions for shared memory take."""
    return llvm.ptrtoint(ir.IntegerType.get_signless(32), shared_pointer(frame))


def _pointer() -> ir.Type:
    return ir.Type.parse("!llvm.ptr<3>")


def declare_array(kernel: func.FuncOp) -> None:
    """Declare the array in a kernel's module, once: external and without a size, since the launch decides it."""
    module = kernel.operation.parent
    body = module.regions[0].blocks[0]
    arrays = [item for item in body.operations if isinstance(item, llvm.GlobalOp)]
    if any(ir.StringAttr(item.attributes["sym_name"]).value == SYMBOL for item in arrays):
        return
    with ir.InsertionPoint.at_block_begin(body), ir.Location.unknown():
        llvm.GlobalOp(
            ir.Type.parse("!llvm.array<0 x i8>"),
            SYMBOL,
            ir.Attribute.parse("#llvm.linkage<external>"),
            addr_space=3,
            alignment=ALIGNMENT,
        )
