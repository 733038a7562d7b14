"""Tensor maps: what Hopper's copy engine is told of a tensor. The driver encodes them; kernels take their addresses."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from blu.plan.schema import MAP_BYTES, MAP_DTYPES, Argument, TensorMap
from blu.runtime.cuda.block import DeviceBlock
from blu.runtime.cuda.driver.driver import Driver

AddressOf = Callable[[Argument], int]


class TensorMaps:
    """The maps of a program in the GPU's memory. They are written again where a buffer that they show has moved."""

    def __init__(self, driver: Driver, maps: Sequence[TensorMap]):
        self._driver, self._maps = driver, maps
        self._block = DeviceBlock(driver, len(maps) * MAP_BYTES, "the program's tensor maps")
        self._encoded = np.zeros(len(maps) * MAP_BYTES, np.uint8)
        self._addresses: Sequence[int | None] = [None] * len(maps)

    @property
    def address(self) -> int:
        """Of the first map; the others follow it."""
        return self._block.address

    def show(self, address_of_argument: AddressOf) -> None:
        """Let the maps show buffers where they are now. Runs that have been enqueued see them as they were."""
        addresses = [address_of_argument(map_.buffer) + map_.offset * MAP_DTYPES[map_.dtype] for map_ in self._maps]
        if addresses == self._addresses:
            return
        encoded = self._encoded.reshape(-1, MAP_BYTES).copy()
        for index, (map_, address) in enumerate(zip(self._maps, addresses, strict=True)):
            if address != self._addresses[index]:
                encoded[index] = np.frombuffer(self._driver.encode_map(map_, address), np.uint8)
        self._driver.staging.copy_in(self._block.address, encoded)
        self._encoded, self._addresses = encoded, addresses
