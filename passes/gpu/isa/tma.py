"""The Tensor Memory Accelerator: Hopper's asynchronous copies of tiles that tensor maps describe, and of bytes.

Source: PTX ISA, "cp.async.bulk", "cp.reduce.async.bulk", "cp.async.bulk.tensor", "prefetch.tensormap".
"""

from __future__ import annotations

from collections.abc import Sequence

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, ir, llvm, memref, nvvm
from blu.passes.gpu.isa.assembly import assembly
from blu.passes.gpu.isa.mbarrier import shared_pointer
from blu.passes.gpu.numbers import Number, number

MAP_BYTES = 128
"""Of a tensor map, which the driver makes; it says where a tile of a tensor is to be found, and how it is swizzled."""


@dataclass(frozen=True)
class TileMap:
    """A map for tiles of `box` elements of argument `argument`, innermost dimension first; strides are in elements.

    Elements outside of `shape` are read as zeros. Rows of 128 bytes are swizzled: piece p (16 bytes) of row r lies at
    place p XOR r % 8. Rows of i8 are 64 bytes, and pieces at p XOR r / 2 % 4. With `rounds_tf32`, f32 elements are
    rounded to tf32.
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


def cp_async_bulk_tensor(map_: ir.Value, place: Sequence[Number], target: ir.Value, barrier: ir.Value) -> None:
    """Copy the tile that begins at `place` (innermost coordinate first) to shared memory, counted by a barrier."""
    cluster = llvm.addrspacecast(ir.Type.parse("!llvm.ptr<7>"), shared_pointer(target))
    coordinates = [number(item) for item in place]
    nvvm.cp_async_bulk_tensor_shared_cluster_global(cluster, map_, coordinates, shared_pointer(barrier), [])


def cp_async_bulk(source: ir.Value, target: ir.Value, num_bytes: int, barrier: ir.Value) -> None:
    """Copy bytes, a multiple of 16 at multiples of 16, from global to shared memory, counted by a barrier."""
    cluster = llvm.addrspacecast(ir.Type.parse("!llvm.ptr<7>"), shared_pointer(target))
    nvvm.cp_async_bulk_shared_cluster_global(cluster, source, shared_pointer(barrier), number(num_bytes))


def prefetch_tensormap(map_: ir.Value) -> None:
    """Read a tensor map before the first copy needs it."""
    nvvm.prefetch(map_, tensormap=True)


def store_tensor(map_: ir.Value, place: Sequence[Number], source: ir.Value) -> None:
    """Copy a tile from shared memory to where it begins at `place`, but for what is outside of the tensor.

    It is one of this thread's group of copies. Threads that wrote the tile do `show_writes`, and this one after them.
    """
    nvvm.cp_async_bulk_tensor_global_shared_cta(map_, shared_pointer(source), [number(item) for item in place])


def store_bytes(target: ir.Value, source: ir.Value, num_bytes: int) -> None:
    """Copy bytes, a multiple of 16 at multiples of 16, from shared memory to a global address, as store_tensor does."""
    text = "cp.async.bulk.global.shared::cta.bulk_group [$0], [$1], $2;"
    assembly([], [target, source, number(num_bytes)], text, "l,r,r,~{memory}")


def add_bytes(target: ir.Value, source: ir.Value, num_bytes: int) -> None:
    """The same, of f32 that are added to those that are there."""
    text = "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [$0], [$1], $2;"
    assembly([], [target, source, number(num_bytes)], text, "l,r,r,~{memory}")


def show_writes() -> None:
    """Let asynchronous copies see what this thread has written to shared memory."""
    nvvm.fence_proxy(ir.Attribute.parse("#nvvm.proxy_kind<async.shared>"),
                     space=ir.Attribute.parse("#nvvm.shared_space<cta>"))  # fmt: skip


def commit_group() -> None:
    """What this thread has begun to copy from shared memory since the last time is a group."""
    nvvm.cp_async_bulk_commit_group()


def wait_group(kept: int) -> None:
    """Wait until this thread's groups of copies, but for the last `kept`, are over, so that others may know of them."""
    nvvm.cp_async_bulk_wait_group(kept)


def wait_group_read(kept: int) -> None:
    """Wait until this thread's groups of copies, but for the last `kept`, have read shared memory."""
    nvvm.cp_async_bulk_wait_group(kept, read=True)
