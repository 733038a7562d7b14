"""Matrix products on GPUs in tests: kernels emitted by a schedule, run in the interpreter of PTX."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from blu.compiler.codegen.ptx import PtxCodegen
from blu.dialects.core.mlir import func, ir
from blu.dialects.targets.nvidia import SM_90A, GpuTarget
from blu.passes.framework.base import find
from blu.passes.gpu.lower.lower_to_nvvm import lower_kernels
from blu.passes.kernels.launch import GRID, MAPS, SHARED
from tests.support.kernels.gpu_program import DTYPES
from tests.support.ptx import machine as ptx_machine
from tests.support.ptx.tensors import TensorMap

Emit = Callable[[func.FuncOp], list[func.FuncOp]]


@dataclass(frozen=True)
class Launch:
    """A kernel, its blocks, its bytes of shared memory, and the tensor maps of its last parameters."""

    ptx: str
    grid: tuple[int, ...]
    shared_bytes: int
    maps: Sequence[TensorMap] = field(default=())

    def run(self, *buffers: np.ndarray) -> None:
        """Run it on buffers, which are changed in place."""
        ptx_machine.run(self.ptx, self.grid, buffers, self.shared_bytes, maps=self.maps)


def emit(text: str, emitter: Emit, target: GpuTarget = SM_90A) -> list[Launch]:
    """What an emitter puts in the place of the one kernel in a text."""
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        launches = [(item.name.value, *_launch_of(item)) for item in emitter(next(iter(find(module, func.FuncOp))))]
        lower_kernels(module)
        described = {"triple": target.triple, "name": target.name, "ptx": target.ptx}
        ptx = json.loads(PtxCodegen(described).ptx_of_kernels(str(module)))
    return [Launch(ptx[name], *launch) for name, *launch in launches]


def _launch_of(kernel: func.FuncOp) -> tuple[tuple[int, ...], int, list[TensorMap]]:
    maps = ir.ArrayAttr(kernel.attributes[MAPS]) if MAPS in kernel.attributes else ()
    shared = ir.IntegerAttr(kernel.attributes[SHARED]).value
    return tuple(ir.DenseI64ArrayAttr(kernel.attributes[GRID])), shared, [_map_of(ir.DictAttr(item)) for item in maps]


def _map_of(fields: ir.DictAttr) -> TensorMap:
    lists = (tuple(ir.DenseI64ArrayAttr(fields[name])) for name in ("shape", "strides", "box"))
    argument, offset = (ir.IntegerAttr(fields[name]).value for name in ("argument", "offset"))
    return TensorMap(argument, offset, ir.StringAttr(fields["dtype"]).value, *lists)


def random_array(shape: Sequence[int], dtype: str, seed: int = 0) -> np.ndarray:
    """Normal numbers of a dtype ("tf32" are f32)."""
    rng = np.random.default_rng([seed, *shape])
    return rng.standard_normal(shape, np.float32).astype(DTYPES["f32" if dtype == "tf32" else dtype])


def as_multiplied(numbers: np.ndarray, instruction: str) -> np.ndarray:
    """Factors in f64 as an instruction sees them: what "tf32" rounds away is gone."""
    if instruction == "tf32":
        numbers = ((numbers.view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)
    return numbers.astype(np.float64)


def bound_of_sums(left: np.ndarray, right: np.ndarray, instruction: str) -> np.ndarray:
    """For each sum of left @ right (f64), how far tensor cores may be from it.

    The sum of each instruction is cut to 24 bits, of which there is one for 32 bytes of k. The largest of thousands of
    errors was 0.5 times as many units as the square root of the number of instructions says, of the sum of magnitudes.
    """
    instructions = max(1, left.shape[-1] * {"tf32": 4, "fp8": 1}.get(instruction, 2) // 32)
    return 0.75 * np.sqrt(instructions) * 2.0**-23 * (np.abs(left) @ np.abs(right))
