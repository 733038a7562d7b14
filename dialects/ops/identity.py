"""Values as they are, of which a pass may not see what they are: for sharing, or for gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from blu.dialects.batching import elementwise
from blu.dialects.core.dtypes import MOVED, TensorType, bf16, f32, i32
from blu.dialects.core.op import ErrorSample, Operand, Sample
from blu.dialects.core.sample_values import draw
from blu.dialects.moving import MovingOp
from blu.dialects.tensor.function import public
from blu.dialects.tensor.promotion import as_tensor
from blu.dialects.tensor.tensor import Tensor

__all__ = [
    "stop_gradient",
]


class _Identity(MovingOp):
    """Base of the ops that give their operand."""

    batch = staticmethod(elementwise)

    operand: Operand

    @staticmethod
    def reference(operand: np.ndarray) -> np.ndarray:
        return operand.copy()

    @staticmethod
    def infer(operand: TensorType) -> TensorType:
        return operand

    @staticmethod
    def error_samples() -> Iterator[ErrorSample]:
        return iter(())


class Barrier(_Identity, name="barrier"):
    """The operand as it is, but as another value: what is computed from it is not shared with what is computed alike
    from the operand, nor merged into one loop with it. It moves no data.

    Recomputation is written with it: without one, the same ops on the same operands would be found to be duplicates.
    """

    vjp = staticmethod(lambda g, operand, result: g)

    @staticmethod
    def samples() -> Iterator[Sample]:
        rng = np.random.default_rng(0)
        for dtype in (f32, bf16, i32):
            for shape in ((), (0, 2), (1,), (3, 4), (2, 3, 5)):
                yield Sample((draw(rng, shape, dtype, -9, 9),), {})


class StopGradient(_Identity, name="stop_gradient"):
    """The operand as it is; for gradients a constant. It goes when gradients have been written."""

    deliberate: ClassVar[dict[str, str]] = {"vjp": "that it has none is what it is for"}

    @staticmethod
    def samples() -> Iterator[Sample]:
        rng = np.random.default_rng(0)
        for dtype in MOVED:
            yield Sample((draw(rng, (3, 4), dtype, 0, 9),), {})
        for shape in ((), (0, 2), (1,)):
            yield Sample((draw(rng, shape, f32, -9, 9),), {})


class RefusedGradient(_Identity, name="refused_gradient"):
    """Stands where a gradient would be that there is not: a program that computes one is refused, and told the
    `reason`. It goes with all that nobody needs, as with what only derivatives along directions are made of. Without a
    reason it is its operand.
    """

    reason: str

    @staticmethod
    def reference(operand: np.ndarray, reason: str) -> np.ndarray:
        return operand.copy()

    @staticmethod
    def infer(operand: TensorType, reason: str) -> TensorType:
        return operand

    @staticmethod
    def vjp(g: Tensor, operand: Tensor, result: Tensor, reason: str) -> Tensor:
        return RefusedGradient(g, reason=reason)

    @staticmethod
    def samples() -> Iterator[Sample]:
        rng = np.random.default_rng(0)
        for dtype in (f32, bf16, i32):
            for shape in ((), (0, 2), (3, 4)):
                yield Sample((draw(rng, shape, dtype, -9, 9),), {"reason": ""})


@public
def stop_gradient(x: Any) -> Tensor:
    """x, taken as a constant by gradients: those of stop_gradient(x) with respect to x are 0."""
    return StopGradient(as_tensor(x))
