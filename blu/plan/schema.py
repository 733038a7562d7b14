"""What an executable's `plan.json` says: arguments, results, constants, launches, checks.

Said once, for the pass that writes it and the runtime that reads it: `to_json` gives what `parse` reads and validates.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from blu.dataclass import dataclass, field
from blu.errors import CacheError
from blu.plan.arguments import MAP_BYTES, Argument
from blu.plan.collective import Collective
from blu.plan.host_launch import KERNEL as HOST_KERNEL
from blu.plan.host_launch import HostLaunch
from blu.plan.loops import Loop, Unrolling
from blu.plan.mesh import Mesh
from blu.plan.reading import entries, listed, natural, require, text
from blu.plan.repeating import partners
from blu.plan.tensors import TensorSpec

MAX_BLOCKS = (1 << 31) - 2
"""The largest grid of a launch on a processor: block numbers are 31 bits of the word that threads claim from."""
ALIGNMENT = 64
"""Bytes, of which every buffer begins at a multiple."""
NOTHING_FOUND = 0
"""What a check's status slot holds when nothing was wrong.

No wrong index is 0: an axis that indices select from has a first element. Of several wrong ones the largest is kept,
compared as unsigned numbers, of which 0 is the smallest.
"""
_CHECK_KINDS = ("index", "position", "divide", "singular", "indefinite", "diverging")
POINTER_BYTES = 8
"""Of an entry of a table of pointers."""
MAP_DTYPES = {"bf16": 2, "f16": 2, "f32": 4, "tf32": 4, "f8e4m3": 1, "f8e5m2": 1, "i8": 1}
"""Bytes of the elements that tensor maps show."""
MAX_GRID = ((1 << 31) - 1, 65535, 65535)
"""The most blocks of a grid in each dimension, on any GPU."""
MAX_BLOCK_THREADS = 1024
MAX_SHARED_BYTES = 256 << 10
"""More than a block can have on any GPU; each has its own limit."""


@dataclass(frozen=True)
class Constant:
    """A range of `constants.bin`."""

    offset: int
    nbytes: int

    @classmethod
    def parse(cls, entry: Mapping[str, Any]) -> Constant:
        offset, nbytes = natural(entry.get("offset"), "a constant's offset"), natural(entry.get("bytes"), "its size")
        require(offset % ALIGNMENT == 0, f"a constant lies at {offset}, which is no multiple of {ALIGNMENT}")
        return cls(offset, nbytes)

    def to_json(self) -> dict[str, Any]:
        """The entry of a constant."""
        return {"offset": self.offset, "bytes": self.nbytes}


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
        kernel = text(entry.get("kernel"), "a kernel's name")
        args = listed(entry.get("args"), f"the argument list of {kernel}")
        chunk = natural(entry.get("chunk"), f"the chunk of {kernel}", MAX_BLOCKS)
        require(chunk >= 1, f"the chunk of {kernel} is 0")
        blocks = natural(entry.get("blocks"), f"the number of blocks of {kernel}", MAX_BLOCKS)
        location = text(entry.get("location") or "", f"the location of {kernel}")
        return cls(kernel, blocks, chunk, tuple(Argument.parse(arg) for arg in args), location)

    def to_json(self) -> dict[str, Any]:
        """The entry of a launch."""
        args = [arg.to_json() for arg in self.args]
        size = {"blocks": self.blocks, "chunk": self.chunk}
        return {"kernel": self.kernel, **size, "args": args, "location": self.location}

    @property
    def size(self) -> tuple[int, ...]:
        """What of a launch's size its kernel depends on."""
        return (self.blocks,)

    def __repr__(self) -> str:
        where = f", {self.location}" if self.location else ""
        return f"Launch({self.kernel}, blocks={self.blocks}, chunk={self.chunk}{where})"


@dataclass(frozen=True)
class GpuLaunch:
    """One call of a kernel over a grid of blocks (x, y, z), each of `threads` threads and `shared_bytes` of memory.

    One that is `early` may begin before the launch before it is over: its kernel waits for that.
    """

    kernel: str
    grid: tuple[int, int, int]
    threads: int
    shared_bytes: int
    args: tuple[Argument, ...]
    location: str = ""
    early: bool = False

    @classmethod
    def parse(cls, entry: Mapping[str, Any]) -> GpuLaunch:
        kernel = text(entry.get("kernel"), "a kernel's name")
        args = listed(entry.get("args"), f"the argument list of {kernel}")
        grid = listed(entry.get("grid"), f"the grid of {kernel}")
        require(len(grid) == 3, f"the grid of {kernel} is {grid}")
        x, y, z = (natural(size, f"the grid of {kernel}", limit) for size, limit in zip(grid, MAX_GRID, strict=True))
        threads = natural(entry.get("threads"), f"the number of threads of {kernel}", MAX_BLOCK_THREADS)
        require(threads >= 1, f"{kernel} has blocks without threads")
        early = entry.get("early", False)
        require(isinstance(early, bool), f"whether {kernel} begins early is {early!r}")
        shared = natural(entry.get("shared_bytes", 0), f"the shared memory of {kernel}", MAX_SHARED_BYTES)
        location = text(entry.get("location") or "", f"the location of {kernel}")
        return cls(kernel, (x, y, z), threads, shared, tuple(Argument.parse(arg) for arg in args), location, early)

    def to_json(self) -> dict[str, Any]:
        """The entry of a launch."""
        args = [arg.to_json() for arg in self.args]
        size = {"grid": list(self.grid), "threads": self.threads, "shared_bytes": self.shared_bytes}
        early = {"early": True} if self.early else {}
        return {"kernel": self.kernel, **size, "args": args, "location": self.location, **early}

    @property
    def size(self) -> tuple[int, ...]:
        """What of a launch's size its kernel depends on."""
        return (*self.grid, self.threads, self.shared_bytes)

    def __repr__(self) -> str:
        where = f", {self.location}" if self.location else ""
        return f"GpuLaunch({self.kernel}, grid={self.grid}, threads={self.threads}{where})"


Step = Launch | GpuLaunch | HostLaunch


def _launches(found: list[Mapping[str, Any]]) -> tuple[Step, ...]:
    """All launches, of which those of kernels are all for a CPU or all for a GPU."""
    steps = tuple(map(_launch, found))
    kinds = {type(step) for step in steps} - {HostLaunch}
    require(len(kinds) < 2, "launches for a CPU and for a GPU")
    return steps


def _launch(entry: Mapping[str, Any]) -> Step:
    if str(entry.get("kernel")).startswith(HOST_KERNEL):
        return HostLaunch.parse(entry)
    return GpuLaunch.parse(entry) if "grid" in entry else Launch.parse(entry)


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
        require(entry.get("kind") in _CHECK_KINDS, f"a check is of the kind {entry.get('kind')!r}")
        location = text(entry.get("location") or "", "a check's location")
        op, size = text(entry.get("op", ""), "a check's op"), natural(entry.get("size", 0), "a check's size")
        return cls(entry["kind"], op, size, location)

    def to_json(self) -> dict[str, Any]:
        """The entry of a check."""
        return {"kind": self.kind, "op": self.op, "size": self.size, "location": self.location}


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
        lists = [listed(entry.get(name), f"the {name} of a tensor map") for name in ("shape", "strides", "box")]
        shape, strides, box = (tuple(natural(item, "a number of a tensor map") for item in each) for each in lists)
        dtype = text(entry.get("dtype"), "the dtype of a tensor map")
        require(dtype in MAP_DTYPES, f"a tensor map has the dtype {dtype!r}")
        require(1 <= len(shape) <= 5 and len(shape) == len(strides) == len(box), "a tensor map's sizes do not match")
        offset = natural(entry.get("offset"), "a tensor map's offset")
        return cls(Argument.parse(entry.get("buffer")), offset, dtype, shape, strides, box)

    def shown(self) -> dict[str, Any]:
        """What the map shows, whichever buffer it is of."""
        lists = {"shape": list(self.shape), "strides": list(self.strides), "box": list(self.box)}
        return {"offset": self.offset, "dtype": self.dtype, **lists}

    def to_json(self) -> dict[str, Any]:
        """The entry of a tensor map."""
        return {"buffer": self.buffer.to_json(), **self.shown()}


def _table(entry: Any) -> tuple[Argument, ...]:
    arguments = tuple(Argument.parse(item) for item in listed(entry, "a table"))
    require(all(item.space not in ("map", "table") for item in arguments), "a table holds more than buffers")
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
    launches: tuple[Step, ...]
    checks: tuple[Check, ...]
    tensor_maps: tuple[TensorMap, ...] = ()
    tables: tuple[tuple[Argument, ...], ...] = ()
    """Arguments of launches that do the work of many calls, on a GPU: those of one call after the other."""
    mesh: Mesh = field(default_factory=Mesh)
    collectives: tuple[Collective, ...] = ()
    """What the ranks of the mesh do together, in the order in which it begins."""
    loops: tuple[Loop, ...] = ()
    """Launches that are made again and again, as the plan is written; `parse` writes them out."""

    @classmethod
    def parse(cls, data: bytes) -> Plan:
        """Read `plan.json`; CacheError where it is damaged or contradicts itself."""
        try:
            plan = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise CacheError(f"damaged plan: {error}", advice="compile the program again") from error
        require(isinstance(plan, dict), "no object")
        parsed = cls(
            entry=text(plan.get("entry", "main"), "the entry"),
            arena_bytes=natural(plan.get("arena_bytes"), "the size of the arena"),
            status_slots=natural(plan.get("status_slots", 0), "the number of status slots", 4096),
            inputs=tuple(TensorSpec.parse(e, f"argument {i}") for i, e in enumerate(entries(plan, "inputs"))),
            outputs=tuple(TensorSpec.parse(e, f"result {i}") for i, e in enumerate(entries(plan, "outputs"))),
            constants=tuple(Constant.parse(entry) for entry in entries(plan, "constants")),
            launches=_launches(entries(plan, "launches")),
            checks=tuple(Check.parse(entry) for entry in entries(plan, "checks")),
            tensor_maps=tuple(TensorMap.parse(entry) for entry in entries(plan, "tensor_maps")),
            tables=tuple(_table(entry) for entry in listed(plan.get("tables", []), "the list of tables")),
            mesh=Mesh.parse(plan),
            collectives=tuple(map(Collective.parse, entries(plan, "collectives") if "collectives" in plan else ())),
            loops=tuple(map(Loop.parse, entries(plan, "loops") if "loops" in plan else ())),
        ).without_loops()
        require(len(parsed.checks) <= parsed.status_slots, "fewer status slots than checks")
        parsed.partners()
        parsed._check_donations()
        parsed._check_arguments()
        parsed._check_tables()
        parsed._check_collectives()
        return parsed

    def without_loops(self) -> Plan:
        """The same program, with all launches of its loops."""
        if not self.loops:
            return self
        unrolled = Unrolling(self.launches, self.loops, self.tensor_maps, self.tables)
        unrolled.run()
        places = unrolled.places
        require(all(at in places for item in self.collectives for at in (item.start, item.wait)), "ranks in a loop")
        collectives = (replace(item, start=places[item.start], wait=places[item.wait]) for item in self.collectives)
        return replace(
            self,
            launches=tuple(unrolled.found),
            tensor_maps=tuple(unrolled.new_maps),
            tables=tuple(unrolled.new_tables),
            collectives=tuple(collectives),
            loops=(),
        )

    def to_json(self) -> dict[str, Any]:
        """What `parse` reads; a mesh, tensor maps, tables, collectives and loops only where there are any."""
        maps = {"tensor_maps": [item.to_json() for item in self.tensor_maps]} if self.tensor_maps else {}
        tables = {"tables": [[arg.to_json() for arg in table] for table in self.tables]} if self.tables else {}
        collectives = {"collectives": [item.to_json() for item in self.collectives]} if self.collectives else {}
        loops = {"loops": [item.to_json() for item in self.loops]} if self.loops else {}
        mesh = {"mesh": self.mesh.to_json()} if self.mesh.axes else {}
        return {
            "entry": self.entry,
            **mesh,
            "inputs": [item.to_json() for item in self.inputs],
            "outputs": [item.to_json(is_result=True) for item in self.outputs],
            "constants": [item.to_json() for item in self.constants],
            "launches": [item.to_json() for item in self.launches],
            **loops,
            **maps,
            **tables,
            **collectives,
            "checks": [item.to_json() for item in self.checks],
            "status_slots": self.status_slots,
            "arena_bytes": self.arena_bytes,
        }

    def _check_donations(self) -> None:
        sources = [output.input for output in self.outputs if output.input is not None]
        require(len(set(sources)) == len(sources), "two results are the same argument")
        for output in self.outputs:
            if output.input is None:
                continue
            require(output.input < len(self.inputs), f"a result is argument {output.input}, which does not exist")
            source = self.inputs[output.input]
            same = (source.shape, source.dtype) == (output.shape, output.dtype)
            require(source.donated, f"a result is argument {output.input}, which is not donated")
            require(same, f"a result is argument {output.input}, which has another type")

    def partners(self) -> dict[int, int]:
        """By the number of a launch that reads a bool, that of the one at the other end of what is made again."""
        return partners([item.routine if isinstance(item, HostLaunch) else "" for item in self.launches])

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
        in_tables = [(f"table {number}", arg) for number, table in enumerate(self.tables) for arg in table]
        for what, arg in (*passed, *in_tables):
            buffers, name = sizes[arg.space], f"{arg.space} {arg.index}"
            require(arg.index < len(buffers), f"{what} takes {name}, of which there is none")
            require(arg.offset <= buffers[arg.index], f"{what} reaches beyond {name}")

    def _check_collectives(self) -> None:
        sizes = self.sizes()
        for collective in self.collectives:
            collective.check(sizes, len(self.launches), self.mesh)
        starts = [collective.start for collective in self.collectives]
        require(starts == sorted(starts), "collectives do not begin in their order")

    def _check_tables(self) -> None:
        """A table is read whole, in as many equal parts as the grid's third dimension has blocks."""
        for launch in self.launches:
            for arg in launch.args:
                if arg.space != "table":
                    continue
                name, length = f"table {arg.index}", len(self.tables[arg.index])
                require(isinstance(launch, GpuLaunch), f"{launch.kernel} runs on a CPU and takes {name}")
                calls = launch.grid[2] if isinstance(launch, GpuLaunch) else 0
                require(arg.offset == 0, f"{launch.kernel} takes {name} from byte {arg.offset} on")
                sound = calls > 0 and length > 0 and length % calls == 0
                require(sound, f"{launch.kernel} runs for {calls} calls with the {length} entries of {name}")
