"""Runs compiled programs on NVIDIA GPUs. PyCUDA and cuda-bindings are imported when a GPU is first asked for."""

from blu.runtime.cuda.array import DeviceArray, from_dlpack, to_device
from blu.runtime.cuda.device import compute_capability, synchronize
from blu.runtime.cuda.program import CudaProgram

__all__ = ["CudaProgram", "DeviceArray", "compute_capability", "from_dlpack", "synchronize", "to_device"]
