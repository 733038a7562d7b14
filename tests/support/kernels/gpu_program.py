"""Programs for GPUs in tests: compiled and assembled without one, and interpreted where results matter."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import ml_dtypes
import numpy as np

import blu
from blu.compiler.codegen.ahead import described
from blu.compiler.codegen.executable import ptx_of
from blu.compiler.codegen.kernel_texts import kernel_texts
from blu.compiler.fingerprint import code_key
from blu.dialects.core.mlir import ir
from blu.dialects.targets.nvidia import TARGETS
from blu.passes.framework.families import is_kernel
from blu.passes.framework.launches import code_of
from blu.passes.kernels.schedules import Fields, wish_for
from blu.plan.host_launch import KERNEL as HOST
from blu.plan.host_launch import HostLaunch
from blu.plan.repeating import behind, partners
from blu.plan.schema import NOTHING_FOUND, Plan
from blu.runtime.host_routines import compute_at
from tests.support.kernels.spills import spills
from tests.support.ptx import machine as ptx_machine
from tests.support.ptx.global_races import GlobalRaces
from tests.support.ptx.launch_order import LaunchOrder
from tests.support.ptx.tensors import MAP_BYTES, TensorMap

DTYPES = {
    "bool": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
    "f8e4m3": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2,
}  # fmt: skip
_NAMES = {np.dtype(dtype): name for name, dtype in DTYPES.items()}


class KernelPtx(Mapping[str, str]):
    """The PTX of each kernel of a module at level "plan", made when the first is read: names are known before."""

    def __init__(self, module: ir.Module, target: str):
        self._module, self._target = module, target
        kernels = [item for item in code_of(module) if is_kernel(item)]
        self._names = [ir.StringAttr(item.attributes["sym_name"]).value for item in kernels]

    def __getitem__(self, name: str) -> str:
        if name not in self._names:
            raise KeyError(name)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    @cached_property
    def _made(self) -> dict[str, str]:
        return ptx_of(self._module)

    @cached_property
    def texts(self) -> dict[str, bytes]:
        """What the PTX of each kernel is made of. Instructions that kernels write themselves stand in it as in PTX."""
        return {kernel.name: kernel.text for kernel in kernel_texts(self._module)}

    def made_of(self, names: Sequence[str]) -> dict[str, str]:
        """A hash of what the PTX of kernels is made of and by."""
        about = json.dumps(described(TARGETS[self._target]))
        return {name: code_key("ptx", about, self.texts[name]) for name in names}


@dataclass(frozen=True)
class GpuProgram:
    """The PTX of each kernel, and the plan of launches."""

    target: str
    ptx: Mapping[str, str]
    plan: dict
    constants: bytes = b""

    @classmethod
    def of(cls, module: ir.Module, target: str) -> GpuProgram:
        """The program of a module at level "plan"."""
        attributes = module.operation.attributes
        plan, constants = (ir.StringAttr(attributes[name]).value for name in ("blu.plan", "blu.constants"))
        return cls(target, KernelPtx(module, target), json.loads(plan), bytes.fromhex(constants))

    def kernels(self, family: str) -> list[str]:
        """The names of kernels that begin so."""
        return [name for name in self.ptx if name.startswith(family)]

    def spills(self, family: str = "") -> dict[str, str]:
        """What ptxas says of kernels whose names begin so and that keep values in local memory."""
        names = self.kernels(family)
        if isinstance(self.ptx, KernelPtx):
            return spills(self.ptx, self.target, self.ptx.made_of(names))
        return spills({name: self.ptx[name] for name in names}, self.target)

    def written(self, kernel: str) -> str:
        """The instructions that a kernel writes itself, among other text: no PTX is made for them."""
        assert isinstance(self.ptx, KernelPtx), "PTX that was changed is there"
        return self.ptx.texts[kernel].decode("latin-1")

    def interpret(self, *inputs: np.ndarray) -> list[np.ndarray]:
        """The program's outputs, by running every launch in the interpreter."""
        return self._run(inputs)[0]

    def findings(self, *inputs: np.ndarray) -> list[int]:
        """What the program's checks have found, in the interpreter."""
        return self._run(inputs)[1].tolist()

    def _run(self, inputs: Sequence[np.ndarray]) -> tuple[list[np.ndarray], np.ndarray]:
        """Outputs and status slots."""
        if "loops" in self.plan:
            unrolled = Plan.parse(json.dumps(self.plan).encode()).to_json()
            return replace(self, plan=unrolled)._run(inputs)
        inputs = [np.array(array) for array in inputs]
        outputs = [
            np.zeros(item["shape"], DTYPES[item["dtype"]]) if item["input"] is None else inputs[item["input"]]
            for item in self.plan["outputs"]
        ]
        arena = np.full(max(1, self.plan["arena_bytes"]), 0xFF, np.uint8)
        status = np.full(max(1, self.plan["status_slots"]), NOTHING_FOUND, np.int64)
        data = np.frombuffer(self.constants, np.uint8)
        constants = [data[item["offset"] :][: item["bytes"]] for item in self.plan["constants"]]
        order = LaunchOrder()
        spaces = {"input": inputs, "output": outputs, "arena": [arena], "status": [status], "constant": constants}
        launches = self.plan["launches"]
        goes_on = behind(partners([item["kernel"].removeprefix(HOST) for item in launches]), range(len(launches)))
        place = 0
        while place < len(launches):
            place, launch = place + 1, launches[place]
            # Arguments may overlap in the arena, so that each kernel gets copies, of which what has changed goes back.
            # Two that are the same, as a result that is written over a donated argument, are one copy.
            maps = [item for item in launch["args"] if item[0] == "map"]
            arguments, table = [item for item in launch["args"] if item[0] != "map"], self._table_of(launch)
            buffers = [_bytes_of(spaces, argument) for argument in table or arguments]
            if (place - 1, True) in goes_on:
                place = goes_on[place - 1, bool(buffers[0][0])]
                order.end()
                continue
            if launch["kernel"].startswith(HOST):
                compute_at(HostLaunch.parse(launch), [buffer.ctypes.data for buffer in buffers])
                order.end()
                continue
            before, after = (_copies(buffers) for _ in range(2))
            ptx = self.ptx[launch["kernel"]]
            seen = [self._map_of(place, arguments) for _, place in maps]
            watch = GlobalRaces([buffer.ctypes.data for buffer in buffers])
            ptx_machine.run(ptx, launch["grid"], after, launch["shared_bytes"], table is not None, seen, watch)
            order.add(launch["kernel"], launch.get("early", False), watch)
            for buffer, old, written in zip(buffers, before, after, strict=True):
                if buffer.flags.writeable:
                    buffer[old != written] = written[old != written]
        return outputs, status

    def _map_of(self, place: int, arguments: list) -> TensorMap:
        """A launch's tensor map, which is `place` bytes after the first one of the plan."""
        entry = self.plan["tensor_maps"][place // MAP_BYTES]
        lists = (tuple(entry[name]) for name in ("shape", "strides", "box"))
        return TensorMap(arguments.index(entry["buffer"]), entry["offset"], entry["dtype"], *lists)

    def _table_of(self, launch: dict) -> list | None:
        """The arguments of a launch that finds them in a table."""
        (space, *place), *_ = launch["args"]
        return self.plan["tables"][place[0]] if space == "table" else None


def compile_program(
    function: Callable,
    *arguments: np.ndarray,
    target: str = "sm_90a",
    schedules: Mapping[str, Fields] | None = None,
    donate: Sequence[str] = (),
) -> GpuProgram:
    """Compile a function of arrays of such shapes and dtypes; `schedules` are fields of kernels' schedules."""
    specs = [blu.spec(item.shape, _NAMES[item.dtype]) for item in arguments]
    traced = blu.jit(function, donate=donate).trace(*specs)
    if schedules:
        wish_for(traced.traced.module, schedules)
    return GpuProgram.of(traced.lower(target).module, target)


def _copies(buffers: Sequence[np.ndarray]) -> list[np.ndarray]:
    """A copy of each; of those in the same memory, one."""
    known: dict[tuple[int, int], np.ndarray] = {}
    return [known.setdefault((buffer.ctypes.data, buffer.nbytes), buffer.copy()) for buffer in buffers]


def _bytes_of(spaces: dict, argument: list) -> np.ndarray:
    """The memory that an argument of a launch points to, to the end of its buffer."""
    space, *place, offset = argument
    buffer = spaces[space][place[0] if place else 0]
    return buffer.reshape(-1).view(np.uint8)[offset:]
