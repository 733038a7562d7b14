"""The CPU GEMM and GEMV emitters against numpy in float64, and their bits against each other."""

from __future__ import annotations

import threading

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blu.dialects.core.mlir import ir
from blu.dialects.targets.cpu import CPU_TARGETS, CpuTarget
from blu.passes.cpu.gemm import gemm
from blu.passes.cpu.gemm.choice import SCHEDULER, _choose_tile
from blu.passes.cpu.gemm.schedule import LONG_DEPTH, PanelTilesSchedule
from blu.passes.kernels.choose_schedules import fit_kernel
from tests.support.kernels.cpu_kernel import compile_kernel, host_targets, run_kernel
from tests.support.kernels.gemm_text import NN, NT, TN, TT, Buffer, gemm_text, plain_text

ORIENTATIONS = {"nn": NN, "nt": NT, "tn": TN, "tt": TT}
DTYPES = {"f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16, "f16": np.float16, "i32": np.int32}
V2, V3, V4 = "x86-64-v2", "x86-64-v3", "x86-64-v4"


def emitted(text: str, target: CpuTarget, schedule: PanelTilesSchedule | None = None) -> ir.Module:
    """The module of a kernel text after the emitter ran on it, with the emitter's own schedule or a given one."""
    context = ir.Context()
    context.enable_multithreading(False)
    with context, ir.Location.unknown():
        module = ir.Module.parse(text)
        kernel = module.body.operations[0]
        if schedule is not None:
            kernel.attributes["blu.schedule"] = schedule.to_attribute()
        else:
            fit_kernel(kernel, target, SCHEDULER)
        gemm.emit(kernel, target)
        module.operation.verify()
    return module


def operands(orientation: str, sizes: tuple[int, int, int], dtype: str = "f32") -> tuple[np.ndarray, ...]:
    """Random operands as they lie in memory, and their product in float64."""
    rows, columns, depth = sizes
    random = np.random.default_rng(rows * 7 + columns * 3 + depth)
    left, right = (random.standard_normal(shape) for shape in ((rows, depth), (depth, columns)))
    if dtype == "i32":
        left, right = left * 10, right * 10
    left, right = left.astype(DTYPES[dtype]), right.astype(DTYPES[dtype])
    product = left.astype(np.float64) @ right.astype(np.float64)
    left, right = (left if orientation[0] == "n" else left.T), (right if orientation[1] == "n" else right.T)
    return np.ascontiguousarray(left), np.ascontiguousarray(right), product


def close(output: np.ndarray, expected: np.ndarray, depth: int, unit: float = 2**-24) -> None:
    """Within the rounding errors of a chain of `depth` additions of standard normal products."""
    np.testing.assert_allclose(output.astype(np.float64), expected, rtol=4 * unit, atol=12 * unit * (depth + 2))


@pytest.mark.parametrize("orientation", ORIENTATIONS)
@pytest.mark.parametrize(
    "sizes",
    [(1, 1, 1), (33, 240, 80), (13, 37, 21), (7, 1, 5), (1, 97, 11), (130, 50, 600), (5, 3, 0), (16, 48, 1),
     (0, 5, 3), (4, 0, 3), (3, 31, 37), (64, 64, 64)],
)  # fmt: skip
def test_products(orientation: str, sizes: tuple[int, int, int]):
    rows, columns, depth = sizes
    left, right, expected = operands(orientation, sizes)
    output = np.full((rows, columns), np.nan, np.float32)
    target = host_targets()[0]
    run_kernel(emitted(plain_text(ORIENTATIONS[orientation], *sizes), target), "gemm", [left, right], [output])
    close(output, expected, depth)


@settings(max_examples=15, deadline=None)
@given(st.sampled_from(sorted(ORIENTATIONS)), *[st.integers(1, 70)] * 3, st.sampled_from(host_targets()))
def test_any_small_product(orientation: str, rows: int, columns: int, depth: int, target: CpuTarget):
    left, right, expected = operands(orientation, (rows, columns, depth))
    output = np.full((rows, columns), np.nan, np.float32)
    module = emitted(plain_text(ORIENTATIONS[orientation], rows, columns, depth), target)
    run_kernel(module, "gemm", [left, right], [output], target=target)
    close(output, expected, depth)


@pytest.mark.parametrize("target", host_targets(), ids=lambda target: target.name)
@pytest.mark.parametrize("orientation", ["nn", "nt"])
@pytest.mark.parametrize("dtype", ["f64", "bf16", "f16", "i32"])
@pytest.mark.parametrize("rows", [1, 20])
def test_element_types(dtype: str, orientation: str, rows: int, target: CpuTarget):
    sizes = (rows, 53, 45)
    left, right, expected = operands(orientation, sizes, dtype)
    kind = dtype if dtype in ("f64", "i32") else "f32"
    output = np.zeros(sizes[:2], DTYPES[kind])
    module = emitted(plain_text(ORIENTATIONS[orientation], *sizes, dtype), target)
    run_kernel(module, "gemm", [left, right], [output], target=target)
    if dtype == "i32":
        assert np.array_equal(output, expected.astype(np.int32))
    else:
        close(output, expected, sizes[2], 2**-53 if dtype == "f64" else 2**-24)


def test_narrow_result_rounds_once():
    left, right, expected = operands("nn", (9, 40, 30), "bf16")
    output = np.zeros((9, 40), ml_dtypes.bfloat16)
    text = gemm_text(Buffer((9, 30), "bf16"), Buffer((30, 40), "bf16"), Buffer((9, 40), "bf16"), NN)
    run_kernel(emitted(text, host_targets()[0]), "gemm", [left, right], [output])
    np.testing.assert_allclose(output.astype(np.float64), expected, rtol=2**-8, atol=1e-5)


@pytest.mark.parametrize("rows", [1, 21])
def test_strided_views_with_offsets(rows: int):
    left = Buffer((rows, 19), strides=(41, 2), offset=3)
    right = Buffer((19, 50), strides=(3, 60), offset=7)
    output = Buffer((rows, 50), strides=(1, rows + 2), offset=5)
    random = np.random.default_rng(0)
    memory = [random.standard_normal(buffer.length).astype(np.float32) for buffer in (left, right, output)]
    before = memory[2].copy()
    text = gemm_text(left, right, output, NN)
    run_kernel(emitted(text, host_targets()[0]), "gemm", memory[:2], memory[2:])
    expected = left.view(memory[0]).astype(np.float64) @ right.view(memory[1]).astype(np.float64)
    close(output.view(memory[2]), expected, 19)
    output.view(memory[2])[:] = output.view(before)
    assert np.array_equal(memory[2], before), "something outside of the view was written"


def test_batches_and_several_row_dims():
    maps = ("(b, h, m, n, k) -> (b, m, h, k)", "(b, h, m, n, k) -> (b, h, n, k)", "(b, h, m, n, k) -> (b, h, m, n)")
    left, right, output = Buffer((2, 5, 3, 20)), Buffer((2, 3, 18, 20)), Buffer((2, 3, 5, 18))
    random = np.random.default_rng(1)
    a, b = (random.standard_normal(buffer.shape).astype(np.float32) for buffer in (left, right))
    c = np.zeros(output.shape, np.float32)
    run_kernel(emitted(gemm_text(left, right, output, maps), host_targets()[0]), "gemm", [a, b], [c])
    close(c, np.einsum("bmhk,bhnk->bhmn", a.astype(np.float64), b.astype(np.float64)), 20)
    maps = ("(b, t, n, k) -> (b, t, k)", "(b, t, n, k) -> (k, n)", "(b, t, n, k) -> (b, t, n)")
    c = np.zeros((2, 5, 33), np.float32)
    text = gemm_text(Buffer((2, 5, 20)), Buffer((20, 33)), Buffer((2, 5, 33)), maps)
    a, b = random.standard_normal((2, 5, 20)).astype(np.float32), random.standard_normal((20, 33)).astype(np.float32)
    run_kernel(emitted(text, host_targets()[0]), "gemm", [a, b], [c])
    close(c, a.astype(np.float64) @ b.astype(np.float64), 20)


def test_several_reduction_dims():
    maps = ("(b, t, m, n) -> (b, t, m)", "(b, t, m, n) -> (b, t, n)", "(b, t, m, n) -> (m, n)")
    a, b = (np.random.default_rng(2).standard_normal((3, 7, size)).astype(np.float32) for size in (20, 50))
    c = np.zeros((20, 50), np.float32)
    text = gemm_text(Buffer(a.shape), Buffer(b.shape), Buffer(c.shape), maps)
    run_kernel(emitted(text, host_targets()[0]), "gemm", [a, b], [c])
    close(c, np.einsum("btm,btn->mn", a.astype(np.float64), b.astype(np.float64)), 21)


def test_dot_product_and_matrix_times_vector():
    a, x = (np.random.default_rng(3).standard_normal(shape).astype(np.float32) for shape in ((19, 70), (70,)))
    y, dot = np.zeros(19, np.float32), np.zeros((), np.float32)
    maps = ("(m, k) -> (m, k)", "(m, k) -> (k)", "(m, k) -> (m)")
    text = gemm_text(Buffer((19, 70)), Buffer((70,)), Buffer((19,)), maps)
    run_kernel(emitted(text, host_targets()[0]), "gemm", [a, x], [y])
    close(y, a.astype(np.float64) @ x, 70)
    maps = ("(k) -> (k)", "(k) -> (k)", "(k) -> ()")
    text = gemm_text(Buffer((70,)), Buffer((70,)), Buffer(()), maps)
    run_kernel(emitted(text, host_targets()[0]), "gemm", [x, x], [dot])
    close(dot, x.astype(np.float64) @ x, 70)


BIAS = """
    %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>,
        affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%sum, %x0 : TENSOR, tensor<COLUMNSxf32>) outs(%empty : TENSOR) {
    ^bb0(%s: f32, %bias: f32, %o: f32):
      %r = arith.addf %s, %bias : f32
      linalg.yield %r : f32
    } -> TENSOR
"""
LONG = """
    %half = arith.constant 0.5 : f32
    %t:2 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (j, i)>,
        affine_map<(i, j) -> (j)>, affine_map<(i, j) -> ()>, affine_map<(i, j) -> (j, i)>,
        affine_map<(i, j) -> (j, i)>], iterator_types = ["parallel", "parallel"]}
      ins(%y, %x1, %x2, %x3 : TENSOR, tensor<ROWSxCOLUMNSxbf16>, tensor<ROWSxf32>, tensor<f32>)
      outs(%empty, %empty : TENSOR, TENSOR) {
    ^bb0(%s: f32, %residual: bf16, %column: f32, %scale: f32, %o: f32, %p: f32):
      %wide = arith.extf %residual : bf16 to f32
      %i = linalg.index 0 : index
      %n = arith.index_cast %i : index to i32
      %f = arith.sitofp %n : i32 to f32
      %0 = arith.mulf %s, %scale : f32
      %1 = arith.addf %0, %wide : f32
      %2 = arith.mulf %1, %half : f32
      %3 = arith.addf %2, %column : f32
      %4 = arith.subf %3, %f : f32
      %negative = arith.cmpf olt, %4, %half : f32
      %5 = arith.select %negative, %half, %4 : f32
      linalg.yield %4, %5 : f32, f32
    } -> (TENSOR, TENSOR)
"""


def fill_in(text: str, rows: int, columns: int) -> str:
    text = text.replace("TENSOR", f"tensor<{rows}x{columns}xf32>")
    return text.replace("ROWS", str(rows)).replace("COLUMNS", str(columns))


@pytest.mark.parametrize("orientation", ["nn", "nt"])
@pytest.mark.parametrize("sizes", [(1, 40, 70), (21, 83, 30), (20, 50, 0), (40, 70, 2000)])
def test_epilogues(orientation: str, sizes: tuple[int, int, int]):
    """Bias; then residual, column, scalar and index in a transposed loop nest, with three outputs."""
    rows, columns, depth = sizes
    left, right, product = operands(orientation, sizes)
    random = np.random.default_rng(4)
    bias, column = (random.standard_normal(size).astype(np.float32) for size in (columns, rows))
    residual = random.standard_normal((rows, columns)).astype(ml_dtypes.bfloat16)
    outputs = [np.zeros((rows, columns), np.float32) for _ in range(3)]
    shape, scale = (rows, columns), np.array(1.5, np.float32)
    extra = (Buffer((columns,)), Buffer(shape, "bf16"), Buffer((rows,)), Buffer(()))
    more = (("%t#0", Buffer(shape)), ("%t#1", Buffer(shape)))
    text = gemm_text(
        Buffer(left.shape), Buffer(right.shape), Buffer(shape), ORIENTATIONS[orientation], fill_in(BIAS + LONG, *shape),
        extra, "%y", outputs=more,
    )  # fmt: skip
    module = emitted(text, host_targets()[0])
    run_kernel(module, "gemm", [left, right, bias, residual, column, scale], outputs)
    first = product + bias
    second = (first * 1.5 + residual.astype(np.float64)) * 0.5 + column[:, None] - np.arange(columns)
    for output, expected in zip(outputs, (first, second, np.where(second < 0.5, 0.5, second)), strict=True):
        close(output, expected, depth + 4, 2**-23)


def test_narrow_results_have_equal_panels():
    target = CPU_TARGETS["x86-64-v4"]
    assert (target.gemm_rows, target.gemm_vectors) == (8, 3)
    tiles = {(rows, vectors): _choose_tile(rows, vectors, target) for rows in (32, 384) for vectors in (3, 4, 5, 8)}
    assert {key for key, tile in tiles.items() if tile == (8, 2)} == {(32, 4)}


def some_schedules() -> list[PanelTilesSchedule]:
    """Tiles, blocks of k, chunks, groups and packing that differ in everything, for 16 lanes."""
    return [
        PanelTilesSchedule(8, 3, 16, 1000, 128, 1, 1),
        PanelTilesSchedule(6, 4, 16, 64, 48, 2, 1),
        PanelTilesSchedule(1, 1, 16, 7, 1, 1, 0),
        PanelTilesSchedule(5, 2, 16, 100, 15, 3, 3),
        PanelTilesSchedule(4, 6, 16, 130, 8, 1, 0, 8),
    ]


def test_bits_do_not_depend_on_the_schedule_or_the_vector_width():
    sizes = (45, 150, 130)
    left, right, _ = operands("nn", sizes)
    transposed = np.ascontiguousarray(right.T)
    results = []
    for target in host_targets():
        if target.name == V2:
            continue  # no FMA: products are rounded first
        lanes = target.vector_bytes // 4
        schedules = [PanelTilesSchedule(s.rows, s.vectors, lanes, *_rest(s)) for s in some_schedules()]
        for schedule in [None, *schedules]:
            for orientation, weights in ((NN, right), (NT, transposed)):
                output = np.zeros(sizes[:2], np.float32)
                module = emitted(plain_text(orientation, *sizes), target, schedule)
                run_kernel(module, "gemm", [left, weights], [output], target=target)
                results.append(output)
    for output in results[1:]:
        assert np.array_equal(output, results[0])


def _rest(schedule: PanelTilesSchedule) -> tuple:
    depth, chunk = schedule.depth_block, schedule.chunk_rows
    return depth, chunk, schedule.group_panels, schedule.packed_panels, schedule.fetch_ahead


@pytest.mark.parametrize("depth", [96, LONG_DEPTH + 701])
@pytest.mark.parametrize("orientation", ["nn", "nt"])
def test_a_row_has_the_same_bits_alone_and_in_a_batch(orientation: str, depth: int):
    """Decoding one token and prefilling many run different kernels on the same sums."""
    left, right, _ = operands(orientation, (400, 200, depth))
    outputs = []
    for rows in (400, 33, 12, 3, 1):
        output = np.zeros((rows, 200), np.float32)
        module = emitted(plain_text(ORIENTATIONS[orientation], rows, 200, depth), host_targets()[0])
        run_kernel(module, "gemm", [left[:rows].copy(), right], [output])
        outputs.append(output)
    for output in outputs[1:]:
        assert np.array_equal(outputs[0][: len(output)], output)


def test_long_sums_are_sums_of_chains():
    """One chain of 50257 products would be wrong by about 2e-5 here, as the gradient of GPT-2's head was."""
    sizes = (20, 48, 50257)
    left, right, _ = operands("nn", sizes)
    left, right = np.abs(left), np.abs(right)
    output = np.zeros(sizes[:2], np.float32)
    run_kernel(emitted(plain_text(NN, *sizes), host_targets()[0]), "gemm", [left, right], [output])
    exact = left.astype(np.float64) @ right.astype(np.float64)
    assert np.abs(output / exact - 1).max() < 1e-6


def test_blocks_are_independent():
    sizes = (40, 500, 64)
    left, right, _ = operands("nn", sizes)
    kernel = compile_kernel(emitted(plain_text(NN, *sizes), host_targets()[0]), "gemm")
    outputs = [np.zeros(sizes[:2], np.float32) for _ in range(3)]
    whole, backwards, threads = (kernel.bind(left, right, output) for output in outputs)
    assert kernel.blocks > 1
    whole()
    for block in reversed(range(kernel.blocks)):
        backwards(block, block + 1)
    parts = [(0, kernel.blocks // 2), (kernel.blocks // 2, kernel.blocks)]
    started = [threading.Thread(target=threads, args=part) for part in parts]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    assert np.array_equal(outputs[0], outputs[1])
    assert np.array_equal(outputs[0], outputs[2])


def test_nan_and_infinity_stay_in_their_row():
    left, right, expected = operands("nt", (3, 20, 33))
    left[1, 5], right[7, 9] = np.nan, np.inf
    output = np.zeros((3, 20), np.float32)
    run_kernel(emitted(plain_text(NT, 3, 20, 33), host_targets()[0]), "gemm", [left, right], [output])
    assert np.isnan(output[1]).all()
    others = np.delete(np.arange(20), 7)
    close(output[np.ix_([0, 2], others)], expected[np.ix_([0, 2], others)], 33)
    assert np.isinf(output[[0, 2], 7]).all()
