"""Ops that bring elements to other places."""

from __future__ import annotations

from blu.dialects.core.op import Op


class MovingOp(Op):
    """Base of the ops that compute nothing: they take all dtypes that tensors have."""

    takes_float8 = True
