"""What a traced program tells while it runs: functions of Python's that are called with values of it.

The values are further results of the program, behind those that its caller gets, so that no pass drops, repeats or
moves what happens to them; a gradient returns those of its function, a loop stacks those of its steps. After the run
the functions are called with them in the order of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from itertools import repeat
from typing import Any

import numpy as np

from blu.dataclass import dataclass, field
from blu.dialects.core.mlir import ir
from blu.dialects.inside import inside
from blu.dialects.tensor.tensor import Tensor
from blu.errors import CallbackError, TraceError
from blu.frontend.tracing.tree import TreeDef
from blu.frontend.tracing.user_location import user_line


class Awaited:
    """Stands for a tensor once the trace is over, which takes its values with it."""


@dataclass(frozen=True)
class Call:
    """A function that is called once in each run. `leaves` are those of its arguments, which `tree` nests."""

    function: Callable[..., Any] = field(repr=False)
    leaves: tuple[Any, ...]
    tree: TreeDef
    name: str
    location: str | None

    @property
    def tensors(self) -> list[Any]:
        """Those among the arguments, or what stands for them."""
        return [leaf for leaf in self.leaves if isinstance(leaf, Tensor | Awaited)]

    def of(self, values: Iterator[Any]) -> Call:
        """The same with other values in the place of the tensors."""
        is_told = [isinstance(leaf, Tensor | Awaited) for leaf in self.leaves]
        pairs = zip(self.leaves, is_told, strict=True)
        return replace(self, leaves=tuple(next(values) if told else leaf for leaf, told in pairs))

    def deliver(self, values: Iterator[np.ndarray]) -> None:
        """Call the function. CallbackError says the user's line where it fails."""
        arguments, keywords = self.tree.unflatten(self.of(values).leaves)
        try:
            self.function(*arguments, **keywords)
        except Exception as error:
            message = f"{self.name} raised {type(error).__name__}: {error}"
            raise CallbackError(message, location=self.location) from error


@dataclass(frozen=True)
class Repeated:
    """What is told in each of `count` steps, or for each of so many slices. Values of all of them are one tensor."""

    told: tuple[Call | Repeated, ...]
    count: int
    reverse: bool = False

    @property
    def tensors(self) -> list[Any]:
        """Those of all calls."""
        return [tensor for item in self.told for tensor in item.tensors]

    def of(self, values: Iterator[Any]) -> Repeated:
        """The same with other values in the place of the tensors."""
        return replace(self, told=tuple(item.of(values) for item in self.told))

    def deliver(self, values: Iterator[np.ndarray]) -> None:
        """Call all functions for one step after the other."""
        stacked = [next(values) for _ in self.tensors]
        for step in range(self.count)[:: -1 if self.reverse else 1]:
            slices = iter([value[step] for value in stacked])
            for item in self.told:
                item.deliver(slices)


@dataclass
class Messages:
    """What one function tells, as it is traced: in `block`, where its values are known."""

    block: ir.Block | None = None
    told: list[Call | Repeated] = field(default_factory=list)

    @property
    def tensors(self) -> list[Any]:
        """The tensors that it tells, which it returns behind its results."""
        return [tensor for item in self.told for tensor in item.tensors]

    def after_trace(self) -> Messages:
        """The same without anything of MLIR's, to call functions with the results of runs."""
        return Messages(told=[item.of(repeat(Awaited())) for item in self.told])

    def deliver(self, results: Sequence[Any]) -> Sequence[Any]:
        """Call what is to be called with the last results of a run; those before them."""
        if not self.told:
            return results
        count = len(results) - len(self.tensors)
        values = iter([np.asarray(value) for value in results[count:]])
        for item in self.told:
            item.deliver(values)
        return results[:count]

    def tell_again(self, tensors: Sequence[Tensor], repeated: tuple[int, bool] | None = None) -> None:
        """What a function tells is told by the one that calls it, with tensors of that one; `repeated` says how many
        steps these are of, and whether the last is the first."""
        values = iter(tensors)
        told = [item.of(values) for item in self.told]
        for item in [Repeated(tuple(told), *repeated)] if repeated and told else told:
            tell(item)


_current: ContextVar[Messages | None] = ContextVar("messages", default=None)


@contextmanager
def collecting() -> Iterator[Messages]:
    """Collect what is told while a function is traced, in the block that it is traced in."""
    messages = Messages(ir.InsertionPoint.current.block)
    with inside(_current, messages):
        yield messages


def tell(item: Call | Repeated) -> None:
    """Add to what is told. TraceError where its values are not known to who returns them."""
    messages = _current.get()
    assert messages is not None, "there is no program to tell it"
    if messages.block != ir.InsertionPoint.current.block:
        raise TraceError(
            "blu.debug: nothing is told by functions that blu.cond, blu.switch or blu.custom_vjp are given: what one "
            "of them computes may not be taken",
            location=user_line(),
            advice="Return the value, and print it outside.",
        )
    messages.told.append(item)
