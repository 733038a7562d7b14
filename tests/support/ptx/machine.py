"""An interpreter of PTX, so that GPU kernels can be checked where there is no GPU.

All threads of some blocks, or of the blocks of a cluster, are lanes of numpy arrays. schedule.py says which of them run
next, tensors.py and warpgroup.py are Hopper's bulk copies and products. Copies with `cp.async` arrive when they
are waited for, memory that nobody wrote holds NaN, and an access outside of every buffer is an error. So is a race
in shared memory (races.py) or in global memory (global_races.py).
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from math import prod
from typing import NamedTuple

import ml_dtypes
import numpy as np

from tests.support.ptx.accesses import Accesses
from tests.support.ptx.barriers import NamedBarriers
from tests.support.ptx.copies import Copies
from tests.support.ptx.global_races import GlobalRaces
from tests.support.ptx.memory import Memory
from tests.support.ptx.program import Program, parse
from tests.support.ptx.races import RaceError, Races
from tests.support.ptx.registers import WARP
from tests.support.ptx.stores import Stores
from tests.support.ptx.tensors import TensorMap
from tests.support.ptx.warpgroup import cut

# Threads, and bytes of shared memory, of blocks that run side by side: numpy takes as long for a tenth of them.
_LANES, _SHARED_BYTES = 2048, 1 << 18


def run(
    ptx: str, grid: Sequence[int], buffers: Sequence[np.ndarray], shared_bytes: int = 0, in_table: bool = False,
    maps: Sequence[TensorMap] = (), watch: GlobalRaces | None = None,
) -> None:  # fmt: skip
    """Run a kernel whose parameters are pointers to `buffers`, or to a table of these, which are changed in place.

    Pointers to tensor maps of the buffers come after these. `watch` knows where the buffers really are, if not here.
    """
    watch = watch or GlobalRaces([buffer.ctypes.data for buffer in buffers])
    given = parse(ptx), grid, buffers, shared_bytes, in_table, maps
    memory = _run(*given, watch)
    if watch.race:
        try:
            other = _run(*given, watch.again())
        except AssertionError as error:
            raise RaceError(watch.race) from error
        if not np.array_equal(memory.bytes, other.bytes):
            raise RaceError(watch.race)
    memory.read_back(buffers)


def _run(
    program: Program, grid: Sequence[int], buffers: Sequence[np.ndarray], shared_bytes: int, in_table: bool,
    maps: Sequence[TensorMap], watch: GlobalRaces,
) -> Memory:  # fmt: skip
    """The memory after a run."""
    memory = Memory(buffers, in_table, maps)
    unit = min([program.global_unit, *(map_.unit for map_ in maps)])
    watch.begin(memory.starts, memory.sizes, unit, program.cluster)
    grid = tuple([*grid, 1, 1][:3])
    team = _blocks_side_by_side(program, shared_bytes)
    with np.errstate(all="ignore"):
        for first in range(0, prod(grid), team):
            numbers = np.arange(first, min(first + team, prod(grid)))
            _Blocks(
                threads=program.threads * len(numbers),
                program=program,
                memory=memory,
                watch=watch,
                maps=memory.maps,
                numbers=numbers,
                grid=grid,
                shared_bytes=shared_bytes,
            ).run()
    return memory


def _blocks_side_by_side(program: Program, shared_bytes: int) -> int:
    """Those of a cluster, or as many as keep numpy busy: nothing but a cluster's instructions joins blocks."""
    if program.cluster > 1 or program.threads % WARP:
        return program.cluster
    return max(1, min(_LANES // program.threads, _SHARED_BYTES // max(1, shared_bytes)))


@dataclass(kw_only=True)
class _Blocks(Accesses):
    # Of blocks, x first, which all have their own piece of `shared`; a cluster's follow each other.
    numbers: np.ndarray
    grid: tuple[int, int, int]
    # Of products, by their registers, type and depth. A register that is written holds another array.
    factors: dict[tuple[tuple[str, ...], type, int], _Factor] = field(default_factory=dict)

    def run(self) -> None:
        """Until every thread has returned."""
        threads, of_block, blocks = self.threads, self.program.threads, len(self.numbers)
        self.shared = np.full(self.pitch * blocks, 0xFF, np.uint8)
        are_joined = self.program.cluster > 1
        self.races = Races(of_block, blocks, self.pitch, are_joined, self.program.unit)
        self.copies, self.named = Copies(self.shared, self.races, threads), NamedBarriers(self.races)
        self.stores = Stores(self.shared, self.races, threads)
        self.watch.enter(self.numbers, of_block, self.races)
        self.begin()
        number, block = np.arange(threads) % of_block, self.numbers[self.rank]
        x, y, z = block % self.grid[0], block // self.grid[0] % self.grid[1], block // (self.grid[0] * self.grid[1])
        places = (("%tid", (number, 0, 0)), ("%ctaid", (x, y, z)), ("%ntid", (of_block, 1, 1)))
        for name, values in places:
            for axis, value in zip("xyz", values, strict=True):
                self.registers[f"{name}.{axis}"] = np.full(threads, value, np.uint32)
        while (first := int(np.minimum.reduce(self.place))) < self.end:
            self.step(first)
        self.finish()
        self.watch.leave()

    def _do_shfl(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        value, distance = self._read(operands[1], 32), self._read(operands[2], 32)
        lanes = np.arange(self.threads)
        if parts[2] == "bfly":
            source = lanes ^ distance
        else:
            assert parts[2] == "idx", parts
            own = self._read(operands[3], 32).astype(np.int64) >> 8 | ~31  # bits of a lane's number that stay
            source = (lanes & own) | (distance.astype(np.int64) & ~own)
        target = operands[0].split("|")[0]
        self._write(target, value[source.astype(np.int64)], active)

    def _do_vote(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        assert parts[2] == "ballot", parts
        bits = (self._read(operands[1], 1).reshape(-1, 32) << np.arange(32, dtype=np.uint64)).sum(1)
        self._write(operands[0], np.repeat(bits, 32).astype(np.uint32), active)

    def _do_mma(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        depth = {"m16n8k16": 16, "m16n8k8": 8}[parts[3]]
        dtype = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "tf32": np.float32}[parts[7]]
        left, right = self._factor(operands[1], dtype, 16, depth), self._factor(operands[2], dtype, 8, depth)
        product = left @ right.swapaxes(-1, -2)
        before = np.stack([self._read(name, 32, "f") for name in operands[3]])
        sums = cut(product.reshape(len(product), -1)[:, _SUMS].transpose(1, 0, 2).reshape(before.shape) + before)
        for name, value in zip(operands[0], sums, strict=True):
            self._write(name, value, active)

    def _factor(self, names: tuple[str, ...], dtype: type, rows: int, depth: int) -> np.ndarray:
        """Matrices [warps, rows, depth] of f64 from the fragments in registers; several products use the same ones."""
        fragments = [self.registers[name] for name in names]
        known = self.factors.get((names, dtype, depth))
        if known is not None and all(map(operator.is_, known.fragments, fragments)):
            return known.matrices
        words = np.stack([self._read(name, 32) for name in names], 1)
        if dtype is np.float32:  # whose last 13 bits nobody reads
            words &= np.uint32(0xFFFFE000)
        numbers = words.view(dtype).astype(np.float64).reshape(self.threads // WARP, -1)
        matrices = numbers[:, _fragment(rows, depth, 4 // np.dtype(dtype).itemsize)]
        self.factors[names, dtype, depth] = _Factor(fragments, matrices)
        return matrices


class _Factor(NamedTuple):
    """What registers held, and the matrices [warps, rows, depth] that these were."""

    fragments: list[np.ndarray]
    matrices: np.ndarray


@cache
def _fragment(rows: int, depth: int, each: int) -> np.ndarray:
    """Where a factor's elements [rows, depth] are among those that 32 lanes hold, `each` in a register.

    A register holds an element or two of a row of eight; the next ones are eight rows below, then half of the depth on.
    """
    row, column = np.arange(rows)[:, None], np.arange(depth)
    lane = row % 8 * 4 + column % (depth // 2) // each
    register = row // 8 + column // (depth // 2) * (rows // 8)
    return (lane * (rows // 8 * 2) + register) * each + column % each


_LANE = np.arange(WARP)
_SUMS = (_LANE // 4 + np.arange(4)[:, None] // 2 * 8) * 8 + _LANE % 4 * 2 + np.arange(4)[:, None] % 2
"""Where the four sums of each lane are in a tile of 16 by 8."""
