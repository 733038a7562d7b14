"""Work that few elements need: computed only where some element of the vector asks for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from blu.dialects.core.mlir import ir, vector
from blu.passes.kernels.math.elements import Elements, select


def any_element(mask: Elements) -> ir.Value:
    """One i1: whether any element of `mask` is set."""
    if not isinstance(mask.type, ir.VectorType):
        return mask.value
    i1 = ir.IntegerType.get_signless(1)
    flat = mask.value
    if len(mask.type.shape) != 1:
        flat = vector.shape_cast(ir.VectorType.get([math.prod(mask.type.shape)], i1), flat)
    return vector.reduction(i1, vector.CombiningKind.OR, flat)


def where_needed(
    mask: Elements, compute: Callable[[], Sequence[Elements]], otherwise: Sequence[Elements]
) -> list[Elements]:
    """`compute()` in the elements that `mask` names, `otherwise` in the rest; no element named, nothing computed."""
    types = [value.type for value in otherwise]
    branch = ir.Operation.create("scf.if", results=types, operands=[any_element(mask)], regions=2)
    with ir.InsertionPoint(branch.regions[0].blocks.append()):
        chosen = [select(mask, *pair) for pair in zip(compute(), otherwise, strict=True)]
        ir.Operation.create("scf.yield", operands=[value.value for value in chosen])
    with ir.InsertionPoint(branch.regions[1].blocks.append()):
        ir.Operation.create("scf.yield", operands=[value.value for value in otherwise])
    return [Elements(result, mask.fused) for result in branch.results]
