"""Why kernels stay apart: every refusal of fusion has its reason, and `--explain-fusion` prints it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import blu
from blu.compiler.cli import compile as compile_command
from blu.passes.loops.fuse.groups import Grouping
from tests.support.golden_text import Golden

MODEL = """
import blu
from blu import nn


class Block(nn.Module):
    def __init__(self):
        self.norm, self.up, self.down = nn.LayerNorm(4), nn.Linear(4, 8), nn.Linear(8, 4)

    def forward(self, x):
        return x + self.down(blu.gelu(self.up(self.norm(x))))


class Net(nn.Module):
    def __init__(self):
        self.blocks = [Block() for _ in range(4)]

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return blu.cumsum(blu.softmax(x), 1)


def net(model, x):
    return model(x)


def net_example():
    return Net(), blu.spec((2, 4))
"""


def reasons_of(program: Callable, *shapes: tuple[int, ...], target: str = "x86-64-v3") -> str:
    """What fusion says of a program, without lines and files."""
    report = blu.jit(program).trace(*map(blu.spec, shapes)).lower(target, stop="blu-fuse").report
    assert report is not None
    return re.sub(r" \(test_fusion_reasons\.py:[^)]*\)", "", report.explanation())


@pytest.mark.parametrize("target", ["x86-64-v3", "sm_90a"])
def test_the_command_says_why_kernels_stay_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], golden: Golden, target: str
) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    flags = ["--explain-fusion", "-q", f"--target={target}", "--compile-to=blu-fuse", "-o", "fused.mlir"]
    assert compile_command.main(["model.py::net", *flags]) == 0
    golden.check(f"explain_fusion_{target}.txt", capfd.readouterr().err)


ROW_BY_ROW = "only elementwise ops and reductions over the last dimension are done row by row"
SAID: list[tuple[Callable, str]] = [
    (
        lambda x, y: blu.matmul(blu.matmul(x, y), y),
        "gemm_0 and gemm_1 stay apart: a matrix product begins a kernel",
    ),
    (
        lambda x, y: blu.sum(blu.matmul(x, y), 1),
        "gemm_0 and rows_0 stay apart: only elementwise ops follow a matrix product",
    ),
    (
        lambda x, y: blu.matmul(x, y) + blu.zeros((3, 8, 8)) * y,
        "gemm_0 and rows_1 stay apart: loops of 3 x 8 x 8 are not those of the product's sums, 8 x 8",
    ),
    (
        lambda x, y: blu.tanh(blu.transpose(blu.matmul(x, y), (1, 0))),
        "gemm_0 and rows_0 stay apart: it is read through a view (a transpose, slice or reshape)",
    ),
    (
        lambda x, y: blu.matmul(x, y) + blu.matmul(y, x),
        "gemm_0 and gemm_1 stay apart: a kernel has one matrix product",
    ),
    (
        lambda x, y: blu.sum(blu.exp(x), 0),
        f"rows_0 and loops_0 stay apart: {ROW_BY_ROW}",
    ),
    (
        lambda x, y: blu.exp(blu.sum(blu.exp(x), 0)),
        "loops_0 and rows_1 stay apart: nothing follows in a kernel of the family loops",
    ),
    (
        lambda x, y: blu.exp(x) + blu.sum(y, 0),
        "loops_0 and rows_0 stay apart: nothing follows in a kernel of the family loops",
    ),
    (
        lambda x, y: blu.sum(blu.exp(x), 1) * blu.exp(y),
        "rows_0 and rows_1 stay apart: it is not read where it is made, but at another element, or in whole",
    ),
    (
        lambda x, y: blu.argsort(blu.exp(x)),
        "rows_0 and argsort_0 stay apart: blu.argsort is a kernel of its own",
    ),
    (
        lambda x, y: blu.where(x > 0.5, blu.exp(y), blu.transpose(blu.matmul(blu.exp(y), y), (1, 0))),
        "rows_1 and rows_0 stay apart: the kernel would wait for itself: something else that is read waits for it",
    ),
]


@pytest.mark.parametrize(("program", "line"), SAID, ids=[line.partition(": ")[2] for _, line in SAID])
def test_what_is_said(program: Callable, line: str) -> None:
    assert line in reasons_of(program, (8, 8), (8, 8)).splitlines()


@pytest.mark.parametrize(("shape", "most"), [((8,), 48), ((), 96)], ids=["vectors", "scalars"])
@pytest.mark.parametrize("is_full", [False, True])
def test_a_kernel_that_is_full_is_said_to_be(shape: tuple[int, ...], most: int, is_full: bool) -> None:
    def many(x: blu.Tensor) -> blu.Tensor:
        for step in range(most // 2 + is_full):
            x = blu.tanh(x * float(step + 2))
        return x

    line = f"rows_0 and rows_1 stay apart: a kernel holds at most {most} ops\n"
    assert (line in reasons_of(many, shape)) == is_full


def test_all_that_reads_another_kernel_has_a_reason() -> None:
    def gradients(x: blu.Tensor, y: blu.Tensor) -> tuple:
        def loss(x: blu.Tensor) -> blu.Tensor:
            for _ in range(2):
                x = x + blu.softmax(blu.matmul(blu.tanh(blu.matmul(x, y)), x))
            return blu.mean(x[2:5] * x[:3])

        return blu.value_and_grad(loss)(x)

    traced = blu.jit(gradients).trace(blu.spec((8, 8)), blu.spec((8, 8)))
    module = traced.lower("x86-64-v3", stop="blu-merge-duplicates").module
    with module.context:
        grouping = Grouping(module.body.operations[0].entry_block)
    read = {(need, group.index) for group in grouping.groups for need in grouping.flow.waiting.needs(group.index)}
    said = {(item.maker.final.index, item.reader.final.index) for item in grouping.refusals}
    assert len(read) > 20
    assert read <= said
