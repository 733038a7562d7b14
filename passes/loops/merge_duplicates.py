"""The pass that computes once what several ops compute alike, bodies of loops included."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

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
    """Merge the duplicates in a block, and before in each body inside of it; how many there were."""
    first: dict[Hashable, ir.Operation] = {}
    merged = 0
    for operation in [item.operation for item in block.operations]:
        merged += sum(_merge(inner) for region in operation.regions for inner in region.blocks)
        if not is_pure(operation):
            continue
        earlier = first.setdefault(_key(operation, {}), operation)
        if earlier is operation:
            continue
        for old, new in zip(operation.results, earlier.results, strict=True):
            old.replace_all_uses_with(new)
        operation.erase()
        merged += 1
    return merged


def _key(operation: ir.Operation, inner: dict[ir.Value, int]) -> Hashable:
    """What an op does to which values. `inner` numbers the values that are made inside of the op that is looked at."""
    attributes = tuple((name, operation.attributes[name]) for name in operation.attributes)
    operands = tuple(inner.get(value, value) for value in operation.operands)
    results = tuple(result.type for result in operation.results)
    bodies = tuple(_body(block, inner) for region in operation.regions for block in region.blocks)
    return operation.name, attributes, operands, results, bodies


def _body(block: ir.Block, inner: dict[ir.Value, int]) -> Hashable:
    types = tuple(argument.type for argument in block.arguments)
    for argument in block.arguments:
        inner[argument] = len(inner)
    keys = []
    for item in block.operations:
        keys.append(_key(item.operation, inner))
        for result in item.operation.results:
            inner[result] = len(inner)
    return types, tuple(keys)
