"""From the driver's error codes to errors that say what happened, in which kernel, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from blu.errors import BluError, DeviceError, OutOfMemoryError, UnsupportedError

# After one of these nothing in the process's context works any more.
_LOST = {
    "CUDA_ERROR_ILLEGAL_ADDRESS": "a kernel read or wrote memory that it may not",
    "CUDA_ERROR_MISALIGNED_ADDRESS": "a kernel read or wrote at an address that is not aligned",
    "CUDA_ERROR_ILLEGAL_INSTRUCTION": "a kernel ran into an instruction that this GPU does not know",
    "CUDA_ERROR_INVALID_ADDRESS_SPACE": "a kernel used an address of another kind of memory",
    "CUDA_ERROR_INVALID_PC": "a kernel jumped to where no code is",
    "CUDA_ERROR_HARDWARE_STACK_ERROR": "a kernel overran its stack",
    "CUDA_ERROR_LAUNCH_FAILED": "a kernel failed",
    "CUDA_ERROR_LAUNCH_TIMEOUT": "a kernel ran longer than the system allows",
    "CUDA_ERROR_ASSERT": "a kernel's assertion failed",
    "CUDA_ERROR_ECC_UNCORRECTABLE": "the GPU's memory has an error that it could not correct",
    "CUDA_ERROR_CONTEXT_IS_DESTROYED": "the CUDA context was destroyed",
    "CUDA_ERROR_DEINITIALIZED": "the CUDA driver has shut down",
}
_MISSING = {
    "CUDA_ERROR_NO_DEVICE": ("this machine has no NVIDIA GPU that this process may use", "check CUDA_VISIBLE_DEVICES"),
    "CUDA_ERROR_INSUFFICIENT_DRIVER": ("the NVIDIA driver is too old", "update it, or install an older cuda-bindings"),
    "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH": ("the NVIDIA driver and its kernel module differ", "restart the machine"),
    "CUDA_ERROR_STUB_LIBRARY": ("libcuda.so.1 is the toolkit's stub", "install NVIDIA's driver"),
    "CUDA_ERROR_NOT_FOUND": ("the NVIDIA driver lacks a function that Blu needs", "update it"),
}
_BAD_CODE = {
    "CUDA_ERROR_NO_BINARY_FOR_GPU": "it has no code for this GPU",
    "CUDA_ERROR_INVALID_IMAGE": "its code is damaged",
    "CUDA_ERROR_INVALID_PTX": "its PTX is not valid",
    "CUDA_ERROR_UNSUPPORTED_PTX_VERSION": "its PTX is newer than this driver",
    "CUDA_ERROR_JIT_COMPILER_NOT_FOUND": "the driver cannot compile PTX",
}
_SHOWN = 8


class DriverError(Exception):
    """A driver call that failed: the error's name, such as CUDA_ERROR_OUT_OF_MEMORY, and the driver's own words."""

    def __init__(self, name: str, text: str = ""):
        self.name = name
        self.text = text
        super().__init__(f"{name}: {text}" if text else name)

    @property
    def is_fatal(self) -> bool:
        """Whether the context is lost."""
        return self.name in _LOST


class Named(Protocol):
    """A launch, as errors speak of it."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    @property
    def location(self) -> str:
        """The user's line."""
        ...


def explain(failure: DriverError, doing: str, launch: Named | None = None, since: Sequence[Named] = ()) -> BluError:
    """The error to raise for a failed call. `since` are the launches since the host last waited for the GPU."""
    location = (launch.location or None) if launch else None
    if failure.is_fatal:
        return _lost(failure, since)
    if failure.name in _MISSING:
        message, advice = _MISSING[failure.name]
        return UnsupportedError(f"{message} ({failure.name})", advice=advice)
    if failure.name in _BAD_CODE:
        return UnsupportedError(
            f"cannot {doing}: {_BAD_CODE[failure.name]} ({failure})",
            location=location,
            advice="compile the program for this GPU (--target=cuda), or update the driver",
        )
    if failure.name == "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES":
        advice = "this is a fault of Blu's: please report it with the program"
        return DeviceError(f"cannot {doing}: it needs more than a block can have", location=location, advice=advice)
    return DeviceError(f"cannot {doing}: {failure}", location=location)


def _lost(failure: DriverError, since: Sequence[Named]) -> DeviceError:
    """The error for a context that is lost, with the kernels that may have been it."""
    names = [f"  {launch.name} at {launch.location or 'an unknown line'}" for launch in since[-_SHOWN:]]
    if len(since) > _SHOWN:
        names.insert(0, f"  ... {len(since) - _SHOWN} earlier ones")
    header = "launched since the host last waited, the failed one among them:"
    kernels = "\n".join(["", header, *names]) if names else ""
    location = since[0].location or None if len(since) == 1 else None
    return DeviceError(
        f"the GPU stopped: {_LOST[failure.name]} ({failure}){kernels}",
        location=location,
        advice="What this process had on the GPU is lost: start it again. BLU_CUDA_SYNC=1 "
        "names the kernel, compute-sanitizer the access.",
    )


def out_of_memory(nbytes: int, purpose: str, free: int, total: int) -> OutOfMemoryError:
    """The error for an allocation that the GPU's memory has no room for; sizes in bytes."""
    return OutOfMemoryError(
        f"cannot allocate {nbytes} bytes of GPU memory for {purpose}: {free} of {total} bytes are free",
        advice="use smaller shapes, a smaller batch, a narrower dtype or remat_budget, drop arrays that are no longer "
        "needed, or end other processes on this GPU",
    )


def no_library(reason: str) -> UnsupportedError:
    """The error for a machine without PyCUDA and cuda-bindings, or without a driver for them."""
    return UnsupportedError(
        f"cannot use a GPU: {reason}",
        advice="GPU programs need NVIDIA's driver, and PyCUDA or cuda-bindings (pip install 'blu[cuda]')",
    )
