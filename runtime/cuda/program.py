"""Loads an executable for a GPU and runs it: one arena, one stream (and one beside it for what ranks exchange), one
graph that is captured once and replayed."""

from __future__ import annotations

import os
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from blu import settings
from blu.errors import ArgumentError, UnsupportedError
from blu.plan.repeating import behind
from blu.plan.schema import Argument, GpuLaunch, Launch, Plan
from blu.plan.tensors import TensorSpec
from blu.runtime.arguments import count_error, overlapping
from blu.runtime.artifact import Artifact
from blu.runtime.cuda.array import DeviceArray, repeated, to_device
from blu.runtime.cuda.block import DeviceBlock
from blu.runtime.cuda.code import Functions, part_of
from blu.runtime.cuda.collectives import Collectives
from blu.runtime.cuda.driver.driver import Driver, default_driver
from blu.runtime.cuda.driver.launches import BoundChoice, BoundLaunch, Graph, let_overlap
from blu.runtime.cuda.findings import Checks
from blu.runtime.cuda.graphs import Graphs
from blu.runtime.cuda.host_calls import HostCalls
from blu.runtime.cuda.inputs import Inputs, accept_result
from blu.runtime.cuda.maps import TensorMaps
from blu.runtime.cuda.moving import MovingPointers
from blu.runtime.cuda.ranges import are_shown, named_range
from blu.runtime.cuda.rank_groups import gpu_groups, gpu_watch
from blu.runtime.cuda.tables import PointerTables
from blu.runtime.memory import address_of
from blu.runtime.program import check_kernels, read_constants
from blu.runtime.runnable import Runnable

_ON_DEVICE = (
    "_arena", "_constants", "_checks", "_inputs", "_maps", "_tables", "_functions", "_kernels", "_graphs", "_steps",
    "_collectives", "_calls",
)  # fmt: skip
"""What a program gives back when it is closed."""


class CudaProgram(Runnable):
    """An executable in a GPU's memory, with all that a run needs there: code, constants, arena, status.

    The first run launches kernel by kernel (the driver may load a kernel's code only then, which a capture cannot
    wait for), further ones replay a graph, unless there is but one kernel: that begins sooner alone. What ranks
    exchange is on a second stream until it is waited for, and in the graph as well; the ranks of a program load it in
    the same order as others.

    Where the host computes something in between, it waits for the GPU there, and there is no graph.

    Arguments may be arrays in host memory, which are copied, or on the GPU (Blu's, torch's, CuPy's), which are not.
    Results are arrays on the GPU. BLU_CUDA_GRAPH=0 launches kernels one by one, and BLU_CUDA_SYNC=1 waits for each, so
    that an error names the kernel.

    What a program has on the GPU is given back when it is closed (it is a context manager) or nothing refers to it.
    """

    def __init__(self, plan: Plan, artifact: Artifact, driver: Driver):
        constants = read_constants(artifact, plan)
        super().__init__(plan, constants.nbytes)
        self._driver = driver
        with driver.exclusively():
            self._arena = DeviceBlock(driver, plan.arena_bytes, "the program's intermediate results")
            self._constants = DeviceBlock(driver, constants.nbytes, "the program's constants")
            with driver.explained("load the program"):
                if constants.nbytes:
                    driver.copy_in(self._constants.address, address_of(constants), constants.nbytes)
                self._checks = Checks(driver, plan)
            driver.synchronize()
            self._inputs = Inputs(driver, plan.inputs)
            self._maps = TensorMaps(driver, plan.tensor_maps)
            self._tables = PointerTables(driver, plan.tables)
            groups = gpu_groups(plan) if plan.collectives else {}
            self._collectives = Collectives(driver, plan, groups, gpu_watch() if groups else None)
            self._calls = HostCalls(driver, plan.launches)
            launches = {place: item for place, item in enumerate(plan.launches) if isinstance(item, GpuLaunch)}
            kernels = {place: launch for place, launch in launches.items() if all(launch.grid)}
            self._prepare(list(kernels.values()), artifact)
        asked = settings.current()
        self._waits = asked.cuda_sync
        launched = {**dict(zip(kernels, self._kernels, strict=True)), **self._calls.steps()}
        self._steps = [*self._collectives.steps(launched, in_turn=self._waits), *self._checks.steps]
        places = {step.number: place for place, step in enumerate(self._steps) if isinstance(step, BoundChoice)}
        self._behind = behind(plan.partners(), places)
        let_overlap(self._steps, asked.cuda_overlap and not self._waits)
        self._is_captured = driver.has_graphs and not (self._waits or self._calls) and asked.cuda_graph
        self.use_graphs = self._is_captured and len(self._steps) > 1
        self._has_run = self._is_closed = False
        self._graphs = Graphs(driver, self._steps, self._checks.clear)

    @classmethod
    def load(cls, source: str | os.PathLike[str] | Mapping[str, bytes]) -> CudaProgram:
        """Load a `.blu` file, or its members by name. Damaged: CacheError. No GPU, or another: UnsupportedError."""
        return cls.of(Artifact.of(source) if isinstance(source, Mapping) else Artifact.open(source))

    @classmethod
    def of(cls, artifact: Artifact) -> CudaProgram:
        """Load an artifact that is open."""
        driver = default_driver()
        artifact = part_of(artifact, driver.capability)
        plan = Plan.parse(artifact.read("plan.json"))
        if any(isinstance(launch, Launch) for launch in plan.launches):
            raise UnsupportedError("the program is compiled for a CPU", advice="compile it with --target=cuda")
        check_kernels(artifact, plan)
        return cls(plan, artifact, driver)

    def run(
        self, inputs: Sequence[Any], *, outputs: Sequence[Any] | None = None, overwrite: bool = False
    ) -> list[DeviceArray]:
        """Run the program; returns an array on the GPU for each result.

        A donated argument on the GPU is overwritten: the result it became has its memory, and a `blu.Array` is gone
        afterwards; with `overwrite` it is that result itself. A copy is used where it comes from host memory, shares
        memory with another argument, or does not lie at a multiple of 16 bytes. `outputs` may hold an array on the GPU
        (or None) for each result to write into.

        This returns while the GPU still works. What the program's checks find (an index out of range raises
        OutOfRangeError, a division by zero warns) is known later: it is raised by the first later run, reading of any
        array, or `close` after the GPU got there, once, and names the run. With BLU_CUDA_SYNC=1 it is raised here.

        Raises ArgumentError, OutOfMemoryError, DeviceError, and OutOfRangeError of an earlier run; then nothing is run.
        """
        self._check_call(inputs)
        driver = self._driver
        with driver.exclusively(), named_range(self.plan.entry):
            driver.findings.read()
            self._collectives.check()
            arrays, fresh = self._place(inputs, outputs)
            if not overwrite:
                self._take_over(arrays, inputs)
            self._enqueue()
            if self._waits:
                driver.finish()
        return self._in_order(arrays, fresh)

    def close(self) -> None:
        """Wait for the GPU, and give back what the program has there; results stay. Raises what runs have found."""
        if self._is_closed:
            return
        driver, self._is_closed = self._driver, True
        with driver.exclusively():
            try:
                driver.finish()
            finally:
                for name in _ON_DEVICE:
                    delattr(self, name)
            driver.release_discarded()
            driver.pool.release_kept()

    def keep(self, arrays: Sequence[Any]) -> list[DeviceArray]:
        """These arrays in the GPU's memory."""
        return [to_device(array) for array in arrays]

    def filled(self, spec: TensorSpec, values: np.ndarray) -> DeviceArray:
        """An argument that holds these values over and over, copied on the GPU."""
        return repeated(values, spec.shape)

    def time_launches(self, inputs: Sequence[Any], repeats: int = 10) -> list[tuple[str, str, float]]:
        """(kernel, the user's line, median microseconds) of each launch. Donated arguments change with every repeat.

        What ranks exchange is left out: kernels read whatever is where that would be.
        """
        self._check_call(inputs)
        driver, times = self._driver, [[] for _ in self._kernels]
        with driver.exclusively():
            arrays, fresh = self._place(inputs, None)
            self._write_addresses()
            with driver.explained("measure kernels"):
                timed = driver.timed(self._kernels, graph=self._is_captured)
                for _ in range(repeats):
                    for measured, microseconds in zip(times, timed(), strict=True):
                        measured.append(microseconds)
                self._checks.forget()
            del arrays, fresh
        pairs = zip(self._kernels, times, strict=True)
        return [(kernel.name, kernel.location, statistics.median(measured)) for kernel, measured in pairs]

    def _take_over(self, arrays: list[DeviceArray], inputs: Sequence[Any]) -> None:
        """Let the results that donated arguments become be arrays of their own, and the arguments be gone."""
        for index in self._donated:
            if arrays[index] is inputs[index]:
                arrays[index] = arrays[index].moved()
        self._take(inputs)

    def _check_call(self, inputs: Sequence[Any]) -> None:
        if self._is_closed:
            raise ArgumentError("the program is closed", advice="load it again")
        if len(inputs) != len(self.plan.inputs):
            raise count_error(self.plan.inputs, len(inputs))

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
        if self._key != self._shown_key:
            self._show()
        return arrays, fresh

    def _show(self) -> None:
        """Let what kernels read beside their arguments say where this run's arrays are."""
        if self.plan.tensor_maps:
            with self._driver.explained("describe tensors to the copy engine"):
                self._maps.show(self._address)
        if self.plan.tables:
            with self._driver.explained("copy addresses to the GPU"):
                self._tables.show(np.array(self._key, np.uint64))
        with self._driver.explained("copy addresses to the GPU"):
            self._driver.staging.finish()
        self._shown_key = self._key

    def _write_addresses(self) -> None:
        """Let the kernels' arguments say where this run's arrays are."""
        if self._key != self._placed_key:
            addresses = np.array(self._key, np.uint64)
            self._values[self._moving.slots] = self._moving.at(addresses)
            self._collectives.show(addresses)
            self._calls.show(addresses)
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
        """Start the program, and the reading of its checks."""
        self._collectives.tell()
        if self.use_graphs and self._has_run and self._steps and not are_shown():
            self._driver.replay(self._graph(), self._steps)
        else:
            self._launch_all()
        with self._driver.explained("read the checks back"):
            self._checks.collect()

    def _graph(self) -> Graph:
        """The graph for this run's arrays."""
        graph = self._graphs.known(self._key)
        if graph is None:
            self._write_addresses()
            values, exchanged = self._values[self._moving.slots], self._collectives.addresses
            with self._collectives.given_up_on_failure():
                graph = self._graphs.made(self._key, values, self._owners, exchanged)
        return graph

    def _launch_all(self) -> None:
        """Start the program launch by launch."""
        self._write_addresses()
        with self._driver.explained("start the program"):
            self._checks.clear()
        with self._collectives.given_up_on_failure():
            place = 0
            while place < len(self._steps):
                place, step = place + 1, self._steps[place]
                if isinstance(step, BoundChoice):
                    place = self._behind[step.number, step.holds()]
                    continue
                with named_range(step.location or step.name):
                    self._driver.run((step,))
                    if self._waits:
                        self._driver.synchronize()
        self._has_run = True

    def _prepare(self, launches: Sequence[GpuLaunch], artifact: Artifact) -> None:
        """Load the kernels' code, and lay out their arguments."""
        arguments = [argument for launch in launches for argument in launch.args]
        self._values = np.array([self._static_address(argument) for argument in arguments] or [0], np.uint64)
        self._pointers = address_of(self._values) + 8 * np.arange(len(self._values), dtype=np.uint64)
        self._functions = Functions(self._driver, launches, artifact)
        self._kernels, start, owners = [], 0, []
        for number, launch in enumerate(launches):
            end = start + len(launch.args)
            values, pointers = self._values[start:end], address_of(self._pointers) + 8 * start
            function = self._functions[launch.kernel]
            sizes = launch.grid, launch.threads, launch.shared_bytes
            kernel = BoundLaunch(launch.kernel, launch.location, function, *sizes, values, pointers, launch.early)
            self._kernels.append(kernel)
            owners += [number] * len(launch.args)
            start = end
        self._lay_out_moves(arguments, np.array(owners, np.int64))

    def _lay_out_moves(self, arguments: Sequence[Argument], owners: np.ndarray) -> None:
        """A run's arrays are its arguments, then its fresh results: where the pointers into them are."""
        count = len(self.plan.inputs)
        places = {("output", index): count + place for place, index in enumerate(self._fresh)}
        places |= {("output", i): spec.input for i, spec in enumerate(self.plan.outputs) if spec.input is not None}
        places |= {("input", index): index for index in range(count)}
        self._array_of = places
        self._tables.lay_out(places, self._static_address)
        self._collectives.lay_out(places, self._static_address)
        self._calls.lay_out(places, self._static_address)
        self._moving = MovingPointers.among(arguments, places)
        self._owners = owners[self._moving.slots]
        self._key: tuple[int, ...] = ()
        self._placed_key: tuple[int, ...] | None = None
        self._shown_key: tuple[int, ...] | None = None

    def _static_address(self, argument: Argument) -> int:
        if argument.space == "constant":
            return self._constants.address + self.plan.constants[argument.index].offset + argument.offset
        if argument.space == "map":
            return self._maps.address + argument.offset
        if argument.space == "table":
            return self._tables.address(argument.index) + argument.offset
        bases = {"arena": self._arena, "status": self._checks}
        return bases[argument.space].address + argument.offset if argument.space in bases else 0
