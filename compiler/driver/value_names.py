"""Names for the values of a module: where they come from in the program, and what made them.

    %h.3.mlp.c_fc.matmul    a tensor or a buffer: the module path of its location, and the kind of its op
    %mulf_2                 a number or a vector in a kernel: its kind; the third of them in its scope
    %c1024_i64              a constant: its value

A number behind a name tells values apart that are of one kind in one place, so it changes with its neighbours there
and not with what happens elsewhere in the module. Kernels are told the names of what their first call gives them: a
value is called the same in `main` before it moves into a kernel and in the kernel after that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import cache

from blu.dataclass import dataclass
from blu.dialects.core.locations import place_of
from blu.dialects.core.mlir import ir
from blu.dialects.core.modules import end_of
from blu.dialects.plan import VIEWS
from blu.passes.framework.launches import HOLDERS, ON_GPUS, ON_PROCESSORS, arguments_of, holders_in, kernel_of
from blu.passes.host.export_plan import PLAN

# A splat or a number as MLIR prints it, and its type.
_CONSTANT = re.compile(r"(?:dense<)?(-?\d[\d.eE+-]*)>? : (.+)")
_NUMBERED = re.compile(r"_?\d+$")
_LINALG_WITH_REGIONS = ("linalg.generic", "linalg.map", "linalg.reduce")
_LETTERS = re.compile(r"[^\w.-]+")
_SHORT = {
    "getelementptr": "address",
    "extract_strided_slice": "slice",
    "reinterpret_cast": "view",
    "extractvalue": "part",
    "inline_asm": "asm",
    "shufflevector": "shuffle",
    "extractelement": "element",
}
_CALLS = (ON_PROCESSORS, ON_GPUS)
# What gives the memory of an operand on.
_VIEWS = (*VIEWS, "plan.each")
_STORED = "bufferization.materialize_in_destination"


@dataclass(frozen=True)
class Definition:
    """Where values are defined: `printed` is MLIR's name for them, `names` are ours, one for each or one for all.

    `parameter` says that these are arguments of a function.
    """

    printed: str
    names: tuple[str, ...]
    parameter: bool = False


@cache
def _spelled(wanted: str) -> str:
    """A name as MLIR's text can have it."""
    name = re.sub(r"[^\w.$-]", "_", wanted, flags=re.ASCII)
    return name if re.match(r"[A-Za-z_$.-]", name) else f"_{name}"


class _Scope:
    """Names that values of one function have so far, those of regions that have ended left out."""

    def __init__(self):
        self.taken: set[str] = set()
        self.counts: dict[str, int] = {}
        # What to forget at the end of a region: a name, the word that it is made of, and how many there were.
        self.log: list[tuple[str, str, int]] = []

    def unique(self, wanted: str) -> str:
        """The wanted name, with a number where it is taken."""
        base = _spelled(wanted)
        name, number = base, self.counts.get(base, 0)
        while name in self.taken:
            number += 1
            name = f"{base}_{number}"
        self.log.append((name, base, self.counts.get(base, 0)))
        self.taken.add(name)
        self.counts[base] = number
        return name

    def forget(self, length: int) -> None:
        """Go back to when the log had that many lines."""
        while len(self.log) > length:
            name, base, number = self.log.pop()
            self.taken.remove(name)
            self.counts[base] = number


class ValueNames:
    """The definitions of each function of a module, in the order of the text."""

    def __init__(self, module: ir.Module):
        self.state = ir.AsmState(module.operation)
        blocks = [holder.regions[0].blocks[0] for holder in holders_in(module.operation)]
        held = [item.operation for block in blocks for item in block.operations]
        # What is declared for the host program has its code in the module of kernels.
        self.functions = _by_symbol([*(item.operation for item in module.body.operations), *held])
        self.emitted = set(_by_symbol(held))
        self.definitions: dict[str, list[Definition]] = {}
        self.paths: dict[ir.Location, str] = {}
        self.passed = _passed_by_plan(module)
        # Functions in the order in which they are first called, after the function that calls them first.
        self.order: list[str] = []
        called = {name for function in self.functions.values() for name in _callees(function)}
        for name in [*(name for name in self.functions if name not in called), *self.functions]:
            if name not in self.definitions:
                _Function(self, name, ())

    def path(self, location: ir.Location) -> str:
        """The module path that a location names, or nothing."""
        if location not in self.paths:
            self.paths[location] = place_of(location).path
        return self.paths[location]


class _Function:
    """Names the values of one function; `given` are the names of what its first call passes."""

    def __init__(self, module: ValueNames, name: str, given: tuple[str, ...]):
        self.module = module
        self.name = name
        self.scope = _Scope()
        self.names: dict[ir.Value, str] = {}
        self.found = module.definitions[name] = []
        module.order.append(name)
        function = module.functions[name]
        self.is_emitted = name in module.emitted
        for region in function.regions:
            for number, block in enumerate(region.blocks):
                if number == 0:
                    self._name_parameters(function, block, given)
                else:
                    self._name_arguments(function, block)
                self._name_operations(block)

    def _name_parameters(self, function: ir.Operation, block: ir.Block, given: tuple[str, ...]) -> None:
        wanted = given or self.module.passed.get(self.name) or _parameter_names(function)
        bounds = _bounds(block)
        for number, argument in enumerate(block.arguments):
            printed = argument.get_name(self.module.state)
            name = bounds.get(number) or (wanted[number] if number < len(wanted) else "") or printed[1:]
            # What a kernel reads from memory is called what the tensor was called; the memory stands behind it.
            memory = ".memory" if given and _is_memory_of_tensor(argument) else ""
            self._define(printed, [argument], [name + memory], parameter=True)

    def _name_arguments(self, parent: ir.Operation, block: ir.Block) -> None:
        for number, argument in enumerate(block.arguments):
            printed = argument.get_name(self.module.state)
            stem = _NUMBERED.sub("", printed[1:]) or "arg"
            if parent.name == "scf.for":
                stem = "carried" if number else "i"
            self._define(printed, [argument], [stem])

    def _name_operations(self, block: ir.Block) -> None:
        for item in block.operations:
            operation = item.operation
            self._name_results(operation)
            for region in _printed_regions(operation):
                # Regions beside each other use the same names, as they do in MLIR's text.
                outside = len(self.scope.log)
                for inner in region.blocks:
                    self._name_arguments(operation, inner)
                    self._name_operations(inner)
                self.scope.forget(outside)

    def _name_results(self, operation: ir.Operation) -> None:
        kinds = self._kinds_of_call(operation) if operation.name in _CALLS else None
        results = list(operation.results)
        if not results:
            return
        printed = results[0].get_name(self.module.state).partition("#")[0]
        if kinds is not None and len(kinds) == len(results):
            path = self.module.path(operation.location)
            self._define(printed, results, [_joined(path, kind) for kind in kinds])
        else:
            self._define(printed, results, [self._name_of(operation, results[0])])

    def _name_of(self, operation: ir.Operation, result: ir.Value) -> str:
        content = _content(operation, result)
        if content:  # of several that are the same, the first has the short name
            is_first = self.is_emitted or content not in self.scope.taken
            return content if is_first else _joined(self.module.path(operation.location), content)
        if operation.name == "bufferization.to_tensor":
            memory = self.names.get(operation.operands[0], "")
            return memory.removesuffix(".memory") if memory.endswith(".memory") else "to_tensor"
        if not isinstance(result.type, ir.RankedTensorType | ir.MemRefType):
            return _kind(operation)
        kind = self._kind_of_buffer(result) if operation.name == "plan.buffer" else _kind(operation)
        return _joined(self.module.path(operation.location), kind)

    def _kinds_of_call(self, call: ir.Operation) -> list[str] | None:
        """What a kernel's results are, after it has been named by its first call."""
        name = kernel_of(call)
        if name not in self.module.functions:
            return None
        if name not in self.module.definitions:
            passed = self._argument if name in self.module.emitted else self._passed
            _Function(self.module, name, tuple(map(passed, arguments_of(call))))
        return [
            _kind(value.owner.operation) if _has_op(value) else "call"
            for value in _returned(self.module.functions[name])
        ]

    def _passed(self, value: ir.Value) -> str:
        return self.names.get(value, "") if isinstance(value.type, ir.RankedTensorType | ir.MemRefType) else ""

    def _argument(self, value: ir.Value) -> str:
        """The name of the argument of `main` that a value is (a view of), which is what the plan says of it as well."""
        while _has_op(value) and value.owner.operation.name in _VIEWS:
            value = value.owner.operation.operands[0]
        if _has_op(value) and value.owner.operation.name == "plan.tensor_map":
            name = self._argument(value.owner.operation.operands[0])
            return name and f"{name}.map"
        return "" if _has_op(value) else self.names.get(value, "")

    def _kind_of_buffer(self, buffer: ir.Value) -> str:
        """What a kernel stores in a buffer; "buffer" where kernels no longer say it."""
        for use in buffer.uses:
            callee = _callee(use.owner.operation)
            if callee in self.module.functions and callee not in self.module.emitted:
                kind = _stored(self.module.functions[callee], use.operand_number)
                if kind:
                    return kind
        return "buffer"

    def _define(self, printed: str, values: Sequence[ir.Value], wanted: list[str], *, parameter: bool = False) -> None:
        names = tuple(map(self.scope.unique, wanted))
        self.found.append(Definition(printed, names, parameter))
        each = names if len(names) == len(values) else tuple(f"{names[0]}_{n}" for n in range(len(values)))
        self.names.update(zip(values, each, strict=True))


def _joined(path: str, kind: str) -> str:
    return f"{path}.{kind}" if path else kind


def _kind(operation: ir.Operation) -> str:
    """What an op does, in a word; of a loop over elements, what it does last."""
    if operation.name == "linalg.generic":
        last = end_of(operation.regions[0].blocks[0])
        if len(last.operands) and _has_op(last.operands[0]):
            return _kind(last.operands[0].owner.operation)
    kind = operation.name.rpartition(".")[2]
    return _SHORT.get(kind, kind)


def _by_symbol(operations: Sequence[ir.Operation]) -> dict[str, ir.Operation]:
    """Operations that have a name and code; of those of one name the last."""
    named = [item for item in operations if "sym_name" in item.attributes and item.name not in HOLDERS]
    return {ir.StringAttr(item.attributes["sym_name"]).value: item for item in named}


def _passed_by_plan(module: ir.Module) -> dict[str, tuple[str, ...]]:
    """Names of the program's inputs that each kernel is first given, where the host program is a plan already."""
    if PLAN not in module.operation.attributes:
        return {}
    try:
        plan = json.loads(ir.StringAttr(module.operation.attributes[PLAN]).value)
        inputs = [item["name"] for item in plan["inputs"]]
        return {
            launch["kernel"]: tuple(inputs[place[1]] if place[0] == "input" else "" for place in launch["args"])
            for launch in reversed(plan["launches"])
        }
    except (ValueError, KeyError, IndexError, TypeError):  # a plan that somebody has written
        return {}


def _content(operation: ir.Operation, result: ir.Value) -> str:
    """The name of what is the same wherever it stands: a constant, a tensor without values."""
    if "constant" in operation.name and "value" in operation.attributes:
        return _constant(str(operation.attributes["value"]))
    if operation.name == "tensor.empty":
        return "empty_" + _LETTERS.sub("_", str(result.type).removeprefix("tensor<").rstrip(">"))
    return ""


def _printed_regions(operation: ir.Operation) -> Iterator[ir.Region]:
    """Regions that are in the text: `linalg.fill` and its like have one that their name stands for."""
    if operation.name.startswith("linalg.") and operation.name not in _LINALG_WITH_REGIONS:
        return iter(())
    return iter(operation.regions)


def _has_op(value: ir.Value) -> bool:
    return not isinstance(value.owner, ir.Block)


def _callee(operation: ir.Operation) -> str:
    return kernel_of(operation) if operation.name in _CALLS else ""


def _callees(function: ir.Operation) -> Iterator[str]:
    blocks = [block for region in function.regions for block in region]
    return (name for block in blocks for item in block.operations if (name := _callee(item.operation)))


def _returned(function: ir.Operation) -> list[ir.Value]:
    if not function.regions or not list(function.regions[0].blocks):
        return []
    return list(end_of(function.regions[0].blocks[0]).operands)


def _stored(function: ir.Operation, argument: int) -> str:
    """The kind of what a kernel stores in an argument, or nothing."""
    if not list(function.regions[0].blocks):
        return ""
    for use in function.regions[0].blocks[0].arguments[argument].uses:
        store = use.owner.operation
        if store.name == _STORED and _has_op(store.operands[0]):
            return _kind(store.operands[0].owner.operation)
    return ""


def _is_memory_of_tensor(argument: ir.Value) -> bool:
    return any(use.owner.operation.name in ("bufferization.to_tensor", _STORED) for use in argument.uses)


def _bounds(block: ir.Block) -> dict[int, str]:
    """A kernel's range of blocks: the two numbers at the end of its arguments."""
    scalars = [n for n, item in enumerate(block.arguments) if str(item.type) in ("index", "i64")]
    count = len(block.arguments)
    return {count - 2: "begin", count - 1: "end"} if count > 2 and scalars == [count - 2, count - 1] else {}


def _parameter_names(function: ir.Operation) -> tuple[str, ...]:
    """`blu.name` of each argument, where all have one."""
    if "arg_attrs" not in function.attributes:
        return ()
    items = [ir.DictAttr(item) for item in ir.ArrayAttr(function.attributes["arg_attrs"])]
    return tuple(ir.StringAttr(item["blu.name"]).value if "blu.name" in item else "" for item in items)


def _constant(text: str) -> str:
    """`c1024_i64`, `c0.0078125_f32`, `c0_16xf32`: a constant by its value and type."""
    if text in ("true", "false"):
        return text
    found = _CONSTANT.fullmatch(text)
    if found is None:
        return "cst"
    number, kind = found.groups()
    value = number if re.fullmatch(r"-?\d+", number) else f"{float(number):.6g}".replace("+", "")
    kind = "" if kind == "index" else "_" + kind.removeprefix("vector<").removeprefix("tensor<").rstrip(">")
    return f"c{value}{kind}"
