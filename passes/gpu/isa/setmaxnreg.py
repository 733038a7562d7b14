"""`setmaxnreg`: registers that warpgroups of a block hand on to each other."""

from __future__ import annotations

from blu.dialects.core.mlir import nvvm


def decrease(count: int) -> None:
    """Give back registers that a warpgroup does not need, so that another may have them."""
    nvvm.setmaxregister(count, nvvm.SetMaxRegisterAction.decrease)


def increase(count: int) -> None:
    """Take registers that others have given back; waits for them."""
    nvvm.setmaxregister(count, nvvm.SetMaxRegisterAction.increase)
