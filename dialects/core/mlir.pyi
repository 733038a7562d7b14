"""For type checkers: the names that mlir.py offers, all of them untyped."""

from collections.abc import Iterable
from typing import Any

from blu.dialects.core import untyped as affine
from blu.dialects.core import untyped as arith
from blu.dialects.core import untyped as bufferization
from blu.dialects.core import untyped as builtin
from blu.dialects.core import untyped as cf
from blu.dialects.core import untyped as func
from blu.dialects.core import untyped as gpu
from blu.dialects.core import untyped as ir
from blu.dialects.core import untyped as linalg
from blu.dialects.core import untyped as llvm
from blu.dialects.core import untyped as math
from blu.dialects.core import untyped as memref
from blu.dialects.core import untyped as nvvm
from blu.dialects.core import untyped as passmanager
from blu.dialects.core import untyped as rewrite
from blu.dialects.core import untyped as scf
from blu.dialects.core import untyped as tensor
from blu.dialects.core import untyped as transform
from blu.dialects.core import untyped as vector

__all__ = [
    "DIALECTS",
    "PACKAGE",
    "PassManager",
    "affine",
    "arith",
    "bufferization",
    "builtin",
    "cf",
    "func",
    "gpu",
    "ir",
    "linalg",
    "llvm",
    "load_declared",
    "math",
    "memref",
    "nvvm",
    "passmanager",
    "register_views",
    "rewrite",
    "scf",
    "tensor",
    "transform",
    "translate_module_to_llvmir",
    "vector",
]

PACKAGE: str
DIALECTS: tuple[str, ...]
PassManager: Any

def translate_module_to_llvmir(operation: Any) -> str: ...
def load_declared(declarations: Any) -> None: ...
def register_views(dialect: str, operations: Iterable[str]) -> None: ...
