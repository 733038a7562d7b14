"""`mapa`, `st.async`, `st.shared::cluster`: the shared memory of other blocks of a cluster."""

from __future__ import annotations

from blu.dialects.core.mlir import ir
from blu.passes.gpu.isa.assembly import assembly, pure_assembly
from blu.passes.gpu.numbers import i32


def mapa(address: ir.Value, rank: ir.Value) -> ir.Value:
    """Where another block of the cluster has what this block has at an address of shared memory."""
    return pure_assembly(i32(), [address, rank], "mapa.shared::cluster.u32 $0, $1, $2;", "=r,r,r")


def st(address: ir.Value, offset: int, value: ir.Value) -> None:
    """Write an f32 to the shared memory of any block of the cluster."""
    assembly([], [address, value], f"st.shared::cluster.f32 [$0+{offset}], $1;", "r,f,~{memory}")


def st_async(address: ir.Value, offset: int, value: ir.Value, barrier: ir.Value) -> None:
    """Begin to write one i32 to the shared memory of any block of the cluster, whose barrier counts its bytes."""
    text = f"st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [$0+{offset}], $1, [$2];"
    assembly([], [address, value, barrier], text, "r,r,r,~{memory}")
