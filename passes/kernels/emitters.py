"""Tables of who writes the kernels of each family for a target: imported with the first of these kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from blu.dataclass import dataclass
from blu.dialects.core.mlir import func, ir
from blu.passes.kernels.schedules import Scheduler

Written = TypeVar("Written", bound="list[func.FuncOp] | None")


@dataclass(frozen=True)
class Emitter(Generic[Written]):
    """`emit` replaces a kernel by others, which are launched in order with the same arguments: those that it returns,
    or where that is None one of the same name.

    `scratch` tells the types of the memory that they work in, from the kernel on tensors. `scheduler` chooses how a
    kernel goes about its work, which the others read; families without one have no choice.
    """

    emit: Callable[[func.FuncOp, Any], Written]
    scratch: Callable[[func.FuncOp], list[ir.MemRefType]] | None = None
    scheduler: Scheduler | None = None


class Emitters(Mapping[str, Emitter[Written]]):
    """Emitters by the names of families, from functions that import them."""

    def __init__(self, makers: Mapping[str, Callable[[], Emitter[Written]]]):
        self._makers = makers
        self._made: dict[str, Emitter[Written]] = {}

    def __getitem__(self, family: str) -> Emitter[Written]:
        if family not in self._made:
            self._made[family] = self._makers[family]()
        return self._made[family]

    def __contains__(self, family: object) -> bool:
        return family in self._makers

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)
