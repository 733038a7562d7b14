"""This machine's CPU: loads object code, checks that the machine can run it, owns the process-wide thread pool."""

from __future__ import annotations

import atexit
import os
import platform
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TypeVar

from blu import settings
from blu.errors import BluError, CacheError, UnsupportedError
from blu.runtime.loader import LoadedObject
from blu.runtime.pool import CodeObject, ThreadPool, default_threads

Result = TypeVar("Result")

# What each x86-64 level adds (the psABI's table), by the names of /proc/cpuinfo.
_LEVEL_2 = frozenset({"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"})
_LEVEL_3 = _LEVEL_2 | {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"}
_LEVEL_4 = _LEVEL_3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
X86_LEVELS = {"x86-64-v2": _LEVEL_2, "x86-64-v3": _LEVEL_3, "x86-64-v4": _LEVEL_4}
"""The flags that a processor needs for each level, the lowest level first."""
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}

_OBJECT_MAGIC = (b"\x7fELF\x02", b"\xcf\xfa\xed\xfe")

_pool: ThreadPool | None = None
_run_lock = threading.RLock()
_running = threading.Lock()


def machine_name() -> str:
    """The machine's architecture as target triples spell it: x86_64, aarch64."""
    name = platform.machine().lower()
    return _MACHINES.get(name, name)


@cache
def cpu_flags() -> frozenset[str]:
    """The CPU's features by the names of /proc/cpuinfo (empty where there is no such file)."""
    return frozenset(_cpuinfo("flags").split())


def processor_name() -> str:
    """The name that the processor's maker gives it; that of its architecture where the system does not say."""
    return _cpuinfo("model name") or machine_name()


def _cpuinfo(name: str) -> str:
    """What /proc/cpuinfo says first under a name; nothing where there is no such file."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "")


def check_machine(name: str, triple: str) -> None:
    """UnsupportedError unless this machine can run code for target `name` (x86-64-v3, ...) and `triple`."""
    if triple.split("-", 1)[0] != machine_name():
        raise UnsupportedError(
            f"the program is compiled for {triple}, this machine is {machine_name()}",
            advice="compile it for this machine",
        )
    missing = sorted(X86_LEVELS.get(name, frozenset()) - cpu_flags()) if cpu_flags() else []
    if missing:
        raise UnsupportedError(
            f"the program is compiled for {name}, this CPU lacks {', '.join(missing)}",
            advice="compile it with --target=x86-64-v2, which every x86-64 CPU since 2009 runs",
        )


def load_object(data: bytes) -> CodeObject:
    """Map an object file's code into memory; the result owns it. CacheError where the file is damaged."""
    if machine_name() == "x86_64" and platform.system() == "Linux":
        return LoadedObject(data)
    return McjitObject(data)


class McjitObject:
    """Object code loaded by LLVM's own linker, for machines that `elf.py` does not know. Needs llvmlite.

    LLVM trusts what it loads: that the file is whole is known from its hash (`artifact.py`).
    """

    def __init__(self, data: bytes):
        import llvmlite.binding as llvm

        if not data.startswith(_OBJECT_MAGIC):
            raise CacheError("damaged object file: neither ELF nor Mach-O", advice="compile the program again")
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(data))
        self._engine.finalize_object()

    def address(self, name: str) -> int:
        """The address of a function; CacheError where there is none of that name."""
        address = self._engine.get_function_address(name)
        if not address:
            raise CacheError(f"the object file does not define {name!r}", advice="compile the program again")
        return address


def run_exclusively(code: CodeObject, work: Callable[[ThreadPool], Result]) -> Result:
    """Call `work` with the process's thread pool; other Python threads wait until it is done.

    The pool is started on first use with the `pool.o` of the program that asks first. A child of `fork` starts its own:
    threads do not survive a fork, and neither may a lock that another thread held. (Both locks are entered by `with`,
    which no KeyboardInterrupt can split from their release.)
    """
    with _run_lock:
        if _running.locked():
            raise BluError("a compiled function was called while this thread runs another one (by a signal handler)")
        with _running:
            return work(_pool_for(code))


def _pool_for(code: CodeObject) -> ThreadPool:
    global _pool
    if _pool is None:
        _pool = ThreadPool(code, default_threads())
    return _pool


def set_threads(threads: int) -> None:
    """Let programs run on `threads` threads from now on (BLU_NUM_THREADS says how many they start with)."""
    global _pool
    if not 1 <= threads <= settings.MAX_THREADS:
        raise BluError(f"{threads=} must be from 1 to {settings.MAX_THREADS}")
    with _run_lock:
        if _running.locked():
            raise BluError("the number of threads cannot change during a run (in a signal handler)")
        os.environ |= settings.as_environment(num_threads=threads)
        _close_pool()
        _pool = None


def _forget_pool() -> None:
    global _pool, _run_lock, _running
    _pool, _run_lock, _running = None, threading.RLock(), threading.Lock()


def _close_pool() -> None:
    if _pool is not None:
        _pool.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)
atexit.register(_close_pool)
