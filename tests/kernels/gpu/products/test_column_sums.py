"""Sums down the columns of what follows a product: by the warps that hold its rows, or by a launch of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import blu
from blu.compiler.codegen.cubins import find_ptxas
from blu.dialects.targets.nvidia import SM_90A
from blu.passes.gpu.gemm import gemm
from tests.support.kernels.gpu_products import as_multiplied, bound_of_sums, emit, random_array
from tests.support.kernels.gpu_program import GpuProgram, compile_program

KERNEL = """
#same = affine_map<(i, j) -> (i, j)>
func.func private @gemm_0(%a: memref<{rows}x{depth}x{type}>, %b: memref<{columns}x{depth}x{type}>,
    %before: memref<{rows}x{columns}x{type}>, %to: memref<{rows}x{columns}x{type}{layout}>,
    %sums_to: memref<{parts}x{columns}xf32>) attributes {{blu.kernel = "gemm",
    blu.schedule = {schedule}}} {{
  %x = bufferization.to_tensor %a restrict : memref<{rows}x{depth}x{type}> to tensor<{rows}x{depth}x{type}>
  %w = bufferization.to_tensor %b restrict : memref<{columns}x{depth}x{type}> to tensor<{columns}x{depth}x{type}>
  %z = bufferization.to_tensor %before restrict : memref<{rows}x{columns}x{type}> to tensor<{rows}x{columns}x{type}>
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<{rows}x{columns}xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<{rows}x{columns}xf32>) -> tensor<{rows}x{columns}xf32>
  %product = linalg.contract indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (j, k)>,
      affine_map<(i, j, k) -> (i, j)>] ins(%x, %w : tensor<{rows}x{depth}x{type}>, tensor<{columns}x{depth}x{type}>)
      outs(%zeros : tensor<{rows}x{columns}xf32>) -> tensor<{rows}x{columns}xf32>
  %half = tensor.empty() : tensor<{rows}x{columns}x{type}>
  %y = linalg.generic {{indexing_maps = [#same, #same, #same], iterator_types = ["parallel", "parallel"]}}
      ins(%product, %z : tensor<{rows}x{columns}xf32>, tensor<{rows}x{columns}x{type}>)
      outs(%half : tensor<{rows}x{columns}x{type}>) {{
  ^bb0(%p: f32, %q: {type}, %o: {type}):
    %wide = arith.extf %q : {type} to f32
    %m = arith.mulf %p, %wide : f32
    %n = arith.truncf %m : f32 to {type}
    linalg.yield %n : {type}
  }} -> tensor<{rows}x{columns}x{type}>
  %wide = linalg.generic {{indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]}}
      ins(%y : tensor<{rows}x{columns}x{type}>) outs(%empty : tensor<{rows}x{columns}xf32>) {{
  ^bb0(%p: {type}, %o: f32):
    %m = arith.extf %p : {type} to f32
    linalg.yield %m : f32
  }} -> tensor<{rows}x{columns}xf32>
  %few = tensor.empty() : tensor<{parts}x{columns}xf32>
  %start = linalg.fill ins(%zero : f32) outs(%few : tensor<{parts}x{columns}xf32>) -> tensor<{parts}x{columns}xf32>
  %sums = linalg.generic {{indexing_maps = [#same, affine_map<(i, j) -> (i floordiv 32, j)>],
      iterator_types = ["reduction", "parallel"]}}
      ins(%wide : tensor<{rows}x{columns}xf32>) outs(%start : tensor<{parts}x{columns}xf32>)
      attrs = {{blu.of_product}} {{
  ^bb0(%p: f32, %o: f32):
    %m = arith.addf %o, %p : f32
    linalg.yield %m : f32
  }} -> tensor<{parts}x{columns}xf32>
  bufferization.materialize_in_destination %y in restrict writable %to
      : (tensor<{rows}x{columns}x{type}>, memref<{rows}x{columns}x{type}{layout}>) -> ()
  bufferization.materialize_in_destination %sums in restrict writable %sums_to
      : (tensor<{parts}x{columns}xf32>, memref<{parts}x{columns}xf32>) -> ()
  return
}}
"""
WIDENED = KERNEL[KERNEL.index("  %wide = linalg.generic") : KERNEL.index("  %few =")]
WORDS = {
    "    %wide = arith.extf %q : {type} to f32\n": "", "%p, %wide : f32": "%p, %q : f32",
    "    %n = arith.truncf %m : f32 to {type}\n": "", "linalg.yield %n": "linalg.yield %m",
    WIDENED: "", "ins(%wide :": "ins(%y :",
}  # fmt: skip
"""What is left out of f32, which is as wide already."""
DEPTH = 72
BOXED = '{{kind = "wgmma", instruction = "{type}", rows = {0}, columns = {1}, stages = 2, sums = "{2}"}}'
WARPS = '{{kind = "mma", instruction = "bf16", rows = 64, columns = 64, stages = 2, warp_rows = 32, warp_columns = 32}}'


def run(
    rows: int, columns: int, schedule: str, dtype: str = "bf16", processors: int = 2, is_turned: bool = False
) -> list[str]:
    """Emit a kernel, run its launches, and compare; the text of each launch."""
    parts = rows // 32
    words = {"rows": rows, "columns": columns, "depth": DEPTH, "parts": parts, "type": dtype}
    words["layout"] = f", strided<[1, {rows}]>" if is_turned else ""
    text = KERNEL
    for word, other in WORDS.items() if dtype == "tf32" else ():
        assert word in text
        text = text.replace(word, other)
    text = text.format(**{**words, "type": "f32" if dtype == "tf32" else dtype}, schedule=schedule)
    target = replace(SM_90A, processors=processors)
    launches = emit(text, lambda kernel: gemm.emit(kernel, target))
    shapes = (rows, DEPTH), (columns, DEPTH), (rows, columns)
    x, w, before = (random_array(shape, dtype, number) for number, shape in enumerate(shapes))
    y = np.full((columns, rows) if is_turned else (rows, columns), np.nan, x.dtype)
    sums = np.full((parts, columns), np.nan, np.float32)
    for launch in launches:
        launch.run(x, w, before, y, sums)
    y = y.T if is_turned else y
    product = as_multiplied(x, dtype) @ as_multiplied(w, dtype).T
    wanted = product * before.astype(np.float64)
    rounding, least = (2.0**-24, 0) if dtype == "tf32" else (2.0**-8, 2.0**-16)
    factors = as_multiplied(x, dtype), as_multiplied(w, dtype).T
    bound = least + bound_of_sums(*factors, dtype) * np.abs(before.astype(np.float64))
    assert (np.abs(y.astype(np.float64) - wanted) <= rounding * np.abs(wanted) + bound).all()
    # Each part is a sum of 32 numbers, in any order.
    stored = y.astype(np.float64)
    bound = 32 * 2.0**-24 * np.abs(stored).sum(0)
    assert (np.abs(sums.astype(np.float64).sum(0) - stored.sum(0)) <= bound).all()
    return [launch.ptx for launch in launches]


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
@pytest.mark.parametrize(
    ("rows", "columns", "tile"),
    [
        (128, 32, 64),  # less than a box, in one tile of which three warps' boxes are beyond the result
        (128, 56, 64),
        (256, 64, 64),
        (128, 72, 128),
        (384, 184, 192),
        (256, 192, 192),
        (384, 200, 192),
    ],
)
def test_warps_add_up_the_columns_of_their_rows(rows: int, columns: int, tile: int, dtype: str) -> None:
    (text,) = run(rows, columns, BOXED.format(128, tile, "boxed", type=dtype), dtype)
    assert text.count("shfl.sync.bfly") == 14 * tile // 64, "half of the pairs in each of three exchanges"
    assert "cvt.rn.bf16.f32" not in text, "two numbers are rounded by one instruction"


@pytest.mark.parametrize(("rows", "columns", "tile"), [(128, 20, 64), (256, 64, 64), (384, 184, 192), (384, 200, 192)])
def test_warps_add_up_the_columns_of_their_rows_of_f32(rows: int, columns: int, tile: int) -> None:
    (text,) = run(rows, columns, BOXED.format(128, tile, "boxed", type="tf32"), "tf32")
    assert text.count("shfl.sync.bfly") == 8 * tile // 32, "a pair of four, halved twice, and the rest"


def test_a_block_writes_the_sums_of_all_its_tiles() -> None:
    run(640, 136, BOXED.format(128, 64, "boxed", type="bf16"), processors=1)


@pytest.mark.parametrize(
    "schedule",
    [BOXED.format(64, 64, "boxed", type="bf16"), BOXED.format(128, 64, "staged", type="bf16"),
     BOXED.format(128, 64, "held", type="bf16"), WARPS.format()],
)  # fmt: skip
@pytest.mark.parametrize(("rows", "columns"), [(128, 40), (256, 72)])
def test_another_launch_adds_up_what_warps_do_not(rows: int, columns: int, schedule: str) -> None:
    _, text = run(rows, columns, schedule)
    assert "gemm_0_columns" in text and "st.global.v4.b32" in text


def test_rows_that_are_no_whole_tiles_are_added_up_apart() -> None:
    """The last tile of 128 rows has 64, of which no warp has 32."""
    assert len(run(192, 64, BOXED.format(128, 64, "boxed", type="bf16"))) == 2
    run(32, 66, WARPS.format())
    run(32, 33, WARPS.format())


@pytest.mark.parametrize(("rows", "columns"), [(128, 64), (256, 40), (64, 136), (64, 1)])
def test_results_that_lie_the_other_way_are_added_up_down_their_own_columns(rows: int, columns: int) -> None:
    """What lies side by side are rows of the result: they are the contraction's columns."""
    assert len(run(rows, columns, WARPS.format(), is_turned=True)) == 2


@pytest.mark.parametrize("columns", [1, 8, 31])
def test_few_columns_are_a_contractions_rows(columns: int) -> None:
    """Then sums are down what the contraction has side by side."""
    assert len(run(128, columns, WARPS.format())) == 2


def bias_gradient(x: blu.Tensor, w: blu.Tensor, before: blu.Tensor, v: blu.Tensor) -> tuple:
    """What a linear layer behind GELU does in the backward pass, and its bias gradient."""
    _, pull_back = blu.vjp(lambda value: blu.gelu(value, approximate="tanh"), before)
    y = pull_back(blu.matmul(x, w))[0]
    return blu.matmul(v, y), blu.sum(y.astype("f32"), axis=0)


def compiled(rows: int, columns: int, target: str = "sm_90a", dtype: str = "bf16") -> GpuProgram:
    shapes = (rows, 128), (128, columns), (rows, columns), (128, rows)
    return compile_program(bias_gradient, *(random_array(shape, dtype) for shape in shapes), target=target)


def kernels(program: GpuProgram) -> list[str]:
    return [launch["kernel"] for launch in program.plan["launches"]]


def test_a_bias_gradient_is_added_up_by_the_product_before_it() -> None:
    program = compiled(2048, 768)
    assert not [name for name in kernels(program) if name.startswith("rows")]
    assert "shfl.sync.bfly" in program.ptx["gemm_0"]


@pytest.mark.parametrize(
    ("rows", "columns", "target", "dtype"),
    [
        (2048 + 64, 768, "sm_90a", "bf16"),  # no whole tiles
        (256, 768, "sm_90a", "bf16"),  # too few tiles for warpgroups
        (2048, 772, "sm_90a", "bf16"),  # rows begin anywhere
        (2048, 768, "sm_80", "bf16"),
        (2048, 768, "sm_90a", "f32"),
    ],
)
def test_what_warpgroups_do_not_multiply_in_whole_tiles_is_added_up_by_rows(
    rows: int, columns: int, target: str, dtype: str
) -> None:
    program = compiled(rows, columns, target, dtype)
    assert [name for name in kernels(program) if name.startswith("rows")]


def scaled(x: blu.Tensor, w: blu.Tensor, before: blu.Tensor, v: blu.Tensor) -> tuple:
    """Halves of a product, which another one reads, and their sums."""
    y = (blu.matmul(x, w).astype("f32") * before.astype("f32")).astype("bf16")
    return y, blu.matmul(v, y), blu.sum(y.astype("f32"), axis=0)


def normalized(x: blu.Tensor, w: blu.Tensor, before: blu.Tensor, v: blu.Tensor) -> tuple:
    """The same where a kernel of rows comes between the product and the sum: it makes the halves."""
    total = blu.matmul(x, w).astype("f32")
    y = (total * before.astype("f32") / (1.0 + blu.sum(total * total, axis=1, keepdims=True))).astype("bf16")
    return y, blu.matmul(v, y), blu.sum(y.astype("f32"), axis=0)


@pytest.mark.parametrize(
    ("function", "sizes", "launches"),
    [
        (scaled, (1024, 1536, 64), 3),
        (scaled, (256, 64, 4096), 5),  # k is split: sums over its parts, then down columns
        (normalized, (256, 64, 4096), 5),
    ],
)
def test_values_are_those_of_what_is_stored(function: Callable, sizes: tuple[int, int, int], launches: int) -> None:
    rows, columns, depth = sizes
    shapes = (rows, depth), (depth, columns), (rows, columns), (2, rows)
    arguments = [random_array(shape, "bf16", number) for number, shape in enumerate(shapes)]
    program = compile_program(function, *arguments)
    assert len(kernels(program)) == launches
    y, _, sums = program.interpret(*arguments)
    stored = y.astype(np.float64)
    assert (np.abs(sums - stored.sum(0)) <= 64 * 2.0**-24 * np.abs(stored).sum(0)).all()
    x, w, before, _ = (item.astype(np.float64) for item in arguments)
    if function is scaled:
        assert (np.abs(stored - x @ w * before) <= 2.0**-6 * np.abs(x) @ np.abs(w) * np.abs(before)).all()


def test_what_is_found_from_a_products_rows_is_added_up_with_them() -> None:
    """Another launch read all of it again: the product, whose warps might have added it up, cannot make it."""

    def function(x: blu.Tensor, w: blu.Tensor, v: blu.Tensor) -> tuple:
        total = blu.matmul(x, blu.transpose(w), precision="tf32")
        y = total / (1.0 + blu.sum(total * total, axis=1, keepdims=True))
        return y, blu.matmul(v, y, precision="tf32"), blu.sum(y, axis=0), blu.sum(y * y, axis=0)

    shapes = (8192, 768), (768, 768), (8192, 8192)
    program = compile_program(function, *(np.broadcast_to(np.float32(0), shape) for shape in shapes))
    assert len([name for name in kernels(program) if name.startswith("rows")]) == 1, "norms, their results, and sums"


@pytest.mark.skipif(find_ptxas() is None, reason="there is no ptxas on this machine")
def test_sums_leave_registers_enough() -> None:
    assert not compiled(65536 // 8, 3072).spills()
