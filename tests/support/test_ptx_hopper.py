"""The interpreter of PTX on Hopper's products: it finds what an H200 would only now and then compute wrongly."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from blu.dialects.targets.nvidia import SM_90A
from blu.passes.gpu.gemm import gemm
from blu.passes.gpu.gemm import wgmma as gemm_wgmma
from blu.passes.gpu.gemm.schedule import WgmmaSchedule
from tests.support.kernels.gemm_text import NN, plain_text
from tests.support.kernels.gpu_products import Launch, as_multiplied, emit, random_array
from tests.support.ptx.memory import MemoryFaultError
from tests.support.ptx.races import RaceError
from tests.support.ptx.schedule import DeadlockError
from tests.support.ptx.tensors import TensorMap
from tests.support.ptx.warpgroup import AsynchronyError

ROWS, COLUMNS, DEPTH = 128, 192, 384
SCHEDULE = WgmmaSchedule("bf16", rows=64, columns=64, stages=2)
BY_REGISTERS = WgmmaSchedule("tf32", rows=32, columns=128, stages=2, registers="right")


@cache
def launch(element: str = "bf16") -> Launch:
    """A product of some tiles by two blocks, through a ring of two stages; of f32 by registers."""
    target, schedule = replace(SM_90A, processors=2), SCHEDULE if element == "bf16" else BY_REGISTERS
    text = plain_text(NN, ROWS, COLUMNS, DEPTH, element)
    (found,) = emit(text, lambda kernel: gemm_wgmma.emit_with(kernel, gemm.read, schedule, target))
    return found


def changed(pattern: str, by: str, count: int = 0, element: str = "bf16") -> Launch:
    """The same with other text in the place of a pattern, which must be there."""
    ptx, times = re.subn(pattern, by, launch(element).ptx, count=count)
    assert times
    return replace(launch(element), ptx=ptx)


def run(kernel: Launch, element: str = "bf16") -> np.ndarray:
    """The largest error of the product."""
    kind = "tf32" if element == "f32" else element
    left, right = random_array((ROWS, DEPTH), kind), random_array((DEPTH, COLUMNS), kind, 1)
    result = np.zeros((ROWS, COLUMNS), np.float32)
    kernel.run(left, right, result)
    return np.abs(result - as_multiplied(left, kind) @ as_multiplied(right, kind)).max()


def test_what_is_not_changed_is_right() -> None:
    assert run(launch()) < 1e-4


@pytest.mark.parametrize(
    ("pattern", "by", "message"),
    [
        (r"wgmma\.wait_group\.sync\.aligned \t0;", "", "the sums of a product that was not waited for"),
        (r"wgmma\.wait_group\.sync\.aligned \t1;", "", "shared memory changes while the product"),
        (r"wgmma\.wait_group\.sync\.aligned \t1;", "wgmma.wait_group.sync.aligned 2;", "shared memory changes"),
        (r"wgmma\.commit_group\.sync\.aligned;", "", "the sums of a product that was not waited for"),
    ],
)
def test_products_that_are_not_waited_for(pattern: str, by: str, message: str) -> None:
    with pytest.raises(AsynchronyError, match=message):
        run(changed(pattern, by))


def test_sums_that_are_written_without_a_fence() -> None:
    """Products that add to what was in registers: here all do, from the first one on."""
    always = changed(r"setp\.eq\.b32 p, %r\d+, 0;", "setp.eq.b32 p, 0, 0;")
    assert run(always) < 1e-4
    with pytest.raises(AsynchronyError, match=r"no wgmma\.fence"):
        run(replace(always, ptx=re.sub(r"wgmma\.fence\.sync\.aligned;", "", always.ptx)))


WAIT = r"wgmma\.wait_group\.sync\.aligned \t1;"


@pytest.mark.parametrize(
    ("pattern", "by", "message"),
    [
        (r"wgmma\.fence\.sync\.aligned;", "", r"no wgmma\.fence after what wrote"),
        (WAIT, "", "shared memory changes while the product|writes %r.*, the left factor of a product"),
        (WAIT, "wgmma.wait_group.sync.aligned 2;", "shared memory changes|the left factor of a product"),
    ],
)
def test_factors_in_registers_that_are_not_kept(pattern: str, by: str, message: str) -> None:
    """Loops use the same registers again, while products that were not waited for still read them."""
    assert run(launch("f32"), "f32") < 3e-4
    with pytest.raises(AsynchronyError, match=message):
        run(changed(pattern, by, element="f32"), "f32")


def test_each_warp_says_that_it_has_read_a_stage() -> None:
    """Phases of a barrier for one arrival are over too early, since four warps arrive."""
    register = re.findall(r"mbarrier\.init\.shared\.b64 \t\[%rd\d+\], (%r\d+);", launch("f32").ptx)[1]
    once = changed(rf"mov\.b32( \t{register}), 4;", r"mov.b32\1, 1;", element="f32")
    with pytest.raises(DeadlockError, match="wait for each other forever"):
        run(once, "f32")


@pytest.mark.parametrize(
    ("pattern", "by", "message"),
    [
        # Nobody says that a stage is empty: the thread that copies waits for it.
        (r"mbarrier\.arrive\.shared\.b64[^;]*;", "", r"thread.* 256 at line \d+, mbarrier.*0 of 1 arrivals"),
        # The first group's turn never comes.
        (
            r"bar\.arrive",
            "bar.warp.sync -1; //",
            r"threads 0-127 at line \d+, bar.sync: barrier 4, to which 128 of",
        ),
        # Fewer bytes come than were announced.
        (r"mov\.b32( \t%r\d+), 16384;", r"mov.b32\1, 16896;", "misses 512 bytes"),
        # Registers that nobody has given back.
        (r"setmaxnreg\.dec\.sync\.aligned\.u32 \t40", "setmaxnreg.dec.sync.aligned.u32 104", "232 registers a thread"),
    ],
)
def test_a_deadlock_names_who_waits_for_what(pattern: str, by: str, message: str) -> None:
    with pytest.raises(DeadlockError, match=message):
        run(changed(pattern, by))


def test_tiles_that_are_not_waited_for() -> None:
    waits = (
        r"(\$L__BB0_\d+):\s*mbarrier\.try_wait\.parity\.shared\.b64 (%p\d+), \[%rd\d+\], %r\d+;\s*not.*\s*@.*bra\s*\1;"
    )
    found = list(re.finditer(waits, launch().ptx))
    last = found[-1]
    ptx = launch().ptx[: last.start()] + launch().ptx[last.end() :]
    with pytest.raises(RaceError, match="a copy is on its way to that has not been waited for"):
        run(replace(launch(), ptx=ptx))


def test_swizzles_and_descriptors_count() -> None:
    """Tiles 16 bytes further, or groups of eight rows at another distance, give other numbers."""
    for constant in set(re.findall(r"46116862933\d{11}\b", launch().ptx)):
        for step in (1, 1 << 32):
            assert run(changed(rf"\b{constant}\b", str(int(constant) + step))) > 1e-2


def test_a_tile_outside_of_shared_memory() -> None:
    with pytest.raises(MemoryFaultError):
        run(replace(launch(), shared_bytes=SCHEDULE.stage_bytes))


def test_tensor_maps_that_the_driver_refuses() -> None:
    right = launch().maps[1]
    for wrong in (
        {"strides": (1, 196)}, {"offset": 4}, {"box": (64, 257)}, {"strides": (2, 192)}, {"box": (32, 64)},
    ):  # fmt: skip
        with pytest.raises(AssertionError):
            replace(right, **wrong).check()
    right.check()


def test_tiles_reach_beyond_tensors_on_all_sides() -> None:
    map_ = TensorMap(0, 8, "f16", (70, 3), (1, 72), (64, 4))
    memory = random_array((8 + 3 * 72,), "f16")
    padded = np.zeros((10, 200), np.float16)
    padded[3:6, 64:134] = np.lib.stride_tricks.as_strided(memory[8:], (3, 70), (144, 2))
    for column, row in ((0, 0), (-8, 1), (64, -2), (72, 3), (-64, -3)):
        found = map_.tile(memory.view(np.uint8), [column, row]).view(np.float16)
        assert np.array_equal(found, padded[row + 3 : row + 7, column + 64 : column + 128])
