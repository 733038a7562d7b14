"""Random bits from a counter: the same key and position always give the same bits, in any order and on any target."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from blu.dialects.batching import in_turn
from blu.dialects.core.dtypes import TensorType, f32, i32, i64, product
from blu.dialects.core.op import ErrorSample, Ints, Op, Operand, Sample
from blu.errors import ShapeError

PHILOX_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
PHILOX_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
PHILOX_ROUNDS = 10


def philox(counter: list[np.ndarray], key: list[int]) -> list[np.ndarray]:
    """Philox4x32-10: four arrays of 32-bit words (as uint64) for four of the counter and two of the key."""
    mask = np.uint64(0xFFFFFFFF)
    for _ in range(PHILOX_ROUNDS):
        first = counter[0] * np.uint64(PHILOX_MULTIPLIERS[0])
        second = counter[2] * np.uint64(PHILOX_MULTIPLIERS[1])
        counter = [
            (second >> np.uint64(32)) ^ counter[1] ^ np.uint64(key[0]),
            second & mask,
            (first >> np.uint64(32)) ^ counter[3] ^ np.uint64(key[1]),
            first & mask,
        ]
        key = [(word + step) & 0xFFFFFFFF for word, step in zip(key, PHILOX_KEY_STEPS, strict=True)]
    return counter


class RandomBits(Op, name="random_bits"):
    """32 random bits per element (as i32), from Philox4x32-10.

    `key` is i64[2]: the seed and the stream. Element i in row-major order is word i % 4 of the block whose counter is
    (low 32 bits of i // 4, its high 32 bits, low 32 bits of the stream, its high 32 bits), under the Philox key
    (low 32 bits of the seed, its high 32 bits).
    """

    batch = staticmethod(in_turn)

    key: Operand
    shape: Ints

    @staticmethod
    def reference(key: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        seed, stream = (int(word) & 0xFFFFFFFFFFFFFFFF for word in key)
        blocks = np.arange(-(-product(shape) // 4), dtype=np.uint64)
        fill = [np.full(blocks.shape, word, np.uint64) for word in (stream & 0xFFFFFFFF, stream >> 32)]
        counter = [blocks & np.uint64(0xFFFFFFFF), blocks >> np.uint64(32), *fill]
        words = np.stack(philox(counter, [seed & 0xFFFFFFFF, seed >> 32]), axis=-1)
        return words.astype(np.uint32).view(np.int32).ravel()[: product(shape)].reshape(shape)

    @staticmethod
    def infer(key: TensorType, shape: tuple[int, ...]) -> TensorType:
        if key != TensorType((2,), i64):
            raise ShapeError(
                f"the key must be i64[2] (seed and stream), got {key}", advice="Make one with blu.random.key."
            )
        return TensorType(shape, i32)

    @staticmethod
    def samples() -> Iterator[Sample]:
        for key in ((0, 0), (1, 0), (0, 1), (-1, -1), (123456789012345, -987654321098765)):
            for shape in ((), (0,), (1,), (4,), (37,), (3, 5, 2)):
                yield Sample((np.array(key, np.int64),), {"shape": shape})

    @staticmethod
    def error_samples() -> Iterator[ErrorSample]:
        yield ErrorSample((TensorType((2,), f32),), {"shape": (2,)}, "the key must be i64[2]")
        yield ErrorSample((TensorType((4,), i64),), {"shape": (2,)}, "the key must be i64[2]")
        yield ErrorSample((TensorType((2,), i64),), {"shape": (-2,)}, "negative size")
