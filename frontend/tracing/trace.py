"""Tracing: run a Python function on tensors without numbers, and keep what it computes as a `blu` module."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

import blu.frontend.functional.functional
import blu.frontend.functional.interchange  # noqa: F401 (tensors have the functions of both as methods)
from blu.dataclass import dataclass, field
from blu.dialects.core.context import kept_context
from blu.dialects.core.dtypes import TensorType, as_dtype, bool_
from blu.dialects.core.locations import describe
from blu.dialects.core.marks import marking
from blu.dialects.core.mlir import func, ir
from blu.dialects.core.modules import module_text
from blu.dialects.core.op import location_provider
from blu.dialects.core.regions import refuse_escapes
from blu.dialects.hooks import HOOKS, TracerHooks
from blu.dialects.tensor.complex_tensor import Complex
from blu.dialects.tensor.promotion import as_tensor, is_weak
from blu.dialects.tensor.tensor import Tensor
from blu.errors import BluError, TraceError
from blu.frontend import autocast, checkpoint
from blu.frontend.tracing.complex_leaves import PairsType, complex_argument, with_pairs
from blu.frontend.tracing.host_arrays import as_host_array
from blu.frontend.tracing.messages import Messages, collecting
from blu.frontend.tracing.recursion import room_to_recurse
from blu.frontend.tracing.spec import NumberType, is_static, type_of_leaf
from blu.frontend.tracing.tree import Static, TreeDef, flatten, set_leaf
from blu.frontend.tracing.user_location import (
    called_function,
    definition_location,
    is_told_by,
    user_line,
    user_location,
)

MAX_NAME = 200
CAPTURED = "captured."
"""What the names of a program's inputs begin with that are no arguments of its function."""


@dataclass(frozen=True)
class Signature:
    """What a function is specialised for: the nesting of its arguments, and each leaf's type or static value."""

    tree: TreeDef
    leaves: tuple[Any, ...]

    def __hash__(self) -> int:
        return hash((self.tree, self.leaves))

    @property
    def static_names(self) -> list[str]:
        """The parameters whose values are part of the program because their names are said to be."""
        return [name for name, leaf in zip(self.tree.names, self.leaves, strict=True) if isinstance(leaf, Static)]


def signature_of(
    arguments: tuple, keywords: dict[str, Any], parameter_names: tuple[str, ...]
) -> tuple[Signature, list]:
    """The signature of a call, and its leaves. Leaves are named by parameter: "model.h.0.attn.c_attn.weight"."""
    named = dict(zip(parameter_names, arguments, strict=False)) | keywords
    leaves, tree = flatten(named)
    try:
        kinds = tuple(leaf if is_static(leaf) else type_of_leaf(leaf, "") for leaf in leaves)
    except BluError:  # names take long, and are for errors only; tensors of PyTorch's are looked at on a second try
        leaves = [as_host_array(leaf) for leaf in leaves]
        kinds = tuple(
            leaf if is_static(leaf) else type_of_leaf(leaf, name) for leaf, name in zip(leaves, tree.names, strict=True)
        )
    return Signature(tree, kinds), leaves


def accept_numbers(given: Signature, wanted: Signature) -> Signature:
    """The signature of a call where Python numbers take the dtypes of the scalars that a program was traced for."""
    pairs = zip(given.leaves, wanted.leaves, strict=False)
    leaves = tuple(known if _is_number_for(leaf, known) else leaf for leaf, known in pairs)
    return Signature(given.tree, leaves) if given.tree == wanted.tree else given


def _is_number_for(leaf: Any, wanted: Any) -> bool:
    is_scalar = isinstance(wanted, TensorType) and not wanted.shape and wanted.dtype != bool_
    return isinstance(leaf, NumberType) and is_scalar and (wanted.dtype.is_float or not leaf.dtype.is_float)


@dataclass(frozen=True)
class Interface:
    """How a traced function is called: its arguments, arrays that it reads besides, and the nesting of its results."""

    signature: Signature
    result_tree: TreeDef
    parameters: inspect.Signature
    captured: list[np.ndarray]
    # What is told of the last results in each run.
    messages: Messages
    # The leaves of the arguments that are buffers whose new values come behind what is returned.
    changed: tuple[int, ...] = ()

    @property
    def takes_complex(self) -> bool:
        """Whether there are arguments that the program takes as pairs of numbers."""
        return any(isinstance(leaf, PairsType) for leaf in self.signature.leaves)

    @property
    def captured_by_name(self) -> dict[str, np.ndarray]:
        """Arrays that the function reads besides its arguments, by the names of the program's inputs."""
        return dict(zip(_names_of_captured(len(self.captured)), self.captured, strict=True))

    def deliver(self, results: Sequence[Any], arguments: Callable[[], Any]) -> Any:
        """What the function returns, of the results of a run; tells what is told, and gives `arguments` new buffers."""
        found = self.messages.deliver(results)
        count = self.result_tree.num_leaves
        if self.changed:
            given = arguments()
            for leaf, value in zip(self.changed, found[count:], strict=True):
                set_leaf(given, self.signature.tree.paths[leaf], value)
        return self.result_tree.unflatten(found[:count])


@dataclass(frozen=True)
class TracedModule:
    """A traced function: its module, and how it is called."""

    module: ir.Module
    interface: Interface

    @property
    def signature(self) -> Signature:
        return self.interface.signature

    @property
    def captured(self) -> list[np.ndarray]:
        return self.interface.captured

    @property
    def text(self) -> str:
        """The module as MLIR text, with source locations."""
        return module_text(self.module)


@dataclass
class _Trace:
    """The state of a running trace: the function that is written, and arrays that it reads from outside."""

    block: ir.Block
    captured: list[np.ndarray] = field(default_factory=list)
    # By the id of an array, which is kept so that no other one gets it.
    tensors: dict[int, tuple[np.ndarray, Tensor]] = field(default_factory=dict)

    def capture(self, array: np.ndarray) -> Tensor:
        """A large array becomes an argument, so that its numbers are in neither the IR nor a cache key.

        As those of a small one, they are the numbers of now.
        """
        if id(array) not in self.tensors:
            type_ = TensorType(array.shape, as_dtype(array.dtype))
            value = self.block.add_argument(type_.to_mlir(), user_location())
            self.tensors[id(array)] = array, Tensor(value)
            self.captured.append(array.copy(order="C"))
        return self.tensors[id(array)][1]


_current: ContextVar[_Trace | None] = ContextVar("trace", default=None)


def is_tracing() -> bool:
    """Whether a function is being traced in this thread."""
    return _current.get() is not None


def _capture(array: np.ndarray) -> Tensor:
    trace = _current.get()
    assert trace is not None, "arrays are captured only while tracing"
    return trace.capture(array)


def _load_complex() -> None:
    """Import what functions are of complex numbers, which few programs have."""
    import blu.frontend.complexes.all_rules  # noqa: F401


HOOKS.tracer = TracerHooks(
    user_line=user_line,
    called_function=called_function,
    is_told_by=is_told_by,
    capture=_capture,
    load_complex=_load_complex,
)


def trace(
    function: Callable[..., Any],
    signature: Signature,
    donated: frozenset[str] = frozenset(),
    original: Callable[..., Any] | None = None,
) -> TracedModule:
    """Write `function` as `func.func @main` of a fresh module; static leaves keep their Python values.

    `original` is the user's function, where `function` only calls it: @main is placed at its definition.
    """
    context = kept_context()
    with room_to_recurse(), context, definition_location(original or function) as here:
        module = ir.Module.create()
        types, names = _tensor_leaves(signature)
        with ir.InsertionPoint(module.body):
            main = func.FuncOp("main", ([type_.to_mlir() for type_ in types], []))
        block = main.add_entry_block([ir.Location.name(name[:MAX_NAME], here) for name in names])
        state = _Trace(block)
        with ir.InsertionPoint(block), collecting() as messages:
            results, result_tree, changed = _run(function, signature, state, here)
            results += messages.tensors
            func.ReturnOp([tensor.value for tensor in results])
        _finish(main, block, names, state, results, donated)
        _name_results(main, result_tree, len(results))
        refuse_escapes(module.operation)
    parameters = inspect.signature(original or function)
    told = messages.after_trace()
    return TracedModule(module, Interface(signature, result_tree, parameters, state.captured, told, tuple(changed)))


def _tensor_leaves(signature: Signature) -> tuple[list[TensorType], list[str]]:
    """Types and names of the leaves that are tensors."""
    pairs = zip(signature.leaves, signature.tree.names, strict=True)
    tensors = [(leaf, name) for leaf, name in pairs if isinstance(leaf, TensorType)]
    return [leaf for leaf, _ in tensors], [name for _, name in tensors]


def _run(
    function: Callable[..., Any], signature: Signature, state: _Trace, here: ir.Location
) -> tuple[list[Tensor], TreeDef, dict[int, Tensor]]:
    """The results and their nesting, and the new values of the arguments' buffers, which are behind the results."""
    arguments = iter(list(state.block.arguments))
    given = [next(arguments) if isinstance(leaf, TensorType) else leaf for leaf in signature.leaves]
    token, location_token = _current.set(state), location_provider.set(user_location)
    try:
        leaves = [_argument(*pair) for pair in zip(given, signature.leaves, strict=True)]
        named = signature.tree.unflatten(leaves)
        with marking(lambda name: autocast.marks_of(name) | checkpoint.marks_of(name)):
            result = with_pairs(run_traced_function(function, named))
        changed = _changed_buffers(named, leaves, result, signature.tree)
        results, result_tree = as_results(result)
        return [*results, *changed.values()], result_tree, changed
    except BluError as error:
        error.location = error.location or describe(here)
        raise
    except RecursionError:
        raise TraceError(
            f"functions call each other more than {sys.getrecursionlimit()} deep while they are traced",
            location=describe(here),
            advice="Does one call itself without end? What a tensor holds cannot end it: a trace knows no numbers.",
        ) from None
    finally:
        _current.reset(token)
        location_provider.reset(location_token)


def _argument(given: Any, kind: Any) -> Any:
    """A leaf of the arguments as the function gets it."""
    if isinstance(kind, PairsType):
        return complex_argument(Tensor(given), kind.is_number)
    return Tensor(given, isinstance(kind, NumberType)) if isinstance(kind, TensorType) else given


def _changed_buffers(arguments: Any, leaves: list[Any], result: Any, before: TreeDef) -> dict[int, Tensor]:
    """The buffers that got values which the function does not return, by their leaves.

    A traced function gets copies of what holds its arguments: other tensors put into them would be lost.
    """
    kept = {id(leaf) for leaf in (*leaves, *flatten(result)[0])}
    found, tree = flatten(arguments, Complex)
    new = [place for place, leaf in enumerate(found) if isinstance(leaf, Tensor) and id(leaf) not in kept]
    buffers = before.buffers if tree.names == before.names else frozenset()
    lost = [tree.names[place] for place in new if place not in buffers]
    if lost:
        names = ", ".join(lost[:3]) + (", ..." if len(lost) > 3 else "")
        raise TraceError(
            f"the traced function changes its arguments ({names}), which its caller would not see",
            advice="Return the new values, or what holds them.",
        )
    return {place: found[place] for place in new}


def as_results(result: Any) -> tuple[list[Tensor], TreeDef]:
    """What a traced function returned as tensors, and its nesting."""
    flat, tree = flatten(result)
    return [_as_result(leaf, name) for leaf, name in zip(flat, tree.names, strict=True)], tree


def as_results_or_numbers(result: Any) -> tuple[list[Tensor], TreeDef]:
    """As `as_results`; tensors for Python numbers stand for such."""
    tensors, tree = as_results(result)
    leaves, _ = flatten(result)
    return [Tensor(item.value, is_weak(leaf)) for item, leaf in zip(tensors, leaves, strict=True)], tree


def run_traced_function(function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    """Call the user's function (the search for the user's line stops at this frame)."""
    return function(**arguments)


def _as_result(leaf: Any, name: str) -> Tensor:
    if isinstance(leaf, Tensor):
        return leaf
    try:
        return as_tensor(leaf)
    except Exception as error:
        what = f"result {name!r}" if name else "the result"
        raise TraceError(
            f"{what} is of type {type(leaf).__name__}, which a compiled function cannot return",
            advice="Return tensors, numbers, or dicts, lists, dataclasses and modules of them.",
        ) from error


def _finish(
    main: func.FuncOp,
    block: ir.Block,
    names: list[str],
    state: _Trace,
    results: list[Tensor],
    donated: frozenset[str],
) -> None:
    """Set the function's type, and on each argument its name and whether its memory may be reused."""
    type_ = ir.FunctionType.get(
        [argument.type for argument in block.arguments], [tensor.value.type for tensor in results]
    )
    main.attributes["function_type"] = ir.TypeAttr.get(type_)
    names = names + _names_of_captured(len(state.captured))
    main.arg_attrs = ir.ArrayAttr.get([_argument_attributes(name, donated) for name in names])


def _names_of_captured(count: int) -> list[str]:
    return [f"{CAPTURED}{index}" for index in range(count)]


def _name_results(main: func.FuncOp, tree: TreeDef, count: int) -> None:
    """Say which of what the function returned each result is, where that is more than its number."""
    names = ["" if name.isdecimal() else name[:MAX_NAME] for name in tree.names]
    if any(names):
        names += [""] * (count - len(names))
        attributes = [{"blu.name": ir.StringAttr.get(name)} if name else {} for name in names]
        main.attributes["res_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get(item) for item in attributes])


def _argument_attributes(name: str, donated: frozenset[str]) -> ir.DictAttr:
    attributes: dict[str, ir.Attribute] = {"blu.name": ir.StringAttr.get(name[:MAX_NAME])}
    if name.partition(".")[0] in donated:
        attributes["blu.donated"] = ir.UnitAttr.get()
    return ir.DictAttr.get(attributes)
