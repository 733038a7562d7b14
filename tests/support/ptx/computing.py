"""The instructions of PTX that compute a register from others, as functions of arrays of numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple

import ml_dtypes
import numpy as np

from tests.support.ptx.float8 import FLOAT8, halves_of_float8, pair_of_float8
from tests.support.ptx.program import SIGNED, UNSIGNED, constant, dtype_of, type_named
from tests.support.ptx.registers import read_dtype
from tests.support.ptx.rounding import (
    add_towards_zero,
    flushing,
    high_product,
    into_range,
    of_pairs,
    rounded_once,
    to_even_tf32,
    to_tf32,
)

_WORD, _FLOAT, _BOOL = np.dtype(np.uint32), np.dtype(np.float32), np.dtype(np.bool_)
_HALVES, _PAIRS = ("bf16", "f16", "bf16x2", "f16x2"), ("s16x2", "u16x2")


class Form(NamedTuple):
    """What instructions of a name compute from their sources: of each the place among the operands, and the dtype that
    it is read as."""

    compute: Callable[..., np.ndarray]
    sources: tuple[tuple[int, np.dtype], ...]


@cache
def form_of(name: str, count: int, shift: str = "") -> Form | None:
    """What instructions with so many operands compute, the first one from the others, of which a shift's last one is
    the literal `shift`; None if they do something else."""
    parts = name.split(".")
    if parts[0] in ("shl", "shr"):
        return _shift(parts, shift)
    if parts[0] in _SIMPLE:
        return _elementwise(parts, count, _SIMPLE[parts[0]](parts))
    return _FORMS[parts[0]](parts, count) if parts[0] in _FORMS else None


def _of_all(compute: Callable, count: int, dtype: np.dtype) -> Form:
    return Form(compute, tuple((place, dtype) for place in range(1, count)))


def _elementwise(parts: list[str], count: int, compute: Callable) -> Form:
    """The same function of each number, of two in a word, or of predicates."""
    suffix = parts[-1]
    if suffix in _HALVES:
        return _of_all(rounded_once(compute, suffix), count, read_dtype("b", 32 if suffix.endswith("x2") else 16))
    if suffix in _PAIRS:
        return _of_all(of_pairs(compute, suffix), count, _WORD)
    return _of_all(compute, count, _BOOL if suffix == "pred" else read_dtype(*type_named(suffix)))


def _divided(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return left / right if left.dtype.kind == "f" else left // np.where(right == 0, 1, right)


def _fused(left: np.ndarray, right: np.ndarray, more: np.ndarray) -> np.ndarray:
    return (left.astype(np.float64) * right + more).astype(left.dtype)


_SIMPLE: dict[str, Callable[[list[str]], Callable]] = {
    "add": lambda parts: add_towards_zero if parts[1] == "rz" else np.add,
    "sub": lambda _: np.subtract,
    "min": lambda parts: np.minimum if "NaN" in parts else np.fmin,
    "max": lambda parts: np.maximum if "NaN" in parts else np.fmax,
    "and": lambda _: np.bitwise_and,
    "or": lambda _: np.bitwise_or,
    "xor": lambda _: np.bitwise_xor,
    "not": lambda _: np.invert,
    "popc": lambda _: lambda value: np.bitwise_count(value).astype(np.uint32),
    "neg": lambda _: np.negative,
    "abs": lambda _: np.abs,
    "div": lambda _: _divided,
    "rem": lambda _: lambda left, right: left % np.where(right == 0, 1, right),
    "rcp": lambda _: lambda value: np.float32(1) / value,
    "sqrt": lambda _: np.sqrt,
    "rsqrt": lambda _: lambda value: (1 / np.sqrt(value.astype(np.float64))).astype(value.dtype),
    "copysign": lambda _: lambda sign, value: np.copysign(value, sign),
    "ex2": lambda parts: flushing(np.exp2) if "ftz" in parts else np.exp2,
    "lg2": lambda _: np.log2,
    "fma": lambda _: _fused,
}


def _wide_dtypes(suffix: str) -> tuple[np.dtype, type]:
    """The dtype of numbers, and the type of twice as many bits."""
    kind, bits = type_named(suffix)
    assert bits in (16, 32), f"the machine does not know products of {suffix} that are wide"
    return read_dtype(kind, bits), (SIGNED if kind == "s" else UNSIGNED)[2 * bits]


def _mul(parts: list[str], count: int) -> Form:
    if parts[1] not in ("wide", "hi"):
        return _elementwise(parts, count, np.multiply)
    if parts[1] == "hi" and type_named(parts[-1])[1] == 64:
        return _elementwise(parts, count, high_product)
    dtype, wide = _wide_dtypes(parts[-1])
    product = partial(np.multiply, dtype=wide)
    if parts[1] == "wide":
        return _of_all(product, count, dtype)
    bits = wide(8 * dtype.itemsize)
    return _of_all(lambda left, right: (product(left, right) >> bits).astype(dtype), count, dtype)


def _mad(parts: list[str], count: int) -> Form:
    if parts[1] != "wide":
        return _elementwise(parts, count, lambda left, right, more: left * right + more)
    dtype, wide = _wide_dtypes(parts[-1])
    product = partial(np.multiply, dtype=wide)
    return Form(lambda left, right, more: product(left, right) + more, ((1, dtype), (2, dtype), (3, np.dtype(wide))))


def _shift(parts: list[str], by: str) -> Form:
    """To the left or right, of what is as far as the number has bits: to nothing, or as far as that."""
    kind, bits = type_named(parts[-1])
    is_left = parts[0] == "shl"
    dtype, most = read_dtype("b" if is_left else kind, bits), bits - 1
    shift = np.left_shift if is_left else np.right_shift
    known = int(constant(by, 32)) if by else bits
    if known <= most or (by and not is_left):
        step = dtype.type(min(known, most))
        return Form(lambda value: shift(value, step), ((1, dtype),))
    if not is_left:
        return Form(lambda value, count: value >> np.minimum(count, most).astype(dtype), ((1, dtype), (2, _WORD)))
    return Form(
        lambda value, count: np.where(count <= most, value << count.astype(dtype), 0).astype(dtype),
        ((1, dtype), (2, _WORD)),
    )


def _setp(parts: list[str], count: int) -> Form | None:
    if parts[-1].endswith("x2"):
        return None
    assert count == 3, f"the machine does not know {'.'.join(parts)} of {count - 1} operands"
    kind, bits = type_named(parts[-1])
    compute = _comparison(parts[1], kind in ("f", "bf"))
    if bits == 16 and kind in ("f", "bf"):
        half = dtype_of(kind, 16)
        wide = lambda *values: compute(*(item.view(half).astype(np.float32) for item in values))  # noqa: E731
        return _of_all(wide, count, read_dtype("b", 16))
    return _of_all(compute, count, read_dtype(kind, bits))


@cache
def _comparison(name: str, is_float: bool) -> Callable:
    """How two numbers compare; of floats, whether that is so if one of them is NaN."""
    if not is_float:
        return COMPARE[name]
    if name == "nan":
        return _are_unordered
    if name == "num":
        return lambda left, right: ~_are_unordered(left, right)
    if len(name) == 3 and name.endswith("u"):
        compare = COMPARE[name[:2]]
        return lambda left, right: compare(left, right) | _are_unordered(left, right)
    if name == "ne":
        return lambda left, right: (left != right) & ~_are_unordered(left, right)
    return COMPARE[name]  # which no NaN fulfils


def _are_unordered(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return np.isnan(left) | np.isnan(right)


def _selp(parts: list[str], count: int) -> Form:
    dtype = read_dtype("b", type_named(parts[-1])[1])
    return Form(np.where, ((3, _BOOL), (1, dtype), (2, dtype)))


def _mov(parts: list[str], count: int) -> Form:
    return _of_all(lambda value: value, count, _BOOL if parts[-1] == "pred" else _dtype_of(parts[-1]))


def _dtype_of(name: str) -> np.dtype:
    return read_dtype("b", type_named(name)[1])


def _cvt(parts: list[str], count: int) -> Form:
    target, origin = parts[-2:]
    if target in FLOAT8:
        return _of_all(partial(pair_of_float8, target), count, _FLOAT)
    if origin in FLOAT8:
        return _of_all(partial(halves_of_float8, origin), count, read_dtype("b", 16))
    if target.endswith("x2"):
        return _of_all(_packed(ml_dtypes.bfloat16 if target.startswith("bf16") else np.float16), count, _FLOAT)
    if parts[:3] == ["cvt", "rn", "tf32"]:
        return _of_all(to_even_tf32, count, _WORD)
    if "tf32" in parts:
        return _of_all(to_tf32, count, _WORD)
    return _of_all(_converted(parts, *type_named(origin)), count, _dtype_of(origin))


def _packed(dtype: type) -> Callable:
    """Two f32 as two numbers of 16 bits in a word, the first one in its upper half."""

    def packed(high: np.ndarray, low: np.ndarray) -> np.ndarray:
        both = np.empty((len(high), 2), dtype)
        both[:, 0], both[:, 1] = low, high
        return both.view(np.uint32)[:, 0]

    return packed


def _converted(parts: list[str], kind: str, bits: int) -> Callable:
    """From words of a type of PTX to a number of another one."""
    held, dtype = np.dtype(dtype_of(kind, bits)), np.dtype(dtype_of(*type_named(parts[-2])))
    stored = dtype if dtype.kind in "iuf" else read_dtype("b", 8 * dtype.itemsize)
    modes = [rounded for mode, rounded in _TO_WHOLE_NUMBERS.items() if mode in parts]

    def converted(word: np.ndarray) -> np.ndarray:
        value = word.view(held)
        for rounded in modes:
            value = rounded(value)
        if value.dtype.kind == "f" and dtype.kind in "iu":
            return into_range(value, dtype)
        return value.astype(dtype).view(stored)

    return converted


_TO_WHOLE_NUMBERS = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
COMPARE = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal,
}  # fmt: skip
_FORMS: dict[str, Callable[[list[str], int], Form | None]] = {
    "mul": _mul, "mad": _mad, "setp": _setp, "selp": _selp, "cvt": _cvt, "cvta": _mov, "mov": _mov,
}  # fmt: skip
