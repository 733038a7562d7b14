"""Runs of a program among guards: bytes before and behind each argument and result, which nobody may write to.

The guards are NaN in one run and small numbers in another. A kernel that makes use of what it reads beyond its memory,
or leaves a part of a result as it was, has other results in one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from blu.runtime.cuda import CudaProgram, DeviceArray, to_device

GUARD = 4096
"""Bytes before and behind each array."""
PATTERNS = (0xFF, 0x3C)
"""Of which all bytes of guards are, and of results before a run: NaN in floats of any size, then numbers."""


class Guarded:
    """An array on the GPU with guards on both sides."""

    def __init__(self, values: np.ndarray, pattern: int):
        self._pattern, self._values = np.uint8(pattern), values
        guard = np.full(GUARD, pattern, np.uint8)
        data = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        self._block = to_device(np.concatenate([guard, data, guard]))
        self.array = DeviceArray(self._block.address + GUARD, values.shape, values.dtype, self._block)

    def fault(self) -> str:
        """What was written that nobody may write: "before", "behind", or nothing."""
        memory = self._block.numpy()
        parts = (("before", memory[:GUARD]), ("behind", memory[memory.size - GUARD :]))
        return next((name for name, part in parts if (part != self._pattern).any()), "")

    def is_changed(self) -> bool:
        """Whether the array is not what it was."""
        return self.array.numpy().tobytes() != np.ascontiguousarray(self._values).tobytes()


def run_guarded(program: CudaProgram, values: Sequence[np.ndarray], pattern: int) -> tuple[list[np.ndarray], str]:
    """The results, and what was written that nobody may write to."""
    inputs = [Guarded(np.asarray(value), pattern) for value in values]
    places = [None if spec.input is not None else Guarded(_filled(spec, pattern), pattern) for spec in program.outputs]
    outputs = [None if item is None else item.array for item in places]
    found = program.run([item.array for item in inputs], outputs=outputs, overwrite=True)
    results = [result.numpy() for result in found]
    return results, _fault(program, inputs, places)


def _filled(spec: Any, pattern: int) -> np.ndarray:
    nbytes = int(np.prod(spec.shape, dtype=np.int64)) * spec.numpy_dtype.itemsize
    return np.full(nbytes, pattern, np.uint8).view(spec.numpy_dtype).reshape(spec.shape)


def _fault(program: CudaProgram, inputs: Sequence[Guarded], places: Sequence[Guarded | None]) -> str:
    arrays = [("argument", inputs), ("result", places)]
    for kind, items in arrays:
        for number, item in enumerate(items):
            if item is not None and (where := item.fault()):
                return f"writes {where} {kind} {number}"
    kept = [number for number, spec in enumerate(program.inputs) if not spec.donated]
    changed = next((number for number in kept if inputs[number].is_changed()), None)
    return "" if changed is None else f"writes to argument {changed}"
