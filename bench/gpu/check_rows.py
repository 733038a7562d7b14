"""Checks of row and pointwise kernels: types, odd shapes, views, long rows, few rows, NaN, infinity; and bandwidth."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod

import ml_dtypes
import numpy as np

import blu
from bench.gpu.case import Case

TOLERANCES = {"float32": 2e-6, "bfloat16": 5e-3, "float16": 1e-3, "int32": 0.0}
TYPES = {"float32": np.float32, "bfloat16": ml_dtypes.bfloat16, "float16": np.float16, "int32": np.int32}


def cases() -> Iterator[Case]:
    """Small cases, of which every element is compared."""
    yield from _pointwise()
    yield from _row_reductions()
    yield from _column_reductions()
    yield from _rows_with_column_sums()
    yield from _few_rows()
    yield from _special_values()
    yield from _searches()
    yield from _training()


def _random(shape: tuple[int, ...], dtype: str = "float32", seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng([seed, *shape])
    if dtype == "int32":
        return generator.integers(-1000, 1000, shape, dtype=np.int32)
    return generator.standard_normal(shape, dtype=np.float32).astype(TYPES[dtype])


def _case(name: str, function: Callable, *arguments: np.ndarray, error: float | None = None) -> Case:
    tolerance = max(TOLERANCES.get(argument.dtype.name, 0.0) for argument in arguments) if error is None else error
    return Case(name, function, arguments, tolerance)


def _pointwise() -> Iterator[Case]:
    for dtype in ("float32", "bfloat16", "float16", "int32"):
        for shape in ((4096,), (77, 33), (1,), (1, 1), (129, 64), (3, 5, 7, 9), (0, 5), (257, 1000)):
            x, y = _random(shape, dtype), _random(shape, dtype, 1)
            yield _case(f"add {dtype} {shape}", lambda x, y: x + y, x, y)
    x = _random((300, 768))
    yield _case("mixed types", lambda x, y: (x * y).astype("bf16"), x, _random((300, 768), "bfloat16"), error=5e-3)
    yield _case("bias", lambda x, y: x + y, x, _random((768,)))
    yield _case("by row", lambda x, y: x * y[:, None], x, _random((300,)))
    yield _case("two outputs", lambda x: (x + 1.0, x > 0.0), x)
    yield _case("strided", lambda x: x[:, 3:500:2] * 2.0, x)
    yield _case("offset", lambda x: x[1:, 5:] + 1.0, x)
    yield _case("transposed", lambda x: blu.transpose(x) + 0.5, x)
    yield _case("copied transposed", lambda x: blu.concatenate([blu.transpose(x), blu.transpose(x)]), x)
    yield _case("transposed halves", lambda x: blu.transpose(x) * 2.0, _random((129, 257), "bfloat16"))
    yield _case("gelu", lambda x: blu.gelu(x), x)
    yield _case("iota", lambda x: x + blu.arange(768).astype("f32"), x)
    yield _case("where", lambda x, y: blu.where(x > y, x, y), x, _random((300, 768), seed=3))
    tokens = np.random.default_rng(0).integers(0, 300, (4, 65), dtype=np.int32)
    yield _case("embedding", lambda w, t: blu.take(w, t, axis=0), x, tokens)
    yield _case("embedding of odd rows", lambda w, t: blu.take(w, t, axis=0), _random((300, 77)), tokens)
    yield _case("along", lambda x, t: blu.take_along_axis(x, t, axis=1), x, np.resize(tokens, (300, 2)))


def _row_reductions() -> Iterator[Case]:
    shapes = (
        (5, 1),
        (1000, 2),
        (64, 10),
        (33, 31),
        (7, 768),
        (130, 4096),
        (3, 12289),
        (4, 16384),
        (150, 50257),
        (140, 50304),
    )
    for shape in (*shapes, (133, 120000), (135, 70001)):
        for dtype in ("float32", "bfloat16", "float16") if shape[1] < 20000 else ("float32", "bfloat16"):
            x = _random(shape, dtype)
            yield _case(f"softmax {dtype} {shape}", lambda x: blu.softmax(x, axis=-1), x)
            yield _case(f"sum {dtype} {shape}", lambda x: blu.sum(x, axis=-1), x, error=max(1e-5, TOLERANCES[dtype]))
    for shape in ((70, 768), (70, 4096), (33, 100)):
        for dtype in ("float32", "bfloat16"):
            x, w, b = (_random(size, dtype) for size in (shape, shape[1:], shape[1:]))
            yield _case(
                f"layer_norm {dtype} {shape}",
                lambda x, w, b: blu.layer_norm(x, w, b),
                x,
                w,
                b,
                error=1e-2 if dtype != "float32" else 1e-5,
            )
    x = _random((200, 320), "int32")
    yield _case("sum int32", lambda x: blu.sum(x, axis=1), x)
    yield _case("max int32", lambda x: (blu.max(x, axis=1), blu.min(x, axis=1)), x)
    yield _case("any", lambda x: (blu.any(x > 900, axis=1), blu.all(x > -990, axis=1)), x)
    yield _case("argmax", lambda x: blu.argmax(x, axis=1), x)
    yield _case("strided rows", lambda x: blu.sum(x[:, ::3], axis=1), _random((50, 300)), error=1e-5)
    yield _case(
        "rows and columns",
        lambda x: blu.softmax(x - blu.max(x, axis=(1, 2), keepdims=True), axis=-1),
        _random((20, 8, 40)),
    )
    yield _case(
        "sum of two dimensions", lambda x: blu.sum(x[:, :7, :36], axis=(1, 2)), _random((20, 8, 40)), error=1e-5
    )
    yield _case("prod", lambda x: blu.prod(x, axis=1), 1 + 0.1 * _random((40, 50)), error=1e-5)


def _column_reductions() -> Iterator[Case]:
    for shape in ((1000, 768), (4096, 64), (3, 1000), (65537, 8), (5000, 33), (64, 1), (700, 5001), (30000, 3)):
        for dtype in ("float32", "bfloat16"):
            yield _case(
                f"column sum {dtype} {shape}",
                lambda x: blu.sum(x, axis=0),
                _random(shape, dtype),
                error=max(1e-5, TOLERANCES[dtype]),
            )
    x = _random((20, 50, 64))
    yield _case("column sum of the middle", lambda x: blu.sum(x, axis=1), x, error=1e-5)
    yield _case("column sum of two", lambda x: blu.sum(x, axis=(0, 1)), x, error=1e-5)
    yield _case("column maximum", lambda x: blu.max(x, axis=0), x)
    yield _case("column sum of a slice", lambda x: blu.sum(x[:, 3:40], axis=(0, 1)), x, error=1e-5)
    yield _case(
        "column sum of products", lambda x, y: blu.sum(x * y, axis=(0, 1)), x, _random((20, 50, 64), seed=2), error=1e-5
    )


def _rows_with_column_sums() -> Iterator[Case]:
    shapes = ((300, 768), (257, 33), (1000, 1000), (4097, 96), (260, 3), (513, 4096), (256, 1), (70000, 40))
    for shape in shapes:
        for dtype in ("float32", "bfloat16", "float16"):
            x, g, r = (_random(shape, dtype, seed) for seed in range(3))
            w, b = _random(shape[1:]), _random(shape[1:], seed=1)
            error = max(2e-4, 2 * TOLERANCES[dtype])  # on CPUs, the terms of such sums are added one after the other
            if shape[1] > 1:
                yield _case(f"layer_norm and sums {dtype} {shape}", layer_norm_and_sums, x, w, b, g, r, error=error)
            yield _case(f"products and sums {dtype} {shape}", products_and_sums, x, g, error=error)
    for shape in ((4096, 768), (4096, 256), (4128, 1024)):
        arguments = [_random(size, seed=seed) for seed, size in enumerate((shape, shape[1:], shape[1:], shape, shape))]
        yield _case(f"layer_norm and products {shape}", layer_norm_and_products, *arguments, error=2e-3)
    x = _random((300, 40))
    yield _case("softmax and sums", softmax_and_sums, x, error=1e-5)
    yield _case("softmax and sums of columns", lambda x: softmax_and_sums(blu.transpose(x)), x.T.copy(), error=1e-5)
    yield _case("sums of rows and columns", lambda x: (blu.sum(x * x, axis=1), blu.sum(x, axis=0)), x, error=1e-5)


def layer_norm_and_sums(x, w, b, g, r):
    """The backward of a layer norm in a transformer: gradients of parameters, and of the bias before it."""
    _, pull = blu.vjp(lambda x, w, b: blu.layer_norm(x.astype("f32"), w, b), x, w, b)
    dx, dw, db = pull(g.astype("f32"))
    total = dx.astype("f32") + r.astype("f32")
    return total, total.astype("bf16"), dw, db, blu.sum(total, axis=0)


def layer_norm_and_products(x, w, b, g, r):
    """The same for products of tf32, which read rows along columns."""
    y, pull = blu.vjp(lambda x, w, b: blu.layer_norm(x, w, b), x, w, b)
    dx, dw, db = pull(g)
    total = dx + r
    first, second = (blu.matmul(blu.transpose(left), right, precision="tf32") for left, right in ((y, g), (total, r)))
    return total, dw, db, first, second


def products_and_sums(x, y):
    """Elementwise results, and sums of them."""
    z = x * y + 1.0
    return z, blu.sum(z.astype("f32"), axis=0), blu.sum(y.astype("f32"), axis=0)


def softmax_and_sums(x):
    """A softmax, and sums of it and of what it is of."""
    y = blu.softmax(x, axis=-1)
    return y, blu.sum(y, axis=0), blu.sum(x, axis=0)


def _few_rows() -> Iterator[Case]:
    for shape in ((1000003,), (8, 300000), (1, 400000), (3, 131072)):
        for dtype in ("float32", "bfloat16"):
            x = _random(shape, dtype)
            yield _case(f"full sum {dtype} {shape}", lambda x: blu.sum(x), x, error=max(2e-4, TOLERANCES[dtype]))
            yield _case(
                f"long sum {dtype} {shape}", lambda x: blu.sum(x * x, axis=-1), x, error=max(1e-5, TOLERANCES[dtype])
            )
            yield _case(
                f"long softmax {dtype} {shape}",
                lambda x: blu.softmax(x, axis=-1),
                x,
                error=max(1e-5, TOLERANCES[dtype]),
            )
            yield _case(
                f"norm {dtype} {shape}", lambda x: x / blu.sqrt(blu.sum(x * x)), x, error=max(1e-5, TOLERANCES[dtype])
            )


def _special_values() -> Iterator[Case]:
    x = _random((40, 768))
    x[0, 3], x[1, 700], x[2, 5], x[3, :] = np.nan, np.inf, -np.inf, -0.0
    for dtype in ("float32", "bfloat16"):
        special = x.astype(TYPES[dtype])
        error = max(1e-5, TOLERANCES[dtype])
        yield _case(f"NaN in maximum {dtype}", lambda x: (blu.max(x, axis=1), blu.min(x, axis=1)), special, error=error)
        yield _case(f"NaN in softmax {dtype}", lambda x: blu.softmax(x, axis=1), special, error=error)
        yield _case(f"NaN in columns {dtype}", lambda x: blu.max(x, axis=0), special, error=error)


def _searches() -> Iterator[Case]:
    """argmax and argmin: whole numbers with many equal ones, zeros of both signs, NaN."""
    for shape in ((7, 9), (130, 700), (1, 50257), (8, 50257), (300, 4096)):
        for dtype in ("float32", "bfloat16", "float16", "int32"):
            x = (_random(shape, "int32") // 50).astype(TYPES[dtype])
            if dtype != "int32":
                x[:, 1::5] *= -0.0
                x[-1, shape[1] // 2 :] = np.nan
            for axis in (0, 1):
                yield _case(
                    f"searches {dtype} {shape} {axis}",
                    lambda x, axis=axis: (blu.argmax(x, axis=axis), blu.argmin(x, axis=axis)),
                    x,
                    error=0.0,
                )


def layer_norm_gradient(x, w, b, g):
    """The three gradients of a layer norm."""
    _, pull = blu.vjp(lambda x, w, b: blu.layer_norm(x, w, b), x, w, b)
    return pull(g)


def cross_entropy(x, t):
    """The loss and its gradient."""
    return blu.value_and_grad(lambda x: blu.cross_entropy(x, t))(x)


def adamw(p, g, m, v, rate):
    """One step of AdamW on a vector."""
    m, v = 0.9 * m + 0.1 * g, 0.95 * v + 0.05 * g * g
    return p - rate * (m / (blu.sqrt(v) + 1e-8) + 0.1 * p), m, v


def _training() -> Iterator[Case]:
    for shape in ((70, 768), (40, 1000), (65, 4096)):
        x, g = _random(shape), _random(shape, seed=1)
        yield _case(
            f"layer_norm gradient {shape}",
            layer_norm_gradient,
            x,
            _random(shape[1:]),
            _random(shape[1:]),
            g,
            error=2e-5,
        )
    for shape in ((40, 1031), (70, 50257), (66, 50304)):
        t = np.random.default_rng(0).integers(0, shape[1], shape[:1], dtype=np.int32)
        t[3] = -100
        yield _case(f"cross_entropy {shape}", cross_entropy, _random(shape), t, error=1e-5)
        yield _case(f"cross_entropy of halves {shape}", cross_entropy, _random(shape, "bfloat16"), t, error=1e-2)
    p, g, m, v = (_random((100003,), seed=seed) for seed in range(4))
    yield _case("adamw", adamw, p, g, m, abs(v), np.float32(1e-3), error=1e-5)


def bandwidth() -> Iterator[tuple[Case, int]]:
    """Large cases, each with the bytes that have to be moved."""
    for width in (768, 4096):
        x, w = blu.spec((16384, width), "f32"), blu.spec((width,), "f32")
        size = 4 * prod(x.shape)
        yield Case(f"layer_norm 16384x{width}", lambda x, w, b: blu.layer_norm(x, w, b), (x, w, w), 1e-5), 2 * size
        yield Case(f"layer_norm gradient 16384x{width}", layer_norm_gradient, (x, w, w, x), 1e-4), 3 * size
    x, w = blu.spec((65536, 768), "f32"), blu.spec((768,), "f32")
    size = 4 * prod(x.shape)
    yield Case("layer_norm and sums 65536x768", layer_norm_and_sums, (x, w, w, x, x), 1e-4), 9 * size // 2
    x = blu.spec((16, 1024, 3072), "f32")
    yield Case("gelu 16x1024x3072", lambda x: blu.gelu(x, "tanh"), (x,), 1e-5), 8 * prod(x.shape)
    tokens = np.random.default_rng(0).integers(0, 50257, (8192,), dtype=np.int32)
    for columns in (50304, 50257):
        x = blu.spec((8192, columns), "f32")
        yield Case(f"cross_entropy 8192x{columns}", cross_entropy, (x, tokens), 1e-4), 8 * prod(x.shape)
    x = blu.spec((8192, 50304), "bf16")
    yield Case("cross_entropy of halves 8192x50304", cross_entropy, (x, tokens), 1e-2), 4 * prod(x.shape)
    x = blu.spec((16384, 768), "f32")
    yield Case("column sum 16384x768", lambda x: blu.sum(x, axis=0), (x,), 1e-4), 4 * prod(x.shape)
    yield Case("row sum 16384x768", lambda x: blu.sum(x, axis=1), (x,), 1e-4), 4 * prod(x.shape)
    p = blu.spec((124_000_000,), "f32")
    vectors = (p, p, p, p, np.float32(1e-3))
    yield Case("adamw 124M", lambda p, g, m, v, rate: adamw(p, g, m, v * v, rate), vectors, 1e-5), 28 * prod(p.shape)
    yield Case("full sum 124M", lambda x: blu.sum(x), (p,), 1e-3), 4 * prod(p.shape)
    x = blu.spec((8192, 8192), "f32")
    yield Case("transpose 8192x8192", lambda x: blu.transpose(x) * 1.5, (x,), 1e-6), 8 * prod(x.shape)
    x = blu.spec((16384, 3072), "bf16")
    yield Case("column sum of halves 16384x3072", lambda x: blu.sum(x, axis=0), (x,), 1e-2), 2 * prod(x.shape)
    yield Case("softmax of halves 16384x3072", lambda x: blu.softmax(x, axis=-1), (x,), 1e-2), 4 * prod(x.shape)
