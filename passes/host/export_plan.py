"""The pass that writes the host program down as the plan that the runtime reads, and leaves only kernels."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from blu.dialects.core.constants import decode
from blu.dialects.core.dtypes import TensorType, tensor_type
from blu.dialects.core.locations import describe
from blu.dialects.core.mlir import func, ir
from blu.dialects.plan import MAX_BLOCKS, batch_of
from blu.errors import PassError
from blu.passes.framework.base import Pass, find
from blu.passes.framework.families import kernels_in
from blu.passes.host.bufferize.plan_memory import element_bytes

ALIGNMENT = 64
MAP_BYTES = 128
"""Of a tensor map."""


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
        if "blu.plan" not in module.operation.attributes:
            self.fail(module.operation, "there is no program here: no function but kernels")
        called = {launch["kernel"] for launch in json.loads(_text(module, "blu.plan"))["launches"]}
        for name, kernel in kernels.items():
            if name not in called:
                kernel.operation.erase()


def _text(module: ir.Module, name: str) -> str:
    return ir.StringAttr(module.operation.attributes[name]).value


def _write(module: ir.Module, export: _Export) -> None:
    plan = export.plan()
    arena = module.operation.attributes["blu.arena_bytes"]
    plan["arena_bytes"] = ir.IntegerAttr(arena).value
    module.operation.attributes["blu.plan"] = ir.StringAttr.get(json.dumps(plan))
    module.operation.attributes["blu.contracts"] = ir.StringAttr.get(json.dumps(export.contracts))
    module.operation.attributes["blu.constants"] = ir.StringAttr.get(export.constants.hex())


@dataclass
class _Export:
    """One host function on its way to a plan."""

    function: func.FuncOp
    kernels: dict[str, func.FuncOp]
    constants: bytearray = field(default_factory=bytearray)
    constant_entries: list[dict[str, int]] = field(default_factory=list)
    # For each result the donated input that it is, or None.
    sources: dict[int, int | None] = field(default_factory=dict)
    launches: list[dict[str, Any]] = field(default_factory=list)
    # What the kernel of each launch was compiled for (see runtime/contracts.py).
    contracts: list[dict[str, Any]] = field(default_factory=list)
    # What tensor maps show: offsets and strides in elements, the innermost dimension first.
    maps: list[dict[str, Any]] = field(default_factory=list)
    # Arguments of launches of many calls: those of one call after the other.
    tables: list[list[list[Any]]] = field(default_factory=list)
    # Launches of many calls, by batch and kernel.
    batches: dict[tuple[int, str], dict[str, Any]] = field(default_factory=dict)
    batch_contracts: dict[tuple[int, str], dict[str, Any]] = field(default_factory=dict)
    first_lines: dict[tuple[int, str], str] = field(default_factory=dict)
    # By status slot: kernels may run in another order than the checks were written in.
    checks: dict[int, dict[str, Any]] = field(default_factory=dict)

    def plan(self) -> dict[str, Any]:
        """The plan without the arena's size."""
        handlers = {"plan.buffer": self._buffer, "func.call": self._call, "plan.check": self._check}
        for operation in self.function.entry_block.operations:
            handler = handlers.get(operation.operation.name)
            if handler:
                handler(operation.operation)
        return {
            "entry": self.function.name.value,
            "inputs": self.inputs,
            "outputs": self._outputs(),
            "constants": self.constant_entries,
            "launches": self.launches,
            **({"tensor_maps": self.maps} if self.maps else {}),
            **({"tables": self.tables} if self.tables else {}),
            "checks": [self.checks[slot] for slot in range(len(self.checks))],
            "status_slots": len(self.checks),
        }

    @cached_property
    def inputs(self) -> list[dict[str, Any]]:
        """What the program takes. Read once: every launch asks which of its pointers may be overwritten."""
        attributes = [ir.DictAttr(item) for item in self.function.arg_attrs] if self.function.arguments else []
        entries = []
        for type_, item in zip(_types(self.function, "blu.inputs"), attributes, strict=True):
            entry = _tensor(type_)
            entry["name"] = ir.StringAttr(item["blu.name"]).value if "blu.name" in item else ""
            entry["donated"] = "blu.donated" in item
            entries.append(entry)
        return entries

    def _outputs(self) -> list[dict[str, Any]]:
        types = _types(self.function, "blu.results")
        return [{**_tensor(type_), "input": self.sources[index]} for index, type_ in enumerate(types)]

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
        self.constant_entries.append({"offset": len(self.constants), "bytes": len(data)})
        self.constants.extend(data)

    def _call(self, operation: ir.Operation) -> None:
        name = ir.FlatSymbolRefAttr(operation.attributes["callee"]).value
        size = _launch_size(self.kernels[name], operation)
        if size is None:
            return
        memory = [value for value in operation.operands if isinstance(value.type, ir.MemRefType)]
        arguments = [self._argument(value) for value in memory if not _is_map(value)]
        arguments += [self._map(item, arguments) for item in _tensor_maps(self.kernels[name])]
        location = describe(operation.location) or ""
        launch = {"kernel": name, **size, "args": arguments, "location": location}
        contract = {
            "size": _size_of(size),
            "parameters": [[_bytes_from(value.type), self._kind_of(value)] for value in memory if not _is_map(value)],
            "maps": [_description(item) for item in _tensor_maps(self.kernels[name])],
        }
        number = batch_of(operation)
        if number is None:
            self.launches.append(launch)
            self.contracts.append(contract)
        else:
            self._add_to_batch((number, name), launch, contract)

    def _add_to_batch(self, batch: tuple[int, str], launch: dict[str, Any], contract: dict[str, Any]) -> None:
        """One launch for all calls of a batch: their arguments are in a table, the grid's third size counts them."""
        if batch not in self.batches:
            self.batches[batch] = {**launch, "args": [["table", len(self.tables), 0]]}
            self.launches.append(self.batches[batch])
            self.contracts.append(contract)
            self.batch_contracts[batch] = contract
            self.tables.append(launch["args"])
            self.first_lines[batch] = launch["location"]
            return
        entry = self.batches[batch]
        [[_, table, _]] = entry["args"]
        self.tables[table] += launch["args"]
        count = len(self.tables[table]) // len(launch["args"])
        entry["grid"] = [*launch["grid"][:2], count]
        together = self.batch_contracts[batch]
        together["size"][2] = count
        together["parameters"] += contract["parameters"]
        entry["location"] = f"{self.first_lines[batch]} and {count - 1} more".strip()

    def _argument(self, value: ir.Value) -> list[Any]:
        """Where a pointer points: the root's start, since a kernel adds the offset of its layout itself."""
        if isinstance(value.owner, ir.Block):
            return ["input", ir.BlockArgument(value).arg_number, 0]
        operation = value.owner.operation
        if operation.name == "memref.reinterpret_cast":
            return self._argument(operation.operands[0])
        space, index = _space(operation), _integer(operation, "index")
        if space == "arena":
            return ["arena", _integer(operation, "offset")]
        if space == "status":
            return ["status", 8 * index]
        return [space, index, 0]

    def _kind_of(self, value: ir.Value) -> str:
        """The space of a pointer; "donated" for arguments that the program may overwrite."""
        space, *place = self._argument(value)
        return "donated" if space == "input" and self.inputs[place[0]]["donated"] else space

    def _map(self, described: ir.Attribute, arguments: list[Any]) -> list[Any]:
        """The place of a tensor map of one of a launch's arguments among all maps, each of which is there once."""
        fields = _description(described)
        entry = {"buffer": arguments[fields.pop("argument")], **fields}
        if entry not in self.maps:
            self.maps.append(entry)
        return ["map", MAP_BYTES * self.maps.index(entry)]

    def _check(self, operation: ir.Operation) -> None:
        slot = self._argument(operation.operands[0])[1] // 8
        check = {
            "kind": ir.StringAttr(operation.attributes["kind"]).value,
            "op": ir.StringAttr(operation.attributes["op"]).value,
            "size": _integer(operation, "size"),
            "location": describe(operation.location) or "",
        }
        self.checks.setdefault(slot, check)  # equal checks share a slot, the first one's line is reported


def _description(described: ir.Attribute) -> dict[str, Any]:
    """What a tensor map shows, and of which argument."""
    fields = ir.DictAttr(described)
    argument, offset = (ir.IntegerAttr(fields[name]).value for name in ("argument", "offset"))
    numbers = {name: list(ir.DenseI64ArrayAttr(fields[name])) for name in ("shape", "strides", "box")}
    return {"argument": argument, "offset": offset, "dtype": ir.StringAttr(fields["dtype"]).value, **numbers}


def _size_of(size: dict[str, Any]) -> list[int]:
    """What of a launch's size its kernel depends on."""
    return [*size["grid"], size["threads"], size["shared_bytes"]] if "grid" in size else [size["blocks"]]


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


def _launch_size(kernel: func.FuncOp, call: ir.Operation) -> dict[str, Any] | None:
    """How much of a kernel a launch is: a range of blocks on a CPU, a grid of threads on a GPU; None for nothing."""
    attributes = kernel.attributes
    if "blu.grid" in attributes:
        grid = list(ir.DenseI64ArrayAttr(attributes["blu.grid"]))
        threads, shared = (ir.IntegerAttr(attributes[name]).value for name in ("blu.threads", "blu.shared_bytes"))
        return {"grid": grid, "threads": threads, "shared_bytes": shared}
    blocks = ir.IntegerAttr(attributes["blu.blocks"]).value
    if blocks > MAX_BLOCKS:
        raise PassError(
            f"kernel '{kernel.name.value}' has {blocks} blocks, and one launch can have {MAX_BLOCKS}",
            location=describe(call.location),
            advice="Use smaller shapes.",
        )
    return {"blocks": blocks, "chunk": ir.IntegerAttr(attributes["blu.chunk"]).value} if blocks else None


def _space(operation: ir.Operation) -> str:
    return ir.StringAttr(operation.attributes["space"]).value


def _integer(operation: ir.Operation, name: str) -> int:
    return ir.IntegerAttr(operation.attributes[name]).value


def _types(function: func.FuncOp, name: str) -> list[TensorType]:
    return [tensor_type(ir.TypeAttr(item).value) for item in ir.ArrayAttr(function.attributes[name])]


def _tensor(type_: TensorType) -> dict[str, Any]:
    return {"shape": list(type_.shape), "dtype": type_.dtype.name}
