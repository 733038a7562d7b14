"""Convolutions with torch's names, arguments and layouts, in one to three dimensions and any other number.

Data are [N, C, *spatial] as in torch, or [N, *spatial, C] where `channels_last` is given, as they are computed. N may
be left out. A number for what is said of each spatial dimension holds for all of them.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Concatenate, ParamSpec

from blu.dialects.ops.convolution.convolution import Convolution
from blu.dialects.ops.shape import Reverse
from blu.dialects.tensor.arrangement import moveaxis, reshape
from blu.dialects.tensor.function import public
from blu.dialects.tensor.promotion import as_tensor, promoted_floats
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ArgumentError, ShapeError

__all__ = [
    "conv",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
]

Sizes = int | Iterable[int]
PADDINGS = ("valid", "same")
Arguments = ParamSpec("Arguments")
_IN_SO_MANY = (("two", "H, W"), ("three", "D, H, W"))


def in_dimensions(
    name: str, function: Callable[Concatenate[int, Arguments], Tensor]
) -> tuple[Callable[Arguments, Tensor], Callable[Arguments, Tensor], Callable[Arguments, Tensor]]:
    """The public functions `name`1d to `name`3d of one that first takes how many spatial dimensions there are.

    Its documentation is that of one dimension.
    """
    others = [f"`{name}1d` in {count} dimensions: [N, C, {sizes}]." for count, sizes in _IN_SO_MANY]
    own = inspect.signature(function)
    signature = own.replace(parameters=list(own.parameters.values())[1:])

    def of(rank: int, documentation: str | None) -> Callable[Arguments, Tensor]:
        def call(*arguments: Arguments.args, **keywords: Arguments.kwargs) -> Tensor:
            return function(rank, *arguments, **keywords)

        call.__name__ = call.__qualname__ = f"{name}{rank}d"
        call.__module__, call.__doc__ = function.__module__, documentation
        call.__dict__["__signature__"] = signature
        return public(call)

    return of(1, function.__doc__), of(2, others[0]), of(3, others[1])


def per_dimension(what: str, value: Any, rank: int) -> tuple[int, ...]:
    """One integer for each spatial dimension, of one for all or of as many."""
    try:
        values = tuple(map(operator.index, value)) if isinstance(value, Iterable) else (operator.index(value),) * rank
    except TypeError:
        raise ArgumentError(f"{what} is an integer, or one for each spatial dimension, not {value!r}") from None
    if len(values) != rank:
        raise ArgumentError(f"{what}={value!r} must have one integer for each of {rank} spatial dimensions")
    return values


def to_channels_last(x: Tensor, rank: int, channels_last: bool) -> Tensor:
    """[N, *spatial, C] of what users give. Raises ShapeError for other numbers of dimensions."""
    form = "[N, *spatial, C]" if channels_last else "[N, C, *spatial]"
    if x.ndim not in (rank + 1, rank + 2):
        raise ShapeError(f"x must be {form} with {rank} spatial dimensions, N may be left out; got {x.type}")
    whole = x if x.ndim == rank + 2 else reshape(x, (1, *x.shape))
    return whole if channels_last else moveaxis(whole, 1, -1)


def from_channels_last(y: Tensor, rank: int, like: Tensor, channels_last: bool) -> Tensor:
    """[N, *spatial, C] in the form of what users gave."""
    turned = y if channels_last else moveaxis(y, -1, 1)
    return turned if like.ndim == rank + 2 else reshape(turned, turned.shape[1:])


def paddings_around(padding: Any, rank: int, extents: list[int], sizes: list[int], strides: tuple[int, ...]) -> list:
    """How many elements stand (before, after) the elements of each spatial dimension."""
    if isinstance(padding, str):
        if padding not in PADDINGS:
            raise ArgumentError(f"padding={padding!r} is none of {', '.join(PADDINGS)}, and no number of zeros")
        if padding == "valid":
            return [(0, 0)] * rank
        reached = zip(sizes, strides, extents, strict=True)
        total = [max((-(-size // stride) - 1) * stride + extent - size, 0) for size, stride, extent in reached]
        return [(count // 2, count - count // 2) for count in total]
    if isinstance(padding, Iterable):
        entries = list(padding)
        if len(entries) == rank and all(isinstance(entry, Iterable) for entry in entries):
            return [per_dimension("padding", entry, 2) for entry in entries]
        padding = entries
    return [(count, count) for count in per_dimension("padding", padding, rank)]


@public
def conv(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Sizes = 1,
    padding: Any = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    *,
    channels_last: bool = False,
    precision: str = "highest",
) -> Tensor:
    """Sums over windows: x [N, C, *spatial] with weight [F, C / groups, *window] gives [N, F, *counts].

    Along each dimension, count = (size + padding before and after - (window - 1) * dilation - 1) // stride + 1.
    `padding` is a number of zeros on both sides, one for each dimension, a pair (before, after) for each, "valid"
    (none) or "same" (count = ceil(size / stride)). Group i of the features sees group i of the channels. bias [F]. With
    `channels_last`, x and the result are [N, *spatial, C] and [N, *counts, F]. `precision` is that of `matmul`.
    ShapeError for an x, weight or bias of another shape, groups that do not divide it, or a window that does not fit;
    ArgumentError for strides, dilations or a padding that are none.
    """
    tensor, factors, *shift = _operands(x, weight, bias, "[F, C / groups, *window]")
    rank = factors.ndim - 2
    data = to_channels_last(tensor, rank, channels_last)
    strides, apart = per_dimension("stride", stride, rank), per_dimension("dilation", dilation, rank)
    window = factors.shape[2:]
    extents = [(size - 1) * step + 1 for size, step in zip(window, apart, strict=True)]
    pairs = paddings_around(padding, rank, extents, list(data.shape[1:-1]), strides)
    with told_as(lambda: _given("conv", tensor, channels_last, factors, "[F, C / groups, *window]")):
        result = Convolution(
            data,
            _places_first(factors),
            strides=strides,
            low=tuple(low for low, _ in pairs),
            high=tuple(high for _, high in pairs),
            dilation=apart,
            spread=(1,) * rank,
            groups=operator.index(groups),
            precision=precision,
        )
    return _finished(result, shift, rank, tensor, channels_last)


@contextmanager
def told_as(what: Callable[[], str]) -> Iterator[None]:
    """Say of what a convolution refuses only why, behind `what`: it has shapes in another order than the user."""
    try:
        yield
    except ShapeError as error:
        error.message = f"{what()}: {error.message.rpartition(': ')[2]}"
        raise


def _given(name: str, x: Tensor, channels_last: bool, weight: Tensor, form: str) -> str:
    layout = "[N, *spatial, C]" if channels_last else "[N, C, *spatial]"
    return f"{name}: x {layout} is {x.type}, weight {form} is {weight.type}"


def _operands(x: Any, weight: Any, bias: Any, form: str) -> list[Tensor]:
    """x, the weight, and the bias if there is one, in one float dtype."""
    tensors = promoted_floats(x, weight, *([] if bias is None else [bias]))
    if tensors[1].ndim < 2:
        raise ShapeError(f"weight must be {form}, got {tensors[1].type}")
    return list(tensors)


def _places_first(weight: Tensor) -> Tensor:
    """[F, C, *window] as [*window, C, F]."""
    return weight.transpose((*range(2, weight.ndim), 1, 0))


def _finished(result: Tensor, bias: list[Tensor], rank: int, like: Tensor, channels_last: bool) -> Tensor:
    for shift in bias:
        if shift.shape != result.shape[-1:]:
            raise ShapeError(f"bias must have one number for each of {result.shape[-1]} features, got {shift.type}")
        result = result + shift
    return from_channels_last(result, rank, like, channels_last)


def _check_rank(weight: Any, rank: int) -> None:
    shape = as_tensor(weight).shape
    if len(shape) != rank + 2:
        raise ShapeError(f"weight must have {rank + 2} dimensions, got {len(shape)}: {list(shape)}")


@public
def conv1d(x: Any, weight: Any, *arguments: Any, **keywords: Any) -> Tensor:
    """`conv` in one dimension: x [N, C, L], weight [F, C / groups, K], and its other arguments.

    ShapeError and ArgumentError as there.
    """
    _check_rank(weight, 1)
    return conv(x, weight, *arguments, **keywords)


@public
def conv2d(x: Any, weight: Any, *arguments: Any, **keywords: Any) -> Tensor:
    """`conv` in two dimensions: x [N, C, H, W], weight [F, C / groups, KH, KW], and its other arguments.

    ShapeError and ArgumentError as there.
    """
    _check_rank(weight, 2)
    return conv(x, weight, *arguments, **keywords)


@public
def conv3d(x: Any, weight: Any, *arguments: Any, **keywords: Any) -> Tensor:
    """`conv` in three dimensions: x [N, C, D, H, W], weight [F, C / groups, KD, KH, KW], and its other arguments.

    ShapeError and ArgumentError as there.
    """
    _check_rank(weight, 3)
    return conv(x, weight, *arguments, **keywords)


@public
def conv_transpose(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
    *,
    channels_last: bool = False,
    precision: str = "highest",
) -> Tensor:
    """What takes `conv` with these arguments back: x [N, C, *spatial], weight [C, F / groups, *window].

    The result is [N, F, *counts], count = (size - 1) * stride - 2 * padding + (window - 1) * dilation + 1 +
    output_padding. ShapeError for an x, weight or bias of another shape, or groups that do not divide it; ArgumentError
    for strides, dilations or paddings that are no integers.
    """
    tensor, factors, *shift = _operands(x, weight, bias, "[C, F / groups, *window]")
    rank = factors.ndim - 2
    data = to_channels_last(tensor, rank, channels_last)
    strides, apart = per_dimension("stride", stride, rank), per_dimension("dilation", dilation, rank)
    around, more = per_dimension("padding", padding, rank), per_dimension("output_padding", output_padding, rank)
    reach = [(size - 1) * step for size, step in zip(factors.shape[2:], apart, strict=True)]
    turned = _exchanged(factors, operator.index(groups))
    with told_as(lambda: _given("conv_transpose", tensor, channels_last, factors, "[C, F / groups, *window]")):
        result = Convolution(
            data,
            turned,
            strides=(1,) * rank,
            low=tuple(full - own for full, own in zip(reach, around, strict=True)),
            high=tuple(full - own + extra for full, own, extra in zip(reach, around, more, strict=True)),
            dilation=apart,
            spread=strides,
            groups=operator.index(groups),
            precision=precision,
        )
    return _finished(result, shift, rank, tensor, channels_last)


def _exchanged(weight: Tensor, groups: int) -> Tensor:
    """[C, F / groups, *window] as [*window reversed, C / groups, F]."""
    channels, each, *window = weight.shape
    if groups < 1 or channels % groups:
        raise ShapeError(f"weight [C, F / groups, *window] is {weight.type}: {channels} are no {groups} equal groups")
    grouped = weight.reshape((groups, channels // groups, each, *window))
    turned = grouped.transpose((*range(3, 3 + len(window)), 1, 0, 2))
    places = turned.reshape((*window, channels // groups, groups * each))
    return Reverse(places, axes=tuple(range(len(window))))


@public
def conv_transpose1d(x: Any, weight: Any, *arguments: Any, **keywords: Any) -> Tensor:
    """`conv_transpose` in one dimension: x [N, C, L], weight [C, F / groups, K], and its other arguments.

    ShapeError and ArgumentError as there.
    """
    _check_rank(weight, 1)
    return conv_transpose(x, weight, *arguments, **keywords)


@public
def conv_transpose2d(x: Any, weight: Any, *arguments: Any, **keywords: Any) -> Tensor:
    """`conv_transpose` in two dimensions: x [N, C, H, W], weight [C, F / groups, KH, KW], and its other arguments.

    ShapeError and ArgumentError as there.
    """
    _check_rank(weight, 2)
    return conv_transpose(x, weight, *arguments, **keywords)


@public
def conv_transpose3d(x: Any, weight: Any, *arguments: Any, **keywords: Any) -> Tensor:
    """`conv_transpose` in three dimensions: x [N, C, D, H, W], weight [C, F / groups, KD, KH, KW], and its other
    arguments.

    ShapeError and ArgumentError as there.
    """
    _check_rank(weight, 3)
    return conv_transpose(x, weight, *arguments, **keywords)
