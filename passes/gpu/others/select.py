"""Kernels that find the first few keys of each row in order: what they are first, by bits, and then their order.

A warp has a short row, a block a long one or a piece of one, with all keys in registers. All count together how many
keys are below a limit, whose bits are found from the highest on, until as many as are wanted are; of keys that equal
the limit, those of the first places are taken, whose end is found in the same way. What is taken goes to shared memory,
where each is counted against all others, which gives its place. Pieces leave what they have taken to a next launch.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, func, ir, llvm, memref, scf
from blu.passes.gpu import numbers
from blu.passes.gpu.isa import barrier, shfl
from blu.passes.gpu.isa.warp import WARP
from blu.passes.gpu.kernel import GpuKernel, below, repeat, when
from blu.passes.gpu.others.ranks import THREADS, WARPS, scan_warp
from blu.passes.gpu.others.schedule import SelectSchedule
from blu.passes.gpu.others.tiles import SortedKeys
from blu.passes.gpu.shared import SharedMemory, shared_address
from blu.passes.kernels import lanes as vectors

FEW = 64
"""Keys up to which a warp takes what is wanted of a short row: it compares each with all."""
_SUMS = 2
"""Numbers of each warp that are in shared memory, in turns."""

Values = list[ir.Value]


@dataclass(frozen=True)
class Selection:
    """The first `wanted` of keys [rows, width] in order. `read(frame, row, place)` gives a key.

    `write(frame, row, place, position)` takes where in its row the key is that comes at a place.
    """

    rows: int
    width: int
    wanted: int
    element: ir.IntegerType
    schedule: SelectSchedule
    read: Callable[[GpuKernel, ir.Value, ir.Value], ir.Value]
    write: Callable[[GpuKernel, ir.Value, ir.Value, ir.Value], None]

    @property
    def widths(self) -> list[int]:
        """How many keys of a row each launch reads."""
        found = [self.width]
        while (pieces := ceil(found[-1] / self.schedule.tile)) > 1:
            last = found[-1] - (pieces - 1) * self.schedule.tile
            found.append((pieces - 1) * self.wanted + min(self.wanted, last))
        return found

    @property
    def scratch(self) -> list[ir.MemRefType]:
        """Keys and positions, for each launch but the last."""
        types = (self.element, numbers.i32())
        return [ir.MemRefType.get([self.rows, width], type_) for width in self.widths[1:] for type_ in types]

    def emit(self, kernel: func.FuncOp) -> list[GpuKernel]:
        """The launches, in order."""
        launches, widths = [], self.widths
        for number, width in enumerate(widths):
            is_last = number == len(widths) - 1
            frame = GpuKernel.open(kernel, name=kernel.name.value + ("" if is_last else f"_{number}"))
            _Launch(self, frame, number, width, is_last).emit()
            launches.append(frame)
        return launches


@dataclass(frozen=True)
class _Launch:
    """One launch, which reads `width` keys of each row."""

    selection: Selection
    frame: GpuKernel
    number: int
    width: int
    is_last: bool

    @property
    def pieces(self) -> int:
        return ceil(self.width / self.selection.schedule.tile)

    @property
    def length(self) -> int:
        """The most keys of a piece."""
        return min(self.width, self.selection.schedule.tile)

    @property
    def threads(self) -> int:
        """Those of a team, which has a piece."""
        is_short = self.length <= self.selection.schedule.short and self.selection.wanted <= FEW
        return WARP if is_short else THREADS

    def emit(self) -> None:
        together, pieces = THREADS // self.threads, self.selection.rows * self.pieces
        shared = SharedMemory()
        sums = shared.take(4 * WARPS * _SUMS)
        room = together * self.selection.wanted
        sizes = (self.selection.element.width // 8, 4)
        held = SortedKeys(self.frame, self.selection.element, *(shared.take(room * size) for size in sizes))
        with self.frame.launch((ceil(pieces / together),), THREADS, shared.bytes) as here:
            number = numbers.as_number(here.thread)
            own = numbers.divide(number, self.threads)
            place = arith.addi(arith.muli(here.block[0], vectors.index(together)), _index(own))
            with when(below(place, pieces)):
                row, piece = vectors.split(place, self.pieces)
                team = _Team(self.threads, number, shared_address(self.frame), sums)
                first = numbers.multiply(own, self.selection.wanted)
                _Piece(self, team, held, numbers.number(first), row, numbers.as_number(piece)).emit()

    def key(self, row: ir.Value, place: ir.Value) -> ir.Value:
        """A key as this launch finds it."""
        if not self.number:
            return self.selection.read(self.frame, row, place)
        return memref.load(self.frame.scratch[2 * self.number - 2], [row, _index(place)])

    def position(self, row: ir.Value, place: ir.Value) -> ir.Value:
        """Where in its row it is from."""
        return memref.load(self.frame.scratch[2 * self.number - 1], [row, _index(place)]) if self.number else place

    def leave(self, row: ir.Value, place: ir.Value, key: ir.Value, position: ir.Value) -> None:
        """Write what comes at a place of a row."""
        if self.is_last:
            self.selection.write(self.frame, row, place, position)
            return
        for value, memory in zip((key, position), self.frame.scratch[2 * self.number :], strict=False):
            memref.store(value, memory, [row, _index(place)])


@dataclass(frozen=True)
class _Team:
    """Threads that select together: a warp, or a block."""

    size: int
    thread: ir.Value
    base: ir.Value
    sums: int

    @property
    def number(self) -> ir.Value:
        """The thread's own place."""
        return numbers.remainder(self.thread, self.size)

    @property
    def lane(self) -> ir.Value:
        return numbers.remainder(self.thread, WARP)

    def wait(self) -> None:
        """Wait for all, and see what they wrote to shared memory."""
        if self.size == WARP:
            barrier.warp_sync()
        else:
            barrier.sync()

    def sum(self, value: ir.Value, turn: ir.Value) -> ir.Value:
        """The sum of all threads' values; `turn` is 0 and 1 in turns, from sum to sum."""
        distance = WARP // 2
        while distance:
            value = arith.addi(value, shfl.bfly(value, distance))
            distance //= 2
        if self.size == WARP:
            return value
        total = numbers.number(0)
        for found in self._of_warps(value, turn):
            total = arith.addi(total, found)
        return total

    def before(self, value: ir.Value, turn: ir.Value) -> ir.Value:
        """The sum of the values of all threads before."""
        upto = scan_warp(value, self.lane)
        result = arith.subi(upto, value)
        if self.size == WARP:
            return result
        for warp, found in enumerate(self._of_warps(shfl.idx(upto, WARP - 1), turn)):
            counts = numbers.is_below(numbers.multiply(warp + 1, WARP) - 1, self.thread)
            result = arith.addi(result, arith.select(counts, found, numbers.number(0)))
        return result

    def _of_warps(self, value: ir.Value, turn: ir.Value) -> Values:
        """One number of each warp."""
        first = numbers.add(self.base, numbers.add(numbers.multiply(turn, 4 * WARPS), self.sums))
        with when(numbers.is_equal(self.lane, 0)):
            warp = numbers.divide(self.thread, WARP)
            llvm.store(value, _pointer(numbers.add(first, numbers.multiply(warp, 4))), alignment=4)
        barrier.sync()
        places = [_pointer(numbers.add(first, 4 * warp)) for warp in range(self.size // WARP)]
        return [llvm.load(numbers.i32(), place, alignment=4) for place in places]


@dataclass
class _Piece:
    """What a team does with its piece of a row. What it takes is in `held` from `first` on."""

    launch: _Launch
    team: _Team
    held: SortedKeys
    first: ir.Value
    row: ir.Value
    piece: ir.Value

    def __post_init__(self) -> None:
        """What all of it needs: where in the row the piece begins, its keys and those wanted, the thread's places."""
        size, length, selection = self.team.size, self.launch.length, self.launch.selection
        self._start = numbers.number(numbers.multiply(self.piece, selection.schedule.tile))
        self._count = numbers.smaller(numbers.subtract(self.launch.width, self._start), length)
        self._wanted = numbers.smaller(self._count, selection.wanted)
        items = range(ceil(length / size))
        self._places = [numbers.number(numbers.add(self.team.number, size * item)) for item in items]

    def emit(self) -> None:
        keys = [self._key(place) for place in self._places]
        limit, turn = self._limit(keys)
        smaller = [_is_below(key, limit) for key in keys]
        taken, turn = self._sum(smaller, turn)
        equal = [arith.cmpi(arith.CmpIPredicate.eq, key, limit) for key in keys]
        end, turn = self._end(equal, arith.subi(self._wanted, taken), turn)
        chosen = [
            arith.ori(less, arith.andi(same, numbers.is_below(place, end)))
            for less, same, place in zip(smaller, equal, self._places, strict=True)
        ]
        self._hold(keys, chosen, turn)
        self.team.wait()
        self._write()

    @property
    def _element(self) -> ir.IntegerType:
        return self.launch.selection.element

    def _key(self, place: ir.Value) -> ir.Value:
        """A key as an unsigned number; the largest there is where there is none."""
        existing = numbers.smaller(place, numbers.subtract(self._count, 1))
        key = self.launch.key(self.row, numbers.number(numbers.add(self._start, existing)))
        return arith.select(numbers.is_below(place, self._count), self._flipped(key), self._constant(-1))

    def _flipped(self, key: ir.Value) -> ir.Value:
        """Between signed numbers and unsigned ones in the same order."""
        return arith.xori(key, self._constant(-1 << (self._element.width - 1)))

    def _constant(self, value: int) -> ir.Value:
        return arith.constant(self._element, ir.IntegerAttr.get(self._element, value))

    def _sum(self, conditions: Values, turn: ir.Value) -> tuple[ir.Value, ir.Value]:
        """How many are true, of all threads'; whose turn is next."""
        count = numbers.number(0)
        for condition in conditions:
            count = arith.addi(count, arith.extui(numbers.i32(), condition))
        return self.team.sum(count, turn), arith.xori(turn, numbers.number(1))

    def _limit(self, keys: Values) -> tuple[ir.Value, ir.Value]:
        """Keys below it are taken, no more than are wanted: all of them, or the last is equal to it."""

        def body(limit: ir.Value, bit: ir.Value, turn: ir.Value) -> Values:
            tried = arith.ori(limit, bit)
            count, turn = self._sum([_is_below(key, tried) for key in keys], turn)
            limit = arith.select(_at_most(count, self._wanted), tried, limit)
            rest = arith.shrui(bit, self._constant(1))
            return [limit, arith.select(numbers.is_equal(count, self._wanted), self._constant(0), rest), turn]

        highest = self._constant(-1 << (self._element.width - 1))
        return _by_bits([self._constant(0), highest, numbers.number(0)], body)

    def _end(self, equal: Values, wanted: ir.Value, turn: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The place before which as many as are `wanted` are equal to the limit."""

        def body(end: ir.Value, bit: ir.Value, turn: ir.Value) -> Values:
            tried = arith.ori(end, bit)
            places = zip(equal, self._places, strict=True)
            count, turn = self._sum([arith.andi(same, numbers.is_below(place, tried)) for same, place in places], turn)
            end = arith.select(_at_most(count, wanted), tried, end)
            rest = arith.shrui(bit, numbers.number(1))
            return [end, arith.select(numbers.is_equal(count, wanted), numbers.number(0), rest), turn]

        zero, highest = numbers.number(0), numbers.number(1 << (self.launch.length.bit_length() - 1))
        bit = arith.select(numbers.is_equal(wanted, 0), zero, highest)
        return _by_bits([zero, bit, turn], body)

    def _hold(self, keys: Values, chosen: Values, turn: ir.Value) -> None:
        """Put keys and places in shared memory that are taken, those of a thread side by side."""
        count = numbers.number(0)
        for condition in chosen:
            count = arith.addi(count, arith.extui(numbers.i32(), condition))
        slot = arith.addi(self.first, self.team.before(count, turn))
        for key, place, condition in zip(keys, self._places, chosen, strict=True):
            with when(condition):
                self.held.store(self.team.base, slot, key, place)
            slot = arith.addi(slot, arith.extui(numbers.i32(), condition))

    def _write(self) -> None:
        """Each thread counts what comes before some of the keys that are taken, and writes them there."""

        def body(number: ir.Value, _: Values) -> Values:
            key, place = self._held(number)

            def count(other: ir.Value, found: Values) -> Values:
                other_key, other_place = self._held(other)
                is_earlier = arith.andi(
                    arith.cmpi(arith.CmpIPredicate.eq, other_key, key), numbers.is_below(other_place, place)
                )
                comes_before = arith.ori(_is_below(other_key, key), is_earlier)
                return [arith.addi(found[0], arith.extui(numbers.i32(), comes_before))]

            (rank,) = repeat(0, self._wanted, 1, [numbers.number(0)], count)
            target = numbers.add(numbers.multiply(self.piece, self.launch.selection.wanted), rank)
            position = self.launch.position(self.row, numbers.number(numbers.add(self._start, place)))
            self.launch.leave(self.row, numbers.number(target), self._flipped(key), position)
            return []

        repeat(self.team.number, self._wanted, self.team.size, [], body)

    def _held(self, number: ir.Value) -> tuple[ir.Value, ir.Value]:
        slot = arith.addi(self.first, number)
        return self.held.key(self.team.base, slot), self.held.position(self.team.base, slot)


def _by_bits(carried: Values, body: Callable[..., Values]) -> tuple[ir.Value, ir.Value]:
    """Emit a loop over [found, bit, turn] while there is a bit; what is found, and whose turn is next."""
    types = [value.type for value in carried]
    loop = scf.WhileOp(types, carried)
    before, after = loop.before.blocks.append(*types), loop.after.blocks.append(*types)
    with ir.InsertionPoint(before):
        zero = arith.constant(types[1], ir.IntegerAttr.get(types[1], 0))
        scf.condition(arith.cmpi(arith.CmpIPredicate.ne, before.arguments[1], zero), list(before.arguments))
    with ir.InsertionPoint(after):
        scf.yield_(body(*after.arguments))
    return loop.results[0], loop.results[2]


def _is_below(left: ir.Value, right: ir.Value) -> ir.Value:
    return arith.cmpi(arith.CmpIPredicate.ult, left, right)


def _at_most(left: ir.Value, right: ir.Value) -> ir.Value:
    return arith.cmpi(arith.CmpIPredicate.sle, left, right)


def _index(number: ir.Value) -> ir.Value:
    return arith.index_castui(ir.IndexType.get(), number)


def _pointer(address: numbers.Number) -> ir.Value:
    return llvm.inttoptr(ir.Type.parse("!llvm.ptr<3>"), numbers.number(address))
