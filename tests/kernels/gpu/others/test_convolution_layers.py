"""What layers of a network of convolutions become for a GPU under automatic mixed precision."""

from __future__ import annotations

import re
from typing import Any

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
