"""Machine code for the kernels of a module: from the cache of kernels, or made by worker processes side by side."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from blu.compiler.cache import cache_of_kernels
from blu.compiler.codegen.ahead import Wanted, described, thread_pool
from blu.compiler.codegen.cubins import assemble_one, find_ptxas, version_of
from blu.compiler.codegen.kernel_cache import KernelCache
from blu.compiler.codegen.kernel_texts import KernelText, kernel_texts
from blu.compiler.codegen.link_objects import link_objects
from blu.compiler.codegen.worker_pool import worker_pool
from blu.compiler.fingerprint import code_key
from blu.dialects.core.mlir import ir
from blu.dialects.targets.cpu import CpuTarget
from blu.dialects.targets.nvidia import GpuTarget, Target
from blu.errors import PassError

logger = logging.getLogger("blu")


class Counts(NamedTuple):
    """How many kernels a program has, and how many of them were compiled for it."""

    kernels: int
    compiled: int

    def __str__(self) -> str:
        return f"{self.compiled} of {self.kernels} kernels compiled, {self.kernels - self.compiled} found compiled"


@dataclass(frozen=True)
class KernelCode:
    """Code by the number of its kernel, under stand-ins for their names, and how much of it is new."""

    kernels: tuple[KernelText, ...]
    codes: tuple[bytes, ...]
    counts: Counts

    def by_name(self) -> dict[str, bytes]:
        """The code of each kernel, with its own name."""
        pairs = zip(self.kernels, self.codes, strict=True)
        return {kernel.name: kernel.named(code) for kernel, code in pairs}


def objects_of(module: ir.Module, target: CpuTarget) -> tuple[bytes, bytes, Counts]:
    """An object with all kernels of a module for a CPU, and that of the thread pool.

    They have no lines of the user's: nobody reads those of code in memory.
    """
    code, [pool_object] = _code_of(module, target, "kernels", thread_pool(target))
    objects = list(code.by_name().values())
    kernels = link_objects(objects) if objects else worker_pool().ask("kernels", described(target), "")
    return kernels, pool_object, code.counts


def ptx_of_kernels(module: ir.Module, target: GpuTarget) -> KernelCode:
    """PTX of each kernel of a module for a GPU, without lines."""
    return _code_of(module, target, "ptx")[0]


def cubins_of(ptx: KernelCode, target: GpuTarget) -> dict[str, bytes]:
    """Machine code of a GPU of each kernel; nothing where this machine has no ptxas."""
    ptxas = find_ptxas()
    if not ptxas:
        return {}
    texts = [code.decode() for code in ptx.codes]
    version = version_of(ptxas)
    wanted = [
        (code_key("cubin", version, target.name, text), partial(_cubin, kernel.name, text, target.name))
        for kernel, text in zip(ptx.kernels, texts, strict=True)
    ]
    codes, _ = _known_or_made(wanted)
    return KernelCode(ptx.kernels, tuple(codes), ptx.counts).by_name()


def _cubin(name: str, ptx: str, architecture: str) -> bytes:
    return assemble_one(name, ptx, architecture).code


def _code_of(module: ir.Module, target: Target, kind: str, *others: Wanted) -> tuple[KernelCode, list[bytes]]:
    """The code of each kernel, and other code that is asked for beside it."""
    kernels, about = kernel_texts(module), described(target)
    described_target = json.dumps(about)
    wanted = [
        (code_key(kind, described_target, kernel.text), partial(_make, kind, about, kernel)) for kernel in kernels
    ]
    codes, made = _known_or_made([*wanted, *others])
    counts = Counts(len(kernels), len(made & {key for key, _ in wanted}))
    logger.info("machine code for %s: %s", target.name, counts)
    return KernelCode(tuple(kernels), tuple(codes[: len(kernels)]), counts), codes[len(kernels) :]


def _make(kind: str, about: dict[str, Any], kernel: KernelText) -> bytes:
    """Code of one kernel, from a worker. PassError names the kernel as the module does."""
    try:
        answer = worker_pool().ask(kind, about, kernel.text)
    except PassError as error:
        error.message = error.message.replace(kernel.stand_in, kernel.name)
        error.operation = error.operation and kernel.name
        raise
    return json.loads(answer)[kernel.stand_in].encode() if kind == "ptx" else answer


def _known_or_made(wanted: Sequence[Wanted]) -> tuple[list[bytes], set[str]]:
    """All that is wanted, and the keys of what had to be made; equal keys are made once."""
    cache = KernelCache(cache_of_kernels())
    makes = dict(wanted)
    known = {key: code for key in makes if (code := cache.get(key)) is not None}
    missing = [key for key in makes if key not in known]
    for key, code in zip(missing, worker_pool().side_by_side([makes[key] for key in missing]), strict=True):
        known[key] = code
        cache.put(key, code)
    return [known[key] for key, _ in wanted], set(missing)
