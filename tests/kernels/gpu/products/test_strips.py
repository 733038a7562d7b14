"""A few rows of halves times a matrix, by strips of columns: every element, at all kinds of sizes and strides."""

from __future__ import annotations

from itertools import cycle

import pytest

from blu.passes.kernels.schedules import Fields
from tests.support.kernels.gpu_program import compile_program
from tests.support.kernels.product_cases import Case

# Rows: one, one less and one more than a tile of eight, several tiles. Columns: fewer than a strip, one and several,
# the last of which reaches beyond. k: fewer than a step of a warp, or of a block, and what is left over.
CASES: list[tuple[Case, Fields]] = [
    (Case("bf16", "nn", (1, 8, 8)), {}),
    (Case("f16", "nn", (7, 16, 16), epilogue="bias"), {}),
    (Case("bf16", "nn", (8, 40, 136), epilogue="two"), {}),
    (Case("f16", "nn", (9, 72, 248), (2,), "tanh"), {}),
    (Case("bf16", "nn", (32, 24, 128), epilogue="bias"), {}),
    (Case("bf16", "nn", (17, 72, 200), epilogue="cast"), {"columns": 32}),
    (Case("f16", "nn", (31, 136, 72)), {"columns": 64, "warps": 16}),
    (Case("bf16", "nn", (5, 16, 2600), epilogue="two"), {"columns": 64}),
    (Case("bf16", "nt", (1, 8, 8)), {}),
    (Case("f16", "nt", (6, 24, 264), epilogue="bias"), {}),
    (Case("bf16", "nt", (8, 72, 256), (2,), "two"), {"columns": 32}),
    (Case("bf16", "nt", (25, 40, 2056), epilogue="cast"), {"columns": 32, "warps": 16}),
    (Case("f16", "nt", (16, 136, 72)), {"columns": 64}),
    (Case("bf16", "tn", (9, 24, 136)), {}),
    (Case("f16", "tt", (10, 40, 72), epilogue="bias"), {"columns": 16}),
    (Case("bf16", "nn", (12, 24, 40), offset=2), {}),
    (Case("bf16", "nt", (12, 24, 40), offset=2), {}),
]
TARGETS = ("sm_80", "sm_90a")


@pytest.mark.parametrize(
    ("case", "fields", "target"),
    [(*pair, target) for pair, target in zip(CASES, cycle(TARGETS), strict=False)],
    ids=str,
)
def test_strips_and_what_is_beyond_them(case: Case, fields: Fields, target: str) -> None:
    arrays = case.arrays()
    program = compile_program(
        case.compute, *arrays, target=target, schedules={"gemm_0": {"kind": "strips", "columns": 16, **fields}}
    )
    case.check(program.interpret(*arrays))
    assert "mma.sync.aligned.m16n8k16" in program.ptx["gemm_0"]
