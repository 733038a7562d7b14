"""Machine code for the kernels of a module: from the cache of kernels, or made by worker processes side by side."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from blu.compiler.cache import cache_of_kernels
from blu.compiler.codegen.ahead import Wanted, described, made, thread_pool
from blu.compiler.codegen.cubins import assemble_one, find_ptxas, version_of
from blu.compiler.codegen.kernel_cache import KernelCache
from blu.compiler.codegen.kernel_texts import KernelText, kernel_texts
from blu.compiler.codegen.link_objects import link_objects
from blu.compiler.codegen.worker_pool import Task, worker_pool
from blu.compiler.fingerprint import code_key
from blu.dataclass import dataclass
from blu.dialects.core.mlir import ir
from blu.dialects.targets.cpu import CpuTarget
from blu.dialects.targets.nvidia import GpuTarget, Target
from blu.errors import PassError
from blu.passes.framework.families import is_kernel
from blu.passes.framework.launches import code_of

logger = logging.getLogger("blu")

# What is done with a kernel and its code, in the thread that has asked for that.
Then = Callable[[KernelText, bytes], None]


class Found(NamedTuple):
    """Code, and whether it had to be made."""

    code: bytes
    is_fresh: bool


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


def objects_of(module: ir.Module, target: CpuTarget, written: Mapping[str, KernelText]) -> tuple[bytes, bytes, Counts]:
    """An object with all kernels of a module for a CPU, and that of the thread pool.

    They have no lines of the user's: nobody reads those of code in memory. Texts that are `written` are taken by name.
    """
    code, [pool_object] = _code_of(_texts(module, written), target, "kernels", thread_pool(target))
    objects = list(code.by_name().values())
    kernels = link_objects(objects) if objects else worker_pool().ask("kernels", described(target), "")
    return kernels, pool_object, code.counts


def ptx_of_kernels(module: ir.Module, target: GpuTarget) -> KernelCode:
    """PTX of each kernel of a module for a GPU, without lines."""
    return _code_of(kernel_texts(module), target, "ptx")[0]


def ptx_and_cubins(module: ir.Module, target: GpuTarget) -> tuple[KernelCode, dict[str, bytes]]:
    """PTX of each kernel, and machine code of a GPU by kernel: nothing where this machine has no ptxas.

    The PTX of a kernel is assembled while that of others is made.
    """
    ptxas, cubins, cache = find_ptxas(), dict[bytes, bytes](), KernelCache(cache_of_kernels())
    if not ptxas:
        return ptx_of_kernels(module, target), {}
    version = version_of(ptxas)

    def assemble(kernel: KernelText, code: bytes) -> None:
        ptx = code.decode()
        key = code_key("cubin", version, target.name, ptx)
        cubins[kernel.text] = _known_or_made(cache, key, partial(_cubin, kernel.name, ptx, target.name))[0]

    ptx, _ = _code_of(kernel_texts(module), target, "ptx", then=assemble)
    return ptx, {kernel.name: kernel.named(cubins[kernel.text]) for kernel in ptx.kernels}


def _cubin(name: str, ptx: str, architecture: str) -> bytes:
    return assemble_one(name, ptx, architecture).code


def _texts(module: ir.Module, written: Mapping[str, KernelText]) -> Iterable[KernelText]:
    """The texts of all kernels: those that were written when the kernels were lowered, where none is missing."""
    names = [ir.StringAttr(item.attributes["sym_name"]).value for item in code_of(module) if is_kernel(item)]
    return [written[name] for name in names] if written.keys() >= {*names} else kernel_texts(module)


def _code_of(
    texts: Iterable[KernelText], target: Target, kind: str, *others: Wanted, then: Then | None = None
) -> tuple[KernelCode, list[bytes]]:
    """The code of each kernel, with which something is done `then`, and other code that is asked for beside it.

    Equal code is made once, and that of the first kernels while the texts of others are written.
    """
    about, cache = described(target), KernelCache(cache_of_kernels())
    described_target = json.dumps(about)
    kernels, keys = list[KernelText](), list[str]()

    def tasks() -> Iterator[Task[Found]]:
        for kernel in texts:
            key = code_key(kind, described_target, kernel.text)
            is_first = key not in keys
            kernels.append(kernel)
            keys.append(key)
            if is_first:
                make = partial(_make, key, kind, about, kernel)
                follow = then and partial(then, kernel)
                yield Task(partial(_known_or_made, cache, key, make, follow), len(kernel.text))
        for key, make in others:
            keys.append(key)
            yield Task(partial(_known_or_made, cache, key, make))

    results = worker_pool().side_by_side(tasks())
    found = dict(zip(dict.fromkeys(keys), results, strict=True))
    counts = Counts(len(kernels), sum(found[key].is_fresh for key in set(keys[: len(kernels)])))
    logger.info("machine code for %s: %s", target.name, counts)
    codes = [found[key].code for key in keys]
    return KernelCode(tuple(kernels), tuple(codes[: len(kernels)]), counts), codes[len(kernels) :]


def _make(key: str, kind: str, about: dict[str, Any], kernel: KernelText) -> bytes:
    """Code of one kernel, from a worker. PassError names the kernel as the module does."""
    try:
        answer = made(key, kind, about, kernel.text)
    except PassError as error:
        error.message = error.message.replace(kernel.stand_in, kernel.name)
        error.operation = error.operation and kernel.name
        raise
    return json.loads(answer)[kernel.stand_in].encode() if kind == "ptx" else answer


def _known_or_made(
    cache: KernelCache, key: str, make: Callable[[], bytes], then: Callable[[bytes], None] | None = None
) -> Found:
    """Code from the cache, or made and put there."""
    known = cache.get(key)
    code = make() if known is None else known
    if known is None:
        cache.put(key, code)
    if then:
        then(code)
    return Found(code, known is None)
