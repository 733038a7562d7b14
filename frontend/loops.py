"""Loops in compiled functions: a body is traced once, however often it is done."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from blu.dataclass import dataclass, field
from blu.dialects.core.axes import normalize_axis
from blu.dialects.core.dtypes import bool_
from blu.dialects.hooks import HOOKS
from blu.dialects.ops.control.scan import Scan
from blu.dialects.ops.control.while_loop import WhileLoop
from blu.dialects.tensor.function import is_tracing
from blu.dialects.tensor.prefixes import prefixes
from blu.dialects.tensor.promotion import as_tensor, is_weak
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ArgumentError, DTypeError, ShapeError, TraceError
from blu.frontend.tracing.messages import Messages, collecting
from blu.frontend.tracing.spec import type_of_leaf
from blu.frontend.tracing.trace import as_results, as_results_or_numbers
from blu.frontend.tracing.tree import TreeDef, describe_difference, flatten
from blu.frontend.tracing.user_location import user_line


def scan(
    f: Callable[..., Any],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
) -> tuple[Any, Any]:
    """`f(carry, x) -> (carry, y)` done for each slice of `xs` along the first axes: (the last carry, all y stacked).

        def step(h, x):
            h = blu.tanh(x @ w + h @ u)
            return h, h

        last, states = blu.scan(step, blu.zeros((8, 64)), xs)         # xs: (time, 8, 32), states: (time, 8, 64)

    `init` and `xs` are nested as one likes; each y may be. With xs None, x is None, and `length` says how often. From
    the last slice to the first with `reverse`; y of a slice stands where the slice does. The program is as long as one
    step, and so is the time to compile it. `unroll` is accepted, as other libraries have it, and changes nothing.

    Gradients save what is carried into each step, and compute the step again from that. ShapeError or DTypeError for a
    carry that changes from step to step, and for slices of different numbers; TraceError for an f that gives no pair.
    """
    del unroll
    if not is_tracing():

        def scanned(init: Any, xs: Any) -> Any:
            return scan(f, init, xs, length, reverse)

        return HOOKS.compiler.run_transformed(scanned, (init, xs), {})
    leaves, tree = flatten(xs)
    slices = [as_tensor(leaf) for leaf in leaves]
    steps = _length(slices, tree, length)
    begun, nesting = flatten(init)
    first = [Tensor(as_tensor(leaf).value, is_weak(leaf)) for leaf in begun]
    carried = _Carried(f, first, nesting, (slices, tree))
    results = carried.scan(steps, bool(reverse))
    count = carried.tree.num_leaves
    end = count + carried.result_tree.num_leaves
    carried.messages.tell_again(results[end:], (steps, bool(reverse)))
    return carried.tree.unflatten(results[:count]), carried.result_tree.unflatten(results[count:end])


def fori_loop(lower: int, upper: int, body_fun: Callable[[Any, Any], Any], init_val: Any) -> Any:
    """`value = body_fun(i, value)` for i from `lower` on, before `upper`: what the value is in the end.

    A scan of so many steps, so that the bounds are Python's ints, and it has a gradient. i is a number, which takes the
    dtype of what it meets. ArgumentError for bounds that are known only when the program runs; ShapeError, DTypeError
    or TraceError for a step that gives a value of another type, naming the leaf.
    """
    for name, bound in (("lower", lower), ("upper", upper)):
        if isinstance(bound, bool) or not hasattr(bound, "__index__") or isinstance(bound, Tensor):
            message = f"fori_loop: {name} is {bound!r}, and no int that is known when the function is traced"
            advice = "Do as many steps as there may be, and choose with blu.cond what a step gives."
            raise ArgumentError(message, location=user_line(), advice=advice)

    def step(carry: Any, _: None) -> tuple[Any, None]:
        index, value = carry
        after = body_fun(index, value)
        _check_kept("fori_loop", value, after)
        return (index + 1, after), None

    steps = max(0, operator.index(upper) - operator.index(lower))
    return scan(step, (operator.index(lower), init_val), length=steps)[0][1]


def while_loop(cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: Any) -> Any:
    """`value = body_fun(value)` while `cond_fun(value)`, a scalar, is true: what the value is in the end.

    Both functions are compiled once, and the host looks at the condition before each step, for which it waits on a GPU:
    a program with such a loop has no CUDA graph. The value keeps its nesting, shapes and dtypes, but for Python's
    numbers in the first one, which become arrays.

    It has a derivative along directions (`blu.jvp`, `blu.jacfwd`), and no gradient, which is an error that says what to
    use. ShapeError, DTypeError or TraceError for a step that
    gives a value of another type, naming the leaf; TraceError for `blu.debug` in a step of a compiled function.
    """
    if is_tracing():
        return _repeated(cond_fun, body_fun, init_val)
    run, value = HOOKS.compiler.run_transformed, init_val
    while _holds(run(cond_fun, (value,), {})):
        before, value = value, run(body_fun, (value,), {})
        _check_kept("while_loop", before, value)
    return value


def _repeated(cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init: Any) -> Any:
    """The same in a compiled function: a loop that carries whether it goes on, and the value."""

    def holds(value: Any) -> Tensor:
        found = cond_fun(value)
        _check_scalar(found)
        tensor = as_tensor(found)
        return tensor if tensor.dtype == bool_ else tensor != 0

    def step(carry: Any, _: None) -> tuple[Any, None]:
        value = body_fun(carry[1])
        _check_kept("while_loop", carry[1], value)
        return (holds(value), value), None

    leaves, nesting = flatten((holds(init), init))
    begun = [Tensor(as_tensor(leaf).value, is_weak(leaf)) for leaf in leaves]
    carried = _Carried(step, begun, nesting, ([], flatten(None)[1]))
    return carried.tree.unflatten(carried.loop(lambda carry: WhileLoop(carry, body=carried.telling_nothing)))[1]


def _holds(found: Any) -> bool:
    _check_scalar(found)
    return bool(found)


def _check_scalar(found: Any) -> None:
    type_ = type_of_leaf(found, "cond_fun's result")
    if type_.shape:
        raise ShapeError(f"while_loop: cond_fun gives {type_}, and no scalar", location=user_line())


def _check_kept(loop: str, before: Any, after: Any) -> None:
    """Whether a step gives what it was given, but for numbers."""
    (leaves, tree), (given, found) = flatten(before), flatten(after)
    if tree != found:
        difference = _named(describe_difference(tree, found)).replace("carry", "the value")
        raise TraceError(f"{loop}: body_fun gives another nesting, {difference}", location=user_line())
    for name, one, other in zip(tree.names, leaves, given, strict=True):
        wanted, type_ = type_of_leaf(one, name), type_of_leaf(other, name)
        if wanted.shape != type_.shape or not (is_weak(one) or wanted.dtype == type_.dtype):
            kind = ShapeError if wanted.shape != type_.shape else DTypeError
            what = f"value.{name}".rstrip(".")
            raise kind(f"{loop}: {what} is {wanted}, and body_fun gives {type_}", location=user_line())


def associative_scan(fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    """What `fn`, which must be associative, makes of all elements along an axis up to each, in logarithmically many
    calls of it on many elements at once.

        blu.associative_scan(lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (decay, inputs))    # a linear recurrence

    `fn` takes and gives what is nested and shaped as `elems`, but for the number along the axis (Blelloch, "Prefix sums
    and their applications"). From the other end with `reverse`. ShapeError for leaves of different numbers. TraceError
    for an `fn` that gives another nesting.
    """
    if not is_tracing():

        def scanned(elems: Any) -> Any:
            return associative_scan(fn, elems, reverse, axis)

        return HOOKS.compiler.run_transformed(scanned, (elems,), {})
    leaves, tree = flatten(elems)
    tensors = [as_tensor(leaf) for leaf in leaves]
    places = [normalize_axis(axis, tensor.ndim) for tensor in tensors]
    if len(sizes := {tensor.shape[place] for tensor, place in zip(tensors, places, strict=True)}) > 1:
        found = ", ".join(f"{name or 'elems'} {item.type}" for name, item in zip(tree.names, tensors, strict=True))
        raise ShapeError(
            f"associative_scan: elems are {sorted(sizes)} along axis {axis}: {found}", location=user_line()
        )

    def joined(one: list[Tensor], other: list[Tensor]) -> list[Tensor]:
        given, found = as_results(fn(tree.unflatten(one), tree.unflatten(other)))
        if found != tree:
            difference = _named(describe_difference(tree, found)).replace("carry", "the result")
            raise TraceError(f"associative_scan: fn gives another nesting, {difference}", location=user_line())
        return given

    if not tensors:
        return elems
    turned = [item.flip(place) if reverse else item for item, place in zip(tensors, places, strict=True)]
    results = prefixes(joined, turned, places)
    back = [item.flip(place) if reverse else item for item, place in zip(results, places, strict=True)]
    return tree.unflatten(back)


def _length(slices: Sequence[Tensor], tree: TreeDef, length: int | None) -> int:
    """How often a scan is done. ShapeError names the leaves of xs that say different numbers."""
    found: dict[int, str] = {}
    if length is not None:
        found[operator.index(length)] = "length"
    for name, tensor in zip(tree.names, slices, strict=True):
        what = f"xs.{name}".rstrip(".")
        if not tensor.shape:
            raise ShapeError(f"scan: {what} is {tensor.type}, which has no slices", location=user_line())
        found.setdefault(tensor.shape[0], f"{what} ({tensor.type})")
    if not found:
        advice = "Pass xs, or length."
        raise ArgumentError("scan: neither xs nor length says how often", location=user_line(), advice=advice)
    if len(found) > 1:
        said = ", ".join(f"{number} by {what}" for number, what in found.items())
        raise ShapeError(f"scan: the number of steps is {said}", location=user_line())
    [steps] = found
    if steps < 0:
        raise ArgumentError(f"scan: length is {steps}", location=user_line())
    return steps


@dataclass
class _Carried:
    """A step with what it carries. Numbers in it take the dtypes that they have from the second step on."""

    function: Callable[..., Any]
    tensors: list[Tensor]
    tree: TreeDef
    slices: tuple[list[Tensor], TreeDef]
    result_tree: TreeDef = field(init=False)
    given: list[Tensor] = field(init=False)
    messages: Messages = field(init=False)

    def scan(self, steps: int, reverse: bool) -> list[Tensor]:
        """All results of the op: the last carry, and what is stacked."""
        return self.loop(lambda carry: Scan(carry, self.slices[0], body=self, length=steps, reverse=reverse, saved=0))

    def loop(self, make: Callable[[list[Tensor]], Sequence[Tensor]]) -> list[Tensor]:
        """All results of the op that `make` gives for what is carried first, of which this is the body."""
        while True:
            try:
                found = make(self.tensors)
            except _NumberRaisedError:
                pairs = zip(self.tensors, self.given, strict=True)
                self.tensors = [_raised(before, after) if before.is_weak else before for before, after in pairs]
            else:
                weak = [item.is_weak for item in self.tensors] + [False] * (len(found) - len(self.tensors))
                return [Tensor(item.value, is_weak) for item, is_weak in zip(found, weak, strict=True)]

    def __call__(self, *values: Tensor) -> list[Tensor]:
        count = len(self.tensors)
        inner = [Tensor(value.value, outer.is_weak) for value, outer in zip(values, self.tensors, strict=False)]
        with collecting() as self.messages:
            result = self.function(self.tree.unflatten(inner), self.slices[1].unflatten(list(values[count:])))
        if not isinstance(result, tuple | list) or len(result) != 2:
            advice = "Return (carry, y): what the next step gets, and what is stacked, which may be None."
            kind = type(result).__name__
            raise TraceError(f"scan: the step gives a {kind}, and no pair", location=user_line(), advice=advice)
        self.given, tree = as_results_or_numbers(result[0])
        if tree != self.tree:
            raise TraceError(
                "scan: the step is given a carry and returns one of another nesting, "
                f"{_named(describe_difference(self.tree, tree))}",
                location=user_line(),
                advice="Return as carry what is nested as the carry that the step gets.",
            )
        self.given = [_weakened(after, before) for after, before in zip(self.given, self.tensors, strict=True)]
        self._check_types()
        rows, self.result_tree = as_results(result[1])
        return [*self.given, *rows, *self.messages.tensors]

    def telling_nothing(self, *values: Tensor) -> list[Tensor]:
        """The step where nobody knows how many there are, so that there is no room for what they tell."""
        given = self(*values)
        if self.messages.told:
            message = "blu.debug: nothing is told by steps of a while_loop in a compiled function"
            advice = "Carry what is to be seen, and print it after the loop, or call while_loop outside."
            raise TraceError(message, location=user_line(), advice=advice)
        return given

    def _check_types(self) -> None:
        for name, before, after in zip(self.tree.names, self.tensors, self.given, strict=True):
            if before.is_weak and not after.is_weak and before.shape == after.shape:
                raise _NumberRaisedError
            if before.type == after.type:
                continue
            kind = ShapeError if before.shape != after.shape else DTypeError
            what = f"carry.{name}".rstrip(".")
            raise kind(
                f"scan: {what} is {before.type} in the first step, and {after.type} is returned for the next",
                location=user_line(),
                advice=f"Return {what} as {before.type}, or begin with {after.type}.",
            )


class _NumberRaisedError(Exception):
    """A number in the first carry takes the dtype of what the step makes of it."""


def _raised(before: Tensor, after: Tensor) -> Tensor:
    return Tensor(before.astype(after.dtype).value, after.is_weak)


def _weakened(after: Tensor, before: Tensor) -> Tensor:
    """What a step returns for a number: the number's dtype where it is one itself."""
    return after.astype(before.dtype) if after.is_weak and not before.is_weak else after


def _named(difference: str) -> str:
    return f"at carry.{difference}".replace("carry.the argument", "carry")
