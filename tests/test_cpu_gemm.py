"""The CPU GEMM emitter against numpy in float64."""

from __future__ import annotations

import numpy as np
import pytest
from cpu_kernel import host_targets, run_kernel
from gemm_text import NN, NT, TN, TT, plain_text

from blu.dialects.mlir import ir
from blu.dialects.target import CpuTarget
from blu.passes.cpu import gemm

ORIENTATIONS = {"nn": NN, "nt": NT, "tn": TN, "tt": TT}


def emitted(text: str, target: CpuTarget) -> ir.Module:
    """The module of a kernel text after the emitter ran on it."""
    context = ir.Context()
    context.enable_multithreading(False)
    with context, ir.Location.unknown():
        module = ir.Module.parse(text)
        gemm.emit(module.body.operations[0], target)
        module.operation.verify()
    return module


def operands(orientation: str, rows: int, columns: int, depth: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Random operands as they lie in memory, and their product in float64."""
    random = np.random.default_rng(rows * 7 + columns * 3 + depth)
    left = random.standard_normal((rows, depth), np.float32)
    right = random.standard_normal((depth, columns), np.float32)
    product = left.astype(np.float64) @ right.astype(np.float64)
    left, right = (left if orientation[0] == "n" else left.T), (right if orientation[1] == "n" else right.T)
    return np.ascontiguousarray(left), np.ascontiguousarray(right), product


@pytest.mark.parametrize("orientation", ORIENTATIONS)
@pytest.mark.parametrize(
    "sizes", [(1, 1, 1), (33, 240, 80), (13, 37, 21), (7, 1, 5), (1, 97, 11), (130, 50, 600), (5, 3, 0), (16, 48, 1)]
)
def test_plain_products(orientation: str, sizes: tuple[int, int, int]):
    rows, columns, depth = sizes
    left, right, expected = operands(orientation, rows, columns, depth)
    output = np.full((rows, columns), np.nan, np.float32)
    target = host_targets()[0]
    run_kernel(emitted(plain_text(ORIENTATIONS[orientation], *sizes), target), "gemm", [left, right], [output])
    np.testing.assert_allclose(output, expected, rtol=0, atol=2e-6 * (depth + 1))
