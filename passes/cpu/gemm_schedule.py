"""How a GEMM is cut: the register tile, the blocks of k, rows and columns, and whether the right operand is packed."""

from __future__ import annotations

from dataclasses import dataclass

from blu.dialects.target import CpuTarget
from blu.passes.cpu.contraction import Contraction


@dataclass(frozen=True)
class Schedule:
    """A tile of `rows` x (`vectors` x `lanes`) sums in registers; k in blocks of `depth_block`.

    A block of the grid has `chunk_rows` rows (a multiple of `rows`, or all) and `group_panels` panels of columns.
    Panels of the right operand are packed `packed_panels` at a time and used by all rows of the chunk (0: read in
    place). `claim` is how many blocks a thread takes at a time.
    """

    rows: int
    vectors: int
    lanes: int
    depth_block: int
    chunk_rows: int
    group_panels: int = 1
    packed_panels: int = 1
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
    return Schedule(rows, vectors, lanes, 512, rows * max(1, 128 // rows), 1, 1)
