"""Keys, bits, and what is drawn with few of them: uniform and normal numbers, integers, positions, permutations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from blu.dialects.core.dtypes import DType, as_dtype, bf16, computing_dtype, f16, f32, f64, i64
from blu.dialects.ops.random import RandomBits
from blu.dialects.tensor.arithmetic import cos, log, log1p, sqrt
from blu.dialects.tensor.arrangement import as_shape, stack
from blu.dialects.tensor.function import public
from blu.dialects.tensor.promotion import as_tensor, converted
from blu.dialects.tensor.refusals import shown
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ArgumentError, DTypeError, ShapeError, calling_line

# How many random bits a uniform number of a dtype has: as many as it holds exactly between 1/2 and 1.
UNIFORM_BITS = {f16: 11, bf16: 8, f32: 24, f64: 53}


def key(seed: int) -> np.ndarray:
    """The key (i64[2]: seed and stream) of a Python integer of up to 64 bits. ArgumentError for what is none."""
    try:
        number = int(seed)
    except (TypeError, ValueError):
        message = f"key: seed is {shown(seed)}, and not int"
        raise ArgumentError(message, location=calling_line()) from None
    return np.array([((number + 2**63) % 2**64) - 2**63, 0], np.int64)


def _words(key: Any, shape: tuple[int, ...]) -> Tensor:
    """Random i64 numbers of `shape`, from two words of 32 bits each."""
    halves = RandomBits(as_tensor(key), shape=(*shape, 2)).astype(i64)
    return (halves[..., 0] << 32) | (halves[..., 1] & 0xFFFFFFFF)


@public
def split(key: Any, count: int = 2) -> Tensor:
    """`count` keys [count, 2] that are independent of each other and of draws from other keys.

    They are unpacked as others are (`first, second = split(key)`), and slices for `blu.scan` and `blu.vmap`.
    """
    return _words(key, (count, 2))


@public
def fold_in(key: Any, number: Any) -> Tensor:
    """A key made of a key and an integer, such as the step of a loop; other integers give independent keys."""
    words = as_tensor(key)
    mixed = stack([words[0], words[1] + as_tensor(number, i64)])
    return _words(mixed, (2,))


@public
def bits(key: Any, shape: Any = ()) -> Tensor:
    """32 random bits per element, as i32."""
    return RandomBits(as_tensor(key), shape=as_shape(shape))


def unit(key: Any, shape: tuple[int, ...], dtype: DType) -> Tensor:
    """Uniform numbers in [0, 1), multiples of 2 ** -UNIFORM_BITS."""
    if not dtype.is_float:
        raise DTypeError(f"uniform numbers are of a float dtype, not {dtype}", advice="Use blu.random.integers.")
    count = UNIFORM_BITS[dtype]
    wide = computing_dtype(dtype)
    if count > 32:
        whole = (_words(key, shape) >> (64 - count)) & (2**count - 1)
    else:
        whole = (RandomBits(as_tensor(key), shape=shape) >> (32 - count)) & (2**count - 1)
    return converted(converted(whole, wide) * 2.0**-count, dtype)


@public
def uniform(key: Any, shape: Any = (), low: Any = 0.0, high: Any = 1.0, dtype: Any = "f32") -> Tensor:
    """Uniform numbers from `low` up to `high` (excluded for 0 and 1; elsewhere rounding may reach it).

    DTypeError for a dtype that is no float's.
    """
    target = as_dtype(dtype)
    share = unit(key, as_shape(shape), target)
    if isinstance(low, float | int) and isinstance(high, float | int) and (low, high) == (0, 1):
        return share
    wide = converted(share, computing_dtype(target))
    return converted(wide * (high - as_tensor(low, wide.dtype)) + low, target)


@public
def normal(key: Any, shape: Any = (), dtype: Any = "f32") -> Tensor:
    """Normal numbers of mean 0 and deviation 1, by the Box-Muller transform.

    DTypeError for a dtype that is no float's.
    """
    target = as_dtype(dtype)
    wide = computing_dtype(target)
    pairs = unit(key, (2, *as_shape(shape)), wide)
    radius = sqrt(log(1.0 - pairs[0]) * -2.0)
    return converted(radius * cos(pairs[1] * (2 * math.pi)), target)


@public
def bernoulli(key: Any, probability: Any = 0.5, shape: Any = None) -> Tensor:
    """Bools that are true with the probability given (a number, or a tensor of which `shape` is the default).

    DTypeError for a probability that is no float.
    """
    chance = as_tensor(probability, f32)
    return unit(key, chance.shape if shape is None else as_shape(shape), f32) < chance


@public
def integers(key: Any, low: int, high: int, shape: Any = (), dtype: Any = "i32") -> Tensor:
    """Integers from `low` up to `high` (excluded), equally likely up to one part in 2**63 / (high - low).

    ShapeError where there are none from `low` up to `high`.
    """
    if not low < high:
        raise ShapeError(f"integers from {low} up to {high} (excluded): there are none")
    return converted((_words(key, as_shape(shape)) & (2**63 - 1)) % (high - low) + low, as_dtype(dtype))


@public
def categorical(key: Any, logits: Any, axis: int = -1) -> Tensor:
    """Positions (i64) along an axis, drawn with the probabilities softmax(logits)."""
    scores = as_tensor(logits)
    scores = converted(scores, computing_dtype(scores.dtype) if scores.dtype.is_float else f64)
    # The winner is the one with the least exponential noise, so that u must be dense near 0 and never 0 itself.
    whole = RandomBits(as_tensor(key), shape=scores.shape).astype(i64) & 0xFFFFFFFF
    share = (converted(whole, scores.dtype) + 0.5) * 2.0**-32
    return (scores - log(-log1p(-share))).argmax(axis=axis)


@public
def permutation(key: Any, count: int) -> Tensor:
    """The numbers 0..count-1 (i64) in random order."""
    return _words(key, (count,)).argsort()
