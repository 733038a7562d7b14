"""`blu.vjp`: gradients of functions with any number of results, given what each result's own gradient is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from blu.dialects.core.dtypes import DType, f32, f64
from blu.dialects.hooks import HOOKS
from blu.dialects.tensor.folding import sum as sum_of
from blu.dialects.tensor.function import is_tracing
from blu.dialects.tensor.promotion import as_tensor, as_tensors, is_weak
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ArgumentError, DTypeError, ShapeError, TraceError
from blu.frontend.tracing.spec import is_static, type_of_leaf
from blu.frontend.tracing.trace import as_results
from blu.frontend.tracing.tree import TreeDef, describe_difference, flatten, is_array
from blu.frontend.tracing.user_location import user_line
from blu.frontend.transform import grad, one_gradient_deeper


def vjp(function: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """The function's result, and the function that takes gradients back through it.

        y, pull_back = blu.vjp(function, x, w)
        dx, dw = pull_back(dy)

    `pull_back` takes gradients with respect to the results, each of its result's shape and dtype, in the nesting of the
    result, with None in the place of what is no float. It gives a tuple of gradients with respect to the primals, each
    in its nesting, with None in the place of what is no float tensor. With `has_aux` the function returns (result,
    anything else), and (result, pull_back, anything else) is returned.

    In a compiled function, the forward pass that the gradients need is that of the result. Called on arrays, the result
    and `pull_back` are programs of their own, and `pull_back` runs the forward pass again, on the primals as they are
    then.

    Raises ArgumentError where no primal or no result is a float tensor; `pull_back` raises ArgumentError, ShapeError or
    DTypeError for gradients that do not fit the results.
    """
    is_traced = is_tracing()
    if not any(_is_float_tensor(leaf) for leaf in flatten(primals)[0]):
        raise ArgumentError("vjp: no argument is a float tensor, so there is no gradient", location=user_line())
    outputs = _call(function, primals)
    if has_aux and not (isinstance(outputs, tuple) and len(outputs) == 2):
        raise TraceError("with has_aux the function must return (result, anything else)", location=user_line())
    result = _with_tensors_only(outputs[0] if has_aux else outputs)
    if not any(_dtype_of(leaf).is_float for leaf in flatten(result)[0]):
        raise ArgumentError("vjp: no result is a float tensor, so there is no gradient", location=user_line())

    def weighted(cotangents: Any, *values: Any) -> Any:
        outputs = function(*values)
        return _weighted(outputs[0] if has_aux else outputs, cotangents)

    def pull_back(cotangents: Any) -> tuple[Any, ...]:
        if is_traced and not is_tracing():
            advice = "Call pull_back in the compiled function, and return what it gives."
            message = "vjp: gradients of a traced function can be taken only while it is traced"
            raise TraceError(message, location=user_line(), advice=advice)
        _check_cotangents(flatten(result), flatten(cotangents))
        values = _traced(primals, numbers_too=not is_traced) if is_tracing() else primals
        return grad(weighted, argnums=tuple(range(1, 1 + len(primals))))(cotangents, *values)

    return (result, pull_back, outputs[1]) if has_aux else (result, pull_back)


def _call(function: Callable[..., Any], primals: tuple[Any, ...]) -> Any:
    with one_gradient_deeper(getattr(function, "__name__", "function")):
        if is_tracing():
            return function(*primals)
        return HOOKS.compiler.run_transformed(function, primals, {})


def _with_tensors_only(result: Any) -> Any:
    """While tracing, the numbers in a result as tensors, which is what results of a compiled function are."""
    if not is_tracing():
        return result
    tensors, tree = as_results(result)
    return tree.unflatten(tensors)


def _traced(primals: tuple[Any, ...], numbers_too: bool) -> tuple[Any, ...]:
    """While tracing, tensors in the place of arrays, and of numbers where a compiled function would take them so."""
    leaves, tree = flatten(primals)
    return tree.unflatten(
        [
            as_tensors([leaf], type_of_leaf(leaf, name).dtype)[0]
            if is_array(leaf) or (numbers_too and not is_static(leaf))
            else leaf
            for leaf, name in zip(leaves, tree.names, strict=True)
        ]
    )


def _weighted(result: Any, cotangents: Any) -> Tensor:
    """The scalar whose gradient is wanted: the sum of all float results times their gradients."""
    by_name = _leaves_by_name(flatten(cotangents))
    total: Tensor | None = None
    for name, leaf in _leaves_by_name(flatten(result)).items():
        tensor = as_tensor(leaf)
        if tensor.dtype.is_float:
            part = sum_of(tensor * by_name[name]).astype(f64 if tensor.dtype == f64 else f32)
            total = part if total is None else total + part
    assert total is not None, "some result is a float"
    return total


def _leaves_by_name(flat: tuple[list[Any], TreeDef]) -> dict[str, Any]:
    leaves, tree = flat
    return dict(zip(tree.names, leaves, strict=True))


def _is_float_tensor(leaf: Any) -> bool:
    """Whether there is a gradient with respect to an argument. Python's floats are tensors outside of a trace only."""
    if isinstance(leaf, Tensor) or is_array(leaf):
        return _dtype_of(leaf).is_float
    return isinstance(leaf, float) and not is_tracing()


def _dtype_of(leaf: Any) -> DType:
    return leaf.dtype if isinstance(leaf, Tensor) else type_of_leaf(leaf, "").dtype


def _shape_of(leaf: Any) -> tuple[int, ...]:
    return leaf.shape if isinstance(leaf, Tensor) else type_of_leaf(leaf, "").shape


def _check_cotangents(result: tuple[list[Any], TreeDef], cotangents: tuple[list[Any], TreeDef]) -> None:
    """One gradient for each float result, of its shape and dtype, and None for the others, nested as the results."""
    wanted = {name: leaf for name, leaf in _leaves_by_name(result).items() if _dtype_of(leaf).is_float}
    found = _leaves_by_name(cotangents)
    for name in [*wanted, *found]:
        what = f"result {name}" if name else "the result"
        if name not in found:
            advice = "Give a gradient for each float result, in the nesting of the result."
            raise ArgumentError(f"vjp: there is no gradient for {what}", location=user_line(), advice=advice)
        if name not in wanted:
            advice = "Put None in the place of what is no float."
            raise ArgumentError(f"vjp: a gradient for {what}, which has none", location=user_line(), advice=advice)
        _check_type(what, wanted[name], found[name])
    leaves, tree = result
    expected = tree.unflatten([leaf if _dtype_of(leaf).is_float else None for leaf in leaves])
    difference = describe_difference(flatten(expected)[1], cotangents[1])
    if difference:
        message = f"vjp: the gradients are not nested as the result is ({difference})"
        raise ArgumentError(message, location=user_line(), advice="Put None in the place of what is no float.")


def _check_type(what: str, leaf: Any, given: Any) -> None:
    if not (isinstance(given, Tensor | int | float) or is_array(given)):
        message = f"vjp: the gradient for {what} is a {type(given).__name__}, which is no tensor"
        raise ArgumentError(message, location=user_line())
    if _shape_of(leaf) != _shape_of(given):
        message = f"vjp: the gradient for {what} has the shape {_shape_of(given)}, expected {_shape_of(leaf)}"
        raise ShapeError(message, location=user_line())
    if _dtype_of(leaf) != _dtype_of(given) and not is_weak(given):
        message = f"vjp: the gradient for {what} is {_dtype_of(given)}, expected {_dtype_of(leaf)}"
        raise DTypeError(message, location=user_line(), advice="Convert it: gradient.astype(...)")
