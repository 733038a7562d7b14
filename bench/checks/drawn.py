"""Cases of shapes that are drawn by a seed: kernels of all families, in all their dtypes, against float64.

A size is a random one, or about a multiple of a power of two: the one before, itself, the one behind. What is compared
with is computed on the CPU in float64, of the same arguments, but for the ops of `check_lengths`, which have references
of NumPy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

import blu
from bench.checks.drawn_attention import ATTENTION
from bench.checks.drawn_norms import NORMS
from bench.checks.drawn_others import OTHERS
from bench.checks.draws import ERRORS, FLOATS, WHOLE, Draws, drawn_case
from bench.gpu import check_gemm, check_lengths, check_rows
from bench.gpu.case import Case
from bench.gpu.check_samples import case_of
from blu.dialects.core.context import make_context
from blu.dialects.core.op import OPS

EACH = 3
"""Drawn cases of one kind and dtype."""


def drawn_cases(seed: int) -> Iterator[Case]:
    """All cases of a seed."""
    for kind, cases in KINDS.items():
        for number, case in enumerate(cases(Draws(seed, kind))):
            yield replace(case, name=f"drawn {seed} {kind} {number} {case.name}")


def _all_ops(draws: Draws) -> Iterator[Case]:
    """Rows of one drawn length of each op, in all its dtypes."""
    make_context()
    for name, cls in sorted(OPS.items()):
        if name in check_lengths.LONGER:
            length = draws.size(2, 3000)
            samples = [check_lengths.LONGER[name](sample, length) for sample in check_lengths.by_dtype(cls)]
            case = case_of(f"{name} of {length}", cls, samples)
            yield replace(case, reference=partial(check_lengths.running_sums, samples)) if name == "cumsum" else case


def _pointwise(draws: Draws) -> Iterator[Case]:
    for dtype in FLOATS:
        for _ in range(EACH):
            shape = draws.shape(300_000, (1, 40), (1, 300), (1, 2000))
            x, y = draws.array(shape, dtype), draws.array(shape[2:], dtype)
            yield drawn_case(
                f"gelu {dtype}", lambda x, y: blu.gelu(x, approximate="tanh") * y + 1, [x, y], ERRORS[dtype]
            )
            yield drawn_case(f"turned {dtype}", lambda x: blu.transpose(x, (2, 0, 1)) + 0, [x], ERRORS[dtype])
            yield drawn_case(f"parts {dtype}", _parts, [x], ERRORS[dtype])
    for dtype in WHOLE:
        shape = draws.shape(300_000, (1, 3000), (1, 2000))
        x, y = draws.array(shape, dtype), draws.array(shape, dtype)
        yield drawn_case(f"whole {dtype}", lambda x, y: (blu.maximum(x, y) + x, (x // 3).T), [x, y], 0.0)


def _parts(x: Any) -> tuple:
    first, last = x[: (x.shape[0] + 1) // 2], x[:, ::2, 1:] if x.shape[2] > 1 else x
    return blu.concatenate([first, x], axis=0), last * 2, blu.pad(x, ((0, 0), (1, 2), (3, 0)))


def _rows(draws: Draws) -> Iterator[Case]:
    for dtype in FLOATS:
        for most in (300, 3000, 60000):
            shape = draws.shape(600_000, (1, 3000), (2, most))
            x, w, g = draws.array(shape, dtype), draws.array(shape[1:], dtype), draws.array(shape, dtype)
            error = ERRORS[dtype]
            yield drawn_case(f"sums {dtype}", lambda x: (blu.sum(x, axis=1), blu.max(x, axis=1)), [x], error)
            yield drawn_case(f"softmax {dtype}", lambda x: blu.softmax(x, axis=1), [x], error)
            yield drawn_case(f"layer_norm {dtype}", lambda x, w: blu.layer_norm(x, w, w), [x, w], 3 * error)
            yield drawn_case(f"rms_norm {dtype}", lambda x, w: blu.rms_norm(x, w), [x, w], 3 * error)
            if shape[0] > 1:
                yield drawn_case(f"norm gradients {dtype}", check_rows.layer_norm_gradient, [x, w, w, g], 1e2 * error)
            targets = draws.indices(shape[0], shape[1])
            yield drawn_case(f"cross_entropy {dtype}", check_rows.cross_entropy, [x, targets], 2 * error)


def _columns(draws: Draws) -> Iterator[Case]:
    """By clusters from 1,024 rows on, by blocks and rows else; the middle of three dimensions."""
    for dtype in (*FLOATS, "i32", "i64"):
        for least, most in ((2, 1000), (1000, 30000), (1000, 5000), (1000, 5000)):
            shape = draws.shape(3_000_000, (least, most), (1, 5000))
            x, error = draws.array(shape, dtype), ERRORS.get(dtype, 0.0)
            yield drawn_case(f"sums {dtype}", lambda x: blu.sum(x, axis=0), [x], error)
            yield drawn_case(f"most {dtype}", lambda x: (blu.max(x, axis=0), blu.sum(x * x, axis=0)), [x], error)
        shape = draws.shape(2_000_000, (1, 20), (2, 3000), (1, 300))
        yield drawn_case(f"middle {dtype}", lambda x: blu.sum(x, axis=1), [draws.array(shape, dtype)], error)
    for _ in range(EACH):
        rows, columns = draws.shape(1_000_000, (256, 6000), (8, 1100))
        arrays = [draws.array(shape, "f32") for shape in ((rows, columns), (columns,), (columns,))]
        arrays += [draws.array((rows, columns), "f32") for _ in range(2)]
        yield drawn_case("norm and sums", check_rows.layer_norm_and_sums, arrays, 1e-2, _norm_and_sums)
        yield drawn_case("norm and products", check_rows.layer_norm_and_products, arrays, 4e-3)


def _norm_and_sums(x: Any, w: Any, b: Any, g: Any, r: Any) -> tuple:
    """What `layer_norm_and_sums` gives, without its casts."""
    dx, dw, db = check_rows.layer_norm_gradient(x, w, b, g)
    total = dx + r
    return total, total, dw, db, blu.sum(total, axis=0)


def _products(draws: Draws) -> Iterator[Case]:
    for kind in check_gemm.DTYPES:
        for layout in check_gemm.LAYOUTS:
            for most in (64, 600, 1500):
                shapes = check_gemm.shapes_of(layout, draws.shape(100_000_000, (1, most), (1, most), (1, most)))
                arrays = [draws.array(shape, kind) for shape in shapes]
                yield _product(kind, layout, arrays, 2 * check_gemm.TOLERANCES[kind])
    for kinds in (("f8e4m3", "f8e4m3"), ("f8e5m2", "f8e4m3")):
        for layout in check_gemm.LAYOUTS:
            shapes = check_gemm.shapes_of(layout, draws.shape(60_000_000, (1, 600), (1, 600), (1, 600)))
            pairs = zip(kinds, shapes, strict=True)
            arrays = [draws.array(shape, "f32").astype(check_gemm.FLOAT8[kind]) for kind, shape in pairs]
            yield _product(" ".join(kinds), layout, arrays, 2 * check_gemm.FLOAT8_TOLERANCE)


def _product(kind: str, layout: str, arrays: Sequence[np.ndarray], error: float) -> Case:
    precision = "tf32" if kind == "tf32" else "highest"
    multiply, exact = (partial(check_gemm.multiply, layout, item) for item in (precision, "highest"))
    return drawn_case(f"{kind} {layout}", multiply, arrays, error, exact)


def _fused_products(draws: Draws) -> Iterator[Case]:
    """With bias, GELU and a residual; batches; GELU whose slopes are kept as bytes."""
    for kind in check_gemm.DTYPES:
        precision, error = "tf32" if kind == "tf32" else "highest", check_gemm.TOLERANCES[kind]
        for _ in range(EACH):
            rows, columns, depth = draws.size(1, 1500), draws.size(1, 700), draws.size(1, 400)
            shapes = ((rows, depth), (depth, columns), (columns,), (rows, columns))
            arrays = [draws.array(shape, kind) for shape in shapes]
            block, exact = (partial(check_gemm.block, item) for item in (precision, "highest"))
            yield drawn_case(f"fused {kind}", block, arrays, 3 * error, exact)
            batch = draws.size(2, 30)
            shapes = (batch, draws.size(1, 200), depth), (batch, depth, draws.size(1, 200))
            yield _product(f"batch {kind}", "nn", [draws.array(shape, kind) for shape in shapes], 2 * error)
    for policy, error in (("bf16", 2e-2), ("f16", 6e-3)):
        for _ in range(EACH):
            rows, depth, wide = draws.size(100, 2000), 8 * draws.size(8, 40), 8 * draws.size(32, 160)
            shapes = ((rows, depth), (depth, wide), (wide,), (wide, depth), (rows, depth))
            arrays = [np.float32(0.3) * draws.array(shape, "f32") for shape in shapes]
            perceptron = partial(check_gemm.perceptron, policy)
            yield drawn_case(f"gelu slopes {policy}", perceptron, arrays, error, check_gemm.perceptron_gradients)


KINDS = {
    "ops": _all_ops,
    "pointwise": _pointwise,
    "rows": _rows,
    "columns": _columns,
    "products": _products,
    "fused products": _fused_products,
    **OTHERS,
    **ATTENTION,
    **NORMS,
}
"""Each draws cases."""
