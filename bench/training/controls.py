"""What a report of the headline benchmark says of how it was made: versions, machine, clocks, flags, arithmetic."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

from bench.ranks.launching import ROOT
from bench.training.setup import Setup

PACKAGES = ("blu", "numpy", "torch", "triton", "nccl4py", "mpi4py", "torch-mlir", "llvmlite", "cuda-bindings")
FLAGS = ("BLU_", "NCCL_", "TORCH", "CUDA_", "CUBLAS_", "NVIDIA_TF32", "OMP_")
"""How the names of variables begin that change what is run, or how."""
NO_FLAGS = ("_TOKEN", "_DIR", "_HOME")
"""How the names of those end that hold a secret or a place on this machine."""
ASKED = "name,driver_version,clocks.sm,clocks.mem,clocks.max.sm,power.limit,power.draw,temperature.gpu,mig.mode.current"
ARITHMETIC = {
    "tf32": "arrays in f32; products on tensor cores with factors rounded to tf32, added up in f32; all else in f32",
    "bf16": "parameters, moments and sums in f32; products, attention and activations in bf16, added up in f32",
    "f32": "arrays in f32; Blu's products on GPUs are three of tf32, PyTorch's are in f32 ('highest')",
}


def controls(setup: Setup) -> dict[str, Any]:
    """All that could make another figure of the same run."""
    ranks_differ_in = {"data": setup.data}
    about = {key: value for key, value in asdict(setup).items() if key not in ranks_differ_in}
    return {
        "setup": about,
        "data": data_of(setup),
        "versions": {"python": platform.python_version(), **_versions()},
        "commit": commit(),
        "machine": {"system": platform.platform(), "processors": os.cpu_count()},
        "flags": flags_of(os.environ),
        "arithmetic": ARITHMETIC[setup.precision],
        "torch": _of_torch() if setup.with_peer else "PyTorch is not there: the peer was left out",
    }


def flags_of(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that change what is run, or how, by name."""
    names = sorted(name for name in environment if name.startswith(FLAGS) and not name.endswith(NO_FLAGS))
    return {name: environment[name] for name in names}


def data_of(setup: Setup) -> dict[str, Any]:
    """The data by name, size and hash."""
    path = Path(setup.data)
    if not path.is_file():
        return {"files": path.name}
    return {"file": path.name, "bytes": path.stat().st_size, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def commit() -> str:
    """The checkout's commit, "+" where files differ from it; nothing outside of one."""
    said = _output(["git", "-C", str(ROOT), "describe", "--always", "--abbrev=12", "--dirty=+"])
    return said.strip()


def clocks() -> list[dict[str, str]]:
    """What nvidia-smi says of each GPU; nothing where there is none."""
    said = _output(["nvidia-smi", f"--query-gpu={ASKED}", "--format=csv,noheader"])
    return [dict(zip(ASKED.split(","), line.split(", "), strict=False)) for line in said.splitlines()]


def _output(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def _of_torch() -> dict[str, Any]:
    import torch
    import torch.cuda.nccl

    cuda = torch.backends.cuda
    found: dict[str, Any] = {
        "matmul precision": torch.get_float32_matmul_precision(),
        "tf32 in cuDNN": torch.backends.cudnn.allow_tf32,
        "threads": torch.get_num_threads(),
        "attention": {"flash": cuda.flash_sdp_enabled(), "efficient": cuda.mem_efficient_sdp_enabled()},
        "cuda": torch.version.cuda or "",
    }
    if torch.cuda.is_available():
        found |= {"nccl": ".".join(map(str, torch.cuda.nccl.version())), "gpu": torch.cuda.get_device_name()}
    return found
