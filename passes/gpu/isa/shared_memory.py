"""`ld.shared`, `st.shared`: words in shared memory, several at a time, and halves of words."""

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


def st_16(address: ir.Value, flipped: int, offset: int, value: ir.Value) -> None:
    """Write 16 bits (i16) at an offset from an address of which some bits are flipped.

    The address is made where it is needed: a thread has no registers for many of them.
    """
    text = f"{{ .reg .b32 %r_at; xor.b32 %r_at, $0, {flipped}; st.shared.u16 [%r_at+{offset}], $1; }}"
    assembly([], [address, value], text, "r,h,~{memory}")


def ld_16(address: ir.Value, flipped: int, offsets: tuple[int, int]) -> ir.Value:
    """Read 16 bits at each of two offsets: the halves of a word (i32), the lower one first, which stay together."""
    first, second = (f"ld.shared.u16 {name}, [%r_at+{offset}];" for name, offset in zip("lh", offsets, strict=True))
    flip = f".reg .b32 %r_at; xor.b32 %r_at, $1, {flipped};"
    text = f"{{ {flip} .reg .b16 l, h; {first} {second} mov.b32 $0, {{l, h}}; }}"
    return assembly([ir.IntegerType.get_signless(32)], [address], text, "=r,r,~{memory}")[0]
