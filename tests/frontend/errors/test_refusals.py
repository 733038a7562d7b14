"""Every public function on bad input: the error is Blu's, names the function that was called, and the user's line."""

from __future__ import annotations

import inspect
import re
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import blu
from blu.errors import ArgumentError, BluError, OutOfRangeError, ShapeError, TraceError
from blu.frontend.functional import functional
from tests.frontend.errors.test_bad_programs import MATRIX

HERE = r"test_refusals\.py:\d+: "
OTHER = np.ones((4, 5), np.float32)
BAD = {
    "text": "no",
    "none": None,
    "empty list": [],
    "object": object(),
    "objects": np.array([object()]),
    "ragged list": [[1], [1, 2]],
    "0-d": np.float32(1),
    "five dimensions": np.ones((1, 2, 1, 2, 1), np.float32),
    "numbers": np.array([[1, 2], [3, 4]]),
    "complex": np.ones((2, 2), np.complex64),
    "empty": np.ones(0, np.float32),
    "dictionary": {"a": MATRIX},
    "function": len,
    "far": 99,
}
OPTIONS = {name: BAD[name] for name in ("text", "object", "ragged list", "complex", "far")}
SPACES = {
    "functions": (blu, list(functional.HOMES)),
    "fft": (blu.fft, blu.fft.__all__),
    "linalg": (blu.linalg, [name for name in dir(blu.linalg) if not name.startswith("_")]),
    "array_api": (blu.array_api, [name for name in dir(blu.array_api) if not name.startswith("_")]),
    "optim": (blu.optim, ["choose", "clip_by_global_norm", "clip_by_value", "global_norm", "is_finite"]),
    "random": (blu.random, [name for name in dir(blu.random) if not name.startswith("_")]),
}


# Which are NumPy's, with its errors, or read what others have made.
NUMPYS = ("from_dlpack", "unique_counts", "unique_values")


def functions(space: str) -> dict[str, Callable[..., Any]]:
    """The public functions of a module of functions."""
    module, names = SPACES[space]
    found = {name: getattr(module, name) for name in names if name not in NUMPYS}
    return {item.__name__: item for item in found.values() if inspect.isfunction(item) and item.__module__ != "typing"}


def cases(function: Callable[..., Any]) -> Iterator[tuple[str, list[Any], dict[str, Any]]]:
    """Arguments of which few are what the function takes."""
    parameters = inspect.signature(function).parameters.values()
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    count = sum(each.default is each.empty and each.kind in kinds for each in parameters)
    count = count or any(each.kind is each.VAR_POSITIONAL for each in parameters)
    rest = count - 1
    for name, bad in BAD.items():
        yield f"{name} alone", [bad] * count, {}
        if rest > 0:
            yield f"{name} first", [bad, *[MATRIX] * rest], {}
            yield f"{name} last", [MATRIX, *[bad] * rest], {}
    if rest > 0:
        yield "other shapes", [MATRIX, *[OTHER] * rest], {}
    for each in parameters:
        if each.default is not each.empty:
            for name, bad in OPTIONS.items():
                yield f"{each.name}={name}", [MATRIX] * count, {each.name: bad}


def complaint(name: str, error: BaseException) -> str:
    """What is wrong with an error of a function, or nothing."""
    first = str(error).splitlines()[0] if str(error) else ""
    if isinstance(error, TypeError) and first.startswith(f"{name}() "):
        return ""  # as Python says that there is no such parameter
    if not isinstance(error, BluError):
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} of Python's at {last.filename}:{last.lineno}: {first}"
    said = re.split(HERE, first)
    if len(said) < 2:
        return f"no line of the user's: {first}"
    return "" if re.match(rf"(blu\.)?{name}\b", said[-1]) else f"not told by {name}: {first}"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("space", SPACES)
def test_errors_are_told_by_the_function_that_was_called(space: str) -> None:
    wrong = []

    def program() -> None:
        for name, function in functions(space).items():
            for case, arguments, keywords in cases(function):
                try:
                    function(*arguments, **keywords)
                except Exception as error:
                    found = complaint(name, error)
                    wrong.extend([f"{name}, {case}: {found}"] if found else [])

    blu.jit(program).trace()
    assert not wrong, "\n".join(wrong)


def taken(x: Any, i: Any) -> Any:
    return x.at[i].set(0.0)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("at", taken),
        ("at", lambda x, i: x.at[i].multiply(2.0)),
        ("at", lambda x, i: x.at[i].get()),
        ("at", lambda x, i: x.at[i, i].add(1.0)),
        ("getitem", lambda x, i: x[i]),
        ("getitem", lambda x, i: x[i, i]),
        ("take", lambda x, i: blu.take(x, i, 0)),
        ("put_along_axis", lambda x, i: blu.put_along_axis(x, i[:, None], 0.0, 0)),
    ],
)
def test_an_index_out_of_range_is_told_by_the_function_that_was_called(name: str, function: Any) -> None:
    with pytest.raises(OutOfRangeError, match=f"{HERE}{name}: index 5 is out of range"):
        blu.jit(function)(MATRIX, np.array([0, 5]))


def test_the_same_by_hand() -> None:
    with pytest.raises(OutOfRangeError, match=f"{HERE}at: index 5"):
        blu.at(MATRIX)[np.array([0, 5])].set(0.0)
    with pytest.raises(ShapeError, match=f"{HERE}stack: needs at least one tensor"):
        blu.stack([])
    with pytest.raises(ArgumentError, match=f"{HERE}round: decimals is 'no', and not int"):
        blu.round(MATRIX, decimals="no")  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match=f"{HERE}nonzero: what has no dimensions"):
        blu.nonzero(1.0)


def test_an_error_of_a_function_of_the_users_is_its_own() -> None:
    def step(one: Any, other: Any) -> Any:
        return blu.concatenate([one, other], axis=7)

    def failing(one: Any, other: Any) -> Any:
        raise ValueError("mine")

    with pytest.raises(ShapeError, match=f"{HERE}concatenate: axis 7"):
        blu.jit(lambda x: blu.associative_scan(step, x)).trace(MATRIX)
    with pytest.raises(ValueError, match=r"^mine$"):
        blu.jit(lambda x: blu.associative_scan(failing, x)).trace(MATRIX)
    with pytest.raises(TraceError, match=f"{HERE}.*NumPy"):
        blu.jit(np.sin).trace(MATRIX)
