"""What Blu raises when something is wrong on the user's side: what happened, where, and what to do about it."""

from __future__ import annotations

import difflib
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FrameType
from typing import Any

try:
    from numpy.linalg import LinAlgError
except ImportError:  # processes that generate code do without NumPy
    LinAlgError = ValueError

_INSIDE = ("blu", "contextlib", "functools")


class BluError(Exception):
    """Base of all errors that Blu raises on purpose.

    `location` is the user's `file:line` (or None), `advice` one sentence on what to do (or empty). `op` is the op that
    refuses it, where one does: its name stands before the message until the function that was called is known.
    """

    def __init__(self, message: str, *, location: str | None = None, advice: str = ""):
        self.message = message
        self.location = location
        self.advice = advice
        self.op, self._is_told = "", False
        super().__init__(self.__str__())

    def tell_as(self, name: str) -> None:
        """Say it under the name of the function that the user called. What is said under one stays so."""
        if not self._is_told and (self.op or self.location is None):
            message = self.message.removeprefix(f"{self.op}: ")
            self.message = message if message.startswith(f"{name}:") else f"{name}: {message}"
            self._is_told = True

    def __str__(self) -> str:
        where = f"{self.location}: " if self.location else ""
        advice = f"\n  {self.advice}" if self.advice else ""
        return f"{where}{self.message}{advice}"


class DonationWarning(UserWarning):
    """A donated argument whose memory a program cannot use: it has no result that may be written there."""


class TunedScheduleWarning(UserWarning):
    """A schedule that was found to be faster, by `blu tune`, does not fit its kernel any more."""


class RecompilationWarning(UserWarning):
    """A function that is compiled again and again, because one of its arguments is always another."""


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the user's line."""
    warnings.warn(message, category, stacklevel=_calling_frame()[1])


def calling_line() -> str:
    """The user's `file:line`, that Blu was called from."""
    frame, _ = _calling_frame()
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _calling_frame() -> tuple[FrameType, int]:
    """The innermost frame that is neither Blu's nor a decorator of Python's, and its level above our caller's."""
    frame, level = sys._getframe(2), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _INSIDE:
        frame, level = frame.f_back, level + 1
    return frame, level


def suggestion(word: str, candidates: Sequence[str], most: int = 2) -> str:
    """`did you mean '--x'?` with at most so many candidates, or nothing."""
    close = difflib.get_close_matches(word, candidates, most)
    return "did you mean " + " or ".join(f"'{item}'" for item in close) + "?" if close else ""


OTHER_NAMES = {
    "abs": "absolute",
    "acos": "arccos",
    "acosh": "arccosh",
    "array": "asarray",
    "asin": "arcsin",
    "asinh": "arcsinh",
    "as_tensor": "asarray",
    "atan": "arctan",
    "atan2": "arctan2",
    "atanh": "arctanh",
    "bitwise_not": "invert",
    "cat": "concatenate",
    "chunk": "split",
    "concat": "concatenate",
    "diag": "diagonal",
    "embedding": "take",
    "empty": "zeros",
    "empty_like": "zeros_like",
    "expit": "sigmoid",
    "from_numpy": "asarray",
    "gammaln": "lgamma",
    "identity": "eye",
    "hstack": "concatenate",
    "swish": "silu",
    "true_divide": "divide",
    "vstack": "concatenate",
    "gather": "take_along_axis",
    "index_add": "scatter_add",
    "index_select": "take",
    "masked_fill": "where",
    "movedim": "moveaxis",
    "permute_dims": "transpose",
    "pow": "power",
    "ravel": "flatten",
    "scatter": "put_along_axis",
    "scatter_reduce": "segment_max",
    "select": "take",
    "tensor": "asarray",
    "unbind": "unstack",
    "mul": "multiply",
    "sub": "subtract",
    "div": "divide",
    "neg": "negative",
    "mm": "matmul",
    "bmm": "matmul",
    "unsqueeze": "expand_dims",
    "view": "reshape",
    "expand": "broadcast_to",
    "clamp": "clip",
    "amax": "max",
    "amin": "min",
    "topk": "top_k",
    "masked_select": "compress",
    "repeat_interleave": "repeat",
    "eq": "equal",
    "ne": "not_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "lt": "less",
    "le": "less_equal",
}
"""Functions by names that PyTorch, NumPy or the array-API standard have for them. They are for messages."""


def no_attribute(what: str, name: str, candidates: Callable[[], Iterable[str]]) -> AttributeError:
    """The error for a name that something does not have, with what may be meant, of those that `candidates` gives.

    It does not say the object: Python would guess once more.
    """
    message = f"{what} has no attribute {name!r}"
    if not name.startswith("_"):  # whoever asks for Python's own names only wants to know whether they are there
        other = f"what others call {name} is blu.{OTHER_NAMES[name]}" if name in OTHER_NAMES else ""
        guess = other or suggestion(name, sorted(candidates()))
        message += f": {guess}" if guess else ""
    return AttributeError(message, name=name)


def guessing(module: Mapping[str, Any]) -> Callable[[str], Any]:
    """The `__getattr__` of a module, given its `globals()`: the error for a name that it does not have."""

    def guess(name: str) -> Any:
        names = module.get("__all__") or [found for found in module if not found.startswith("_")]
        shown = module["__name__"].replace("blu.frontend.", "blu.")
        raise no_attribute(f"module {shown!r}", name, lambda: names)

    return guess


class SettingError(BluError, ValueError):
    """A variable BLU_* in the environment that Blu does not know, or a value that does not fit it.

    `name` is the variable.
    """

    def __init__(self, message: str, *, name: str, location: str | None = None, advice: str = ""):
        self.name = name
        super().__init__(message, location=location, advice=advice)


class ShapeError(BluError, ValueError):
    """Shapes, axes or dtypes of operands do not fit the op."""


class DTypeError(BluError, TypeError):
    """A dtype that the op does not take, or a Python scalar that does not fit one."""


class ArgumentError(BluError, TypeError):
    """A compiled function was called with other arguments than it takes."""


class TraceError(BluError):
    """The traced Python code asks for a value that exists only when the compiled function runs."""


class CallbackError(BluError, RuntimeError):
    """A function that a program calls (`blu.debug.callback`) raised: `__cause__` is what."""


class OutOfRangeError(BluError, IndexError):
    """An index lies outside of the dimension it selects from."""


class MatrixError(BluError, LinAlgError):  # type: ignore[misc]
    """A matrix that has no inverse, or not the factors that were asked for: as numpy.linalg.LinAlgError."""


class OutOfMemoryError(BluError, MemoryError):
    """An allocation that the machine cannot serve."""


class PassError(BluError):
    """A pass failed, or left IR that does not verify.

    `pass_name`, `level` and `operation` say what failed on what; `reproducer` is a file that shows it again;
    `diagnostics` is all that MLIR reported meanwhile.
    """

    def __init__(
        self,
        message: str,
        *,
        location: str | None = None,
        advice: str = "",
        pass_name: str = "",
        level: str = "",
        operation: str = "",
        reproducer: str | None = None,
        diagnostics: Sequence[object] = (),
    ):
        self.pass_name = pass_name
        self.level = level
        self.operation = operation
        self.reproducer = reproducer
        self.diagnostics = tuple(diagnostics)
        super().__init__(message, location=location, advice=advice)


class ParseError(BluError):
    """Malformed IR, pipeline or option text."""


class UnsupportedError(BluError):
    """Something that Blu knows of but cannot do on this machine or target."""


class DeviceError(BluError):
    """A GPU, or a kernel on it, that failed during a run. What the process had in the GPU's memory may be lost."""


class WeightsError(BluError):
    """Weights, configuration or tokenizer files that are missing, damaged or do not fit the model."""


class CheckpointError(WeightsError):
    """A checkpoint that is missing, damaged, does not fit the program, or cannot be saved."""


class DataError(BluError):
    """Training data that is missing, damaged, too short, or outside of the model's vocabulary."""


class CacheError(BluError):
    """An artifact or cache entry that is damaged or comes from another version or machine."""


class RankError(BluError):
    """Processes that run together do not fit together, do not find each other, or lost one of them."""


class RankLostError(RankError):
    """Another process of those that run together is gone, and what they did together is worth nothing."""
