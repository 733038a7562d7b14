"""`blu.vmap`: a function of one slice as a function of many."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from blu.dataclass import dataclass
from blu.dialects.hooks import HOOKS
from blu.dialects.tensor.function import is_tracing
from blu.dialects.tensor.promotion import as_tensor, is_weak
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ArgumentError, ShapeError
from blu.frontend.tracing.flat_function import FlatFunction
from blu.frontend.tracing.spec import is_static
from blu.frontend.tracing.traced_function import trace_function
from blu.frontend.tracing.tree import children, flatten
from blu.frontend.tracing.user_location import user_line


def vmap(
    fun: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0, axis_size: int | None = None
) -> Callable[..., Any]:
    """A function that does what `fun` does for each slice of its arguments, and stacks the results.

        distances = blu.vmap(lambda x, y: blu.sqrt(blu.sum((x - y) ** 2)), in_axes=(0, None))(points, origin)

    `in_axes` says along which axis of an argument slices lie: an int for all, or a tuple with an entry for each one,
    which is an int, None for what is the same for all slices, or nested as the beginning of the argument is. Arguments
    given by name have slices along axis 0. `out_axes` says in the same way where slices of the result go; None is for
    what is the same for all. `axis_size` is the number of slices where no argument says it.

    Every op does all slices at once, by the rule of its class (`batch`); the program is as long as that of one slice.

    Raises ArgumentError for axes that do not fit the arguments or results, ShapeError for arguments of different
    numbers of slices, PassError for an op without a rule.
    """

    @functools.wraps(fun)
    def mapped(*arguments: Any, **keywords: Any) -> Any:
        if not is_tracing():
            return HOOKS.compiler.run_transformed(mapped, arguments, keywords)
        return _mapped(fun, arguments, keywords, in_axes, out_axes, axis_size)

    return mapped


def _mapped(fun: Callable[..., Any], arguments: tuple, keywords: dict, in_axes: Any, out_axes: Any, size: Any) -> Any:
    wanted = (in_axes,) * len(arguments) if in_axes is None or isinstance(in_axes, int) else tuple(in_axes)
    if len(wanted) != len(arguments):
        message = f"vmap: in_axes has {len(wanted)} entries for {len(arguments)} arguments"
        raise ArgumentError(message, location=user_line())
    axes = [place for pair in zip(wanted, arguments, strict=True) for place in _spread("in_axes", *pair)]
    leaves, tree = flatten((arguments, keywords))
    axes += [0] * (len(leaves) - len(axes))
    given = [_Leaf.of(*item) for item in zip(leaves, axes, tree.names, strict=True)]
    count = _size(given, size)
    inner = tree.unflatten([leaf.placeholder() for leaf in given])
    flat = FlatFunction(fun, *inner)
    traced = trace_function(flat)
    tensors = [leaf for leaf in given if isinstance(leaf.value, Tensor)]
    batched = [leaf.axis is not None for leaf in tensors]
    places = _spread("out_axes", out_axes, flat.result_tree.unflatten([0] * flat.result_tree.num_leaves))
    same = [place for place, axis in enumerate(places) if axis is None]
    results = traced.call_batched([leaf.value for leaf in tensors], batched, count, same)
    pairs = zip(results, places, flat.result_tree.names, strict=True)
    return flat.result_tree.unflatten([_placed(*item) for item in pairs])


@dataclass(frozen=True)
class _Leaf:
    """A leaf of the arguments: a tensor with its slices in front, or what is no tensor."""

    value: Any
    axis: int | None
    name: str

    @staticmethod
    def of(leaf: Any, axis: int | None, name: str) -> _Leaf:
        name = name.partition(".")[2]
        if is_static(leaf) or callable(leaf):
            return _Leaf(leaf, None, name)
        tensor = Tensor(as_tensor(leaf).value, is_weak(leaf))
        if axis is None:
            return _Leaf(tensor, None, name)
        if not -tensor.ndim <= axis < tensor.ndim:
            message = f"vmap: argument {name} is {tensor.type}, which has no slices along axis {axis}"
            advice = "Say None in in_axes for what is the same for all slices."
            raise ArgumentError(message, location=user_line(), advice=advice)
        return _Leaf(tensor.moveaxis(axis, 0), axis, name)

    def placeholder(self) -> Any:
        """What the function is traced on: a tensor of the type of a slice."""
        if self.axis is None:
            return self.value
        scalar = as_tensor(0, self.value.dtype)
        return scalar.broadcast_to(self.value.shape[1:]) if self.value.shape[1:] else scalar


def _size(leaves: Sequence[_Leaf], size: int | None) -> int:
    found: dict[int, str] = {} if size is None else {size: "axis_size"}
    for leaf in leaves:
        if leaf.axis is not None:
            found.setdefault(leaf.value.shape[0], f"argument {leaf.name}")
    if not found:
        advice = "Let in_axes say along which axis slices lie, or pass axis_size."
        raise ArgumentError("vmap: no argument says how many slices there are", location=user_line(), advice=advice)
    if len(found) > 1:
        said = ", ".join(f"{number} by {what}" for number, what in found.items())
        raise ShapeError(f"vmap: the number of slices is {said}", location=user_line())
    return next(iter(found))


def _spread(what: str, axes: Any, tree: Any) -> list[int | None]:
    """For each leaf of a tree its axis, of axes that are nested as the beginning of the tree is."""
    if axes is None or (isinstance(axes, int) and not isinstance(axes, bool)):
        return [axes] * len(flatten(tree)[0])
    parts, given = children(tree), children(axes)
    if not parts or list(map(str, parts)) != list(map(str, given)):
        message = f"vmap: {what} has {axes!r} where there is {_kind(tree)}"
        raise ArgumentError(message, location=user_line(), advice="Nest axes as the beginning of what they are for.")
    return [
        place for one, other in zip(given.values(), parts.values(), strict=True) for place in _spread(what, one, other)
    ]


def _kind(tree: Any) -> str:
    parts = ", ".join(map(str, children(tree)))
    return f"a {type(tree).__name__} of {parts}" if parts else "no nesting"


def _placed(result: Tensor, axis: int | None, name: str) -> Tensor:
    if axis is None:
        return result
    if not -result.ndim <= axis < result.ndim:
        what = f"result {name}" if name else "the result"
        message = f"vmap: out_axes is {axis} for {what}, which has {result.ndim} dimensions with that of slices"
        raise ArgumentError(message, location=user_line())
    return result.moveaxis(0, axis)
