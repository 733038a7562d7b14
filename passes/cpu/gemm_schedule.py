"""How a GEMM is cut: the register tile, the blocks of k and of rows, and whether the right operand is packed."""

from __future__ import annotations

from dataclasses import dataclass

from blu.dialects.target import CpuTarget
from blu.passes.cpu.contraction import Contraction


@dataclass(frozen=True)
class Schedule:
    """A tile of `rows` x (`vectors` x `lanes`) sums in registers; k in blocks of `depth_block`.

    A block of the grid has `chunk_rows` rows (a multiple of `rows`, or all) and one panel of columns; `pack` copies the
    panel of the right operand first; `claim` is how many blocks a thread takes at a time.
    """

    rows: int
    vectors: int
    lanes: int
    depth_block: int
    chunk_rows: int
    pack: bool
    claim: int = 1

    @property
    def columns(self) -> int:
        return self.vectors * self.lanes


def choose_schedule(contraction: Contraction, target: CpuTarget) -> Schedule:
    """The schedule for a contraction on a target."""
    accumulator = contraction.accumulator
    lanes = target.lanes(accumulator.width // 8)
    size = contraction.size
    vectors = max(1, min(target.gemm_vectors, -(-size(contraction.columns) // lanes)))
    rows = max(1, min(target.gemm_rows, size(contraction.rows)))
    pack = contraction.right.stride(contraction.columns) not in (1, None) or contraction.right.element != accumulator
    return Schedule(rows, vectors, lanes, 512, rows * max(1, 128 // rows), pack or size(contraction.rows) >= 128)
