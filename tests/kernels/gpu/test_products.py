"""Matrix products on GPUs at all kinds of sizes: results of every family of kernels in the interpreter of PTX."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import cycle

import numpy as np
import pytest

import blu
from blu.passes.kernels.schedules import Fields
from tests.support.kernels.gpu_program import GpuProgram, compile_program
from tests.support.kernels.product_cases import EPILOGUES, INTEGERS, Case, random_case, table

TARGETS = ("sm_80", "sm_86", "sm_89", "sm_90a")
FLOATS = ("bf16", "f16", "tf32", "f32")


def check(case: Case, target: str, **schedules: Fields) -> GpuProgram:
    """Compile a product for a GPU, and compare what the interpreter finds."""
    arrays = case.arrays()
    program = compile_program(case.compute, *arrays, target=target, schedules=schedules)
    case.check(program.interpret(*arrays))
    return program


def on_targets(cases: Sequence[Case]) -> pytest.MarkDecorator:
    """Run a test with each of the cases, on all targets in turn."""
    return pytest.mark.parametrize(("case", "target"), list(zip(cases, cycle(TARGETS), strict=False)), ids=str)


# Tiles are 64 or 128 wide: one element, one less and one more than a tile, and several tiles.
SIZES = [(1, 1, 1), (65, 63, 31), (63, 65, 33), (5, 129, 64), (64, 64, 65), (129, 17, 70), (130, 66, 7)]
TILES = table(FLOATS, SIZES, epilogue=EPILOGUES, batch=[(), (), (2,)], offset=[0, 0, 8, 1, 0, 2])
EMPTY = table(FLOATS, [(0, 5, 7), (5, 0, 7), (5, 7, 0)], ["nn", "tt"], batch=[(2, 0), (), ()])
APART = table(FLOATS, [(6, 70, 40), (33, 9, 65)], ["nt", "tn"], step=[2, 3, 3], offset=[0, 1, 3])
FEW_ROWS = [(1, 40, 136), (4, 24, 72), (2, 9, 264), (3, 1, 8)]
# The matrix is not read 16 bytes at a time, but 8, 4 or an element; of columns, in many steps and in few.
UNALIGNED_ROWS = [
    Case("bf16", "tt", (1, 35, 1109)),
    Case("f16", "nt", (2, 5, 829), epilogue="bias"),
    Case("bf16", "tt", (4, 9, 2052), epilogue="two"),
    Case("tf32", "nt", (3, 33, 1030)),
    Case("f32", "tn", (2, 133, 301), epilogue="bias"),
    Case("bf16", "nn", (1, 131, 75), (2,)),
    Case("f16", "nn", (4, 1, 40)),
]
FEW = table(FLOATS, FEW_ROWS, ["nn", "nt"], epilogue=["bias", "two", "none"], batch=[(), (2,)])
BY_LOOPS = table(["f64", *INTEGERS], [(3, 65, 7), (33, 5, 64), (2, 3, 0)], ["nn", "tt"], batch=[(), (3,)])
LONG = [
    Case("bf16", "nt", (24, 40, 2110)),
    Case("f16", "tn", (40, 24, 2070), epilogue="two"),
    Case("tf32", "nn", (9, 17, 1031), epilogue="bias"),
    Case("f32", "tt", (17, 9, 1031), epilogue="tanh"),
]
# Rows of tiles are walked together by eight: here there are nine, and two columns of them.
TALL = [Case("bf16", "nn", (9 * 64, 72, 16)), Case("f32", "nn", (9 * 64, 72, 8))]
WARPGROUPS = [
    Case("bf16", "nn", (72, 136, 72), (2,), "two"),
    Case("bf16", "tt", (128, 64, 64), epilogue="bias"),
    Case("f16", "tn", (64, 200, 136), epilogue="tanh"),
    Case("f16", "nt", (8, 64, 200), (3,), offset=8),
    Case("bf16", "tn", (136, 8, 64), epilogue="cast"),
    Case("tf32", "nt", (65, 129, 68), epilogue="two"),
    Case("tf32", "nt", (5, 63, 100), (2,), epilogue="cast"),
]


@on_targets(TILES)
def test_tiles_and_what_is_beyond_them(case: Case, target: str) -> None:
    check(case, target)


@on_targets(EMPTY)
def test_sizes_of_0(case: Case, target: str) -> None:
    check(case, target)


@on_targets(APART)
def test_factors_without_neighbours_in_memory(case: Case, target: str) -> None:
    check(case, target)


@on_targets(FEW)
def test_few_rows(case: Case, target: str) -> None:
    check(case, target)


@on_targets(LONG)
def test_parts_of_a_long_k(case: Case, target: str) -> None:
    assert len(check(case, target).plan["launches"]) > 1


@on_targets(TALL)
def test_the_last_group_of_rows_of_tiles_is_smaller(case: Case, target: str) -> None:
    assert check(case, target).plan["launches"][0]["grid"][0] == 18


@on_targets(BY_LOOPS)
def test_products_by_loops(case: Case, target: str) -> None:
    check(case, target)


@pytest.mark.parametrize("case", WARPGROUPS, ids=str)
def test_warpgroups(case: Case) -> None:
    """Small tiles, so that several and what is beyond the last one are checked soon."""
    small: Fields = {"kind": "wgmma", "rows": 64, "columns": 64, "stages": 2}
    assert "wgmma.mma_async" in check(case, "sm_90a", gemm_0=small).ptx["gemm_0"]


TURNED: Fields = {"registers": "right", "rows": 32, "columns": 128}
UPRIGHT: Fields = {"registers": "left", "rows": 128, "columns": 32}
REGISTERS: list[tuple[Case, Fields]] = [
    (Case("tf32", "nn", (1, 4, 64), epilogue="bias"), TURNED),
    (Case("tf32", "nn", (65, 132, 68), epilogue="two"), TURNED),
    (Case("tf32", "nn", (31, 124, 100), (2,), "cast"), TURNED),
    (Case("tf32", "tt", (132, 33, 68), epilogue="two"), UPRIGHT),
    (Case("tf32", "tt", (4, 5, 200), (2,), "tanh"), UPRIGHT),
    (Case("tf32", "tn", (33, 136, 72), epilogue="bias"), {**TURNED, "copied": "left"}),
    (Case("tf32", "tn", (136, 33, 72)), {**UPRIGHT, "copied": "right"}),
    (Case("tf32", "tn", (64, 128, 256)), {**TURNED, "copied": "left", "split": 2}),
]


@pytest.mark.parametrize(("case", "fields"), REGISTERS, ids=str)
def test_factors_of_tf32_whose_neighbours_lie_across_k(case: Case, fields: Fields) -> None:
    """One goes through registers, on either side; of two, one is copied before."""
    program = check(case, "sm_90a", gemm_0={"kind": "wgmma", "stages": 2, **fields})
    assert "wgmma.mma_async" in program.ptx["gemm_0"]


def test_products_with_the_same_factor_share_its_copy() -> None:
    """Three products of one kernel, of which two have the narrower factor in common."""

    def function(x, y, w, other):
        return tuple(blu.matmul(left.T, right, precision="tf32") for left, right in ((x, w), (y, w), (y, other)))

    specs = (blu.spec((8192, columns), "f32") for columns in (2048, 2048, 1536, 1536))
    launched = str(blu.jit(function).trace(*specs).lower("sm_90a", stop="kernel").module)
    names = re.findall(r"gpu\.launch_func\s+@kernels::@(\w+)", launched)
    assert (names.count("gemm_0"), names.count("rows_0")) == (3, 2)
    assert names[0] == "rows_0" and names[1] == "gemm_0"


@pytest.mark.parametrize("along", [0, 1], ids=["rows", "columns"])
def test_products_with_parts_of_a_factor_share_its_copy(along: int) -> None:
    """All rows of x, or columns of x^T, are somebody's; of y, the last part is nobody's: its parts are copied."""
    rng = np.random.default_rng(0)
    shapes = ((192, 72), (192, 72), (192, 40))
    x, y, w = (rng.standard_normal(shape).astype(np.float16).astype(np.float32) for shape in shapes)
    parts = [slice(first, first + 64) for first in (0, 64, 128)]

    def function(x, y, w):
        chosen = [(item, part) for item, parts_of in ((x, parts), (y, parts[:2])) for part in parts_of]
        left = [item.T[:, part] if along else item[part].T for item, part in chosen]
        return tuple(blu.matmul(one, w[part], precision="tf32") for one, (_, part) in zip(left, chosen, strict=True))

    wished: Fields = {"kind": "wgmma", "stages": 2, **TURNED, "copied": "left"}
    program = compile_program(function, x, y, w, schedules={f"gemm_{number}": wished for number in range(5)})
    names = [launch["kernel"] for launch in program.plan["launches"]]
    assert names.count("gemm_0") == 5 and len(names) == 8
    expected = [x[part].T @ w[part] for part in parts] + [y[part].T @ w[part] for part in parts[:2]]
    for found, product in zip(program.interpret(x, y, w), expected, strict=True):
        np.testing.assert_allclose(found, product, rtol=1e-5, atol=1e-4)


SMALL: Fields = {"rows": 64, "columns": 64}
# Of each factor, rows begin at no multiples of 16 bytes, or only end at none.
PADDED: list[tuple[Case, str]] = [
    (Case("bf16", "nn", (65, 67, 71)), "both"),
    (Case("f16", "tt", (63, 65, 65), epilogue="bias"), "both"),
    (Case("bf16", "tn", (72, 66, 130), epilogue="two"), "right"),
    (Case("bf16", "nt", (1, 129, 67)), "both"),
    (Case("tf32", "nn", (33, 66, 67)), "both"),
    (Case("tf32", "tt", (67, 33, 69), epilogue="bias"), "both"),
    (Case("tf32", "tn", (64, 65, 66)), "both"),
]


@pytest.mark.parametrize(("case", "copied"), PADDED, ids=str)
def test_copies_of_factors_have_rows_that_begin_aligned(case: Case, copied: str) -> None:
    fields: Fields = {"kind": "wgmma", "stages": 2, "copied": copied, **SMALL}
    program = check(case, "sm_90a", gemm_0=fields)
    assert "wgmma.mma_async" in program.ptx["gemm_0"] and len(program.ptx) == (3 if copied == "both" else 2)


def test_warpgroups_take_large_products_of_any_extents() -> None:
    """Where copying costs less than single warps do; the second one of these has its k split instead."""
    found = []
    for shapes in (((4097, 1025), (1025, 513)), ((127, 458), (458, 118)), ((4096, 1024), (1024, 513))):
        module = blu.jit(lambda x, w: x @ w).trace(*(blu.spec(shape, "bf16") for shape in shapes)).lower(
            "sm_90a", stop="kernel"
        ).module  # fmt: skip
        found.append((str(module).count("gpu.launch_func"), 'kind = "wgmma"' in str(module)))
    assert found == [(3, True), (2, False), (2, True)]


def test_few_tiles_are_small_and_share_out_an_unaligned_k() -> None:
    """Tiles of single warps, where warpgroups have too few of theirs; nothing is split where rows are copied fast."""
    found = []
    sizes = ((332, 217, 1801), (125, 458, 118), (128, 512, 128), (1407, 681, 112))
    for shapes in (((rows, depth), (depth, columns)) for rows, depth, columns in sizes):
        module = blu.jit(lambda x, w: x @ w).trace(*(blu.spec(shape, "bf16") for shape in shapes)).lower(
            "sm_90a", stop="kernel"
        ).module  # fmt: skip
        schedule = next(line for line in str(module).splitlines() if 'kind = "mma"' in line)
        found.append(
            tuple(int(re.findall(rf"[ {{]{name} = (\d+)", schedule)[0]) for name in ("rows", "columns", "split"))
        )
    assert found == [(64, 64, 1), (64, 64, 4), (64, 64, 1), (64, 64, 4)]


@pytest.mark.parametrize("target", TARGETS[:1] + TARGETS[3:])
def test_batched_products_of_halves_round_their_own_sums(target: str) -> None:
    """No other kernel reads sums of f32."""
    for case in (Case("bf16", "nn", (65, 40, 24), (3,)), Case("f16", "nt", (5, 33, 40), (2, 2))):
        assert list(check(case, target).ptx) == ["gemm_0"]


@on_targets(UNALIGNED_ROWS)
def test_few_rows_of_a_matrix_whose_rows_begin_unaligned(case: Case, target: str) -> None:
    (ptx,) = check(case, target).ptx.values()
    assert "mma" not in ptx


HELD: list[tuple[Case, Fields]] = [
    (Case("bf16", "nn", (72, 136, 72), (2,), "two"), SMALL),
    (Case("bf16", "nt", (128, 64, 64), epilogue="tanh"), SMALL),
    (Case("f16", "tn", (64, 200, 136), epilogue="bias"), SMALL),
    (Case("bf16", "tn", (136, 8, 64), epilogue="cast"), SMALL),
    (Case("tf32", "nt", (65, 132, 68), epilogue="two"), SMALL),
    (Case("tf32", "nt", (64, 64, 128), epilogue="tanh"), SMALL),
    (Case("tf32", "nn", (64, 128, 100), epilogue="tanh"), TURNED),
    (Case("tf32", "nn", (31, 132, 100), (2,), "cast"), TURNED),
    (Case("tf32", "tt", (132, 36, 68), epilogue="two"), UPRIGHT),
    (Case("tf32", "tn", (64, 128, 256)), {**TURNED, "copied": "left", "split": 2}),
]


@pytest.mark.parametrize(("case", "fields"), HELD, ids=str)
def test_sums_that_are_written_from_the_registers_that_hold_them(case: Case, fields: Fields) -> None:
    ptx = check(case, "sm_90a", gemm_0={"kind": "wgmma", "stages": 2, "sums": "held", **fields}).ptx["gemm_0"]
    assert "wgmma.mma_async" in ptx and "st.shared" not in ptx


GIVEN: list[tuple[Case, Fields]] = [
    (Case("bf16", "tn", (72, 264, 72)), {"kind": "wgmma", "rows": 64, "columns": 256, "stages": 3}),
    (Case("f16", "nt", (136, 136, 200)), {"kind": "wgmma", "columns": 128, "stages": 2, "group": 1}),
    (Case("tf32", "nt", (72, 200, 68)), {"kind": "wgmma", "rows": 64, "stages": 2}),
    (Case("bf16", "nn", (130, 66, 200)), {"kind": "mma", "rows": 128, "columns": 64, "warp_rows": 32, "split": 2}),
    (Case("f16", "tt", (65, 129, 70)), {"kind": "mma", "rows": 64, "columns": 128, "warp_columns": 32, "stages": 5}),
    (Case("tf32", "tn", (66, 70, 100)), {"kind": "mma", "instruction": "3xtf32", "rows": 128, "columns": 128}),
    (Case("tf32", "nn", (66, 70, 100)), {"kind": "simt", "instruction": "f32", "rows": 128, "columns": 64}),
    (Case("f32", "nt", (70, 66, 100)), {"kind": "simt", "rows": 64, "columns": 128, "stages": 4, "split": 3}),
    (Case("bf16", "nn", (3, 264, 72)), {"kind": "few_rows", "columns": 128}),
    (Case("f32", "nt", (2, 70, 136)), {"kind": "few_rows", "columns": 8}),
    (Case("bf16", "nn", (33, 17, 24)), {"kind": "mma", "rows": 64, "columns": 64, "stages": 2}),
    (Case("bf16", "nn", (33, 17, 24)), {"kind": "loops"}),
]


@pytest.mark.parametrize(("case", "given"), GIVEN, ids=str)
def test_schedules_that_nobody_would_choose(case: Case, given: Fields) -> None:
    """What is taken for a schedule computes what the chosen one does."""
    check(case, "sm_90a", gemm_0=given)


@pytest.mark.parametrize("seed", range(4))
def test_random_products(seed: int) -> None:
    check(random_case(seed, FLOATS, [0, 1, 2, 3, 8, 15, 16, 17, 31, 33, 64, 65, 72, 97, 129]), TARGETS[seed % 4])
