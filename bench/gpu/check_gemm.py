"""Checks of matrix products: layouts, dtypes, odd sizes, views, batches, fused operations, split k; and speed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product

import ml_dtypes
import numpy as np

import blu
from bench.gpu.case import Case

DTYPES = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32, "tf32": np.float32}
FLOAT8 = {"f8e4m3": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2}
# Against the CPU, which sums in another order: of one rounding of the result, or of operands.
TOLERANCES = {"bf16": 8e-3, "f16": 1e-3, "f32": 2e-6, "tf32": 2e-3}
# Of warpgroups, whose sums of fp8 have fewer bits than an f32: up to 3.0e-4 on an H100.
FLOAT8_TOLERANCE = 1e-3
LAYOUTS = ("nn", "nt", "tn", "tt")
ODD = ((1, 1, 1), (3, 17, 50), (17, 3, 129), (50, 129, 1), (127, 50, 17), (129, 127, 3), (50, 1, 127), (1, 129, 50),
       (127, 129, 130), (200, 257, 66))  # fmt: skip


def cases() -> Iterator[Case]:
    """Small cases, of which every element is compared."""
    for dtype in DTYPES:
        for layout in LAYOUTS:
            yield _product(dtype, layout, (256, 192, 320))
            yield _product(dtype, layout, (130, 70, 90))
        for place, sizes in enumerate(ODD):
            yield _product(dtype, LAYOUTS[place % 4], sizes)
            yield _product(dtype, LAYOUTS[(place + 1) % 4], sizes)
    yield from _long()
    yield from _few_rows()
    yield from _views()
    yield from _fused()
    yield from _wide()
    yield from _slopes()
    yield from _exponentials()
    yield from _float8()


def _random(shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray:
    rng = np.random.default_rng([seed, *shape])
    return rng.standard_normal(shape, dtype=np.float32).astype(DTYPES[dtype])


def multiply(layout: str, precision: str, left: blu.Tensor, right: blu.Tensor) -> blu.Tensor:
    """left @ right, of which either may be stored transposed ("t")."""
    left, right = (x.swapaxes(-1, -2) if kind == "t" else x for x, kind in zip((left, right), layout, strict=True))
    return blu.matmul(left, right, precision=precision)


def _product(dtype: str, layout: str, sizes: tuple[int, int, int]) -> Case:
    shapes = shapes_of(layout, sizes)
    operands = tuple(_random(shape, dtype, place) for place, shape in enumerate(shapes))
    function = partial(multiply, layout, "tf32" if dtype == "tf32" else "highest")
    return Case(f"gemm {dtype} {layout} {sizes}", function, operands, TOLERANCES[dtype])


def shapes_of(layout: str, sizes: Sequence[int]) -> tuple[tuple[int, int], tuple[int, int]]:
    """The shapes of both factors of a product of these rows, columns and depth."""
    rows, columns, depth = sizes
    left = (depth, rows) if layout[0] == "t" else (rows, depth)
    return left, (columns, depth) if layout[1] == "t" else (depth, columns)


def _long() -> Iterator[Case]:
    """Long k, split among blocks."""
    for dtype in DTYPES:
        for layout, sizes in (("tn", (96, 130, 8192)), ("nt", (64, 64, 5000)), ("nn", (200, 72, 4097))):
            yield _product(dtype, layout, sizes)


def _few_rows() -> Iterator[Case]:
    """A few rows times weights, as in decoding."""
    for dtype in ("bf16", "f16", "f32"):
        for rows in (1, 2, 4, 7):
            for layout in ("nn", "nt"):
                yield _product(dtype, layout, (rows, 770, 768))
        for rows, columns, depth in ((8, 2304, 768), (9, 72, 3072), (16, 776, 1000), (32, 3072, 768), (31, 40, 8192)):
            for layout in LAYOUTS:
                yield _product(dtype, layout, (rows, columns, depth))
        yield _product(dtype, "nt", (1, 1003, 1030))
        yield _product(dtype, "nn", (3, 1003, 1031))


def _views() -> Iterator[Case]:
    left, right = _random((300, 200), "bf16", 0), _random((300, 264), "bf16", 1)
    yield Case("gemm of slices", lambda a, b: a[5:133, 8:136] @ b[3:131, 8:200], (left, right), TOLERANCES["bf16"])
    yield Case("gemm of odd slices", lambda a, b: a[5:133, 7:135] @ b[3:131, 1:200], (left, right), TOLERANCES["bf16"])
    yield Case("gemm of every other", lambda a, b: a[:128, ::2] @ b[:100, ::2], (left, right), TOLERANCES["bf16"])
    heads = [_random((2, 130, 3, 40), "bf16", seed) for seed in (0, 1)]
    scores = partial(blu.einsum, "bthd,bshd->bhts")
    yield Case("gemm of heads", scores, tuple(heads), TOLERANCES["bf16"])
    for dtype in ("bf16", "f32"):
        batch = (_random((6, 5, 70, 64), dtype, 0), _random((6, 5, 64, 66), dtype, 1))
        yield Case(f"batch of gemm {dtype}", lambda a, b: a @ b, batch, TOLERANCES[dtype])
        shared = (_random((6, 70, 64), dtype, 0), _random((64, 66), dtype, 1))
        yield Case(f"gemm of many rows {dtype}", lambda a, b: a @ b, shared, TOLERANCES[dtype])


def _fused() -> Iterator[Case]:
    for dtype in DTYPES:
        precision = "tf32" if dtype == "tf32" else "highest"
        for rows, columns in ((256, 192), (129, 75)):
            shapes = ((rows, 96), (96, columns), (columns,), (rows, columns))
            operands = tuple(_random(shape, dtype, place) for place, shape in enumerate(shapes))
            function = partial(block, precision)
            yield Case(f"fused gemm {dtype} {rows}x{columns}", function, operands, 2 * TOLERANCES[dtype])
    shapes = ((4096, 96), (4096, 130), (96, 130), (96, 130), (96, 130))
    operands = tuple(_random(shape, "f32", place) for place, shape in enumerate(shapes))
    yield Case("fused update", partial(_update, "highest"), operands, 1e-4)
    yield Case("fused update tf32", partial(_update, "tf32"), operands, 2e-2)


def _wide() -> Iterator[Case]:
    """Enough tiles for the kernels of Hopper's warpgroups, the last of which reach beyond the result."""
    for dtype, layouts in (("bf16", LAYOUTS), ("f16", ("nt",)), ("tf32", ("nt",))):
        element, precision = ("f32", "tf32") if dtype == "tf32" else (dtype, "highest")
        for layout in layouts:
            specs = tuple(blu.spec(shape, element) for shape in shapes_of(layout, (2048, 1032, 136)))
            yield Case(f"wide gemm {dtype} {layout}", partial(multiply, layout, precision), specs, TOLERANCES[dtype])
    shapes = ((2048, 136), (136, 1032), (1032,), (2048, 1032))
    specs = tuple(blu.spec(shape, "bf16") for shape in shapes)
    yield Case("wide fused gemm bf16", partial(block, "highest"), specs, 2 * TOLERANCES["bf16"])


def _slopes() -> Iterator[Case]:
    """GELU whose slope is kept as bytes, of tiles of 128 rows, one row less and one more: slopes are 1/400 off."""
    for dtype, bound in (("bf16", 1.6e-2), ("f16", 4e-3)):
        for rows in (1023, 1024, 1025):
            shapes = ((rows, 128), (128, 1536), (1536,), (1536, 128), (rows, 128))
            specs = tuple(blu.spec(shape) for shape in shapes)
            yield Case(f"gelu slopes {dtype} {rows}", partial(perceptron, dtype), specs, bound, 0.3)


def _exponentials() -> Iterator[Case]:
    """Exponentials in halves, and sums of what is rounded to these: whole tiles, and 8 rows or columns less or more."""
    for dtype in ("bf16", "f16"):
        bounds = {dtype: TOLERANCES[dtype], "f32": 1e-5}
        for rows, columns in ((1016, 1544), (1024, 1536), (1032, 1528)):
            specs = (blu.spec((rows, 128), dtype), blu.spec((columns, 128), dtype), blu.spec((rows,)))
            yield Case(f"exponentials {dtype} {rows}x{columns}", exponentials, specs, bounds, 0.3)


def exponentials(x: blu.Tensor, w: blu.Tensor, less: blu.Tensor) -> tuple[blu.Tensor, blu.Tensor]:
    """exp(x w^T - less), in the dtype of x, and sums along rows in f32."""
    sums = blu.matmul(x.astype("f32"), w.astype("f32").swapaxes(0, 1), precision=x.dtype.name)
    e = blu.exp(sums - less[:, None])
    return e.astype(x.dtype), blu.sum(e, axis=1)


def perceptron(policy: str, *leaves: blu.Tensor) -> tuple:
    """The gradients of `perceptron_gradients`, in mixed precision."""
    with blu.autocast(policy):
        return perceptron_gradients(*leaves)


def perceptron_gradients(x: blu.Tensor, up: blu.Tensor, bias: blu.Tensor, down: blu.Tensor, g: blu.Tensor) -> tuple:
    """Gradients of two products with GELU between."""

    def loss(*leaves: blu.Tensor) -> blu.Tensor:
        x, up, bias, down = leaves
        result = blu.gelu(x @ up + bias, approximate="tanh") @ down
        return (result.astype(g.dtype) * g).sum()

    return blu.grad(loss, argnums=(0, 1, 2, 3))(x, up, bias, down)


def _float8() -> Iterator[Case]:
    """By warpgroups, where factors are copied that do not lie for it, and small ones in bf16."""
    for kinds in product(FLOAT8, repeat=2):
        for layout in LAYOUTS:
            for sizes in ((256, 192, 320), (130, 257, 333), (3, 17, 50), (128, 128, 4224)):
                shapes = shapes_of(layout, sizes)
                factors = (
                    _random(shape, "f32", place).astype(FLOAT8[kind])
                    for place, (shape, kind) in enumerate(zip(shapes, kinds, strict=True))
                )
                name = f"gemm {' x '.join(kinds)} {layout} {sizes}"
                yield Case(name, partial(multiply, layout, "highest"), tuple(factors), FLOAT8_TOLERANCE)
    specs = (blu.spec((2048, 512), "f8e4m3"), blu.spec((1032, 512), "f8e4m3"), blu.spec((1032,), "f32"))
    yield Case("wide fused gemm f8e4m3", _scaled, specs, FLOAT8_TOLERANCE + TOLERANCES["bf16"])


def _scaled(x: blu.Tensor, w: blu.Tensor, bias: blu.Tensor) -> blu.Tensor:
    return (blu.matmul(x, w.T) * np.float32(0.01) + bias).astype("bf16")


def block(precision: str, x: blu.Tensor, w: blu.Tensor, bias: blu.Tensor, residual: blu.Tensor) -> tuple:
    """A product with a bias, and its GELU with a residual."""
    before = blu.matmul(x, w, precision=precision) + bias
    return before, blu.gelu(before, approximate="tanh") + residual


def _update(precision: str, x: blu.Tensor, g: blu.Tensor, weights: blu.Tensor, mean: blu.Tensor, square: blu.Tensor):
    """A step of Adam for weights whose gradient is x^T g."""
    gradient = blu.matmul(x.swapaxes(0, 1), g, precision=precision)
    mean = 0.9 * mean + 0.1 * gradient
    square = 0.95 * square * square + 0.05 * gradient * gradient
    return weights - 0.001 * mean / (blu.sqrt(square) + 1e-3), mean, square


# Rows, columns and depth of GPT-2's products for 65,536 tokens, and of its weights' gradients.
FORWARD = ((65536, 2304, 768), (65536, 768, 768), (65536, 3072, 768), (65536, 768, 3072), (16384, 50304, 768))
GRADIENTS = ((768, 3072, 65536), (3072, 768, 65536), (2304, 768, 65536), (768, 768, 65536))


def speed() -> Iterator[Case]:
    """The problems that Blu is measured by, of random numbers."""
    for dtype, precision in (("bf16", "highest"), ("f32", "tf32"), ("f32", "highest")):
        kind = precision if precision == "tf32" else dtype
        size = 4096 if kind == "f32" else 8192
        for layout in ("nn", "nt"):
            yield _timed(dtype, precision, layout, (size, size, size))
        for sizes in FORWARD:
            for layout in ("nn", "nt"):
                yield _timed(dtype, precision, layout, sizes if kind != "f32" else (8192, *sizes[1:]))
        for sizes in GRADIENTS:
            yield _timed(dtype, precision, "tn", sizes)
    for rows, columns, depth in ((1, 2304, 768), (1, 3072, 768), (1, 768, 3072), (1, 50304, 768), (8, 50304, 768)):
        yield _timed("bf16", "highest", "nt" if columns == 50304 else "nn", (rows, columns, depth))
    specs = [blu.spec(shape, "bf16") for shape in ((65536, 768), (768, 3072), (3072,), (65536, 3072))]
    yield Case("gemm bf16 with bias, GELU and residual 65536x3072x768", partial(block, "highest"), tuple(specs), 2e-2)
    operands = (blu.spec((48, 256, 64), "bf16"), blu.spec((48, 64, 256), "bf16"))
    yield Case("gemm bf16 48 x 256x256x64", lambda a, b: a @ b, operands, TOLERANCES["bf16"])


def _timed(dtype: str, precision: str, layout: str, sizes: tuple[int, int, int]) -> Case:
    kind = "tf32" if precision == "tf32" else dtype
    operands = tuple(blu.spec(shape, dtype) for shape in shapes_of(layout, sizes))
    function: Callable = partial(multiply, layout, precision)
    return Case(f"gemm {kind} {layout} {'x'.join(map(str, sizes))}", function, operands, TOLERANCES[kind])
