"""Runs compiled programs. Needs numpy and ml_dtypes, but neither MLIR nor LLVM."""

from blu.plan.tensors import TensorSpec
from blu.runtime.array import Array
from blu.runtime.artifact import Artifact, write_artifact
from blu.runtime.load import load_program
from blu.runtime.pool import pool_path, pool_text
from blu.runtime.program import Program

__all__ = ["Array", "Artifact", "Program", "TensorSpec", "load_program", "pool_path", "pool_text", "write_artifact"]
