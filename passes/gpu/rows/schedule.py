"""How a row kernel is cut into blocks, threads and vectors: a choice by shapes, from which all else follows."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, gcd, prod

from blu.dialects.core.mlir import ir
from blu.passes.gpu.rows.bodies import WIDEST, element_bytes
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.body import Kernel
from blu.passes.kernels.rows.layout import Layout
from blu.passes.kernels.rows.plan import Planner
from blu.passes.kernels.rows.program import RowProgram
from blu.passes.kernels.rows.space import Access

WARP = 32
BLOCK = 128
"""Threads of a block whose rows are worked on by a part of it."""
WORDS_OF_WARP_ROW = 96
"""Registers that a thread may use for its share of a row's inputs, where one warp has a row."""
WORDS = {128: 72, 256: 72, 512: 64, 1024: 28}
"""The same for blocks that have a row, by their threads: some blocks should fit on a processor."""
HIDDEN_WORDS = {128: 64, 256: 64, 640: 48}
"""The same for rows of which nothing else is kept: few, but more than fit with all that is made from them."""
FEW_ROWS = 64
"""Rows that leave most processors without work, so that only the time of one row counts."""
FEW_VECTORS = 2
"""Vectors of a thread in such a row."""
READ_CLUSTERS = ((2, 640, 52, 1), (4, 640, 52, 1), (8, 640, 52, 1))
"""Blocks that can have a row together, their threads, registers for a thread's part of a row, and blocks of a
processor, best first. 8 are the most blocks that every Hopper GPU runs at the same time."""
WRITTEN_CLUSTERS = ((2, 640, 36, 1), (4, 192, 68, 3), (4, 640, 52, 1), (8, 640, 52, 1))
"""The same for rows along which something is written: with more registers, ptxas would spill some."""
HALVES_CLUSTERS = ((4, 320, 24, 2), (4, 640, 28, 1), (8, 640, 52, 1))
"""The same where all that is kept of such rows has 16 bits: also for rows that one block could have."""
WRITTEN_LANES = 4
"""Elements that a thread writes at once, where a row in its registers leaves none for more."""
SWEEP_THREADS = 1024
"""One block to a processor: what it reads again is still in the second-level cache."""
SLICE_THREADS = 512
FLAT_THREADS = 128
FLAT_IN_FLIGHT = 32
"""Bytes that a thread of a pointwise kernel has asked for before it computes; others ask meanwhile."""
COLUMN_BLOCK = 256
IN_FLIGHT = 64
"""The same for a step of a loop over a row or a column."""


@dataclass(frozen=True)
class RowSchedule:
    """How many threads have a row, the elements of a vector, and the vectors of a thread that are read at once.

    `threads` of a block; `team` of them have a row together, or each element for itself (1, without `columns`).
    `chunks` vectors of a row are in one thread's registers; None: a loop walks over the row, `unroll` vectors a step.
    `hides`: what is made from inputs is made again in each walk over the registers, rather than kept. `cluster` blocks
    have a row together: `team` are the threads of all of them. `per_processor` blocks should fit on a processor.
    """

    threads: int
    team: int
    lanes: int
    unroll: int
    chunks: int | None
    hides: bool = False
    cluster: int = 1
    per_processor: int = 1

    @property
    def rows_per_block(self) -> int:
        return self.threads // self.team


@dataclass(frozen=True)
class RowOperand:
    """A memref that a kernel reads or writes along the vector dimension: element size in bytes, stride, and whether a
    walk before the last one reads it, so that a row in registers has it there for longer."""

    size: int
    stride: int
    is_kept: bool
    is_input: bool


def operands_of(program: RowProgram, layout: Layout, frame: Kernel) -> list[RowOperand]:
    """All memrefs with an element for each lane."""
    walks = Planner(program, 0, -1, set(program.outputs)).plan()
    accesses: dict[ir.Value, Access] = {}
    levels: dict[ir.Value, int] = {}
    for level, walk in enumerate(walks):
        for node in (program.nodes[number] for number in (*walk.nodes, *walk.reductions)):
            for operand, access in zip(node.operation.operands, node.accesses, strict=True):
                accesses[operand] = access
                levels.setdefault(operand, level)
    last = max((level for level, walk in enumerate(walks) if not walk.is_empty), default=0)
    pairs = [(frame.buffers[value], accesses[value], levels[value] < last, True)
             for value in accesses if value in frame.buffers]  # fmt: skip
    pairs += [(buffer, program.access_of(value), False, False) for value, buffer in frame.outputs]
    found = []
    for buffer, access, is_kept, is_input in pairs:
        stride = layout.strides(access, vectors.strides_of(buffer)).get(
            -1 if layout.vector_dim is None else layout.vector_dim
        )
        if stride is not None:
            found.append(RowOperand(element_bytes(ir.MemRefType(buffer.type).element_type), stride, is_kept, is_input))
    return found


def choose_lanes(operands: list[RowOperand], size: int, widest: int = WIDEST) -> int:
    """Elements of a vector, so that accesses to the narrowest type have `widest` bytes, of a dimension of `size`."""
    sizes = [operand.size for operand in operands if operand.stride == 1]
    return gcd(widest // min(sizes), size) if sizes else 1


def choose(program: RowProgram, layout: Layout, frame: Kernel) -> RowSchedule:
    """The schedule of a kernel whose vectors run along columns, or that has none."""
    operands = operands_of(program, layout, frame)
    lanes = _lanes_of(operands, layout)
    if not layout.columns:
        return _flat(operands, lanes, prod(layout.sizes.values()))
    width = prod(layout.sizes[dim] for dim in layout.columns)
    inputs = [operand for operand in operands if operand.is_input]
    raw, made = _kept_words(operands, lanes), max(sum(max(operand.size, 4) / 4 for operand in inputs), 1.0)
    team = team_of_warp(width, lanes)
    is_alone = prod(layout.sizes[dim] for dim in layout.rows) < FEW_ROWS and width > FEW_VECTORS * lanes * team
    if width <= WORDS_OF_WARP_ROW * team / made and not is_alone:
        return RowSchedule(BLOCK, team, lanes, 1, ceil(width / (lanes * team)))
    for hides, need, limits in ((False, made, WORDS), (True, raw, HIDDEN_WORDS)):
        if hides and _writes(program):
            lanes = min(lanes, WRITTEN_LANES)
        fitting = {threads: ceil(width / (lanes * threads)) for threads in limits}
        fitting = {threads: chunks for threads, chunks in fitting.items() if chunks * lanes * need <= limits[threads]}
        if fitting:
            threads = _fast_alone(fitting) if is_alone else min(fitting)
            return RowSchedule(threads, threads, lanes, 1, fitting[threads], hides)
    return choose_sweep(program, layout, frame, SWEEP_THREADS)


def choose_cluster(program: RowProgram, layout: Layout, frame: Kernel) -> RowSchedule | None:
    """The schedule of as few blocks as have a row in their registers together."""
    operands = operands_of(program, layout, frame)
    lanes = _lanes_of(operands, layout)
    width, need = prod(layout.sizes[dim] for dim in layout.columns), _kept_words(operands, lanes)
    for blocks, threads, limit, per_processor in _clusters(program, need):
        chunks = ceil(width / (lanes * threads * blocks))
        if chunks * lanes * need <= limit:
            return RowSchedule(threads, threads * blocks, lanes, 1, chunks, True, blocks, per_processor)
    return None


def is_better_shared(program: RowProgram, layout: Layout, frame: Kernel, schedule: RowSchedule) -> bool:
    """Whether several blocks should have a row although one could: two on a processor write faster than one there."""
    if schedule.threads != max(HIDDEN_WORDS, default=0):
        return False
    operands = operands_of(program, layout, frame)
    return _clusters(program, _kept_words(operands, _lanes_of(operands, layout))) is HALVES_CLUSTERS


def _clusters(program: RowProgram, need: float) -> tuple[tuple[int, int, int, int], ...]:
    if not _writes(program):
        return READ_CLUSTERS
    return WRITTEN_CLUSTERS if need > 0.5 else HALVES_CLUSTERS


def _writes(program: RowProgram) -> bool:
    """Whether a kernel writes something along its rows."""
    return any(program.is_wide(value) for value in program.outputs)


def _kept_words(operands: list[RowOperand], lanes: int) -> float:
    """Registers for an element of a row of which only what is read in several walks is kept, as it was read."""
    kept = [operand for operand in operands if operand.is_input and operand.is_kept]
    return max(sum(ceil(operand.size * lanes / 4) / lanes for operand in kept), 0.5)


def _fast_alone(fitting: dict[int, int]) -> int:
    """Threads of a block that has a processor for itself: as many as have something to wait for, of some numbers of
    threads with the vectors that each would have."""
    return min((threads for threads, chunks in fitting.items() if chunks <= FEW_VECTORS), default=max(fitting))


def choose_sweep(program: RowProgram, layout: Layout, frame: Kernel, threads: int = SLICE_THREADS) -> RowSchedule:
    """The schedule of blocks that walk over rows, or slices of them, in loops."""
    operands = operands_of(program, layout, frame)
    lanes = _lanes_of(operands, layout)
    vector = sum(operand.size * lanes for operand in operands if operand.is_input)
    unroll = max(1, min(8, IN_FLIGHT // max(vector, 1)))
    return RowSchedule(threads, threads, lanes, unroll, None)


def choose_columns(program: RowProgram, layout: Layout, frame: Kernel) -> RowSchedule:
    """The schedule of threads that each have some columns: vectors are as wide as the widest type allows."""
    operands = operands_of(program, layout, frame)
    sizes = [operand.size for operand in operands if operand.stride == 1]
    size = 1 if layout.vector_dim is None else layout.sizes[layout.vector_dim]
    lanes = gcd(WIDEST // max(sizes, default=WIDEST), size)
    vector = sum(operand.size * lanes for operand in operands if operand.is_input)
    return RowSchedule(COLUMN_BLOCK, 1, lanes, max(1, min(8, 2 * IN_FLIGHT // max(vector, 1))), None)


def _lanes_of(operands: list[RowOperand], layout: Layout) -> int:
    return choose_lanes(operands, 1 if layout.vector_dim is None else layout.sizes[layout.vector_dim])


def team_of_warp(width: int, lanes: int) -> int:
    """As many threads of a warp as have something to do, a power of two."""
    vectors_of_row = max(1, width // lanes)
    return min(WARP, 1 << (vectors_of_row - 1).bit_length())


def _flat(operands: list[RowOperand], lanes: int, elements: int) -> RowSchedule:
    inputs = sum(operand.size * lanes for operand in operands if operand.is_input)
    unroll = max(1, min(4, FLAT_IN_FLIGHT // max(inputs, WIDEST)))
    while unroll > 1 and elements < FLAT_THREADS * lanes * unroll * 512:
        unroll //= 2
    return RowSchedule(FLAT_THREADS, 1, lanes, unroll, 1)
