"""What loaded programs have in common, on whatever they run: arguments, results, memory, checks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np

from blu.errors import ArgumentError, MatrixError, OutOfRangeError, calling_line, warn
from blu.plan.schema import NOTHING_FOUND, Check, Plan
from blu.plan.tensors import TensorSpec
from blu.runtime.array import Array


class Runnable:
    """An executable in memory: `inputs` are what `run` takes, `outputs` what it returns."""

    def __init__(self, plan: Plan, constant_bytes: int):
        self.plan = plan
        self.name = plan.entry
        """The function's name, for messages."""
        self._constant_bytes = constant_bytes
        self._fresh = [index for index, spec in enumerate(plan.outputs) if spec.input is None]
        self._donated = [index for index, spec in enumerate(plan.inputs) if spec.donated]
        # Where each result is among a run's arguments and fresh arrays, which follow them.
        fresh = {output: len(plan.inputs) + place for place, output in enumerate(self._fresh)}
        self._places_of_results = [
            fresh[index] if spec.input is None else spec.input for index, spec in enumerate(plan.outputs)
        ]

    def run(self, inputs: Sequence[Any], *, outputs: Sequence[Any] | None = None, overwrite: bool = False) -> list[Any]:
        """Run the program; one array for each result. `outputs` may hold an array (or None) to write each into.

        A donated argument that is a `blu.Array` is gone afterwards: its memory is that of the result. In place of one
        that is numpy's, a copy is used. With `overwrite` neither happens: the caller's arrays hold the results.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Give back what the program holds on a GPU, where it cannot run any more; on a CPU nothing happens."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def keep(self, arrays: Sequence[Any]) -> list[Any]:
        """These arrays where the program reads them without another copy in every run."""
        return list(arrays)

    def filled(self, spec: TensorSpec, values: np.ndarray) -> Any:
        """An argument that holds these values (one dimension, its dtype) over and over, where the program reads it."""
        return np.resize(values, spec.shape)

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
        return self.plan.arena_bytes + self._constant_bytes + sum(spec.nbytes for spec in self.inputs) + results

    def summary(self) -> str:
        """One line: arguments, results, launches, memory."""
        kernels = len({launch.kernel for launch in self.plan.launches})
        return (
            f"{type(self).__name__}({self.plan.entry}: {len(self.inputs)} arguments, {len(self.outputs)} results, "
            f"{len(self.plan.launches)} launches of {kernels} kernels, arena {self.plan.arena_bytes} bytes, "
            f"peak {self.peak_bytes} bytes)"
        )

    __repr__ = summary

    def _take(self, arguments: Sequence[Any]) -> None:
        """Donated arrays of ours are the program's from here on."""
        taken = {id(arguments[index]): arguments[index] for index in self._donated}
        arrays = [value for value in taken.values() if isinstance(value, Array)]
        if arrays:
            taker = f"{self.name} ({calling_line()})"
            for array in arrays:
                array.give_away(taker)

    def _results_given(self, outputs: Sequence[Any] | None) -> dict[int, Any]:
        """The caller's arrays for results, by the result's index."""
        if outputs is None:
            return {}
        if len(outputs) != len(self.plan.outputs):
            raise ArgumentError(f"the program has {len(self.plan.outputs)} results, {len(outputs)} arrays were given")
        given = {index: array for index, array in enumerate(outputs) if array is not None}
        for index in given:
            source = self.plan.outputs[index].input
            if source is not None:
                raise ArgumentError(f"result {index} is the donated argument {source}: pass None")
        return given

    def _in_order(self, arguments: Sequence[Any], fresh: list[Any]) -> list[Any]:
        """The results in the plan's order: donated arguments and fresh arrays."""
        arrays = [*arguments, *fresh]
        return [arrays[place] for place in self._places_of_results]

    def _report(self, found: Iterable[int]) -> None:
        """Say what kernels wrote to the status slots: an index out of range raises, a division by zero warns."""
        for check, value in zip(self.plan.checks, found, strict=False):
            if value != NOTHING_FOUND:
                report(check, value)


_MATRICES = {
    "singular": "is singular",
    "indefinite": "is not positive definite",
    "diverging": "is not finite, or has singular or eigenvalues that do not converge",
}
"""What is wrong with a matrix, by kinds of checks."""


def _matrix_error(check: Check, value: int, run: str) -> MatrixError:
    which = "the matrix" if check.size == 1 else f"matrix {value - 1} of {check.size}"
    when = f" ({run})" if run else ""
    return MatrixError(f"{check.op}: {which} {_MATRICES[check.kind]}{when}", location=check.location or None)


def report(check: Check, value: int, run: str = "") -> None:
    """Raise or warn about the value that a check has found; `run` names a run that is reported later."""
    if check.kind in _MATRICES:
        raise _matrix_error(check, value, run)
    if check.kind != "divide":
        lowest = -check.size if check.kind == "index" else 0
        when = f" ({run})" if run else ""
        if " " in check.op:  # a sentence on how many there may be
            advice = "Say a larger size." if "size=" in check.op else ""
            raise OutOfRangeError(f"{check.op}: {value}{when}", location=check.location or None, advice=advice)
        raise OutOfRangeError(
            f"{check.op}: index {value} is out of range for a dimension of size {check.size}{when}",
            location=check.location or None,
            advice=f"valid indices are from {lowest} to {check.size - 1}" if check.size else "the dimension is empty",
        )
    where = f" ({check.location})" if check.location else ""
    warn(f"integer division by zero in {check.op}{where} gives 0", RuntimeWarning)
