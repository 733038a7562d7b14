"""From `blu` to linalg: one rule per op, in the file named as the op's file in `dialects`."""

# Importing a file registers its rules.
from blu.passes.loops.lower_to_linalg import (  # noqa: F401
    cond,
    contraction,
    creation,
    identity,
    index_check,
    indexing,
    pointwise,
    pooling,
    random,
    reduction,
    row_windows,
    scan,
    shape,
    sorting,
)
from blu.passes.loops.lower_to_linalg.lower_to_linalg import LowerToLinalg
from blu.passes.loops.lower_to_linalg.rules import RULES, lowers

__all__ = ["RULES", "LowerToLinalg", "lowers"]
