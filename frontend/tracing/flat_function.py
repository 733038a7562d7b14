"""A function of nested arguments as one of tensors: what gradients, and ops with regions, trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from blu.dialects.tensor.tensor import Tensor
from blu.frontend.tracing.trace import as_results
from blu.frontend.tracing.tree import TreeDef, flatten


class FlatFunction:
    """`function(*arguments, **keywords)` as a function of the tensors in them, which gives a list of tensors.

        step = FlatFunction(function, (state, weights))
        results = Repeat(step.tensors, body=step, count=3)              (an op with a region traces it)
        state = step.result_tree.unflatten(results)

    Whatever else is in the arguments is given to the function as it is. What the results' nesting is, and which of
    them are Python numbers (`weak_results`), is known after the call.
    """

    result_tree: TreeDef
    weak_results: list[bool]

    def __init__(
        self, function: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any] | None = None
    ):
        self.function = function
        self.leaves, self.tree = flatten((arguments, keywords or {}))
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
        self.weak_results = [tensor.is_weak for tensor in results]
        return results
