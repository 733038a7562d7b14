"""Convolutions on GPUs: one product for all places of a window, which are rows of what is read, in the interpreter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import blu
from blu.compiler.codegen.cubins import find_ptxas
from blu.dialects.ops.convolution.convolution import Convolution
from tests.support.kernels.gpu_products import as_multiplied, bound_of_sums, random_array
from tests.support.kernels.gpu_program import GpuProgram, compile_program

TILE = {"kind": "wgmma", "rows": 64, "columns": 64, "stages": 2}
TURNED = {"kind": "wgmma", "rows": 32, "columns": 128, "stages": 3, "registers": "right"}
"""Of tf32: weights lie across k."""
UNITS = {"bf16": 2**-8, "f16": 2**-11}
"""How far results may be rounded."""


@dataclass(frozen=True)
class Window:
    """A convolution of [2, height, width, channels] with `filter`, all the same along each dimension but for these."""

    size: tuple[int, int]
    channels: int
    features: int
    filter: tuple[int, int] = (3, 3)
    padding: int = 0
    dilation: int = 1
    stride: int = 1
    groups: int = 1

    def arrays(self, kind: str) -> tuple[np.ndarray, np.ndarray]:
        """x and the weight, in the layouts of kernels."""
        x = random_array((2, *self.size, self.channels), kind)
        return x, random_array((*self.filter, self.channels // self.groups, self.features), kind, 1)

    @property
    def attributes(self) -> dict[str, Any]:
        """All of the op's but its precision."""
        along = {"strides": self.stride, "low": self.padding, "high": self.padding, "dilation": self.dilation}
        wide = {name: (value, value) for name, value in along.items()}
        return {**wide, "spread": (1, 1), "groups": self.groups}

    @property
    def rows(self) -> int:
        """How many rows are multiplied, those between results included, without strides."""
        high, wide = (size + 2 * self.padding for size in self.size)
        reach = [(size - 1) * self.dilation for size in self.filter]
        return high * wide + (high - reach[0] - 1) * wide + wide - reach[1]

    def compute(self, x: blu.Tensor, weight: blu.Tensor, precision: str = "highest") -> blu.Tensor:
        """The convolution, whose sums are of f32."""
        return Convolution(x, weight, **self.attributes, precision=precision)

    def check(self, kind: str, found: np.ndarray, x: np.ndarray, weight: np.ndarray) -> None:
        """Compare a result with the sums of what was multiplied, each by itself."""
        instruction = kind if kind != "f32" else "3xtf32"
        x, weight = as_multiplied(x, instruction), as_multiplied(weight, instruction)
        columns = self.columns(x)
        each = self.features // self.groups
        for group, own in enumerate(np.split(columns, self.groups, axis=-1)):
            left, right = own.reshape(-1, own.shape[-1] * np.prod(self.filter)), weight[..., group * each :][..., :each]
            right = right.reshape(-1, each)
            wanted = left @ right
            sums = found[..., group * each :][..., :each].astype(np.float64).reshape(wanted.shape)
            rounding = np.abs(wanted) * UNITS.get(kind, 0)
            assert (np.abs(sums - wanted) <= bound_of_sums(left, right, instruction) + rounding).all(), str(self)

    def columns(self, x: np.ndarray) -> np.ndarray:
        """[N, *counts, *filter, channels]: all windows."""
        pad, reach = self.padding, [(size - 1) * self.dilation + 1 for size in self.filter]
        seen = np.pad(x, [(0, 0), (pad, pad), (pad, pad), (0, 0)])
        windows = np.lib.stride_tricks.sliding_window_view(seen, reach, axis=(1, 2))
        step, apart = self.stride, self.dilation
        return windows[:, ::step, ::step, :, ::apart, ::apart].transpose(0, 1, 2, 4, 5, 3)


def run(case: Window, kind: str, target: str, **schedules: dict) -> GpuProgram:
    """Compile a convolution for a GPU, and compare what the interpreter finds."""
    arrays = case.arrays(kind)
    precision = "tf32" if kind == "tf32" else "highest"
    program = compile_program(
        lambda x, weight: case.compute(x, weight, precision), *arrays, target=target, schedules=schedules
    )
    case.check(kind, program.interpret(*arrays)[0], *arrays)
    return program


WARPGROUPS = [
    Window((3, 1), 64, 8, (3, 1), padding=0),
    Window((7, 7), 64, 72, padding=1),
    Window((8, 8), 72, 64, padding=1),
    Window((9, 14), 64, 24, (5, 1), padding=2),
    Window((9, 9), 136, 8, padding=2, dilation=2),
    Window((8, 7), 128, 16, (2, 2), stride=2),
    Window((7, 8), 64, 8, padding=1, stride=2),
    Window((5, 8), 128, 16, (3, 2), padding=1, groups=2),
    Window((4, 4), 64, 8, (5, 5), padding=4),
]


@pytest.mark.parametrize("case", WARPGROUPS, ids=str)
def test_the_copy_engine_brings_what_each_place_sees(case: Window) -> None:
    program = run(case, "bf16", "sm_90a", gemm_0=TILE)
    assert "wgmma.mma_async" in program.ptx["gemm_0"]


@pytest.mark.parametrize("case", [WARPGROUPS[1], WARPGROUPS[4]], ids=str)
def test_numbers_of_tf32_are_brought_likewise(case: Window) -> None:
    program = run(case, "tf32", "sm_90a", gemm_0=TURNED)
    assert "wgmma.mma_async" in program.ptx["gemm_0"]


OTHERS = [
    (Window((5, 4), 1, 3, padding=1), "f16"),
    (Window((7, 9), 8, 24, padding=1, dilation=2), "bf16"),
    (Window((14, 8), 72, 16, (5, 1), padding=2), "tf32"),
    (Window((9, 9), 3, 8, (7, 7), padding=3, stride=2), "bf16"),
    (Window((6, 7), 64, 8, (1, 1)), "f16"),
    (Window((6, 7), 16, 12, (2, 3), padding=1, groups=2), "f32"),
    (Window((5, 6), 4, 8, padding=1, groups=4), "bf16"),
    (Window((7, 8), 64, 8, padding=1, stride=2), "bf16"),
]


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(("case", "kind"), OTHERS, ids=str)
def test_what_warpgroups_do_not_take_is_computed_by_others(case: Window, kind: str, target: str) -> None:
    run(case, kind, target)


def gradient(case: Window, kind: str, target: str, schedules: dict[str, dict]) -> GpuProgram:
    """Compile the gradient of the weight for a GPU, and compare what the interpreter finds."""
    x, weight = case.arrays(kind)
    counts = case.columns(x).shape[:3]
    g = random_array((*counts, case.features), kind, 2)
    precision = "tf32" if kind == "tf32" else "highest"

    def compute(x: blu.Tensor, weight: blu.Tensor, g: blu.Tensor) -> blu.Tensor:
        return Convolution.vjp(g, x, weight, g, **case.attributes, precision=precision)[1].astype("f32")

    program = compile_program(compute, x, weight, g, target=target, schedules=schedules)
    found = program.interpret(x, weight, g)[0].astype(np.float64)
    instruction = kind if kind != "f32" else "3xtf32"
    columns, g = case.columns(as_multiplied(x, instruction)), as_multiplied(g, instruction)
    each, width = case.features // case.groups, case.channels // case.groups
    for group in range(case.groups):
        more = max(case.rows - np.prod(counts), 0) if case.stride == 1 else 0
        left = columns[..., group * width :][..., :width].reshape(np.prod(counts), -1).T
        left = np.pad(left, [(0, 0), (0, more)])
        right = np.pad(g[..., group * each :][..., :each].reshape(-1, each), [(0, more), (0, 0)])
        wanted, own = left @ right, found[..., group * each :][..., :each].reshape(-1, each)
        rounding = np.abs(wanted) * UNITS.get(kind, 0)
        assert (np.abs(own - wanted) <= bound_of_sums(left, right, instruction) + rounding).all(), str(case)
    return program


DEEP = [case for case in WARPGROUPS if case.stride == 1 and case.rows >= 64]
"""Warpgroups multiply 64 or more."""


@pytest.mark.parametrize("case", DEEP, ids=str)
def test_gradients_of_the_weight_are_products_for_each_place_in_one_kernel(case: Window) -> None:
    program = gradient(case, "bf16", "sm_90a", {"gemm_0": TILE})
    assert "wgmma.mma_async" in program.ptx["gemm_0"] and len(program.kernels("gemm")) == 1


@pytest.mark.parametrize("copied", ["none", "right"])
def test_gradients_of_tf32_turn_around_what_is_a_matrix(copied: str) -> None:
    """The other factor, which is seen as it lies, goes through registers."""
    schedule = {"kind": "wgmma", "rows": 128, "columns": 32, "stages": 3, "registers": "left", "copied": "right"}
    program = gradient(
        Window((8, 8), 64, 8, padding=1), "tf32", "sm_90a", {"gemm_0": schedule} if copied == "right" else {}
    )
    assert ("wgmma.mma_async" in program.ptx["gemm_0"]) == (copied == "right")


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(("case", "kind"), OTHERS, ids=str)
def test_gradients_of_other_weights(case: Window, kind: str, target: str) -> None:
    gradient(case, kind, target, {})


def test_a_window_is_one_product_where_it_was_one_for_each_place() -> None:
    """At a size of ResNet's, as users write it: the weight [F, C, 3, 3] is turned around so that warpgroups take it."""
    specs = [blu.spec(shape, "bf16") for shape in ((32, 28, 28, 128), (128, 128, 3, 3))]
    traced = blu.jit(lambda x, weight: blu.conv2d(x, weight, padding=1, channels_last=True)).trace(*specs)
    program = GpuProgram.of(traced.lower("sm_90a").module, "sm_90a")
    assert len(program.kernels("gemm")) == 1 and "wgmma.mma_async" in program.written("gemm_0")
    if find_ptxas() is None:
        pytest.skip("assembling GPU code needs ptxas")
    assert not program.spills()


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("what", ["result", "of weight"])
def test_a_networks_first_convolution_is_one_product(what: str, target: str) -> None:
    """It was one for each of four phases, with sums in memory between them."""
    specs = [blu.spec(shape, "bf16") for shape in ((8, 112, 112, 3), (64, 3, 7, 7), (8, 56, 56, 64))]

    def compute(x: blu.Tensor, weight: blu.Tensor, g: blu.Tensor) -> blu.Tensor:
        def convolve(x: blu.Tensor, weight: blu.Tensor) -> blu.Tensor:
            return blu.conv2d(x, weight, stride=2, padding=3, channels_last=True)

        return convolve(x, weight) if what == "result" else blu.vjp(convolve, x, weight)[1](g)[1]

    program = GpuProgram.of(blu.jit(compute).trace(*specs).lower(target).module, target)
    assert len(program.kernels("gemm")) == 1 and "mma" in program.written("gemm_0")
    if find_ptxas() is None:
        pytest.skip("assembling GPU code needs ptxas")
    assert not program.spills()


@pytest.mark.parametrize(("size", "channels", "window"), [(56, 64, 1), (56, 64, 3), (28, 128, 3)])
def test_gradients_of_small_weights_keep_all_multiprocessors_busy(size: int, channels: int, window: int) -> None:
    """Of ResNet's: k has so many parts, and tiles are as narrow as the weight."""
    specs = [blu.spec((32, size, size, channels), "bf16"), blu.spec((channels, channels, window, window), "bf16")]

    def compute(x: blu.Tensor, weight: blu.Tensor, g: blu.Tensor) -> blu.Tensor:
        along = {"padding": window // 2, "channels_last": True}
        return blu.vjp(lambda *both: blu.conv2d(*both, **along), x, weight)[1](g)[1]

    program = GpuProgram.of(blu.jit(compute).trace(*specs, specs[0]).lower("sm_90a").module, "sm_90a")
    (launch,) = (item for item in program.plan["launches"] if item["kernel"] == "gemm_0")
    assert 120 <= launch["grid"][0] <= 132 and f"m64n{channels}k16" in program.written("gemm_0")
    if find_ptxas() is None:
        pytest.skip("assembling GPU code needs ptxas")
    assert not program.spills()


def test_few_tiles_are_narrower_so_that_all_multiprocessors_have_one() -> None:
    """The last ones of ResNet: of 48 large tiles, two parts each would be 96, and be added by another kernel."""
    specs = [blu.spec((32, 7, 7, 512), "bf16"), blu.spec((512, 512, 3, 3), "bf16")]
    traced = blu.jit(lambda x, weight: blu.conv2d(x, weight, padding=1, channels_last=True)).trace(*specs)
    program = GpuProgram.of(traced.lower("sm_90a").module, "sm_90a")
    (launch,) = (item for item in program.plan["launches"] if item["kernel"].startswith("gemm"))
    assert 120 <= launch["grid"][0] <= 132
