"""Convolutions beside torch's: results and gradients of all orders, in f64 and f32, and what users get wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import blu

torch = pytest.importorskip("torch")

# The shapes of x and of the weight, and what else is said, as torch is told.
CONVOLUTIONS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "two dimensions": ((2, 3, 6, 5), (4, 3, 2, 2), {"padding": (1, 0), "stride": (2, 1)}),
    "products of single places": ((2, 70, 7), (6, 70, 3), {"padding": 1, "stride": 2}),
    "patches": ((2, 3, 7, 9), (4, 3, 2, 3), {"stride": (2, 3)}),
    "blocks that windows do not fill": ((2, 3, 9, 8), (4, 3, 4, 5), {"padding": (3, 1), "stride": (2, 3)}),
    "lines that share zeros": ((5, 3, 4, 5), (4, 3, 3, 3), {"padding": 1}),
    "lines that share zeros, strided": ((7, 2, 5, 3), (3, 2, 5, 3), {"padding": (2, 1), "stride": (3, 1)}),
    "wide zeros": ((6, 2, 2), (3, 2, 3), {"padding": 4}),
    "depthwise, two features each": ((1, 3, 5, 6), (6, 1, 2, 2), {"groups": 3, "stride": (1, 2)}),
    "groups": ((2, 4, 6), (6, 2, 3), {"groups": 2, "dilation": 2, "padding": 2}),
    "a window wider than x": ((1, 2, 2), (3, 2, 4), {"padding": 1}),
    "same": ((1, 2, 5), (3, 2, 3), {"padding": "same"}),
    "three dimensions": ((1, 2, 3, 2, 3), (2, 2, 2, 1, 2), {"padding": (1, 0, 1)}),
}
TRANSPOSED: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "strided": ((2, 3, 4, 3), (3, 4, 3, 1), {"stride": (2, 1), "padding": (1, 0), "output_padding": (1, 0)}),
    "a stride wider than the window": ((1, 2, 4), (2, 3, 2), {"stride": 3}),
    "groups": ((2, 4, 5), (4, 3, 3), {"groups": 2, "dilation": 2, "padding": 1}),
}
CASES = [("conv", *case) for case in CONVOLUTIONS.values()] + [
    ("conv_transpose", *case) for case in TRANSPOSED.values()
]


def _torch_of(name: str, rank: int) -> Any:
    return getattr(torch.nn.functional, f"{name}{rank}d")


def _operands(index: int, dtype: Any) -> list[np.ndarray]:
    name, x, weight, keywords = CASES[index]
    rng = np.random.default_rng(index)
    features = weight[0] if name == "conv" else weight[1] * keywords.get("groups", 1)
    return [rng.standard_normal(shape).astype(dtype) for shape in (x, weight, (features,))]


def _expected(index: int, operands: list[np.ndarray]) -> list[np.ndarray]:
    """The result y, and the gradients of sum(y * y) by all operands."""
    name, x, _, keywords = CASES[index]
    tensors = [torch.tensor(array.astype(np.float64), requires_grad=True) for array in operands]
    y = _torch_of(name, len(x) - 2)(*tensors, **keywords)
    gradients = torch.autograd.grad((y * y).sum(), tensors)
    return [tensor.detach().numpy() for tensor in (y, *gradients)]


def _program(index: int) -> Any:
    name, _, _, keywords = CASES[index]
    function = getattr(blu, name)

    def loss(x: Any, weight: Any, bias: Any) -> Any:
        y = function(x, weight, bias, **keywords)
        return blu.sum(y * y)

    def apply(x: Any, weight: Any, bias: Any) -> list[Any]:
        gradients = blu.grad(loss, argnums=(0, 1, 2))(x, weight, bias)
        return [function(x, weight, bias, **keywords), *gradients]

    return apply


def _assert_close(found: list[Any], expected: list[np.ndarray], tolerance: float, which: str) -> None:
    for number, (one, other) in enumerate(zip(found, expected, strict=True)):
        assert one.shape == other.shape, (which, number)
        error = np.abs(np.asarray(one, np.float64) - other).max() / max(np.abs(other).max(), 1e-300)
        assert error < tolerance, (which, number, error)


def test_results_and_gradients_are_torchs() -> None:
    """All cases in one program, so that it costs one compilation."""
    operands = [_operands(index, np.float64) for index in range(len(CASES))]
    programs = [_program(index) for index in range(len(CASES))]
    found = blu.jit(lambda rows: [program(*row) for program, row in zip(programs, rows, strict=True)])(operands)
    for index, row in enumerate(operands):
        _assert_close(found[index], _expected(index, row), 1e-12, str(CASES[index]))


def test_gradients_of_gradients_are_torchs() -> None:
    x, weight = (np.random.default_rng(0).standard_normal(shape) for shape in ((2, 2, 5), (3, 2, 2)))
    along = {"stride": 2, "padding": 1}

    def of_weight(x: Any, weight: Any) -> Any:
        return blu.grad(lambda weight: blu.sum(blu.conv1d(x, weight, **along) ** 3))(weight)

    found = blu.jit(blu.grad(lambda x, weight: blu.sum(of_weight(x, weight) ** 2), argnums=(0, 1)))(x, weight)
    tensors = [torch.tensor(array, requires_grad=True) for array in (x, weight)]
    loss = (torch.nn.functional.conv1d(*tensors, **along) ** 3).sum()
    (first,) = torch.autograd.grad(loss, tensors[1:], create_graph=True)
    expected = [tensor.numpy() for tensor in torch.autograd.grad((first**2).sum(), tensors)]
    _assert_close(list(found), expected, 1e-12, "second")


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-6), ("bfloat16", 5e-3)])
def test_narrower_numbers_are_as_near_as_they_can_be(dtype: str, tolerance: float) -> None:
    """Sums of bf16 are formed in f32: what is lost is the rounding of the result, however many places a window has."""
    kept = [torch.tensor(array).to(getattr(torch, dtype)).double() for array in _operands(1, np.float32)]
    function = blu.jit(lambda *row: _program(1)(*(tensor.astype(dtype) for tensor in row))[0].astype("f32"))
    found = function(*(tensor.float().numpy() for tensor in kept))
    _assert_close([found], _expected(1, [tensor.numpy() for tensor in kept])[:1], tolerance, dtype)


def test_data_may_have_channels_last_and_no_batch() -> None:
    x, weight, bias = _operands(0, np.float64)
    along = CASES[0][3]
    wanted = _expected(0, [x, weight, bias])[0]

    @blu.jit
    def forms(x: Any, weight: Any, bias: Any) -> list[Any]:
        last = blu.conv2d(blu.moveaxis(x, 1, -1), weight, bias, channels_last=True, **along)
        return [blu.moveaxis(last, -1, 1), blu.conv2d(x[0], weight, bias, **along)]

    _assert_close(list(forms(x, weight, bias)), [wanted, wanted[0]], 1e-12, "forms")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda x, w: blu.conv2d(x, w[:, :2]), "in 1 groups it takes 2 channels, not 3"),
        (
            lambda x, w: blu.conv2d(x, w[:, :2]),
            r"conv: x \[N, C, \*spatial\] is f32\[2, 3, 6, 5\], weight .* is f32\[4, 2, 2, 3\]: in 1 groups",
        ),
        (lambda x, w: blu.conv2d(x, w, padding="full"), "none of valid, same"),
        (lambda x, w: blu.conv2d(x, w, stride=(1, 2, 3)), "one integer for each of 2 spatial"),
        (lambda x, w: blu.conv2d(x, w, stride=0), "strides must be at least 1"),
        (lambda x, w: blu.conv2d(x, w, w[0, 0, 0]), "one number for each of 4 features"),
        (lambda x, w: blu.conv2d(x[0, 0], w), "2 spatial dimensions, N may be left out"),
        (lambda x, w: blu.conv1d(x, w), "weight must have 3 dimensions, got 4"),
        (
            lambda x, w: blu.conv2d(x, w, dilation=9),
            "over 10 elements of spatial dimension 0, which has 6 with its padding",
        ),
        (
            lambda x, w: blu.conv_transpose2d(x, w),
            r"weight \[C, F / groups, \*window\] is f32\[4, 3, 2, 3\]: in 1 groups it takes 4 channels, not 3",
        ),
    ],
)
def test_what_does_not_fit_is_told_with_its_meaning(given: Any, message: str) -> None:
    with pytest.raises(blu.BluError, match=message):
        blu.jit(given).trace(blu.spec((2, 3, 6, 5)), blu.spec((4, 3, 2, 3)))
