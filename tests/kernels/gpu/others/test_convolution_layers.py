"""What layers of a network of convolutions become for a GPU under automatic mixed precision."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import blu
from blu import nn
from blu.dialects.core.modules import module_text
from blu.passes.framework.kernels import kernels_in
from tests.support.kernels.gpu_program import compile_program


class Layer(nn.Module):
    def __init__(self, inputs: int, outputs: int, window: int, stride: int = 1):
        self.weights = nn.Conv2d(inputs, outputs, window, stride, window // 2, bias=False, channels_last=True)
        self.norm = nn.BatchNorm(outputs, channels_last=True)

    def forward(self, x: Any) -> Any:
        return self.norm(self.weights(x))


class Net(nn.Module):
    """A block that is added to what it reads, between two other layers."""

    def __init__(self) -> None:
        self.first, self.last = Layer(3, 64, 7, 2), Layer(64, 128, 3, 2)
        self.narrow, self.window, self.widen = Layer(64, 16, 1), Layer(16, 16, 3), Layer(16, 64, 1)

    def forward(self, images: Any) -> Any:
        x = blu.relu(self.first(images))
        inner = blu.relu(self.window(blu.relu(self.narrow(x))))
        return blu.mean(blu.square(self.last(blu.relu(x + self.widen(inner)))))


@pytest.fixture(scope="module")
def lowered() -> Any:
    @blu.autocast("bf16")
    def gradients(net: Net, images: Any) -> Any:
        return blu.value_and_grad(Net.forward)(net, images)

    traced = blu.jit(gradients).trace(Net(), blu.spec((8, 64, 64, 3), "f32"))
    return traced.lower("sm_90a", stop="blu-merge-kernels").module


def test_all_products_are_of_halves(lowered: Any):
    products = re.findall(r"linalg\.contract.*? ins\(.*?: tensor<(.*?)>, tensor<(.*?)>\)", module_text(lowered))
    assert len(products) > 10
    assert all("bf16" in left and "bf16" in right for left, right in products), products


def test_products_have_kernels_of_products(lowered: Any):
    """A product in a kernel of rows is done by scalar loops."""
    for name, kernel in kernels_in(lowered).items():
        assert name.startswith("gemm") or "linalg.contract" not in str(kernel), name


def test_what_is_as_large_as_images_is_kept_in_half(lowered: Any):
    """Nothing between the first layer and the last is stored wide."""
    calls = [line for line in module_text(lowered).splitlines() if "call @" in line]
    assert len(calls) > 40
    assert not [call for call in calls if re.search(r"tensor<8192x(?:64|16)xf32", call)]


def test_activations_are_stored_once(lowered: Any):
    """Gradients read what they have given, and not what they were given; nor are they computed again."""
    twice = r"-> \(.*tensor<8192x(?:64|16)xbf16>.*tensor<8192x(?:64|16)xbf16>"
    calls = [line for line in module_text(lowered).splitlines() if "call @rows" in line]
    assert len(calls) > 20 and not [call for call in calls if re.search(twice, call)]


def test_the_moments_of_halves_are_of_one_pass(lowered: Any):
    """One kernel reads what each of five norms is of, and adds up twice."""
    sums = re.findall(r"call @rows.*: \(tensor<\d+x\d+xbf16>, tensor<\d+xbf16>\) -> (.*?) loc", module_text(lowered))
    assert sum(bool(re.fullmatch(r"\((tensor<\d+x\d+xf32>), \1\)", item)) for item in sums) == 5, sums


def test_padding_is_written_with_what_it_is_around(lowered: Any):
    """Images are put into nothing, and rows between results are dropped once, for the norm and for its gradient."""
    text = module_text(lowered)
    assert not re.findall(r"insert_slice .* into tensor<8x\d+x\d+x(?:16|64)x", text)
    first = r'"blu.row_windows"\(.*\) -> tensor<8x\d+x\d+x(?:16|64|128)x'
    assert not re.findall(first, text)


def test_largest_elements_are_read_where_they_are():
    """Windows that overlap are no copies; halves are chosen from as they are, to the bit. NaN and padding are too."""

    def pooled(x: Any) -> Any:
        return blu.max_pool2d(x, 3, 2, 1, channels_last=True)

    x = np.random.default_rng(0).standard_normal((2, 7, 6, 8), np.float32).astype(ml_dtypes.bfloat16)
    x[0, 2:, :, 1], x[0, :, :, 2], x[1, 3, 3, 3] = -np.inf, -3, np.nan
    program = compile_program(pooled, x)
    assert [launch["kernel"][:4] for launch in program.plan["launches"]] == ["rows"]
    (found,) = program.interpret(x)
    expected = np.asarray(blu.jit(pooled)(x))
    np.testing.assert_array_equal(found.astype(np.float32), expected.astype(np.float32))


def test_norms_over_batches_and_largest_elements_are_those_of_processors():
    """Results and gradients, in the interpreter; windows of three overlap, and reach into the padding."""

    def pooled(x: Any, w: Any, b: Any) -> Any:
        standard, _, _ = blu.standardize(x, (0, 1, 2), w, b)
        return blu.max_pool2d(blu.relu(standard), 3, 2, 1, channels_last=True)

    @blu.autocast("bf16")
    def gradients(x: Any, w: Any, b: Any, g: Any) -> Any:
        result, pull = blu.vjp(pooled, x, w, b)
        return (result, *pull(g))

    rng = np.random.default_rng(0)
    shapes = ((3, 9, 7, 16), (16,), (16,), (3, 5, 4, 16))
    given = [rng.standard_normal(shape, np.float32) for shape in shapes]
    found = compile_program(gradients, *given).interpret(*given)
    for own, expected in zip(found, map(np.asarray, blu.jit(gradients)(*given)), strict=True):
        assert np.abs(own - expected).max() < 2e-6 * np.abs(expected).max()


def test_moved_rows_are_those_of_processors():
    """Padding, strides, and zeros between: results and gradients, by kernels that read where elements come from."""

    def layers(x: Any, same: Any, half: Any, short: Any) -> Any:
        inner = blu.conv2d(x, same, padding=1, channels_last=True)
        strided = blu.conv2d(inner, half, stride=2, padding=1, channels_last=True)
        return strided + blu.conv2d(x, short, stride=2, channels_last=True)

    def gradients(x: Any, same: Any, half: Any, short: Any, g: Any) -> Any:
        result, pull = blu.vjp(layers, x, same, half, short)
        return (result, *pull(g))

    rng = np.random.default_rng(0)
    shapes = ((2, 7, 6, 8), (8, 8, 3, 3), (8, 8, 3, 3), (8, 8, 1, 1), (2, 4, 3, 8))
    given = [rng.standard_normal(shape, np.float32) for shape in shapes]
    program = compile_program(gradients, *given)
    found = program.interpret(*given)
    for own, expected in zip(found, map(np.asarray, blu.jit(gradients)(*given)), strict=True):
        assert np.abs(own - expected).max() < 2e-6 * np.abs(expected).max()
