"""Hopper's asynchronous copies of tiles, and the barriers in shared memory that tell when they have arrived.

A barrier has a phase, 0 or 1, that flips when all arrivals that it waits for have come and, for copies, all bytes that
were announced. `wait` returns once the phase given is over; waiting for phase 1 of a fresh barrier returns at once.

Source: PTX ISA, "mbarrier", "cp.async.bulk.tensor".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from blu.dialects.core.mlir import arith, ir, llvm, memref, nvvm
from blu.passes.gpu.isa import warp
from blu.passes.gpu.isa.warp import Number
from blu.passes.gpu.kernel import repeat_while

BARRIER_BYTES = 8
MAP_BYTES = 128
"""Of a tensor map, which the driver makes; it says where a tile of a tensor is to be found, and how it is swizzled."""


@dataclass(frozen=True)
class TensorMap:
    """A map for tiles of `box` elements of argument `argument`, innermost dimension first; strides are in elements.

    Elements outside of `shape` are read as zeros. Rows of 128 bytes are swizzled: piece p (16 bytes) of row r lies at
    place p XOR r % 8. With `rounds_tf32`, f32 elements are rounded to tf32.
    """

    argument: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    offset: int
    dtype: str
    rounds_tf32: bool = False

    def to_attribute(self) -> ir.Attribute:
        """As an attribute of a kernel."""
        i64 = ir.IntegerType.get_signless(64)
        lists = {name: ir.DenseI64ArrayAttr.get(getattr(self, name)) for name in ("shape", "strides", "box")}
        numbers = {name: ir.IntegerAttr.get(i64, getattr(self, name)) for name in ("argument", "offset")}
        dtype = "tf32" if self.rounds_tf32 else self.dtype
        return ir.DictAttr.get({**lists, **numbers, "dtype": ir.StringAttr.get(dtype)})


def map_type() -> ir.MemRefType:
    """The type of a kernel's argument that is a tensor map."""
    return ir.MemRefType.get([MAP_BYTES], ir.IntegerType.get_signless(8))


def map_pointer(argument: ir.Value) -> ir.Value:
    """The generic address of a tensor map."""
    address = arith.index_cast(ir.IntegerType.get_signless(64), memref.extract_aligned_pointer_as_index(argument))
    return llvm.inttoptr(ir.Type.parse("!llvm.ptr"), address)


def shared(address: Number) -> ir.Value:
    """An address of shared memory as a pointer."""
    return llvm.inttoptr(ir.Type.parse("!llvm.ptr<3>"), warp.number(address))


def begin_barrier(address: ir.Value, arrivals: int) -> None:
    """Make a barrier that waits for so many arrivals in each phase."""
    nvvm.mbarrier_init(shared(address), warp.number(arrivals))


def publish_barriers() -> None:
    """Let asynchronous copies see barriers that this thread has made."""
    nvvm.fence_mbarrier_init()


def arrive(address: ir.Value) -> None:
    """Count one arrival."""
    nvvm.mbarrier_arrive(shared(address), results=[ir.IntegerType.get_signless(64)])


def announce(address: ir.Value, num_bytes: int) -> None:
    """Count one arrival, and let the phase last until so many bytes have been copied."""
    nvvm.mbarrier_arrive_expect_tx(shared(address), warp.number(num_bytes), results=[])


def wait(address: ir.Value, phase: ir.Value) -> None:
    """Wait until a phase is over."""

    def goes_on() -> ir.Value:
        is_over = nvvm.mbarrier_try_wait(shared(address), phase)
        return arith.xori(is_over, arith.constant(is_over.type, ir.IntegerAttr.get(is_over.type, 1)))

    repeat_while(goes_on)


def copy_tile(map_: ir.Value, place: Sequence[Number], target: ir.Value, barrier: ir.Value) -> None:
    """Copy the tile that begins at `place` (innermost coordinate first) to shared memory, counted by a barrier."""
    cluster = llvm.addrspacecast(ir.Type.parse("!llvm.ptr<7>"), shared(target))
    coordinates = [warp.number(item) for item in place]
    nvvm.cp_async_bulk_tensor_shared_cluster_global(cluster, map_, coordinates, shared(barrier), [])


def prefetch_map(map_: ir.Value) -> None:
    """Read a tensor map before the first copy needs it."""
    warp.assembly([], [map_], "prefetch.tensormap [$0];", "l,~{memory}")
