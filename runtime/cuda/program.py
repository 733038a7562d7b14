"""Loads an executable for a GPU and runs it: one arena, one stream, one graph that is captured once and replayed."""

from __future__ import annotations

import os
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from blu.errors import ArgumentError, UnsupportedError
from blu.runtime.arguments import count_error, overlapping
from blu.runtime.artifact import Artifact
from blu.runtime.cuda.array import Block, DeviceArray, to_device
from blu.runtime.cuda.code import code_of
from blu.runtime.cuda.driver import Driver, Kernel, default_driver
from blu.runtime.cuda.graphs import Graphs
from blu.runtime.cuda.inputs import Inputs, accept_result
from blu.runtime.cuda.maps import TensorMaps
from blu.runtime.cuda.ranges import are_shown, named_range
from blu.runtime.memory import address_of
from blu.runtime.plan import NOTHING_FOUND, Argument, GpuLaunch, Launch, Plan
from blu.runtime.program import read_constants
from blu.runtime.runnable import Runnable


class CudaProgram(Runnable):
    """An executable in a GPU's memory, with all that a run needs there: code, constants, arena, status.

    The first run launches kernel by kernel (the driver may load a kernel's code only then, which a capture cannot
    wait for), further ones replay a graph.

    Arguments may be arrays in host memory, which are copied, or on the GPU (Blu's, torch's, CuPy's), which are not.
    Results are arrays on the GPU. BLU_CUDA_GRAPH=0 launches kernels one by one, and BLU_CUDA_SYNC=1 waits for each, so
    that an error names the kernel.
    """

    def __init__(self, plan: Plan, artifact: Artifact, driver: Driver):
        constants = read_constants(artifact, plan)
        super().__init__(plan, constants.nbytes)
        self._driver = driver
        with driver.exclusively():
            self._arena = Block(driver, plan.arena_bytes, "the program's intermediate results")
            self._constants = Block(driver, constants.nbytes, "the program's constants")
            with driver.explained("load the program"):
                if constants.nbytes:
                    driver.copy_in(self._constants.address, address_of(constants), constants.nbytes)
                self._open_status()
            driver.synchronize()
            self._inputs = Inputs(driver, plan.inputs)
            self._maps = TensorMaps(driver, plan.tensor_maps)
            self._prepare([launch for launch in plan.launches if isinstance(launch, GpuLaunch)], artifact)
        self._waits = os.environ.get("BLU_CUDA_SYNC", "0") not in ("", "0")
        self.use_graphs = driver.has_graphs and not self._waits and os.environ.get("BLU_CUDA_GRAPH", "1") != "0"
        self._has_run = False
        self._graphs = Graphs(driver, self._kernels, self._before, self._after)

    @classmethod
    def load(cls, source: str | os.PathLike[str] | Mapping[str, bytes]) -> CudaProgram:
        """Load a `.blu` file, or its members by name. Damaged: CacheError. No GPU, or another: UnsupportedError."""
        return cls.of(Artifact.of(source) if isinstance(source, Mapping) else Artifact.open(source))

    @classmethod
    def of(cls, artifact: Artifact) -> CudaProgram:
        """Load an artifact that is open."""
        plan = Plan.parse(artifact.read("plan.json"))
        if any(isinstance(launch, Launch) for launch in plan.launches):
            raise UnsupportedError("the program is compiled for a CPU", advice="compile it with --target=cuda")
        return cls(plan, artifact, default_driver())

    def run(self, inputs: Sequence[Any], *, outputs: Sequence[Any] | None = None) -> list[DeviceArray]:
        """Run the program; returns an array on the GPU for each result.

        A donated argument on the GPU is overwritten, and returned as the result it became; in its place a copy is used
        where it comes from host memory, shares memory with another argument, or does not lie at a multiple of 16
        bytes. `outputs` may hold an array on the GPU (or None) for each result to write into.

        Where the program checks indices or divisors, this waits for the GPU and raises OutOfRangeError, or warns with
        RuntimeWarning, as on a CPU. Otherwise it returns while the GPU still works. Raises ArgumentError,
        OutOfMemoryError, DeviceError.
        """
        if len(inputs) != len(self.plan.inputs):
            raise count_error(self.plan.inputs, len(inputs))
        with self._driver.exclusively(), named_range(self.plan.entry):
            arrays, fresh = self._place(inputs, outputs)
            self._enqueue()
            found = self._read_status() if self.plan.checks else ()
        self._report(found)
        return self._in_order(arrays, fresh)

    def keep(self, arrays: Sequence[Any]) -> list[DeviceArray]:
        """These arrays in the GPU's memory."""
        return [to_device(array) for array in arrays]

    def time_launches(self, inputs: Sequence[Any], repeats: int = 10) -> list[tuple[str, str, float]]:
        """(kernel, the user's line, median microseconds) of each launch. Donated arguments change with every repeat."""
        if len(inputs) != len(self.plan.inputs):
            raise count_error(self.plan.inputs, len(inputs))
        driver, times = self._driver, [[] for _ in self._kernels]
        with driver.exclusively():
            arrays, fresh = self._place(inputs, None)
            with driver.explained("measure kernels"):
                self._before()
                timed = driver.timed(self._kernels, graph=self.use_graphs)
                for _ in range(repeats):
                    for measured, microseconds in zip(times, timed(), strict=True):
                        measured.append(microseconds)
            del arrays, fresh
        medians = map(statistics.median, times)
        return [(item.name, item.location, median) for item, median in zip(self._kernels, medians, strict=True)]

    def _place(self, inputs: Sequence[Any], outputs: Sequence[Any] | None) -> tuple[list[DeviceArray], list]:
        """Arguments and fresh results, and their addresses in the kernels' arguments."""
        given = {
            index: accept_result(self.plan.outputs[index], value, index)
            for index, value in self._results_given(outputs).items()
        }
        with self._driver.explained("copy the arguments to the GPU"):
            arrays = self._inputs.place(inputs)
        fresh = [given[index] if index in given else self._fresh_result(index) for index in self._fresh]
        self._key = tuple([array.address for array in arrays] + [array.address for array in fresh])
        if (self._donated or given) and not self._graphs.knows(self._key):
            self._separate(arrays, fresh, given)
        if self._key != self._placed_key:
            self._write_addresses()
        return arrays, fresh

    def _write_addresses(self) -> None:
        """Let the kernels' arguments, and tensor maps, show where this run's arrays are."""
        addresses = np.array(self._key, np.uint64)
        self._values[self._slots] = addresses[self._places] + self._offsets
        if self.plan.tensor_maps:
            with self._driver.explained("describe tensors to the copy engine"):
                self._maps.show(self._address)
        self._placed_key = self._key

    def _address(self, argument: Argument) -> int:
        """Where an argument's memory is in this run."""
        place = self._array_of.get((argument.space, argument.index))
        return self._static_address(argument) if place is None else self._key[place] + argument.offset

    def _separate(self, arrays: list[DeviceArray], fresh: list[DeviceArray], given: Mapping[int, Any]) -> None:
        """Let nothing that the program writes share memory with anything else."""
        written = [*self._donated, *(len(arrays) + self._fresh.index(index) for index in given)]
        starts = np.array(self._key, np.int64)
        sizes = np.array([array.nbytes for array in (*arrays, *fresh)], np.int64)
        shared = overlapping(written, starts, sizes)
        if shared and shared[-1] >= len(arrays):
            raise ArgumentError("an array for a result shares memory with an argument or another result")
        with self._driver.explained("copy the arguments"):
            for index in shared:
                arrays[index] = self._inputs.copy_of(index, arrays[index])
        self._key = tuple(array.address for array in (*arrays, *fresh))

    def _fresh_result(self, index: int) -> DeviceArray:
        spec = self.plan.outputs[index]
        return DeviceArray.empty(self._driver, spec.shape, spec.numpy_dtype, "a result")

    def _enqueue(self) -> None:
        """Start the program: as a graph, or launch by launch."""
        driver = self._driver
        if self.use_graphs and self._has_run and self._kernels and not are_shown():
            moved = self._values[self._slots]
            driver.replay(self._graphs.ready(self._key, moved, self._owners), self._kernels)
            return
        with driver.explained("start the program"):
            self._before()
        for kernel in self._kernels:
            with named_range(kernel.location or kernel.name):
                driver.run((kernel,))
                if self._waits:
                    driver.synchronize()
        with driver.explained("read the checks back"):
            self._after()
        self._has_run = True

    def _before(self) -> None:
        """Enqueue what comes before the kernels."""
        if self.plan.checks:
            self._driver.copy(self._status.address, self._clean.address, self._found.nbytes)

    def _after(self) -> None:
        """Enqueue what comes after them."""
        if self.plan.checks:
            self._driver.copy_out(address_of(self._found), self._status.address, self._found.nbytes)

    def _read_status(self) -> list[int]:
        self._driver.synchronize()
        return self._found.tolist()

    def _open_status(self) -> None:
        """The slots that kernels write to, the same slots when nothing is found, and where the host reads them."""
        nbytes = 8 * self.plan.status_slots
        self._status = Block(self._driver, nbytes, "the status block")
        self._clean = Block(self._driver, nbytes, "the status block")
        self._found = self._driver.pinned(max(nbytes, 8))[:nbytes].view(np.int64)
        self._found.fill(NOTHING_FOUND)
        if nbytes:
            self._driver.copy_in(self._clean.address, address_of(self._found), nbytes)

    def _prepare(self, launches: Sequence[GpuLaunch], artifact: Artifact) -> None:
        """Load the kernels' code, and lay out their arguments."""
        launches = [launch for launch in launches if all(launch.grid)]
        arguments = [argument for launch in launches for argument in launch.args]
        self._values = np.array([self._static_address(argument) for argument in arguments] or [0], np.uint64)
        self._pointers = address_of(self._values) + 8 * np.arange(len(self._values), dtype=np.uint64)
        functions = self._load_functions(launches, artifact)
        self._kernels, start, owners = [], 0, []
        for number, launch in enumerate(launches):
            end = start + len(launch.args)
            values, pointers = self._values[start:end], address_of(self._pointers) + 8 * start
            kernel = Kernel(launch.kernel, launch.location, functions[launch.kernel], launch.grid, launch.threads,
                            launch.shared_bytes, values, pointers)  # fmt: skip
            self._kernels.append(kernel)
            owners += [number] * len(launch.args)
            start = end
        self._lay_out_moves(arguments, np.array(owners, np.int64))

    def _load_functions(self, launches: Sequence[GpuLaunch], artifact: Artifact) -> dict[str, Any]:
        driver, functions = self._driver, {}
        shared = {launch.kernel: 0 for launch in launches}
        for launch in launches:
            shared[launch.kernel] = max(shared[launch.kernel], launch.shared_bytes)
        self._modules = []
        for name, shared_bytes in shared.items():
            code = code_of(artifact, name, driver.capability)
            with driver.explained(f"load the kernel {name!r}"):
                module = driver.load_module(code)
                functions[name] = driver.function(module, name, shared_bytes)
            self._modules.append(module)
        return functions

    def _lay_out_moves(self, arguments: Sequence[Argument], owners: np.ndarray) -> None:
        """A run's arrays are its arguments, then its fresh results: where the pointers into them are."""
        count = len(self.plan.inputs)
        places = {("output", index): count + place for place, index in enumerate(self._fresh)}
        places |= {("output", i): spec.input for i, spec in enumerate(self.plan.outputs) if spec.input is not None}
        places |= {("input", index): index for index in range(count)}
        self._array_of = places
        keys = [(argument.space, argument.index) for argument in arguments]
        slots = [slot for slot, key in enumerate(keys) if key in places]
        self._slots = np.array(slots, np.int64)
        self._places = np.array([places[keys[slot]] for slot in slots], np.int64)
        self._offsets = np.array([arguments[slot].offset for slot in slots], np.uint64)
        self._owners = owners[self._slots]
        self._key: tuple[int, ...] = ()
        self._placed_key: tuple[int, ...] | None = None

    def _static_address(self, argument: Argument) -> int:
        if argument.space == "constant":
            return self._constants.address + self.plan.constants[argument.index].offset + argument.offset
        if argument.space == "map":
            return self._maps.address + argument.offset
        bases = {"arena": self._arena, "status": self._status}
        return bases[argument.space].address + argument.offset if argument.space in bases else 0
