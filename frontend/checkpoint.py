"""`blu.checkpoint`: what of a part of a program is kept for its gradient, and what is computed again."""

from __future__ import annotations

from contextlib import ContextDecorator
from contextvars import ContextVar
from typing import Any

from blu.dialects.core.mlir import ir
from blu.dialects.core.remat import ATTRIBUTE, Mark, check_policy
from blu.dialects.tensor.function import is_tracing

_marks: ContextVar[tuple[Mark | None, ...]] = ContextVar("checkpoint", default=())


class checkpoint(ContextDecorator):  # noqa: N801 (used like a function, as autocast is)
    """Keep less of what is computed inside for the gradient, and compute it again when the gradient asks for it.

        @blu.checkpoint()
        def block(x): ...                              # of each call only what it reads and returns is kept

        with blu.checkpoint("contractions"):
            y = blu.gelu(x @ w + b)                    # the product is kept, what follows is computed again

    Policies: "nothing" keeps what the part reads and returns, "contractions" the results of matmul, einsum and
    attention as well, "everything" all that the gradient needs. Each call, or `with` block, is a part of its own; of
    nested ones the outermost counts. Values and gradients do not change, and nothing changes where no gradient is
    taken.
    """

    def __init__(self, policy: str = "nothing"):
        self.policy = check_policy(policy)

    def __enter__(self) -> checkpoint:
        _marks.set((*_marks.get(), _mark(self.policy)))
        return self

    def __exit__(self, *error: Any) -> None:
        _marks.set(_marks.get()[:-1])


def _mark(policy: str) -> Mark | None:
    """The mark of the outermost part, or of this one; outside of a trace there is nothing to mark."""
    if not is_tracing():
        return None
    if (outer := current_mark()) is not None:
        return outer
    return Mark(policy, len(ir.InsertionPoint.current.block.operations))


def current_mark() -> Mark | None:
    """The mark of the part that what is traced now is in."""
    return _marks.get()[-1] if _marks.get() else None


def marks_of(name: str) -> dict[str, ir.Attribute]:
    """The attributes that an op gets for the current part, whatever its name."""
    mark = current_mark()
    return {} if mark is None else {ATTRIBUTE: mark.to_attribute()}
