"""Products of Hopper's warpgroups for the interpreter of PTX: `wgmma`, and what must not be touched before they end.

Products are asynchronous. Until their group is waited for, it is an error to use the registers of their sums, and to
change what they read in shared memory; `wgmma.fence` must come between what wrote registers and products that add to
them.

Source: PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions".
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache, lru_cache

import ml_dtypes
import numpy as np

from tests.support.ptx.memory import MemoryFaultError
from tests.support.ptx.program import PIECE_BYTES, Instruction
from tests.support.ptx.races import alone
from tests.support.ptx.registers import WARP, WARPGROUP, Lanes
from tests.support.ptx.rounding import read_as
from tests.support.ptx.tensors import ROW_BYTES, Tensors, swizzled

ROWS = 64
DEPTH_BYTES = 32
_PIECES = ROW_BYTES // PIECE_BYTES
_DTYPES = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "tf32": np.float32,
           "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}  # fmt: skip
_SWIZZLE_128 = 1
_WORD = np.dtype(np.uint32)


class AsynchronyError(AssertionError):
    """What an asynchronous product uses is used by others before it has ended."""


@dataclass(frozen=True)
class Reading:
    """Pieces of shared memory that a product reads, and what they held when it began; the registers of its sums, and
    those of a left factor that is in registers."""

    pieces: np.ndarray
    content: np.ndarray
    sums: tuple[str, ...]
    line: int
    factor: tuple[str, ...] = ()


@dataclass
class Group:
    """A warpgroup's products that have not ended: the group still open, those closed before, and all their sums."""

    open: list[Reading] = field(default_factory=list)
    closed: list[list[Reading]] = field(default_factory=list)
    sums: dict[tuple[str, ...], np.ndarray] = field(default_factory=dict)
    # Registers of sums and of left factors that were written since the last fence.
    unfenced: set[str] = field(default_factory=set)

    @property
    def factors(self) -> set[str]:
        """Registers of left factors that are read until their products end."""
        return {name for readings in [*self.closed, self.open] for reading in readings for name in reading.factor}


@dataclass(frozen=True)
class Matrix:
    """A factor in shared memory, from its descriptor: `across` rows (columns of the right one), of 32 bytes of k."""

    start: int
    leading: int
    stride: int

    @classmethod
    def of(cls, descriptor: int) -> Matrix:
        """The fields of a descriptor, in pieces of 16 bytes."""
        assert descriptor >> 62 == _SWIZZLE_128, f"the machine knows only the swizzle of 128 bytes: {descriptor:#x}"
        assert descriptor >> 49 & 7 == 0, f"the machine knows only tiles at multiples of 1024 bytes: {descriptor:#x}"
        return cls(descriptor & 0x3FFF, descriptor >> 16 & 0x3FFF, descriptor >> 32 & 0x3FFF)

    def deep_pieces(self, across: int) -> np.ndarray:
        """Pieces [across, 2] where neighbours along k lie side by side: groups of eight rows, `stride` apart."""
        row = np.arange(across)[:, None]
        return swizzled(self.start + row // 8 * self.stride + row % 8 * _PIECES + np.arange(2))

    def wide_pieces(self, across: int, depth: int, size: int) -> np.ndarray:
        """Pieces [depth, across * size / 16] where neighbours across do: panels of 128 bytes, `leading` apart."""
        k, piece = np.arange(depth)[:, None], np.arange(across * size // PIECE_BYTES)
        panel = piece // _PIECES * self.leading + piece % _PIECES
        return swizzled(self.start + k // 8 * self.stride + k % 8 * _PIECES + panel)


@dataclass(kw_only=True)
class Warpgroups(Tensors):
    """Blocks whose warpgroups multiply."""

    groups: dict[int, Group] = field(default_factory=dict)

    def finish(self) -> None:
        """What must have ended when a block does."""
        under_way = [*self.transfers, *self.stores.under_way]
        assert not under_way, f"blocks end while {len(under_way)} bulk copies are under way"
        unseen = self.races.unseen_copies()
        assert not unseen, f"blocks end with {unseen} bytes of bulk copies that nobody has waited for"
        for number, group in self.groups.items():
            assert not group.sums, f"warpgroup {number} ends before its products do"

    def _check_registers(self, item: Instruction, lanes: Lanes) -> None:
        """Find uses of sums before they are there, and note which were written."""
        for number in lanes.groups:
            group = self._group(number)
            early = sorted(name for names in group.sums for name in item.registers.intersection(names))
            if early:
                raise AsynchronyError(
                    f"{item.name} on line {item.line} uses {early[0]}, the sums of a product that was not waited for"
                )
            if item.of_products:
                if changed := sorted(item.of_products & group.factors):
                    message = f"writes {changed[0]}, the left factor of a product that was not waited for"
                    raise AsynchronyError(f"{item.name} on line {item.line} {message}")
                group.unfenced.update(item.of_products)

    def _group(self, number: int) -> Group:
        return self.groups.setdefault(number, Group())

    def _do_elect(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        """The first thread of each warp is chosen."""
        leader, is_chosen = operands[0].split("|")
        lane = np.arange(self.threads) % WARP
        self._write(leader, np.zeros(self.threads, np.uint32), active)
        self._write(is_chosen, lane == 0, active)

    def _do_wgmma(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        for number in self._asked(active).groups:
            group = self._group(number)
            if parts[1] == "mma_async":
                self._multiply(parts, operands, number, group)
            elif parts[1] == "fence":
                group.unfenced.clear()
            elif parts[1] == "commit_group":
                group.closed.append(group.open)
                group.open = []
            elif parts[1] == "wait_group":
                self._settle(number, group, int(operands[0]))
                # What lanes had read for products has come: these took it from all of them.
                self.races.meet_lanes(np.arange(number * WARPGROUP, (number + 1) * WARPGROUP))
            else:
                raise AssertionError(f"the machine does not know {'.'.join(parts)}")

    def _settle(self, number: int, group: Group, pending: int) -> None:
        """All groups but the last so many end: nothing that they read may have changed."""
        kept = max(0, len(group.closed) - pending)
        ended, group.closed = group.closed[:kept], group.closed[kept:]
        own = self.own_pieces(int(self.rank[number * WARPGROUP]))
        for reading in (reading for readings in ended for reading in readings):
            if own.take(reading.pieces).tobytes() != reading.content.tobytes():
                raise AsynchronyError(f"shared memory changes while the product of line {reading.line} reads it")
        awaited = {reading.sums for readings in [*group.closed, group.open] for reading in readings}
        for names in [names for names in group.sums if names not in awaited]:
            self._put(number, names, group.sums.pop(names))

    def _multiply(self, parts: list[str], operands: tuple, number: int, group: Group) -> None:
        names, left, right, adds, *rest = operands
        columns, dtypes = _form(".".join(parts))
        assert rest[:2] == ["1", "1"], parts
        thread, adds_up = number * WARPGROUP, bool(self._same(adds, 1, number))
        self._check_sums(group, names, adds_up)
        registers = left if isinstance(left, tuple) else ()
        own, factors = self.own_pieces(int(self.rank[thread])), []
        if registers:
            factors.append(self._left_of_registers(number, group, registers, dtypes[0]))
        in_memory = ((left, ROWS, dtypes[0]), (right, columns, dtypes[1]))[bool(registers) :]
        orders = rest[2:] or ["0"] * len(in_memory)
        for (operand, across, dtype), order in zip(in_memory, orders, strict=True):
            factor, reading = _read_factor(own, self._same(operand, 64, number), across, dtype, order == "1")
            # All four warps read, but the group waits as one: the first stands for it, and a byte for each piece.
            first = int(self.rank[thread]) * self.pitch + reading[0].reshape(-1) * PIECE_BYTES
            self.races.read(self.races.places(first, 1), alone(thread, len(first)))
            factors.append(factor)
            group.open.append(Reading(*reading, names, self.watch.line, registers))
        product = factors[0] @ factors[1].T
        if adds_up:
            product += group.sums[names] if names in group.sums else self._get(number, names)
        group.sums[names] = cut(product)

    def _left_of_registers(self, number: int, group: Group, registers: tuple[str, ...], dtype: type) -> np.ndarray:
        """A left factor [64, k] in f64, from four registers of each thread."""
        if group.unfenced.intersection(registers):
            line = self.watch.line
            raise AsynchronyError(f"no wgmma.fence after what wrote the left factor of the product on line {line}")
        threads, each = slice(number * WARPGROUP, (number + 1) * WARPGROUP), 4 // np.dtype(dtype).itemsize
        words = np.stack([self._read(name, 32)[threads] for name in registers], 1)
        if dtype is np.float32:  # whose last 13 bits nobody reads
            words = words & np.uint32(0xFFFFE000)
        numbers = np.ascontiguousarray(words).view(dtype).astype(np.float64)
        rows, columns = left_places(each)
        factor = np.zeros((ROWS, DEPTH_BYTES // np.dtype(dtype).itemsize))
        factor[rows, columns] = numbers
        return factor

    def _same(self, operand: str, bits: int, number: int) -> int:
        """The value that an operand must have in all threads of a warpgroup."""
        values = self._read(operand, bits)[number * WARPGROUP : (number + 1) * WARPGROUP]
        are_same = values.tobytes() == values[:1].tobytes() * WARPGROUP
        assert are_same, f"{operand} on line {self.watch.line} is not the same in a warpgroup"
        return int(values[0])

    def _check_sums(self, group: Group, names: tuple[str, ...], adds_up: bool) -> None:
        """Products may go on with sums under way, and with what was in registers at the last fence.

        Where sums start anew, nobody reads what was written to their registers before: ptxas drops that.
        """
        if names in group.sums:
            return
        if adds_up and group.unfenced.intersection(names):
            raise AsynchronyError(f"no wgmma.fence after what wrote the sums of the product on line {self.watch.line}")
        if any(set(names).intersection(others) for others in group.sums):
            raise AsynchronyError(f"the product on line {self.watch.line} uses sums of another that was not waited for")

    def _get(self, number: int, names: tuple[str, ...]) -> np.ndarray:
        """Sums [64, n] from the registers of a warpgroup."""
        threads = slice(number * WARPGROUP, (number + 1) * WARPGROUP)
        result = np.zeros((ROWS, 2 * len(names)), np.float32)
        result[fragment_places(len(names))] = [self._read(name, 32, "f")[threads] for name in names]
        return result

    def _put(self, number: int, names: tuple[str, ...], sums: np.ndarray) -> None:
        """The reverse."""
        values = sums[fragment_places(len(names))].view(np.uint32)
        for name, value in zip(names, values, strict=True):
            before = self.registers.get(name)
            whole = np.zeros(self.threads, np.uint32) if before is None else read_as(before, _WORD).copy()
            whole[number * WARPGROUP : (number + 1) * WARPGROUP] = value
            self.registers[name] = whole
            self.writers.pop(name, None)


@cache
def _form(name: str) -> tuple[int, list[type]]:
    """The columns of a product, and the types of its factors."""
    parts = name.split(".")
    found = re.fullmatch(r"m64n(\d+)k(\d+)", parts[4])
    dtypes = [_DTYPES[part] for part in parts[6:8]]
    sizes = {np.dtype(dtype).itemsize for dtype in dtypes}
    assert parts[6] == parts[7] or sizes == {1}, f"{parts} multiplies two types that are no fp8"
    assert found and parts[5] == "f32", parts
    assert int(found[2]) == DEPTH_BYTES // sizes.pop(), parts
    return int(found[1]), dtypes


@cache
def fragment_places(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns [count, 128] of a tile's sums in `count` registers of 128 threads."""
    number, thread = np.arange(count)[:, None], np.arange(WARPGROUP)
    lane = thread % WARP
    rows = thread // WARP * 16 + lane // 4 + number // 2 % 2 * 8
    return rows, number // 4 * 8 + lane % 4 * 2 + number % 2


@cache
def left_places(each: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns [128, 4 * each] of a left factor in four registers of 128 threads, `each` elements in one."""
    thread, place = np.arange(WARPGROUP)[:, None], np.arange(4 * each)
    lane, register = thread % WARP, place // each
    rows = thread // WARP * 16 + lane // 4 + register % 2 * 8
    return rows, lane % 4 * each + register // 2 * 4 * each + place % each


def _read_factor(
    own: np.ndarray, descriptor: int, across: int, dtype: type, is_wide: bool
) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """A factor [across, k] in f64; the pieces of shared memory that it is in, and their bytes."""
    size = np.dtype(dtype).itemsize
    assert size == 2 or not is_wide, "neither tf32 nor fp8 can be transposed"
    pieces = _pieces(descriptor, across, size, is_wide)
    if pieces.max() >= len(own):
        raise MemoryFaultError(f"wgmma reads byte {pieces.max() * own.itemsize} of {own.nbytes} of shared memory")
    content = own.take(pieces)
    numbers = content.view(np.uint8).reshape(len(pieces), -1)
    if dtype is np.float32:  # whose last 13 bits nobody reads
        numbers = (numbers.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.uint8)
    values = numbers.view(dtype).astype(np.float64)
    return values.T if is_wide else values, (pieces, content)


@lru_cache(maxsize=4096)
def _pieces(descriptor: int, across: int, size: int, is_wide: bool) -> np.ndarray:
    """The pieces of shared memory that a factor of elements of so many bytes is in."""
    matrix = Matrix.of(descriptor)
    return matrix.wide_pieces(across, DEPTH_BYTES // size, size) if is_wide else matrix.deep_pieces(across)


def cut(numbers: np.ndarray) -> np.ndarray:
    """f64 as f32, rounded towards zero, as tensor cores round their sums."""
    nearest = numbers.astype(np.float32)
    bits = nearest.view(np.uint32)  # one less is the next number towards zero
    bits -= np.abs(nearest) > np.abs(numbers)
    return nearest
