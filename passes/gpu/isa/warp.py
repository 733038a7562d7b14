"""What the 32 threads of a warp do together: products of small matrices, their fragments, and asynchronous copies.

Numbers are i32 and addresses of shared memory are i32 too. A fragment is a thread's share of a small matrix, as
`mma.sync.m16n8k16` wants it: of the left factor four registers of two 16-bit numbers, of the right one two, of the sums
four f32 (rows lane / 4 and lane / 4 + 8, columns 2 * (lane % 4) and the next).

Source of the layouts: PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type".
"""

from __future__ import annotations

from collections.abc import Sequence

from blu.dialects.core.mlir import arith, ir, llvm, nvvm

WARP = 32
ALL_LANES = -1

Number = ir.Value | int
Split = tuple[ir.Value, ir.Value]


def i32() -> ir.Type:
    """The type of numbers and of shared addresses."""
    return ir.IntegerType.get_signless(32)


def f32() -> ir.Type:
    """The type of sums."""
    return ir.F32Type.get()


def number(value: Number) -> ir.Value:
    """A constant, or a value as it is."""
    return arith.constant(i32(), ir.IntegerAttr.get(i32(), value)) if isinstance(value, int) else value


def real(value: float) -> ir.Value:
    """An f32 constant."""
    return arith.constant(f32(), ir.FloatAttr.get(f32(), value))


def add(left: Number, right: Number) -> Number:
    """left + right."""
    if isinstance(left, int) and isinstance(right, int):
        return left + right
    if isinstance(left, int):
        left, right = right, left
    return left if isinstance(right, int) and right == 0 else arith.addi(left, number(right))


def subtract(left: Number, right: Number) -> ir.Value:
    """left - right."""
    return arith.subi(number(left), number(right))


def multiply(left: Number, right: Number) -> Number:
    """left * right."""
    if isinstance(left, int):
        return left * right if isinstance(right, int) else multiply(right, left)
    return left if isinstance(right, int) and right == 1 else arith.muli(left, number(right))


def divide(left: ir.Value, right: Number) -> ir.Value:
    """left / right of numbers that are not negative."""
    return left if isinstance(right, int) and right == 1 else arith.divui(left, number(right))


def remainder(left: ir.Value, right: Number) -> ir.Value:
    """left % right of numbers that are not negative."""
    return arith.remui(left, number(right))


def smaller(left: Number, right: Number) -> ir.Value:
    """The signed minimum."""
    return arith.minsi(number(left), number(right))


def larger(left: Number, right: Number) -> ir.Value:
    """The signed maximum."""
    return arith.maxsi(number(left), number(right))


def is_below(left: Number, right: Number) -> ir.Value:
    """left < right, signed."""
    return arith.cmpi(arith.CmpIPredicate.slt, number(left), number(right))


def is_equal(left: Number, right: Number) -> ir.Value:
    """left == right."""
    return arith.cmpi(arith.CmpIPredicate.eq, number(left), number(right))


def as_number(index: ir.Value) -> ir.Value:
    """An index as i32."""
    return arith.index_cast(i32(), index)


def assembly(results: Sequence[ir.Type], operands: Sequence[ir.Value], text: str, constraints: str) -> list[ir.Value]:
    """Inline PTX that stays where it is put; its results."""
    if len(results) == 1:
        return [llvm.inline_asm(results[0], operands, text, constraints, has_side_effects=True, asm_dialect=0)]
    type_ = ir.Type.parse(f"!llvm.struct<({', '.join(map(str, results))})>") if results else None
    value = llvm.inline_asm(type_, operands, text, constraints, has_side_effects=True, asm_dialect=0)
    return [llvm.extractvalue(kind, value, [place]) for place, kind in enumerate(results)]


def pure_assembly(result: ir.Type, operands: Sequence[ir.Value], text: str, constraints: str) -> ir.Value:
    """Inline PTX that only computes one result from its operands."""
    return llvm.inline_asm(result, operands, text, constraints, has_side_effects=False, asm_dialect=0)


def load_matrices(address: ir.Value, offset: int, transposed: bool = False) -> list[ir.Value]:
    """Four 8 x 8 matrices of 16-bit numbers; lane l gives the address of row l % 8 of matrix l / 8."""
    kind = ".trans" if transposed else ""
    text = f"ldmatrix.sync.aligned.m8n8.x4{kind}.shared.b16 {{$0, $1, $2, $3}}, [$4+{offset}];"
    return assembly([i32()] * 4, [address], text, "=r,=r,=r,=r,r,~{memory}")


def multiply_add(
    sums: Sequence[ir.Value], left: Sequence[ir.Value], right: Sequence[ir.Value], element: str
) -> list[ir.Value]:
    """sums [16, 8] + left [16, 16] @ right [16, 8] of the PTX type `element` (bf16, f16)."""
    text = (
        f"mma.sync.aligned.m16n8k16.row.col.f32.{element}.{element}.f32 "
        "{$0, $1, $2, $3}, {$4, $5, $6, $7}, {$8, $9}, {$10, $11, $12, $13};"
    )
    return assembly([f32()] * 4, [*left, *right, *sums], text, "=f,=f,=f,=f,r,r,r,r,r,r,0,1,2,3")


def multiply_add_tf32(sums: Sequence[ir.Value], left: Sequence[ir.Value], right: Sequence[ir.Value]) -> list[ir.Value]:
    """sums [16, 8] + left [16, 8] @ right [8, 8] of tf32."""
    text = (
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
        "{$0, $1, $2, $3}, {$4, $5, $6, $7}, {$8, $9}, {$10, $11, $12, $13};"
    )
    return assembly([f32()] * 4, [*left, *right, *sums], text, "=f,=f,=f,=f,r,r,r,r,r,r,0,1,2,3")


def multiply_add_wide(sums: Sequence[ir.Value], left: Sequence[Split], right: Sequence[Split]) -> list[ir.Value]:
    """sums [16, 8] + left [16, 16] @ right [16, 8] of f32, whose halves are products of tf32, with f32's accuracy.

    The product of the two small parts is left out: it is below f32's rounding. Tensor cores cut where they add, always
    towards zero, which long sums would feel: only these 16 terms are added there, small ones first.
    """
    terms = [real(0.0)] * 4
    for from_left, from_right in ((1, 0), (0, 1), (0, 0)):
        for half in (0, 1):
            a, b = left[4 * half : 4 * half + 4], right[2 * half : 2 * half + 2]
            terms = multiply_add_tf32(terms, [item[from_left] for item in a], [item[from_right] for item in b])
    return [arith.addf(*pair) for pair in zip(sums, terms, strict=True)]


def split(value: ir.Value) -> Split:
    """An f32 as the sum of two tf32, exact to 2 ** -22 of it."""
    large = _as_tf32(value)
    return large, _as_tf32(arith.subf(value, arith.bitcast(f32(), large)))


def _as_tf32(value: ir.Value) -> ir.Value:
    return pure_assembly(i32(), [value], "cvt.rna.tf32.f32 $0, $1;", "=r,f")


def pack(low: ir.Value, high: ir.Value, element: str) -> ir.Value:
    """Two f32 rounded to 16 bits, in one register."""
    return pure_assembly(i32(), [high, low], f"cvt.rn.{element}x2.f32 $0, $1, $2;", "=r,f,f")


def unpack(pair: ir.Value, element: str) -> list[ir.Value]:
    """The two numbers of a register as f32; the one of an f32."""
    if element == "f32":
        return [pair]
    if element == "bf16":
        low, high = arith.shli(pair, number(16)), arith.andi(pair, number(-65536))
        return [arith.bitcast(f32(), low), arith.bitcast(f32(), high)]
    halves = ("l", "h")
    text = "{{ .reg .b16 l, h; mov.b32 {{l, h}}, $1; cvt.f32.f16 $0, {}; }}"
    return [pure_assembly(f32(), [pair], text.format(half), "=f,r") for half in halves]


def power_of_two(exponent: ir.Value) -> ir.Value:
    """2 ** exponent, to about 2 units in the last place; subnormal results are 0."""
    return pure_assembly(f32(), [exponent], "ex2.approx.ftz.f32 $0, $1;", "=f,f")


def logarithm(value: ir.Value) -> ir.Value:
    """The logarithm to base 2 of a positive number, to about 1e-7."""
    return pure_assembly(f32(), [value], "lg2.approx.f32 $0, $1;", "=f,f")


def exchange(value: ir.Value, distance: int) -> ir.Value:
    """The f32 of the lane whose number differs in the bit `distance`."""
    kind = ir.Attribute.parse("#nvvm<shfl_kind bfly>")
    return nvvm.shfl_sync(number(ALL_LANES), value, number(distance), number(WARP - 1), kind)


def copy_async(address: ir.Value, offset: int, source: ir.Value, size: int, present: ir.Value) -> None:
    """Begin to copy `size` bytes (16 or 4) to shared memory; only the first `present` are read, the others become 0."""
    kind = "cg" if size == 16 else "ca"
    text = f"cp.async.{kind}.shared.global [$0+{offset}], [$1], {size}, $2;"
    assembly([], [address, source, present], text, "r,l,r,~{memory}")


def wait_for_copies() -> None:
    """Wait until all copies that this thread began have arrived."""
    assembly([], [], "cp.async.wait_all;", "~{memory}")


def wait_for_block() -> None:
    """Wait for all threads of the block, and see what they wrote to shared memory."""
    nvvm.barrier()


def wait_for_cluster() -> None:
    """Wait for all threads of the cluster, and see what they wrote to shared memory."""
    assembly([], [], "barrier.cluster.arrive.release.aligned;", "~{memory}")
    assembly([], [], "barrier.cluster.wait.acquire.aligned;", "~{memory}")


def address_in_block(address: ir.Value, rank: ir.Value) -> ir.Value:
    """Where another block of the cluster has what this block has at an address of shared memory."""
    return pure_assembly(i32(), [address, rank], "mapa.shared::cluster.u32 $0, $1, $2;", "=r,r,r")


def send_in_cluster(address: ir.Value, offset: int, value: ir.Value, barrier: ir.Value) -> None:
    """Begin to write one i32 to the shared memory of any block of the cluster, whose barrier counts its bytes."""
    text = f"st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [$0+{offset}], $1, [$2];"
    assembly([], [address, value, barrier], text, "r,r,r,~{memory}")


def has_ended(barrier: ir.Value, phase: ir.Value) -> ir.Value:
    """1 if a phase of a barrier is over, and what other blocks of the cluster sent can be seen; 0 after a while."""
    text = (
        "{ .reg .pred over; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 over, [$1], $2; "
        "selp.b32 $0, 1, 0, over; }"
    )
    return assembly([i32()], [barrier, phase], text, "=r,r,r,~{memory}")[0]


def wait_for_warp() -> None:
    """Wait for all threads of the warp, and see what they wrote to shared memory."""
    nvvm.bar_warp_sync(number(ALL_LANES))  # known to LLVM, which otherwise copies it to both sides of a branch


def store_shared(address: ir.Value, offset: int, values: Sequence[ir.Value]) -> None:
    """Write one i32 or four."""
    count = len(values)
    kind = ".v4" if count == 4 else ""
    names = ", ".join(f"${place + 1}" for place in range(count))
    text = f"st.shared{kind}.b32 [$0+{offset}], {'{' + names + '}' if count > 1 else names};"
    assembly([], [address, *values], text, ",".join(["r"] * (count + 1)) + ",~{memory}")


def load_shared(address: ir.Value, offset: int, count: int, type_: ir.Type) -> list[ir.Value]:
    """Read one, two or four numbers of 32 bits."""
    letter = "f" if isinstance(type_, ir.F32Type) else "r"
    kind = "" if count == 1 else f".v{count}"
    names = ", ".join(f"${place}" for place in range(count))
    text = f"ld.shared{kind}.b32 {'{' + names + '}' if count > 1 else names}, [${count}+{offset}];"
    return assembly([type_] * count, [address], text, ",".join([f"={letter}"] * count) + ",r,~{memory}")
