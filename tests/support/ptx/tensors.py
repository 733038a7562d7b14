"""Bulk copies of tiles that tensor maps describe, for the interpreter of PTX.

Source: PTX ISA, "cp.async.bulk.tensor", "Tensor swizzling modes".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial

import ml_dtypes
import numpy as np

from tests.support.ptx.program import PIECE_BYTES
from tests.support.ptx.races import alone
from tests.support.ptx.schedule import Schedule
from tests.support.ptx.stores import Stores

MAP_BYTES = 128
ROW_BYTES, BYTES_OF_I8 = 128, 64
"""Of a tile's row in shared memory, which is swizzled, and where elements are bytes (i8)."""
_ELEMENTS = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32, "tf32": np.float32,
             "f8e4m3": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2, "i8": np.int8}  # fmt: skip


@dataclass(frozen=True)
class TensorMap:
    """Tiles of `box` elements of a tensor in the buffer of number `buffer`, innermost dimension first.

    `offset` and `strides` are in elements. Elements of "tf32" are f32, rounded as they are read.
    """

    buffer: int
    offset: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]

    def check(self) -> None:
        """What the driver refuses to encode."""
        size = self.element_bytes
        assert 1 <= len(self.shape) == len(self.strides) == len(self.box) <= 5, self
        assert self.strides[0] == 1 and self.offset * size % PIECE_BYTES == 0, self
        steps = [stride * size for stride in self.strides[1:]]
        assert all(0 < step < 1 << 40 and step % PIECE_BYTES == 0 for step in steps), self
        assert all(1 <= extent <= 256 for extent in self.box) and all(1 <= each < 1 << 32 for each in self.shape), self
        assert self.box[0] * size == self.row_bytes, f"the machine knows only rows of {self.row_bytes} bytes: {self}"

    @property
    def element_bytes(self) -> int:
        """Bytes of an element."""
        return np.dtype(_ELEMENTS[self.dtype]).itemsize

    @property
    def row_bytes(self) -> int:
        """Bytes of a tile's row."""
        return BYTES_OF_I8 if self.dtype == "i8" else ROW_BYTES

    def swizzled(self, pieces: np.ndarray) -> np.ndarray:
        """Where pieces of 16 bytes of shared memory are, given the place that they would have row after row."""
        return swizzled(pieces) if self.row_bytes == ROW_BYTES else pieces ^ (pieces >> 3 & 3)

    def tile(self, memory: np.ndarray, place: list[int]) -> np.ndarray:
        """The bytes [rows, row_bytes] of the tile that begins at `place`; zeros for what is outside of the tensor."""
        if self._is_inside(place):
            size, dtype = self.element_bytes, f"u{self.element_bytes}"
            start = self.offset + sum(first * stride for first, stride in zip(place, self.strides, strict=True))
            steps = tuple(stride * size for stride in self.strides[::-1])
            found = np.ndarray(self.box[::-1], dtype, memory, start * size, steps).copy()
        else:
            elements = self._as_elements(memory)
            offsets, exists = self._elements(place)
            found = np.where(exists, elements[np.where(exists, offsets, 0)], 0).astype(elements.dtype)
        if self.dtype == "tf32":  # to nearest, ties away from zero
            found = (found + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
        return np.ascontiguousarray(found).view(np.uint8).reshape(-1, self.row_bytes)

    @property
    def unit(self) -> int:
        """Bytes, at multiples of as many, that are read or written together, if tiles begin at multiples of them."""
        return int(np.gcd.reduce([PIECE_BYTES, *(item * self.element_bytes for item in self._inner)]))

    @property
    def _inner(self) -> tuple[int, ...]:
        return self.offset, self.shape[0], self.box[0]

    def rows(self, place: list[int]) -> tuple[np.ndarray, int]:
        """At which bytes of the buffer rows of a tile begin, and the bytes of each, as far as they exist."""
        if self._is_inside(place):
            start = sum(first * stride for first, stride in zip(place, self.strides, strict=True))
            return self._row_steps + start * self.element_bytes, self.row_bytes
        first, end = max(place[0], 0), min(place[0] + self.box[0], self.shape[0])
        offsets, exists = np.array([self.offset + first]), np.array([end > first])
        for begin, extent, size, stride in list(zip(place, self.box, self.shape, self.strides, strict=True))[:0:-1]:
            index = begin + np.arange(extent)
            offsets = (offsets[..., None] + index * stride).reshape(-1)
            exists = (exists[..., None] & (index >= 0) & (index < size)).reshape(-1)
        return offsets[exists] * self.element_bytes, (end - first) * self.element_bytes

    def put(self, memory: np.ndarray, place: list[int], rows: np.ndarray) -> None:
        """Write the bytes [rows, row_bytes] of the tile that begins at `place`, as far as the tensor has it."""
        offsets, exists = self._elements(place)
        data = np.ascontiguousarray(rows).reshape(-1).view(f"u{self.element_bytes}").reshape(exists.shape)
        self._as_elements(memory)[offsets[exists]] = data[exists]

    @cached_property
    def _steps(self) -> np.ndarray:
        """How far the elements of a tile are from its first, outermost dimension first."""
        return self._elements([0] * len(self.box))[0] - self.offset

    @cached_property
    def _row_steps(self) -> np.ndarray:
        """At which bytes of the buffer rows of the tile at the tensor's begin do."""
        return self.offset * self.element_bytes + self._steps[..., 0].reshape(-1) * self.element_bytes

    def _is_inside(self, place: list[int]) -> bool:
        """Whether all elements of a tile exist."""
        sizes = zip(place, self.box, self.shape, strict=True)
        return all(first >= 0 and first + extent <= size for first, extent, size in sizes)

    def _elements(self, place: list[int]) -> tuple[np.ndarray, np.ndarray]:
        """Where the elements of a tile are, and which of them exist, outermost dimension first."""
        offsets, exists = np.array(self.offset), np.array(True)
        for first, extent, size, stride in list(zip(place, self.box, self.shape, self.strides, strict=True))[::-1]:
            index = first + np.arange(extent)
            offsets = offsets[..., None] + index * stride
            exists = exists[..., None] & (index >= 0) & (index < size)
        return offsets, exists

    def _as_elements(self, memory: np.ndarray) -> np.ndarray:
        return memory[: len(memory) // self.element_bytes * self.element_bytes].view(f"u{self.element_bytes}")


def _put(target: np.ndarray, adds: bool, rows: np.ndarray) -> None:
    """Write bytes, or add them as f32."""
    if adds:
        target.view(np.float32)[:] += np.ascontiguousarray(rows).reshape(-1).view(np.float32)
    else:
        target[:] = rows.reshape(-1)


def swizzled(pieces: np.ndarray) -> np.ndarray:
    """Where pieces of 16 bytes of shared memory are, given the place that they would have in rows of 128 bytes."""
    return pieces ^ (pieces >> 3 & 7)


@dataclass(kw_only=True)
class Tensors(Schedule):
    """Blocks whose threads start bulk copies; `maps` are the tensor maps and their buffers' bytes, by address."""

    shared: np.ndarray = field(init=False)
    shared_bytes: int
    maps: dict[int, tuple[TensorMap, np.ndarray]] = field(default_factory=dict)
    stores: Stores = field(init=False)

    @property
    def pitch(self) -> int:
        """Bytes from a block's shared memory to the next one's: those of the block in whole pieces."""
        return -(-self.shared_bytes // PIECE_BYTES) * PIECE_BYTES

    def _do_prefetch(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        for address in np.unique(self._address(operands[0], 64)[active]):
            self._map_at(int(address))

    def _map_at(self, address: int) -> tuple[TensorMap, np.ndarray]:
        assert address in self.maps, f"there is no tensor map at {address}"
        return self.maps[address]

    def _copy_bulk(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        """Copy a tile to shared memory for each active thread; a barrier counts its bytes as they come."""
        if parts[3] == "prefetch":
            self._prefetch_range(operands, active)
            return
        if "shared::cta" in parts and "tensor" not in parts:
            self._send_range(parts, operands, active)
            return
        if parts[3] != "tensor":
            self._copy_range(parts, operands, active)
            return
        if parts[5] == "global":
            self._store_tensor(parts, operands, active)
            return
        assert parts[3] == "tensor" and parts[5:8] == ["shared::cluster", "global", "tile"], parts
        assert "multicast::cluster" not in parts and len(operands) == 3, f"the machine does not know {'.'.join(parts)}"
        addresses, place = self._tile_of(operands[1])
        targets = self._first_places("shared", self._address(operands[0], 64), ROW_BYTES, active)
        barriers = self._barrier_places(operands[2], active)
        for thread in np.flatnonzero(active):
            map_, memory = self._map_at(int(addresses[thread]))
            assert parts[4] == f"{len(map_.box)}d", f"{'.'.join(parts)} of {map_}"
            first = [int(item[thread]) for item in place]
            rows = map_.tile(memory, first)
            self._watch_tile(map_, first, int(thread), self.watch.read_now)
            self._transfer(int(thread), int(targets[thread]), rows, int(barriers[thread]), map_.swizzled)

    def _watch_tile(self, map_: TensorMap, tile: list[int], thread: int, access: Callable[..., None]) -> None:
        """Note that a thread lets a tile be read or written."""
        first, size = map_.rows(tile)
        if len(first):
            access(first + self.memory.starts[map_.buffer], size, np.full(len(first), thread))

    def _tile_of(self, operand: str) -> tuple[np.ndarray, list[np.ndarray]]:
        """The addresses of a tensor map, and where tiles begin."""
        name, _, coordinates = operand.strip("[]").partition(",")
        place = [self._read(item.strip(), 32, "s") for item in coordinates.strip(" {}").split(",")]
        return self._read(name.strip(), 64), place

    def _store_tensor(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        """Copy a tile from shared memory, for each active thread, in one of its groups of copies."""
        assert parts[5:] == ["global", "shared::cta", "tile", "bulk_group"], parts
        addresses, place = self._tile_of(operands[0])
        sources = self._first_places("shared", self._address(operands[1], 64), ROW_BYTES, active)
        for thread in np.flatnonzero(active):
            map_, memory = self._map_at(int(addresses[thread]))
            assert parts[4] == f"{len(map_.box)}d", f"{'.'.join(parts)} of {map_}"
            start, first = int(self.rank[thread]) * self.pitch, int(sources[thread])
            count = int(np.prod(map_.box)) * map_.element_bytes // PIECE_BYTES
            where = map_.swizzled((first - start) // PIECE_BYTES + np.arange(count))
            tile = [int(item[thread]) for item in place]
            send = partial(map_.put, memory, tile)
            self._watch_tile(map_, tile, int(thread), partial(self.watch.write, is_over=False))
            self.stores.begin(start + where * PIECE_BYTES, send, int(thread))

    def _send_range(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        """Copy bytes from shared memory as they lie, or add them as f32, in a group of copies of each active thread."""
        adds = parts[1] == "reduce"
        kinds = ["global", "shared::cta", "bulk_group", *(["add", "f32"] if adds else [])]
        assert parts[3 + adds :] == kinds, parts
        size = self._read(operands[2], 32)
        sources = self._first_places("shared", self._address(operands[1], 32), PIECE_BYTES, active)
        for thread in np.flatnonzero(active):
            count, own = int(size[thread]), np.arange(self.threads) == thread
            assert count and count % PIECE_BYTES == 0, f"{count} bytes are copied"
            first = int(self._first_places("global", self._address(operands[0], 64), count, own, PIECE_BYTES)[thread])
            self.watch.write(np.array([first]), count, np.array([thread]), is_over=False)
            send = partial(_put, self.memory.bytes[first : first + count], adds)
            over = partial(self.watch.end_copy, first, count)
            self.stores.begin(int(sources[thread]) + np.arange(0, count, PIECE_BYTES), send, int(thread), over)

    def _end_stores(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        if parts[3] == "commit_group":
            self.stores.commit(active)
        else:
            assert parts[4:] in (["read"], []), parts
            self.stores.wait(active, int(operands[0]), is_over=not parts[4:])

    def _prefetch_range(self, operands: tuple, active: np.ndarray) -> None:
        """Only memory that there is may be brought into the cache."""
        size = self._read(operands[1], 32)
        for thread in np.flatnonzero(active):
            count, own = int(size[thread]), np.arange(self.threads) == thread
            assert count and count % PIECE_BYTES == 0, f"{count} bytes are prefetched"
            self._first_places("global", self._address(operands[0], 64), count, own, PIECE_BYTES)

    def _copy_range(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        """Copy bytes as they lie, for each active thread."""
        assert parts[3:] == ["shared::cluster", "global", "mbarrier::complete_tx::bytes"], parts
        size = self._read(operands[2], 32)
        targets = self._first_places("shared", self._address(operands[0], 64), PIECE_BYTES, active)
        barriers = self._barrier_places(operands[3], active)
        for thread in np.flatnonzero(active):
            count, own = int(size[thread]), np.arange(self.threads) == thread
            assert count and count % PIECE_BYTES == 0, f"{count} bytes are copied"
            first = int(self._first_places("global", self._address(operands[1], 64), count, own, PIECE_BYTES)[thread])
            rows = self.memory.bytes[first : first + count]
            self.watch.read_now(np.array([first]), count, np.array([thread]))
            self._transfer(int(thread), int(targets[thread]), rows, int(barriers[thread]))

    def _transfer(
        self, thread: int, first: int, rows: np.ndarray, barrier: int, swizzle: Callable[..., np.ndarray] | None = None
    ) -> None:
        """Send rows to shared memory from a place on, where nothing can be read until they have come."""
        start = int(self.rank[thread]) * self.pitch
        where = (first - start) // PIECE_BYTES + np.arange(rows.size // PIECE_BYTES)
        where = where if swizzle is None else swizzle(where)
        assert where.max() < self.shared_bytes // PIECE_BYTES, f"{rows.size} bytes are copied to {first - start}"
        first = start + where * PIECE_BYTES
        self.begin_copy(first, PIECE_BYTES, thread)
        deliver = partial(self.deliver, first, rows.reshape(-1).view(f"V{PIECE_BYTES}"), barrier)
        self.transfers.append(partial(self._barrier(barrier).count, rows.size, deliver))

    def begin_copy(self, first: np.ndarray, size: int, thread: int) -> None:
        """A thread begins to copy pieces to the places `first`, where nothing can be read until they have come."""
        self.races.begin_copy(self.races.places(first, size), alone(thread, len(first)))
        self.shared.reshape(-1, size)[first // size] = 0xFF

    def deliver(self, first: np.ndarray, data: np.ndarray, barrier: int) -> None:
        """Pieces that a barrier has counted are there."""
        size = data.dtype.itemsize
        self.shared.view(data.dtype)[first // size] = data
        self.races.end_counted_copy(self.races.places(first, size), barrier)

    def own_pieces(self, rank: int) -> np.ndarray:
        """The shared memory of a block in pieces of 16 bytes, as a view."""
        count = self.shared_bytes // PIECE_BYTES
        return self.shared[rank * self.pitch :][: count * PIECE_BYTES].view(f"V{PIECE_BYTES}")
