"""What functions on tensors ask of the parts above them, which they cannot import: those register it here.

| hooks | registered by, when it is imported | what for |
|---|---|---|
| `HOOKS.tracer` | `blu.frontend.tracing.trace` | user's lines in errors, large arrays that a trace reads |
| `HOOKS.compiler` | `blu.compiler.jit` | calls on arrays, outside of any trace |

`import blu` imports neither; looking up the first of its functions imports both. tests/test_architecture.py holds who
registers hooks and who asks them.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from blu.dataclass import dataclass
from blu.errors import UnsupportedError

if TYPE_CHECKING:
    from blu.dialects.tensor.tensor import Tensor


def _no_tracer(array: np.ndarray) -> NoReturn:
    raise AssertionError(f"an array of shape {array.shape} is captured, and there is no tracer to do it")


def _no_compiler(function: Callable[..., Any], arguments: tuple, keywords: dict[str, Any]) -> NoReturn:
    raise UnsupportedError(
        f"{getattr(function, '__name__', 'a function')} is called on arrays, and blu.compiler is not imported",
        advice="Call it as blu's: `import blu` and `blu.exp(x)`, say.",
    )


def _nowhere(array: Any, device: str | None) -> NoReturn:
    return _no_compiler(_nowhere, (array,), {"device": device})


def _nowhere_joined(parts: Any) -> NoReturn:
    return _no_compiler(_nowhere_joined, (parts,), {})


@dataclass(frozen=True)
class TracerHooks:
    """What a tracer knows: by default, of no user and no array."""

    # The user's "file:line", or None where no user's code is running.
    user_line: Callable[[], str | None] = lambda: None
    # The public function that the user's line calls, or None where it calls none.
    called_function: Callable[[], str | None] = lambda: None
    # Whether what an error of Python's says is that of the public function in a frame: whether nothing of the user's
    # raised it, and the user's line called that function.
    is_told_by: Callable[[BaseException, FrameType], bool] = lambda error, frame: False
    # A large array as an argument of the program that is being traced.
    capture: Callable[[np.ndarray], Tensor] = _no_tracer
    # What functions are of complex numbers (`COMPLEX_RULES`), before the first of these numbers is given to one.
    load_complex: Callable[[], None] = lambda: None


@dataclass(frozen=True)
class CompilerHooks:
    """How functions run on arrays: `run(function, arguments, keywords)`. By default, they cannot."""

    # Functions of the public API: one program for each, and for each kind of arguments.
    run_function: Callable[[Callable[..., Any], tuple, dict[str, Any]], Any] = _no_compiler
    # Functions of numpy's arrays.
    run_on_host: Callable[[Callable[..., Any], tuple, dict[str, Any]], Any] = _no_compiler
    # An array of any library on a device: "cpu", "cuda:0", or None for where it is.
    place: Callable[[Any, str | None], Any] = _nowhere
    # An array of complex numbers, of one of their parts, in the same memory.
    as_whole: Callable[[Any], Any] = _nowhere_joined
    # The devices that arrays may be on, the first of which is taken where none is said.
    devices: Callable[[], list[str]] = lambda: ["cpu"]
    # What a transformation such as `blu.grad` has made of a user's function.
    run_transformed: Callable[[Callable[..., Any], tuple, dict[str, Any]], Any] = _no_compiler


@dataclass
class Hooks:
    """The hooks of each part that registers some."""

    tracer: TracerHooks = TracerHooks()
    compiler: CompilerHooks = CompilerHooks()


HOOKS = Hooks()
