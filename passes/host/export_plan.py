"""The pass that writes the host program down as the plan that the runtime reads, and leaves only kernels."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from blu.dataclass import dataclass, field
from blu.dialects.core.constants import decode
from blu.dialects.core.dtypes import TensorType, dtype_of_mlir, product, tensor_type
from blu.dialects.core.locations import describe
from blu.dialects.core.mlir import func, ir
from blu.dialects.mesh import mesh_of
from blu.dialects.plan import HOST_CALL, LOOP, LOOP_BODY, PART, RESULT_NAMES, LoopShape
from blu.errors import UnsupportedError
from blu.passes.framework.base import Pass, find
from blu.passes.framework.launches import (
    EARLY,
    ON_GPUS,
    ON_PROCESSORS,
    arguments_of,
    blocks_of,
    grid_of,
    host_functions,
    kernel_of,
)
from blu.passes.host.bufferize.intervals import element_bytes
from blu.passes.host.loop_places import Surroundings, surroundings_of
from blu.plan.arguments import Argument
from blu.plan.collective import Collective
from blu.plan.contract import DONATED, NOWHERE, Contract
from blu.plan.host_launch import HostLaunch, HostTensor
from blu.plan.loops import MAX_LAUNCHES, Loop, number_of_launches
from blu.plan.schema import (
    ALIGNMENT,
    MAP_BYTES,
    Check,
    Constant,
    GpuLaunch,
    Launch,
    Plan,
    TensorMap,
)
from blu.plan.tensors import TensorSpec

PLAN, CONTRACTS, CONSTANTS = "blu.plan", "blu.contracts", "blu.constants"
"""Attributes of a module at level "plan": JSON of the plan and of contracts, hexadecimal digits of constants."""


@dataclass(frozen=True)
class ExportPlan(Pass):
    """The host program becomes JSON in the module attribute `blu.plan`; its constants' bytes go to `blu.constants`.

        func.func @main(%x) { %0 = plan.buffer ...  call @gemm_0(%x, %0) {blu.blocks = 12, blu.chunk = 1} }
        module @kernels { llvm.func @gemm_0(..) { .. } }

    becomes

        module attributes {blu.plan = "{\\"launches\\": [{\\"kernel\\": \\"gemm_0\\", \\"blocks\\": 12, ...}]}"} {
          module @kernels { llvm.func @gemm_0(..) { .. } }
        }
    """

    level = "llvm"
    leads_to = "plan"
    only_removes = True

    def run(self, module: ir.Module) -> None:
        if "blu.arena_bytes" not in module.operation.attributes:
            self.fail(module.operation, "the module does not say how much memory it takes (blu.arena_bytes)")
        bodies = {item.name.value: item for item in host_functions(module) if LOOP_BODY in item.attributes}
        functions = [item for item in host_functions(module) if item.name.value not in bodies]
        if len(functions) != 1:
            names = ", ".join(f"@{function.name.value}" for function in functions) or "no function but kernels"
            self.fail(module.operation, f"a module holds one program; there is {names}")
        [function] = functions
        _write(module, _Export(function, bodies=bodies))
        for item in list(find(module, func.FuncOp)):  # kernels are declared for the program only
            item.operation.erase()


def _write(module: ir.Module, export: _Export) -> None:
    arena = ir.IntegerAttr(module.operation.attributes["blu.arena_bytes"]).value
    module.operation.attributes[PLAN] = ir.StringAttr.get(json.dumps(export.plan(arena).to_json()))
    contracts = [contract.to_json() for contract in export.contracts]
    module.operation.attributes[CONTRACTS] = ir.StringAttr.get(json.dumps(contracts))
    module.operation.attributes[CONSTANTS] = ir.StringAttr.get(export.constants.hex())


@dataclass
class _Export:
    """One host function on its way to a plan."""

    function: func.FuncOp
    constants: bytearray = field(default_factory=bytearray)
    constant_entries: list[Constant] = field(default_factory=list)
    # For each result the donated input that it is, or None.
    sources: dict[int, int | None] = field(default_factory=dict)
    launches: list[Launch | GpuLaunch | HostLaunch] = field(default_factory=list)
    # What the kernel of each launch was compiled for.
    contracts: list[Contract] = field(default_factory=list)
    # Tensor maps, with the number of each.
    maps: dict[TensorMap, int] = field(default_factory=dict)
    # Arguments of launches of many calls: those of one call after the other.
    tables: list[tuple[Argument, ...]] = field(default_factory=list)
    collectives: list[Collective] = field(default_factory=list)
    # The number of a collective by its token.
    begun: dict[ir.Value, int] = field(default_factory=dict)
    # For the constants of the function their numbers among all.
    constant_numbers: dict[int, int] = field(default_factory=dict)
    loops: list[Loop] = field(default_factory=list)
    bodies: Mapping[str, func.FuncOp] = field(default_factory=dict)
    # Where what is written is the body of a loop.
    surroundings: Surroundings | None = None
    # By status slot: kernels may run in another order than the checks were written in.
    checks: dict[int, Check] = field(default_factory=dict)

    def plan(self, arena_bytes: int) -> Plan:
        """The plan, for intermediate results of so many bytes."""
        self.write()
        made = number_of_launches(len(self.launches), self.loops)
        if made > MAX_LAUNCHES:
            raise UnsupportedError(
                f"the loops of the program make {made} launches, and at most {MAX_LAUNCHES} are possible",
                location=describe(self.function.operation.location),
                advice="Let a step do more, or run the program several times.",
            )
        return Plan(
            entry=self.function.name.value,
            arena_bytes=arena_bytes,
            status_slots=len(self.checks),
            inputs=self.inputs,
            outputs=self._outputs(),
            constants=tuple(self.constant_entries),
            launches=tuple(self.launches),  # type: ignore[arg-type]
            checks=tuple(self.checks[slot] for slot in range(len(self.checks))),
            tensor_maps=tuple(self.maps),
            tables=tuple(self.tables),
            mesh=mesh_of(self.function.operation.parent),
            collectives=tuple(self.collectives),
            loops=tuple(self.loops),
        )

    def write(self) -> None:
        """Add the steps of the function."""
        handlers = {
            "plan.buffer": self._buffer,
            "plan.alias": self._alias,
            ON_PROCESSORS: self._launch,
            ON_GPUS: self._launch,
            "plan.check": self._check,
            "plan.start": self._start,
            "plan.wait": self._wait,
            HOST_CALL: self._host_call,
            LOOP: self._loop,
        }
        for operation in self.function.entry_block.operations:
            handler = handlers.get(operation.operation.name)
            if handler:
                handler(operation.operation)

    @cached_property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """What the program takes. Read once: every launch asks which of its pointers may be overwritten."""
        if self.surroundings is not None:
            return self.surroundings.inputs
        attributes = [ir.DictAttr(item) for item in self.function.arg_attrs] if self.function.arguments else []
        types = _types(self.function, "blu.inputs")
        return tuple(_argument_spec(type_, item) for type_, item in zip(types, attributes, strict=True))

    def _outputs(self) -> tuple[TensorSpec, ...]:
        types, attributes = _types(self.function, "blu.results"), self.function.attributes
        named = ir.ArrayAttr(attributes[RESULT_NAMES]) if RESULT_NAMES in attributes else None
        names = [ir.StringAttr(item).value for item in named] if named is not None else [""] * len(types)
        return tuple(
            TensorSpec(name, type_.shape, type_.dtype.name, input=self.sources[index])
            for index, (name, type_) in enumerate(zip(names, types, strict=True))
        )

    def _buffer(self, operation: ir.Operation) -> None:
        space, index = _space(operation), _integer(operation, "index")
        if space == "constant":
            self._constant(operation, index)
        if space == "output" and self.surroundings is None:
            self.sources[index] = None

    def _alias(self, operation: ir.Operation) -> None:
        if self.surroundings is None:
            self.sources[_integer(operation, "result")] = ir.BlockArgument(operation.operands[0]).arg_number

    def _constant(self, operation: ir.Operation, index: int) -> None:
        self.constant_numbers[index] = len(self.constant_entries)
        data = decode(operation.attributes["blu.value"]).tobytes()
        self.constants.extend(bytes(-len(self.constants) % ALIGNMENT))
        self.constant_entries.append(Constant(len(self.constants), len(data)))
        self.constants.extend(data)

    def _launch(self, operation: ir.Operation) -> None:
        passed, location = arguments_of(operation), describe(operation.location) or ""
        calls = _calls(passed)
        buffers = [value for arguments in calls for value in arguments if not _made_by(value, "plan.tensor_map")]
        arguments = tuple(map(self._argument, buffers))
        shown = [self._shown(value.owner, buffers) for value in passed if _made_by(value, "plan.tensor_map")]
        pointers = (*arguments, *(self._map(replace(item, buffer=arguments[number])) for number, item in shown))
        if len(calls) > 1:
            pointers, location = (self._table(arguments),), f"{location} and {len(calls) - 1} more".strip()
        launch = _sized(operation, pointers, location)
        self.launches.append(launch)
        parameters = tuple((_bytes_from(value.type), self._kind_of(value)) for value in buffers)
        self.contracts.append(Contract(launch.size, parameters, tuple(shown)))

    def _table(self, arguments: tuple[Argument, ...]) -> Argument:
        """A table of the arguments of several calls."""
        self.tables.append(arguments)
        return Argument("table", len(self.tables) - 1, 0)

    def _shown(self, described: ir.Operation, buffers: Sequence[ir.Value]) -> tuple[int, TensorMap]:
        """The number of the argument that a tensor map shows, and what it shows of it; the buffer is not said yet."""
        fields, offset = described.attributes, _integer(described, "offset")
        shape, strides, box = (tuple(ir.DenseI64ArrayAttr(fields[name])) for name in ("shape", "strides", "box"))
        dtype = ir.StringAttr(fields["dtype"]).value
        return list(buffers).index(described.operands[0]), TensorMap(NOWHERE, offset, dtype, shape, strides, box)

    @property
    def _arena_start(self) -> int:
        """Where the function's intermediate results begin, in the program's arena."""
        return 0 if self.surroundings is None else self.surroundings.arena

    def _argument(self, value: ir.Value) -> Argument:
        """Where a pointer points: the root's start, since a kernel adds the offset of its layout itself."""
        around = self.surroundings
        if isinstance(value.owner, ir.Block):
            number = ir.BlockArgument(value).arg_number
            return Argument("input", number, 0) if around is None else around.takes[number]
        operation = value.owner.operation
        if operation.name == "memref.reinterpret_cast":
            return self._argument(operation.operands[0])
        if operation.name == PART:
            whole = self._argument(operation.operands[0])
            return replace(whole, offset=whole.offset + _integer(operation, "offset"))
        space, index = _space(operation), _integer(operation, "index")
        if space == "arena":
            return Argument("arena", 0, self._arena_start + _integer(operation, "offset"))
        if space == "output" and around is not None:
            return around.gives[index]
        if space == "constant":
            return Argument(space, self.constant_numbers[index], 0)
        if space == "status":
            assert around is None, "loops carry what checks have found"
            return Argument("status", 0, 8 * index)
        return Argument(space, index, 0)

    def _kind_of(self, value: ir.Value) -> str:
        """The space of a pointer; DONATED for arguments that the program may overwrite."""
        argument = self._argument(value)
        is_donated = argument.space == "input" and self.inputs[argument.index].donated
        return DONATED if is_donated else argument.space

    def _map(self, shown: TensorMap) -> Argument:
        """The place of a tensor map among all maps, each of which is there once."""
        return Argument("map", 0, MAP_BYTES * self.maps.setdefault(shown, len(self.maps)))

    def _loop(self, operation: ir.Operation) -> None:
        """A loop of the launches of its body."""
        shape, number, first = LoopShape.of(operation), len(self.loops), len(self.launches)
        self.loops.append(Loop(first, first, shape.count))
        body = self.bodies[shape.body]
        places = [self._place_of(value) for value in operation.operands]
        arena = self._arena_start + _integer(operation, "arena")
        around = surroundings_of(operation, number, places, arena, self.inputs)
        replace(self, function=body, surroundings=around, constant_numbers={}).write()
        self.loops[number] = Loop(first, len(self.launches), shape.count)

    def _host_call(self, operation: ir.Operation) -> None:
        """A step that the host computes itself, among the launches."""
        count, attributes = _integer(operation, "operands"), operation.attributes
        tensors = [_host_tensor(value.type) for value in operation.operands]
        places = tuple(map(self._place_of, operation.operands))
        routine, numbers = (ir.StringAttr(attributes[name]).value for name in ("routine", "numbers"))
        sides = tuple(tensors[:count]), tuple(tensors[count:])
        where = describe(operation.location) or ""
        self.launches.append(HostLaunch(routine, *sides, places, json.loads(numbers), where))
        kinds = map(self._kind_of, operation.operands)
        parameters = tuple(zip((tensor.nbytes for tensor in tensors), kinds, strict=True))
        self.contracts.append(Contract((), parameters, ()))

    def _start(self, operation: ir.Operation) -> None:
        """A collective; when it is over is not known yet."""
        attributes, (source, target) = operation.attributes, operation.operands
        kind, axis, reduction, dtype = (
            ir.StringAttr(attributes[name]).value for name in ("kind", "axis", "reduction", "dtype")
        )
        ranks, amount = _integer(operation, "ranks"), _integer(operation, "amount")
        count, begun = product(ir.MemRefType(source.type).shape), len(self.launches)
        places = self._place_of(source), self._place_of(target)
        what = (kind, axis, ranks, reduction, amount, dtype, count)
        self.begun[operation.results[0]] = len(self.collectives)
        self.collectives.append(Collective(*what, *places, begun, begun, describe(operation.location) or ""))

    def _wait(self, operation: ir.Operation) -> None:
        number = self.begun[operation.operands[0]]
        self.collectives[number] = replace(self.collectives[number], wait=len(self.launches))

    def _place_of(self, value: ir.Value) -> Argument:
        """Where the elements of a memref, which lie in order, begin."""
        argument = self._argument(value)
        type_ = ir.MemRefType(value.type)
        _, offset = type_.get_strides_and_offset()
        return replace(argument, offset=argument.offset + offset * element_bytes(type_.element_type))

    def _check(self, operation: ir.Operation) -> None:
        slot = self._argument(operation.operands[0]).offset // 8
        kind, op = (ir.StringAttr(operation.attributes[name]).value for name in ("kind", "op"))
        check = Check(kind, op, _integer(operation, "size"), describe(operation.location) or "")
        self.checks.setdefault(slot, check)  # equal checks share a slot, the first one's line is reported


def _argument_spec(type_: TensorType, attributes: ir.DictAttr) -> TensorSpec:
    name = ir.StringAttr(attributes["blu.name"]).value if "blu.name" in attributes else ""
    return TensorSpec(name, type_.shape, type_.dtype.name, "blu.donated" in attributes)


def _bytes_from(type_: ir.Type) -> int:
    """How far beyond its pointer the elements of a memref lie."""
    memref = ir.MemRefType(type_)
    if 0 in memref.shape:
        return 0
    strides, offset = memref.get_strides_and_offset()
    last = sum(max(0, (size - 1) * stride) for size, stride in zip(memref.shape, strides, strict=True))
    return (offset + last + 1) * element_bytes(memref.element_type)


def _calls(passed: Sequence[ir.Value]) -> list[tuple[ir.Value, ...]]:
    """The arguments of each call whose work a launch does."""
    if not passed or not _made_by(passed[0], "plan.each"):
        return [tuple(passed)]
    return list(zip(*(value.owner.operands for value in passed), strict=True))


def _made_by(value: ir.Value, name: str) -> bool:
    return not isinstance(value.owner, ir.Block) and value.owner.name == name


def _sized(launch: ir.Operation, args: tuple[Argument, ...], location: str) -> Launch | GpuLaunch:
    """A range of blocks on a processor, a grid of threads on a GPU."""
    name = kernel_of(launch)
    if launch.name == ON_PROCESSORS:
        blocks = blocks_of(launch)
        return Launch(name, blocks.count, blocks.chunk, args, location)
    grid = grid_of(launch)
    early = EARLY in launch.attributes
    return GpuLaunch(name, grid.blocks, grid.threads, grid.shared_bytes, args, location, early)


def _host_tensor(type_: ir.Type) -> HostTensor:
    memref = ir.MemRefType(type_)
    return HostTensor(tuple(memref.shape), dtype_of_mlir(memref.element_type).name)


def _space(operation: ir.Operation) -> str:
    return ir.StringAttr(operation.attributes["space"]).value


def _integer(operation: ir.Operation, name: str) -> int:
    return ir.IntegerAttr(operation.attributes[name]).value


def _types(function: func.FuncOp, name: str) -> list[TensorType]:
    return [tensor_type(ir.TypeAttr(item).value) for item in ir.ArrayAttr(function.attributes[name])]
