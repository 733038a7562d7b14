"""A pass as a user writes it, in one file."""

from dataclasses import dataclass

from blu.passes.framework.base import Pass, find, replace


@dataclass(frozen=True)
class DropNegations(Pass):
    """Two negations cancel each other.

    %1 = "blu.negative"(%0)
    %2 = "blu.negative"(%1)        ->        uses of %2 become uses of %0
    """

    level = "blu"
    max_count: int = 1000

    def run(self, module):
        for number, outer in enumerate(find(module, "blu.negative")):
            inner = outer.operands[0].owner
            if getattr(inner, "name", "") != "blu.negative":
                continue
            if number >= self.max_count:
                self.fail(outer, f"more than {self.max_count} negations")
            replace(outer, [inner.operands[0]])
            self.count("pairs dropped")
