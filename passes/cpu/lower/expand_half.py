"""f16 conversions that the processor lacks, in integer arithmetic: LLVM would call library functions nobody links.

Processors with F16C convert between f16 and f32; x86-64-v2 has none of it, and none but AVX512-FP16 rounds f64 to f16.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from blu.dialects.core.mlir import arith, ir
from blu.dialects.targets.cpu import CpuTarget
from blu.passes.kernels import lanes as vectors

_I32 = 32
ROUND_TO_EVEN = 0xFFF
HALF_INFINITY, HALF_NAN = 0x7C00, 0x7E00
FLOAT_INFINITY = 0x7F800000
SMALLEST_NORMAL_HALF = 0x38800000
"""2^-14 as the bits of an f32, as are the following."""
OVERFLOW = 0x47800000
ONE_HALF = 0x3F000000
EXPONENT_SHIFT = 112
"""The difference of the two formats' exponent biases."""


def expand_half(operations: Mapping[str, Sequence[ir.Operation]], target: CpuTarget | None) -> None:
    """Rewrite arith.extf and arith.truncf from and to f16 among operations by their names, where `target` (None: any
    with F16C) lacks them."""
    native = target is None or target.cpu != "x86-64-v2"
    conversions = [item for name in ("arith.extf", "arith.truncf") for item in operations.get(name, ())]
    for operation in [item for item in conversions if not _is_left(item, native)]:
        with ir.InsertionPoint(operation), operation.location:
            operation.results[0].replace_all_uses_with(_expanded(operation, native))
        operation.erase()


def _is_left(operation: ir.Operation, native: bool) -> bool:
    """Whether a conversion stays: it is not of f16, or the processor has it."""
    narrow, wide = (_element(value.type) for value in (operation.results[0], operation.operands[0]))
    if operation.name == "arith.extf":
        narrow, wide = wide, narrow
    if not isinstance(narrow, ir.F16Type):
        return True
    return native and not (operation.name == "arith.truncf" and isinstance(wide, ir.F64Type))


def _expanded(operation: ir.Operation, native: bool) -> ir.Value:
    source, result = operation.operands[0], operation.results[0].type
    f32 = _like(source, ir.F32Type.get())
    if operation.name == "arith.extf":
        single = _extend(source)
        return single if single.type == result else arith.extf(result, single)
    single = source if source.type == f32 else _round_to_odd(source)
    return arith.truncf(result, single) if native else _truncate(single)


def _extend(value: ir.Value) -> ir.Value:
    """f16 to f32, exactly: shift the fields into place, and let a multiplication by 2^112 correct the exponent."""
    bits = arith.extui(_like(value, _integer(_I32)), arith.bitcast(_like(value, _integer(16)), value))
    sign = arith.shli(_and(bits, 0x8000), _constant(bits, 16))
    shifted = arith.shli(_and(bits, 0x7FFF), _constant(bits, 13))
    single = _like(value, ir.F32Type.get())
    scaled = arith.mulf(arith.bitcast(single, shifted), vectors.constant(single, 2.0**EXPONENT_SHIFT))
    special = arith.ori(shifted, _constant(bits, FLOAT_INFINITY))
    is_special = _compare("uge", shifted, HALF_INFINITY << 13)
    magnitude = arith.select(is_special, special, arith.bitcast(bits.type, scaled))
    return arith.bitcast(single, arith.ori(magnitude, sign))


def _truncate(value: ir.Value) -> ir.Value:
    """f32 to f16, to nearest even."""
    bits = arith.bitcast(_like(value, _integer(_I32)), value)
    magnitude = _and(bits, 0x7FFFFFFF)
    odd = _and(arith.shrui(magnitude, _constant(bits, 13)), 1)
    rounded = arith.addi(arith.addi(magnitude, odd), _constant(bits, ROUND_TO_EVEN - (EXPONENT_SHIFT << 23)))
    normal = arith.shrui(rounded, _constant(bits, 13))
    # Adding 0.5 puts the last bit of a subnormal f16 where f32 rounds.
    shifted = arith.addf(arith.bitcast(value.type, magnitude), vectors.constant(value.type, 0.5))
    subnormal = arith.subi(arith.bitcast(bits.type, shifted), _constant(bits, ONE_HALF))
    half = arith.select(_compare("ult", magnitude, SMALLEST_NORMAL_HALF), subnormal, normal)
    half = arith.select(_compare("uge", magnitude, OVERFLOW), _constant(bits, HALF_INFINITY), half)
    half = arith.select(_compare("ugt", magnitude, FLOAT_INFINITY), _constant(bits, HALF_NAN), half)
    sign = _and(arith.shrui(bits, _constant(bits, 16)), 0x8000)
    narrow = arith.trunci(_like(value, _integer(16)), arith.ori(half, sign))
    return arith.bitcast(_like(value, ir.F16Type.get()), narrow)


def _round_to_odd(value: ir.Value) -> ir.Value:
    """f64 to f32 such that rounding the result once more, to f16, gives what one rounding would have given."""
    single = arith.truncf(_like(value, ir.F32Type.get()), value)
    back = arith.extf(value.type, single)
    bits = arith.bitcast(_like(value, _integer(_I32)), single)
    inexact = arith.extui(bits.type, arith.cmpf(arith.CmpFPredicate.ONE, back, value))
    sizes = (arith.bitcast(_like(value, _integer(64)), number) for number in (back, value))
    back_size, size = (arith.andi(number, vectors.constant(number.type, 2**63 - 1)) for number in sizes)
    away = arith.extui(bits.type, arith.cmpi(arith.CmpIPredicate.ugt, back_size, size))
    toward_zero = arith.subi(bits, arith.andi(away, inexact))
    return arith.bitcast(single.type, arith.ori(toward_zero, inexact))


def _element(type_: ir.Type) -> ir.Type:
    return type_.element_type if isinstance(type_, ir.VectorType) else type_


def _like(value: ir.Value, element: ir.Type) -> ir.Type:
    """The element type in the shape of `value`."""
    shaped = isinstance(value.type, ir.VectorType)
    return ir.VectorType.get(ir.VectorType(value.type).shape, element) if shaped else element


def _integer(width: int) -> ir.Type:
    return ir.IntegerType.get_signless(width)


def _constant(like: ir.Value, value: int) -> ir.Value:
    return vectors.constant(like.type, value)


def _and(value: ir.Value, mask: int) -> ir.Value:
    return arith.andi(value, _constant(value, mask))


def _compare(predicate: str, value: ir.Value, limit: int) -> ir.Value:
    return arith.cmpi(arith.CmpIPredicate[predicate], value, _constant(value, limit))
