"""Compiles LLVM IR text to object code for the runtime's tests, and builds small programs out of it."""

from __future__ import annotations

import ctypes
import functools
import json
import platform
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from blu.runtime.pool import pool_text

TRIPLE = f"{platform.machine()}-unknown-linux-gnu"


@functools.cache
def compile_object(text: str, *, reloc: str = "pic", codemodel: str = "small", opt: int = 2) -> bytes:
    """An object file for this machine."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(TRIPLE)
    machine = target.create_target_machine(reloc=reloc, codemodel=codemodel, opt=opt)
    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = TRIPLE, str(machine.target_data)
    module.verify()
    return machine.emit_object(module)


def pool_object() -> bytes:
    """The thread pool's object file."""
    return compile_object(pool_text(TRIPLE))


def loop_kernel(name: str, body: str, pointers: int) -> str:
    """A kernel `name.entry` that runs `body` for each %i in [begin, end); %p0, %p1, ... are its arguments."""
    loads = "\n".join(
        f"  %at{i} = getelementptr ptr, ptr %args, i64 {i}\n  %p{i} = load ptr, ptr %at{i}" for i in range(pointers)
    )
    return f"""
define void @{name}.entry(ptr %args, i64 %begin, i64 %end) {{
entry:
{loads}
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %i.next, %step ]
  %more = icmp slt i64 %i, %end
  br i1 %more, label %body, label %leave
body:
{body}
  br label %step
step:
  %i.next = add i64 %i, 1
  br label %loop
leave:
  ret void
}}
"""


def address(array: np.ndarray) -> int:
    """Where the array's data lies."""
    return array.ctypes.data


def pointers(*arrays: np.ndarray) -> np.ndarray:
    """A kernel's `args`."""
    return np.array([address(array) for array in arrays], np.int64)


def call(at: int, result: Any, *args: tuple[Any, Any]) -> Any:
    """Call the function at an address with (ctypes type, value) pairs."""
    return ctypes.CFUNCTYPE(result, *(kind for kind, _ in args))(at)(*(value for _, value in args))


def members(kernels: str, plan: dict[str, Any], constants: bytes = b"") -> dict[str, bytes]:
    """An executable's members; `plan` needs to state only what differs from an empty one."""
    empty = {"entry": "main", "arena_bytes": 0, "status_slots": 0}
    empty |= {"inputs": [], "outputs": [], "constants": [], "launches": [], "checks": []}
    return {
        "plan.json": json.dumps(empty | plan).encode(),
        "kernels.o": compile_object(kernels),
        "pool.o": pool_object(),
        "constants.bin": constants,
    }
