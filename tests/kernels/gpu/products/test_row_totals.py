"""Sums of ranges of columns of what follows a product: by the warps that hold its rows, or by a launch of their own."""

from __future__ import annotations

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
    %r: memref<{rows}xf32>, %to: memref<{rows}x{columns}x{type}{layout}>, %sums_to: memref<{rows}x{parts}xf32>)
    attributes {{blu.kernel = "gemm", blu.schedule = {schedule}}} {{
  %x = bufferization.to_tensor %a restrict : memref<{rows}x{depth}x{type}> to tensor<{rows}x{depth}x{type}>
  %w = bufferization.to_tensor %b restrict : memref<{columns}x{depth}x{type}> to tensor<{columns}x{depth}x{type}>
  %z = bufferization.to_tensor %r restrict : memref<{rows}xf32> to tensor<{rows}xf32>
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<{rows}x{columns}xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<{rows}x{columns}xf32>) -> tensor<{rows}x{columns}xf32>
  %product = linalg.contract indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (j, k)>,
      affine_map<(i, j, k) -> (i, j)>] ins(%x, %w : tensor<{rows}x{depth}x{type}>, tensor<{columns}x{depth}x{type}>)
      outs(%zeros : tensor<{rows}x{columns}xf32>) -> tensor<{rows}x{columns}xf32>
  %y = linalg.generic {{indexing_maps = [#same, affine_map<(i, j) -> (i)>, #same],
      iterator_types = ["parallel", "parallel"]}} ins(%product, %z : tensor<{rows}x{columns}xf32>, tensor<{rows}xf32>)
      outs(%empty : tensor<{rows}x{columns}xf32>) {{
  ^bb0(%p: f32, %q: f32, %o: f32):
    %m = arith.subf %p, %q : f32
    %n = math.exp %m : f32
    linalg.yield %n : f32
  }} -> tensor<{rows}x{columns}xf32>
  %half = tensor.empty() : tensor<{rows}x{columns}x{type}>
  %narrow = linalg.generic {{indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]}}
      ins(%y : tensor<{rows}x{columns}xf32>) outs(%half : tensor<{rows}x{columns}x{type}>) {{
  ^bb0(%p: f32, %o: {type}):
    %m = arith.truncf %p : f32 to {type}
    linalg.yield %m : {type}
  }} -> tensor<{rows}x{columns}x{type}>
  %few = tensor.empty() : tensor<{rows}x{parts}xf32>
  %start = linalg.fill ins(%zero : f32) outs(%few : tensor<{rows}x{parts}xf32>) -> tensor<{rows}x{parts}xf32>
  %sums = linalg.generic {{indexing_maps = [#same, affine_map<(i, j) -> (i, j floordiv {length})>],
      iterator_types = ["parallel", "reduction"]}}
      ins(%y : tensor<{rows}x{columns}xf32>) outs(%start : tensor<{rows}x{parts}xf32>)
      attrs = {{blu.of_product}} {{
  ^bb0(%p: f32, %o: f32):
    %m = arith.addf %o, %p : f32
    linalg.yield %m : f32
  }} -> tensor<{rows}x{parts}xf32>
  bufferization.materialize_in_destination %narrow in restrict writable %to
      : (tensor<{rows}x{columns}x{type}>, memref<{rows}x{columns}x{type}{layout}>) -> ()
  bufferization.materialize_in_destination %sums in restrict writable %sums_to
      : (tensor<{rows}x{parts}xf32>, memref<{rows}x{parts}xf32>) -> ()
  return
}}
"""
DEPTH = 72
BOXED = '{{kind = "wgmma", instruction = "{type}", rows = {0}, columns = {1}, stages = 2, sums = "{2}"}}'
WARPS = '{{kind = "mma", instruction = "bf16", rows = 64, columns = 64, stages = 2, warp_rows = 32, warp_columns = 32}}'
ROUNDINGS = {"bf16": 2.0**-8, "f16": 2.0**-11}


def bound_of_exponentials(x: np.ndarray, w: np.ndarray, r: np.ndarray, dtype: str) -> np.ndarray:
    """How far exp(x w - r) may be from it, of itself: what sums lack, roundings of what is in the exponent, ex2."""
    exponent = np.abs(x @ w) + np.abs(r)[:, None]
    return 1.1 * bound_of_sums(x, w, dtype) + 2.0**-24 * (3 * exponent + 8)


def run(
    rows: int, columns: int, schedule: str, dtype: str = "bf16", processors: int = 2, is_turned: bool = False
) -> list[str]:
    """Emit a kernel, run its launches, and compare; the text of each launch."""
    length = 192 if "192" in schedule else 64
    words = {"rows": rows, "columns": columns, "depth": DEPTH, "type": dtype, "length": length}
    words |= {"parts": -(-columns // length), "layout": f", strided<[1, {rows}]>" if is_turned else ""}
    target = replace(SM_90A, processors=processors)
    launches = emit(KERNEL.format(**words, schedule=schedule), lambda kernel: gemm.emit(kernel, target))
    x, w = (random_array(shape, dtype, number) / 4 for number, shape in enumerate(((rows, DEPTH), (columns, DEPTH))))
    r = random_array((rows,), "f32")
    y = np.full((columns, rows) if is_turned else (rows, columns), np.nan, x.dtype)
    sums = np.full((rows, words["parts"]), np.nan, np.float32)
    for launch in launches:
        launch.run(x, w, r, y, sums)
    y = (y.T if is_turned else y).astype(np.float64)
    factors = as_multiplied(x, dtype), as_multiplied(w, dtype).T
    wanted = np.exp(factors[0] @ factors[1] - r[:, None].astype(np.float64))
    bound = bound_of_exponentials(*factors, r, dtype) * wanted
    assert (np.abs(y - wanted) <= ROUNDINGS[dtype] * wanted + bound + 2.0**-24).all()
    terms = wanted if len(launches) == 1 else y  # another launch reads what is rounded
    starts = range(0, columns, length)
    total = np.add.reduceat(terms, starts, axis=1)
    bound = np.add.reduceat(bound * (len(launches) == 1), starts, axis=1) + length * 2.0**-24 * total
    assert (np.abs(sums - total) <= bound).all()
    return [launch.ptx for launch in launches]


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
@pytest.mark.parametrize(
    ("rows", "columns", "tile"),
    [
        (4, 8, (64, 64)),
        (63, 56, (64, 64)),
        (129, 72, (64, 64)),
        (127, 64, (128, 64)),
        (129, 192, (128, 192)),
        (128, 184, (128, 192)),
        (256, 200, (128, 192)),
    ],
)
def test_warps_add_up_the_rows_of_a_tile(rows: int, columns: int, tile: tuple[int, int], dtype: str) -> None:
    (text,) = run(rows, columns, BOXED.format(*tile, "boxed", type=dtype), dtype)
    own = tile[0] // 32
    assert text.count("shfl.sync.bfly") == 2 * own, "the four threads of a row exchange twice"
    assert text.count("ld.global.b32") == own, "what is read of a row is read once"
    count = tile[0] * tile[1] // 128
    assert text.count("ex2.approx") == text.count("fma.rn.f32") == count, "two instructions an exponential"
    assert text.count("mul.f32") == own and "sub.f32" not in text


def test_a_block_writes_the_sums_of_all_its_tiles() -> None:
    run(320, 136, BOXED.format(128, 64, "boxed", type="bf16"), processors=1)


@pytest.mark.parametrize(
    "schedule",
    [BOXED.format(128, 128, "boxed", type="bf16"), BOXED.format(128, 64, "staged", type="bf16"),
     BOXED.format(128, 64, "held", type="bf16"), WARPS.format()],
)  # fmt: skip
@pytest.mark.parametrize(("rows", "columns"), [(129, 56), (64, 136)])
def test_another_launch_adds_up_what_warps_do_not(rows: int, columns: int, schedule: str) -> None:
    _, text = run(rows, columns, schedule)
    assert "gemm_0_rows" in text


@pytest.mark.parametrize(("rows", "columns"), [(5, 129), (1, 257), (65, 63)])
def test_rows_that_begin_anywhere_are_added_up_apart(rows: int, columns: int) -> None:
    assert len(run(rows, columns, WARPS.format())) == 2


def test_results_that_lie_the_other_way_are_added_up_along_their_own_rows() -> None:
    assert len(run(72, 136, WARPS.format(), is_turned=True)) == 2


def exponentials(x: blu.Tensor, w: blu.Tensor, r: blu.Tensor) -> tuple:
    """Of a product, in halves, and their sums and logarithms in f32."""
    logits = blu.matmul(x.astype("f32"), blu.transpose(w).astype("f32"), precision="bf16")
    e = blu.exp(logits - blu.reshape(r, (*r.shape, 1)))
    return e.astype("bf16"), blu.log(blu.sum(e, axis=1))


def compiled(rows: int, columns: int, target: str = "sm_90a") -> GpuProgram:
    shapes = (((rows, 64), "bf16"), ((columns, 64), "bf16"), ((rows,), "f32"))
    return compile_program(exponentials, *(random_array(*item) for item in shapes), target=target)


def test_a_products_warps_add_up_its_rows() -> None:
    program = compiled(1024, 1560)
    assert [launch["kernel"] for launch in program.plan["launches"]] == ["gemm_0", "rows_0"]
    assert "tensor<1024x9xf32>" not in program.written("rows_0")
    assert program.ptx["gemm_0"].count("shfl.sync.bfly") == 8


@pytest.mark.parametrize(
    ("rows", "columns", "target"),
    [
        (1024, 1540, "sm_90a"),  # rows begin anywhere
        (64, 1536, "sm_90a"),  # too few rows for warpgroups
        (1024, 1536, "sm_80"),
    ],
)
def test_what_warpgroups_do_not_multiply_is_added_up_by_rows(rows: int, columns: int, target: str) -> None:
    program = compiled(rows, columns, target)
    assert "_rows" not in "".join(program.kernels("gemm"))
    assert program.kernels("rows")


def test_values_are_those_of_what_is_not_rounded() -> None:
    x, w, r = random_array((384, 64), "bf16"), random_array((4360, 64), "bf16", 1), random_array((384,), "f32", 2)
    w = w / 8
    program = compile_program(exponentials, x, w, r)
    assert len(program.plan["launches"]) == 2
    e, logarithms = program.interpret(x, w, r)
    factors = as_multiplied(x, "bf16"), as_multiplied(w, "bf16").T
    wanted = np.exp(factors[0] @ factors[1] - r[:, None].astype(np.float64))
    assert (np.abs(e.astype(np.float64) - wanted) <= 1.1 * ROUNDINGS["bf16"] * wanted).all()
    assert np.abs(logarithms - np.log(wanted.sum(1))).max() < 4e-6


@pytest.mark.skipif(find_ptxas() is None, reason="there is no ptxas on this machine")
@pytest.mark.parametrize("columns", [50304, 50312])
def test_sums_leave_registers_enough(columns: int) -> None:
    assert not compiled(8192, columns).spills("gemm")
