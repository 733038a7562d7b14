"""The kernel behind those of a program with checks: it hands over what these have found.

It copies the status slots to page-locked memory, where each of the last runs has a place, and leaves them as they were
before the run. A copy before and one behind a graph would cost more than most kernels of a decoded token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from blu.dataclass import dataclass
from blu.plan.schema import NOTHING_FOUND
from blu.runtime.cuda.block import DeviceBlock
from blu.runtime.cuda.driver.failures import DriverError
from blu.runtime.cuda.driver.launches import BoundLaunch
from blu.runtime.memory import address_of

if TYPE_CHECKING:
    from blu.runtime.cuda.driver.driver import Driver

NAME = "blu_hand_over"
THREADS = 32
_EARLY = 9
"""Major compute capability from which on it begins early, and waits for the kernels before."""
_TEXT = f"""
.version %s
.target sm_%s
.address_size 64

.visible .entry {NAME}(.param .u64 {NAME}_param_0, .param .u64 {NAME}_param_1, .param .u64 {NAME}_param_2)
.reqntid {THREADS}, 1, 1
{{
    .reg .pred %%p<3>;
    .reg .b32 %%r<2>;
    .reg .b64 %%rd<14>;
    ld.param.b64 %%rd1, [{NAME}_param_0];
    ld.param.b64 %%rd2, [{NAME}_param_1];
    ld.param.b64 %%rd3, [{NAME}_param_2];
    mov.u32 %%r1, %%tid.x;
    cvt.u64.u32 %%rd4, %%r1;
    mov.b64 %%rd5, {NOTHING_FOUND};
    %s
    ld.global.b64 %%rd6, [%%rd3];
    ld.global.b64 %%rd7, [%%rd3+8];
    ld.global.b64 %%rd8, [%%rd3+16];
    rem.u64 %%rd9, %%rd6, %%rd7;
    mul.lo.s64 %%rd9, %%rd9, %%rd8;
    shl.b64 %%rd9, %%rd9, 3;
    add.s64 %%rd2, %%rd2, %%rd9;
$next:
    setp.ge.u64 %%p1, %%rd4, %%rd8;
    @%%p1 bra $done;
    shl.b64 %%rd10, %%rd4, 3;
    add.s64 %%rd11, %%rd1, %%rd10;
    ld.global.b64 %%rd12, [%%rd11];
    st.global.b64 [%%rd11], %%rd5;
    add.s64 %%rd11, %%rd2, %%rd10;
    st.global.b64 [%%rd11], %%rd12;
    add.s64 %%rd4, %%rd4, {THREADS};
    bra $next;
$done:
    bar.sync 0;
    setp.eq.u32 %%p2, %%r1, 0;
    add.s64 %%rd6, %%rd6, 1;
    @%%p2 st.global.b64 [%%rd3], %%rd6;
    ret;
}}
"""


def text_for(capability: tuple[int, int]) -> str:
    """PTX for GPUs of this compute capability and later ones."""
    is_early = capability[0] >= _EARLY
    return _TEXT % (("7.8", "90", "griddepcontrol.wait;") if is_early else ("7.0", "70", ""))


@dataclass(frozen=True)
class HandOver:
    """The kernel, and the memory that it works on: the run's number (from 1 on), places and slots; its arguments."""

    launch: BoundLaunch
    runs: DeviceBlock
    pointers: np.ndarray

    @classmethod
    def of(cls, driver: Driver, status: DeviceBlock, found: np.ndarray) -> HandOver | None:
        """Of `status` into `found` [places, slots], in turn; None where the GPU has nothing to assemble it with."""
        function = _function(driver)
        if function is None:
            return None
        runs, first = DeviceBlock(driver, 24, "the number of runs"), np.array([1, *found.shape], np.int64)
        driver.copy_in(runs.address, address_of(first), first.nbytes)
        values = np.array([status.address, address_of(found), runs.address], np.uint64)
        pointers = address_of(values) + 8 * np.arange(len(values), dtype=np.uint64)
        is_early = driver.capability[0] >= _EARLY
        sizes = (1, 1, 1), THREADS, 0
        launch = BoundLaunch(NAME, "", function, *sizes, values, address_of(pointers), is_early)
        return cls(launch, runs, pointers)


def _function(driver: Driver) -> object | None:
    """The kernel, which is loaded once."""
    if driver.hands_over and driver.hand_over is None:
        try:
            module = driver.load_module(text_for(driver.capability).encode())
            driver.hand_over = driver.function(module, NAME, 0)
        except DriverError:
            driver.hands_over = False
    return driver.hand_over
