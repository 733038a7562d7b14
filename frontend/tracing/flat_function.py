"""A function of nested arguments as one of tensors: what gradients, and ops with regions, trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from blu.dialects.tensor.tensor import Tensor
from blu.errors import TraceError
from blu.frontend.tracing.trace import as_results
from blu.frontend.tracing.tree import TreeDef, flatten, set_leaf
from blu.frontend.tracing.user_location import user_line


class FlatFunction:
    """`function(*arguments, **keywords)` as a function of the tensors in them, which gives a list of tensors.

        step = FlatFunction(function, (state, weights))
        results = Repeat(step.tensors, body=step, count=3)              (an op with a region traces it)
        state = step.result_tree.unflatten(results)

    Whatever else is in the arguments is given to the function as it is. What the results' nesting is, and which of
    them are Python numbers (`weak_results`), is known after the call.

    With `hands_on`, the new values of buffers in the arguments' modules come behind the results, and `results_of` gives
    them to the modules of who has called. Without, a TraceError says that a buffer must not change there.
    """

    result_tree: TreeDef
    weak_results: list[bool]
    # The leaves that are buffers and have new values.
    changed: list[int]

    def __init__(
        self,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        keywords: dict[str, Any] | None = None,
        hands_on: bool = False,
    ):
        self.function, self.hands_on = function, hands_on
        self.given = (arguments, keywords or {})
        self.leaves, self.tree = flatten(self.given)
        # The leaves that are tensors.
        self.places = [index for index, leaf in enumerate(self.leaves) if isinstance(leaf, Tensor)]

    @property
    def tensors(self) -> list[Tensor]:
        """The tensors in the arguments, in order."""
        return [self.leaves[index] for index in self.places]

    @property
    def __name__(self) -> str:
        return getattr(self.function, "__name__", "function")

    def __call__(self, *tensors: Tensor) -> list[Tensor]:
        inner = list(self.leaves)
        for index, tensor in zip(self.places, tensors, strict=True):
            inner[index] = Tensor(tensor.value, self.leaves[index].is_weak)
        arguments, keywords = self.tree.unflatten(inner)
        results, self.result_tree = as_results(self.function(*arguments, **keywords))
        results = results + self._new_buffers((arguments, keywords), inner)
        self.weak_results = [tensor.is_weak for tensor in results]
        return results

    def _new_buffers(self, given: Any, before: list[Any]) -> list[Tensor]:
        """What the function has assigned to buffers of its arguments' modules."""
        if not self.tree.buffers:
            self.changed = []
            return []
        after = flatten(given)[0]
        self.changed = [place for place in sorted(self.tree.buffers) if after[place] is not before[place]]
        if self.changed and not self.hands_on:
            names = ", ".join(self.tree.names[place].partition(".")[2] for place in self.changed[:3])
            raise TraceError(
                f"{self.__name__} changes buffers ({names}), and is mapped or has a gradient of its own",
                location=user_line(),
                advice="Call the module's eval() before, or change them outside.",
            )
        return [after[place] for place in self.changed]

    def results_of(self, tensors: list[Tensor]) -> Any:
        """What the function returns, of the tensors that a call of it gives; buffers get their new values."""
        count = self.result_tree.num_leaves
        for place, tensor in zip(self.changed, tensors[count:], strict=True):
            set_leaf(self.given, self.tree.paths[place], tensor)
        return self.result_tree.unflatten(tensors[:count])
