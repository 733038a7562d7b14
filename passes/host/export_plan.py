"""The pass that writes the host program down as the plan that the runtime reads, and leaves only kernels."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import cached_property

from blu.dialects.core.constants import decode
from blu.dialects.core.dtypes import TensorType, tensor_type
from blu.dialects.core.locations import describe
from blu.dialects.core.mlir import func, ir
from blu.dialects.plan import batch_of
from blu.errors import PassError
from blu.passes.framework.base import Pass, find
from blu.passes.framework.kernels import kernels_in
from blu.passes.host.bufferize.plan_memory import element_bytes
from blu.passes.kernels.launch import GRID, SHARED, THREADS
from blu.plan.contract import DONATED, NOWHERE, Contract
from blu.plan.schema import (
    ALIGNMENT,
    MAP_BYTES,
    MAX_BLOCKS,
    Argument,
    Check,
    Constant,
    GpuLaunch,
    Launch,
    Plan,
    TensorMap,
)
from blu.plan.tensors import TensorSpec

PLAN, CONTRACTS, CONSTANTS = "blu.plan", "blu.contracts", "blu.constants"
"""Attributes of a module at level "llvm": JSON of the plan and of contracts, hexadecimal digits of constants."""


@dataclass(frozen=True)
class ExportPlan(Pass):
    """The host program becomes JSON in the module attribute `blu.plan`; its constants' bytes go to `blu.constants`.

        func.func @main(%arg0) { %0 = plan.buffer ...  call @gemm_0(%arg0, %0, %c0, %c12) }

    becomes

        module attributes {blu.plan = "{\\"launches\\": [{\\"kernel\\": \\"gemm_0\\", \\"blocks\\": 12, ...}]}"}
    """

    level = "kernel"

    def run(self, module: ir.Module) -> None:
        kernels = kernels_in(module)
        if "blu.arena_bytes" not in module.operation.attributes:
            self.fail(module.operation, "the module does not say how much memory it takes (blu.arena_bytes)")
        for function in list(find(module, func.FuncOp)):
            if function.name.value not in kernels:
                _write(module, _Export(function, kernels))
                function.operation.erase()
        if PLAN not in module.operation.attributes:
            self.fail(module.operation, "there is no program here: no function but kernels")
        called = {launch.kernel for launch in read_plan(module).launches}
        for name, kernel in kernels.items():
            if name not in called:
                kernel.operation.erase()


def read_plan(module: ir.Module) -> Plan:
    """The plan of a module at level "llvm"."""
    return Plan.parse(ir.StringAttr(module.operation.attributes[PLAN]).value.encode())


def write_plan(module: ir.Module, plan: Plan) -> None:
    """Keep a plan in the module."""
    module.operation.attributes[PLAN] = ir.StringAttr.get(json.dumps(plan.to_json()))


def _write(module: ir.Module, export: _Export) -> None:
    arena = ir.IntegerAttr(module.operation.attributes["blu.arena_bytes"]).value
    write_plan(module, export.plan(arena))
    contracts = [contract.to_json() for contract in export.contracts]
    module.operation.attributes[CONTRACTS] = ir.StringAttr.get(json.dumps(contracts))
    module.operation.attributes[CONSTANTS] = ir.StringAttr.get(export.constants.hex())


@dataclass
class _Export:
    """One host function on its way to a plan."""

    function: func.FuncOp
    kernels: dict[str, func.FuncOp]
    constants: bytearray = field(default_factory=bytearray)
    constant_entries: list[Constant] = field(default_factory=list)
    # For each result the donated input that it is, or None.
    sources: dict[int, int | None] = field(default_factory=dict)
    launches: list[Launch | GpuLaunch] = field(default_factory=list)
    # What the kernel of each launch was compiled for.
    contracts: list[Contract] = field(default_factory=list)
    maps: list[TensorMap] = field(default_factory=list)
    # Arguments of launches of many calls: those of one call after the other.
    tables: list[tuple[Argument, ...]] = field(default_factory=list)
    # The places of launches of many calls among all, by batch and kernel, and the line of their first call.
    batches: dict[tuple[int, str], int] = field(default_factory=dict)
    first_lines: dict[tuple[int, str], str] = field(default_factory=dict)
    # By status slot: kernels may run in another order than the checks were written in.
    checks: dict[int, Check] = field(default_factory=dict)

    def plan(self, arena_bytes: int) -> Plan:
        """The plan, for intermediate results of so many bytes."""
        handlers = {"plan.buffer": self._buffer, "func.call": self._call, "plan.check": self._check}
        for operation in self.function.entry_block.operations:
            handler = handlers.get(operation.operation.name)
            if handler:
                handler(operation.operation)
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
        )

    @cached_property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """What the program takes. Read once: every launch asks which of its pointers may be overwritten."""
        attributes = [ir.DictAttr(item) for item in self.function.arg_attrs] if self.function.arguments else []
        types = _types(self.function, "blu.inputs")
        return tuple(_argument_spec(type_, item) for type_, item in zip(types, attributes, strict=True))

    def _outputs(self) -> tuple[TensorSpec, ...]:
        types = enumerate(_types(self.function, "blu.results"))
        return tuple(TensorSpec("", type_.shape, type_.dtype.name, input=self.sources[index]) for index, type_ in types)

    def _buffer(self, operation: ir.Operation) -> None:
        space, index = _space(operation), _integer(operation, "index")
        if space == "constant":
            self._constant(operation, index)
        if space in ("output", "input"):
            self.sources[index] = _integer(operation, "offset") if space == "input" else None

    def _constant(self, operation: ir.Operation, index: int) -> None:
        assert index == len(self.constant_entries), "constants are numbered in order"
        data = decode(operation.attributes["blu.value"]).tobytes()
        self.constants.extend(bytes(-len(self.constants) % ALIGNMENT))
        self.constant_entries.append(Constant(len(self.constants), len(data)))
        self.constants.extend(data)

    def _call(self, operation: ir.Operation) -> None:
        name = ir.FlatSymbolRefAttr(operation.attributes["callee"]).value
        if not _has_blocks(self.kernels[name]):
            return
        memory = [value for value in operation.operands if isinstance(value.type, ir.MemRefType) and not _is_map(value)]
        arguments = [self._argument(value) for value in memory]
        shown = [_shown(item) for item in _tensor_maps(self.kernels[name])]
        pointers = (*arguments, *(self._map(replace(item, buffer=arguments[number])) for number, item in shown))
        launch = _launch(self.kernels[name], operation, pointers)
        parameters = tuple((_bytes_from(value.type), self._kind_of(value)) for value in memory)
        contract = Contract(launch.size, parameters, tuple(shown))
        number = batch_of(operation)
        if number is None:
            self._append(launch, contract)
        else:
            assert isinstance(launch, GpuLaunch), "processors have no batches"
            self._add_to_batch((number, name), launch, contract)

    def _append(self, launch: Launch | GpuLaunch, contract: Contract) -> None:
        self.launches.append(launch)
        self.contracts.append(contract)

    def _add_to_batch(self, batch: tuple[int, str], launch: GpuLaunch, contract: Contract) -> None:
        """One launch for all calls of a batch: their arguments are in a table, the grid's third size counts them."""
        if batch not in self.batches:
            self.batches[batch], self.first_lines[batch] = len(self.launches), launch.location
            self._append(replace(launch, args=(Argument("table", len(self.tables), 0),)), contract)
            self.tables.append(launch.args)
            return
        place = self.batches[batch]
        (argument,), together = self.launches[place].args, self.contracts[place]
        self.tables[argument.index] += launch.args
        count = len(self.tables[argument.index]) // len(launch.args)
        location = f"{self.first_lines[batch]} and {count - 1} more".strip()
        counted = replace(launch, grid=(*launch.grid[:2], count), args=(argument,), location=location)
        self.launches[place] = counted
        self.contracts[place] = Contract(counted.size, together.parameters + contract.parameters, together.maps)

    def _argument(self, value: ir.Value) -> Argument:
        """Where a pointer points: the root's start, since a kernel adds the offset of its layout itself."""
        if isinstance(value.owner, ir.Block):
            return Argument("input", ir.BlockArgument(value).arg_number, 0)
        operation = value.owner.operation
        if operation.name == "memref.reinterpret_cast":
            return self._argument(operation.operands[0])
        space, index = _space(operation), _integer(operation, "index")
        if space == "arena":
            return Argument("arena", 0, _integer(operation, "offset"))
        if space == "status":
            return Argument("status", 0, 8 * index)
        return Argument(space, index, 0)

    def _kind_of(self, value: ir.Value) -> str:
        """The space of a pointer; DONATED for arguments that the program may overwrite."""
        argument = self._argument(value)
        is_donated = argument.space == "input" and self.inputs[argument.index].donated
        return DONATED if is_donated else argument.space

    def _map(self, shown: TensorMap) -> Argument:
        """The place of a tensor map among all maps, each of which is there once."""
        if shown not in self.maps:
            self.maps.append(shown)
        return Argument("map", 0, MAP_BYTES * self.maps.index(shown))

    def _check(self, operation: ir.Operation) -> None:
        slot = self._argument(operation.operands[0]).offset // 8
        kind, op = (ir.StringAttr(operation.attributes[name]).value for name in ("kind", "op"))
        check = Check(kind, op, _integer(operation, "size"), describe(operation.location) or "")
        self.checks.setdefault(slot, check)  # equal checks share a slot, the first one's line is reported


def _argument_spec(type_: TensorType, attributes: ir.DictAttr) -> TensorSpec:
    name = ir.StringAttr(attributes["blu.name"]).value if "blu.name" in attributes else ""
    return TensorSpec(name, type_.shape, type_.dtype.name, "blu.donated" in attributes)


def _shown(described: ir.Attribute) -> tuple[int, TensorMap]:
    """The number of the argument that a tensor map shows, and what it shows of it; the buffer is not known yet."""
    fields = ir.DictAttr(described)
    argument, offset = (ir.IntegerAttr(fields[name]).value for name in ("argument", "offset"))
    shape, strides, box = (tuple(ir.DenseI64ArrayAttr(fields[name])) for name in ("shape", "strides", "box"))
    return argument, TensorMap(NOWHERE, offset, ir.StringAttr(fields["dtype"]).value, shape, strides, box)


def _bytes_from(type_: ir.Type) -> int:
    """How far beyond its pointer the elements of a memref lie."""
    memref = ir.MemRefType(type_)
    if 0 in memref.shape:
        return 0
    strides, offset = memref.get_strides_and_offset()
    last = sum(max(0, (size - 1) * stride) for size, stride in zip(memref.shape, strides, strict=True))
    return (offset + last + 1) * element_bytes(memref.element_type)


def _is_map(value: ir.Value) -> bool:
    owner = value.owner
    return not isinstance(owner, ir.Block) and owner.name == "plan.buffer" and _space(owner.operation) == "map"


def _tensor_maps(kernel: func.FuncOp) -> list[ir.Attribute]:
    """Descriptions of the tensor maps that a kernel takes as its last arguments."""
    return list(ir.ArrayAttr(kernel.attributes["blu.tensor_maps"])) if "blu.tensor_maps" in kernel.attributes else []


def _has_blocks(kernel: func.FuncOp) -> bool:
    """Whether there is anything to launch."""
    return "blu.blocks" not in kernel.attributes or ir.IntegerAttr(kernel.attributes["blu.blocks"]).value > 0


def _launch(kernel: func.FuncOp, call: ir.Operation, args: tuple[Argument, ...]) -> Launch | GpuLaunch:
    """A range of blocks on a CPU, a grid of threads on a GPU."""
    attributes, name, location = kernel.attributes, kernel.name.value, describe(call.location) or ""
    if GRID in attributes:
        x, y, z = ir.DenseI64ArrayAttr(attributes[GRID])
        threads, shared = (ir.IntegerAttr(attributes[item]).value for item in (THREADS, SHARED))
        return GpuLaunch(name, (x, y, z), threads, shared, args, location)
    blocks, chunk = (ir.IntegerAttr(attributes[item]).value for item in ("blu.blocks", "blu.chunk"))
    if blocks > MAX_BLOCKS:
        raise PassError(
            f"kernel '{name}' has {blocks} blocks, and one launch can have {MAX_BLOCKS}",
            location=describe(call.location),
            advice="Use smaller shapes.",
        )
    return Launch(name, blocks, chunk, args, location)


def _space(operation: ir.Operation) -> str:
    return ir.StringAttr(operation.attributes["space"]).value


def _integer(operation: ir.Operation, name: str) -> int:
    return ir.IntegerAttr(operation.attributes[name]).value


def _types(function: func.FuncOp, name: str) -> list[TensorType]:
    return [tensor_type(ir.TypeAttr(item).value) for item in ir.ArrayAttr(function.attributes[name])]
