"""Ops that the tests of row kernels put together."""

from __future__ import annotations

from tests.support.kernels.linalg_text import KernelText, Tensor


def reduce_rows(kernel: KernelText, value: Tensor, combiner: str, start: str) -> Tensor:
    """A reduction over the last of two dimensions."""
    body = f"%z = {combiner} %o0, %a0 : {value.element}\nlinalg.yield %z : {value.element}"
    return kernel.generic("pr", ["d0, d1", "d0"], [value], [kernel.fill(value.shape[:1], start, value.element)], body)[
        0
    ]


def binary(
    kernel: KernelText, operation: str, left: Tensor, right: Tensor, maps: tuple[str, str], shape: tuple[int, ...]
) -> Tensor:
    body = f"%z = {operation} %a0, %a1 : {left.element}\nlinalg.yield %z : {left.element}"
    return kernel.pointwise([left, right], maps, shape, body, left.element)


def unary(kernel: KernelText, operation: str, value: Tensor) -> Tensor:
    maps = [", ".join(f"d{dim}" for dim in range(len(value.shape)))]
    body = f"%z = {operation} %a0 : {value.element}\nlinalg.yield %z : {value.element}"
    return kernel.pointwise([value], maps, value.shape, body, value.element)
