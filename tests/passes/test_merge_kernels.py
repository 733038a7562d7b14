"""Equal kernels are one, before anything is done for each of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import blu
from blu.dialects.core.mlir import func
from blu.passes.framework.base import find
from blu.passes.framework.kernels import kernels_in
from tests.support.kernels.gpu_program import GpuProgram


def _layers(count: int) -> Callable:
    """A sum of squares of layers of a product, a normalization and an activation, and its gradients."""

    def loss(x: blu.Tensor, weights: list[blu.Tensor]) -> blu.Tensor:
        for weight in weights:
            x = x + blu.gelu(blu.rms_norm(x) @ weight)
        return blu.sum(blu.square(x))

    return blu.value_and_grad(loss, argnums=1)


def test_a_model_has_no_more_kernels_for_more_layers() -> None:
    def kernels(layers: int, stop: str) -> int:
        arguments = blu.spec((64, 128)), [blu.spec((128, 128))] * layers
        return len(kernels_in(blu.jit(_layers(layers)).trace(*arguments).lower("cpu", stop=stop).module))

    assert kernels(5, "blu-fuse") - kernels(3, "blu-fuse") >= 6
    assert kernels(5, "blu-merge-kernels") - kernels(3, "blu-merge-kernels") == 0


def _both(a: blu.Tensor, b: blu.Tensor, c: blu.Tensor, d: blu.Tensor) -> tuple[blu.Tensor, blu.Tensor]:
    return a @ b, (c @ d).swapaxes(0, 1)


def _neither(a: blu.Tensor, b: blu.Tensor, c: blu.Tensor, d: blu.Tensor) -> tuple[blu.Tensor, blu.Tensor]:
    return a @ b, c @ d


@pytest.mark.parametrize(("function", "kernels"), [(_neither, 2), (_both, 3)])
def test_calls_of_a_long_product_are_split_each_for_itself(function: Callable, kernels: int) -> None:
    """One product has its parts added by another kernel; one that is only seen transposed adds them itself."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in [(24, 2100), (2100, 40)] * 2]
    traced = blu.jit(function).trace(*arrays)
    merged = traced.lower("sm_80", stop="blu-merge-kernels").module
    assert len(kernels_in(merged)) == 1 and sum(1 for _ in find(merged, func.CallOp)) == 2
    module = traced.lower("sm_80", stop="blu-split-products").module
    assert len(kernels_in(module)) == kernels
    found = GpuProgram.of(traced.lower("sm_80").module, "sm_80").interpret(*arrays)
    exact = [item.astype(np.float64) for item in arrays]
    for result, expected in zip(found, function(*exact), strict=True):
        np.testing.assert_allclose(result, expected, rtol=0, atol=2e-4)
