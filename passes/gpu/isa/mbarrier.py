"""`mbarrier`: barriers in shared memory, which count arrivals and the bytes of asynchronous copies.

A barrier has a phase, 0 or 1, that flips when all arrivals that it waits for have come and, for copies, all bytes that
were announced. `wait` returns once the phase given is over; waiting for phase 1 of a fresh barrier returns at once.

Source: PTX ISA, "mbarrier".
"""

from __future__ import annotations

from blu.dialects.core.mlir import arith, ir, llvm, nvvm
from blu.passes.gpu.isa.assembly import assembly
from blu.passes.gpu.kernel import repeat_while
from blu.passes.gpu.numbers import Number, i32, number

BYTES = 8


def shared_pointer(address: Number) -> ir.Value:
    """An address of shared memory as a pointer."""
    return llvm.inttoptr(ir.Type.parse("!llvm.ptr<3>"), number(address))


def init(address: ir.Value, arrivals: int) -> None:
    """Make a barrier that waits for so many arrivals in each phase."""
    nvvm.mbarrier_init(shared_pointer(address), number(arrivals))


def fence_init() -> None:
    """Let asynchronous copies see barriers that this thread has made."""
    nvvm.fence_mbarrier_init()


def arrive(address: ir.Value) -> None:
    """Count one arrival."""
    nvvm.mbarrier_arrive(shared_pointer(address), results=[ir.IntegerType.get_signless(64)])


def arrive_expect_tx(address: ir.Value, num_bytes: int) -> None:
    """Count one arrival, and let the phase last until so many bytes have been copied."""
    nvvm.mbarrier_arrive_expect_tx(shared_pointer(address), number(num_bytes), results=[])


def wait(address: ir.Value, phase: ir.Value) -> None:
    """Wait until a phase is over."""

    def goes_on() -> ir.Value:
        is_over = nvvm.mbarrier_try_wait(shared_pointer(address), phase)
        return arith.xori(is_over, arith.constant(is_over.type, ir.IntegerAttr.get(is_over.type, 1)))

    repeat_while(goes_on)


def try_wait_cluster(barrier: ir.Value, phase: ir.Value) -> ir.Value:
    """1 if a phase of a barrier is over, and what other blocks of the cluster sent can be seen; 0 after a while."""
    text = (
        "{ .reg .pred over; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 over, [$1], $2; "
        "selp.b32 $0, 1, 0, over; }"
    )
    return assembly([i32()], [barrier, phase], text, "=r,r,r,~{memory}")[0]
