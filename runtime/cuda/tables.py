"""Tables of pointers in the GPU's memory: the arguments of launches that do the work of many calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from blu.plan.schema import POINTER_BYTES, Argument
from blu.runtime.cuda.block import DeviceBlock
from blu.runtime.cuda.driver.driver import Driver
from blu.runtime.cuda.moving import MovingPointers

Tables = Sequence[Sequence[Argument]]


class PointerTables:
    """The tables of a program, one after the other. They are written again where an array that they show has moved."""

    def __init__(self, driver: Driver, tables: Tables):
        self._driver = driver
        self._arguments = [argument for table in tables for argument in table]
        self._starts = [0, *np.cumsum([len(table) for table in tables]).tolist()]
        self._block = DeviceBlock(driver, len(self._arguments) * POINTER_BYTES, "the program's tables of pointers")
        self._is_written = False

    def address(self, number: int) -> int:
        """Of a table."""
        return self._block.address + self._starts[number] * POINTER_BYTES

    def lay_out(self, numbers: Mapping[tuple[str, int], int], static_address: Callable[[Argument], int]) -> None:
        """Say where the pointers are that change from run to run: `numbers` are those of a run's arrays."""
        self._moving = MovingPointers.among(self._arguments, numbers)
        self._values = np.array([static_address(argument) for argument in self._arguments], np.uint64)

    def show(self, addresses: np.ndarray) -> None:
        """Let the tables show a run's arrays where they are now. Runs that have been enqueued see them as they were."""
        moved = self._moving.at(addresses)
        if self._is_written and np.array_equal(moved, self._values[self._moving.slots]):
            return
        values = self._values.copy()
        values[self._moving.slots] = moved
        self._driver.staging.copy_in(self._block.address, values)
        self._values, self._is_written = values, True
