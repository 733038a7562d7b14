"""What a compiled program depends on: the keys of the compile cache."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import sys
from collections.abc import Iterator

import blu.installed as installed

PACKAGES = ("blu", "blu.frontend", "blu.dialects", "blu.passes", "blu.compiler", "blu.runtime")
# What the generated code depends on besides Blu itself.
TOOLCHAIN = ("torch-mlir", "llvmlite", "numpy")
# What makes code of the text of a kernel: modules, those that say how much effort a family gets and what of a program
# is code, and what the code is made with. What asks for code, keeps it and links it is not among them.
CODE_GENERATION = tuple(
    f"blu.compiler.codegen.{name}"
    for name in ("cubins", "kernel_texts", "llvm_skew", "native", "ptx", "ptx_stores", "worker")
)
READ_BY_CODE_GENERATION = ("blu.passes.framework.families", "blu.passes.framework.launches")
CODE_TOOLCHAIN = ("torch-mlir", "llvmlite")
# The group of entry points by which installed packages bring passes.
PLUGINS = "blu.passes"


def key_of(*parts: str) -> str:
    """The cache key of a request: the hash of its parts, of Blu's own source and of the toolchain's versions."""
    return _hash_of(source_fingerprint(), *parts)


def code_key(*parts: str | bytes) -> str:
    """The key of code that is made of `parts` alone: it stays where source changes that has no part in making it."""
    return _hash_of(_code_fingerprint(), *parts)


def _hash_of(fingerprint: str, *parts: str | bytes) -> str:
    digest = hashlib.sha256(fingerprint.encode())
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


@functools.cache
def _code_fingerprint() -> str:
    """A hash of what turns the text of a kernel into code."""
    digest = hashlib.sha256()
    for name in (*CODE_GENERATION, *READ_BY_CODE_GENERATION):
        found = importlib.util.find_spec(name)
        assert found is not None and found.origin
        digest.update(hashlib.sha256(_content(found.origin)).digest())
    for name in CODE_TOOLCHAIN:
        digest.update(f"{name}=={version_of(name)}\0".encode())
    return digest.hexdigest()


@functools.cache
def source_fingerprint() -> str:
    """A hash of every source file of this Blu, and of the versions of what it compiles with."""
    digest = hashlib.sha256()
    for package in PACKAGES:
        digest.update(_sources(package))
    for name in TOOLCHAIN:
        digest.update(f"{name}=={version_of(name)}\0".encode())
    for plugin in sorted(installed.entry_points(PLUGINS)):
        version = plugin.dist.version if plugin.dist else ""
        digest.update(f"{plugin.name}={plugin.value}=={version}\0".encode())
    return digest.hexdigest()


def _sources(package: str) -> bytes:
    """Names and hashes of all source files of a package. Only those that it is in are imported."""
    spec = importlib.util.find_spec(package)
    assert spec is not None and spec.submodule_search_locations
    root, found = spec.submodule_search_locations[0], b""
    for path in sorted(_files(root)):
        found += f"{package}{path[len(root) :]}\0".encode() + hashlib.sha256(_content(path)).digest()
    return found


def _content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _files(root: str) -> Iterator[str]:
    """Every source file under a folder, without the objects that `Path.rglob` makes of each other file and folder."""
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name != "__pycache__"]
        yield from (os.path.join(folder, name) for name in names if name.endswith((".py", ".ll")))


def is_extended() -> bool:
    """Whether passes, ops or lowering rules of the user's take part in this process: no key says what they do."""
    return any(not module.startswith("blu.") for module in _contributors())


def _contributors() -> set[str]:
    """The modules that passes in pipelines, ops and lowering rules come from, as far as they are imported."""
    found: set[str] = set()
    if (registry := sys.modules.get("blu.passes.framework.registry")) is not None:
        found |= {item.pass_class.__module__ for item in registry.placements()}
    if (declared := sys.modules.get("blu.dialects.core.op")) is not None:
        found |= {cls.__module__ for cls in declared.OPS.values()}
    if (rules := sys.modules.get("blu.passes.loops.lower_to_linalg.rules")) is not None:
        found |= {rule.__module__ for rule in rules.RULES.values()}
    return found


@functools.cache
def version_of(name: str) -> str:
    """The version of an installed package, or "absent"."""
    return installed.version_of(name) or "absent"
