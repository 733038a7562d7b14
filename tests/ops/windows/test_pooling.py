"""Pooling beside torch's: results and gradients, among equal elements as well."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import blu
from blu.dialects.core.dtypes import i32, u8
from blu.dialects.ops.convolution.pooling_gradient import dtype_of_place

torch = pytest.importorskip("torch")

# The function, the shape of x, the window (or how many there are), and what else is said, as torch is told.
CASES: list[tuple[str, tuple[int, ...], Any, dict[str, Any]]] = [
    ("max_pool1d", (2, 3, 7), 3, {"stride": 2, "padding": 1}),
    ("max_pool1d", (1, 2, 8), 3, {"stride": 2, "ceil_mode": True}),
    ("max_pool1d", (1, 2, 9), 2, {"dilation": 3}),
    ("max_pool2d", (2, 2, 4, 7), (2, 3), {}),
    ("max_pool2d", (1, 2, 4, 5), 2, {"stride": (2, 1)}),
    ("max_pool3d", (1, 1, 2, 4, 2), 2, {}),
    ("avg_pool1d", (1, 2, 7), 3, {"stride": 2, "padding": 1}),
    ("avg_pool2d", (1, 2, 5, 4), (3, 2), {"stride": 2, "padding": 1, "count_include_pad": False}),
    ("avg_pool2d", (2, 3, 4, 6), 2, {}),
    ("avg_pool2d", (1, 2, 6, 7), 3, {"stride": 2, "padding": 1, "ceil_mode": True}),
    ("avg_pool2d", (1, 2, 6, 7), 2, {"ceil_mode": True, "divisor_override": 3}),
    ("avg_pool3d", (1, 2, 2, 3, 2), 2, {"stride": 1}),
    ("adaptive_avg_pool1d", (1, 2, 7), 3, {}),
    ("adaptive_avg_pool2d", (2, 3, 4, 5), (1, 2), {}),
    ("adaptive_avg_pool3d", (1, 2, 2, 3, 4), (None, 1, 2), {}),
    ("adaptive_max_pool1d", (1, 2, 7), 3, {}),
    ("adaptive_max_pool2d", (2, 3, 4, 6), (2, 4), {}),
]


def _program(name: str, given: Any, keywords: dict[str, Any]) -> Any:
    function = getattr(blu, name)

    def apply(x: Any) -> tuple[Any, Any]:
        gradient = blu.grad(lambda x: blu.sum((function(x, given, **keywords) + 2) ** 2))(x)
        return function(x, given, **keywords), gradient

    return apply


def test_results_and_gradients_are_torchs() -> None:
    """Of few different numbers, so that many are equal. All cases in one program, so that it costs one compilation."""
    rng = np.random.default_rng(0)
    operands = [rng.integers(-2, 3, shape).astype(np.float64) for _, shape, _, _ in CASES]
    programs = [_program(name, given, keywords) for name, _, given, keywords in CASES]
    found = blu.jit(lambda row: [program(x) for program, x in zip(programs, row, strict=True)])(operands)
    for (name, _, given, keywords), x, (y, gradient) in zip(CASES, operands, found, strict=True):
        tensor = torch.tensor(x, requires_grad=True)
        expected = getattr(torch.nn.functional, name)(tensor, given, **keywords)
        ((expected + 2) ** 2).sum().backward()
        what = f"{name} {given} {keywords}"
        np.testing.assert_allclose(y, expected.detach().numpy(), rtol=1e-12, err_msg=what)
        np.testing.assert_allclose(gradient, tensor.grad.numpy(), rtol=1e-12, atol=1e-12, err_msg=what)


def test_windows_of_more_places_than_a_byte_holds() -> None:
    assert [dtype_of_place(window) for window in ((255,), (256,), (16, 16), (15, 17))] == [u8, i32, i32, u8]
    x = np.random.default_rng(0).standard_normal((1, 1, 259)).astype(np.float32)
    weights = np.arange(6, dtype=np.float32)
    found = blu.jit(lambda x: blu.grad(lambda x: blu.sum(blu.max_pool1d(x, 256, 1, 1) * weights))(x))(x)
    tensor = torch.tensor(x, requires_grad=True)
    (torch.nn.functional.max_pool1d(tensor, 256, 1, 1) * torch.tensor(weights)).sum().backward()
    np.testing.assert_array_equal(found, tensor.grad.numpy())


def test_data_may_have_channels_last_and_no_batch() -> None:
    x = np.random.default_rng(0).standard_normal((4, 6, 3))
    found = blu.jit(lambda x: blu.max_pool2d(x, 2, channels_last=True))(x)
    np.testing.assert_array_equal(found, x.reshape(2, 2, 3, 2, 3).max((1, 3)))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda x: blu.max_pool2d(x, 3, padding=2), "more than half of the window"),
        (lambda x: blu.max_pool2d(x, 7), "reaches over 7 elements of spatial dimension 0"),
        (lambda x: blu.avg_pool2d(x, 7), "avg_pool: a window reaches over 7 elements of spatial dimension 0"),
        (lambda x: blu.avg_pool2d(x, (2, 2, 2)), "one integer for each of 2 spatial"),
        (lambda x: blu.max_pool1d(x, 2), "1 spatial dimensions"),
        (lambda x: blu.adaptive_avg_pool2d(x, (0, 1)), "must be a positive number"),
    ],
)
def test_what_does_not_fit_is_told(given: Any, message: str) -> None:
    with pytest.raises(blu.BluError, match=message):
        blu.jit(given).trace(blu.spec((2, 3, 6, 5)))
