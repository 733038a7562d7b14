"""Small passes for the tests of the driver, and a module to run them on."""

from __future__ import annotations

from dataclasses import dataclass

from blu.dialects.core.mlir import ir
from blu.passes.framework.base import Pass, find, replace

MODULE = """
module {
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = "blu.negative"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %1 = "blu.negative"(%0) : (tensor<4xf32>) -> tensor<4xf32>
    %2 = "blu.exp"(%1) : (tensor<4xf32>) -> tensor<4xf32>
    return %2 : tensor<4xf32>
  }
}
"""


@dataclass(frozen=True)
class ToyDropNegations(Pass):
    """Two negations cancel each other.

    %1 = "blu.negative"(%0)
    %2 = "blu.negative"(%1)        ->        uses of %2 become uses of %0
    """

    level = "blu"
    max_count: int = 100

    def run(self, module: ir.Module) -> None:
        for outer in find(module, "blu.negative"):
            inner = outer.operands[0].owner
            if getattr(inner, "name", "") == "blu.negative":
                replace(outer, [inner.operands[0]])
                self.count("pairs")


@dataclass(frozen=True)
class ToyOptions(Pass):
    """Holds an option of each kind; changes nothing.

    (any IR)        ->        (the same)
    """

    count: int = 3
    ratio: float = 0.5
    is_fast: bool = False
    label: str = ""
    tile_sizes: tuple[int, ...] = (8, 8)

    def run(self, module: ir.Module) -> None:
        """Nothing."""


class ToyRaise(Pass):
    """Raises a KeyError at the first exponential. (Any IR -> an error.)"""

    level = "blu"

    def run(self, module: ir.Module) -> None:
        for _ in find(module, "blu.exp"):
            {}["missing"]


class ToyComplain(Pass):
    """Complains about the first exponential. (Any IR -> an error.)"""

    level = "blu"

    def run(self, module: ir.Module) -> None:
        for operation in find(module, "blu.exp"):
            self.fail(operation, "exponentials are not welcome", advice="use exp2")


class ToyBreak(Pass):
    """Removes the name of each function. (Valid IR -> IR that does not verify.)"""

    def run(self, module: ir.Module) -> None:
        for function in find(module, "func.func"):
            del function.attributes["sym_name"]


KEPT: list[ir.OpView] = []


class ToyKeep(Pass):
    """Keeps operations beyond its run, which passes must not do. (The IR stays.)"""

    def run(self, module: ir.Module) -> None:
        KEPT[:] = list(find(module, "blu.negative"))


class ToyUseKept(Pass):
    """Prints what ToyKeep has kept. (The IR stays.)"""

    def run(self, module: ir.Module) -> None:
        for operation in KEPT:
            str(operation)
