"""Loads an executable for whatever it was compiled for."""

from __future__ import annotations

import os
from collections.abc import Mapping

from blu.runtime.artifact import Artifact
from blu.runtime.program import Program
from blu.runtime.runnable import Runnable


def load_program(source: str | os.PathLike[str] | Mapping[str, bytes]) -> Runnable:
    """Load a `.blu` file, or its members by name: as a `Program` for the CPU, or as a `CudaProgram` for the GPU.

    Damaged: CacheError. For a machine other than this one: UnsupportedError.
    """
    artifact = Artifact.of(source) if isinstance(source, Mapping) else Artifact.open(source)
    program = _load(artifact)
    program.name = str(artifact.manifest.get("name") or program.name)
    return program


def _load(artifact: Artifact) -> Runnable:
    if not is_for_gpu(artifact):
        return Program.of(artifact)
    from blu.runtime.cuda.program import CudaProgram

    return CudaProgram.of(artifact)


def is_for_gpu(artifact: Artifact) -> bool:
    """Whether a GPU runs it. Members in memory may come without a manifest, but those of a CPU hold its object."""
    target = artifact.manifest.get("target")
    triple = target.get("triple") if isinstance(target, dict) else None
    return str(triple).startswith("nvptx") if triple else "kernels.o" not in artifact.names()
