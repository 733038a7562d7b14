"""Every public function on tensors without elements and without dimensions, with what NumPy makes of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import blu

SHAPES = ((), (0,), (2, 0, 3))
RNG = np.random.default_rng(5)


@dataclass(frozen=True)
class Case:
    """A call: the public functions that it is for, what is traced, NumPy's counterpart, and the arguments."""

    names: str
    function: Callable[..., Any]
    reference: Callable[..., Any]
    arrays: tuple[np.ndarray, ...]

    def __str__(self) -> str:
        return f"{self.names} of {', '.join(f'{array.dtype}{list(array.shape)}' for array in self.arrays)}"


def floats(shape: tuple[int, ...], low: float = 0.2, high: float = 0.9) -> np.ndarray:
    """Numbers for which every function is defined."""
    return np.asarray(RNG.uniform(low, high, shape), np.float32)


def integers(shape: tuple[int, ...]) -> np.ndarray:
    return np.asarray(RNG.integers(1, 7, shape), np.int32)


def _erf(x: np.ndarray) -> np.ndarray:
    return np.vectorize(math.erf, otypes=[np.float32])(x)


def _logsumexp(x: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(np.exp(x).sum())


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


# fmt: off
FLOAT_UNARY = """
    arccos arcsin arctan arcsinh arctanh cos cosh sin sinh tan tanh exp exp2 expm1 log log2 log10 log1p sqrt cbrt
    reciprocal square absolute negative sign floor ceil trunc round isnan isinf isfinite logical_not
"""
OTHER_UNARY: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "arccosh": lambda x: np.arccosh(x + 1), "erf": _erf, "erfc": lambda x: 1 - _erf(x), "rsqrt": lambda x: x**-0.5,
    "relu": lambda x: np.maximum(x, 0), "sigmoid": _sigmoid, "silu": lambda x: x * _sigmoid(x),
    "gelu": lambda x: x * 0.5 * (1 + _erf(x / math.sqrt(2))), "zeros_like": np.zeros_like, "ones_like": np.ones_like,
    "flatten": np.ravel, "transpose": np.transpose, "flip": np.flip, "asarray": np.asarray, "squeeze": np.squeeze,
    "stop_gradient": np.copy,
}
ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "softplus": lambda x: np.log1p(np.exp(x)), "logsigmoid": lambda x: np.log(_sigmoid(x)),
    "leaky_relu": lambda x: np.maximum(x, x * 0.01), "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "celu": lambda x: np.where(x > 0, x, np.expm1(x)), "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "selu": lambda x: 1.050701 * np.where(x > 0, x, 1.6732632 * np.expm1(x)), "relu6": lambda x: np.clip(x, 0, 6),
    "hardtanh": lambda x: np.clip(x, -1, 1), "hardsigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6, "softsign": lambda x: x / (1 + np.abs(x)),
    "tanhshrink": lambda x: x - np.tanh(x), "softshrink": lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.5, 0),
    "hardshrink": lambda x: np.where(np.abs(x) > 0.5, x, 0),
}
FLOAT_BINARY = """
    add subtract multiply divide maximum minimum power arctan2 copysign logaddexp equal not_equal less less_equal
    greater greater_equal logical_and logical_or logical_xor floor_divide remainder
"""
INTEGER_BINARY = """
    bitwise_and bitwise_or bitwise_xor left_shift right_shift floor_divide remainder add multiply maximum
"""
# fmt: on


def pointwise() -> Iterator[Case]:
    """Elementwise functions on each shape, and broadcast against a 0-d operand."""
    for shape in SHAPES:
        x, y, k, m = floats(shape), floats(shape), integers(shape), integers(shape)
        for name in FLOAT_UNARY.split():
            yield Case(name, getattr(blu, name), getattr(np, name), (x,))
        for name, reference in (OTHER_UNARY | ACTIVATIONS).items():
            function = (lambda x: blu.arccosh(x + 1)) if name == "arccosh" else getattr(blu, name)
            yield Case(name, function, reference, (x,))
        for name in FLOAT_BINARY.split():
            yield Case(name, getattr(blu, name), getattr(np, name), (x, y))
            yield Case(name, getattr(blu, name), getattr(np, name), (x, floats(())))
        for name in INTEGER_BINARY.split():
            yield Case(name, getattr(blu, name), getattr(np, name), (k, m))
        yield Case("invert", blu.invert, np.invert, (k,))
        yield Case("where", lambda x, y: blu.where(x > y, x, y), lambda x, y: np.where(x > y, x, y), (x, y))
        yield Case(
            "clip", lambda x: blu.clip(x, 0.4, 0.5), lambda x: np.clip(x, np.float32(0.4), np.float32(0.5)), (x,)
        )
        yield Case("threshold", lambda x: blu.threshold(x, 0.4, 2.0), lambda x: np.where(x > 0.4, x, x * 0 + 2), (x,))
        yield Case("astype", lambda x: x.astype("i32"), lambda x: x.astype(np.int32), (x,))
        yield Case("full_like", lambda x: blu.full_like(x, 3), lambda x: np.full_like(x, 3), (x,))


def folding() -> Iterator[Case]:
    """Reductions over all axes, over none, and over each; those with no elements to choose from are errors instead."""
    for shape in SHAPES:
        x, k = floats(shape), integers(shape)
        axes = [None, (), *range(len(shape))]
        for axis in axes:
            for name in ("sum", "prod", "any", "all"):
                yield _along(name, x, axis=axis)
                yield _along(name, k, axis=axis)
            if np.sum(np.ones(shape), axis=axis).size == 0 or x.size:
                for name in ("max", "min", "mean", "var", "std"):
                    yield _along(name, x, axis=axis)
                if axis != ():
                    yield from _positions(x, axis)
        for axis in axes[2:] or [None]:
            yield _along("cumsum", x, axis=axis)
        yield Case("logsumexp", blu.logsumexp, _logsumexp, (x,))


def _positions(x: np.ndarray, axis: int | None) -> Iterator[Case]:
    yield _along("argmax", x, axis=axis)
    yield _along("argmin", x, axis=axis)


def _along(name: str, x: np.ndarray, **options: Any) -> Case:
    return Case(name, lambda x: getattr(blu, name)(x, **options), lambda x: getattr(np, name)(x, **options), (x,))


def arrangement() -> Iterator[Case]:
    """Shapes changed, joined, cut and made."""
    x, row, cube = floats((0, 3)), floats((0,)), floats((2, 0, 3))
    yield Case("glu", lambda x: blu.glu(x, 1), lambda x: x * _sigmoid(x), (floats((3, 0)),))
    yield Case("reshape", lambda x: x.reshape(3, 0, 5), lambda x: x.reshape(3, 0, 5), (x,))
    yield Case("reshape", lambda x: x.reshape(()), lambda x: x.reshape(()), (floats((1, 1)),))
    yield Case("reshape", lambda x: x.reshape(-1), lambda x: x.reshape(-1), (floats(()),))
    yield Case("broadcast_to", lambda x: blu.broadcast_to(x, (4, 0, 3)), lambda x: np.broadcast_to(x, (4, 0, 3)), (x,))
    yield Case(
        "broadcast_to", lambda x: blu.broadcast_to(x, (0, 2)), lambda x: np.broadcast_to(x, (0, 2)), (floats(()),)
    )
    yield Case(
        "broadcast_arrays",
        lambda x, y: blu.broadcast_arrays(x, y)[1],
        lambda x, y: np.broadcast_to(y, (2, 0, 3)),
        (cube, row[:, None]),
    )
    yield Case("swapaxes", lambda x: x.swapaxes(0, 1), lambda x: x.swapaxes(0, 1), (x,))
    yield Case("moveaxis", lambda x: x.moveaxis(0, -1), lambda x: np.moveaxis(x, 0, -1), (cube,))
    yield Case("expand_dims", lambda x: blu.expand_dims(x, 0), lambda x: np.expand_dims(x, 0), (floats(()),))
    yield Case(
        "concatenate",
        lambda x, y: blu.concatenate([x, y, x]),
        lambda x, y: np.concatenate([x, y, x]),
        (x, floats((2, 3))),
    )
    yield Case("concatenate", lambda x: blu.concatenate([x, x], 1), lambda x: np.concatenate([x, x], 1), (x,))
    yield Case("stack", lambda x: blu.stack([x, x]), lambda x: np.stack([x, x]), (floats(()),))
    yield Case("stack", lambda x: blu.stack([x, x], 1), lambda x: np.stack([x, x], 1), (x,))
    yield Case("split", lambda x: x.split([0, 1, 3], 1)[0], lambda x: x[:, :0], (x,))
    yield Case("split", lambda x: x.split(2, 0)[1], lambda x: x[:0], (x,))
    yield Case("roll", lambda x: x.roll(2, 0), lambda x: np.roll(x, 2, 0), (x,))
    yield Case("repeat", lambda x: x.repeat(0, 1), lambda x: np.repeat(x, 0, 1), (x,))
    yield Case("repeat", lambda x: x.repeat(0, 0), lambda x: np.repeat(x, 0, 0), (floats((2, 3)),))
    yield Case("tile", lambda x: x.tile((2, 0)), lambda x: np.tile(x, (2, 0)), (floats((2, 3)),))
    yield Case("tile", lambda x: x.tile(3), lambda x: np.tile(x, 3), (floats(()),))
    yield Case("pad", lambda x: blu.pad(x, 1, 7), lambda x: np.pad(x, 1, constant_values=7), (x,))
    yield Case("pad", lambda x: blu.pad(x, 0), lambda x: np.pad(x, 0), (x,))
    yield from creation()


def creation() -> Iterator[Case]:
    """Tensors that are made, of no elements or no dimensions."""
    for name in ("zeros", "ones"):
        for shape in ((0, 3), ()):
            made = getattr(np, name)(shape, np.float32)
            yield Case(name, lambda name=name, shape=shape: getattr(blu, name)(shape), lambda made=made: made, ())
    yield Case("full", lambda: blu.full((0,), 2.5), lambda: np.full((0,), 2.5), ())
    yield Case("iota", lambda: blu.iota((0, 2), 1), lambda: np.zeros((0, 2), np.int64), ())
    yield Case("arange", lambda: blu.arange(0), lambda: np.arange(0), ())
    yield Case("arange", lambda: blu.arange(5, 2), lambda: np.arange(5, 2), ())
    yield Case("linspace", lambda: blu.linspace(0, 1, 0), lambda: np.linspace(0, 1, 0, dtype=np.float32), ())
    yield Case("eye", lambda: blu.eye(0, 3), lambda: np.eye(0, 3, dtype=np.float32), ())
    yield Case("tri", lambda: blu.tri(0, 2), lambda: np.tri(0, 2, dtype=np.float32), ())
    for name in ("tril", "triu", "diagonal", "trace"):
        yield Case(name, lambda x, name=name: getattr(blu, name)(x), getattr(np, name), (floats((0, 3)),))
    yield Case("diagonal", lambda x: blu.diagonal(x, 5), lambda x: np.diagonal(x, 5), (floats((2, 3)),))


def contraction() -> Iterator[Case]:
    """Products over and of nothing: sums of no terms are zero."""
    for left, right in (
        ((0, 3), (3, 2)),
        ((2, 0), (0, 3)),
        ((2, 3), (3, 0)),
        ((0,), (0,)),
        ((4, 0, 2), (2, 3)),
        ((0, 2, 3), (3, 1)),
    ):
        yield Case("matmul", lambda x, y: x @ y, lambda x, y: x @ y, (floats(left), floats(right)))
    yield Case("dot", blu.dot, np.dot, (floats((0,)), floats((0,))))
    yield Case("dot", blu.dot, np.dot, (floats(()), floats((2,))))
    yield Case("outer", blu.outer, np.outer, (floats((0,)), floats((3,))))
    yield Case("outer", blu.outer, np.outer, (floats(()), floats(())))
    yield Case(
        "tensordot",
        lambda x, y: blu.tensordot(x, y, 1),
        lambda x, y: np.tensordot(x, y, 1),
        (floats((2, 0)), floats((0, 3))),
    )
    yield Case(
        "tensordot",
        lambda x, y: blu.tensordot(x, y, 0),
        lambda x, y: np.tensordot(x, y, 0),
        (floats(()), floats((0, 3))),
    )
    yield Case(
        "einsum", lambda x, y: blu.einsum("ij,jk->ik", x, y), lambda x, y: x @ y, (floats((2, 0)), floats((0, 3)))
    )
    yield Case("einsum", lambda x: blu.einsum("ij->", x), lambda x: x.sum(), (floats((0, 3)),))


def indexing() -> Iterator[Case]:
    """Positions in and of nothing."""
    x, none, one = floats((4, 3)), np.zeros((0,), np.int64), np.asarray(2)
    yield Case("take", lambda x, i: blu.take(x, i, 0), lambda x, i: np.take(x, i, 0), (x, none))
    yield Case("take", lambda x, i: blu.take(x, i, 0), lambda x, i: np.take(x, i, 0), (x, one))
    yield Case("take", lambda x, i: blu.take(x, i, 1), lambda x, i: np.take(x, i, 1), (floats((0, 3)), one))
    yield Case("take", lambda x, i: x[i], lambda x, i: x[i], (x, none))
    yield Case("take", lambda x: x[2:2, ::-1], lambda x: x[2:2, ::-1], (x,))
    yield Case("take", lambda x: x[...], lambda x: x[...], (floats(()),))
    yield Case(
        "take_along_axis",
        lambda x, i: blu.take_along_axis(x, i, 0),
        lambda x, i: np.take_along_axis(x, i, 0),
        (x, np.zeros((0, 3), np.int64)),
    )
    yield Case("at", lambda x, i, u: blu.at(x)[i].set(u), lambda x, i, u: x, (x, none, floats((0, 3))))
    yield Case("at", lambda x, u: blu.at(x)[2:2].max(u), lambda x, u: x, (x, floats((0, 3))))
    yield Case("at", lambda x: blu.at(x)[...].multiply(2), lambda x: x * 2, (floats(()),))
    yield Case(
        "put_along_axis", lambda x, i: blu.put_along_axis(x, i, 1, 0), lambda x, i: x, (x, np.zeros((0, 3), np.int64))
    )
    yield Case("masked_scatter", lambda x, y: blu.masked_scatter(x, x > 0, y), lambda x, y: y, (floats((0, 3)),) * 2)
    yield Case("scatter_add", lambda x, i, u: blu.scatter_add(x, i, u), lambda x, i, u: x, (x, none, floats((0, 3))))
    yield Case("dynamic_slice", lambda x, i: blu.dynamic_slice(x, [i, 0], (0, 2)), lambda x, i: x[:0, :2], (x, one))
    yield Case("dynamic_slice", lambda x: blu.dynamic_slice(x, [], ()), lambda x: x, (floats(()),))
    yield Case(
        "dynamic_update_slice",
        lambda x, u, i: blu.dynamic_update_slice(x, u, [i, 0]),
        lambda x, u, i: x,
        (x, floats((0, 3)), one),
    )
    yield Case(
        "dynamic_update_slice",
        lambda x, u: blu.dynamic_update_slice(x, u, []),
        lambda x, u: u,
        (floats(()), floats(())),
    )
    yield Case("one_hot", lambda i: blu.one_hot(i, 3), lambda i: np.zeros((0, 3), np.float32), (none,))
    yield Case("one_hot", lambda i: blu.one_hot(i, 3), lambda i: np.eye(3, dtype=np.float32)[2], (one,))
    for shape in ((0,), (0, 3), (3, 0)):
        yield Case("sort", lambda x: blu.sort(x), np.sort, (floats(shape),))
        yield Case("argsort", lambda x: blu.argsort(x), np.argsort, (floats(shape),))
    yield Case("top_k", lambda x: blu.top_k(x, 2)[0], lambda x: x[:, :2], (floats((0, 3)),))
    yield Case("top_k", lambda x: blu.top_k(x, 0)[1], lambda x: np.zeros((4, 0), np.int64), (x,))


def neural() -> Iterator[Case]:
    """Layers over no rows, over rows of no elements, and attention to nothing."""
    for shape in ((0,), (0, 3), (3, 0), (2, 0, 3)):
        for name in ("softmax", "log_softmax", "layer_norm", "rms_norm"):
            yield Case(name, getattr(blu, name), lambda x: x, (floats(shape),))
        yield Case("standardize", lambda x: blu.standardize(x, -1)[0], lambda x: x, (floats(shape),))
    yield Case("softmax", blu.softmax, np.ones_like, (floats((1,)),))
    for shape in SHAPES:
        dropped = lambda x: blu.dropout(x, 1.0, blu.random.key(0))  # noqa: E731
        drawn = lambda x: blu.dropout(x, 0.5, blu.random.key(0)) * 0.0  # noqa: E731
        yield from (Case("dropout", function, np.zeros_like, (floats(shape),)) for function in (dropped, drawn))
    for queries, keys in ((0, 2), (2, 0)):
        q, k = floats((1, 2, queries, 4)), floats((1, 2, keys, 4))
        yield Case("attention", lambda q, k: blu.attention(q, k, k), lambda q, k: np.zeros_like(q), (q, k))
    yield Case("attention", lambda q: blu.attention(q, q, q, causal=True), lambda q: q, (floats((0, 2, 3, 4)),))
    yield from (Case("rotary", blu.rotary, np.copy, (floats(shape),)) for shape in ((3, 0), (0, 4), (2, 0, 6)))
    for shape in SHAPES:
        yield Case("lgamma", lambda x: blu.lgamma(x - x + 2.0), np.zeros_like, (floats(shape),))
        yield Case("digamma", lambda x: blu.digamma(x - x + 1.0), lambda x: x * 0 - 0.5772157, (floats(shape),))
        yield Case("erfinv", lambda x: blu.erf(blu.erfinv(x)), np.copy, (floats(shape),))
        yield Case("prelu", lambda x: blu.prelu(x, 0.5), lambda x: np.where(x > 0, x, x * 0.5), (floats(shape),))
    labels = np.zeros((0,), np.int64)
    yield Case(
        "cross_entropy",
        lambda x, i: blu.cross_entropy(x, i, reduction="sum"),
        lambda x, i: np.float32(0),
        (floats((0, 3)), labels),
    )
    yield Case(
        "cross_entropy",
        lambda x, i: blu.cross_entropy(x, i, reduction="none"),
        lambda x, i: np.zeros((0,), np.float32),
        (floats((0, 3)), labels),
    )


def losses() -> Iterator[Case]:
    """Losses of nothing, summed and all of them, and of a single pair of numbers."""
    pairs: dict[str, Callable[..., np.ndarray]] = {
        "mse_loss": lambda x, y: (x - y) ** 2,
        "l1_loss": lambda x, y: np.abs(x - y),
        "huber_loss": lambda x, y: (x - y) ** 2 / 2,
        "smooth_l1_loss": lambda x, y: (x - y) ** 2 / 2,
        "kl_div": lambda x, y: y * (np.log(y) - x),
        "hinge_embedding_loss": lambda x, y: x + np.maximum(1 - x, 0),
        "binary_cross_entropy_with_logits": lambda x, y: (1 - y) * x - np.log(_sigmoid(x)),
        "binary_cross_entropy": lambda x, y: -y * np.log(x) - (1 - y) * np.log(1 - x),
        "soft_margin_loss": lambda x, y: np.log1p(np.exp(-y * x)),
        "poisson_nll_loss": lambda x, y: np.exp(x) - y * x,
        "margin_ranking_loss": lambda x, y, side: np.maximum(-side * (x - y), 0),
        "gaussian_nll_loss": lambda x, y, variance: (np.log(variance) + (x - y) ** 2 / variance) / 2,
    }
    for name, reference in pairs.items():
        for shape in SHAPES:
            arrays = tuple(floats(shape) for _ in range(reference.__code__.co_argcount))
            for reduction, fold in (("none", np.asarray), ("sum", np.sum)):
                function = partial(getattr(blu, name), reduction=reduction)
                yield Case(name, function, lambda *x, reference=reference, fold=fold: fold(reference(*x)), arrays)
    yield Case(
        "nll_loss",
        lambda x, i: blu.nll_loss(x, i, reduction="sum"),
        lambda x, i: np.float32(0),
        (floats((0, 3)), np.zeros((0,), np.int64)),
    )
    yield Case("nll_loss", lambda x, i: blu.nll_loss(x, i), lambda x, i: -x[i], (floats((3,)), np.asarray(2)))
    for shape in ((0, 3), (3, 0)):
        yield Case("cosine_similarity", blu.cosine_similarity, lambda x, y: (x * y).sum(1), (floats(shape),) * 2)
        for name, third in (
            ("cosine_embedding_loss", np.ones(shape[0], np.float32)),
            ("triplet_margin_loss", floats(shape)),
        ):
            function = partial(getattr(blu, name), reduction="none")
            yield Case(name, function, lambda x, y, z: 1 + (x * y).sum(1), (floats(shape), floats(shape), third))


def composed() -> Iterator[Case]:
    """Functions that are made of others."""
    for shape in SHAPES:
        x, y = floats(shape), floats(shape)
        for name in ("positive", "angle", "conj", "real", "imag", "signbit", "nan_to_num", "count_nonzero"):
            yield Case(name, getattr(blu, name), getattr(np, name), (x,))
        for name in ("hypot", "nextafter", "isclose", "isin", "fmod", "allclose"):
            yield Case(name, getattr(blu, name), getattr(np, name), (x, y))
    x, k, none = floats((2, 0)), integers((0, 3)), floats((0,))
    yield Case("vector_norm", blu.vector_norm, np.linalg.vector_norm, (x,))
    yield Case("matrix_norm", blu.matrix_norm, np.linalg.matrix_norm, (x,))
    yield Case("vecdot", blu.vecdot, np.vecdot, (x, x))
    yield Case("vdot", blu.vdot, np.vdot, (x, x))
    yield Case("complex", blu.complex, lambda x, y: x + 1j * y, (x, x))
    yield Case("cross", blu.cross, np.cross, (k, k))
    yield Case("diff", blu.diff, np.diff, (x,))
    yield Case("cumprod", lambda x: blu.cumprod(x, 1), lambda x: np.cumprod(x, 1), (x,))
    for name in ("cummax", "cummin", "logcumsumexp"):
        yield Case(name, lambda x, name=name: getattr(blu, name)(x, 1), lambda x: x, (x,))
    yield Case("searchsorted", blu.searchsorted, np.searchsorted, (none, x + 1))
    yield Case("searchsorted", blu.searchsorted, np.searchsorted, (floats((3,)), none))
    yield Case("matrix_transpose", blu.matrix_transpose, np.matrix_transpose, (x,))
    yield Case("meshgrid", lambda x, y: blu.meshgrid(x, y)[0], lambda x, y: np.meshgrid(x, y)[0], (none, floats((2,))))
    yield Case("unstack", lambda x: blu.unstack(x)[1], lambda x: x[1], (x,))
    yield from selected(none, k, np.zeros(0, np.int64))
    yield Case("cdist", blu.cdist, lambda x, y: np.zeros((2, 3), np.float32), (x, floats((3, 0))))


def selected(none: np.ndarray, flags: np.ndarray, empty: np.ndarray) -> Iterator[Case]:
    """What is found in nothing, and how often."""
    for name in ("flatnonzero", "unique"):
        yield Case(name, lambda x, name=name: getattr(blu, name)(x, size=0), getattr(np, name), (none,))
    yield Case("nonzero", lambda x: blu.nonzero(x, size=0)[1], lambda x: np.nonzero(x)[1], (flags,))
    yield Case("argwhere", lambda x: blu.argwhere(x, size=0), np.argwhere, (flags,))
    yield Case("compress", lambda x: blu.compress(x, x, size=0), lambda x: x[x > 0], (none,))
    yield Case("bincount", lambda x: blu.bincount(x, size=0), np.bincount, (flags.ravel(),))
    for name, wanted in (("sum", 0), ("prod", 1), ("mean", 0), ("max", -np.inf), ("min", np.inf)):
        join, full = getattr(blu, f"segment_{name}"), np.full((2,), wanted, np.float32)
        yield Case(f"segment_{name}", lambda x, i, join=join: join(x, i, 2), lambda x, i, y=full: y, (none, empty))
    yield Case("histogram", lambda x: blu.histogram(x)[0], lambda x: np.histogram(x)[0], (none,))
    for name in ("", "nan"):
        median, quantile, x = getattr(blu, f"{name}median"), getattr(blu, f"{name}quantile"), floats((0, 3))
        yield Case(f"{name}median", lambda x, f=median: f(x, 1), lambda x: x[:, 0], (x,))
        yield Case(f"{name}quantile", lambda x, f=quantile: f(x, [0.5, 1], 1), lambda x: x[:, :2].T, (x,))


def all_cases() -> list[Case]:
    """Every case."""
    groups = (pointwise, folding, arrangement, contraction, indexing, neural, losses, composed)
    return [case for group in groups for case in group()]
