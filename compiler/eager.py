"""Functions of the public API on arrays, outside of any trace: a program for each, and for each kind of arguments.

Programs stay in memory: a call like an earlier one only looks up its program and runs it. Of many kinds of arguments,
as in a loop over shapes, those that were used last stay.
"""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from threading import Lock
from typing import Any

import numpy as np

from blu.compiler.compiled import Compiled
from blu.compiler.numpys import has_numpys, numpys, signature_of
from blu.dataclass import dataclass, field
from blu.dialects.core.dtypes import DType, complex_dtype
from blu.dialects.tensor.complex_tensor import is_complex
from blu.dialects.tensor.refusals import bound
from blu.errors import BluError, UnsupportedError
from blu.plan.tensors import NAMES
from blu.runtime.array import Array, is_on_device

Function = Callable[..., Any]
# Runs the program that a function of leaves has become.
Run = Callable[[list[Any]], Any]

# Functions of which a Python number is a value at run time, so that another number needs no other program.
OPERATORS = frozenset(
    "add subtract multiply divide floor_divide remainder maximum minimum arctan2 copysign hypot where clip "
    "equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor logaddexp".split()
)


# How many programs stay. One takes some 20 KB, and a model by hand calls a few hundred kinds.
PROGRAMS_KEPT = 1024

_ARRAYS = (np.ndarray, Array, np.generic)


class Leaf(tuple):
    """The kind of an argument that a program takes: an array's shape, dtype and class, or a number's class."""

    __slots__ = ()


@dataclass(frozen=True)
class LeafPosition:
    """Stands for one of the arguments that a program takes."""

    index: int


@dataclass
class Eager:
    """Runs functions on arrays. `prepare(function, leaves, name, target)` compiles one, and gives what runs it.

    `policy` gives the policy of `blu.autocast` that a call is under. `kept` programs stay, those that were used last.
    """

    prepare: Callable[[Function, list[Any], str, str], Run]
    policy: Callable[[], Hashable]
    kept: int = PROGRAMS_KEPT
    programs: OrderedDict[Hashable, Run] = field(default_factory=OrderedDict)
    _keeping: Lock = field(default_factory=Lock, init=False, repr=False)

    def run(self, function: Function, arguments: tuple, keywords: dict[str, Any]) -> Any:
        """What the function gives for these arguments. NumPy computes with complex numbers,
        where it has the function."""
        leaves: list[Any] = []
        varies = function.__name__ in OPERATORS
        kinds = tuple([_kind(value, leaves, varies) for value in arguments])
        named = tuple([(name, _kind(value, leaves, False)) for name, value in keywords.items()]) if keywords else ()
        key = (function, kinds, named, self.policy())
        run = self.programs.get(key)
        if run is None:
            if has_numpys(function) and any(map(is_complex, (*arguments, *keywords.values()))):
                return self.run_on_host(*numpys(function, _bound(function, arguments, keywords)))
            run = self._prepared(function, leaves, (arguments, kinds), (keywords, dict(named)))
            self._keep(key, run)
            return run(leaves)
        try:
            self.programs.move_to_end(key)
        except KeyError:  # another thread has just let it go, and this call has it still
            self._keep(key, run)
        return run(leaves)

    def _keep(self, key: Hashable, run: Run) -> None:
        with self._keeping:
            self.programs[key] = run
            if len(self.programs) > self.kept:
                self.programs.popitem(last=False)

    def _prepared(
        self, function: Function, leaves: list[Any], arguments: tuple[tuple, tuple], keywords: tuple[dict, dict]
    ) -> Run:
        _bound(function, arguments[0], keywords[0])
        counter = iter(range(len(leaves)))
        given = [_template(value, kind, counter) for value, kind in zip(*arguments, strict=True)]
        options = {name: _template(value, keywords[1][name], counter) for name, value in keywords[0].items()}

        def program(arrays: list[Any]) -> Any:
            values = {name: _filled(item, arrays) for name, item in options.items()}
            return function(*(_filled(item, arrays) for item in given), **values)

        target = "cuda" if any(map(_is_on_gpu, leaves)) else "cpu"
        return self.prepare(program, leaves, function.__name__, target)

    def run_on_host(self, function: Function, arguments: Sequence[Any], keywords: dict[str, Any]) -> Any:
        """What a function of numpy's arrays gives, as arrays; on the GPU where an argument is."""
        leaves: list[Any] = []
        for value in (*arguments, *keywords.values()):
            _kind(value, leaves, False)
        given = [_on_host(value) for value in arguments]
        with np.errstate(all="ignore"):
            found = function(*given, **{name: _on_host(value) for name, value in keywords.items()})
        return _as_arrays(found, any(map(_is_on_gpu, leaves)))


def _bound(function: Function, arguments: tuple, keywords: dict[str, Any]) -> inspect.BoundArguments:
    return bound(signature_of(function), function.__name__, arguments, keywords)


def runner_of(compiled: Compiled, leaves: list[Any]) -> Run:
    """What runs a program on leaves of the kinds of these, which it need not look at."""
    interface = compiled.interface
    is_direct = not (compiled.overwrite or interface.captured or interface.messages.told or interface.takes_complex)
    if not is_direct or interface.result_tree.names != ("",):
        return compiled.run
    program, types = compiled.program, interface.signature.leaves
    numbers = [
        (at, types[at].dtype.numpy)
        for at, leaf in enumerate(leaves)
        if not (isinstance(leaf, np.ndarray | Array) or is_on_device(leaf))
    ]

    def run(arrays: list[Any]) -> Any:
        for at, dtype in numbers:
            arrays[at] = np.asarray(arrays[at], dtype)
        [result] = program.run(arrays)
        return result if isinstance(result, Array) else Array(result, is_shared=False)

    return run


def place(value: Any, device: str | None) -> Array:
    """An array of any library on a device, without a copy where it is there already."""
    wanted = device or ("cuda" if is_on_device(value) else "cpu")
    if wanted != "cpu" and wanted.partition(":")[0] != "cuda":
        raise UnsupportedError(f"there is no device {device!r}", advice=f"Here are {', '.join(devices())}.")
    if wanted != "cpu":
        from blu.runtime.cuda.array import to_device

        return to_device(value)
    if type(value) is Array:
        return value
    if is_on_device(value):
        from blu.runtime.cuda.array import from_device

        return Array((value if isinstance(value, Array) else from_device(value)).numpy())
    return Array(np.from_dlpack(value) if hasattr(value, "__dlpack__") else np.asarray(value))


def devices() -> list[str]:
    """The devices of this machine that arrays may be on."""
    try:
        from blu.runtime.cuda.driver.driver import default_driver

        return ["cpu", f"cuda:{default_driver().number}"]
    except BluError:
        return ["cpu"]


def _kind(value: Any, leaves: list[Any], varies: bool) -> Hashable:
    """What a program depends on of an argument. Arrays in it become leaves, and numbers where they vary."""
    kind = type(value)
    if kind is Array or isinstance(value, _ARRAYS):
        leaves.append(value)
        return Leaf((value.shape, value.dtype, kind))
    if kind is tuple or kind is list:
        return kind, tuple([_kind(item, leaves, varies) for item in value])
    if varies and (kind is float or (kind is int and _fits(value, leaves))):
        leaves.append(value)
        return Leaf((kind,))
    if hasattr(value, "shape") and hasattr(value, "dtype") and kind is not type:
        leaves.append(value)
        return Leaf((tuple(value.shape), value.dtype, kind))
    if kind is float or kind.__hash__ is None or kind is slice:  # NaN is no key
        return kind, repr(value)
    return kind, value


def _fits(value: int, leaves: list[Any]) -> bool:
    """Whether an integer is one of the dtypes of all arrays before it. Others are looked at while tracing."""
    dtypes = [leaf.dtype for leaf in leaves if hasattr(leaf, "dtype")]
    limits = [np.iinfo(dtype) for dtype in dtypes if getattr(dtype, "kind", "") in ("i", "u")]
    return bool(dtypes) and -(2**63) <= value < 2**63 and all(item.min <= value <= item.max for item in limits)


def _template(value: Any, kind: Any, counter: Iterator[int]) -> Any:
    """An argument with places for its leaves."""
    if type(kind) is Leaf:
        return LeafPosition(next(counter))
    if type(value) in (tuple, list):
        return type(value)(_template(item, inner, counter) for item, inner in zip(value, kind[1], strict=True))
    return value


def _filled(template: Any, leaves: list[Any]) -> Any:
    if type(template) is LeafPosition:
        return leaves[template.index]
    if type(template) in (tuple, list):
        return type(template)(_filled(item, leaves) for item in template)
    return template


def _is_on_gpu(value: Any) -> bool:
    return not isinstance(value, np.ndarray | np.generic | float | int) and is_on_device(value)


def _on_host(value: Any) -> Any:
    """An argument as numpy has it."""
    if isinstance(value, Array):
        return value.in_host_memory()
    if isinstance(value, DType):
        return value.numpy
    if type(value) in (tuple, list):
        return type(value)(map(_on_host, value))
    return value


def _as_arrays(value: Any, on_gpu: bool) -> Any:
    """A result with arrays of Blu's in place of numpy's, in the structure that it has."""
    if isinstance(value, np.ndarray | np.generic):
        return _placed(np.asarray(value), on_gpu)
    if isinstance(value, tuple | list):
        items, kind = [_as_arrays(item, on_gpu) for item in value], type(value)
        return getattr(kind, "_make", kind)(items)
    return value


def _placed(value: np.ndarray, on_gpu: bool) -> Array:
    if on_gpu and (value.dtype in NAMES or complex_dtype(value.dtype) is not None):
        from blu.runtime.cuda.array import to_device

        return to_device(value)
    return Array(value)
