"""What the host computes between a program's kernels: it waits for the GPU, and copies operands and results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from blu.plan.arguments import Argument
from blu.plan.host_launch import HostLaunch
from blu.plan.schema import Step as PlannedStep
from blu.runtime.cuda.driver.driver import Driver
from blu.runtime.cuda.driver.launches import BoundCall, BoundChoice
from blu.runtime.cuda.moving import MovingPointers
from blu.runtime.host_routines import compute
from blu.runtime.memory import address_of


class HostCalls:
    """The steps of a program that are no kernels of the GPU, by their numbers among its launches."""

    def __init__(self, driver: Driver, launches: Sequence[PlannedStep]):
        self._driver = driver
        self._launches = {place: launch for place, launch in enumerate(launches) if isinstance(launch, HostLaunch)}
        self._arguments = [argument for launch in self._launches.values() for argument in launch.args]

    def __bool__(self) -> bool:
        return bool(self._launches)

    def lay_out(self, numbers: Mapping[tuple[str, int], int], static_address: Callable[[Argument], int]) -> None:
        """Say what memory changes from run to run: `numbers` are those of a run's arrays, by space and index."""
        self._moving = MovingPointers.among(self._arguments, numbers)
        self._values = np.array([static_address(argument) for argument in self._arguments], np.uint64)

    def show(self, addresses: np.ndarray) -> None:
        """Compute on a run's arrays where they are now."""
        self._values[self._moving.slots] = self._moving.at(addresses)

    def steps(self) -> dict[int, BoundCall | BoundChoice]:
        """What is done in the place of each."""
        found: dict[int, BoundCall | BoundChoice] = {}
        first = 0
        for place, launch in self._launches.items():
            name, where = launch.kernel, launch.location
            if launch.is_choice:
                found[place] = BoundChoice(name, where, place, lambda at=first: self._holds(at))
            else:
                found[place] = BoundCall(name, where, lambda item=launch, at=first: self._run(item, at))
            first += len(launch.args)
        return found

    def _holds(self, first: int) -> bool:
        """The bool at an argument."""
        value = np.empty((), np.bool_)
        self._driver.copy_out(address_of(value), int(self._values[first]), value.nbytes)
        self._driver.synchronize()
        return bool(value)

    def _run(self, launch: HostLaunch, first: int) -> None:
        addresses = self._values[first : first + len(launch.args)].tolist()
        count = len(launch.operands)
        operands = [np.empty(item.shape, item.numpy_dtype) for item in launch.operands]
        for array, address in zip(operands, addresses[:count], strict=True):
            if array.nbytes:
                self._driver.copy_out(address_of(array), address, array.nbytes)
        self._driver.synchronize()
        for value, address in zip(compute(launch, operands), addresses[count:], strict=True):
            array = np.ascontiguousarray(value)
            if array.nbytes:  # ordinary memory is read before this returns
                self._driver.copy_in(address, address_of(array), array.nbytes)
