"""Methods of arrays and tensors that the array-API standard asks for: the namespace, and the device."""

from __future__ import annotations

from typing import Any

from blu.dialects.hooks import HOOKS
from blu.dialects.tensor.tensor import METHODS, Tensor
from blu.errors import UnsupportedError

VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")


def array_namespace(x: Any, /, *, api_version: str | None = None) -> Any:
    """`blu.array_api`. UnsupportedError for a version of the standard that it does not follow."""
    if api_version not in (None, *VERSIONS):
        known = ", ".join(VERSIONS)
        raise UnsupportedError(f"there is no version {api_version!r} of the namespace", advice=f"There are {known}.")
    from blu.frontend import array_api

    return array_api


def to_device(x: Any, device: str | None, /, *, stream: Any = None) -> Any:
    """The array on a device ("cpu", "cuda:0"); itself where it is there. A tensor stays where its program runs."""
    return x if isinstance(x, Tensor) or device is None else HOOKS.compiler.place(x, device)


METHODS["__array_namespace__"] = array_namespace
METHODS["to_device"] = to_device
