"""Choices in compiled functions, by a value that is known when the program runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from blu.dataclass import dataclass, field
from blu.dialects.core.dtypes import bool_
from blu.dialects.hooks import HOOKS
from blu.dialects.ops.control.cond import Cond
from blu.dialects.tensor.function import is_tracing
from blu.dialects.tensor.promotion import as_tensor, common_dtype
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ArgumentError, DTypeError, ShapeError, TraceError
from blu.frontend.tracing.trace import as_results_or_numbers
from blu.frontend.tracing.tree import TreeDef, describe_difference
from blu.frontend.tracing.user_location import user_line


def cond(pred: Any, true_fun: Callable[..., Any], false_fun: Callable[..., Any], *operands: Any) -> Any:
    """`true_fun(*operands)` if `pred` is true, else `false_fun(*operands)`; what they give is nested and typed alike.

        step = blu.cond(norm > 1.0, lambda g: g / norm, lambda g: g, gradient)

    `pred` is a scalar: a bool, or a number, which is true where it is not 0. Both functions are computed, and of one
    the results are taken: a program chooses without waiting for anything. Indices out of range, and divisions by zero,
    are errors and warnings in the one that is chosen. The gradient is that of the one that is chosen.

    Raises ShapeError, DTypeError or TraceError for functions that give other types or nestings, naming the leaf.
    """
    return _chosen("cond", pred, (true_fun, "true_fun"), (false_fun, "false_fun"), operands)


def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """`branches[index](*operands)`, an index beyond the first or last being that one's; as `cond` otherwise.

    ArgumentError for no branches, or an index that is no integer; ShapeError for one that is no scalar.
    """
    if not branches:
        raise ArgumentError("switch: there are no branches", location=user_line())
    if not is_tracing():

        def switched(index: Any, *operands: Any) -> Any:
            return switch(index, branches, *operands)

        return HOOKS.compiler.run_transformed(switched, (index, *operands), {})
    number = as_tensor(index)
    if number.shape or not number.dtype.is_integer:
        raise ArgumentError(f"switch: the index is {number.type}, and no integer", location=user_line())

    def among(first: int, last: int) -> Callable[..., Any]:
        if last - first == 1:
            return branches[first]
        middle = (first + last) // 2
        lower, upper = ((among(*half), f"branches[{half[0]}]") for half in ((first, middle), (middle, last)))
        return lambda *operands: _chosen("switch", number < middle, lower, upper, operands)

    return among(0, len(branches))(*operands)


def _chosen(
    what: str, pred: Any, one: tuple[Callable, str], other: tuple[Callable, str], operands: tuple[Any, ...]
) -> Any:
    if not is_tracing():

        def choose(pred: Any, *operands: Any) -> Any:
            return _chosen(what, as_tensor(pred), one, other, operands)

        return HOOKS.compiler.run_transformed(choose, (pred, *operands), {})
    holds = as_tensor(pred)
    if holds.shape:
        advice = "blu.where chooses for each element."
        raise ShapeError(f"{what}: the predicate is {holds.type}, and no scalar", location=user_line(), advice=advice)
    holds = holds if holds.dtype == bool_ else holds != 0
    first = _Branch(*one, operands)
    second = _Branch(*other, operands)
    while True:
        try:
            results = Cond(holds, on_true=first, on_false=lambda: second.like(first, what))
        except _NumberRaisedError:
            continue
        found = [Tensor(item.value, is_weak) for item, is_weak in zip(results, second.weak, strict=True)]
        return second.tree.unflatten(found)


@dataclass
class _Branch:
    """One of two functions, with what it gives."""

    function: Callable[..., Any]
    name: str
    operands: tuple[Any, ...]
    tree: TreeDef = field(init=False)
    given: list[Tensor] = field(init=False)
    # The dtypes that results take, where the other function gives others for numbers of this one.
    raised: dict[int, Any] = field(default_factory=dict)

    def __call__(self) -> list[Tensor]:
        results, self.tree = as_results_or_numbers(self.function(*self.operands))
        self.given = [
            as_tensor(item, self.raised[place]) if place in self.raised else item for place, item in enumerate(results)
        ]
        return self.given

    def like(self, other: _Branch, what: str) -> list[Tensor]:
        """The results, once they are of the types of another's. Numbers take the dtype of what they meet."""
        self()
        if self.tree != other.tree:
            raise TraceError(
                f"{what}: {other.name} and {self.name} give results of different nestings, "
                f"{describe_difference(other.tree, self.tree).replace('the argument', 'the result')}",
                location=user_line(),
            )
        pairs = list(zip(self.tree.names, other.given, self.given, strict=True))
        raised = False
        for place, (name, one, own) in enumerate(pairs):
            if one.type == own.type:
                continue
            if one.shape == own.shape and (one.is_weak or own.is_weak):
                self.raised[place] = other.raised[place] = common_dtype(one, own)
                raised = True
                continue
            kind = ShapeError if one.shape != own.shape else DTypeError
            leaf = f"result {name}" if name else "the result"
            raise kind(
                f"{what}: {leaf} is {one.type} by {other.name}, and {own.type} by {self.name}", location=user_line()
            )
        if raised:
            raise _NumberRaisedError
        self.weak = [one.is_weak and own.is_weak for _, one, own in pairs]
        return self.given


class _NumberRaisedError(Exception):
    """A number in a result takes the dtype of the other function's."""
