"""What a compiled program depends on: the keys of the compile cache."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
from importlib import metadata
from pathlib import Path

PACKAGES = ("blu", "blu.frontend", "blu.dialects", "blu.passes", "blu.compiler", "blu.runtime")
# What the generated code depends on besides Blu itself.
TOOLCHAIN = ("torch-mlir", "llvmlite", "numpy")


def key_of(*parts: str) -> str:
    """The cache key of a request: the hash of its parts, of Blu's own source and of the toolchain's versions."""
    digest = hashlib.sha256(source_fingerprint().encode())
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


@functools.cache
def source_fingerprint() -> str:
    """A hash of every source file of this Blu, and of the versions of what it compiles with."""
    digest = hashlib.sha256()
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)  # finds a package without importing it
        assert spec is not None and spec.submodule_search_locations
        root = Path(spec.submodule_search_locations[0])
        for path in sorted(path for path in root.rglob("*") if path.suffix in (".py", ".ll")):
            digest.update(f"{package}/{path.relative_to(root)}\0".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    for name in TOOLCHAIN:
        digest.update(f"{name}=={_version(name)}\0".encode())
    return digest.hexdigest()


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "absent"
