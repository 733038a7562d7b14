"""Registers of all threads of a block, and the instructions of PTX that compute with them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

import ml_dtypes
import numpy as np

from tests.support.ptx.float8 import FLOAT8, halves_of_float8, pair_of_float8
from tests.support.ptx.program import FLOAT, SIGNED, UNSIGNED, constant, dtype_of, type_named

_BITS = {"%p": 1, "%rs": 16, "%r": 32, "%rd": 64, "%f": 32, "%fd": 64}


@cache
def _bits_of(register: str) -> int:
    return _BITS.get(re.match(r"%?[a-z]*", register)[0], 16)


class _Threads(NamedTuple):
    """Some of the threads: their numbers, whether they are all, and what tells them from others."""

    active: np.ndarray
    numbers: np.ndarray
    are_all: bool
    key: bytes


@dataclass
class Arithmetic:
    """Each register is an array with an element for each thread; `_do_x` runs an instruction x for active threads."""

    threads: int
    # An array is never changed: an instruction puts another in its place.
    registers: dict[str, np.ndarray] = field(default_factory=dict)
    literals: dict[tuple[str, int], np.ndarray] = field(default_factory=dict)
    # The only threads that ever wrote to a register, as bytes: nobody reads what others have there.
    writers: dict[str, bytes] = field(default_factory=dict)
    # Threads that were asked for last: most instructions follow others of the same threads.
    asked: _Threads | None = None

    def _asked(self, active: np.ndarray) -> _Threads:
        found = self.asked
        if found is None or found.active is not active:
            numbers = active.nonzero()[0]
            found = self.asked = _Threads(active, numbers, len(numbers) == self.threads, active.tobytes())
        return found

    def _numbers_of(self, active: np.ndarray) -> np.ndarray:
        """The numbers of the active threads."""
        return self._asked(active).numbers

    def _is_all(self, active: np.ndarray) -> bool:
        return self._asked(active).are_all

    def _chosen(self, active: np.ndarray, *values: np.ndarray) -> tuple[np.ndarray, ...]:
        """What each of some arrays [threads] has for the active threads."""
        return values if self._is_all(active) else tuple(value[self._numbers_of(active)] for value in values)

    def _literal(self, operand: str, bits: int) -> np.ndarray:
        found = self.literals.get((operand, bits))
        if found is None:
            found = self.literals[operand, bits] = np.full(self.threads, constant(operand, bits))
            found.flags.writeable = False
        return found

    def _read(self, operand: str, bits: int, kind: str = "b") -> np.ndarray:
        """An operand's value in every thread, as a type of so many bits."""
        value = self.registers.get(operand)
        if value is not None:
            if value.dtype.itemsize * 8 > bits and bits > 1:
                value = value.astype(UNSIGNED[bits])
        elif operand == "blu_shared":
            value = np.zeros(self.threads, UNSIGNED[bits])
        elif operand.startswith("%"):
            raise AssertionError(f"{operand} is read before it is written")
        else:
            value = self._literal(operand, bits)
        if kind == "f":
            return value.view(FLOAT[bits])
        return value.view(SIGNED[bits]) if kind == "s" else value

    def _stored(self, operand: str, bits: int, floats: dict[str, tuple[str, int]]) -> np.ndarray:
        """What a store of so many bits writes: of a wider register of `floats`, as ptxas 13.0 has it, the number
        converted to an unsigned integer."""
        kind, width = floats.get(operand, ("b", 0))
        if width <= bits:
            return self._read(operand, bits)
        number = np.trunc(self._numbers(operand, kind, width).astype(np.float64))
        most = float(np.iinfo(UNSIGNED[bits]).max)
        return np.clip(np.nan_to_num(number, nan=0.0), 0.0, most).astype(UNSIGNED[bits])

    def _write(self, name: str, value: np.ndarray, active: np.ndarray) -> None:
        value = _as_stored(value if value.flags.c_contiguous else np.ascontiguousarray(value), _bits_of(name))
        threads = self._asked(active)
        if not threads.are_all and self.writers.get(name) != threads.key and name in self.registers:
            value = np.where(active, value, self.registers[name])
            self.writers.pop(name, None)
        else:
            self.writers[name] = threads.key
        self.registers[name] = value

    def _do_mov(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        bits = 1 if parts[-1] == "pred" else type_named(parts[-1])[1]
        target, source = operands
        if isinstance(target, tuple):
            value = self._read(source, bits)
            for place, name in enumerate(target):
                half = (value >> UNSIGNED[bits](place * bits // len(target))).astype(UNSIGNED[bits // len(target)])
                self._write(name, half, active)
        elif isinstance(source, tuple):
            narrow = [self._read(name, bits // len(source)) for name in source]
            self._write(target, np.stack(narrow, -1).view(UNSIGNED[bits])[:, 0], active)
        else:
            self._write(target, self._read(source, bits), active)

    def _binary(self, parts: list[str], operands: tuple, active: np.ndarray, compute: Callable) -> None:
        if parts[-1] in ("bf16", "f16", "bf16x2", "f16x2"):
            self._halves(parts[-1], operands, active, compute)
            return
        if parts[-1] in ("s16x2", "u16x2"):
            dtype = np.int16 if parts[-1] == "s16x2" else np.uint16
            pairs = [np.ascontiguousarray(self._read(name, 32)).view(dtype) for name in operands[1:]]
            self._write(operands[0], compute(*pairs).astype(dtype).view(np.uint32), active)
            return
        kind, bits = ("b", 1) if parts[-1] == "pred" else type_named(parts[-1])
        values = [self._read(name, bits, kind) for name in operands[1:]]
        self._write(operands[0], compute(*values), active)

    def _halves(self, name: str, operands: tuple, active: np.ndarray, compute: Callable) -> None:
        """One number of 16 bits, or two: computed in f64, rounded once."""
        dtype = ml_dtypes.bfloat16 if name.startswith("bf") else np.float16
        values = []
        for operand in operands[1:]:
            pairs = np.ascontiguousarray(self._read(operand, 32 if name.endswith("x2") else 16))
            values.append(pairs.view(dtype).astype(np.float64))
        result = compute(*values).astype(dtype)
        self._write(operands[0], result.view(np.uint32 if name.endswith("x2") else np.uint16), active)

    def _do_add(self, parts: list[str], *rest) -> None:
        self._binary(parts, *rest, _add_towards_zero if parts[1] == "rz" else np.add)

    def _do_sub(self, *rest) -> None:
        self._binary(*rest, np.subtract)

    def _do_min(self, parts: list[str], *rest) -> None:
        self._binary(parts, *rest, np.minimum if "NaN" in parts else np.fmin)

    def _do_max(self, parts: list[str], *rest) -> None:
        self._binary(parts, *rest, np.maximum if "NaN" in parts else np.fmax)

    def _do_and(self, *rest) -> None:
        self._binary(*rest, np.bitwise_and)

    def _do_or(self, *rest) -> None:
        self._binary(*rest, np.bitwise_or)

    def _do_xor(self, *rest) -> None:
        self._binary(*rest, np.bitwise_xor)

    def _do_not(self, *rest) -> None:
        self._binary(*rest, np.invert)

    def _do_popc(self, *rest) -> None:
        self._binary(*rest, lambda value: np.bitwise_count(value).astype(np.uint32))

    def _do_neg(self, *rest) -> None:
        self._binary(*rest, np.negative)

    def _do_abs(self, *rest) -> None:
        self._binary(*rest, np.abs)

    def _do_div(self, *rest) -> None:
        self._binary(*rest, lambda a, b: a / b if a.dtype.kind == "f" else a // np.where(b == 0, 1, b))

    def _do_rem(self, *rest) -> None:
        self._binary(*rest, lambda a, b: a % np.where(b == 0, 1, b))

    def _do_rcp(self, *rest) -> None:
        self._binary(*rest, lambda a: np.float32(1) / a)

    def _do_sqrt(self, *rest) -> None:
        self._binary(*rest, np.sqrt)

    def _do_rsqrt(self, *rest) -> None:
        self._binary(*rest, lambda a: (1 / np.sqrt(a.astype(np.float64))).astype(a.dtype))

    def _do_copysign(self, *rest) -> None:
        self._binary(*rest, lambda a, b: np.copysign(b, a))

    def _do_ex2(self, parts: list[str], *rest) -> None:
        self._binary(parts, *rest, _flushing(np.exp2) if "ftz" in parts else np.exp2)

    def _do_lg2(self, *rest) -> None:
        self._binary(*rest, np.log2)

    def _do_fma(self, *rest) -> None:
        self._binary(*rest, lambda a, b, c: (a.astype(np.float64) * b + c).astype(a.dtype))

    def _do_mul(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        if parts[1] not in ("wide", "hi"):
            self._binary(parts, operands, active, np.multiply)
            return
        kind, bits = type_named(parts[-1])
        if parts[1] == "hi" and bits == 64:
            self._binary(parts, operands, active, high_product)
            return
        assert bits in (16, 32), parts
        wide = (SIGNED if kind == "s" else UNSIGNED)[2 * bits]
        left, right = (self._read(name, bits, kind).astype(wide) for name in operands[1:])
        product = left * right
        high = (product >> wide(bits)).astype((SIGNED if kind == "s" else UNSIGNED)[bits])
        self._write(operands[0], high if parts[1] == "hi" else product, active)

    def _do_mad(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        if parts[1] != "wide":
            self._binary(parts, operands, active, lambda a, b, c: a * b + c)
            return
        kind, bits = type_named(parts[-1])
        wide = (SIGNED if kind == "s" else UNSIGNED)[2 * bits]
        left, right = (self._read(name, bits, kind).astype(wide) for name in operands[1:3])
        self._write(operands[0], left * right + self._read(operands[3], 2 * bits, kind), active)

    def _do_shl(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        bits = type_named(parts[-1])[1]
        value, count = self._read(operands[1], bits), self._read(operands[2], 32)
        self._write(
            operands[0], np.where(count < bits, value << count.astype(value.dtype), 0).astype(value.dtype), active
        )

    def _do_shr(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        kind, bits = type_named(parts[-1])
        value, count = self._read(operands[1], bits, kind), self._read(operands[2], 32)
        self._write(operands[0], value >> np.minimum(count, bits - 1).astype(value.dtype), active)

    def _do_shf(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        assert parts[1:3] == ["r", "wrap"], parts
        low, high, count = (self._read(name, 32).astype(np.uint64) for name in operands[1:])
        self._write(operands[0], ((high << np.uint64(32) | low) >> (count & np.uint64(31))).astype(np.uint32), active)

    def _do_bfe(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        """Bits `first` to `first + length`, the last of which is a sign where the type has one."""
        kind, bits = type_named(parts[-1])
        value = self._read(operands[1], bits, kind)
        first, length = (self._read(name, 32).astype(value.dtype) for name in operands[2:])
        assert ((length > 0) & (first + length <= bits))[active].all(), f"{'.'.join(parts)} of bits that there are not"
        rest = np.where(active, bits - length, 0).astype(value.dtype)
        self._write(operands[0], value << (rest - np.where(active, first, 0).astype(value.dtype)) >> rest, active)

    def _do_prmt(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        low, high, chosen = (self._read(name, 32).astype(np.uint64) for name in operands[1:])
        assert parts[1:] == ["b32"], parts
        both, value = high << np.uint64(32) | low, np.zeros_like(low)
        for place in range(4):
            source = chosen >> np.uint64(4 * place)
            byte = both >> ((source & np.uint64(7)) * np.uint64(8)) & np.uint64(0xFF)
            signs = np.where(byte >> np.uint64(7), np.uint64(0xFF), np.uint64(0))
            value |= np.where(source & np.uint64(8), signs, byte) << np.uint64(8 * place)
        self._write(operands[0], value.astype(np.uint32), active)

    def _do_setp(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        if parts[-1].endswith("x2"):
            self._compare_pairs(parts, operands, active)
            return
        kind, bits = type_named(parts[-1])
        if bits == 16 and kind in ("f", "bf"):
            left, right = (self._read(name, 16).view(dtype_of(kind, 16)).astype(np.float32) for name in operands[1:])
            kind = "f"
        else:
            left, right = (self._read(name, bits, kind) for name in operands[1:])
        name = parts[1]
        unordered = (np.isnan(left) | np.isnan(right)) if kind == "f" else False
        if name in ("nan", "num"):
            self._write(operands[0], unordered if name == "nan" else ~unordered, active)
        elif kind == "f" and len(name) == 3 and name.endswith("u"):
            self._write(operands[0], _COMPARE[name[:2]](left, right) | unordered, active)
        else:
            self._write(operands[0], _COMPARE[name](left, right) & ~np.asarray(unordered), active)

    def _compare_pairs(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        """Two numbers of 16 bits in each operand, and a predicate for each in `%p1|%p2`."""
        left, right = (self._read(name, 32) for name in operands[1:])
        for shift, predicate in zip((0, 16), operands[0].split("|"), strict=True):
            halves = [(value >> np.uint32(shift)).astype(np.uint16) for value in (left, right)]
            for name, half in zip(("%rs_left", "%rs_right"), halves, strict=True):
                self.registers[name] = half
            one = [*parts[:-1], parts[-1].removesuffix("x2")]
            self._do_setp(one, (predicate, "%rs_left", "%rs_right"), active)

    def _do_selp(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        bits = type_named(parts[-1])[1]
        yes, no = (self._read(name, bits) for name in operands[1:3])
        self._write(operands[0], np.where(self._read(operands[3], 1), yes, no), active)

    def _do_cvt(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        target, source = parts[-2:]
        if target in FLOAT8:
            numbers = (self._read(name, 32, "f") for name in operands[1:])
            self._write(operands[0], pair_of_float8(target, *numbers), active)
            return
        if source in FLOAT8:
            self._write(operands[0], halves_of_float8(source, self._read(operands[1], 16)), active)
            return
        if target.endswith("x2"):
            dtype = ml_dtypes.bfloat16 if target.startswith("bf16") else np.float16
            high, low = (self._read(name, 32, "f").astype(dtype).view(np.uint16) for name in operands[1:])
            self._write(operands[0], low.astype(np.uint32) | (high.astype(np.uint32) << np.uint32(16)), active)
            return
        if parts[:3] == ["cvt", "rn", "tf32"]:  # halves to what is even, NaN as it is
            value = self._read(operands[1], 32)
            rounded = value + np.uint32(0xFFF) + ((value >> np.uint32(13)) & np.uint32(1))
            is_none = (value & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
            self._write(operands[0], np.where(is_none, value, rounded & np.uint32(0xFFFFE000)), active)
            return
        if "tf32" in parts:  # to the nearest of 10 bits of fraction, halves away from zero
            value = self._read(operands[1], 32) + np.uint32(0x1000)
            self._write(operands[0], value & np.uint32(0xFFFFE000), active)
            return
        if target == "tf32":
            # To nearest, ties away from zero: 13 of the 23 bits after the point go.
            bits = self._read(operands[1], 32)
            self._write(operands[0], (bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000), active)
            return
        value = self._numbers(operands[1], *type_named(source))
        for mode, rounded in _TO_WHOLE_NUMBERS.items():
            value = rounded(value) if mode in parts else value
        dtype = np.dtype(dtype_of(*type_named(target)))
        if value.dtype.kind == "f" and dtype.kind in "iu":
            value = _into_range(value, dtype)
        self._write(operands[0], value.astype(dtype), active)

    def _numbers(self, operand: str, kind: str, bits: int) -> np.ndarray:
        return np.ascontiguousarray(self._read(operand, bits)).view(dtype_of(kind, bits))

    def _do_cvta(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        self._write(operands[0], self._read(operands[1], 64), active)


def _as_stored(value: np.ndarray, bits: int) -> np.ndarray:
    """What a register of so many bits holds of a number."""
    size = value.dtype.itemsize * 8
    if size == bits:
        return value if value.dtype.kind == "u" else value.view(UNSIGNED[bits])
    if bits == 1:
        return value
    if value.dtype.kind == "i" and size < bits:
        return value.astype(SIGNED[bits]).view(UNSIGNED[bits])  # signed numbers fill wider registers with their sign
    return value.view(UNSIGNED[size]).astype(UNSIGNED[bits])


def _flushing(compute: Callable) -> Callable:
    """With zeros in place of subnormal operands and results, as `.ftz` says."""

    def flushed(value: np.ndarray) -> np.ndarray:
        subnormal = np.abs(value.astype(np.float64)) < float(np.finfo(np.float32).tiny)
        return np.where(subnormal, np.copysign(np.zeros_like(value), value), value)

    return lambda value: flushed(compute(flushed(value)))


def _into_range(value: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Floats that become integers of a dtype: the nearest end of its range outside of it, 0 for NaN."""
    ends = np.iinfo(dtype)
    inside = np.isfinite(value) & (value >= ends.min) & (value < float(ends.max) + 1)
    whole = np.where(inside, value, 0).astype(dtype)
    outside = np.where(np.isnan(value), 0, np.where(value > 0, ends.max, ends.min)).astype(dtype)
    return np.where(inside, whole, outside)


def high_product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The upper halves of products of numbers of 64 bits."""
    if left.dtype == np.int64:
        bits, others = left.view(np.uint64), right.view(np.uint64)
        below = np.where(left < 0, others, 0) + np.where(right < 0, bits, 0)  # what two's complement has too much
        return (high_product(bits, others) - below.astype(np.uint64)).view(np.int64)
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    middle = (left >> half) * (right & low) + ((left & low) * (right & low) >> half)
    other = (left & low) * (right >> half) + (middle & low)
    return (left >> half) * (right >> half) + (middle >> half) + (other >> half)


def _add_towards_zero(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The sum of two f32, whose f64 is exact enough: rounded towards zero."""
    exact = left.astype(np.float64) + right
    near = exact.astype(np.float32)
    return np.where(np.abs(near) > np.abs(exact), np.nextafter(near, np.float32(0)), near)


_TO_WHOLE_NUMBERS = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
_COMPARE = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal,
}  # fmt: skip
