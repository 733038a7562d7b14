"""Why kernels stay apart, for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from blu.dialects.core.mlir import ir
from blu.passes.framework.rules import Decision
from blu.passes.loops.fuse.flow import Group
from blu.passes.loops.fuse.groups import GroupRefusal


def kernels_apart(
    refusals: Iterable[GroupRefusal], names: Mapping[Group, str], positions: Mapping[ir.Operation, int]
) -> Iterator[Decision]:
    """Each two kernels of which one reads the other's results, or both the same, in program order.

    rows_0 and gemm_1 stay apart: a matrix product begins a kernel (model.py:10 ln, model.py:12 up)
    """
    seen: set[frozenset[Group]] = set()
    for refusal in sorted(refusals, key=lambda item: positions[item.operation]):
        maker, reader = refusal.maker.final, refusal.reader.final
        are_kernels = maker in names and reader in names
        if are_kernels and maker is not reader and frozenset((maker, reader)) not in seen:
            seen.add(frozenset((maker, reader)))
            text = f"{names[maker]} and {names[reader]} stay apart: {refusal.reason}"
            kind = (maker.family.name, reader.family.name, refusal.reason)
            yield Decision(text, kind, (maker.location, refusal.operation.location))
