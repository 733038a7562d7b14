"""What an executable's `plan.json` says: arguments, results, constants, launches, checks. Validated here."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import ml_dtypes
import numpy as np

from blu.errors import CacheError
from blu.runtime.pool import MAX_BLOCKS

DTYPES: dict[str, np.dtype] = {
    "bool": np.dtype(np.bool_),
    "i8": np.dtype(np.int8),
    "i16": np.dtype(np.int16),
    "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64),
    "u8": np.dtype(np.uint8),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}
"""Blu's names of dtypes in this order of kinds, with numpy's dtypes."""
NAMES = {dtype: name for name, dtype in DTYPES.items()}
_MAX_BYTES = 1 << 62
_SPACES = ("input", "output", "arena", "constant", "status", "map", "table")
NOTHING_FOUND = 0
"""What a check's status slot holds when nothing was wrong (an index of 0 never is: see `dialects/plan.py`)."""
_CHECK_KINDS = ("index", "position", "divide")
MAP_BYTES = 128
"""Of a tensor map on a GPU, which kernels take the address of."""
POINTER_BYTES = 8
"""Of an entry of a table of pointers."""
MAP_DTYPES = {"bf16": 2, "f16": 2, "f32": 4, "tf32": 4}
"""Bytes of the elements that tensor maps show."""
# What CUDA allows of one launch, on any GPU.
_MAX_GRID = ((1 << 31) - 1, 65535, 65535)
_MAX_BLOCK_THREADS = 1024
_MAX_SHARED_BYTES = 256 << 10


def _check(condition: bool, message: str) -> None:
    if not condition:
        raise CacheError(f"damaged plan: {message}", advice="compile the program again")


def _natural(value: Any, what: str, limit: int = _MAX_BYTES) -> int:
    _check(type(value) is int and 0 <= value <= limit, f"{what} is {value!r}")
    return value


def _text(value: Any, what: str) -> str:
    _check(isinstance(value, str), f"{what} is {value!r}")
    return value


def _list(value: Any, what: str) -> list[Any]:
    _check(isinstance(value, list), f"{what} is {value!r}")
    return value


def _entries(plan: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    entries = plan.get(key, [])
    sound = isinstance(entries, list) and all(isinstance(entry, dict) for entry in entries)
    _check(sound, f"{key} is no list of objects")
    return entries


@dataclass(frozen=True)
class TensorSpec:
    """Shape and dtype of an argument or result.

    `donated`: the program overwrites this argument. `input`: this result is that (donated) argument, updated in place.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    donated: bool = False
    input: int | None = None

    @classmethod
    def parse(cls, entry: Mapping[str, Any], what: str) -> TensorSpec:
        dtype, source = _text(entry.get("dtype"), f"the dtype of {what}"), entry.get("input")
        shape = _list(entry.get("shape"), f"the shape of {what}")
        dims = tuple(_natural(dim, f"a dimension of {what}") for dim in shape)
        _check(len(dims) <= 64, f"{what} has {len(dims)} dimensions")
        _check(dtype in DTYPES, f"{what} has the dtype {dtype!r}")
        _check(math.prod(dims) <= _MAX_BYTES // 8, f"{what} has the shape {dims}")
        if source is not None:
            _natural(source, f"the argument of {what}")
        name = _text(entry.get("name", ""), f"the name of {what}")
        return cls(name, dims, dtype, entry.get("donated") is True, source)

    @cached_property
    def numpy_dtype(self) -> np.dtype:
        """The dtype as numpy knows it."""
        return DTYPES[self.dtype]

    @cached_property
    def nbytes(self) -> int:
        """Bytes of one such tensor."""
        return math.prod(self.shape) * self.numpy_dtype.itemsize

    def __repr__(self) -> str:
        marks = " donated" if self.donated else "" if self.input is None else f" = argument {self.input}"
        return f"{self.name or '_'}: {self.dtype}[{', '.join(map(str, self.shape))}]{marks}"


@dataclass(frozen=True)
class Constant:
    """A range of `constants.bin`."""

    offset: int
    nbytes: int

    @classmethod
    def parse(cls, entry: Mapping[str, Any]) -> Constant:
        offset, nbytes = _natural(entry.get("offset"), "a constant's offset"), _natural(entry.get("bytes"), "its size")
        _check(offset % 64 == 0, f"a constant lies at {offset}, which is no multiple of 64")
        return cls(offset, nbytes)


@dataclass(frozen=True)
class Argument:
    """A pointer that a launch passes: `offset` bytes into buffer `index` of `space`."""

    space: str
    index: int
    offset: int

    @classmethod
    def parse(cls, entry: Any) -> Argument:
        _check(isinstance(entry, list) and bool(entry) and entry[0] in _SPACES, f"a kernel argument is {entry!r}")
        space, *numbers = entry
        _check(len(numbers) == (1 if space in ("arena", "status", "map") else 2), f"a kernel argument is {entry!r}")
        numbers = [_natural(number, f"a number of the kernel argument {entry!r}") for number in numbers]
        index, offset = [0, 0, *numbers][-2:]
        return cls(space, index, offset)


@dataclass(frozen=True)
class Launch:
    """One call of a kernel over `blocks` independent blocks, `chunk` of them claimed at a time."""

    kernel: str
    blocks: int
    chunk: int
    args: tuple[Argument, ...]
    location: str = ""

    @classmethod
    def parse(cls, entry: Mapping[str, Any]) -> Launch:
        kernel = _text(entry.get("kernel"), "a kernel's name")
        args = _list(entry.get("args"), f"the argument list of {kernel}")
        chunk = _natural(entry.get("chunk"), f"the chunk of {kernel}", MAX_BLOCKS)
        _check(chunk >= 1, f"the chunk of {kernel} is 0")
        blocks = _natural(entry.get("blocks"), f"the number of blocks of {kernel}", MAX_BLOCKS)
        location = _text(entry.get("location") or "", f"the location of {kernel}")
        return cls(kernel, blocks, chunk, tuple(Argument.parse(arg) for arg in args), location)

    def __repr__(self) -> str:
        where = f", {self.location}" if self.location else ""
        return f"Launch({self.kernel}, blocks={self.blocks}, chunk={self.chunk}{where})"


@dataclass(frozen=True)
class GpuLaunch:
    """One call of a kernel over a grid of blocks (x, y, z), each of `threads` threads and `shared_bytes` of memory."""

    kernel: str
    grid: tuple[int, int, int]
    threads: int
    shared_bytes: int
    args: tuple[Argument, ...]
    location: str = ""

    @classmethod
    def parse(cls, entry: Mapping[str, Any]) -> GpuLaunch:
        kernel = _text(entry.get("kernel"), "a kernel's name")
        args = _list(entry.get("args"), f"the argument list of {kernel}")
        grid = _list(entry.get("grid"), f"the grid of {kernel}")
        _check(len(grid) == 3, f"the grid of {kernel} is {grid}")
        x, y, z = (_natural(size, f"the grid of {kernel}", limit) for size, limit in zip(grid, _MAX_GRID, strict=True))
        threads = _natural(entry.get("threads"), f"the number of threads of {kernel}", _MAX_BLOCK_THREADS)
        _check(threads >= 1, f"{kernel} has blocks without threads")
        shared = _natural(entry.get("shared_bytes", 0), f"the shared memory of {kernel}", _MAX_SHARED_BYTES)
        location = _text(entry.get("location") or "", f"the location of {kernel}")
        return cls(kernel, (x, y, z), threads, shared, tuple(Argument.parse(arg) for arg in args), location)

    def __repr__(self) -> str:
        where = f", {self.location}" if self.location else ""
        return f"GpuLaunch({self.kernel}, grid={self.grid}, threads={self.threads}{where})"


def _launches(entries: list[Mapping[str, Any]]) -> tuple[Launch, ...] | tuple[GpuLaunch, ...]:
    """All launches, which are all for a CPU or all for a GPU."""
    on_gpu = sum("grid" in entry for entry in entries)
    _check(on_gpu in (0, len(entries)), "launches for a CPU and for a GPU")
    return tuple(map(GpuLaunch.parse, entries)) if on_gpu else tuple(map(Launch.parse, entries))


@dataclass(frozen=True)
class Check:
    """A check that kernels make while they run: `kind` is index, position (an index that does not
    count from the end) or divide, `op` and `location` are the user's.

    A kernel writes to the status slot of the check's number: NOTHING_FOUND, or the index that is out of range, or 1
    for a divisor of zero. `size` is the extent of the dimension that an index selects from.
    """

    kind: str
    op: str
    size: int
    location: str

    @classmethod
    def parse(cls, entry: Mapping[str, Any]) -> Check:
        _check(entry.get("kind") in _CHECK_KINDS, f"a check is of the kind {entry.get('kind')!r}")
        location = _text(entry.get("location") or "", "a check's location")
        op, size = _text(entry.get("op", ""), "a check's op"), _natural(entry.get("size", 0), "a check's size")
        return cls(entry["kind"], op, size, location)


@dataclass(frozen=True)
class TensorMap:
    """What a tensor map shows of a buffer: `shape` elements `strides` apart, in tiles of `box`, innermost first.

    `offset` and `strides` are in elements. "tf32" are f32 elements that are rounded as they are read.
    """

    buffer: Argument
    offset: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]

    @classmethod
    def parse(cls, entry: Mapping[str, Any]) -> TensorMap:
        lists = [_list(entry.get(name), f"the {name} of a tensor map") for name in ("shape", "strides", "box")]
        shape, strides, box = (tuple(_natural(item, "a number of a tensor map") for item in each) for each in lists)
        dtype = _text(entry.get("dtype"), "the dtype of a tensor map")
        _check(dtype in MAP_DTYPES, f"a tensor map has the dtype {dtype!r}")
        _check(1 <= len(shape) <= 5 and len(shape) == len(strides) == len(box), "a tensor map's sizes do not match")
        offset = _natural(entry.get("offset"), "a tensor map's offset")
        return cls(Argument.parse(entry.get("buffer")), offset, dtype, shape, strides, box)


def _table(entry: Any) -> tuple[Argument, ...]:
    arguments = tuple(Argument.parse(item) for item in _list(entry, "a table"))
    _check(all(item.space not in ("map", "table") for item in arguments), "a table holds more than buffers")
    return arguments


@dataclass(frozen=True)
class Plan:
    """The host's part of a program: what to allocate and what to launch."""

    entry: str
    arena_bytes: int
    status_slots: int
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    constants: tuple[Constant, ...]
    launches: tuple[Launch, ...] | tuple[GpuLaunch, ...]
    checks: tuple[Check, ...]
    tensor_maps: tuple[TensorMap, ...] = ()
    tables: tuple[tuple[Argument, ...], ...] = ()
    """Arguments of launches that do the work of many calls, on a GPU: those of one call after the other."""

    @classmethod
    def parse(cls, text: bytes) -> Plan:
        """Read `plan.json`; CacheError where it is damaged or contradicts itself."""
        try:
            plan = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise CacheError(f"damaged plan: {error}", advice="compile the program again") from error
        _check(isinstance(plan, dict), "no object")
        parsed = cls(
            entry=_text(plan.get("entry", "main"), "the entry"),
            arena_bytes=_natural(plan.get("arena_bytes"), "the size of the arena"),
            status_slots=_natural(plan.get("status_slots", 0), "the number of status slots", 4096),
            inputs=tuple(TensorSpec.parse(e, f"argument {i}") for i, e in enumerate(_entries(plan, "inputs"))),
            outputs=tuple(TensorSpec.parse(e, f"result {i}") for i, e in enumerate(_entries(plan, "outputs"))),
            constants=tuple(Constant.parse(entry) for entry in _entries(plan, "constants")),
            launches=_launches(_entries(plan, "launches")),
            checks=tuple(Check.parse(entry) for entry in _entries(plan, "checks")),
            tensor_maps=tuple(TensorMap.parse(entry) for entry in _entries(plan, "tensor_maps")),
            tables=tuple(_table(entry) for entry in _list(plan.get("tables", []), "the list of tables")),
        )
        _check(len(parsed.checks) <= parsed.status_slots, "fewer status slots than checks")
        parsed._check_donations()
        parsed._check_arguments()
        parsed._check_tables()
        return parsed

    def _check_donations(self) -> None:
        sources = [output.input for output in self.outputs if output.input is not None]
        _check(len(set(sources)) == len(sources), "two results are the same argument")
        for output in self.outputs:
            if output.input is None:
                continue
            _check(output.input < len(self.inputs), f"a result is argument {output.input}, which does not exist")
            source = self.inputs[output.input]
            same = (source.shape, source.dtype) == (output.shape, output.dtype)
            _check(source.donated, f"a result is argument {output.input}, which is not donated")
            _check(same, f"a result is argument {output.input}, which has another type")

    def sizes(self) -> dict[str, list[int]]:
        """The bytes of each buffer, by space and index."""
        return {
            "input": [spec.nbytes for spec in self.inputs],
            "output": [spec.nbytes for spec in self.outputs],
            "constant": [constant.nbytes for constant in self.constants],
            "arena": [self.arena_bytes],
            "status": [self.status_slots * 8],
            "map": [len(self.tensor_maps) * MAP_BYTES],
            "table": [len(table) * POINTER_BYTES for table in self.tables],
        }

    def _check_arguments(self) -> None:
        sizes = self.sizes()
        passed = [(launch.kernel, arg) for launch in self.launches for arg in launch.args]
        listed = [(f"table {number}", arg) for number, table in enumerate(self.tables) for arg in table]
        for what, arg in (*passed, *listed):
            buffers, name = sizes[arg.space], f"{arg.space} {arg.index}"
            _check(arg.index < len(buffers), f"{what} takes {name}, of which there is none")
            _check(arg.offset <= buffers[arg.index], f"{what} reaches beyond {name}")

    def _check_tables(self) -> None:
        """A table is read whole, in as many equal parts as the grid's third dimension has blocks."""
        for launch in self.launches:
            for arg in launch.args:
                if arg.space != "table":
                    continue
                name, entries = f"table {arg.index}", len(self.tables[arg.index])
                _check(isinstance(launch, GpuLaunch), f"{launch.kernel} runs on a CPU and takes {name}")
                calls = launch.grid[2] if isinstance(launch, GpuLaunch) else 0
                _check(arg.offset == 0, f"{launch.kernel} takes {name} from byte {arg.offset} on")
                sound = calls > 0 and entries > 0 and entries % calls == 0
                _check(sound, f"{launch.kernel} runs for {calls} calls with the {entries} entries of {name}")
