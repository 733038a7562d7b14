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
    """Merge the duplicates in a function's block, and in each body inside of it; how many there were."""
    first: dict[Hashable, ir.Operation] = {}
    merged = 0
    for operation in [item.operation for item in block.operations]:
        key, in_bodies = _key(operation, {})
        merged += in_bodies + _is_merged(operation, key, first)
    return merged


def _is_merged(operation: ir.Operation, key: Hashable, first: dict[Hashable, ir.Operation]) -> bool:
    """Whether an op does what an earlier one does, which takes its place then."""
    earlier = first.setdefault(key, operation) if is_pure(operation) else operation
    if earlier is operation:
        return False
    for old, new in zip(operation.results, earlier.results, strict=True):
        old.replace_all_uses_with(new)
    operation.erase()
    return True


def _key(operation: ir.Operation, inner: dict[ir.Value, int]) -> tuple[Hashable, int]:
    """What an op does to which values, once duplicates in its bodies are merged, and how many there were.

    `inner` numbers the values that are made inside of the op that is looked at.
    """
    found = operation.attributes
    attributes = tuple([(name, found[name]) for name in found])
    operands = tuple([inner.get(value, value) for value in operation.operands])
    results = tuple([result.type for result in operation.results])
    bodies = [_body(block, inner) for region in operation.regions for block in region.blocks]
    key = operation.name, attributes, operands, results, tuple([body for body, _ in bodies])
    return key, sum(merged for _, merged in bodies)


def _body(block: ir.Block, inner: dict[ir.Value, int]) -> tuple[Hashable, int]:
    """What a body does, and how many of its ops were duplicates."""
    arguments, keys, merged = block.arguments, list[Hashable](), 0
    for argument in arguments:
        inner[argument] = len(inner)
    first: dict[Hashable, ir.Operation] = {}
    for operation in [item.operation for item in block.operations]:
        key, in_bodies = _key(operation, inner)
        is_duplicate = _is_merged(operation, key, first)
        merged += in_bodies + is_duplicate
        if not is_duplicate:
            keys.append(key)
            for result in operation.results:
                inner[result] = len(inner)
    return (tuple([argument.type for argument in arguments]), tuple(keys)), merged
