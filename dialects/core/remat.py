"""What of a part of a program is kept for its gradient, and how ops remember the part that they were traced in.

| policy | what a gradient finds in memory, of what the part has computed |
|---|---|
| nothing | only what the part reads and returns; the rest is computed again |
| contractions | the results of matmul, einsum and attention as well |
| everything | all that the gradient needs; not even a budget of memory has it computed again |
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from blu.dataclass import dataclass
from blu.dialects.core.marks import marking
from blu.dialects.core.mlir import ir
from blu.dialects.core.op import emitting_at
from blu.errors import ArgumentError, ParseError

POLICIES = ("nothing", "contractions", "everything")
CONTRACTIONS = ("blu.matmul", "blu.einsum", "blu.attention")
ATTRIBUTE = "blu.checkpoint"
# How many bytes of forward results a program's gradients may keep: an attribute of the module.
BUDGET = "blu.remat_budget"


@dataclass(frozen=True)
class Mark:
    """The part of a program that an op is in: its policy, and the number that tells it from other parts."""

    policy: str
    region: int

    @staticmethod
    def of(operation: ir.Operation) -> Mark | None:
        """The mark of an op; None for one without. ParseError for what is no mark."""
        if ATTRIBUTE not in operation.attributes:
            return None
        attribute = operation.attributes[ATTRIBUTE]
        try:
            fields = ir.DictAttr(attribute)
            mark = Mark(ir.StringAttr(fields["policy"]).value, ir.IntegerAttr(fields["region"]).value)
        except (KeyError, ValueError):
            mark = None
        if mark is None or mark.policy not in POLICIES:
            advice = f'Write {{policy = "{POLICIES[0]}", region = 1 : i64}}; policies: {", ".join(POLICIES)}.'
            raise ParseError(f"{ATTRIBUTE} = {attribute} is no mark of a checkpoint", advice=advice)
        return mark

    def to_attribute(self) -> ir.Attribute:
        """The mark as an attribute."""
        number = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), self.region)
        return ir.DictAttr.get({"policy": ir.StringAttr.get(self.policy), "region": number})

    def keeps(self, operation: ir.Operation) -> bool:
        """Whether the policy has the results of an op kept."""
        return self.policy == "everything" or (self.policy == "contractions" and operation.name in CONTRACTIONS)


def check_policy(policy: object) -> str:
    """The policy's name. ArgumentError lists those there are."""
    if not isinstance(policy, str) or policy not in POLICIES:
        raise ArgumentError(f"checkpoint does not know the policy {policy!r}", advice=f"One of {', '.join(POLICIES)}.")
    return policy


def check_budget(budget: object) -> int:
    """The number of bytes; ArgumentError for what is none."""
    if not isinstance(budget, int) or isinstance(budget, bool) or not 0 <= budget < 1 << 63:
        raise ArgumentError(f"a remat budget is a number of bytes, not {budget!r}", advice="0 keeps all.")
    return budget


def set_budget(module: ir.Module, budget: int) -> None:
    """Let a module's gradients keep so many bytes of forward results; 0: all."""
    if budget:
        with module.context:
            module.operation.attributes[BUDGET] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), budget)


def budget_of(module: ir.Module) -> int:
    """The module's budget in bytes, or 0."""
    attributes = module.operation.attributes
    if BUDGET not in attributes:
        return 0
    try:
        return check_budget(ir.IntegerAttr(attributes[BUDGET]).value)
    except (ArgumentError, ValueError):
        raise ParseError(f"{BUDGET} = {attributes[BUDGET]} is no number of bytes, such as 1000000 : i64") from None


@contextmanager
def emitting_in_place_of(operation: ir.Operation) -> Iterator[None]:
    """Give all ops emitted inside of the block the location and the mark of the op that they take the place of."""
    marks = {ATTRIBUTE: operation.attributes[ATTRIBUTE]} if ATTRIBUTE in operation.attributes else {}
    with emitting_at(operation.location), marking(lambda name: marks):
        yield
