"""`griddepcontrol`: kernels that begin while the one before them still runs (programmatic dependent launch).

Source: PTX ISA, "griddepcontrol"; CUDA C++ Programming Guide, "Programmatic Dependent Launch and Synchronization".
"""

from __future__ import annotations

from blu.passes.gpu.isa.assembly import assembly

WAIT, LAUNCH_DEPENDENTS = "griddepcontrol.wait;", "griddepcontrol.launch_dependents;"
_MEMORY = "~{memory}"
"""LLVM is to move no access to memory over it: its own intrinsics say that they touch none."""


def launch_dependents() -> None:
    """Let the kernel behind this one begin, once all blocks have come here or are over."""
    assembly([], [], LAUNCH_DEPENDENTS, _MEMORY)


def wait() -> None:
    """Wait until the kernels before this one are over, and see all that they wrote; if none is left, go on."""
    assembly([], [], WAIT, _MEMORY)
