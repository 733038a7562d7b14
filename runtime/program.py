"""Loads an executable and runs it on this machine's CPU."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from blu.errors import ArgumentError, CacheError, OutOfRangeError
from blu.runtime.arguments import accept, accept_output, copy_of, count_error, overlapping
from blu.runtime.artifact import Artifact
from blu.runtime.host import check_machine, exclusive_pool, load_object
from blu.runtime.memory import address_of, allocate, allocate_array
from blu.runtime.plan import Argument, Check, Plan, TensorSpec

_STATUS_GROUP = 4


class Program:
    """An executable in memory. It owns all that a run needs: code, constants, arena, status and launch table.

    `run` may be called from several Python threads; programs run one after the other, each on all threads of the pool.
    """

    def __init__(self, plan: Plan, kernels: bytes, pool: bytes, constants: np.ndarray):
        self.plan = plan
        self._code, self._pool_code = load_object(kernels), load_object(pool)
        self._constants = constants
        self._arena = allocate(plan.arena_bytes, "the program's intermediate results")
        slots = max(plan.status_slots, 2 * _STATUS_GROUP)
        self._status = allocate_array((slots,), np.dtype(np.int64), "the status block")
        self._build_table()
        self._fresh = [index for index, spec in enumerate(plan.outputs) if spec.input is None]
        self._donated = [index for index, spec in enumerate(plan.inputs) if spec.donated]

    @classmethod
    def load(cls, source: str | os.PathLike[str] | Mapping[str, bytes]) -> Program:
        """Load a `.blu` file, or its members by name. Damaged: CacheError. For another CPU: UnsupportedError."""
        artifact = Artifact.of(source) if isinstance(source, Mapping) else Artifact.open(source)
        target = artifact.manifest.get("target")
        if isinstance(target, dict) and "triple" in target:
            check_machine(str(target.get("name", "")), str(target["triple"]))
        plan = Plan.parse(artifact.read("plan.json"))
        constants = allocate(artifact.size("constants.bin"), "the program's constants")
        if constants.nbytes:
            artifact.read_into("constants.bin", constants)
        for constant in plan.constants:
            if constant.offset + constant.nbytes > constants.nbytes:
                raise CacheError(f"damaged plan: a constant at {constant.offset} lies beyond constants.bin")
        return cls(plan, artifact.read("kernels.o"), artifact.read("pool.o"), constants)

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """What `run` takes."""
        return self.plan.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """What `run` returns."""
        return self.plan.outputs

    @property
    def peak_bytes(self) -> int:
        """Bytes in use during a run: arena, constants, arguments and results."""
        results = sum(self.outputs[index].nbytes for index in self._fresh)
        return self.plan.arena_bytes + self._constants.nbytes + sum(spec.nbytes for spec in self.inputs) + results

    def summary(self) -> str:
        """One line: arguments, results, launches, memory."""
        kernels = len({launch.kernel for launch in self.plan.launches})
        return (
            f"Program({self.plan.entry}: {len(self.inputs)} arguments, {len(self.outputs)} results, "
            f"{len(self.plan.launches)} launches of {kernels} kernels, arena {self.plan.arena_bytes} bytes, "
            f"peak {self.peak_bytes} bytes)"
        )

    __repr__ = summary

    def run(self, inputs: Sequence[Any], *, outputs: Sequence[np.ndarray | None] | None = None) -> list[np.ndarray]:
        """Run the program; returns one array for each result.

        Arguments that are not contiguous, aligned and of the machine's byte order are copied first. A donated argument
        is overwritten and returned as the result it became; where it was read-only, shared memory with another
        argument or had to be copied for the reasons above, the result is the copy. `outputs` may hold an array (or
        None) for each result to write into; the other results are fresh arrays.

        Raises ArgumentError, OutOfRangeError (an index out of range), OutOfMemoryError; warns with RuntimeWarning of an
        integer division by zero. After KeyboardInterrupt, donated arguments may be partly updated.
        """
        if len(inputs) != len(self.plan.inputs):
            raise count_error(self.plan.inputs, len(inputs))
        arrays = list(map(accept, self.plan.inputs, inputs, range(len(inputs))))
        given = self._given(outputs)
        if self._donated or given:
            self._separate(arrays, given)
        results = [self._result(index, arrays, given) for index in range(len(self.plan.outputs))]
        with exclusive_pool(self._pool_code) as pool:
            self._place(arrays, results)
            self._status.fill(0)
            pool.run(self._table_at, len(self.plan.launches))
            status = self._status.tolist() if self.plan.checks else ()
        if any(status):
            self._report(status)
        return results

    def _given(self, outputs: Sequence[np.ndarray | None] | None) -> dict[int, np.ndarray]:
        """The caller's arrays by the result's index."""
        if outputs is None:
            return {}
        if len(outputs) != len(self.plan.outputs):
            raise ArgumentError(f"the program has {len(self.plan.outputs)} results, {len(outputs)} arrays were given")
        given = {index: array for index, array in enumerate(outputs) if array is not None}
        for index in given:
            source = self.plan.outputs[index].input
            if source is not None:
                raise ArgumentError(f"result {index} is the donated argument {source}: pass None")
        return {index: accept_output(self.plan.outputs[index], array, index) for index, array in given.items()}

    def _separate(self, arrays: list[np.ndarray], given: dict[int, np.ndarray]) -> None:
        """Let nothing that the program writes share memory with anything else."""
        for index in overlapping(self._donated, arrays):
            arrays[index] = copy_of(self.plan.inputs[index], arrays[index])
        if given:
            everything = [*arrays, *given.values()]
            if overlapping(range(len(arrays), len(everything)), everything):
                raise ArgumentError("an array for a result shares memory with an argument or another result")

    def _result(self, index: int, arrays: list[np.ndarray], given: dict[int, np.ndarray]) -> np.ndarray:
        spec = self.plan.outputs[index]
        if spec.input is not None:
            return arrays[spec.input]
        return given[index] if index in given else allocate_array(spec.shape, spec.numpy_dtype, f"result {index}")

    def _build_table(self) -> None:
        """The launch table and the kernels' argument arrays; pointers that change from run to run are listed."""
        launches = self.plan.launches
        arguments = [argument for launch in launches for argument in launch.args]
        self._args = np.array([self._static_address(argument) for argument in arguments] or [0], np.int64)
        at, rows = address_of(self._args), []
        for launch in launches:
            rows.append((self._code.address(f"{launch.kernel}.entry"), at, launch.blocks, launch.chunk))
            at += 8 * len(launch.args)
        self._table = np.array(rows or [(0, 0, 0, 1)], np.int64)
        self._table_at = address_of(self._table)
        first = {"input": 0, "output": len(self.plan.inputs)}
        moving = [(slot, arg) for slot, arg in enumerate(arguments) if arg.space in first]
        self._slots = np.array([slot for slot, _ in moving], np.int64)
        self._sources = np.array([first[arg.space] + arg.index for _, arg in moving], np.int64)
        self._offsets = np.array([arg.offset for _, arg in moving], np.int64)

    def _static_address(self, argument: Argument) -> int:
        if argument.space == "constant":
            return address_of(self._constants) + self.plan.constants[argument.index].offset + argument.offset
        bases = {"arena": self._arena, "status": self._status}
        return address_of(bases[argument.space]) + argument.offset if argument.space in bases else 0

    def _place(self, arrays: list[np.ndarray], results: list[np.ndarray]) -> None:
        """Write this run's addresses into the kernels' arguments."""
        if len(self._slots):
            addresses = np.array([address_of(array) for array in (*arrays, *results)], np.int64)
            self._args[self._slots] = addresses[self._sources] + self._offsets

    def _report(self, status: Sequence[int]) -> None:
        """Say what kernels found: an index out of range raises, a division by zero warns."""
        for group in (status[:_STATUS_GROUP], status[_STATUS_GROUP : 2 * _STATUS_GROUP]):
            if not 1 <= group[0] <= len(self.plan.checks):
                continue
            check = self.plan.checks[group[0] - 1]
            if check.kind == "index":
                raise _out_of_range(check, *group[1:])
            where = f" ({check.location})" if check.location else ""
            warnings.warn(f"integer division by zero in {check.op}{where}", RuntimeWarning, stacklevel=3)


def _out_of_range(check: Check, index: int, size: int, position: int) -> OutOfRangeError:
    return OutOfRangeError(
        f"{check.op}: index {index} (number {position} of the indices) is out of range for a dimension of size {size}",
        location=check.location or None,
        advice=f"valid indices are from {-size} to {size - 1}" if size else "the dimension is empty",
    )
