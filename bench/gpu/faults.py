"""Kernels with planted faults, each of which one tool of compute-sanitizer must report, and a sound one for all."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.gpu.stored import StoredCase, save_arrays
from blu.runtime.artifact import write_artifact

THREADS = 64
HEADER = """.version 8.0
.target sm_80
.address_size 64
.visible .entry fault(.param .u64 fault_param_0, .param .u64 fault_param_1)
.reqntid 64, 1, 1
{
  .reg .pred %p<4>;
  .reg .b32 %r<12>;
  .reg .b64 %rd<8>;
  .shared .align 16 .b8 words[256];
  ld.param.b64 %rd1, [fault_param_0];
  cvta.to.global.u64 %rd2, %rd1;
  ld.param.b64 %rd3, [fault_param_1];
  cvta.to.global.u64 %rd4, %rd3;
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd5, %r1, 4;
  add.s64 %rd6, %rd4, %rd5;
"""
# Each thread writes a word of shared memory; after a barrier it reads one that another warp has written.
WRITE = """
  mov.u32 %r2, words;
  shl.b32 %r3, %r1, 2;
  add.u32 %r4, %r2, %r3;
  st.shared.b32 [%r4], %r1;
"""
READ = """
  xor.b32 %r5, %r3, 128;
  add.u32 %r6, %r2, %r5;
  ld.shared.b32 %r7, [%r6];
"""
STORE = """
  st.global.b32 [%rd6], %r7;
"""
END = """
  ret;
}
"""
DIVERGE = """
  and.b32 %r8, %r1, 1;
  setp.ne.b32 %p1, %r8, 0;
  @%p1 bra odd;
  bar.sync 0;
  bra.uni together;
odd:
  mov.u32 %r9, %r1;
together:
"""


@dataclass(frozen=True)
class Fault:
    """A kernel of one block; `tool` must say `words`, or nothing where there are none.

    Its arguments are words of the arena, which nobody has written, and an output of as many elements as threads.
    """

    name: str
    tool: str
    words: str
    body: str

    @property
    def ptx(self) -> str:
        return HEADER + self.body + END


BARRIER = "\n  bar.sync 0;\n"
FAULTS = (
    Fault("out-of-bounds write", "memcheck", "Invalid __global__ write", WRITE + BARRIER + READ
          + "  st.global.b32 [%rd6+4], %r7;\n"),
    Fault("shared-memory race", "racecheck", "Race reported", WRITE + READ + STORE),
    Fault("uninitialised read", "initcheck", "Uninitialized __global__ memory read",
          "  add.s64 %rd7, %rd2, %rd5;\n  ld.global.b32 %r7, [%rd7];\n" + STORE),
    Fault("divergent barrier", "synccheck", "Divergent thread(s)", WRITE + DIVERGE + READ + STORE),
)  # fmt: skip
SOUND = Fault("no fault", "", "", WRITE + BARRIER + READ + STORE)


def write_faults(folder: Path) -> list[StoredCase]:
    """Write a program for each fault to a folder, as packed cases are; their entries."""
    entries = []
    for number, fault in enumerate((*FAULTS, SOUND)):
        stem = f"fault{number}"
        launch = {"kernel": "fault", "grid": [1, 1, 1], "threads": THREADS, "shared_bytes": 0, "location": fault.name,
                  "args": [["arena", 0], ["output", 0, 0]]}  # fmt: skip
        output = {"name": "", "shape": [THREADS], "dtype": "i32", "input": None}
        plan = {"entry": "main", "arena_bytes": 4 * THREADS, "status_slots": 0, "inputs": [], "outputs": [output],
                "constants": [], "checks": [], "launches": [launch]}  # fmt: skip
        members = {"plan.json": json.dumps(plan).encode(), "constants.bin": b"", "fault.ptx": fault.ptx.encode()}
        details = {"name": fault.name, "target": {"name": "sm_80"}}
        write_artifact(folder / f"{stem}.blu", members, details)
        save_arrays(folder / f"{stem}.npz", {"result0": np.arange(THREADS, dtype=np.int32) ^ 32})
        bound = 0.0 if fault == SOUND else math.inf
        entries.append(StoredCase(fault.name, stem, stem, [bound], steps=[1], finite=[THREADS]))
    return entries
