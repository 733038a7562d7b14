"""`blu.autocast`: the precision of contractions and attention, for a part of a program."""

from __future__ import annotations

from contextlib import ContextDecorator
from contextvars import ContextVar
from typing import Any

from blu.dialects.core.autocast import ATTRIBUTE, GOVERNED, check_policy
from blu.dialects.core.mlir import ir

_policies: ContextVar[tuple[str, ...]] = ContextVar("autocast", default=())


class autocast(ContextDecorator):  # noqa: N801 (used like a function, as in torch)
    """Compute contractions and attention of f32 in another precision: "bf16", "f16", "tf32" or "f32".

        with blu.autocast("bf16"):
            y = x @ w                                  # operands in bf16, sums in f32; x, w and y are f32

        @blu.jit
        @blu.autocast("bf16")
        def step(model, tokens): ...

    Dtypes that one sees do not change: parameters and their gradients stay f32, and so do reductions, softmax, norms,
    losses and optimizers. What is traced inside is meant, the innermost policy counts, and "f32" switches it off.
    Gradients of what is computed inside follow it, wherever they are asked for.
    """

    def __init__(self, policy: str):
        self.policy = check_policy(policy)

    def __enter__(self) -> autocast:
        _policies.set((*_policies.get(), self.policy))
        return self

    def __exit__(self, *error: Any) -> None:
        _policies.set(_policies.get()[:-1])


def current_policy() -> str:
    """The policy that what is traced now is under; empty without one."""
    return _policies.get()[-1] if _policies.get() else ""


def marks_of(name: str) -> dict[str, ir.Attribute]:
    """The attributes that an op of this name gets for the current policy."""
    policy = current_policy()
    return {ATTRIBUTE: ir.StringAttr.get(policy)} if policy and name in GOVERNED else {}
