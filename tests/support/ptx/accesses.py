"""What threads of the machine of machine.py load and store, one by one or as warps, and copy with `cp.async`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from tests.support.ptx.copies import Copies
from tests.support.ptx.memory import Memory, MemoryFaultError
from tests.support.ptx.program import dtype_of, type_named
from tests.support.ptx.races import RaceError
from tests.support.ptx.registers import Lanes
from tests.support.ptx.schedule import DeadlockError
from tests.support.ptx.warpgroup import Warpgroups

# Numbers of so many bytes, which numpy copies at once, bit by bit; how many bits tell their places from those of bytes.
_WORDS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64, 16: np.complex128}
_SHIFTS = {1: 0, 2: 1, 4: 2, 8: 3, 16: 4}
# `mapa` gives addresses in windows of this size, one for each block of the cluster.
_WINDOW = 1 << 24


class _Base(NamedTuple):
    """A register's addresses in some lanes: what it held then, the indices of their bytes, the least and the last
    address, and all bits that are set in any."""

    held: np.ndarray
    lanes: Lanes
    first: np.ndarray
    least: int
    last: int
    bits: int


@dataclass(kw_only=True)
class Accesses(Warpgroups):
    """Blocks whose threads access memory."""

    memory: Memory
    copies: Copies = field(init=False)
    # By name of a register and space. A register that is written holds another array.
    bases: dict[tuple[str, str], _Base] = field(default_factory=dict)
    # By thread: the counter that it has read last, and what it held.
    polled: dict[int, tuple[int, int]] = field(default_factory=dict)

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

    def _places(self, space: str, operand: str, size: int, lanes: Lanes) -> np.ndarray:
        """Indices [lanes] of the first of the `size` bytes that each of some lanes accesses."""
        name, offset = _base_of(operand)
        base = self.bases.get((name, space))
        if base is None or base.lanes is not lanes or base.held is not self.registers.get(name):
            base = self._base(space, name, lanes)
        least, end = base.least + offset, base.last + offset + size
        inside = self.memory.holds(least, end) if space == "global" else least >= 0 and end <= self.shared_bytes
        if inside and not (base.bits | offset) & size - 1:
            return base.first + offset if offset else base.first
        address = self._address(operand, 64 if space == "global" else 32)
        return self._first_places(space, address, size, lanes.active)[lanes.numbers]

    def _base(self, space: str, name: str, lanes: Lanes) -> _Base:
        address = self._read(name, 64 if space == "global" else 32).astype(np.int64)
        address = address if lanes.are_all else address[lanes.numbers]
        ends = int(np.minimum.reduce(address)), int(np.maximum.reduce(address))
        bits = int(np.bitwise_or.reduce(address))
        first = address if space == "global" else address + self.rank[lanes.numbers] * self.pitch
        found = self.bases[name, space] = _Base(self.registers.get(name, first), lanes, first, *ends, bits)
        return found

    def _do_ld(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        if "acquire" in parts:
            self._acquire(operands, active)
            return
        space, type_, lanes = parts[1], type_named(parts[-1]), self._asked(active)
        if space == "param":
            number = int(re.search(r"_param_(\d+)", operands[1])[1])
            value = np.full(self.threads, self.memory.parameters[number], np.uint64)
            self._write(operands[0], value, active)
            return
        targets = operands[0] if isinstance(operands[0], tuple) else (operands[0],)
        data = self._load(space, operands[1], type_[1] // 8 * len(targets), lanes, is_constant="nc" in parts)
        numbers = self._spread(data, lanes).view(dtype_of(*type_)).reshape(-1, len(targets))
        for name, value in zip(targets, np.ascontiguousarray(numbers.T), strict=True):
            self.put(name, value, lanes)

    def _spread(self, data: np.ndarray, lanes: Lanes) -> np.ndarray:
        """What lanes have as an array with an element for each thread."""
        if lanes.are_all:
            return data
        found = np.zeros(self.threads, data.dtype)
        found[lanes.numbers] = data
        return found

    def _load(
        self, space: str, operand: str, size: int, lanes: Lanes, for_all: bool = False, is_constant: bool = False
    ) -> np.ndarray:
        """Words [lanes] of so many bytes."""
        if space == "shared::cluster":
            address = self._address(operand, 32)
            first = self._first_places(space, address, size, lanes.active)[lanes.numbers]
        else:
            first = self._places(space, operand, size, lanes)
        if space != "global":
            self.races.read(self.races.places(first, size), lanes.numbers, for_all)
            return self.shared.view(_WORDS[size]).take(first >> _SHIFTS[size])
        data = self.memory.bytes.view(_WORDS[size]).take(first >> _SHIFTS[size])
        doubtful = self.watch.read(first, size, lanes.numbers, is_constant)
        if doubtful is None:
            return data
        return np.where(doubtful, 0xFF, data.view(np.uint8).reshape(-1, size)).astype(np.uint8).view(_WORDS[size])[:, 0]

    def _save(self, space: str, operand: str, data: np.ndarray, lanes: Lanes) -> None:
        """Write words [threads] to where an operand says."""
        size = data.dtype.itemsize
        if space == "shared::cluster":
            address = self._address(operand, 32)
            first = self._first_places(space, address, size, lanes.active)[lanes.numbers]
        else:
            first = self._places(space, operand, size, lanes)
        data = data if lanes.are_all else data[lanes.numbers]
        if space.startswith("shared"):
            self.races.write(self.races.places(first, size), lanes.numbers)
        else:
            self.watch.write(first, size, lanes.numbers)
        target = self.memory.bytes if space == "global" else self.shared
        words, places = target.view(data.dtype), first >> _SHIFTS[size]
        words[places] = data
        if words.take(places).tobytes() != data.tobytes():
            raise RaceError(f"lanes write what is not the same to one place of {space} memory")

    def _do_st(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        if parts[1] == "async":
            self._send(operands, active)
            return
        if "release" in parts:
            self._release(operands, active)
            return
        space, bits = parts[1], type_named(parts[-1])[1]
        sources = operands[1] if isinstance(operands[1], tuple) else (operands[1],)
        data = [self._stored(name, bits, self.program.floats) for name in sources]
        words = np.stack(data, -1).view(_WORDS[bits // 8 * len(data)])[:, 0] if len(data) > 1 else data[0]
        self._save(space, operands[0], words, self._asked(active))

    def _release(self, operands: tuple, active: np.ndarray) -> None:
        """Write a counter, by which others know what its thread has seen."""
        first, data = (
            self._first_places("global", self._address(operands[0], 64), 4, active),
            self._read(operands[1], 32),
        )
        for thread in map(int, np.flatnonzero(active)):
            self.watch.release(int(first[thread]), thread)
            self.memory.bytes.view(np.uint32)[first[thread] >> 2] = data[thread]

    def _do_atom(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        """Add to a counter, one thread after the other, by which none of them knows what others have done."""
        assert parts[1:] == ["relaxed", "gpu", "global", "add", "u32"], parts
        first = self._first_places("global", self._address(operands[1], 64), 4, active)
        more, found = self._read(operands[2], 32), np.zeros(self.threads, np.uint32)
        counters = self.memory.bytes.view(np.uint32)
        for thread in map(int, np.flatnonzero(active)):
            found[thread] = counters[first[thread] >> 2]
            counters[first[thread] >> 2] += more[thread]
            self.watch.count(int(first[thread]))
        self._write(operands[0], found, active)

    def _acquire(self, operands: tuple, active: np.ndarray) -> None:
        """Read a counter, and see what the thread that wrote it had seen."""
        first = self._first_places("global", self._address(operands[1], 64), 4, active)
        data = self.memory.bytes.view(np.uint32).take(first >> 2)
        for thread in map(int, np.flatnonzero(active)):
            found = int(first[thread]), int(data[thread])
            if self.polled.get(thread) == found:  # blocks of one cluster run at a time, from the first one on
                raise DeadlockError(f"thread {thread} of block {self.rank[thread]} waits for a block that comes later")
            self.polled[thread] = found
            self.watch.acquire(int(first[thread]), thread)
        self._write(operands[0], data, active)

    def _send(self, operands: tuple, active: np.ndarray) -> None:
        """Bytes arrive when the phase of the barrier that counts them is over."""
        assert self.have_met, "a block sends to another one before it has waited for that one's barriers"
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
        lanes, count = self._asked(active), len(operands[0])
        rows = self._load("shared", operands[1], 16, lanes, for_all=True).view(np.uint16)
        matrices = rows.reshape(-1, 32 // 8, 8, 8)[:, :count]
        if "trans" in parts:
            matrices = matrices.swapaxes(-1, -2)
        pairs = np.ascontiguousarray(matrices).view(np.uint32).reshape(-1, count, 32)
        for name, value in zip(operands[0], np.ascontiguousarray(pairs.swapaxes(0, 1)), strict=True):
            self.put(name, self._spread(value.reshape(-1), lanes), lanes)

    def _do_stmatrix(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        assert parts[3:5] == ["m8n8", "x4"], parts
        pairs = np.stack([self._read(name, 32) for name in operands[1]]).reshape(4, -1, 8, 4)
        if "trans" in parts:
            matrices = np.ascontiguousarray(pairs.astype(np.uint32)).view(np.uint16).reshape(4, -1, 8, 8)
            pairs = np.ascontiguousarray(matrices.swapaxes(-1, -2)).view(np.uint32).reshape(4, -1, 8, 4)
        rows = np.ascontiguousarray(pairs.swapaxes(0, 1)).reshape(-1, 4).view(_WORDS[16])[:, 0]
        self._save("shared", operands[0], rows, self._asked(active))


@cache
def _base_of(operand: str) -> tuple[str, int]:
    """The register or name in an address in brackets, and what is added to it."""
    name, _, offset = operand.strip("[]").replace("+-", "-").replace("-", "+-").partition("+")
    return name, int(offset) if offset else 0
