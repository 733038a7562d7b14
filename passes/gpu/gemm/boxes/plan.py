"""Which results and operands of a product go in boxes, where these are in shared memory, and their tensor maps."""

from __future__ import annotations

from collections.abc import Sequence

from blu.dataclass import dataclass
from blu.dialects.core.mlir import ir
from blu.passes.gpu.gemm.output import can_align
from blu.passes.gpu.gemm.problem import COPY_BYTES, Product
from blu.passes.gpu.gemm.schedule import WgmmaSchedule
from blu.passes.gpu.isa import mbarrier, wgmma
from blu.passes.gpu.isa.tma import TileMap
from blu.passes.gpu.isa.warp import WARP
from blu.passes.gpu.shared import SharedMemory
from blu.passes.kernels.contraction import IndexedBuffer
from blu.passes.kernels.epilogue import ColumnSum, Dims, Epilogue, RangeOfRow

ROWS = 16
BOX_BYTES = ROWS * wgmma.ROW_BYTES
BYTE_ROW = wgmma.ROW_BYTES // 2
"""Bytes of a box's row where numbers are bytes: beside halves they are as many columns."""
ROWS_OF_WARP = 32
"""Those of a tile of 128 rows that one of four warps holds, which add up their columns."""
PLACES = 4
"""Boxes of a warp in shared memory at a time."""
WARPS = 2 * wgmma.THREADS // WARP
"""Those that multiply."""
PAIR = 2
"""Neighbours that a thread holds."""


def reserve_boxes(shared: SharedMemory) -> tuple[int, int]:
    """Offsets of all warps' places in the shared memory of a block, and of their barriers."""
    places = shared.take(WARPS * PLACES * BOX_BYTES, alignment=1024)
    return places, shared.take(WARPS * PLACES * mbarrier.BYTES)


def misfit(product: Product, epilogue: Epilogue, schedule: WgmmaSchedule) -> str:
    """Why boxes do not fit what is fused to a product; "" where they do."""
    if schedule.registers != "none" or schedule.split > 1:
        return "boxes are of whole sums, as products of two factors in shared memory give them"
    if epilogue.row_numbers:
        return "boxes of whole rows are others"
    plan = BoxPlan(product, epilogue, schedule)
    if not plan.outputs or not all(is_in_boxes(product, operand) for operand in (*plan.outputs, *plan.operands)):
        return "boxes are of tensors of 8 or 16 bits or of f32, whose rows begin at multiples of 16 bytes"
    if {operand.element.width for operand in (*plan.outputs, *plan.operands)} not in ({16}, {32}, {8, 16}):
        return "all results and operands in boxes have numbers of as many bits, or bytes are beside halves"
    if plan.each > PLACES:
        return f"a warp has room for {PLACES} boxes, and an element has more results or operands"
    return "" if product.columns % PAIR == 0 else "threads take two columns at a time"


def adds_columns(product: Product, epilogue: Epilogue, schedule: WgmmaSchedule) -> bool:
    """Whether warps add up the columns of their rows, before boxes take these away: each has one range of them."""
    own = schedule.rows // wgmma.ROWS * ROWS
    dims = (product.contraction.rows, product.contraction.columns)
    fits = all(item.length == own and item.target.dims == dims for item in epilogue.sums)
    return schedule.sums == "boxed" and product.rows % schedule.rows == 0 and fits


def adds_rows(product: Product, epilogue: Epilogue, schedule: WgmmaSchedule) -> bool:
    """Whether warps add up their rows of a tile, before boxes take these away: a tile is one range of columns."""
    dims = (product.contraction.rows, product.contraction.columns)
    fits = all(item.length == schedule.columns and item.target.dims == dims for item in epilogue.row_sums)
    return schedule.sums == "boxed" and fits


def is_in_boxes(product: Product, operand: IndexedBuffer) -> bool:
    """Whether a tensor of such numbers has a box for each part of a tile."""
    element = operand.element
    is_byte = isinstance(element, ir.IntegerType) and element.width == 8
    return (is_byte or isinstance(element, ir.BF16Type | ir.F16Type | ir.F32Type)) and has_boxes(product, operand)


def has_boxes(product: Product, operand: IndexedBuffer) -> bool:
    """Whether a tensor has a row for each of a tile, that begins where the copy engine takes it."""
    contraction = product.contraction
    if not {contraction.rows, contraction.columns} <= {*operand.dims} or operand.stride(contraction.columns) != 1:
        return False
    return can_align(operand.buffer, operand.dims.index(contraction.columns), COPY_BYTES)


@dataclass(frozen=True)
class BoxPlan:
    """The boxes of a tile of one warp, in the order in which they are written: down its rows, then along columns.

    A box is 128 bytes of 16 rows: 64 columns of 16 bits, or 32 of f32; or 64 bytes of 16 rows beside 16 bits.
    """

    product: Product
    epilogue: Epilogue
    schedule: WgmmaSchedule
    places: int = PLACES

    @property
    def outputs(self) -> list[IndexedBuffer]:
        return [target for _, target in self.epilogue.outputs]

    @property
    def reads(self) -> list[tuple[ir.Value, Dims]]:
        """What is read in boxes."""
        return self.epilogue.whole_reads

    @property
    def sums(self) -> Sequence[ColumnSum]:
        """The sums down columns of results that warps make."""
        return self.epilogue.sums if adds_columns(self.product, self.epilogue, self.schedule) else ()

    @property
    def row_sums(self) -> Sequence[RangeOfRow]:
        """The sums along rows that warps make."""
        return self.epilogue.row_sums if adds_rows(self.product, self.epilogue, self.schedule) else ()

    @property
    def is_wide(self) -> bool:
        """Whether numbers are f32."""
        return self._widest == 32

    @property
    def columns(self) -> int:
        """Those of a box."""
        return wgmma.ROW_BYTES * 8 // self._widest

    @property
    def _widest(self) -> int:
        return max(operand.element.width for operand in (*self.outputs, *self.operands))

    @property
    def is_mixed(self) -> bool:
        """Whether numbers of operands have other bits than those of results."""
        return len({operand.element.width for operand in (*self.outputs, *self.operands)}) > 1 and bool(self.reads)

    def bytes_of(self, operand: IndexedBuffer) -> int:
        """Those of a box of a tensor."""
        return ROWS * self.columns * operand.element.width // 8

    @property
    def each(self) -> int:
        """Places of the boxes of the same sums: a result takes that of an operand."""
        return max(len(self.outputs), len(self.reads))

    @property
    def ahead(self) -> int:
        """The sums of how many boxes have places."""
        return self.places // self.each

    @property
    def down(self) -> int:
        return self.schedule.rows // wgmma.ROWS

    @property
    def count(self) -> int:
        """The sums of how many boxes a warp has of a tile."""
        return self.down * self.schedule.columns // self.columns

    @property
    def lag(self) -> int:
        """How many boxes later a place is filled again: reading takes its time."""
        return 1 if self.ahead > 2 else 0

    def fillings(self, place: int) -> int:
        """How often a place is filled for a tile."""
        return len(range(place, self.count, self.ahead))

    @property
    def operands(self) -> list[IndexedBuffer]:
        """The same as they lie in memory."""
        return [IndexedBuffer(self.epilogue.buffers[tensor], dims) for tensor, dims in self.reads]

    @property
    def cluster(self) -> int:
        """Blocks that work together."""
        return 1

    @property
    def map_count(self) -> int:
        """How many tensors are read and written."""
        return len(self.outputs) + len(self.reads)

    def maps(self, arguments: Sequence[ir.Value]) -> list[TileMap]:
        """The tensor maps of what is read, then of the results."""
        return [self.map_of(operand, arguments) for operand in (*self.operands, *self.outputs)]

    def outer_of(self, operand: IndexedBuffer) -> list[int]:
        """Which of the products' dims a tensor follows."""
        return [dim for dim in self.product.contraction.outer if operand.stride(dim)]

    def map_of(self, operand: IndexedBuffer, arguments: Sequence[ir.Value]) -> TileMap:
        """The map of the boxes of a tensor."""
        contraction, outer = self.product.contraction, self.outer_of(operand)
        dims = (contraction.columns, contraction.rows, *outer)
        # There is one of something where the stride is 0, and maps have no such strides.
        strides = tuple(operand.stride(dim) or self.columns for dim in dims)
        shape = tuple(contraction.size(dim) for dim in dims)
        box = (self.columns, ROWS, *(1 for _ in outer))
        offset = ir.MemRefType(operand.buffer.type).get_strides_and_offset()[1]
        return TileMap(list(arguments).index(operand.buffer), shape, strides, box, offset, str(operand.element))


@dataclass(frozen=True)
class ClusterPlan:
    """What the blocks of a cluster do with a tile of whole rows, of which each has some columns."""

    product: Product
    epilogue: Epilogue
    schedule: WgmmaSchedule

    @property
    def cluster(self) -> int:
        """Blocks that have a row together."""
        return self.product.columns // self.schedule.columns

    @property
    def row_dims(self) -> Dims:
        return (self.product.contraction.rows,)
