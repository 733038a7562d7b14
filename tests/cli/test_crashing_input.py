"""IR that MLIR does not survive reading: the commands do, and say at which file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

# MLIR's parser ends the process at the bracket in the list.
TEXT = """func.func @main(%x: tensor<2x3xf32>, %y: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %0 = linalg.transpose ins(%x : tensor<2x3xf32>) outs(%y : tensor<3x2xf32>) permutation = [1, 0(]
  return %0 : tensor<3x2xf32>
}
"""


@pytest.mark.parametrize("words", [("compile", "--compile-to=llvm"), ("opt", "--cse")])
def test_a_file_that_mlir_crashes_on_is_an_error_at_the_file(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "bad.mlir").write_text(TEXT)
    ended = ask(tmp_path, *words, "bad.mlir")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == "bad.mlir:1:1: error: MLIR crashed with SIGSEGV while reading bad.mlir\n"
    assert [path.name for path in tmp_path.iterdir()] == ["bad.mlir"]


def test_text_from_standard_input_that_mlir_crashes_on_is_an_error_as_well(tmp_path: Path) -> None:
    ended = ask(tmp_path, "compile", "-", text=TEXT)
    assert ended.returncode == 1
    assert ended.stderr == "<stdin>:1:1: error: MLIR crashed with SIGSEGV while reading <stdin>\n"


def ask(folder: Path, *words: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command as a user does, its child included."""
    command = [sys.executable, "-m", "blu.compiler.cli.main", *words]
    return subprocess.run(command, cwd=folder, input=text, capture_output=True, text=True, timeout=100, check=False)
