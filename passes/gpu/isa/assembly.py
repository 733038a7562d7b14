"""Inline PTX: what `nvvm` has no op for, or none that gives the same machine code. Used in this folder alone.

| instruction | why it is no op of `nvvm` |
|---|---|
| `ex2`, `lg2`, `rcp`, `mma.sync`, `cvt` | LLVM moves and merges these ops, which only compute: other machine code |
| `ld.shared`, `st.shared`, `ldmatrix`, `stmatrix`, `cp.async`, `mapa` | their pointers have 64 bits, not 32 |
| `mbarrier.try_wait` of a cluster, `st.async` | the same; `st.async` has no op |
| `ld.acquire`, `st.release`, `atom`, `cp.reduce.async.bulk` and its like | the same |
| `cp.async.wait_all` | `nvvm` waits for groups only |
| `cvt.f32.f16` of half a register | `nvvm` converts pairs the other way only |
| `wgmma.mma_async` | its op is inline PTX as well, and ties sums to structures of registers |
| `griddepcontrol` | LLVM takes its op for one that touches no memory, and moves accesses over it |
| `shf`, `shr` | there is no op, and LLVM is not to look into these shifts |
| nothing (`hidden`, `wgmma.tie`) | an empty piece hides a value from LLVM |
"""

from __future__ import annotations

from collections.abc import Sequence

from blu.dialects.core.mlir import ir, llvm
from blu.dialects.core.remembering import once

_NAME = "llvm.inline_asm"


def assembly(results: Sequence[ir.Type], operands: Sequence[ir.Value], text: str, constraints: str) -> list[ir.Value]:
    """Inline PTX that stays where it is put; its results."""
    if len(results) == 1:
        return [llvm.inline_asm(results[0], operands, text, constraints, has_side_effects=True, asm_dialect=0)]
    type_ = _struct(tuple(results)) if results else None
    value = llvm.inline_asm(type_, operands, text, constraints, has_side_effects=True, asm_dialect=0)
    return [llvm.extractvalue(kind, value, [place]) for place, kind in enumerate(results)]


@once
def _struct(fields: tuple[ir.Type, ...]) -> ir.Type:
    return ir.Type.parse(f"!llvm.struct<({', '.join(map(str, fields))})>")


def pure_assembly(result: ir.Type, operands: Sequence[ir.Value], text: str, constraints: str) -> ir.Value:
    """Inline PTX that only computes one result from its operands."""
    return llvm.inline_asm(result, operands, text, constraints, has_side_effects=False, asm_dialect=0)


def text_of(operation: ir.Operation) -> str:
    """The text of a piece of inline PTX; of another op, none."""
    return ir.StringAttr(operation.attributes["asm_string"]).value if operation.name == _NAME else ""


def only_computes(operation: ir.Operation) -> bool:
    """Whether an op is inline PTX that has no effects."""
    return operation.name == _NAME and "has_side_effects" not in operation.attributes


def hidden(word: ir.Value) -> ir.Value:
    """The same i32, of which nothing is known: what was computed from it before has to be computed again."""
    return pure_assembly(word.type, [word], "// $0", "=r,0")
