"""The pass that lets loops do only what somebody reads of them."""

from __future__ import annotations

from collections.abc import Sequence

from blu.dataclass import dataclass, field
from blu.dialects.core.mlir import func, ir
from blu.dialects.core.op import attributes_of, body_blocks_of, emitting_at, is_pure, operands_of
from blu.dialects.ops.control.scan import Scan
from blu.dialects.tensor.tensor import Tensor
from blu.passes.framework.base import Pass, find


@dataclass(frozen=True)
class TrimLoops(Pass):
    """Scans carry, walk along, give and compute only what is read, and carry nothing that stays as it is.

        %a, %b, %ys = "blu.scan"(%a0, %b0, %xs) ({
        ^bb0(%p, %q, %x):  %n = "blu.multiply"(%p, %x)  %m = "blu.exp"(%q)  "blu.yield"(%n, %m, %m)
        })

    becomes, where only %a is read,

        %a = "blu.scan"(%a0, %xs) ({
        ^bb0(%p, %x):  %n = "blu.multiply"(%p, %x)  "blu.yield"(%n)
        })

    A gradient's loop adds up the gradients of all that its body reads; most are asked for some. This comes after equal
    loops have become one: what is read of either is read of that.
    """

    level = "blu"

    def run(self, module: ir.Module) -> None:
        for function in find(module, func.FuncOp):
            self._trim(function.entry_block)

    def _trim(self, block: ir.Block) -> None:
        """Trim the loops of a block, and then those in the bodies that are left."""
        operations = [item.operation for item in block.operations]
        if any(item.name == "blu.scan" for item in operations):
            for operation in reversed(operations[:-1]):
                if operation.name == "blu.scan" and _trimmed(operation):
                    self.count("loops trimmed")
                elif is_pure(operation) and not any(list(item.uses) for item in operation.results):
                    operation.erase()
        for operation in [item.operation for item in block.operations if len(item.operation.regions)]:
            for region in operation.regions:
                self._trim(region.blocks[0])


def _trimmed(operation: ir.Operation) -> bool:
    """Put a smaller scan in a scan's place, where there is one; whether there is."""
    scan = _Scan(operation)
    if not scan.can_be_smaller:
        return False
    for place in scan.unchanged:
        operation.results[place].replace_all_uses_with(scan.carry[place])
    if any(list(result.uses) for result in operation.results) or not is_pure(operation):
        with ir.InsertionPoint(operation), emitting_at(operation.location):
            results = scan.smaller()
        for place, tensor in results.items():
            operation.results[place].replace_all_uses_with(tensor.value)
    operation.erase()
    return True


@dataclass
class _Scan:
    """A scan, and what of it is read."""

    operation: ir.Operation
    # Values and ops of the body that somebody reads, or notices.
    values: set[ir.Value] = field(default_factory=set)
    members: list[ir.Operation] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.carry, self.xs, self.captured = operands_of(self.operation)
        self.block = body_blocks_of(self.operation)["body"]
        operations = [item.operation for item in self.block.operations]
        self.steps, end = operations[:-1], operations[-1]
        self.given = list(end.operands)
        self.unchanged = [place for place in range(len(self.carry)) if self.given[place] == self.block.arguments[place]]
        self.live = {place for place, result in enumerate(self.operation.results) if list(result.uses)}
        self._look_back()  # for what has effects, too, where no result is read
        while not self.live.issuperset(read := self._carried_on()):
            self.live |= read
            self._look_back()
        self.live -= set(self.unchanged)

    def _carried_on(self) -> set[int]:
        """The places of what is carried of which the body reads what it is given."""
        return {place for place in range(len(self.carry)) if self._arguments[place] in self.values}

    @property
    def _arguments(self) -> Sequence[ir.Value]:
        return self.block.arguments

    @property
    def can_be_smaller(self) -> bool:
        """Whether there is anything that no one reads, or that stays as it is."""
        walked = self._arguments[len(self.carry) : len(self.carry) + len(self.xs)]
        return len(self.live) < len(self.given) or any(value not in self.values for value in walked)

    def _look_back(self) -> None:
        """What is read of the body for what is live."""
        self.values = {self.given[place] for place in self.live}
        self.members = []
        for operation in reversed(self.steps):
            if not is_pure(operation) or any(result in self.values for result in operation.results):
                self.members.append(operation)
                self.values.update(operation.operands)
        self.members.reverse()

    def smaller(self) -> dict[int, Tensor]:
        """Write the scan with what is live only; its results by their places in this one."""
        count = len(self.carry)
        carried = [place for place in range(count) if place in self.live]
        walked = [place for place in range(len(self.xs)) if self._arguments[count + place] in self.values]
        given = [*carried, *(place for place in range(count, len(self.given)) if place in self.live)]
        known = dict(zip(self._arguments[count + len(self.xs) :], self.captured, strict=True))
        known |= {self._arguments[place]: self.carry[place] for place in self.unchanged}
        taken = [*(self._arguments[place] for place in carried), *(self._arguments[count + place] for place in walked)]

        def step(*tensors: Tensor) -> list[Tensor]:
            values = known | dict(zip(taken, (tensor.value for tensor in tensors), strict=True))
            for operation in self.members:
                clone = operation.clone()
                for index, operand in enumerate(operation.operands):
                    clone.operands[index] = values[operand]
                values.update(zip(operation.results, clone.results, strict=True))
            return [Tensor(values[self.given[place]]) for place in given]

        settings = attributes_of(self.operation) | {"saved": 0}
        carry, xs = ([Tensor(item[place]) for place in of] for item, of in ((self.carry, carried), (self.xs, walked)))
        return dict(zip(given, Scan(carry, xs, body=step, **settings), strict=True))
