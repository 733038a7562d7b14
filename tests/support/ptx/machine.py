"""An interpreter of PTX, so that GPU kernels can be checked where there is no GPU.

All threads of some blocks, or of the blocks of a cluster, are lanes of numpy arrays. schedule.py says which of them run
next, tensors.py and warpgroup.py are Hopper's bulk copies and products. Copies with `cp.async` arrive when they
are waited for, memory that nobody wrote holds NaN, and an access outside of every buffer is an error. So is a race
in shared memory (races.py) or in global memory (global_races.py).
"""

from __future__ import annotations

import operator
import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from math import prod
from typing import NamedTuple

import ml_dtypes
import numpy as np

from tests.support.ptx.barriers import NamedBarriers
from tests.support.ptx.copies import Copies
from tests.support.ptx.global_races import GlobalRaces
from tests.support.ptx.program import Program, dtype_of, parse, type_named
from tests.support.ptx.races import RaceError, Races
from tests.support.ptx.stores import Stores
from tests.support.ptx.tensors import MAP_BYTES, TensorMap
from tests.support.ptx.warpgroup import WARP, Warpgroups, cut

_GUARD = 1 << 12
# Threads, and bytes of shared memory, of blocks that run side by side: numpy takes as long for a tenth of them.
_LANES, _SHARED_BYTES = 2048, 1 << 18
# Numbers of so many bytes, which numpy copies at once, bit by bit; how many bits tell their places from those of bytes.
_WORDS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64, 16: np.complex128}
_SHIFTS = {1: 0, 2: 1, 4: 2, 8: 3, 16: 4}
# `mapa` gives addresses in windows of this size, one for each block of the cluster.
_WINDOW = 1 << 24


class MemoryFaultError(AssertionError):
    """An access outside of all buffers."""


class Memory:
    """Global memory: buffers with unmapped bytes between them. `parameters` are the addresses that a kernel gets: those
    of the buffers and tensor maps, or that of a table of buffers. `maps` has the maps' buffers' bytes, by address.
    An array that is given twice is one buffer."""

    def __init__(self, buffers: Sequence[np.ndarray], in_table: bool = False, maps: Sequence[TensorMap] = ()):
        self.starts, self.ends, total = [], [], _GUARD
        known: dict[int, int] = {}
        table = np.zeros(len(buffers), np.uint64)
        buffers = [*buffers, table] if in_table else [*buffers, *(np.zeros(MAP_BYTES, np.uint8) for _ in maps)]
        for buffer in buffers:
            self.starts.append(known.setdefault(id(buffer), total))
            self.ends.append(self.starts[-1] + buffer.nbytes)
            total = max(total, -(-self.ends[-1] // _GUARD) * _GUARD + _GUARD)
        self._spans = sorted(set(zip(self.starts, self.ends, strict=True)))
        self.bytes = np.full(total, 0xFF, np.uint8)
        self.mapped = np.zeros(total, np.bool_)
        for buffer, start, end in zip(buffers, self.starts, self.ends, strict=True):
            self.bytes[start:end] = np.ascontiguousarray(buffer).reshape(-1).view(np.uint8)
            self.mapped[start:end] = True
        self.parameters = self.starts
        if in_table:
            table[:] = self.starts[:-1]
            self.bytes[self.starts[-1] : self.ends[-1]] = table.view(np.uint8)
            self.parameters = self.starts[-1:]
        self.maps: dict[int, tuple[TensorMap, np.ndarray]] = {}
        for map_, address in zip(maps, self.starts[len(self.starts) - len(maps) :], strict=True):
            map_.check()
            self.maps[address] = map_, self.bytes[self.starts[map_.buffer] : self.ends[map_.buffer]]

    def holds(self, first: int, end: int) -> bool:
        """Whether some bytes are all of one buffer."""
        number = bisect_right(self._spans, (first, len(self.bytes))) - 1
        return number >= 0 and end <= self._spans[number][1]

    @property
    def sizes(self) -> list[int]:
        """The bytes of each buffer."""
        return [end - start for start, end in zip(self.starts, self.ends, strict=True)]

    def read_back(self, buffers: Sequence[np.ndarray]) -> None:
        """Copy memory into the arrays it was made from."""
        for buffer, start, end in zip(buffers, self.starts, self.ends, strict=False):
            buffer.reshape(-1).view(np.uint8)[:] = self.bytes[start:end]


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
class _Blocks(Warpgroups):
    memory: Memory
    # Of blocks, x first, which all have their own piece of `shared`; a cluster's follow each other.
    numbers: np.ndarray
    grid: tuple[int, int, int]
    copies: Copies = field(init=False)
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
                self.registers[f"{name}.{axis}"] = np.broadcast_to(np.asarray(value, np.uint32), threads)
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
            source = (lanes & ~31) | (distance & 31)
        target = operands[0].split("|")[0]
        self._write(target, value[source.astype(np.int64)], active)

    def _do_vote(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        assert parts[2] == "ballot", parts
        bits = (self._read(operands[1], 1).reshape(-1, 32) << np.arange(32, dtype=np.uint64)).sum(1)
        self._write(operands[0], np.repeat(bits, 32).astype(np.uint32), active)

    # -- memory ------------------------------------------------------------------------------------------------------

    def _address(self, operand: str, bits: int) -> np.ndarray:
        name, offset = _base_of(operand)
        return self._read(name, bits).astype(np.int64) + offset

    def _first_places(
        self, space: str, address: np.ndarray, size: int, active: np.ndarray, unit: int = 0
    ) -> np.ndarray:
        """Indices [threads] of the first of `size` bytes in a space; 0 for threads that are not active.

        Addresses must be multiples of `unit` (0: of `size`).
        """
        rank = self.rank
        if space == "shared::cluster":
            rank, address = address // _WINDOW - 1, address % _WINDOW
        asked = address if self._is_all(active) else address[active]
        if not self._are_in_one(space, asked, size):
            self._check_places(space, asked, size)
        if np.count_nonzero(asked & (unit or size) - 1):  # powers of two
            raise MemoryFaultError(f"{space} memory is accessed at {asked[:4]}, in pieces of {size} bytes")
        first = address if space == "global" else address + rank * self.pitch
        return first if self._is_all(active) else np.where(active, first, 0)

    def _are_in_one(self, space: str, asked: np.ndarray, size: int) -> bool:
        """Whether all bytes are of one buffer, or of shared memory."""
        if not len(asked):
            return True
        least, end = int(np.minimum.reduce(asked)), int(np.maximum.reduce(asked)) + size
        return self.memory.holds(least, end) if space == "global" else least >= 0 and end <= self.shared_bytes

    def _check_places(self, space: str, asked: np.ndarray, size: int) -> None:
        limit = len(self.memory.bytes) if space == "global" else self.shared_bytes
        inside = (asked >= 0) & (asked + size <= limit)
        if space == "global":  # as much lies between buffers as any instruction accesses: both ends are in the same one
            some = np.where(inside, asked, 0)
            inside &= self.memory.mapped[some] & self.memory.mapped[some + (size - 1)]
        if not inside.all():
            raise MemoryFaultError(f"{space} memory is accessed at {asked[~inside][:4]}")

    def _do_mapa(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        rank = self._read(operands[2], 32)
        self._write(operands[0], (self._read(operands[1], 32) + (rank + 1) * _WINDOW).astype(np.uint32), active)

    def _do_ld(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        space, bits = parts[1], type_named(parts[-1])[1]
        if space == "param":
            number = int(re.search(r"_param_(\d+)", operands[1])[1])
            value = np.full(self.threads, self.memory.parameters[number], np.uint64)
            self._write(operands[0], value, active)
            return
        targets = operands[0] if isinstance(operands[0], tuple) else (operands[0],)
        size = bits // 8
        data = self._load(space, operands[1], size * len(targets), active, is_constant="nc" in parts)
        numbers = data.view(dtype_of(*type_named(parts[-1])))
        for place, name in enumerate(targets):
            self._write(name, numbers[:, place], active)

    def _load(
        self, space: str, operand: str, size: int, active: np.ndarray, for_all: bool = False, is_constant: bool = False
    ) -> np.ndarray:
        address = self._address(operand, 64 if space == "global" else 32)
        first = self._first_places(space, address, size, active)
        if space.startswith("shared"):
            self.races.read(self.races.places(*self._chosen(active, first), size), self._numbers_of(active), for_all)
        source = self.memory.bytes if space == "global" else self.shared
        data = source.view(_WORDS[size])[first >> _SHIFTS[size]].view(np.uint8).reshape(-1, size)
        if space == "global":
            numbers = self._numbers_of(active)
            doubtful = self.watch.read(*self._chosen(active, first), size, numbers, is_constant)
            if doubtful is not None:
                data[numbers] = np.where(doubtful, 0xFF, data[numbers])
        return data

    def _save(self, space: str, operand: str, data: np.ndarray, active: np.ndarray) -> None:
        """Write bytes [threads, size] of the active threads to where an operand says."""
        size = data.shape[1]
        first = self._first_places(space, self._address(operand, 64 if space == "global" else 32), size, active)
        first, data = self._chosen(active, first, np.ascontiguousarray(data).view(_WORDS[size])[:, 0])
        if space.startswith("shared"):
            self.races.write(self.races.places(first, size), self._numbers_of(active))
        else:
            self.watch.write(first, size, self._numbers_of(active))
        target = self.memory.bytes if space == "global" else self.shared
        words, places = target.view(data.dtype), first >> _SHIFTS[size]
        words[places] = data
        if words[places].tobytes() != data.tobytes():
            raise RaceError(f"lanes write what is not the same to one place of {space} memory")

    def _do_st(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        if parts[1] == "async":
            self._send(operands, active)
            return
        space, bits = parts[1], type_named(parts[-1])[1]
        sources = operands[1] if isinstance(operands[1], tuple) else (operands[1],)
        data = np.stack([self._stored(name, bits, self.program.floats) for name in sources], -1).view(np.uint8)
        self._save(space, operands[0], data, active)

    def _send(self, operands: tuple, active: np.ndarray) -> None:
        """Bytes arrive when the phase of the barrier that counts them is over."""
        data = np.ascontiguousarray(self._read(operands[1], 32)).view("V4")
        places = self._first_places("shared::cluster", self._address(operands[0], 32), 4, active)
        barriers = self._barrier_places(operands[2], active, "shared::cluster")
        self.asleep.clear()
        for thread in map(int, np.flatnonzero(active)):
            barrier = int(barriers[thread])
            self.races.tell(np.array([thread]), barrier)
            own = slice(thread, thread + 1)
            self.begin_copy(places[own], 4, thread)
            self._barrier(barrier).count(4, partial(self.deliver, places[own], data[own].copy(), barrier))

    def _do_cp(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        if parts[2] == "bulk" and parts[3] in ("commit_group", "wait_group"):
            self._end_stores(parts, operands, active)
        elif parts[2] == "commit_group":
            self.copies.commit(active)
        elif parts[2] in ("wait_all", "wait_group"):
            self.copies.wait(active, int(operands[0]) if parts[2] == "wait_group" else None)
        elif parts[2] in ("cg", "ca"):
            self._copy(operands, active)
        else:
            self._copy_bulk(parts, operands, active)

    def _copy(self, operands: tuple, active: np.ndarray) -> None:
        size = int(operands[2])
        present = self._read(operands[3], 32) if len(operands) > 3 else np.full(self.threads, size)
        assert (present <= size)[active].all()
        data = np.zeros((self.threads, size), np.uint8)
        address = self._address(operands[1], 64)
        for count in np.unique(present[active & (present > 0)]):
            some = active & (present == count)
            # All bytes must exist, as for compute-sanitizer, even those that are left out.
            first = self._first_places("global", address, size, some)[some]
            self.watch.read_now(first, int(count), np.flatnonzero(some))
            data[some, :count] = self.memory.bytes[first[:, None] + np.arange(count)]
        first = self._first_places("shared", self._address(operands[0], 32), size, active)
        self.copies.begin(*self._chosen(active, first, data.view(f"V{size}")[:, 0]), self._numbers_of(active))

    def _do_ldmatrix(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        rows = self._load("shared", operands[1], 16, active, for_all=True).view(np.uint16)
        count = len(operands[0])
        matrices = rows.reshape(-1, 32 // 8, 8, 8)[:, :count]
        if "trans" in parts:
            matrices = matrices.swapaxes(-1, -2)
        pairs = np.ascontiguousarray(matrices).view(np.uint32).reshape(-1, count, 32)
        for place, name in enumerate(operands[0]):
            self._write(name, pairs[:, place].reshape(-1), active)

    def _do_stmatrix(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        assert parts[3:5] == ["m8n8", "x4"] and "trans" not in parts, parts
        pairs = np.stack([self._read(name, 32) for name in operands[1]]).reshape(4, -1, 8, 4)
        rows = np.ascontiguousarray(pairs.swapaxes(0, 1)).view(np.uint8).reshape(self.threads, 16)
        self._save("shared", operands[0], rows, active)

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
        fragments = [self._read(name, 32) for name in names]
        known = self.factors.get((names, dtype, depth))
        if known is not None and all(map(operator.is_, known.fragments, fragments)):
            return known.matrices
        words = np.stack(fragments, 1)
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
def _base_of(operand: str) -> tuple[str, int]:
    """The register or name in an address in brackets, and what is added to it."""
    name, _, offset = operand.strip("[]").replace("+-", "-").replace("-", "+-").partition("+")
    return name, int(offset) if offset else 0


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
