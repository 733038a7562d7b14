"""Arrays in GPU memory, to and from other libraries: DLPack and `__cuda_array_interface__`. Nothing is copied.

The structures are those of dlpack.h, version 0.8 (the capsule called "dltensor"), which all libraries read.
"""

from __future__ import annotations

import ctypes
import math
import sys
from typing import Any

import numpy as np

from blu.errors import ArgumentError
from blu.plan.tensors import DTYPES, NAMES
from blu.runtime.array import CUDA, ExchangeError

_INTEGER, _UNSIGNED, _FLOAT, _BFLOAT, _COMPLEX, _BOOL = 0, 1, 2, 4, 5, 6
_CODES = {"b": _BOOL, "i": _INTEGER, "u": _UNSIGNED, "f": _FLOAT, "c": _COMPLEX}
COMPLEX = (np.dtype(np.complex64), np.dtype(np.complex128))
"""What arrays may be of, and no argument of a kernel."""
_BF16 = DTYPES["bf16"]
# Kinds of numbers that the structures know by names of their own; those of 8 bits since version 1.1.
_CODES_BY_DTYPE = {_BF16: _BFLOAT, DTYPES["f8e4m3"]: 10, DTYPES["f8e5m2"]: 12}


class _Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    """DLManagedTensor."""

    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _Deleter))


_Destructor = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_python = ctypes.pythonapi
_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, _Destructor)(("PyCapsule_New", _python))
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", _python))
# A dying capsule must not become an object of Python again: its destructor knows it by address.
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", _python))
_pointer_of_dying = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", _python)
)
_NAME = b"dltensor"
# What capsules refer to, until their readers delete them: array and structures, by the structure's address.
_handed_out: dict[int, tuple[Any, ...]] = {}


@_Deleter
def _delete(address: int | None) -> None:
    _handed_out.pop(address or 0, None)


@_Destructor
def _destroy(capsule: int | None) -> None:
    """A capsule that nobody has read keeps its name, and its array is given back here."""
    if _is_valid(capsule, _NAME):
        _delete(_pointer_of_dying(capsule, _NAME))


def capsule_of(array: Any, device: int) -> Any:
    """A DLPack capsule for an array with `address`, `shape` and `dtype`, which lives as long as its reader needs it.

    `device` is the number of its GPU.
    """
    shape = (ctypes.c_int64 * max(len(array.shape), 1))(*array.shape)
    strides = (ctypes.c_int64 * max(len(array.shape), 1))(*_strides(array.shape))
    code, bits = _code_of(array.dtype), array.dtype.itemsize * 8
    tensor = _Tensor(array.address, CUDA, device, len(array.shape), code, bits, 1, shape, strides, 0)
    managed = _Managed(tensor, None, _delete)
    address = ctypes.addressof(managed)
    _handed_out[address] = (array, managed, shape, strides)
    return _new(address, _NAME, _destroy)


def interface_of(address: int, shape: tuple[int, ...], dtype: np.dtype) -> dict[str, Any]:
    """What `__cuda_array_interface__` says (version 3)."""
    kind = "<V2" if dtype == _BF16 else dtype.str
    # The legacy default stream, 1, waits for Blu's stream, and Blu's for it: nothing else is to be waited for.
    return {"shape": shape, "typestr": kind, "data": (address, False), "version": 3, "strides": None, "stream": 1}


def read(value: Any, stream: int, device: int) -> tuple[int, tuple[int, ...], np.dtype]:
    """Address, shape and dtype of another library's array; what its library still writes is done before `stream` goes
    on. ArgumentError where the array is not contiguous, on another GPU than `device`, or of no dtype of Blu's."""
    if (dtype := _float8_of(value)) is not None:  # which libraries hand over as bytes
        address, shape, _ = _read_capsule(value.view(sys.modules["torch"].uint8), stream, device)
        return address, shape, dtype
    if hasattr(value, "__dlpack__"):
        return _read_capsule(value, stream, device)
    return _read_interface(value.__cuda_array_interface__)


def _float8_of(value: Any) -> np.dtype | None:
    """The dtype of a tensor of PyTorch's that is fp8."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        return None
    name = str(value.dtype).removeprefix("torch.")
    return next((DTYPES[own] for own in ("f8e4m3", "f8e5m2") if DTYPES[own].name == name), None)


def _read_capsule(value: Any, stream: int, device: int) -> tuple[int, tuple[int, ...], np.dtype]:
    try:
        capsule = value.__dlpack__(stream=stream)
    except (BufferError, RuntimeError, TypeError) as error:
        raise ExchangeError(f"a {type(value).__name__} cannot be handed over by DLPack: {error}") from error
    tensor = ctypes.cast(_pointer(capsule, _NAME), ctypes.POINTER(_Managed)).contents.tensor
    if tensor.device_type != CUDA or tensor.device_id != device:
        which = f"GPU {device}" if device else "the first GPU"
        raise ArgumentError(f"the array is not on {which}", advice=f"move it there: Blu runs on device {device}")
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else _strides(shape)
    dtype = _dtype_of(tensor.code, tensor.bits, tensor.lanes)
    _check_contiguous(shape, strides)
    return (tensor.data or 0) + tensor.byte_offset, shape, dtype


def _code_of(dtype: np.dtype) -> int:
    return _CODES_BY_DTYPE[dtype] if dtype in _CODES_BY_DTYPE else _CODES[dtype.kind]


def _dtype_of(code: int, bits: int, lanes: int) -> np.dtype:
    for dtype in (*NAMES, *COMPLEX):
        if lanes == 1 and (_code_of(dtype), dtype.itemsize * 8) == (code, bits):
            return dtype
    raise ArgumentError(f"Blu has no dtype of DLPack's code {code} with {bits} bits", advice="convert the array")


def _read_interface(interface: dict[str, Any]) -> tuple[int, tuple[int, ...], np.dtype]:
    dtype = _BF16 if interface["typestr"] == "<V2" else np.dtype(interface["typestr"])
    if dtype not in NAMES and dtype not in COMPLEX:
        raise ArgumentError(f"Blu has no dtype like {interface['typestr']!r}", advice="convert the array")
    shape, strides = tuple(interface["shape"]), interface.get("strides")
    if strides is not None:
        _check_contiguous(shape, tuple(stride / dtype.itemsize for stride in strides))
    return interface["data"][0], shape, dtype


def _strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _check_contiguous(shape: tuple[int, ...], strides: tuple[float, ...]) -> None:
    wrong = any(size > 1 and a != b for size, a, b in zip(shape, strides, _strides(shape), strict=True))
    if wrong and math.prod(shape):
        raise ArgumentError(f"the array of shape {shape} is not contiguous", advice="pass its .contiguous() copy")
