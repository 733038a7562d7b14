"""PyTorch's tensors as arguments, without a DLPack capsule for each, which takes the host 15 microseconds, and 40 where
PyTorch works on a stream of its own.

It is enough to look at where they lie. Blu's stream waits for the legacy default one by itself; for another one on
which PyTorch works it waits once a run, behind what is enqueued there. Blu does not import torch: whoever passes its
tensors has done so.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from blu.runtime.cuda.array import ALIGNMENT, DeviceArray, Kind
from blu.runtime.cuda.driver.driver import Driver


def _torch_in_use() -> Any:
    """The module torch, if the process uses it on a GPU."""
    torch = sys.modules.get("torch")
    return None if torch is None or not torch.cuda.is_initialized() else torch


def _current_stream(torch: Any, device: int) -> int:
    """The handle of PyTorch's current stream: by the function that its own compiled code calls, where there is one,
    since the public one makes an object, which takes the host ten times as long."""
    known = getattr(getattr(torch, "_C", None), "_cuda_getCurrentRawStream", None)
    return torch.cuda.current_stream(device).cuda_stream if known is None else known(device)


class TorchTensors:
    """Reads tensors for the arguments of a program on the driver's GPU."""

    def __init__(self, driver: Driver, kinds: Sequence[Kind]):
        self._driver = driver
        self._kinds = kinds
        self._dtypes: list[Any] = []

    def read(self, values: Sequence[Any], placed: list[DeviceArray | None]) -> None:
        """Put arrays in the place of those tensors of `values`, which have none in `placed`, that are all that their
        arguments must be. Others are left to DLPack, and its errors."""
        torch = _torch_in_use()
        if torch is None:
            return
        stream = _current_stream(torch, self._driver.number)
        must_wait = stream not in (0, self._driver.stream)
        if must_wait and not self._driver.has_graphs:
            return  # without cuda-bindings no event is recorded on another library's stream
        if not self._dtypes:
            self._dtypes = [getattr(torch, dtype.name, None) for _, dtype in self._kinds]
        if self._borrow(torch.Tensor, values, placed) and must_wait:
            self._driver.wait_for(stream)

    def _borrow(self, tensor_type: type, values: Sequence[Any], placed: list[DeviceArray | None]) -> bool:
        """Whether there is any such tensor. All in one loop: calls of functions would take as long as it does."""
        number, of_kind, found = self._driver.number, DeviceArray.of_kind, False
        for index, (value, kind, dtype) in enumerate(zip(values, self._kinds, self._dtypes, strict=True)):
            if (
                type(value) is tensor_type
                and value.dtype is dtype
                and value.shape == kind[0]
                and value.is_cuda
                and value.get_device() == number
                and value.is_contiguous()
                and not value.requires_grad
                and not value.is_neg()
                and not (address := value.data_ptr()) % ALIGNMENT
            ):
                placed[index], found = of_kind(address, kind, value), True
        return found
