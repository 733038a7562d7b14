"""From `blu` to linalg: one rule per op, in the file named as the op's file in `dialects`."""

from blu.passes.lower_to_linalg import (  # noqa: F401  (importing a file registers its rules)
    contraction,
    indexing,
    pointwise,
    random,
    reduction,
    scan,
    shape,
    sorting,
)
from blu.passes.lower_to_linalg.lower_to_linalg import LowerToLinalg
from blu.passes.lower_to_linalg.rules import RULES, lowers

__all__ = ["RULES", "LowerToLinalg", "lowers"]
