"""The pass that has gradients compute forward results again."""

from __future__ import annotations

from blu.dataclass import dataclass
from blu.dialects.core.mlir import func, ir
from blu.dialects.core.remat import ATTRIBUTE, BUDGET, budget_of, check_budget
from blu.passes.framework.base import Pass, find
from blu.passes.graph.differentiate.differentiate import FORWARD
from blu.passes.graph.remat.delay import Delay
from blu.passes.graph.remat.recompute import Recompute
from blu.passes.graph.remat.saved import SavedValues


@dataclass(frozen=True)
class Remat(Pass):
    """What a gradient needs of the forward pass, and may not keep, is computed again just before it is needed.

        %y = "blu.exp"(%x) {blu.checkpoint = {policy = "nothing", region = 0 : i64}}
        %z = "blu.sin"(%y) {blu.checkpoint = {policy = "nothing", region = 0 : i64}}
        ...                                             (here the backward pass begins)
        %a = "blu.cos"(%y)

    becomes

        %y = "blu.exp"(%x)
        %z = "blu.sin"(%y)
        ...
        %b = "blu.barrier"(%x)
        %c = "blu.exp"(%b)
        %a = "blu.cos"(%c)

    The barrier keeps later passes from finding that %c is %y. What `blu.checkpoint` marks is computed again; where
    `budget` (or the module's `blu.remat_budget`) is not 0, so is more of what has been kept, that which takes the least
    work for its bytes first, until what is kept is within the budget.

    With `isolate`, gradients share nothing with the forward pass but the values that they are written in: statistics
    and exponentials are computed again from those, rather than kept beside them. With `cheap`, neither is kept what
    takes no more than another pass over memory, or a part of one that there is anyway: activations, normalizations,
    and copies in another precision.
    """

    level = "blu"
    budget: int = 0
    isolate: bool = False
    cheap: bool = False

    def __post_init__(self) -> None:
        check_budget(self.budget)

    def run(self, module: ir.Module) -> None:
        budget = self.budget or budget_of(module)
        for function in find(module, func.FuncOp):
            if FORWARD in function.attributes:
                self._rewrite(function, ir.IntegerAttr(function.attributes[FORWARD]).value, budget)
                del function.attributes[FORWARD]
        if BUDGET in module.operation.attributes:
            del module.operation.attributes[BUDGET]
        for operation in find(module, "blu.*"):
            if ATTRIBUTE in operation.operation.attributes:
                del operation.operation.attributes[ATTRIBUTE]

    def _rewrite(self, function: func.FuncOp, num_forward: int, budget: int) -> None:
        saved = SavedValues(function.entry_block, num_forward, is_frugal=self.isolate or self.cheap or budget > 0)
        if self.cheap:
            saved.give_up_cheap()
        if budget:
            saved.shrink(budget)
        Delay(saved).run()
        recompute = Recompute(saved)
        recompute.run()
        self.count("ops computed again", recompute.num_ops)
        self.count("bytes kept", saved.num_bytes)
