"""The families of kernels: what passes know of each, whatever the target.

A kernel says its family in an attribute. Who writes its code is in the table of its target (`passes/cpu/families.py`,
`passes/gpu/families.py`). An op that has a kernel of its own (`kernel = True` in its class) is a family of its name.
The processes that generate code read this table too, so it imports no more of Blu than MLIR.
"""

from __future__ import annotations

from blu.dataclass import dataclass
from blu.dialects.core.mlir import func, ir

ATTRIBUTE = "blu.kernel"
SCRATCH = "blu.scratch"
"""The types of the memory that a kernel works in, beside what it reads and writes."""
WRITTEN_OVER = "blu.written_over"
"""The numbers of the results that a kernel writes over what it reads: all of that is to be read before."""
SCHEDULE = "blu.schedule"
"""How a kernel's code goes about its work (passes/kernels/schedules.py): emitters read it."""
UNTUNED = "blu.untuned"
"""The schedule that a kernel with a tuned one would have, until it is known whether the tuned one fits."""
MAKES_ROWS = "blu.makes_rows"
"""Of a kernel of a product on GPUs that makes its left factor itself (gpu/gemm/few_rows/normalize_in_products.py)."""
FULL_EFFORT = 2


@dataclass(frozen=True)
class Family:
    """One kind of kernels.

    `writes_over_elements` and `writes_over_rows` promise that all that an element, or a row, of the result needs is
    read before that is written, so that it may lie where an operand lies. `updates` is the op by which a kernel changes
    operands, and which of the op's (attention may do without). `is_batched` says that equal calls may be one launch.
    `effort` is how much of LLVM's middle end its code gets on processors: emitted kernels are near their final form,
    scalar loops are not.
    """

    name: str
    writes_over_elements: bool = False
    writes_over_rows: bool = False
    updates: tuple[str, int] | None = None
    is_batched: bool = False
    effort: int = FULL_EFFORT


GEMM = Family("gemm", writes_over_elements=True, effort=1)
ROWS = Family("rows", writes_over_elements=True, writes_over_rows=True, is_batched=True, effort=0)
LOOPS = Family("loops", is_batched=True)
SCAN = Family("scan")
UPDATE = Family("update", updates=("tensor.insert_slice", 1), is_batched=True, effort=0)
SCATTER_ADD = Family("scatter_add", updates=("blu.scatter_add", 0))
SETTLE_ROWS = Family("settle_rows", updates=("blu.settle_rows", 0))
ARGSORT = Family("argsort")
ARG_TOP_K = Family("arg_top_k")
ATTENTION = Family("attention", updates=("tensor.insert_slice", 1), effort=0)
ATTENTION_PIECE = Family("attention_piece", effort=0)
ATTENTION_GRADIENT = Family("attention_gradient", effort=0)
HOST = Family("host")
"""No kernels: steps that the host program does itself."""
FAMILIES = {
    family.name: family
    for family in (
        *(GEMM, ROWS, LOOPS, SCAN, UPDATE, SCATTER_ADD, SETTLE_ROWS, ARGSORT, ARG_TOP_K),
        *(ATTENTION, ATTENTION_PIECE, ATTENTION_GRADIENT),
    )
}


def family_named(name: str) -> Family:
    """The family of that name; one of which nothing is known but its name, where an op of a user's has a kernel."""
    return FAMILIES.get(name) or Family(name)


def family_of(kernel: func.FuncOp | ir.Operation) -> Family:
    """The family of a kernel."""
    return family_named(ir.StringAttr(kernel.attributes[ATTRIBUTE]).value)


def mark(kernel: func.FuncOp, family: Family) -> None:
    """Say of a function that it is a kernel of a family."""
    kernel.attributes[ATTRIBUTE] = ir.StringAttr.get(family.name, kernel.operation.context)


def is_kernel(function: func.FuncOp | ir.Operation) -> bool:
    """Whether a function is a kernel, and not the host program or what kernels call."""
    return ATTRIBUTE in function.attributes


def reserve(kernel: func.FuncOp, types: list[ir.MemRefType]) -> None:
    """Say of a kernel what memory it works in."""
    kernel.attributes[SCRATCH] = ir.ArrayAttr.get([ir.TypeAttr.get(type_) for type_ in types])
