"""`ld.shared`, `st.shared`: words in shared memory, several at a time."""

from __future__ import annotations

from collections.abc import Sequence

from blu.dialects.core.mlir import ir
from blu.passes.gpu.isa.assembly import assembly


def st(address: ir.Value, offset: int, values: Sequence[ir.Value]) -> None:
    """Write one, two or four numbers of 32 bits."""
    count, letter = len(values), "f" if isinstance(values[0].type, ir.F32Type) else "r"
    kind, bits = "" if count == 1 else f".v{count}", "f32" if letter == "f" else "b32"
    names = ", ".join(f"${place + 1}" for place in range(count))
    text = f"st.shared{kind}.{bits} [$0+{offset}], {'{' + names + '}' if count > 1 else names};"
    assembly([], [address, *values], text, ",".join(["r", *[letter] * count]) + ",~{memory}")


def ld(address: ir.Value, offset: int, count: int, type_: ir.Type) -> list[ir.Value]:
    """Read one, two or four numbers of 32 bits."""
    letter = "f" if isinstance(type_, ir.F32Type) else "r"
    kind = "" if count == 1 else f".v{count}"
    names = ", ".join(f"${place}" for place in range(count))
    text = f"ld.shared{kind}.b32 {'{' + names + '}' if count > 1 else names}, [${count}+{offset}];"
    return assembly([type_] * count, [address], text, ",".join([f"={letter}"] * count) + ",r,~{memory}")
