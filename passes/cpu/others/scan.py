"""Kernels that carry a value along each row, or along the columns of a matrix, in one walk.

Along a row, a vector of elements is scanned in registers (log2(lanes) shuffles) and joined with what was carried so
far, so that each vector waits for the one before by a single step. Columns are carried side by side, in lanes. Rows
that are few and long are cut into pieces: a first launch finds what each piece comes to, a second one begins each
piece with what those before it came to. How rows are cut depends on shapes alone, so results do not depend on the
number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, func, ir, memref, scf, vector
from blu.dialects.targets.cpu import CpuTarget
from blu.passes.cpu.kernel import KernelBody, for_range, open_kernel
from blu.passes.cpu.others.schedule import SCAN_KINDS, ColumnScansSchedule, PieceScansSchedule, RowScansSchedule
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.scan_body import ScanBody
from blu.passes.kernels.schedules import schedule_of

ELEMENTS_PER_CLAIM = 8192
"""What a thread takes of columns at a time."""


def reserve(kernel: func.FuncOp) -> list[ir.MemRefType]:
    """What the pieces of each row come to, for a kernel that is still on tensors."""
    schedule, body = schedule_of(kernel, SCAN_KINDS), ScanBody.of(kernel)
    if not isinstance(schedule, PieceScansSchedule):
        return []
    rows, width = body.nest.sizes
    return [ir.MemRefType.get([rows, ceil(width / schedule.length)], type_) for type_ in body.types]


def emit(kernel: func.FuncOp, target: CpuTarget) -> list[func.FuncOp]:
    """Replace a kernel around a scan, as its schedule says."""
    schedule, body = schedule_of(kernel, SCAN_KINDS), ScanBody.of(kernel)
    lanes = target.lanes(max(_bytes(type_) for type_ in body.types))
    with kernel.location:
        if isinstance(schedule, ColumnScansSchedule):
            return _emit_columns(kernel, body, lanes, schedule.vectors)
        if isinstance(schedule, PieceScansSchedule):
            return _emit_pieces(kernel, body, lanes, schedule.length)
        assert isinstance(schedule, RowScansSchedule), "there is no other kind"
        return _emit_rows(kernel, body, lanes, schedule.rows)


def _bytes(type_: ir.Type) -> int:
    return max(8, type_.width) // 8


@dataclass(frozen=True)
class _Walk:
    """What all walks over a scan's buffers share."""

    frame: KernelBody
    body: ScanBody
    lanes: int

    def start(self, row: Sequence[ir.Value]) -> list[ir.Value]:
        """What is carried into a row: scalars, which are the same for all rows."""
        return self.body.read_starts(self.frame.buffers, row)

    def lifted(self, indices: Sequence[ir.Value], along: int, lanes: int, count: int = 0) -> list[ir.Value]:
        """What the elements at some indices of the loops bring: `lanes` of them along a loop, or one scalar (0)."""
        elements = []
        for tensor, dims in zip(self.body.nest.inputs, self.body.nest.dims, strict=False):
            elements.append(_read(self.frame.buffers[tensor], dims or (), indices, along, lanes, count))
        places = list(indices)
        if lanes:
            places[along] = vectors.lane_indices(indices[along], lanes)
        return self.body.lift(elements, places)

    def write(self, totals: list[ir.Value], indices: Sequence[ir.Value], along: int, count: int = 0) -> None:
        """Write what the elements at some indices have come to."""
        results, memory = list(self.body.nest.operation.results), dict(self.frame.outputs)
        kept = self.body.nest.dims[len(self.body.nest.inputs) :]
        for number, value in zip(self.body.written, self.body.finish(totals), strict=True):
            dims, buffer = list(kept[number] or ()), memory.get(results[number])
            where = [indices[dim] for dim in dims]
            if buffer is None:  # nobody reads it
                continue
            if vectors.is_vector(value):
                vectors.store_along(value, buffer, where, dims.index(along), count or None)
            else:
                memref.store(value, buffer, where)

    def row(self, row: ir.Value, begin: ir.Value, end: ir.Value, carry: list, writes: bool) -> list[ir.Value]:
        """Walk over a part of a row that is contiguous in the order of the loops; what it has come to."""
        whole = arith.subi(arith.subi(end, begin), arith.remui(arith.subi(end, begin), vectors.index(self.lanes)))
        middle = arith.addi(begin, whole)
        with for_range(begin, middle, self.lanes, carried=carry) as loop:
            where = [row, loop.induction_variable]
            local = self._scanned(self.lifted(where, 1, self.lanes))
            before = list(loop.inner_iter_args)
            if writes:
                self.write(self.body.combine([vectors.splat(item, self.lanes) for item in before], local), where, 1)
            last = [vector.extract(item, [], [self.lanes - 1]) for item in local]
            scf.yield_(self.body.combine(before, last))
        with for_range(middle, end, carried=list(loop.results)) as loop:
            where = [row, loop.induction_variable]
            total = self.body.combine(list(loop.inner_iter_args), self.lifted(where, 1, 0))
            if writes:
                self.write(total, where, 1)
            scf.yield_(total)
        return list(loop.results)

    def _scanned(self, values: list[ir.Value]) -> list[ir.Value]:
        """A scan of the lanes of vectors."""
        distance = 1
        while distance < self.lanes:
            moved = [_shifted(value, distance) for value in values]
            joined = self.body.combine(moved, values)
            inside = _from(self.lanes, distance)
            values = [arith.select(inside, new, old) for new, old in zip(joined, values, strict=True)]
            distance *= 2
        return values

    def columns(self, outer: ir.Value, first: ir.Value, counts: Sequence[int]) -> None:
        """Walk along all of some columns, which are vectors of so many each."""
        carry = [vectors.splat(item, self.lanes) for _ in counts for item in self.start([outer, first])]
        places = [vectors.offset(first, number * self.lanes) for number in range(len(counts))]
        with for_range(0, self.body.nest.sizes[2], carried=carry) as loop:
            carried, totals = list(loop.inner_iter_args), []
            each = len(self.body.types)
            for number, (place, count) in enumerate(zip(places, counts, strict=True)):
                where = [outer, place, loop.induction_variable]
                before = carried[number * each : (number + 1) * each]
                total = self.body.combine(before, self.lifted(where, 1, self.lanes, count))
                self.write(total, where, 1, count)
                totals += total
            scf.yield_(totals)


def _read(
    buffer: ir.Value, dims: Sequence[int], indices: Sequence[ir.Value], along: int, lanes: int, count: int
) -> ir.Value:
    where = [indices[dim] for dim in dims]
    if not lanes or along not in dims:
        return memref.load(buffer, where)
    return vectors.load_along(buffer, where, list(dims).index(along), lanes, count or None)


def _shifted(value: ir.Value, distance: int) -> ir.Value:
    """Each lane's value moved up by `distance` lanes; the first ones keep theirs."""
    lanes = ir.VectorType(value.type).shape[0]
    places = [max(lane - distance, 0) for lane in range(lanes)]
    return vector.shuffle(value, value, ir.DenseI64ArrayAttr.get(places))


def _from(lanes: int, first: int) -> ir.Value:
    """A mask whose lanes from `first` on are on."""
    bit = ir.IntegerType.get_signless(1)
    bits = [ir.IntegerAttr.get(bit, int(lane >= first)) for lane in range(lanes)]
    type_ = vectors.vector_type(lanes, bit)
    return arith.constant(type_, ir.DenseElementsAttr.get(bits, type_))


def _emit_rows(kernel: func.FuncOp, body: ScanBody, lanes: int, share: int) -> list[func.FuncOp]:
    """Blocks are runs of rows."""
    rows, width = body.nest.sizes
    frame = open_kernel(kernel)
    walk = _Walk(frame, body, lanes)
    with frame.grid(ceil(rows / share)) as block:
        first = arith.muli(block, vectors.index(share))
        last = arith.minui(vectors.offset(first, share), vectors.index(rows))
        with for_range(first, last) as loop:
            row = loop.induction_variable
            walk.row(row, vectors.index(0), vectors.index(width), walk.start([row]), writes=True)
    return [frame.replacement]


def _emit_pieces(kernel: func.FuncOp, body: ScanBody, lanes: int, length: int) -> list[func.FuncOp]:
    """Blocks are pieces of rows. A first launch finds what each piece comes to, the second one writes."""
    rows, width = body.nest.sizes
    pieces = ceil(width / length)
    totals = _Walk(open_kernel(kernel, f"{kernel.name.value}_totals"), body, lanes)
    scans = _Walk(open_kernel(kernel), body, lanes)
    with totals.frame.grid(rows * pieces, is_last=False) as block:
        row, piece = vectors.split(block, pieces)
        begin, end = _bounds(body, piece, length)
        first = totals.lifted([row, begin], 1, 0)
        total = totals.row(row, vectors.offset(begin, 1), end, first, writes=False)
        for value, memory in zip(total, totals.frame.scratch, strict=True):
            memref.store(value, memory, [row, piece])
    with scans.frame.grid(rows * pieces) as block:
        row, piece = vectors.split(block, pieces)
        begin, end = _bounds(body, piece, length)
        with for_range(0, piece, carried=scans.start([row])) as loop:
            part = [memref.load(memory, [row, loop.induction_variable]) for memory in scans.frame.scratch]
            scf.yield_(body.combine(list(loop.inner_iter_args), part))
        scans.row(row, begin, end, list(loop.results), writes=True)
    return [totals.frame.replacement, scans.frame.replacement]


def _bounds(body: ScanBody, piece: ir.Value, length: int) -> tuple[ir.Value, ir.Value]:
    """Where a piece of a row begins and ends."""
    width = body.nest.sizes[1]
    begin = arith.muli(piece, vectors.index(length))
    return begin, arith.minui(vectors.offset(begin, length), vectors.index(width))


def _emit_columns(kernel: func.FuncOp, body: ScanBody, lanes: int, count: int) -> list[func.FuncOp]:
    """Blocks are strips of columns."""
    outer, inner, width = body.nest.sizes
    strip = count * lanes
    whole, rest = divmod(inner, strip)
    strips = whole + (rest > 0)
    frame = open_kernel(kernel)
    walk = _Walk(frame, body, lanes)
    with frame.grid(outer * strips, chunk=max(1, ELEMENTS_PER_CLAIM // (strip * width))) as block:
        row, number = vectors.split(block, strips)
        first = arith.muli(number, vectors.index(strip))
        choice = scf.IfOp(arith.cmpi(arith.CmpIPredicate.ult, number, vectors.index(whole)), has_else=True)
        with ir.InsertionPoint(choice.then_block):
            walk.columns(row, first, [lanes] * (count if whole else 0))
            scf.yield_([])
        with ir.InsertionPoint(choice.else_block):
            walk.columns(row, first, [min(lanes, rest - done) for done in range(0, rest, lanes)])
            scf.yield_([])
    return [frame.replacement]
