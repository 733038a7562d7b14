"""Chooses, among a program's members, the code of each kernel that this GPU runs, and loads it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Any

from blu.errors import CacheError, UnsupportedError
from blu.plan.schema import GpuLaunch
from blu.runtime.artifact import Artifact
from blu.runtime.cuda.driver.driver import Driver

_ARCHITECTURE = re.compile(r"sm_(\d+)(\d)(a?)")
_PTX_TARGET = re.compile(rb"^\s*\.target\s+(sm_\w+)", re.MULTILINE)


class Functions:
    """A program's kernels by name, in modules that are unloaded when nothing refers to this any more."""

    def __init__(self, driver: Driver, launches: Sequence[GpuLaunch], artifact: Artifact):
        self._driver = driver
        self._modules: list[Any] = []
        self._by_name: dict[str, Any] = {}
        shared: dict[str, int] = {}
        for launch in launches:
            shared[launch.kernel] = max(shared.get(launch.kernel, 0), launch.shared_bytes)
        for name, shared_bytes in shared.items():
            code = code_of(artifact, name, driver.capability)
            with driver.explained(f"load the kernel {name!r}"):
                self._modules.append(driver.load_module(code))
                self._by_name[name] = driver.function(self._modules[-1], name, shared_bytes)

    def __getitem__(self, kernel: str) -> Any:
        return self._by_name[kernel]

    def __del__(self) -> None:
        self._driver.discard(partial(_unload, self._driver, self._modules))


def _unload(driver: Driver, modules: list[Any]) -> None:
    while modules:
        driver.unload_module(modules.pop())


def part_of(artifact: Artifact, capability: tuple[int, int]) -> Artifact:
    """What is there for this compute capability, of an artifact for several GPUs. UnsupportedError where it is nothing.

    Machine code goes before PTX, which the driver compiles.
    """
    targets = artifact.manifest.get("targets")
    if targets is None:
        return artifact
    if not isinstance(targets, list) or not all(isinstance(target, str) for target in targets):
        raise CacheError(f"{artifact.where}: the targets are {targets!r}", advice="compile the program again")
    fitting = [target for target in targets if runs_code(target, capability)]
    fitting = fitting or [target for target in targets if _runs_ptx(target, capability)]
    if not fitting:
        raise _unfitting(targets, capability)
    return artifact.part(max(fitting, key=_version))


def code_of(artifact: Artifact, kernel: str, capability: tuple[int, int]) -> bytes:
    """Machine code for this compute capability, or PTX for the driver to compile. UnsupportedError without either."""
    names = artifact.names()
    prefix = f"{kernel}."
    cubins = {name[len(prefix) : -len(".cubin")]: name for name in names if _is_cubin(name, prefix)}
    fitting = [architecture for architecture in cubins if runs_code(architecture, capability)]
    if fitting:
        return artifact.read(cubins[max(fitting, key=_version)])
    if f"{kernel}.ptx" not in names:
        raise _missing(kernel, sorted(cubins), capability)
    ptx = artifact.read(f"{kernel}.ptx")
    stated = _PTX_TARGET.search(ptx)
    if stated is None:
        raise CacheError(f"{artifact.where}: {kernel}.ptx names no .target", advice="compile the program again")
    if not _runs_ptx(stated[1].decode(), capability):
        raise _missing(kernel, [stated[1].decode()], capability)
    return ptx


def _is_cubin(name: str, prefix: str) -> bool:
    return name.startswith(prefix) and name.endswith(".cubin") and "." not in name[len(prefix) : -len(".cubin")]


def _missing(kernel: str, found: Sequence[str], capability: tuple[int, int]) -> Exception:
    if not found:
        return CacheError(f"the program has no code of the kernel {kernel!r}", advice="compile the program again")
    return _unfitting(found, capability)


def _unfitting(found: Sequence[str], capability: tuple[int, int]) -> UnsupportedError:
    major, minor = capability
    return UnsupportedError(
        f"the program is compiled for {', '.join(found)}, this GPU has compute capability {major}.{minor}",
        advice="compile it on this machine with --target=cuda, or with this GPU's architecture as --target",
    )


def _version(architecture: str) -> tuple[int, int, bool]:
    """(9, 0, True) of sm_90a; (0, 0, False) of what is no architecture."""
    found = _ARCHITECTURE.fullmatch(architecture)
    return (int(found[1]), int(found[2]), bool(found[3])) if found else (0, 0, False)


def runs_code(architecture: str, capability: tuple[int, int]) -> bool:
    """Machine code runs on its own minor version and later ones; that of sm_90a on 9.0 only."""
    major, minor, is_special = _version(architecture)
    return (major, minor) == capability or (not is_special and major == capability[0] and minor <= capability[1])


def _runs_ptx(architecture: str, capability: tuple[int, int]) -> bool:
    major, minor, is_special = _version(architecture)
    return (major, minor) == capability or (not is_special and major > 0 and (major, minor) <= capability)
