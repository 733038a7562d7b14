"""The safetensors format: tensors as read-only views of the mapped file, files replaced atomically.

Reading follows the documented format here instead of calling the library, because its NumPy interface copies every
tensor and has no bfloat16; nothing is allocated before the whole header has been checked. Writing uses the library.
"""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import ml_dtypes
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import save_file as write_file

from blu.dataclass import dataclass
from blu.errors import ArgumentError, WeightsError
from blu.frontend.io.atomic import replacing
from blu.frontend.io.json_files import parse_json
from blu.frontend.tracing.host_arrays import as_host_array

MAX_HEADER_BYTES = 100_000_000  # the format's own limit
MAX_RANK = 32
MAX_BYTES = 1 << 62
DTYPES = {
    "BOOL": np.dtype(np.bool_),
    "I8": np.dtype(np.int8),
    "I16": np.dtype("<i2"),
    "I32": np.dtype("<i4"),
    "I64": np.dtype("<i8"),
    "U8": np.dtype(np.uint8),
    "U16": np.dtype("<u2"),
    "U32": np.dtype("<u4"),
    "U64": np.dtype("<u8"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "F8_E4M3": np.dtype(ml_dtypes.float8_e4m3fn),
    "F8_E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
}


@dataclass(frozen=True)
class StoredTensor:
    """One tensor of a file: bytes [begin, end) of the data section."""

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    begin: int
    end: int


def load_file(filename: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """The tensors of a safetensors file by name, as read-only views of the mapped file (no copy).

    Raises WeightsError, naming the file and the tensor, when the file is missing, truncated or malformed.
    """
    path = Path(filename)
    try:
        with path.open("rb") as file:
            entries, data_offset = _read_header(path, file)
            if not entries:
                return {}
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise WeightsError(f"{path}: cannot be read: {error.strerror}") from error
    return {entry.name: _view(mapped, data_offset, entry) for entry in entries}


def save_file(
    tensors: Mapping[str, Any], filename: str | os.PathLike[str], metadata: Mapping[str, str] | None = None
) -> None:
    """Write `tensors` (arrays of NumPy or PyTorch, in host memory) to `filename`; the arguments are safetensors' own.

    The old file stays intact until the new one is complete and on the disk. Raises WeightsError when a dtype has no
    name in the format, or the disk is full, and ArgumentError for arguments that are no tensors and file name.
    """
    if not isinstance(tensors, Mapping) or not isinstance(filename, (str, os.PathLike)):
        got = f"{type(tensors).__name__} and {type(filename).__name__}"
        advice = 'As in safetensors: save_file(model.state_dict(), "model.safetensors").'
        raise ArgumentError(f"save_file takes tensors by name, then the name of a file, not {got}", advice=advice)
    path = Path(filename)
    arrays = {name: _writable(path, name, array) for name, array in tensors.items()}
    try:
        with replacing(path) as temporary:
            write_file(arrays, temporary, metadata=dict(metadata or {}) or None)
    except (OSError, SafetensorError) as error:
        raise write_error(path, error) from error


def write_error(path: Path, error: Exception) -> WeightsError:
    """The WeightsError for a file that could not be written."""
    advice = "the previous file, if there was one, is unchanged; free some space or choose another directory"
    return WeightsError(f"{path}: cannot be written: {error}", advice=advice)


def _read_header(path: Path, file: BinaryIO) -> tuple[list[StoredTensor], int]:
    """The checked entries in file order, and the offset of the data section in bytes."""
    total = os.fstat(file.fileno()).st_size
    start = file.read(8)
    length = int.from_bytes(start, "little")
    if start == b"version ":
        raise WeightsError(f"{path}: a Git LFS pointer, not the weights themselves", advice="run `git lfs pull` there")
    if len(start) < 8:
        raise WeightsError(f"{path}: truncated: {total} bytes are no safetensors file")
    if length > MAX_HEADER_BYTES:
        raise WeightsError(f"{path}: a header of {length} bytes; the format allows {MAX_HEADER_BYTES}")
    if length > total - 8:
        raise WeightsError(f"{path}: truncated: a header of {length} bytes in a file of {total}")
    header = parse_json(file.read(length), f"{path}: header")
    _check_metadata(path, header.pop("__metadata__", {}))
    entries = sorted((_entry(path, *item) for item in header.items()), key=lambda entry: (entry.begin, entry.end))
    _check_layout(path, entries, total - 8 - length)
    return entries, 8 + length


def _check_metadata(path: Path, metadata: Any) -> None:
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise WeightsError(f"{path}: __metadata__ is not a map of strings")


def _entry(path: Path, name: str, fields: Any) -> StoredTensor:
    where = f"{path}: tensor {name!r}"
    if not isinstance(fields, dict) or set(fields) != {"dtype", "shape", "data_offsets"}:
        raise WeightsError(f"{where}: dtype, shape and data_offsets were expected")
    dtype, shape, offsets = fields["dtype"], fields["shape"], fields["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise WeightsError(f"{where}: unknown dtype {dtype!r}; known are {', '.join(DTYPES)}")
    if not _are_sizes(shape) or len(shape) > MAX_RANK:
        raise WeightsError(f"{where}: malformed shape {shape!r}")
    if not _are_sizes(offsets) or len(offsets) != 2:
        raise WeightsError(f"{where}: malformed data_offsets {offsets!r}")
    # Zeros are left out of the limit, so that [0, 2**70] is refused too.
    if math.prod(size or 1 for size in shape) * DTYPES[dtype].itemsize > MAX_BYTES:
        raise WeightsError(f"{where}: shape {shape} is too large")
    expected = math.prod(shape) * DTYPES[dtype].itemsize
    if offsets[1] - offsets[0] != expected:
        raise WeightsError(f"{where}: data_offsets {offsets} do not hold the {expected} bytes of {dtype} {shape}")
    return StoredTensor(name, DTYPES[dtype], tuple(shape), offsets[0], offsets[1])


def _are_sizes(value: Any) -> bool:
    # bool is a subclass of int, hence `type`.
    return isinstance(value, list) and all(type(item) is int and item >= 0 for item in value)


def _check_layout(path: Path, entries: Iterable[StoredTensor], available: int) -> None:
    """Tensors follow each other without overlap or hole and fill the data section."""
    position = 0
    for entry in entries:
        where = f"{path}: tensor {entry.name!r}: bytes [{entry.begin}, {entry.end})"
        if entry.begin < position:
            raise WeightsError(f"{where} overlap the tensor before, which ends at {position}")
        if entry.begin > position:
            raise WeightsError(f"{where} leave a hole after the tensor before, which ends at {position}")
        if entry.end > available:
            raise WeightsError(f"{where} end after the file's {available} bytes of data: truncated?")
        position = entry.end
    if position != available:
        raise WeightsError(f"{path}: {available - position} bytes of data belong to no tensor")


def _view(mapped: mmap.mmap, data_offset: int, entry: StoredTensor) -> np.ndarray:
    count = math.prod(entry.shape)
    if count == 0:
        return np.empty(entry.shape, entry.dtype)
    array = np.frombuffer(mapped, entry.dtype, count, data_offset + entry.begin).reshape(entry.shape)
    # Old writers did not pad the header to a multiple of 8 bytes.
    return array if array.flags.aligned else array.copy()


def _writable(path: Path, name: str, array: np.ndarray) -> np.ndarray:
    array = np.asarray(as_host_array(array))
    little = array.dtype.newbyteorder("<") if array.dtype.byteorder == ">" else array.dtype
    if little not in DTYPES.values():
        raise WeightsError(
            f"{path}: tensor {name!r}: dtype {array.dtype} cannot be saved; known are {', '.join(DTYPES)}"
        )
    return np.require(array.astype(little, copy=False), requirements="C")
