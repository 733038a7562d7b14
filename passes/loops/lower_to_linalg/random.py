"""Counter-based random bits: Philox 4x32 with ten rounds, computed for each element where it is needed."""

from __future__ import annotations

from blu.dialects.core.dtypes import i64, product
from blu.dialects.core.mlir import arith, ir, linalg, tensor
from blu.dialects.ops.random import PHILOX_KEY_STEPS, PHILOX_MULTIPLIERS, PHILOX_ROUNDS
from blu.passes.loops.lower_to_linalg.generic import PARALLEL, constant, empty, generic, projection, reshape
from blu.passes.loops.lower_to_linalg.rules import Lowering, lowers
from blu.passes.loops.lower_to_linalg.scalar import Scalar

_LOW = 0xFFFFFFFF


@lowers("random_bits")
def lower_random_bits(op: Lowering) -> ir.Value:
    """Element i is word i % 4 of the block with counter i // 4; all words are i64 that hold 32 bits."""
    key, size = op.operands[0], product(op.result.shape)
    i32 = ir.IntegerType.get_signless(32)

    def body(_: ir.Value) -> ir.Value:
        seed, stream = (_word(key, position) for position in range(2))
        position = Scalar(arith.index_cast(ir.IntegerType.get_signless(64), linalg.IndexOp(0).result), i64)
        block = _shift(position, 2)
        counter = [block & _LOW, _shift(block, 32), stream & _LOW, _shift(stream, 32)]
        words = _philox(counter, [seed & _LOW, _shift(seed, 32)])
        which = position & 3
        chosen = words[3]
        for index in (2, 1, 0):
            chosen = which.compare("eq", index).where(words[index], chosen)
        return arith.trunci(i32, chosen.value)

    (result,) = generic([], [empty((size,), i32)], [projection(1, [0])], [PARALLEL], body)
    return reshape(result, op.result.shape)


def _word(key: ir.Value, position: int) -> Scalar:
    return Scalar(tensor.extract(key, [constant(ir.IndexType.get(), position)]), i64)


def _shift(value: Scalar, bits: int) -> Scalar:
    """A logical shift to the right."""
    return Scalar(arith.shrui(value.value, value.like(bits).value), i64)


def _philox(counter: list[Scalar], key: list[Scalar]) -> list[Scalar]:
    """The rounds as in dialects/ops/random.py (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3")."""
    for _ in range(PHILOX_ROUNDS):
        first, second = counter[0] * PHILOX_MULTIPLIERS[0], counter[2] * PHILOX_MULTIPLIERS[1]
        counter = [
            _shift(second, 32) ^ counter[1] ^ key[0],
            second & _LOW,
            _shift(first, 32) ^ counter[3] ^ key[1],
            first & _LOW,
        ]
        key = [(word + step) & _LOW for word, step in zip(key, PHILOX_KEY_STEPS, strict=True)]
    return counter
