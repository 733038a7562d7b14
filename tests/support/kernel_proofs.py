"""Proofs that what was found of a program's code is so still, without making the code.

Code is made of the texts of kernels by code generation (`kernel_texts.py`). Where both are what they were when
something was found of the code, that holds, and the code need not be made again. A proof is a hash of all of these.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from blu.compiler.codegen.kernel_code import described
from blu.compiler.codegen.kernel_texts import kernel_texts
from blu.compiler.fingerprint import code_key
from blu.dialects.core.mlir import ir
from blu.dialects.targets.nvidia import TARGETS

_DIGITS = 24


def proof_of(module: ir.Module, target: str, found: Any) -> str:
    """A hash of what kernels of a module at level "plan" are compiled from and by, and of what was found of them."""
    about = json.dumps(described(TARGETS[target]))
    texts = {kernel.name: code_key(about, kernel.text) for kernel in kernel_texts(module)}
    return hashlib.sha256(json.dumps([texts, found], sort_keys=True).encode()).hexdigest()[:_DIGITS]
