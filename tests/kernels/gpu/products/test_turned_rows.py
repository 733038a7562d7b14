"""Rows that are written turned around by the kernel that makes them, where products of tf32 read them along columns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import blu
from blu.compiler.codegen.cubins import find_ptxas
from blu.dialects.targets import nvidia
from blu.passes.gpu.rows.schedule import RowCut
from blu.passes.gpu.rows.turned import TurnedRows, can_turn
from tests.kernels.gpu.test_rows import array, count, shape_only
from tests.support.kernels.gpu_program import GpuProgram, compile_program

WISHED = {"kind": "wgmma", "stages": 2, "rows": 32, "columns": 128, "registers": "right", "copied": "left"}
TURNING = r"st\.shared\.v4"


def gradient(x, w, g, r, h):
    """A layer norm and its gradient, a sum of which is read by rows and by columns; the rest only by columns."""
    y, pull = blu.vjp(lambda x, w: blu.layer_norm(x, w, blu.zeros(w.shape)), x, w)
    dx, dw = pull(g)
    total = dx + r
    products = (blu.matmul(blu.transpose(rows), h, precision="tf32") for rows in (y, total))
    return total, dw, *products


def reference(x, w, g, r, h):
    x, w, g, r, h = (item.astype(np.float64) for item in (x, w, g, r, h))
    inverse = 1 / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    y, dy = (x - x.mean(1, keepdims=True)) * inverse, g * w
    total = inverse * (dy - dy.mean(1, keepdims=True) - y * (dy * y).mean(1, keepdims=True)) + r
    return total, (g * y).sum(0), (y * w).T @ h, total.T @ h


def arguments(rows: int, columns: int) -> list[np.ndarray]:
    shapes = ((rows, columns), (columns,), (rows, columns), (rows, columns), (rows, 40))
    return [array(*shape) + number for number, shape in enumerate(shapes)]


def compiled(rows: int, columns: int) -> GpuProgram:
    shapes = ((rows, columns), (columns,), (rows, columns), (rows, columns), (rows, 40))
    return compile_program(
        gradient, *(shape_only(*shape) for shape in shapes), schedules={"gemm_0": WISHED, "gemm_1": WISHED}
    )


# Blocks with as many rows at once as they collect; with half as many, and four turns of each block; whose last threads
# have no part of a row; whose last columns are those of some threads.
@pytest.mark.parametrize(
    ("rows", "columns", "processors"), [(256, 64, 132), (256, 128, 4), (272, 96, 132), (320, 160, 5)]
)
def test_results(rows: int, columns: int, processors: int, monkeypatch: pytest.MonkeyPatch):
    for table in (nvidia.TARGETS, nvidia.GPU_TARGETS):
        monkeypatch.setitem(table, "sm_90a", replace(nvidia.TARGETS["sm_90a"], processors=processors))
    given = arguments(rows, columns)
    program = compiled(rows, columns)
    [launch] = [item for item in program.plan["launches"] if item["kernel"].startswith("rows")]
    assert launch["grid"][0] == min(processors, rows // 16), "no copies, and blocks as said"
    assert count(program, TURNING, "rows") > 0
    for found, expected in zip(program.interpret(*given), reference(*given), strict=True):
        assert np.abs(found - expected).max() <= 2e-3 * np.abs(expected).max()


def test_rows_that_nobody_reads_are_not_written():
    [rows] = [launch for launch in compiled(512, 128).plan["launches"] if launch["kernel"] == "rows_0"]
    assert len(rows["args"]) == 4 + 4, "x, w, g, r; sums for w, the total, and both turned around"


def test_narrow_rows_are_copied():
    names = [launch["kernel"] for launch in compiled(512, 48).plan["launches"]]
    assert len([name for name in names if name.startswith("rows")]) > 1


@pytest.mark.skipif(find_ptxas() is None, reason="there is no ptxas on this machine")
def test_registers_are_enough():
    assert not compiled(32768, 768).spills("rows")


def test_what_can_be_turned_around():
    assert can_turn(32768, 768, 256) and can_turn(256, 64, 16) and can_turn(4096, 2048, 16)
    assert not can_turn(32768, 776, 256) and not can_turn(256, 32, 16) and not can_turn(4096, 2080, 16)
    assert not can_turn(4100, 768, 32) and not can_turn(4096, 768, 8)


@pytest.mark.parametrize(("length", "per_block", "room", "expected"), [
    (256, 8, 4 * 32 * 768, 32),
    (256, 8, 4 * 32 * 768 - 1, 16),
    (16, 8, 1 << 20, 16),
    (16, 16, 1 << 20, 16),
    (16, 1, 4 * 8 * 768, 8),
    (256, 8, 4 * 8 * 768 - 1, 0),
    (16, 32, 1 << 20, 0),
])  # fmt: skip
def test_a_block_collects_as_many_rows_as_fit(length: int, per_block: int, room: int, expected: int):
    cut = RowCut(threads=32 * per_block, team=32, lanes=4, unroll=1, chunks=6)
    assert TurnedRows((None,), 768, length).staged(cut, room) == expected
