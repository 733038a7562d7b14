"""What the namespace can do: `__array_namespace_info__`."""

from __future__ import annotations

from typing import Any

import numpy as np

from blu.dialects.core.dtypes import MOST_DIMENSIONS
from blu.dialects.hooks import HOOKS
from blu.frontend.array_api.dtypes import KINDS, bfloat16, complex128, float16, float64, int64

__all__ = ["__array_namespace_info__"]

DEFAULTS = {
    "real floating": float64,
    "complex floating": complex128,
    "integral": int64,
    "indexing": int64,
}


class NamespaceInfo:
    """Devices, dtypes and capabilities of `blu.array_api`, outside of compiled functions."""

    def capabilities(self) -> dict[str, Any]:
        """Masks and results of as many elements as are found are for arrays; tensors have fixed shapes."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": MOST_DIMENSIONS}

    def devices(self) -> list[str]:
        """The devices of this machine."""
        return HOOKS.compiler.devices()

    def default_device(self) -> str:
        """Where arrays are made."""
        return "cpu"

    def default_dtypes(self, *, device: str | None = None) -> dict[str, np.dtype]:
        """The dtypes of numbers of each kind where none is said."""
        return dict(DEFAULTS)

    def dtypes(self, *, device: str | None = None, kind: Any = None) -> dict[str, np.dtype]:
        """The standard's dtypes by name, of one kind or several. Those that no kernel has are for the host."""
        kinds = ("bool", "numeric") if kind is None else kind if isinstance(kind, tuple) else (kind,)
        found = dict.fromkeys(dtype for name in kinds for dtype in KINDS[name])
        return {dtype.name: dtype for dtype in found if dtype not in (float16, bfloat16)}


def __array_namespace_info__() -> NamespaceInfo:
    """What the namespace can do."""
    return NamespaceInfo()
