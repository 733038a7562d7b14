"""What makes a function part of the API: in a trace it emits ops; outside, on arrays, it compiles itself and runs."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, ParamSpec, TypeVar

from blu.dialects.core.mlir import ir
from blu.dialects.hooks import HOOKS
from blu.dialects.tensor.complex_tensor import Complex, is_complex
from blu.dialects.tensor.refusals import OF_ARGUMENTS, refusal
from blu.dialects.tensor.tensor import METHODS, Tensor
from blu.errors import BluError, LinAlgError, MatrixError, TraceError

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

# What public functions are of complex numbers, by the functions: `blu.frontend.complexes` has them, and is imported
# where the first of these numbers is given to one. Functions without one are given the numbers as they are, and refuse
# them where they ask for a tensor.
COMPLEX_RULES: dict[Callable[..., Any], Callable[..., Any]] = {}
# What runs in the frame of a call of a public function, whose name is that of `function` there.
CALLS: set[CodeType] = set()


def is_tracing() -> bool:
    """Whether ops can be emitted here: inside of a traced function or of a pass."""
    if ir.Context.current is None:  # nearly always outside, and the exception below takes twenty times as long
        return False
    try:
        return ir.InsertionPoint.current is not None
    except ValueError:
        return False


def public(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Let a function that emits ops also be called with arrays, outside of any trace.

    Errors say the user's file and line, and the function that the user has called: the outermost of those that call
    each other. Arguments that make Python raise an error of its own are told by it as well.
    """

    @functools.wraps(function)
    def call(*arguments: Parameters.args, **keywords: Parameters.kwargs) -> Result:
        if is_tracing():
            try:
                if any(map(is_complex, arguments)) or any(map(is_complex, keywords.values())):
                    HOOKS.tracer.load_complex()
                    return COMPLEX_RULES.get(call, function)(*arguments, **keywords)
                return function(*arguments, **keywords)
            except Exception as error:
                _tell(error, function, arguments, keywords, sys._getframe())
                raise
        for argument in (*arguments, *keywords.values()):
            if isinstance(argument, Tensor):
                _ = argument.value  # says that its trace has ended
            if isinstance(argument, Complex):
                whole: Any = call
                return whole(*map(_whole, arguments), **{name: _whole(value) for name, value in keywords.items()})
        return HOOKS.compiler.run_function(call, arguments, keywords)

    CALLS.add(call.__code__)  # type: ignore[attr-defined]
    return call


def _tell(error: Exception, function: Callable[..., Any], arguments: Any, keywords: Any, frame: FrameType) -> None:
    """Let an error that left the call of a public function say which function it was, and the user's line. What Python
    raised of its arguments, and of nothing else, is raised as an error of the function."""
    ours: BluError | None = error if isinstance(error, BluError) else None
    if ours is None and isinstance(error, OF_ARGUMENTS):
        if not HOOKS.tracer.is_told_by(error, frame):
            return
        is_of_matrices = isinstance(error, LinAlgError)
        ours = MatrixError(str(error)) if is_of_matrices else refusal(function, arguments, keywords, error)
    if ours is None:
        return
    ours.tell_as(HOOKS.tracer.called_function() or function.__name__)
    ours.location = ours.location or HOOKS.tracer.user_line()
    if ours is not error:
        raise ours from None


def told(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Let a function that calls public ones tell errors as they do: under its own name, at the user's line."""

    @functools.wraps(function)
    def call(*arguments: Parameters.args, **keywords: Parameters.kwargs) -> Result:
        try:
            return function(*arguments, **keywords)
        except Exception as error:
            _tell(error, function, arguments, keywords, sys._getframe())
            raise

    CALLS.add(call.__code__)  # type: ignore[attr-defined]
    return call


def public_as(name: str) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Let a function be public that does what one of another name promises: errors are told under that."""

    def wrap(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        function.__name__ = name
        return public(function)

    return wrap


def _whole(value: Any) -> Any:
    """A pair of arrays as an array of complex numbers."""
    return value.numpy() if isinstance(value, Complex) else value


def method(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """A public function that is also a method (or the operator) of tensors, of the same name."""
    call = public(function)
    METHODS[function.__name__] = call
    return call


def as_operator(name: str) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """A public function that is an operator of tensors, "__getitem__" say, and no method by its own name."""

    def make(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        METHODS[name] = call = public(function)
        return call

    return make


def on_host(
    advice: str = "", traced: Callable[..., Result] | None = None
) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """A public function of numpy's arrays, which numpy computes. Of tensors it is `traced`, or else an error with
    `advice`."""

    def make(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        @told
        @functools.wraps(function)
        def call(*arguments: Parameters.args, **keywords: Parameters.kwargs) -> Result:
            if is_tracing() and any(map(_has_tensor, (*arguments, *keywords.values()))):
                if traced is not None:
                    return traced(*arguments, **keywords)
                what = f"{function.__name__}: is computed by NumPy, and a tensor's numbers exist only when"
                raise TraceError(f"{what} the compiled function runs", location=HOOKS.tracer.user_line(), advice=advice)
            return HOOKS.compiler.run_on_host(function, arguments, keywords)

        return call

    return make


def _has_tensor(value: object) -> bool:
    return any(map(_has_tensor, value)) if isinstance(value, list | tuple) else isinstance(value, Tensor | Complex)
