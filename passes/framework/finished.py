"""Who is told of kernels at the last level while others are still on their way there: code can be made of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar

from blu.dialects.core.mlir import ir
from blu.dialects.inside import inside

Tell = Callable[[ir.Operation, Sequence[ir.Operation]], None]
"""Takes a kernel, and operations that are no kernels, to which it may refer."""
_tell: ContextVar[Tell] = ContextVar("finished", default=lambda kernel, others: None)


def telling_of_kernels(tell: Tell) -> AbstractContextManager[None]:
    """Inside, passes tell of kernels that have become code of the LLVM dialect before others. They may still change."""
    return inside(_tell, tell)


def tell_of(kernel: ir.Operation, others: Sequence[ir.Operation]) -> None:
    """Tell whoever wants to know that a kernel has become code of the LLVM dialect."""
    _tell.get()(kernel, others)
