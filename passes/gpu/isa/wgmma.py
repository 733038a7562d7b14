"""`wgmma`: products of tiles in shared memory by the 128 threads of a Hopper warpgroup, summed in registers.

The sums of a tile [64, n] are n / 2 f32 a thread: element 4 j + 2 h + e is that of row 16 w + lane / 4 + 8 h, w being
the warp in its group, and column 8 j + 2 (lane % 4) + e, as `mma.sync` has them.

Source: PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions".
"""

from __future__ import annotations

from collections.abc import Sequence

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, ir, nvvm
from blu.passes.gpu.isa.assembly import assembly
from blu.passes.gpu.numbers import Number, add, f32, number

THREADS = 128
ROWS = 64
ROW_BYTES, PIECE_BYTES = 128, 16
_ADDRESS_BITS = 0x3FFFF
# The swizzle of 128 bytes, and the distance of groups of eight rows, in units of 16 bytes.
_DESCRIPTOR = (1 << 62) | ((1024 >> 4) << 32)


@dataclass(frozen=True)
class SharedTile:
    """A tile in shared memory, in rows of 128 bytes that are swizzled.

    Where it `is_deep`, there is a row of neighbours along k for each a. Otherwise a row holds 64 neighbours along a; it
    is `panel_bytes` from one panel of such rows to the next.
    """

    address: ir.Value
    is_deep: bool
    panel_bytes: int = 0

    def descriptor(self) -> ir.Value:
        """The i64 that describes the tile to an instruction."""
        i64 = ir.IntegerType.get_signless(64)
        low = arith.shrui(arith.andi(self.address, number(_ADDRESS_BITS)), number(4))
        leading = 1 if self.is_deep else self.panel_bytes >> 4
        constant = arith.constant(i64, ir.IntegerAttr.get(i64, _DESCRIPTOR | (leading << 16)))
        return arith.ori(arith.extui(i64, low), constant)

    def low_word(self) -> ir.Value:
        """The half of the descriptor (i32) that depends on the address, for `described`."""
        low = arith.shrui(arith.andi(self.address, number(_ADDRESS_BITS)), number(4))
        return add(low, (1 if self.is_deep else self.panel_bytes >> 4) << 16)

    def step_bytes(self, element_bytes: int) -> int:
        """Bytes from one instruction's k to the next one's."""
        depth = instruction_depth(element_bytes)
        return depth * element_bytes if self.is_deep else depth * ROW_BYTES


def instruction_depth(element_bytes: int) -> int:
    """How many k one instruction multiplies: 32 bytes."""
    return 32 // element_bytes


def further(descriptor: ir.Value, num_bytes: int) -> ir.Value:
    """The descriptor of what lies so many bytes further."""
    if not num_bytes:
        return descriptor
    step = arith.constant(descriptor.type, ir.IntegerAttr.get(descriptor.type, num_bytes >> 4))
    return arith.addi(descriptor, step)


def described(low_word: ir.Value, num_bytes: int) -> ir.Value:
    """The descriptor of what lies so many bytes further: one addition of 32 bits."""
    i64 = ir.IntegerType.get_signless(64)
    high = arith.constant(i64, ir.IntegerAttr.get(i64, _DESCRIPTOR))
    return arith.ori(arith.extui(i64, add(low_word, num_bytes >> 4)), high)


def mma_async(
    sums: Sequence[ir.Value],
    left: ir.Value,
    right: ir.Value,
    element: str,
    layouts: tuple[bool, bool],
    is_first: Number = 0,
) -> list[ir.Value]:
    """sums [64, n] + left [64, k] @ right [k, n], both given by descriptors; `layouts` says which of them are deep.

    `element` is bf16, f16 or tf32 (deep only), or e4m3.e5m2 and its like, the formats of both (deep only). Where
    `is_first` is not 0 the sums start anew. The sums may be used only when `wait_group` says so.
    """
    count = len(sums)
    columns, depth, elements = 2 * count, instruction_depth(_bytes_of(element)), _both(element)
    registers = ", ".join(f"${index}" for index in range(count))
    orders = "".join(f", {int(not is_deep)}" for is_deep in layouts) if _bytes_of(element) == 2 else ""
    text = (
        f"{{ .reg .pred p; setp.eq.b32 p, ${2 * count + 2}, 0; "
        f"wgmma.mma_async.sync.aligned.m64n{columns}k{depth}.f32.{elements} "
        f"{{{registers}}}, ${2 * count}, ${2 * count + 1}, p, 1, 1{orders}; }}"
    )
    constraints = ",".join(["=f"] * count + [str(index) for index in range(count)] + ["l", "l", "r"])
    return assembly([f32()] * count, [*sums, left, right, number(is_first)], text, constraints)


def _bytes_of(element: str) -> int:
    return 1 if "." in element else 4 if element == "tf32" else 2


def _both(element: str) -> str:
    """The types of both factors."""
    return element if "." in element else f"{element}.{element}"


def mma_async_anew(
    columns: int, left: ir.Value | Sequence[ir.Value], right: ir.Value, element: str, layouts: tuple[bool, bool]
) -> list[ir.Value]:
    """left [64, k] @ right [k, columns]: sums that nothing was in before. `left` may be in four registers, too, where
    `element` is not one of fp8, as `mma_async` has it."""
    in_memory = isinstance(left, ir.Value)
    factors, given = ([left], layouts) if in_memory else ([*left], layouts[1:])
    count, depth, elements = columns // 2, instruction_depth(_bytes_of(element)), _both(element)
    registers = ", ".join(f"${index}" for index in range(count))
    first = ", ".join(f"${count + index}" for index in range(len(factors)))
    orders = "".join(f", {int(not is_deep)}" for is_deep in given) if _bytes_of(element) == 2 else ""
    text = (
        f"{{ .reg .pred p; setp.ne.b32 p, 0, 0; "
        f"wgmma.mma_async.sync.aligned.m64n{columns}k{depth}.f32.{elements} "
        f"{{{registers}}}, {first if in_memory else f'{{{first}}}'}, ${count + len(factors)}, p, 1, 1{orders}; }}"
    )
    kinds = ["=f"] * count + ["l" if in_memory else "r"] * len(factors) + ["l"]
    return assembly([f32()] * count, [*factors, right], text, ",".join(kinds))


def mma_async_of_registers(
    sums: Sequence[ir.Value],
    left: Sequence[ir.Value],
    right: ir.Value,
    element: str,
    is_deep: bool,
    is_first: Number | None = None,
) -> list[ir.Value]:
    """sums [64, n] + left [64, k] @ right [k, n], where left is in four registers as `mma.sync` has it.

    Neither the sums nor the left factor's registers may be written until `wait_group` says so. Where `is_first` is
    given and not 0, the sums start anew. `element` is bf16, f16 or tf32 (deep only).
    """
    count, depth = len(sums), instruction_depth(4 if element == "tf32" else 2)
    registers = ", ".join(f"${index}" for index in range(count))
    factors = ", ".join(f"${2 * count + index}" for index in range(4))
    order = "" if element == "tf32" else f", {int(not is_deep)}"
    condition = "0" if is_first is None else f"${2 * count + 5}"
    text = (
        f"{{ .reg .pred p; setp.eq.b32 p, {condition}, 0; "
        f"wgmma.mma_async.sync.aligned.m64n{2 * count}k{depth}.f32.{element}.{element} "
        f"{{{registers}}}, {{{factors}}}, ${2 * count + 4}, p, 1, 1{order}; }}"
    )
    more = [] if is_first is None else [number(is_first)]
    kinds = ["=f"] * count + [str(index) for index in range(count)] + ["r"] * 4 + ["l"] + ["r"] * len(more)
    return assembly([f32()] * count, [*sums, *left, right, *more], text, ",".join(kinds))


def tie(values: Sequence[ir.Value]) -> list[ir.Value]:
    """The same registers, which nothing may be computed from before this point."""
    letters = ["f" if isinstance(value.type, ir.F32Type) else "r" for value in values]
    constraints = ",".join([f"={letter}" for letter in letters] + [str(index) for index in range(len(values))])
    return assembly([value.type for value in values], list(values), "", constraints)


def fence() -> None:
    """Let products see registers and shared memory as they are now."""
    nvvm.wgmma_fence_aligned()


def commit_group() -> None:
    """Put the products since the last call into a group."""
    nvvm.wgmma_commit_group_sync_aligned()


def wait_group(pending: int) -> None:
    """Wait until at most so many groups of products are unfinished."""
    nvvm.wgmma_wait_group_sync_aligned(pending)
