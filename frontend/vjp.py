"""`blu.vjp`: gradients of functions with any number of results, given what each result's own gradient is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from blu.dialects.core.dtypes import DType
from blu.dialects.hooks import HOOKS
from blu.dialects.tensor.function import is_tracing
from blu.dialects.tensor.promotion import as_tensor, as_tensors, is_weak
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ArgumentError, DTypeError, ShapeError, TraceError
from blu.frontend.tracing.flat_function import FlatFunction
from blu.frontend.tracing.messages import collecting
from blu.frontend.tracing.spec import is_static, type_of_leaf
from blu.frontend.tracing.trace import as_results
from blu.frontend.tracing.traced_function import one_gradient_deeper, trace_function
from blu.frontend.tracing.tree import TreeDef, describe_difference, flatten, is_array
from blu.frontend.tracing.user_location import user_line
from blu.frontend.transform import differentiable


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
    if not any(_is_float_tensor(leaf) for leaf in flatten(primals)[0]):
        raise ArgumentError("vjp: no argument is a float tensor, so there is no gradient", location=user_line())
    return (_in_trace if is_tracing() else _on_arrays)(function, primals, has_aux)


def _in_trace(function: Callable[..., Any], primals: tuple[Any, ...], has_aux: bool) -> tuple[Any, ...]:
    """The function is traced once, for the result and for what is pulled back through it."""
    split = _SplitResult(function, has_aux)
    flat = FlatFunction(split, _traced(primals, numbers_too=False), hands_on=True)
    flat.given = (primals, {})  # not their copies: buffers of the caller's modules get new values
    traced = trace_function(flat)
    results, effects = traced.call()
    result, aux = split.put_together(flat.results_of(results))
    _check_result(result)

    def pull_back(cotangents: Any) -> tuple[Any, ...]:
        if not is_tracing():
            advice = "Call pull_back in the compiled function, and return what it gives."
            message = "vjp: gradients of a traced function can be taken only while it is traced"
            raise TraceError(message, location=user_line(), advice=advice)
        given = _cotangents(result, cotangents)
        wanted = differentiable(flat.tree, flat.leaves, range(len(primals)))
        gradients = traced.call_pullback(wanted, [flat.leaves[leaf].is_weak for leaf in wanted], effects, given)
        by_leaf = dict(zip(wanted, gradients, strict=True))
        return flat.tree.unflatten([by_leaf.get(leaf) for leaf in range(len(flat.leaves))])[0]

    return (result, pull_back, aux) if has_aux else (result, pull_back)


class _SplitResult:
    """A function that gives the tensors in its result, then those in what it gives besides, and keeps all else."""

    def __init__(self, function: Callable[..., Any], has_aux: bool):
        self.function, self.has_aux = function, has_aux
        self.__name__ = getattr(function, "__name__", "function")

    def __call__(self, *values: Any) -> list[Tensor]:
        outputs = self.function(*values)
        if self.has_aux and not (isinstance(outputs, tuple) and len(outputs) == 2):
            raise TraceError("with has_aux the function must return (result, anything else)", location=user_line())
        result, aux = outputs if self.has_aux else (outputs, None)
        tensors, self.tree = as_results(result)
        self.aux, self.aux_tree = flatten(aux)
        return tensors + [leaf for leaf in self.aux if isinstance(leaf, Tensor)]

    def put_together(self, tensors: list[Tensor]) -> tuple[Any, Any]:
        """The result and what is given besides, with other tensors in the place of those that were."""
        others = iter(tensors)
        result = self.tree.unflatten([next(others) for _ in self.tree.names])
        aux = [next(others) if isinstance(leaf, Tensor) else leaf for leaf in self.aux]
        return result, self.aux_tree.unflatten(aux)


def _on_arrays(function: Callable[..., Any], primals: tuple[Any, ...], has_aux: bool) -> tuple[Any, ...]:
    """The result and `pull_back` are programs of their own."""
    with one_gradient_deeper(getattr(function, "__name__", "function")):
        outputs = HOOKS.compiler.run_transformed(function, primals, {})
    if has_aux and not (isinstance(outputs, tuple) and len(outputs) == 2):
        raise TraceError("with has_aux the function must return (result, anything else)", location=user_line())
    result = outputs[0] if has_aux else outputs
    _check_result(result)

    def pulled(cotangents: Any, *values: Any) -> tuple[Any, ...]:
        leaves, tree = flatten(values)
        values = tree.unflatten(leaves)  # buffers have changed with the result
        with collecting():  # what the function tells has been told with its result
            return vjp(function, *values, has_aux=has_aux)[1](cotangents)

    def pull_back(cotangents: Any) -> tuple[Any, ...]:
        _check_cotangents(flatten(result), flatten(cotangents))
        if is_tracing():
            return pulled(cotangents, *_traced(primals, numbers_too=True))
        return HOOKS.compiler.run_transformed(pulled, (cotangents, *primals), {})

    return (result, pull_back, outputs[1]) if has_aux else (result, pull_back)


def _check_result(result: Any) -> None:
    if not any(_dtype_of(leaf).has_gradient for leaf in flatten(result)[0]):
        raise ArgumentError("vjp: no result is a float tensor, so there is no gradient", location=user_line())


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


def _cotangents(result: Any, cotangents: Any) -> dict[int, Tensor]:
    """The gradients of the float results, by their positions, each of its result's dtype."""
    _check_cotangents(flatten(result), flatten(cotangents))
    by_name = _leaves_by_name(flatten(cotangents))
    leaves = enumerate(_leaves_by_name(flatten(result)).items())
    return {place: as_tensor(by_name[name], leaf.dtype) for place, (name, leaf) in leaves if leaf.dtype.has_gradient}


def _leaves_by_name(flat: tuple[list[Any], TreeDef]) -> dict[str, Any]:
    leaves, tree = flat
    return dict(zip(tree.names, leaves, strict=True))


def _is_float_tensor(leaf: Any) -> bool:
    """Whether there is a gradient with respect to an argument. Python's floats are tensors outside of a trace only."""
    if isinstance(leaf, Tensor) or is_array(leaf):
        return _dtype_of(leaf).has_gradient
    return isinstance(leaf, float) and not is_tracing()


def _dtype_of(leaf: Any) -> DType:
    return leaf.dtype if isinstance(leaf, Tensor) else type_of_leaf(leaf, "").dtype


def _shape_of(leaf: Any) -> tuple[int, ...]:
    return leaf.shape if isinstance(leaf, Tensor) else type_of_leaf(leaf, "").shape


def _check_cotangents(result: tuple[list[Any], TreeDef], cotangents: tuple[list[Any], TreeDef]) -> None:
    """One gradient for each float result, of its shape and dtype, and None for the others, nested as the results."""
    wanted = {name: leaf for name, leaf in _leaves_by_name(result).items() if _dtype_of(leaf).has_gradient}
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
    expected = tree.unflatten([leaf if _dtype_of(leaf).has_gradient else None for leaf in leaves])
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
