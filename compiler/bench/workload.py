"""One thing that is measured: a function of arrays, said for Blu and for PyTorch, and what it takes at least."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any

from blu.dataclass import dataclass

BYTES = {"f64": 8, "f32": 4, "i32": 4, "bf16": 2, "f16": 2}


@dataclass(frozen=True)
class RandomArray:
    """An argument of random numbers: normal ones, or integers from 0 up to `below` where that is given."""

    shape: tuple[int, ...]
    dtype: str = "f32"
    below: int = 0

    @property
    def nbytes(self) -> int:
        return BYTES[self.dtype] * prod(self.shape)


@dataclass(frozen=True)
class Workload:
    """What is computed, and with what.

    `blu` gets Blu's tensors; `torch` gets the module torch and PyTorch's. Where `differentiated` names operands by
    their positions, their gradients are computed as well, and the last operand, which neither function gets, is the
    gradient of the result. `flops` multiplications and additions with units for `units` ("bf16", "tf32" or "f32"), and
    `nbytes` bytes that must be read or written once, bound the time from below.
    """

    name: str
    operands: tuple[RandomArray, ...]
    blu: Callable[..., Any]
    torch: Callable[..., Any]
    flops: int
    nbytes: int
    units: str = "f32"
    differentiated: tuple[int, ...] = ()

    def with_gradients(self, times: float, *positions: int) -> Workload:
        """The same and its gradients with respect to these operands, where these take `times` its arithmetic.

        The gradient of the result is like the first operand, as in attention and in normalizations.
        """
        like = self.operands[0]
        more = like.nbytes + sum(self.operands[position].nbytes for position in positions)
        return replace(
            self,
            name=f"{self.name}, gradients",
            operands=(*self.operands, like),
            flops=round(self.flops * (1 + times)),
            nbytes=self.nbytes + more,
            differentiated=positions,
        )
