"""Runs compiled programs on NVIDIA GPUs. PyCUDA and cuda-bindings are imported when a GPU is first asked for."""

from blu.runtime.cuda.array import DeviceArray, from_dlpack, to_device
from blu.runtime.cuda.driver.device import MemoryStats, compute_capability, device_name, memory_stats, synchronize
from blu.runtime.cuda.program import CudaProgram

__all__ = [
    "CudaProgram",
    "DeviceArray",
    "MemoryStats",
    "compute_capability",
    "device_name",
    "from_dlpack",
    "memory_stats",
    "synchronize",
    "to_device",
]
