"""Conversions of fp8 by instructions, of two numbers at a time, where a GPU has them (sm_89, sm_90a).

On sm_89 they are of PTX 8.1: kernels that have them are of that version, others of 7.8, for older drivers.
"""

from __future__ import annotations

from collections.abc import Sequence

from blu.dialects.core.dtypes import product
from blu.dialects.core.mlir import arith, ir, vector
from blu.dialects.targets.nvidia import GpuTarget
from blu.passes.gpu.isa import cvt
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.math.elements import Elements, select, with_element
from blu.passes.kernels.math.float8 import E4M3, Float8
from blu.passes.kernels.store_float8 import Conversions

_LEAST_CAPABILITY = 89
_SIGN = -128


def conversions_of(target: GpuTarget | None) -> Conversions:
    """How kernels of a GPU convert; None stands for any GPU."""
    if target is None or target.capability < _LEAST_CAPABILITY:
        return Conversions()
    return Conversions(_widen, _narrow)


def _name(kind: Float8) -> str:
    return "e4m3" if kind is E4M3 else "e5m2"


def _widen(value: ir.Value, kind: Float8) -> ir.Value:
    """Bytes to f32, by way of f16, which holds all fp8."""
    elements = _elements(value)
    halves = [half for pair in _pairs(elements) for half in _halves_of(pair, kind)]
    halves = [arith.extf(ir.F32Type.get(), half) for half in halves[: len(elements)]]
    return _together(halves, value)


def _halves_of(pair: Sequence[ir.Value], kind: Float8) -> list[ir.Value]:
    """Two f16 of two bytes."""
    i16 = ir.IntegerType.get_signless(16)
    low, high = (arith.extui(i16, byte) for byte in pair)
    word = arith.ori(low, arith.shli(high, vectors.constant(i16, 8)))
    words, halves = (vectors.vector_type(*of) for of in ((1, ir.IntegerType.get_signless(32)), (2, ir.F16Type.get())))
    both = vector.bitcast(halves, vector.from_elements(words, [cvt.f16x2_of_float8(word, _name(kind))]))
    return [vector.extract(both, [], [lane]) for lane in range(2)]


def _narrow(value: ir.Value, kind: Float8) -> ir.Value:
    """f32 to bytes. The instruction gives the largest finite number for what is beyond it, and that is put right."""
    numbers, byte = _elements(value), ir.IntegerType.get_signless(8)
    rounded = []
    for pair in _pairs(numbers):
        word = cvt.rn_float8_x2(*pair, _name(kind))
        rounded += [arith.trunci(byte, item) for item in (word, arith.shrui(word, vectors.constant(word.type, 8)))]
    found = Elements(_together(rounded[: len(numbers)], value), fused=True)
    beyond = kind.is_beyond(abs(Elements(value, fused=True)))
    sign = found & _SIGN
    return select(beyond, sign | kind.beyond, found).value


def _elements(value: ir.Value) -> list[ir.Value]:
    if not isinstance(value.type, ir.VectorType):
        return [value]
    size = product(value.type.shape)
    flat = vector.shape_cast(vectors.vector_type(size, value.type.element_type), value)
    return [vector.extract(flat, [], [lane]) for lane in range(size)]


def _pairs(elements: Sequence[ir.Value]) -> list[tuple[ir.Value, ir.Value]]:
    """Two and two; the last one of an odd number twice."""
    return [(elements[place], elements[min(place + 1, len(elements) - 1)]) for place in range(0, len(elements), 2)]


def _together(elements: Sequence[ir.Value], like: ir.Value) -> ir.Value:
    """Elements in the shape of a value."""
    if not isinstance(like.type, ir.VectorType):
        return elements[0]
    return vector.from_elements(with_element(like.type, elements[0].type), list(elements))
