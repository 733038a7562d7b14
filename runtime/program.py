"""Loads an executable and runs it on this machine's CPU."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import repeat
from typing import Any

import numpy as np

from blu.errors import ArgumentError, CacheError, UnsupportedError
from blu.plan.contract import MEMBER
from blu.plan.host_launch import HostLaunch
from blu.plan.repeating import behind
from blu.plan.schema import NOTHING_FOUND, Argument, GpuLaunch, Launch, Plan
from blu.plan.timeline import Begin, Compute, LaunchRange, timeline
from blu.runtime.arguments import accept, accept_output, copy_of, count_error, overlapping
from blu.runtime.artifact import Artifact
from blu.runtime.collectives import Collectives
from blu.runtime.contracts import check_contracts
from blu.runtime.host import check_machine, load_object, run_exclusively
from blu.runtime.host_routines import compute_at, holds_at
from blu.runtime.memory import address_of, allocate, allocate_array
from blu.runtime.pool import ThreadPool
from blu.runtime.ranks.axes import axis_groups
from blu.runtime.ranks.group import RankGroup
from blu.runtime.runnable import Runnable

ROW_BYTES = 32
"""Of an entry of the launch table: the kernel, its arguments, blocks and chunk."""


class Program(Runnable):
    """An executable in memory. It owns all that a run needs: code, constants, arena, status and launch table.

    `run` may be called from several Python threads; programs run one after the other, each on all threads of the pool.
    """

    def __init__(self, plan: Plan, kernels: bytes, pool: bytes, constants: np.ndarray):
        super().__init__(plan, constants.nbytes)
        self._code, self._pool_code = load_object(kernels), load_object(pool)
        self._constants = constants
        self._arena = allocate(plan.arena_bytes, "the program's intermediate results")
        self._status = allocate_array((plan.status_slots,), np.dtype(np.int64), "the status block")
        self._build_table()
        self._moments = timeline(len(plan.launches), plan.collectives, list(self._computed))
        places = {moment.launch: place for place, moment in enumerate(self._moments) if isinstance(moment, Compute)}
        # Behind which moment a run goes on, by the number of the launch that reads a bool, and what that is.
        self._behind = behind(plan.partners(), places)
        # Nothing but kernels, one after the other: they need no more than one call of native code.
        self._is_plain = not (self._donated or plan.collectives or self._computed)
        self._request: tuple[ThreadPool, int, np.ndarray] | None = None

    @classmethod
    def load(cls, source: str | os.PathLike[str] | Mapping[str, bytes]) -> Program:
        """Load a `.blu` file, or its members by name. Damaged: CacheError. For another CPU: UnsupportedError."""
        return cls.of(Artifact.of(source) if isinstance(source, Mapping) else Artifact.open(source))

    @classmethod
    def of(cls, artifact: Artifact) -> Program:
        """Load an artifact that is open."""
        target = artifact.manifest.get("target")
        if isinstance(target, dict) and "triple" in target:
            check_machine(str(target.get("name", "")), str(target["triple"]))
        plan = Plan.parse(artifact.read("plan.json"))
        if any(isinstance(launch, GpuLaunch) for launch in plan.launches):
            raise UnsupportedError("the program is compiled for a GPU", advice="load it with blu.runtime.load_program")
        check_kernels(artifact, plan)
        constants = read_constants(artifact, plan)
        return cls(plan, artifact.read("kernels.o"), artifact.read("pool.o"), constants)

    def run(
        self, inputs: Sequence[Any], *, outputs: Sequence[np.ndarray | None] | None = None, overwrite: bool = False
    ) -> list[np.ndarray]:
        """Run the program; returns one array for each result.

        Arguments that are not contiguous, aligned and of the machine's byte order are copied first. A donated argument
        that is a `blu.Array` is gone afterwards, and its memory is that of the result it became. In place of an array
        of numpy's a copy becomes the result, but for `overwrite`: then the caller's array is overwritten and returned,
        unless it is read-only, shares memory with another argument or has to be copied for the reasons above.
        `outputs` may hold an array (or None) for each result to write into; the other results are fresh arrays.

        Raises ArgumentError, OutOfRangeError (an index out of range), OutOfMemoryError; warns with RuntimeWarning of an
        integer division by zero. After KeyboardInterrupt, donated arguments may be partly updated.
        """
        if len(inputs) != len(self.plan.inputs):
            raise count_error(self.plan.inputs, len(inputs))
        arrays = list(map(accept, self.plan.inputs, inputs, range(len(inputs)), repeat(overwrite)))
        given = {} if outputs is None else self._given(outputs)
        fresh = [given[index] if index in given else self._fresh_result(index) for index in self._fresh]
        if self._donated and not overwrite:
            self._take(inputs)
        found = run_exclusively(self._pool_code, lambda pool: self._run_on(pool, arrays, given, fresh))
        if found:
            self._report(found)
        return self._in_order(arrays, fresh)

    def _run_on(
        self, pool: ThreadPool, arrays: list[np.ndarray], given: dict[int, np.ndarray], fresh: list[np.ndarray]
    ) -> Sequence[int]:
        """Run the launch table; returns the status slots."""
        if self.plan.checks:
            self._status.fill(NOTHING_FOUND)
        if self._is_plain and not given:
            self._objects[:] = list(map(id, (*arrays, *fresh)))
            pool.begin(self._request_to(pool), self._table_at, len(self.plan.launches))
        else:
            self._run_in_pieces(pool, arrays, given, fresh)
        return self._status.tolist() if self.plan.checks else ()

    def _run_in_pieces(
        self, pool: ThreadPool, arrays: list[np.ndarray], given: dict[int, np.ndarray], fresh: list[np.ndarray]
    ) -> None:
        """Run the launch table, what is between kernels, and before them look where arguments lie."""
        self._place(pool, arrays, fresh)
        if (self._donated or given) and self._separate(arrays, given):
            self._place(pool, arrays, fresh)
        if self.plan.collectives:
            self._run_with_others(pool)
        elif self._computed:
            self._run_moments(pool)
        else:
            pool.run(self._table_at, len(self.plan.launches))

    @cached_property
    def _collectives(self) -> Collectives:
        """What other ranks take part in; they are joined in the first run."""
        return Collectives(self.plan.collectives, _groups_of(self.plan))

    def _run_with_others(self, pool: ThreadPool) -> None:
        """Run the launch table, and what other ranks take part in."""
        try:
            self._run_moments(pool)
        except BaseException:
            self._collectives.give_up()
            raise

    def _run_moments(self, pool: ThreadPool) -> None:
        """Run the launch table, and what is between kernels."""
        place = 0
        while place < len(self._moments):
            place, moment = place + 1, self._moments[place]
            if isinstance(moment, LaunchRange):
                pool.run(self._table_at + ROW_BYTES * moment.first, moment.last - moment.first)
            elif isinstance(moment, Compute):
                launch, first = self._computed[moment.launch]
                addresses = self._args[first:][: len(launch.args)].tolist()
                if launch.is_choice:
                    place = self._behind[moment.launch, holds_at(*addresses)]
                else:
                    compute_at(launch, addresses)
            elif isinstance(moment, Begin):
                source, target = self._args[self._exchanged + 2 * moment.collective :][:2].tolist()
                self._collectives.begin(moment.collective, source, target)
            else:
                self._collectives.finish(moment.collective)

    def _given(self, outputs: Sequence[np.ndarray | None] | None) -> dict[int, np.ndarray]:
        """The caller's arrays by the result's index."""
        given = self._results_given(outputs)
        return {index: accept_output(self.plan.outputs[index], array, index) for index, array in given.items()}

    def _separate(self, arrays: list[np.ndarray], given: dict[int, np.ndarray]) -> bool:
        """Let nothing that the program writes share memory with anything else; whether an argument had to be copied."""
        written = [*self._donated, *(len(arrays) + self._fresh.index(index) for index in given)]
        shared = overlapping(written, self._addresses, self._sizes)
        if shared and shared[-1] >= len(arrays):
            raise ArgumentError("an array for a result shares memory with an argument or another result")
        for index in shared:
            arrays[index] = copy_of(self.plan.inputs[index], arrays[index])
        return bool(shared)

    def _fresh_result(self, index: int) -> np.ndarray:
        spec = self.plan.outputs[index]
        return allocate_array(spec.shape, spec.numpy_dtype, "a result")

    def _build_table(self) -> None:
        """The launch table, the kernels' argument arrays, and the pointers in them that change from run to run."""
        launches = [launch for launch in self.plan.launches if isinstance(launch, Launch | HostLaunch)]
        arguments = [argument for launch in launches for argument in launch.args]
        # Behind these, of each collective where it reads and where it writes.
        self._exchanged = len(arguments)
        arguments += [place for item in self.plan.collectives for place in (item.source, item.target)]
        self._args = np.array([self._static_address(argument) for argument in arguments] or [0], np.int64)
        self._args_at, rows = address_of(self._args), []
        # What the host computes, by its number among the launches, with its first pointer's: it is no kernel.
        self._computed: dict[int, tuple[HostLaunch, int]] = {}
        first = 0
        for number, launch in enumerate(launches):
            if isinstance(launch, HostLaunch):
                self._computed[number] = launch, first
                rows.append((0, 0, 0, 1))
            else:
                entry = self._code.address(f"{launch.kernel}.entry")
                rows.append((entry, self._args_at + 8 * first, launch.blocks, launch.chunk))
            first += len(launch.args)
        self._table = np.array(rows or [(0, 0, 0, 1)], np.int64)
        self._table_at = address_of(self._table)
        self._build_moves(arguments)

    def _build_moves(self, arguments: Sequence[Argument]) -> None:
        """A run's arrays are its arguments, then its fresh results: (slot, array, offset) for each pointer into one."""
        count = len(self.plan.inputs)
        places = {("output", index): count + place for place, index in enumerate(self._fresh)}
        places |= {("output", i): spec.input for i, spec in enumerate(self.plan.outputs) if spec.input is not None}
        places |= {("input", index): index for index in range(count)}
        keys = [(argument.space, argument.index) for argument in arguments]
        rows = [(slot, places[key], arguments[slot].offset) for slot, key in enumerate(keys) if key in places]
        self._moves = np.array(rows, np.int64).reshape(-1, 3)
        self._moves_at = address_of(self._moves)
        specs = [*self.plan.inputs, *(self.plan.outputs[index] for index in self._fresh)]
        self._sizes = np.array([spec.nbytes for spec in specs], np.int64)
        self._addresses = np.zeros(len(specs), np.int64)
        self._addresses_at = address_of(self._addresses)
        self._objects = (ctypes.c_void_p * len(specs))()
        objects = ctypes.addressof(self._objects), len(specs)
        self._placing = (*objects, self._addresses_at, self._moves_at, len(self._moves), self._args_at)

    def _static_address(self, argument: Argument) -> int:
        if argument.space == "constant":
            return address_of(self._constants) + self.plan.constants[argument.index].offset + argument.offset
        bases = {"arena": self._arena, "status": self._status}
        return address_of(bases[argument.space]) + argument.offset if argument.space in bases else 0

    def _place(self, pool: ThreadPool, arrays: list[np.ndarray], fresh: list[np.ndarray]) -> None:
        """Write this run's addresses into the kernels' arguments."""
        self._objects[:] = list(map(id, (*arrays, *fresh)))
        pool.place(*self._placing)

    def _request_to(self, pool: ThreadPool) -> int:
        """The address of what a pool is asked for in a run."""
        if self._request is None or self._request[0] is not pool:
            request = pool.request(self._table_at, len(self.plan.launches), *self._placing)
            self._request = pool, address_of(request), request
        return self._request[1]


def _groups_of(plan: Plan) -> Mapping[str, RankGroup]:
    """The ranks that a program exchanges data with, which all of them join here."""
    from blu.runtime.ranks.team import agree_on_exchanges, team_of_process

    groups = axis_groups(plan.mesh, "mpi", lambda world: team_of_process("cpu").group)
    agree_on_exchanges(plan.entry, plan.collectives)
    return groups


def check_kernels(artifact: Artifact, plan: Plan) -> None:
    """CacheError where a plan gives its kernels other memory than they were compiled for."""
    if MEMBER in artifact.names():
        check_contracts(plan, artifact.read(MEMBER))


def read_constants(artifact: Artifact, plan: Plan) -> np.ndarray:
    """The bytes of all constants. CacheError where they are not what the plan says."""
    constants = allocate(artifact.size("constants.bin"), "the program's constants")
    if constants.nbytes:
        artifact.read_into("constants.bin", constants)
    for constant in plan.constants:
        if constant.offset + constant.nbytes > constants.nbytes:
            raise CacheError(f"damaged plan: a constant at {constant.offset} lies beyond constants.bin")
    return constants
