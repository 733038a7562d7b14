"""The pass that computes once what several ops compute alike, bodies of loops included."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from blu.dataclass import dataclass, field
from blu.dialects.core.mlir import func, ir
from blu.dialects.core.op import is_pure
from blu.passes.framework.base import Pass, find


@dataclass(frozen=True)
class MergeDuplicates(Pass):
    """Of ops that do the same to the same operands, only the first stays.

        %1 = linalg.generic ins(%x) { exp }
        %2 = linalg.generic ins(%x) { exp }

    becomes

        %1 = linalg.generic ins(%x) { exp }                        (uses of %2 become uses of %1)

    MLIR's cse does this too, but knows loops apart by their operands alone and compares the bodies of all that share
    them: n loops over one tensor take it n^2 steps. This takes n.
    """

    level = "linalg"

    def run(self, module: ir.Module) -> None:
        for function in find(module, func.FuncOp):
            if not function.is_external:
                self.count("ops merged", _merge(function.entry_block))


def _merge(block: ir.Block) -> int:
    """Merge the duplicates in a block, and in each body inside of it; how many there were."""
    alike: dict[Hashable, _Alike] = {}
    merged = 0
    for operation in [item.operation for item in block.operations]:
        bodies = _bodies(operation)
        merged += sum(_merge(body) for body in bodies if not _is_of_one(body))
        if is_pure(operation):
            merged += alike.setdefault(_outline(operation, {}), _Alike()).is_merged(operation, bodies)
    return merged


def _is_of_one(body: ir.Block) -> bool:
    """Whether a body has one op, without bodies of its own, besides its end: it has no duplicates."""
    operations = body.operations
    return len(operations) <= 2 and not operations[0].operation.regions


@dataclass
class _Alike:
    """Ops that do something to the same values. Bodies are read only where there is more than one such op."""

    single: ir.Operation | None = None
    by_body: dict[Hashable, ir.Operation] = field(default_factory=dict)

    def is_merged(self, operation: ir.Operation, bodies: Sequence[ir.Block]) -> bool:
        """Whether an op does what an earlier one does, which takes its place then."""
        if self.single is None:
            self.single = operation
            return False
        if not self.by_body:
            self.by_body[_key_of(_bodies(self.single))] = self.single
        earlier = self.by_body.setdefault(_key_of(bodies), operation)
        if earlier is operation:
            return False
        for old, new in zip(operation.results, earlier.results, strict=True):
            old.replace_all_uses_with(new)
        operation.erase()
        return True


def _bodies(operation: ir.Operation) -> list[ir.Block]:
    return [body for region in operation.regions for body in region.blocks]


def _key_of(bodies: Sequence[ir.Block]) -> Hashable:
    """What the bodies of an op do. Values made in them are numbered."""
    inner: dict[ir.Value, int] = {}
    return tuple([_body(body, inner) for body in bodies])


def _outline(operation: ir.Operation, inner: dict[ir.Value, int]) -> Hashable:
    """What an op does to which values, but for its bodies; `inner` numbers those that are made inside of one."""
    found = operation.attributes
    attributes = tuple([(name, found[name]) for name in found])
    operands = tuple([inner.get(value, value) for value in operation.operands])
    return operation.name, attributes, operands, tuple([result.type for result in operation.results])


def _body(block: ir.Block, inner: dict[ir.Value, int]) -> Hashable:
    arguments, keys = block.arguments, list[Hashable]()
    for argument in arguments:
        inner[argument] = len(inner)
    for operation in [item.operation for item in block.operations]:
        keys.append((_outline(operation, inner), tuple([_body(body, inner) for body in _bodies(operation)])))
        for result in operation.results:
            inner[result] = len(inner)
    return tuple([argument.type for argument in arguments]), tuple(keys)
