"""Products of fp8 on GPUs: by warpgroups as they are, where these are and the product is large, else in bf16."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import blu
from blu.dialects.targets.nvidia import SM_90A
from blu.errors import PassError
from blu.passes.gpu.gemm import gemm
from blu.passes.gpu.gemm import wgmma as gemm_wgmma
from blu.passes.gpu.gemm.schedule import FAST_FLOAT8, FLOAT8, WgmmaSchedule
from tests.support.kernels.gemm_text import NT, Buffer, gemm_text
from tests.support.kernels.gpu_products import bound_of_sums, emit, random_array
from tests.support.kernels.gpu_program import DTYPES, GpuProgram, compile_program

E4M3, E5M2 = "f8e4m3", "f8e5m2"
MLIR = {E4M3: "f8E4M3FN", E5M2: "f8E5M2"}
WGMMA = "wgmma.mma_async"


def product_of(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """left @ right^T in f64, and how far from it sums may be."""
    left, right = left.astype(np.float64), right.astype(np.float64).swapaxes(-1, -2)
    return left @ right, bound_of_sums(left, right, FLOAT8) + 1e-30


@pytest.mark.parametrize(
    ("sizes", "kinds", "instruction", "tile"),
    [
        ((1, 1, 16), (E4M3, E4M3), FLOAT8, (64, 64)),
        ((63, 64, 112), (E4M3, E5M2), FLOAT8, (64, 64)),
        ((64, 63, 128), (E5M2, E4M3), FAST_FLOAT8, (64, 64)),
        ((65, 65, 144), (E5M2, E5M2), FAST_FLOAT8, (64, 64)),
        ((136, 200, 400), (E4M3, E5M2), FLOAT8, (64, 64)),
        ((136, 200, 400), (E4M3, E5M2), FAST_FLOAT8, (64, 64)),
        ((127, 65, 272), (E4M3, E4M3), FLOAT8, (128, 64)),
        ((129, 64, 128), (E5M2, E4M3), FLOAT8, (128, 64)),
        ((65, 257, 256), (E4M3, E4M3), FLOAT8, (64, 128)),
    ],
    ids=str,
)
def test_tiles_by_warpgroups(
    sizes: tuple[int, int, int], kinds: tuple[str, str], instruction: str, tile: tuple[int, int]
) -> None:
    """One tile, one less and one more of rows, columns and k, and many, by a ring that goes round. Sums of a step are
    added to others as halves of the tile, of its columns or of its rows."""
    rows, columns, depth = sizes
    operands = random_array((rows, depth), kinds[0]), random_array((columns, depth), kinds[1], 1)
    buffers = [Buffer(item.shape, MLIR[kind]) for item, kind in zip(operands, kinds, strict=True)]
    schedule = WgmmaSchedule(instruction, *tile, stages=2)
    (kernel,) = emit(
        gemm_text(*buffers, Buffer((rows, columns)), NT),
        lambda item: gemm_wgmma.emit_with(item, gemm.read, schedule, SM_90A),
    )
    width = tile[1] // 2 if instruction == FLOAT8 and tile[0] == 64 else tile[1]
    assert f"m64n{width}k32.f32.{'.'.join(kind[2:] for kind in kinds)} " in kernel.ptx
    result = np.full((rows, columns), np.nan, np.float32)
    kernel.run(*operands, result)
    expected, bound = product_of(*operands)
    assert (np.abs(result - expected) <= bound).all()


def factors_of(sizes: tuple[int, ...], kinds: tuple[str, str]) -> tuple[np.ndarray, np.ndarray]:
    """[rows, k] and [columns, k]."""
    rows, columns, depth = sizes
    return random_array((rows, depth), kinds[0]), random_array((columns, depth), kinds[1], 1)


@pytest.mark.parametrize(
    ("layout", "sizes", "copies"),
    [("nt", (128, 128, 256), 0), ("nn", (128, 136, 144), 1), ("tn", (132, 128, 128), 2), ("nt", (130, 127, 133), 2)],
)
def test_factors_that_lie_otherwise_are_copied(layout: str, sizes: tuple[int, int, int], copies: int) -> None:
    """The instruction takes neighbours along k side by side, and the copy engine rows that begin at 16 bytes."""
    left, right = factors_of(sizes, (E4M3, E5M2))
    given = left.T if layout[0] == "t" else left, right.T if layout[1] == "n" else right

    def function(x: Any, w: Any) -> Any:
        return blu.matmul(x.T if layout[0] == "t" else x, w if layout[1] == "n" else w.T)

    given = tuple(map(np.ascontiguousarray, given))
    program = compile_program(function, *given)
    assert WGMMA in program.ptx["gemm_0"] and len(program.plan["launches"]) == 1 + copies
    expected, bound = product_of(left, right)
    assert (np.abs(program.interpret(*given)[0] - expected) <= bound).all()
    assert not program.spills()


def scaled(x: Any, w: Any, scale: Any, bias: Any) -> Any:
    """A layer whose weights are fp8 with one scale, and what is stored of it in fp8 for the next one."""
    y = blu.matmul(x, w.T) * scale + bias
    return y.astype("bf16"), (y * 4).astype("f8e4m3")


@pytest.mark.parametrize("target", ["sm_80", "sm_89", "sm_90a"])
def test_scales_and_roundings_are_in_the_epilogue(target: str) -> None:
    left, right = factors_of((128, 136, 160), (E4M3, E4M3))
    scale, bias = np.float32(0.125) * np.ones((), np.float32), random_array((136,), "f32", 2)
    program = compile_program(scaled, left, right, scale, bias, target=target)
    assert (WGMMA in program.ptx["gemm_0"]) == (target == "sm_90a")
    assert len(program.kernels("gemm")) == 1 and not program.spills()
    rounded, stored = program.interpret(left, right, scale, bias)
    expected = product_of(left, right)[0] * 0.125 + bias
    assert rounded.dtype.name == "bfloat16" and stored.dtype.name == "float8_e4m3fn"
    assert (np.abs(rounded.astype(np.float64) - expected) <= 2.0**-8 * np.abs(expected) + 1e-5).all()
    assert (np.abs(stored.astype(np.float64) - 4 * expected) <= 2.0**-4 * np.abs(4 * expected) + 2.0**-9).all()


@pytest.mark.parametrize("precision", ["highest", "fast"])
def test_parts_of_a_deep_k_are_added(precision: str) -> None:
    left, right = factors_of((128, 128, 4224), (E5M2, E4M3))
    program = compile_program(lambda x, w: blu.matmul(x, w.T, precision=precision), left, right)
    assert WGMMA in program.ptx["gemm_0"] and len(program.plan["launches"]) == 2
    expected, bound = product_of(left, right)
    assert (np.abs(program.interpret(left, right)[0] - expected) <= bound).all()


@pytest.mark.parametrize(("precision", "instruction"), [("highest", "m64n64k32"), ("fast", "m64n192k32")])
def test_large_products_keep_their_sums_in_registers(precision: str, instruction: str) -> None:
    """Those of a step are held as well, unless they are left to tensor cores."""
    x, w = (np.broadcast_to(np.zeros((), DTYPES[E4M3]), (rows, 1024)) for rows in (8192, 4096))
    program = compile_program(lambda x, w: blu.matmul(x, w.T, precision=precision, dtype="bf16"), x, w)
    assert instruction in program.written("gemm_0") and not program.spills()


@pytest.mark.parametrize(
    ("equation", "left", "right"),
    [
        ("ij,kj->ik", (3, 128), (40, 128)),
        ("ij,kj->ik", (128, 64), (128, 64)),
        ("bij,bkj->bik", (2, 130, 128), (2, 128, 128)),
        ("ij,kj->ik", (0, 128), (128, 128)),
        ("ij,kj->ik", (128, 0), (128, 0)),
        ("j,j->", (200,), (200,)),
    ],
)
def test_other_products_are_made_in_bf16(equation: str, left: tuple[int, ...], right: tuple[int, ...]) -> None:
    """Small and short ones, batches and vectors; bf16 holds all fp8."""
    operands = random_array(left, E4M3), random_array(right, E5M2, 1)
    program = compile_program(lambda x, w: blu.einsum(equation, x, w), *operands)
    assert ".e4m3" not in "".join(program.ptx.get(name, "") for name in program.kernels("gemm"))
    expected = np.einsum(equation, *(item.astype(np.float64) for item in operands))
    np.testing.assert_allclose(program.interpret(*operands)[0], expected, rtol=1e-5, atol=1e-4)


def test_a_part_of_a_matrix_is_made_in_bf16() -> None:
    """Its rows may begin anywhere."""
    left, right = factors_of((128, 128, 160), (E4M3, E4M3))
    program = compile_program(lambda x, w: blu.matmul(x[:, 3:147], w[:, 1:145].T), left, right)
    assert ".e4m3" not in program.ptx["gemm_0"]
    expected, bound = product_of(left[:, 3:147], right[:, 1:145])
    assert (np.abs(program.interpret(left, right)[0] - expected) <= bound).all()


def test_schedules_by_hand() -> None:
    left, right = factors_of((128, 128, 128), (E4M3, E4M3))

    def program(**schedule: Any) -> GpuProgram:
        return compile_program(lambda x, w: blu.matmul(x, w.T), left, right, schedules={"gemm_0": schedule})

    loops = program(kind="loops")
    np.testing.assert_allclose(loops.interpret(left, right)[0], product_of(left, right)[0], rtol=1e-5, atol=1e-5)
    for schedule, message in (
        ({"kind": "mma"}, "single warps multiply bf16, f16, tf32, 3xtf32, not fp8"),
        ({"kind": "simt"}, "threads multiply f32 on their own, not fp8"),
        ({"kind": "wgmma", "rows": 64, "columns": 192}, "a tile of 64 x 192 takes 288 registers of each thread"),
        ({"kind": "wgmma", "instruction": "bf16"}, "instruction 'bf16' does not multiply what is here: fp8 does"),
    ):
        with pytest.raises(PassError, match=message):
            program(**schedule)
