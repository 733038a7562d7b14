"""`blu.custom_vjp`: functions whose gradients their users write."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

from blu.dataclass import dataclass, field
from blu.dialects.hooks import HOOKS
from blu.dialects.inside import inside
from blu.dialects.ops.control.custom_vjp import UNSAVED, CustomVjp
from blu.dialects.tensor.function import is_tracing
from blu.dialects.tensor.promotion import as_tensor, is_weak
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ArgumentError, DTypeError, ShapeError, TraceError
from blu.frontend.nested_gradients import Given
from blu.frontend.tracing.flat_function import FlatFunction
from blu.frontend.tracing.spec import is_static
from blu.frontend.tracing.trace import as_results
from blu.frontend.tracing.tree import TreeDef, describe_difference, flatten
from blu.frontend.tracing.user_location import user_line

# A function's fwd usually calls the function. That call has the rule as well, which gradients of gradients take, and so
# on: so many times, since bodies are traced before anyone asks for a gradient.
MAX_NESTING = 3
_running: ContextVar[tuple[custom_vjp, ...]] = ContextVar("custom_vjp", default=())


class custom_vjp:  # noqa: N801 (used like a function, as checkpoint is)
    """A function whose gradient is what its user says, in place of what follows from its ops.

        @blu.custom_vjp
        def clipped(x, bound): return x

        clipped.defvjp(
            lambda x, bound: (clipped(x, bound), bound),                    # fwd: (result, what bwd reads)
            lambda bound, g: (blu.clip(g, -bound, bound), None),            # bwd: a gradient for each argument
        )

    `fwd` takes what the function takes and gives (its result, anything nested that bwd reads). `bwd` takes that, and
    the gradients of the result, nested as it is, with None in the place of what is no float. It returns a tuple with a
    gradient for each argument, nested as the argument is, of its shapes and dtypes; None stands for zeros, and for what
    is no float. Gradients of gradients are those of what `fwd` and `bwd` compute.

    `nondiff_argnums` are the positions of arguments that are no tensors and part of the program, as functions or
    numbers that shapes depend on: `bwd` gets them before all else. What the functions read from around them is
    constant: a gradient with respect to that is an error.

    Raises TraceError where `fwd` gives no pair or another nesting than the function, or `bwd` gives another number of
    gradients or another nesting than the arguments; ShapeError or DTypeError for a gradient of another type than its
    argument's: each names the function at fault and its line.
    """

    def __init__(self, fun: Callable[..., Any], nondiff_argnums: int | Sequence[int] = ()):
        self.fun = fun
        self.nondiff_argnums = (nondiff_argnums,) if isinstance(nondiff_argnums, int) else tuple(nondiff_argnums)
        self.fwd: Callable[..., Any] | None = None
        self.bwd: Callable[..., Any] | None = None
        functools.update_wrapper(self, fun)

    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any]) -> None:
        """Say how the function's gradient is computed: see the class."""
        self.fwd, self.bwd = fwd, bwd

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        if self.fwd is None or self.bwd is None:
            advice = f"Call {_name(self.fun)}.defvjp(fwd, bwd) first."
            message = f"custom_vjp: {_described(self.fun)} has no gradient yet"
            raise ArgumentError(message, location=user_line(), advice=advice)
        bound = self._positional(arguments, keywords)
        statics = {place % len(bound): bound[place] for place in self._places(len(bound))}
        given = [item for place, item in enumerate(bound) if place not in statics]
        if is_tracing():
            if _running.get().count(self) == MAX_NESTING:
                return self.fun(*bound)
            with inside(_running, (*_running.get(), self)):
                return _Rule(self.fun, self.fwd, self.bwd, statics, given).apply()

        def applied(*values: Any) -> Any:
            others = iter(values)
            return self(*(statics[place] if place in statics else next(others) for place in range(len(bound))))

        applied.__name__ = _name(self.fun)
        return HOOKS.compiler.run_transformed(applied, tuple(given), {})

    def _positional(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> list[Any]:
        """All arguments in order, defaults included."""
        try:
            bound = inspect.signature(self.fun).bind(*arguments, **keywords)
        except TypeError as error:
            message = f"custom_vjp: {_described(self.fun)} is called with what it does not take: {error}"
            raise ArgumentError(message, location=user_line()) from None
        bound.apply_defaults()
        if bound.kwargs:
            message = f"custom_vjp: {_described(self.fun)} has arguments that are given by name alone"
            raise ArgumentError(message, location=user_line(), advice="Let it take them by position.")
        return list(bound.args)

    def _places(self, count: int) -> list[int]:
        for place in self.nondiff_argnums:
            if not -count <= place < count:
                message = f"custom_vjp: {_described(self.fun)} has no argument {place} (nondiff_argnums), but {count}"
                raise ArgumentError(message, location=user_line())
        return list(self.nondiff_argnums)


@dataclass
class _Rule:
    """One call of a function with its gradient: the functions of tensors that become bodies of the op."""

    fun: Callable[..., Any]
    fwd: Callable[..., Any]
    bwd: Callable[..., Any]
    statics: dict[int, Any]
    given: list[Any]
    results: list[Tensor] = field(init=False)
    residual_leaves: list[Any] = field(init=False)
    residual_tree: TreeDef = field(init=False)

    def apply(self) -> Any:
        """The result of the call."""
        self._check_statics()
        leaves, tree = flatten(self.given)
        tensors = [leaf if is_static(leaf) or callable(leaf) else _as_operand(leaf) for leaf in leaves]
        self.given = tree.unflatten(tensors)
        self.flat = FlatFunction(self._plain, tuple(self.given))
        found = CustomVjp(
            self.flat.tensors, function=self._function, forward=self._forward, backward=self._backward, saved=UNSAVED
        )
        weak = zip(found, self.flat.weak_results, strict=True)
        return self.flat.result_tree.unflatten([Tensor(item.value, is_weak) for item, is_weak in weak])

    def _check_statics(self) -> None:
        for place, item in self.statics.items():
            if any(isinstance(leaf, Tensor) for leaf in flatten(item)[0]):
                message = f"custom_vjp: argument {place} of {_described(self.fun)} is a tensor, and in nondiff_argnums"
                advice = "Take it out of nondiff_argnums, and let bwd give None for it."
                raise ArgumentError(message, location=user_line(), advice=advice)

    def _all(self, values: Sequence[Any]) -> list[Any]:
        """The arguments of a call in order, those that are no tensors among them."""
        others = iter(values)
        return [
            self.statics[place] if place in self.statics else next(others)
            for place in range(len(values) + len(self.statics))
        ]

    def _plain(self, *values: Any) -> Any:
        return self.fun(*self._all(values))

    def _function(self, *tensors: Tensor) -> list[Tensor]:
        self.results = self.flat(*tensors)
        return self.results

    def _forward(self, *tensors: Tensor) -> list[Tensor]:
        inner = list(self.flat.leaves)
        for place, tensor in zip(self.flat.places, tensors, strict=True):
            inner[place] = Tensor(tensor.value, inner[place].is_weak)
        pair = self.fwd(*self._all(self.flat.tree.unflatten(inner)[0]))
        where = _described(self.fwd)
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            advice = "Return (result, what the gradient reads)."
            message = f"custom_vjp: fwd, {where}, gives a {type(pair).__name__}, and no pair"
            raise TraceError(message, location=_line(self.fwd), advice=advice)
        results, tree = as_results(pair[0])
        if tree != self.flat.result_tree:
            difference = describe_difference(self.flat.result_tree, tree).replace("the argument", "the result")
            message = f"custom_vjp: fwd, {where}, gives another nesting than {_described(self.fun)}: {difference}"
            raise TraceError(message, location=_line(self.fwd))
        names = tree.names
        results = [self._as_result(*item) for item in zip(names, results, self.results, strict=True)]
        self.residual_leaves, self.residual_tree = flatten(pair[1])
        self.residual_leaves = [leaf if is_static(leaf) else _as_operand(leaf) for leaf in self.residual_leaves]
        return [*results, *(leaf for leaf in self.residual_leaves if isinstance(leaf, Tensor))]

    def _as_result(self, name: str, found: Tensor, wanted: Tensor) -> Tensor:
        if found.is_weak and found.shape == wanted.shape:
            return found.astype(wanted.dtype)
        what = f"custom_vjp: fwd, {_described(self.fwd)}, gives as result {name}".rstrip()
        _check_type(what, found, wanted, self.fwd)
        return found

    def _backward(self, *tensors: Tensor) -> list[Tensor]:
        """The gradients of all float operands."""
        others = iter(tensors)
        leaves = [Tensor(next(others).value, _weak(leaf)) if isinstance(leaf, Tensor) else leaf
                  for leaf in self.residual_leaves]  # fmt: skip
        upstream = [next(others) if result.dtype.has_gradient else None for result in self.results]
        residuals, cotangents = self.residual_tree.unflatten(leaves), self.flat.result_tree.unflatten(upstream)
        statics = [self.statics[place] for place in sorted(self.statics)]
        shares = self.bwd(*statics, residuals, cotangents)
        names = list(inspect.signature(self.fun).parameters)
        count = len(self.given)
        if not isinstance(shares, tuple | list) or len(shares) != count:
            got = f"{len(shares)} gradients" if isinstance(shares, tuple | list) else f"a {type(shares).__name__}"
            message = f"custom_vjp: bwd, {_described(self.bwd)}, gives {got} for {count} arguments of {_name(self.fun)}"
            advice = f"Return a tuple of {count}: a gradient for each, or None."
            raise TraceError(message, location=_line(self.bwd), advice=advice)
        free = [place for place in range(count + len(self.statics)) if place not in self.statics]
        given = Given(f"custom_vjp: bwd, {_described(self.bwd)}, gives for", "gradient", _line(self.bwd))
        found: list[Tensor] = []
        for place, argument, share in zip(free, self.given, shares, strict=True):
            found += given.matched(names[place] if place < len(names) else str(place), argument, share)
        return found


def _as_operand(leaf: Any) -> Tensor:
    return Tensor(as_tensor(leaf).value, is_weak(leaf))


def _weak(leaf: Tensor) -> bool:
    return leaf.is_weak


def _check_type(what: str, found: Tensor, wanted: Tensor, function: Callable[..., Any]) -> None:
    if found.type != wanted.type:
        kind = ShapeError if found.shape != wanted.shape else DTypeError
        raise kind(f"{what} {found.type}, expected {wanted.type}", location=_line(function))


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _line(function: Callable[..., Any]) -> str | None:
    """Where a function of the user's is defined, or else where it is called."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else user_line()


def _described(function: Callable[..., Any]) -> str:
    return f"{_name(function)} ({_line(function)})"
