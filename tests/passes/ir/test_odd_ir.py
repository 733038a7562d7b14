"""IR that no pass of ours leaves, written by hand: the commands say where it is wrong, without a traceback of ours."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from blu.compiler.cli import opt
from blu.dialects.core.context import make_context
from blu.dialects.core.mlir import ir
from blu.dialects.targets.cpu import ATTRIBUTE
from blu.dialects.targets.nvidia import TARGETS

DECLARED = "func.func private @f()"
IDENTITY = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }"
KERNELS = {
    "rows of nothing": 'func.func private @k(%x: memref<4xf32>) attributes {blu.kernel = "rows"} { return }',
    "a family that there is not": 'func.func private @k(%x: memref<4xf32>) attributes {blu.kernel = "fast"} { return }',
    "a family that is a number": "func.func private @k(%x: memref<4xf32>) attributes {blu.kernel = 3 : i64} { return }",
    "a product of nothing": 'func.func private @k(%x: memref<4xf32>) attributes {blu.kernel = "gemm"} { return }',
    "attention of nothing": 'func.func private @k(%x: memref<4xf32>) attributes {blu.kernel = "attention"} { return }',
    "a kernel without a body": 'func.func private @k(memref<4xf32>) attributes {blu.kernel = "loops"}',
    "a copy of an unknown size": "func.func private @k(%x: memref<?xf32>, %y: memref<?xf32>) attributes "
    '{blu.kernel = "loops"} { memref.copy %x, %y : memref<?xf32> to memref<?xf32>\n return }',
}


def ask(folder: Path, capfd: pytest.CaptureFixture[str], text: str, *words: str) -> tuple[int, str]:
    """Run blu-opt here; its exit code and what it says."""
    (folder / "x.mlir").write_text(text)
    code = opt.main([str(folder / "x.mlir"), "--no-isolate", f"--reproducer-dir={folder / 'failed'}", *words])
    return code, capfd.readouterr().err


def is_placed(answer: tuple[int, str]) -> bool:
    code, said = answer
    return code == 1 and "Traceback" not in said and re.match(r"\S+x\.mlir:\d+:\d+: error: \S", said) is not None


@pytest.mark.parametrize("text", [DECLARED, f"{DECLARED}\n{IDENTITY}"])
def test_a_function_without_a_body_is_refused_at_its_line(tmp_path: Path, capfd, text: str) -> None:
    answer = ask(tmp_path, capfd, text, "--lower-to-linalg")
    assert is_placed(answer), answer


@pytest.mark.parametrize("attributes", ["", 'attributes {blu.level = "llvm"}'])
def test_a_module_of_nothing_has_no_plan(tmp_path: Path, capfd, attributes: str) -> None:
    answer = ask(tmp_path, capfd, f"module {attributes} {{}}", "--blu-export-plan")
    assert is_placed(answer), answer
    assert "the module does not say how much memory it takes (blu.arena_bytes)" in answer[1]


@pytest.mark.parametrize(
    ("target", "emit"),
    [
        ("x86-64-v3", "--pass-pipeline=blu-fit-cpu-schedules,blu-emit-kernels"),
        ("sm_90a", "--pass-pipeline=blu-fit-schedules,blu-emit-gpu-kernels"),
    ],
)
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_that_no_pass_makes_are_refused_at_their_line(
    tmp_path: Path, capfd, name: str, target: str, emit: str
) -> None:
    with make_context(), ir.Location.unknown():
        attribute = TARGETS[target].to_attribute()
    module = f"module attributes {{{ATTRIBUTE} = {attribute}}} {{\n{KERNELS[name]}\n}}"
    answer = ask(tmp_path, capfd, module, emit)
    assert is_placed(answer), answer
