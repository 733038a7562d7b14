"""What is loaded of MLIR's Python bindings, which take longer to load than most programs to compile."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys
import numpy as np
import blu
from blu.dialects.core import mlir

x = np.ones((4, 4), np.float32)
traced = blu.jit(lambda x: blu.softmax(x @ x).cumsum(axis=-1)).trace(x)
print(np.asarray(traced.compile()(x)).shape)
name = f"{mlir.PACKAGE}.dialects.llvm"
print(hasattr(sys.modules[name], "LLVMFuncOp"))
print(len(traced.lower("sm_90a").llvm_ir) > 0)
print(mlir.llvm.LLVMFuncOp is sys.modules[name].LLVMFuncOp)
"""


def test_classes_of_llvm_are_loaded_for_gpus_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("BLU_CACHE_DIR", str(tmp_path))
    command = [sys.executable, "-c", SCRIPT]
    found = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert found.stdout.splitlines() == ["(4, 4)", "False", "True", "True"]


def test_processes_that_generate_code_do_without_numpy():
    command = [sys.executable, "-X", "importtime", "-P", "-m", "blu.compiler.codegen.worker"]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL).stderr
    assert "blu.compiler.codegen.native" in loaded and "numpy._core" not in loaded
