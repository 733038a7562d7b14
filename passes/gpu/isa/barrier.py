"""`barrier`, and counters in global memory: waiting for other threads, and seeing what they wrote."""

from __future__ import annotations

from blu.dialects.core.mlir import ir, nvvm
from blu.passes.gpu.isa.assembly import assembly
from blu.passes.gpu.isa.warp import ALL_LANES
from blu.passes.gpu.numbers import Number, i32, number


def sync() -> None:
    """Wait for all threads of the block, and see what they wrote to shared memory."""
    nvvm.barrier()


def sync_named(barrier: Number, threads: int) -> None:
    """Wait until `threads` threads have come to a named barrier (1 to 15)."""
    nvvm.barrier(barrier_id=number(barrier), number_of_threads=number(threads))


def arrive_named(barrier: Number, threads: int) -> None:
    """Count this thread at a named barrier, without waiting for it."""
    nvvm.barrier_arrive(number(threads), barrier_id=number(barrier))


def warp_sync() -> None:
    """Wait for all threads of the warp, and see what they wrote to shared memory."""
    nvvm.bar_warp_sync(number(ALL_LANES))  # known to LLVM, which otherwise copies it to both sides of a branch


def cluster_sync() -> None:
    """Wait for all threads of the cluster, and see what they wrote to shared memory."""
    cluster_arrive()
    cluster_wait()


def cluster_arrive() -> None:
    """Count this thread at the cluster's barrier, with what it wrote before; `cluster_wait` comes after."""
    nvvm.cluster_arrive(aligned=True)


def cluster_arrive_relaxed() -> None:
    """The same, but what this thread wrote before need not be seen by those that wait."""
    nvvm.cluster_arrive_relaxed(aligned=True)


def cluster_wait() -> None:
    """Wait until all threads of the cluster have been counted, and see what they wrote before."""
    nvvm.cluster_wait(aligned=True)


def acquire(counter: ir.Value) -> ir.Value:
    """Read a counter (i32) at an address of global memory, and see what who wrote it had written or seen before."""
    return assembly([i32()], [counter], "ld.acquire.gpu.global.b32 $0, [$1];", "=r,l,~{memory}")[0]


def release(counter: ir.Value, value: ir.Value) -> None:
    """Write a counter (i32), after what this thread has written or seen before."""
    assembly([], [counter, value], "st.release.gpu.global.b32 [$0], $1;", "l,r,~{memory}")


def take_ticket(counter: ir.Value) -> ir.Value:
    """Add 1 to a counter (i32) at an address of global memory; what it was, which nobody else is given."""
    return assembly([i32()], [counter], "atom.relaxed.gpu.global.add.u32 $0, [$1], 1;", "=r,l,~{memory}")[0]
