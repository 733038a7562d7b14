"""Machine code for GPUs: ptxas, where this machine has it, run on the PTX of each kernel."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

from blu import settings
from blu.dataclass import dataclass
from blu.errors import PassError

_USED = re.compile(r"Used (\d+) registers")
_SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")


@dataclass(frozen=True)
class Cubin:
    """One kernel's machine code and what ptxas says of it: registers of a thread, bytes of stack and of spills."""

    code: bytes
    registers: int
    stack_bytes: int
    spill_bytes: int
    log: str


def find_ptxas() -> str | None:
    """The ptxas to run: that of BLU_PTXAS, of the PATH, of a wheel with CUDA's compiler, or none."""
    asked = settings.current().ptxas
    return (shutil.which("ptxas") or _in_wheels()) if asked is None else asked or None


@cache
def _in_wheels() -> str | None:
    from importlib import metadata

    for name in ("nvidia-cuda-nvcc", "nvidia-cuda-nvcc-cu12"):
        try:
            files = metadata.files(name) or []
        except metadata.PackageNotFoundError:
            continue
        for file in files:
            if file.name == "ptxas":
                return str(file.locate())
    return None


def assemble(ptx: Mapping[str, str], architecture: str) -> dict[str, Cubin]:
    """Assemble each kernel's PTX. PassError with ptxas' words where it refuses one."""
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        cubins = pool.map(lambda item: assemble_one(item[0], item[1], architecture), ptx.items())
        return dict(zip(ptx, cubins, strict=True))


def assemble_one(name: str, ptx: str, architecture: str) -> Cubin:
    """Assemble the PTX of a kernel. PassError with ptxas' words where it refuses it."""
    ptxas = find_ptxas()
    assert ptxas, "asked for machine code without ptxas"
    return _assemble(ptxas, name, ptx, architecture)


@cache
def version_of(ptxas: str) -> str:
    """What a ptxas says of its version; its path where it says nothing."""
    ran = subprocess.run([ptxas, "--version"], capture_output=True, text=True, check=False)
    return ran.stdout.strip() or ptxas


def _assemble(ptxas: str, name: str, ptx: str, architecture: str) -> Cubin:
    with tempfile.TemporaryDirectory(prefix="blu-ptxas-") as directory:
        source, result = Path(directory, "kernel.ptx"), Path(directory, "kernel.cubin")
        source.write_text(ptx)
        command = [ptxas, "-v", "-O3", f"-arch={architecture}", "-o", str(result), str(source)]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode:
            raise PassError(f"ptxas refuses kernel '{name}': {ran.stderr.strip()[:2000]}", pass_name="assemble")
        return _cubin(result.read_bytes(), ran.stderr)


def _cubin(code: bytes, log: str) -> Cubin:
    used, spills = _USED.search(log), _SPILLS.search(log)
    stack, stores, loads = (int(number) for number in spills.groups()) if spills else (0, 0, 0)
    return Cubin(code, int(used[1]) if used else 0, stack, stores + loads, log)
