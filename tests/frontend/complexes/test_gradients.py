"""Gradients of and by complex tensors against PyTorch, and transformations of complex functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import blu
from blu.errors import DTypeError

RNG = np.random.default_rng(5)
Z, W, WEIGHTS = (RNG.normal(size=(3, 4)) * 1.5 + 1j * RNG.normal(size=(3, 4)) * 1.5 for _ in range(3))
# On the axes, and far out, formulas for parts have their corners.
Z[0, 0], Z[1, 1], Z[2, 2], Z[2, 3] = 2 + 1e-3j, 0.7, 25 + 1j, -0.3
UNARY = """exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan sinh cosh tanh arcsin arccos arctan arcsinh
    arccosh arctanh reciprocal square sign absolute angle conj real imag negative sigmoid""".split()
TORCHS = {"sign": "sgn", "conj": "conj_physical", "power": "pow"}
BINARY = "add subtract multiply divide power".split()


def weighted(found: Any) -> Any:
    weights = WEIGHTS.ravel()[: found.size].reshape(found.shape)
    return blu.sum((found * weights).real)


def torchs_gradients(function: Any, *arrays: np.ndarray) -> list[np.ndarray]:
    tensors = [torch.tensor(array, requires_grad=True) for array in arrays]
    found = function(*tensors)
    weights = torch.tensor(WEIGHTS.ravel()[: found.numel()].reshape(found.shape))
    (found * weights).real.sum().backward()
    return [tensor.grad.resolve_conj().numpy() for tensor in tensors]


def near(found: Any, expected: np.ndarray, what: str) -> None:
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-11, atol=1e-12, err_msg=what)


def test_elementwise_functions_have_torchs_gradients() -> None:
    compiled = blu.jit(lambda z: [blu.grad(lambda z, n=n: weighted(getattr(blu, n)(z)))(z) for n in UNARY])
    for name, found in zip(UNARY, compiled(Z), strict=True):
        near(found, torchs_gradients(getattr(torch, TORCHS.get(name, name)), Z)[0], name)
    both = blu.jit(
        lambda *zw: [blu.grad(lambda z, w, n=n: weighted(getattr(blu, n)(z, w)), (0, 1))(*zw) for n in BINARY]
    )
    for name, pair in zip(BINARY, both(Z, W), strict=True):
        for found, expected in zip(pair, torchs_gradients(getattr(torch, TORCHS.get(name, name)), Z, W), strict=True):
            near(found, expected, name)


# Each with PyTorch's, of complex z and w and of real x.
COMPOSED = [
    (lambda z, w, x: z @ w.T @ x, lambda z, w, x: z @ w.T @ (x + 0j)),
    (lambda z, w, x: blu.where(x > 0, z * x, w).sum(0), lambda z, w, x: torch.where(x > 0, z * x, w).sum(0)),
    (lambda z, w, x: blu.prod(z * w, 0) / x, lambda z, w, x: torch.prod(z * w, 0) / x),
    (lambda z, w, x: blu.fft.ifft(blu.fft.fft(z) * w) + x, lambda z, w, x: torch.fft.ifft(torch.fft.fft(z) * w) + x),
    (lambda z, w, x: blu.cumprod(z, 1) ** 2 + w * x, lambda z, w, x: torch.cumprod(z, 1) ** 2 + w * x),
    (lambda z, w, x: blu.std(z, 0) + abs(w * x), lambda z, w, x: torch.std(z, 0, correction=0) + abs(w * x)),
    (lambda z, w, x: blu.sign(z - blu.stop_gradient(z)) + w * x, lambda z, w, x: torch.sgn(z - z.detach()) + w * x),
    (lambda z, w, x: blu.vdot(z, w) * x, lambda z, w, x: torch.vdot(z.flatten(), w.flatten()) * x),
]


def test_compositions_have_torchs_gradients() -> None:
    x = RNG.normal(size=(3, 4))
    compiled = blu.jit(
        lambda *values: [
            blu.grad(lambda *given, ours=ours: weighted(ours(*given)), (0, 1, 2))(*values) for ours, _ in COMPOSED
        ]
    )
    for place, (found, (_, torchs)) in enumerate(zip(compiled(Z, W, x), COMPOSED, strict=True)):
        expected = torchs_gradients(torchs, Z, W, x)
        assert np.asarray(found[2]).dtype == np.float64
        for one, other in zip(found, expected, strict=True):
            near(one, other, f"case {place}")


def test_transformations_take_complex_numbers() -> None:
    def function(z: Any) -> Any:
        return blu.exp(z) * z

    slope = np.exp(Z) * (Z + 1)
    near(blu.jvp(function, (Z,), (W,))[1], slope * W, "jvp")
    near(blu.vjp(function, Z)[1](W)[0], slope.conj() * W, "vjp by hand")
    near(blu.jit(lambda z, w: blu.vjp(function, z)[1](w)[0])(Z, W), slope.conj() * W, "vjp")
    near(blu.vmap(lambda z, w: z * w @ w)(Z, W), np.stack([z * w @ w for z, w in zip(Z, W, strict=True)]), "vmap")
    carried = blu.jit(lambda z: blu.scan(lambda c, row: (c * row, c), 1j * z[0], z)[0])
    near(carried(Z), 1j * Z[0] * np.prod(Z, 0), "scan")
    chosen = blu.jit(lambda p, z: blu.cond(p > 0, lambda z: z * 1j, lambda z: z.conj(), z))
    near(chosen(1.0, Z), Z * 1j, "cond")
    near(chosen(-1.0, Z), Z.conj(), "cond")


def test_all_derivatives_are_numbers_where_one_side_is_real() -> None:
    z, x = Z[0, :2], Z.real[0, :2]
    for transform in (blu.jacfwd, blu.jacrev):
        near(transform(lambda x: blu.exp(1j * x))(x), np.diag(1j * np.exp(1j * x)), "of a complex result")
        near(transform(blu.absolute)(z), np.diag(z / abs(z)), "by a complex argument")
        with pytest.raises(DTypeError, match=r"an argument is complex128\[2\], and the result .*four numbers each"):
            transform(lambda z: z * z)(z)
    with pytest.raises(DTypeError, match="Differentiate by the parts"):
        blu.hessian(lambda z: blu.sum(blu.absolute(z)))(z)


def test_a_loss_falls_against_the_gradient() -> None:
    """The convention is the one that optimizers need: a step against the gradient lowers a real loss."""
    loss = blu.jit(blu.value_and_grad(lambda z: blu.sum(blu.absolute(z * z - W) ** 2)))
    z = Z.copy()
    values = []
    for _ in range(20):
        value, gradient = loss(z)
        values.append(float(value))
        z = z - 1e-4 * np.asarray(gradient)
    assert values == sorted(values, reverse=True) and values[-1] < values[0]
