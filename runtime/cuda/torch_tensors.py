"""PyTorch's tensors as arguments, without a DLPack capsule for each, which takes the host 15 microseconds.

It is enough to look at where they lie as long as PyTorch works on the legacy default stream: Blu's stream waits for
that one by itself. Blu does not import torch: whoever passes its tensors has done so.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from blu.plan.tensors import TensorSpec
from blu.runtime.cuda.array import ALIGNMENT, DeviceArray


def torch_on_default_stream(device: int) -> Any:
    """The module torch, if the process uses it on a GPU and its current stream there is the legacy default one."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized() or _current_stream(torch, device):
        return None
    return torch


def _current_stream(torch: Any, device: int) -> int:
    """The handle of PyTorch's current stream: by the function that its own compiled code calls, where there is one,
    since the public one makes an object, which takes the host ten times as long."""
    known = getattr(getattr(torch, "_C", None), "_cuda_getCurrentRawStream", None)
    return torch.cuda.current_stream(device).cuda_stream if known is None else known(device)


class TorchTensors:
    """Reads tensors for the arguments of a program on the GPU of this number."""

    def __init__(self, specs: Sequence[TensorSpec], device: int):
        self._specs = specs
        self._device = device
        self._dtypes: list[Any] = []

    def borrow(self, torch: Any, value: Any, index: int) -> DeviceArray | None:
        """A tensor as an array, if it is all that the argument must be; None leaves it to DLPack (and its errors)."""
        if not self._dtypes:
            self._dtypes = [getattr(torch, spec.numpy_dtype.name, None) for spec in self._specs]
        spec = self._specs[index]
        if type(value) is not torch.Tensor or value.dtype is not self._dtypes[index] or value.shape != spec.shape:
            return None
        if not value.is_cuda or value.get_device() != self._device or not value.is_contiguous():
            return None
        if value.requires_grad or value.is_neg():
            return None
        address = value.data_ptr()
        return None if address % ALIGNMENT else DeviceArray(address, spec.shape, spec.numpy_dtype, value)
