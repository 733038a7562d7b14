"""The `plan` dialect: the steps of the host program, and the memory that they work on.

    "plan.check"(%found) {kind = "index", op = "take", size = 10}          -- before buffers are placed, on a tensor
    %parts = "plan.parts"(%sum) : (tensor<4x8xf32>) -> tensor<3x4x8xf32>   -- in a kernel: a sum that is left in parts
    %0 = "plan.buffer"() {space = "arena", index = 0, offset = 4096} : () -> memref<4x8xf32>
    %1 = "plan.part"(%0) {offset = 64} : .. -> memref<2x8xf32>             -- the buffer's memory from byte 64 on
    "plan.alias"(%state) {result = 1}                                      -- result 1 is this argument, written over

Spaces: "arena" (intermediates; `offset` in bytes, -1 until planned), "output" (`index` counts results), "constant"
(`index` counts constants), "status" (`index` counts checks, one i64 each).

Collectives are begun and waited for; in between, what is sent stays as it is and what is received is not read:

    %token = "plan.start"(%mine, %all) {kind = "all_gather", axis = "dp", ranks = 4, ..} : (..) -> !async.token
    "plan.wait"(%token, %mine, %all)

What the host computes itself has its operands first, then its results:

    "plan.host_call"(%a, %b, %x, %found) {routine = "solve", operands = 2, numbers = "{}"}

Launches pass buffers and views of them. A launch on a GPU may pass two things more:

    %map = "plan.tensor_map"(%x) {offset = 0, dtype = "bf16", shape = .., strides = .., box = ..} : .. -> memref<128xi8>
    %x = "plan.each"(%x0, %x1)                                             -- in block z of the grid that of call z

Calls of kernels with the same number in `blu.batch` stand side by side and run at the same time, in any order; at level
"kernel" those of one kernel are one launch.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from blu.dataclass import dataclass
from blu.dialects.core.dialect import (
    OPERAND,
    OPTIONAL,
    RESULT,
    VARIADIC,
    PythonDialect,
    Slot,
    attribute,
    operand,
    result,
)
from blu.dialects.core.fields import RESULT_SEGMENTS, SEGMENTS, check_number, slots
from blu.dialects.core.mlir import ir

# The attribute of a call that says which others run at the same time, and of a kernel that runs for many calls at once.
BATCH = "blu.batch"
# The attribute of a launch in a batch that comes after so many others of the same call; the first has none.
LAUNCH = "blu.launch"
RESULT_NAMES = "blu.result_names"
"""The attribute of a host program over memory with the name of each result, empty where it is only a number."""

PlanDialect = PythonDialect("plan")
"""The host program of a compiled module."""

# Make the host raise if the 0-d i64 tensor holds anything but NOTHING_FOUND.
PlanDialect.declare("check", operand("found"), *map(attribute, ("kind", "op", "size")))

# Inside of a kernel: the sums that blocks make of their shares of a contraction, before they are added.
PlanDialect.declare("parts", operand("total"), result("result"))

# A piece of memory that the host provides.
PlanDialect.declare("buffer", *map(attribute, ("space", "index", "offset")), result("result"))

# The memory of a buffer from so many bytes on. A view says in its type where it begins; this is a place.
#
# So kernels that work on parts of one buffer are equal, wherever these begin.
PlanDialect.declare("part", operand("buffer"), attribute("offset"), result("result"))

# A result of the program is a donated argument, which was written over.
PlanDialect.declare("alias", operand("argument"), attribute("result"))

# A collective begins, after those before it: from `source` to `target`, which may be one, row by row.
#
# `dtype` is that of the elements, `kind` the op's name, `amount` its root or shift; `reduction` may be empty.
PlanDialect.declare(
    "start",
    operand("source"),
    operand("target"),
    *map(attribute, ("kind", "axis", "ranks", "reduction", "amount", "dtype")),
    result("result"),
)

# A collective that has begun is done: what it read may be written, and what it wrote be read.
PlanDialect.declare("wait", operand("token"), operand("source"), operand("target"))

HOST_SLOTS = 8
"""How many pieces of memory a routine of the host takes and gives at most."""


# The host computes a routine of `blu.plan.routines`: `operands` pieces of memory are read, the others written.
# `numbers` is JSON of what the routine takes besides.
PlanDialect.declare(
    "host_call",
    *(operand(f"memory_{slot}", OPTIONAL) for slot in range(HOST_SLOTS)),
    *map(attribute, ("routine", "operands", "numbers")),
)
HOST_CALL = "plan.host_call"


# What a GPU's copy engine is told of a buffer, as `blu.plan.schema.TensorMap` says it.
PlanDialect.declare(
    "tensor_map", operand("buffer"), *map(attribute, ("offset", "dtype", "shape", "strides", "box")), result("result")
)

# What a launch that does the work of many calls passes: in block z of its grid the argument of call z.
PlanDialect.declare(
    "each", Slot(OPERAND, "arguments", VARIADIC, constraint="T"), Slot(RESULT, "result", constraint="T")
)

PART = "plan.part"
VIEWS = ("memref.reinterpret_cast", PART)
"""Host ops that give the memory of their operand another shape, or a part of it."""
LOOP_SLOTS = 512
"""How many tensors, or pieces of memory, a loop has at most."""


# A host function, done `count` times: what it carries, slices of what it walks along, and what it reads else.
#
# On tensors, operands are what is carried at first, what slices are taken of, and what is read else, and results what
# is carried in the end, and what slices are put together to. On memory, operands are the cells of what is carried,
# then as before, and then what is put together: nothing is a result. `arena` is where in the arena the function's
# own begins, in bytes.
PlanDialect.declare(
    "loop",
    *(operand(f"operand_{slot}", OPTIONAL) for slot in range(LOOP_SLOTS)),
    *map(attribute, ("body", "count", "carries", "slices", "given", "kept", "reverse", "arena")),
    *(result(f"result_{slot}", OPTIONAL) for slot in range(LOOP_SLOTS)),
)
LOOP = "plan.loop"
GOES_ON = "blu.goes_on"
LOOP_BODY = "blu.loop_body"
"""The attribute of a host function that is the body of a loop, with the number of results that are carried."""


@dataclass(frozen=True)
class LoopShape:
    """What a loop says of itself, besides what it works on: how many values it carries, takes slices of, and gives
    slices of. After those it gives all of what was carried, for each (number, shift) in `kept`: what was carried into
    each step where the shift is 0, and what was carried out of it where that is 1. A loop that `goes_on` is done once,
    again and again while the first that it carries is true.
    """

    body: str
    count: int
    carries: int
    slices: int
    given: int
    reverse: bool
    kept: tuple[tuple[int, int], ...] = ()
    goes_on: bool = False

    @property
    def stacked(self) -> set[int]:
        """What is carried whose values of all steps are kept."""
        return {number for number, _ in self.kept}

    @classmethod
    def of(cls, operation: ir.Operation) -> "LoopShape":
        """That of a `plan.loop`."""
        names = ("count", "carries", "slices", "given", "reverse")
        *numbers, reverse = (ir.IntegerAttr(operation.attributes[name]).value for name in names)
        goes_on = GOES_ON in operation.attributes
        kept = list(ir.DenseI64ArrayAttr(operation.attributes["kept"]))
        pairs = tuple(zip(kept[::2], kept[1::2], strict=True))
        return cls(body_of(operation), *numbers, reverse=bool(reverse), kept=pairs, goes_on=goes_on)

    def attributes(self) -> dict[str, ir.Attribute]:
        """What the op has."""
        numbers = {"count": self.count, "carries": self.carries, "slices": self.slices, "given": self.given}
        found = {name: _i64(value) for name, value in {**numbers, "reverse": self.reverse, "arena": -1}.items()}
        kept = ir.DenseI64ArrayAttr.get([item for pair in self.kept for item in pair])
        again = {GOES_ON: ir.UnitAttr.get()} if self.goes_on else {}
        return {"body": ir.FlatSymbolRefAttr.get(self.body), "kept": kept, **found, **again}


def body_of(operation: ir.Operation) -> str:
    """The name of a loop's body."""
    return ir.FlatSymbolRefAttr(operation.attributes["body"]).value


def loop(shape: LoopShape, operands: Sequence[ir.Value], results: Sequence[ir.Type]) -> ir.Operation:
    """Emit a loop, on tensors or on memory. ShapeError where it has more of these than there are slots for."""
    for number, what in ((len(operands), "that a loop takes"), (len(results), "that a loop gives")):
        check_number(number, LOOP_SLOTS, what)
    segments = {
        SEGMENTS: slots([len(operands)], [LOOP_SLOTS]),
        RESULT_SEGMENTS: slots([len(results)], [LOOP_SLOTS]),
    }
    attributes = {**shape.attributes(), **segments}
    return ir.Operation.create(LOOP, results=list(results), operands=list(operands), attributes=attributes)


def _i64(value: int) -> ir.IntegerAttr:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)


def check(found: ir.Value, *, kind: str, op: str, size: int) -> None:
    """Emit a check at the current insertion point and location."""
    text = ir.StringAttr.get
    ir.Operation.create(
        "plan.check", operands=[found], attributes={"kind": text(kind), "op": text(op), "size": _i64(size)}
    )


def buffer(type_: ir.Type, space: str, index: int, offset: int = -1) -> ir.Value:
    """Emit a buffer of a memref type."""
    attributes = {"space": ir.StringAttr.get(space), "index": _i64(index), "offset": _i64(offset)}
    return ir.Operation.create("plan.buffer", results=[type_], attributes=attributes).result


def part(type_: ir.Type, memory: ir.Value, offset: int) -> ir.Value:
    """Emit the memory of a buffer from byte `offset` on."""
    return ir.Operation.create(PART, results=[type_], operands=[memory], attributes={"offset": _i64(offset)}).result


def parts(type_: ir.Type, total: ir.Value) -> ir.Value:
    """Emit the parts of a contraction's result, which come first in their type."""
    return ir.Operation.create("plan.parts", results=[type_], operands=[total]).result


def start(source: ir.Value, target: ir.Value, fields: Mapping[str, str | int]) -> ir.Value:
    """Emit that a collective begins: the token to wait for. `fields` are all attributes of `Start`."""
    attributes = {
        name: _i64(value) if isinstance(value, int) else ir.StringAttr.get(value) for name, value in fields.items()
    }
    token = ir.Type.parse("!async.token")
    return ir.Operation.create("plan.start", results=[token], operands=[source, target], attributes=attributes).result


def wait(token: ir.Value) -> ir.Operation:
    """Emit that a collective is waited for."""
    return ir.Operation.create("plan.wait", operands=[token, *token.owner.operands])


def is_status(memref: ir.Value) -> bool:
    """Whether memory is a slot of a check."""
    owner = memref.owner
    if isinstance(owner, ir.Block) or owner.name != "plan.buffer":
        return False
    return ir.StringAttr(owner.attributes["space"]).value == "status"


def host_call(
    routine: str, operands: Sequence[ir.Value], results: Sequence[ir.Value], numbers: Mapping[str, Any]
) -> ir.Operation:
    """Emit that the host computes a routine, from memory to memory."""
    attributes = {
        "routine": ir.StringAttr.get(routine),
        "operands": _i64(len(operands)),
        "numbers": ir.StringAttr.get(json.dumps(dict(numbers))),
        SEGMENTS: slots([len(operands) + len(results)], [HOST_SLOTS]),
    }
    return ir.Operation.create(HOST_CALL, operands=[*operands, *results], attributes=attributes)


def alias(argument: ir.Value, result: int) -> None:
    """Emit that a result is an argument."""
    ir.Operation.create("plan.alias", operands=[argument], attributes={"result": _i64(result)})


def tensor_map(type_: ir.Type, buffer: ir.Value, shown: ir.DictAttr) -> ir.Value:
    """Emit a tensor map of a buffer, of which `shown` has the fields."""
    attributes = {name: shown[name] for name in ("offset", "dtype", "shape", "strides", "box")}
    return ir.Operation.create("plan.tensor_map", results=[type_], operands=[buffer], attributes=attributes).result


def each(arguments: Sequence[ir.Value]) -> ir.Value:
    """Emit what stands for the arguments of several calls, which are of one type."""
    return ir.Operation.create("plan.each", results=[arguments[0].type], operands=list(arguments)).result


def batch_of(operation: ir.Operation) -> int | None:
    """The number of the batch that a call belongs to."""
    return ir.IntegerAttr(operation.attributes[BATCH]).value if BATCH in operation.attributes else None


def launch_of(operation: ir.Operation) -> int:
    """How many launches of the same call come before this one."""
    return ir.IntegerAttr(operation.attributes[LAUNCH]).value if LAUNCH in operation.attributes else 0


def put_in_batch(operation: ir.Operation, number: int, launch: int = 0) -> None:
    """Let a call, or the launch of one that comes after so many others, belong to a batch."""
    operation.attributes[BATCH] = _i64(number)
    if launch:
        operation.attributes[LAUNCH] = _i64(launch)


def take_out_of_batch(operation: ir.Operation) -> None:
    """Let a call be a launch of its own."""
    for name in (BATCH, LAUNCH):
        if name in operation.attributes:
            del operation.attributes[name]


def load(context: ir.Context) -> None:
    """Register the `plan` dialect in a context."""
    with context, ir.Location.unknown():
        PlanDialect.load()
