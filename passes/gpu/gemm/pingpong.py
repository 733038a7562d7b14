"""The sums of tiles by Hopper's warpgroup products, with tiles copied by the copy engine, in blocks that stay.

A block has three warpgroups. One thread of the last copies tiles of both factors into a ring of stages; the other two
take turns: while one multiplies its tile of the result, the other one writes its last tile, so that tensor cores rarely
wait. Blocks walk all tiles of the result, as many blocks as there are multiprocessors.

    copying group      wait for "empty" of a stage -> announce bytes on "full" -> copy both tiles
    multiplying group  wait for its turn -> for each stage: wait for "full", multiply, arrive at "empty" -> give the
                       turn to the other -> write the sums

Why it is so:

- A product of a warpgroup reads both factors from shared memory and sums in registers, and runs on its own once it is
  issued: tensor cores are busy as long as the next tiles are there. The copy engine brings a tile by one instruction of
  one thread, so a single thread keeps all stages under way, and none of those that multiply computes an address.
- A stage has two barriers, since both sides wait for each other: "full" for the bytes to come, "empty" for the last
  product that reads them. A stage is given back one step late: `wait_group(1)` leaves the products of this step under
  way, and says that those of the step before are done.
- While sums are written, a group has nothing for tensor cores. So there are two groups with a tile each, half a turn
  apart. The ring goes on through the tiles of both: a group begins where the other's stages end. Turns keep their
  products from mixing, which would finish both tiles late.
- A thread of a multiplying group holds rows x columns / 128 sums, 192 in a tile of 128 x 192, and the 65,536 registers
  of a multiprocessor are 168 for each of 384 threads. The copying group hands its own on: 40 and twice 232 are three
  times 168.
- Tensor cores keep fewer bits of sums of fp8 than an f32 has. So (unless "fast" is asked for) sums of 128 k start anew
  and are added to the tile's as f32, those of half a tile while the other half is multiplied.
- Blocks stay, one on each multiprocessor, so that barriers, tensor maps and the ring are set up once, and copies of the
  next tile begin while the last one is written. They take tiles in bands of `group` rows, column by column: blocks that
  run at a time then share factors in the L2 cache.

Sources: CUTLASS documentation, "Efficient GEMM" (the "pingpong" kernel); PTX ISA, "wgmma", "setmaxnreg", "mbarrier".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, ir, scf
from blu.passes.gpu import numbers
from blu.passes.gpu.gemm.boxes.writer import Boxes, BoxWriter
from blu.passes.gpu.gemm.output import Staged
from blu.passes.gpu.gemm.register_factor import STEPS, RegisterFactor
from blu.passes.gpu.gemm.ring import Copies, Ring, Walk
from blu.passes.gpu.gemm.schedule import FLOAT8, OF_FLOAT8, WgmmaSchedule
from blu.passes.gpu.gemm.slabs import SLAB, Slabs, SlabWriter, TilePosition, Write
from blu.passes.gpu.isa import barrier, elect, mbarrier, setmaxnreg, shfl, tma, wgmma
from blu.passes.gpu.isa.warp import WARP
from blu.passes.gpu.isa.wgmma import SharedTile
from blu.passes.gpu.kernel import repeat, when
from blu.passes.kernels.epilogue import Known

GROUPS = 3
THREADS = GROUPS * wgmma.THREADS
COPY_REGISTERS, MULTIPLY_REGISTERS = 40, 232
_FEW_COPY_REGISTERS, _MOST_MULTIPLY_REGISTERS = 24, 240
"""Where sums stay in registers while whole rows are looked at, or those of a tile's rows are beside them."""
FORMATS = {"f8E4M3FN": "e4m3", "f8E5M2": "e5m2"}
_TURN, _WRITTEN = 4, 1
"""Named barriers: whose turn it is (4, 5), and those of each writing group (1, 2)."""


@dataclass(frozen=True)
class BlockCode:
    """The code of one block: `maps` are the tensor maps' addresses, `staging` that of the slabs of both groups.

    Tiles are written in `boxes` where there are such.
    """

    walk: Walk
    ring: Ring
    maps: tuple[ir.Value, ir.Value]
    staging: ir.Value
    block: ir.Value
    blocks: int
    thread: ir.Value
    boxes: Boxes | None = None

    @property
    def schedule(self) -> WgmmaSchedule:
        return self.walk.schedule

    def emit(self, write: Callable[[ir.Value], SlabWriter | Write]) -> None:
        """All three groups. `write(thread)` gives what writes a tile, or slabs of it that are staged."""
        with when(numbers.is_equal(self.thread, 0)):
            self.ring.begin()
            if self.boxes is not None:
                self.boxes.begin()
            for map_ in self.maps:
                tma.prefetch_tensormap(map_)
        (barrier.sync if self.boxes is None else self.boxes.wait_for_all)()
        # The same in all threads of a warp, and known to be: branches on it are not divergent.
        number = shfl.idx(numbers.divide(self.thread, wgmma.THREADS), 0)
        branch = scf.IfOp(numbers.is_equal(number, GROUPS - 1), has_else=True)
        copying, multiplying = self._registers
        with ir.InsertionPoint(branch.then_block):
            setmaxnreg.decrease(copying)
            in_group = numbers.remainder(self.thread, wgmma.THREADS)
            first_warp = numbers.is_equal(shfl.idx(numbers.divide(in_group, WARP), 0), 0)
            with when(arith.andi(first_warp, elect.elect_sync())):
                Copies(self.walk, self.ring, self.maps, self.block, self.blocks).emit()
            scf.yield_([])
        with ir.InsertionPoint(branch.else_block):
            setmaxnreg.increase(multiplying)
            in_group = numbers.remainder(self.thread, wgmma.THREADS)
            self._multiply(number, write(in_group) if self.boxes is None else self.boxes.writer(number, in_group))
            scf.yield_([])

    @property
    def _registers(self) -> tuple[int, int]:
        """Those of a thread that copies, and of one that multiplies."""
        keeps_more = self.boxes is not None and self.boxes.keeps_more
        few = _FEW_COPY_REGISTERS, _MOST_MULTIPLY_REGISTERS
        return few if keeps_more else (COPY_REGISTERS, MULTIPLY_REGISTERS)

    # The multiplying groups.
    def _multiply(self, group: ir.Value, write: SlabWriter | Write | BoxWriter) -> None:
        share = self.walk.share(self.block, self.blocks)
        with when(numbers.is_equal(group, 1)):  # the first turn is group 0's
            _pass_turn(numbers.number(0))
        before = numbers.multiply(group, share.steps_of(share.begin))
        start = self.ring.after(numbers.number(0), numbers.number(0), before)
        slabs = Slabs(self.schedule)
        address = numbers.add(self.staging, numbers.multiply(group, slabs.bytes))
        staged = slabs.staged(address)

        def tile(number: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            place, steps = self.walk.place(number, share), share.steps_of(number)
            if isinstance(write, BoxWriter):
                write.ask(place)
            barrier.sync_named(numbers.add(group, _TURN), 2 * wgmma.THREADS)
            stage, phase, *sums = self._sums(carried, steps)
            _pass_turn(numbers.subtract(1, group))
            others = share.steps_of(numbers.add(number, share.stride))
            after = self.ring.after(stage, phase, others)  # the other group's tile lies between
            if isinstance(write, BoxWriter):
                write.write(sums, place, numbers.divide(numbers.subtract(number, begin), 2 * share.stride))
                return after
            put = partial(self._write, group, staged=staged, write=write) if isinstance(write, SlabWriter) else write
            put(sums, place)
            if share.range is not None:
                with when(share.range.is_all_that_is_left(number)):
                    put([numbers.real(0.0)] * len(sums), replace(place, part=numbers.number(2)))
            return after

        begin = numbers.add(share.begin, numbers.multiply(group, share.stride))
        repeat(begin, share.end, 2 * share.stride, start, tile)
        if isinstance(write, BoxWriter):
            write.end()

    def _sums(self, carried: list[ir.Value], steps: ir.Value) -> list[ir.Value]:
        """The stage and phase after a tile, and its sums."""
        count = self.schedule.down // wgmma.ROWS * self.schedule.across // 2
        is_added = self.schedule.instruction == FLOAT8

        def step(number: ir.Value, values: list[ir.Value]) -> list[ir.Value]:
            stage, phase, *sums = values
            mbarrier.wait(self.ring.full(stage), phase)
            if is_added:
                return [*self.ring.following(stage, phase), *self._added_up(stage, sums)]
            if self.schedule.registers != "none":
                return [*self.ring.following(stage, phase), *self._products_by_registers(stage, number, sums)]
            wgmma.fence()
            sums = self._products(stage, number, sums)
            wgmma.commit_group()
            wgmma.wait_group(1)
            with when(numbers.is_below(0, number)):
                self._release(self._before(stage))
            return [*self.ring.following(stage, phase), *sums]

        stage, phase, *sums = repeat(0, steps, 1, [*carried, *[numbers.real(0.0)] * count], step)
        if is_added:
            return [stage, phase, *sums]
        wgmma.wait_group(0)
        self._release(self._before(stage))
        return [stage, phase, *wgmma.tie(sums)]

    def _products(self, stage: ir.Value, number: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
        """All products of a stage, for every 64 rows."""
        product, size = self.walk.product, self.schedule.element_bytes
        left = SharedTile(self.ring.left(stage), product.left.is_deep, self.schedule.panel_bytes)
        right = SharedTile(self.ring.right(stage), product.right.is_deep, self.schedule.panel_bytes)
        first, second = left.descriptor(), right.descriptor()
        results: list[ir.Value] = []
        each = self.schedule.columns // 2
        is_first = arith.extui(numbers.i32(), numbers.is_equal(number, 0))
        down_bytes = wgmma.ROWS * wgmma.ROW_BYTES if product.left.is_deep else self.schedule.panel_bytes
        for part in range(self.schedule.rows // wgmma.ROWS):
            own = sums[part * each : (part + 1) * each]
            for k in range(self.schedule.depth // wgmma.instruction_depth(size)):
                own = wgmma.mma_async(
                    own,
                    wgmma.further(first, part * down_bytes + k * left.step_bytes(size)),
                    wgmma.further(second, k * right.step_bytes(size)),
                    self._element,
                    (left.is_deep, right.is_deep),
                    is_first if k == 0 else 0,
                )
            results += own
        return results

    def _added_up(self, stage: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
        """The sums with those of a stage, in f32: of each half of the tile while the other half is multiplied."""
        first = SharedTile(self.ring.left(stage), True).descriptor()
        second = SharedTile(self.ring.right(stage), True).descriptor()
        halves = [self._half(first, second, *place) for place in self._halves]
        results: list[ir.Value] = []
        for pending, half in zip((1, 0), halves, strict=True):
            wgmma.wait_group(pending)
            before = sums[len(results) : len(results) + len(half)]
            results += [arith.addf(*pair) for pair in zip(before, wgmma.tie(half), strict=True)]
        self._release(stage)
        return results

    @property
    def _halves(self) -> list[tuple[int, int, int]]:
        """The halves of a tile: where each begins in the left factor's tile and in the right one's, and its columns."""
        rows, columns = self.schedule.rows, self.schedule.columns
        if rows > wgmma.ROWS:
            return [(part * wgmma.ROWS * wgmma.ROW_BYTES, 0, columns) for part in range(2)]
        return [(0, part * columns // 2 * wgmma.ROW_BYTES, columns // 2) for part in range(2)]

    def _half(self, first: ir.Value, second: ir.Value, down: int, along: int, columns: int) -> list[ir.Value]:
        """The products of a half of the tile in a stage, a group of their own."""
        wgmma.fence()
        own: list[ir.Value] = []
        for k in range(0, wgmma.ROW_BYTES, wgmma.instruction_depth(1)):
            factors = wgmma.further(first, down + k), wgmma.further(second, along + k)
            if own:
                own = wgmma.mma_async(own, *factors, self._element, (True, True))
            else:
                own = wgmma.mma_async_anew(columns, *factors, self._element, (True, True))
        wgmma.commit_group()
        return own

    @property
    def _element(self) -> str:
        """What the instruction is told of its factors: of fp8 the format of each."""
        if self.schedule.instruction not in OF_FLOAT8:
            return self.schedule.instruction
        factors = (self.walk.product.left, self.walk.product.right)
        return ".".join(FORMATS[str(factor.element)] for factor in factors)

    def _products_by_registers(self, stage: ir.Value, number: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
        """The same with the left factor in registers, filled for some steps while those before are multiplied."""
        tiles = [self.ring.left(stage), self.ring.right(stage)]
        tile, deep = tiles[::-1] if self.schedule.is_turned else tiles
        factor = RegisterFactor.of(numbers.remainder(self.thread, wgmma.THREADS))
        descriptor, size = SharedTile(deep, True).descriptor(), self.schedule.element_bytes
        each = self.schedule.across // 2
        is_first = arith.extui(numbers.i32(), numbers.is_equal(number, 0))
        for first in range(0, self.schedule.depth // wgmma.instruction_depth(size), STEPS):
            steps = range(first, first + STEPS)
            fragments, results = [factor.load(tile, k) for k in steps], []
            wgmma.fence()
            for part in range(len(sums) // each):
                own = sums[part * each : (part + 1) * each]
                for k, registers in zip(steps, fragments, strict=True):
                    right = wgmma.further(descriptor, k * wgmma.ROW_BYTES // 4)
                    own = wgmma.mma_async_of_registers(
                        own, registers[part], right, "tf32", True, is_first if k == 0 else 0
                    )
                results += own
            sums = results
            wgmma.commit_group()
            wgmma.wait_group(1)
            if first == 0:
                with when(numbers.is_below(0, number)):
                    self._release(self._before(stage))
        return sums

    def _before(self, stage: ir.Value) -> ir.Value:
        is_first = numbers.is_equal(stage, 0)
        return arith.select(is_first, numbers.number(self.schedule.stages - 1), numbers.subtract(stage, 1))

    def _release(self, stage: ir.Value) -> None:
        """Let a stage be filled again, once for all that the group's threads read by themselves."""
        each = wgmma.THREADS // self.schedule.readers
        with when(numbers.is_equal(numbers.remainder(self.thread, each), 0)):
            mbarrier.arrive(self.ring.empty(stage))

    def _write(
        self, group: ir.Value, sums: list[ir.Value], place: TilePosition, staged: Staged, write: SlabWriter
    ) -> None:
        """Write the sums of a tile, a slab at a time."""
        in_group = numbers.remainder(self.thread, wgmma.THREADS)
        written = numbers.add(group, _WRITTEN)
        slabs = Slabs(self.schedule)
        places = [self._slab_place(place, first) for first in range(0, self.schedule.across, SLAB)]
        is_whole = self._slab_limit % self.schedule.across == 0
        known: list[Known] | None = None
        for slab, here in enumerate(places):
            barrier.sync_named(written, wgmma.THREADS)  # the slab before has been read
            slabs.stage(staged, in_group, sums, slab)
            barrier.sync_named(written, wgmma.THREADS)
            if is_whole:
                # The next slab is asked for before this one is worked on, once there are registers for both.
                following = places[slab + 1 : slab + 2]
                before = write.read(staged, here) if slab == 0 else known
                known = write.read(staged, *following) if following and slab else None
                write.write(staged, here, before)
                known = write.read(staged, *following) if following and not slab else known
                continue
            begin = here.row if self.schedule.is_turned else here.column
            with when(numbers.is_below(begin, self._slab_limit)):  # the tile may reach beyond the result
                write.write(staged, here, None)

    @property
    def _slab_limit(self) -> int:
        """What slabs are ranges of: columns of the result, or rows."""
        product = self.walk.product
        return product.rows if self.schedule.is_turned else product.columns

    def _slab_place(self, place: TilePosition, first: int) -> TilePosition:
        if self.schedule.is_turned:
            return replace(place, row=numbers.add(place.row, first))
        return replace(place, column=numbers.add(place.column, first))


def _pass_turn(group: ir.Value) -> None:
    """Let a group multiply, without waiting for it."""
    barrier.arrive_named(numbers.add(group, _TURN), 2 * wgmma.THREADS)
