"""`blu.jacrev`, `blu.jacfwd` and `blu.hessian`: all derivatives of functions of several numbers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from blu.dialects.hooks import HOOKS
from blu.dialects.tensor.complex_tensor import Complex, is_complex
from blu.dialects.tensor.function import is_tracing
from blu.dialects.tensor.promotion import as_tensor
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ArgumentError, DTypeError
from blu.frontend.jvp import linearize
from blu.frontend.nested_gradients import has_gradient, zeros_like
from blu.frontend.tracing.tree import TreeDef, flatten
from blu.frontend.tracing.user_location import user_line
from blu.frontend.vjp import vjp
from blu.frontend.vmap import vmap

Numbers = int | Sequence[int]
# The result's nesting, for each leaf of it the derivatives by all primals, and what the function returns besides.
Found = tuple[TreeDef, list[tuple[Any, ...]], list[Any]]
Derivatives = Callable[[Callable[..., Any], list[Any]], Found]


def jacrev(fun: Callable[..., Any], argnums: Numbers = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that gives the derivatives of all elements of the result with respect to all of the arguments'.

        jacobian = blu.jacrev(lambda x: blu.sin(x))(x)            # x: (n,), jacobian: (n, n)

    In the place of each tensor of the result there is what is nested as the argument (a tuple of such where `argnums`
    are several), of tensors with the dimensions of that of the result, then those of the argument's. With `has_aux` the
    function returns (result, anything else), and (derivatives, anything else) is returned. A gradient is taken back
    for each element of the result, all at once: this is for functions of fewer results than arguments.

    Derivatives of complex results by real arguments are complex, as are those of real results by complex arguments,
    which are gradients as `grad` has them. Complex ones by complex ones are four numbers each, and refused.

    Raises DTypeError for arguments and results that are no float tensors, or both complex, ArgumentError for positions
    out of range.
    """

    def of_results(chosen: Callable[..., Any], primals: list[Any]) -> Found:
        result, pull_back, *aux = vjp(chosen, *primals, has_aux=has_aux)
        _refuse_complex("jacrev", primals, result)
        leaves, tree = _floats("jacrev: the result", result)

        def row(place: int) -> tuple[Any, ...]:
            found, nesting = flatten(
                vmap(lambda basis: pull_back(_with(leaves, tree, place, basis)))(_basis(leaves[place]))
            )
            shape = leaves[place].shape
            return nesting.unflatten([item.reshape((*shape, *item.shape[1:])) for item in found])

        return tree, [row(place) for place in range(len(leaves))], aux

    return _transformed("jacrev", fun, argnums, has_aux, of_results)


def jacfwd(fun: Callable[..., Any], argnums: Numbers = 0, has_aux: bool = False) -> Callable[..., Any]:
    """As `jacrev`, by a direction for each element of the arguments, all at once: for functions of fewer arguments than
    results.

    ArgumentError for arguments that there are not, DTypeError for those and results that are no float tensors.
    """

    def of_arguments(chosen: Callable[..., Any], primals: list[Any]) -> Found:
        result, push, *aux = linearize(chosen, *primals, has_aux=has_aux)
        _refuse_complex("jacfwd", primals, result)
        tree = _floats("jacfwd: the result", result)[1]
        leaves, nesting = flatten(tuple(primals))

        def column(place: int) -> list[Tensor]:
            moved = flatten(vmap(lambda basis: push(*_with(leaves, nesting, place, basis)))(_basis(leaves[place])))[0]
            return [item.moveaxis(0, -1).reshape((*item.shape[1:], *leaves[place].shape)) for item in moved]

        columns = [column(place) for place in range(len(leaves))]
        return tree, [nesting.unflatten(list(row)) for row in zip(*columns, strict=True)], aux

    return _transformed("jacfwd", fun, argnums, has_aux, of_arguments)


def hessian(fun: Callable[..., Any], argnums: Numbers = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that gives all second derivatives: `jacfwd` of `jacrev`.

    Those of a scalar result by an argument of shape (n,) are of shape (n, n). What is nested gives the derivatives by
    each part of those by each part. ArgumentError and DTypeError as there.
    """
    return jacfwd(jacrev(fun, argnums, has_aux), argnums, has_aux)


def _transformed(
    what: str, fun: Callable[..., Any], argnums: Numbers, has_aux: bool, derivatives: Derivatives
) -> Callable[..., Any]:
    """The function of all arguments, of which some are what is differentiated with respect to."""

    @functools.wraps(fun)
    def transformed(*arguments: Any, **keywords: Any) -> Any:
        if not is_tracing():
            return HOOKS.compiler.run_transformed(transformed, arguments, keywords)
        places = _places(what, argnums, len(arguments))
        primals = []
        for place in places:
            leaves, tree = _floats(f"{what}: argument {place}", arguments[place])
            primals.append(tree.unflatten(leaves))

        def chosen(*values: Any) -> Any:
            given = list(arguments)
            for place, value in zip(places, values, strict=True):
                given[place] = value
            return fun(*given, **keywords)

        tree, rows, aux = derivatives(chosen, primals)
        found = tree.unflatten([row[0] if isinstance(argnums, int) else row for row in rows])
        return (found, *aux) if has_aux else found

    return transformed


def _places(what: str, argnums: Numbers, count: int) -> list[int]:
    positions = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    for position in positions:
        if not -count <= position < count:
            message = f"{what}: cannot differentiate with respect to argument {position} of {count}"
            raise ArgumentError(message, location=user_line())
    return [position % count for position in positions]


def _floats(what: str, tree: Any) -> tuple[list[Tensor], TreeDef]:
    """The leaves of what is float tensors throughout."""
    leaves, nesting = flatten(tree)
    tensors = [as_tensor(leaf) if isinstance(leaf, float) or hasattr(leaf, "__array__") else leaf for leaf in leaves]
    for name, leaf in zip(nesting.names, tensors, strict=True):
        if not has_gradient(leaf):
            kind = str(leaf.type) if isinstance(leaf, Tensor) else f"a {type(leaf).__name__}"
            named = f"{what}.{name}" if name else what
            advice = "Leave out what is no float, or convert it."
            raise DTypeError(f"{named} is {kind}, and no float tensor", location=user_line(), advice=advice)
    return tensors, nesting


def _refuse_complex(what: str, primals: list[Any], result: Any) -> None:
    """A derivative is one number where the argument or the result is real."""
    arguments, results = (
        [leaf for leaf in flatten(tree, Complex)[0] if is_complex(leaf)] for tree in (primals, result)
    )
    if arguments and results:
        types = f"an argument is {arguments[0].type}, and the result {results[0].type}"
        message = f"{what}: {types}: derivatives are four numbers each"
        advice = "Differentiate by the parts: blu.jacrev(lambda re, im: f(blu.complex(re, im)), argnums=(0, 1))."
        raise DTypeError(message, location=user_line(), advice=advice)


def _with(leaves: Sequence[Tensor], tree: TreeDef, place: int, leaf: Tensor) -> Any:
    """A tree of zeros with another leaf in one place."""
    return tree.unflatten([leaf if other == place else zeros_like(item) for other, item in enumerate(leaves)])


def _basis(like: Tensor) -> Tensor:
    """All tensors of a type that are 1 in one place and 0 elsewhere, in the order of the places."""
    numbers = as_tensor(np.eye(like.size, dtype=like.dtype.numpy))
    return numbers.reshape((like.size, *like.shape))
