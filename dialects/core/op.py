"""How an op is declared: one class says its fields, shapes, gradient, NumPy meaning and samples; the rest is derived.

    class Reverse(Op, name="reverse"):
        \"\"\"Elements in reverse order along `axes`.\"\"\"

        operand: Operand
        axes: Ints

        @staticmethod
        def infer(operand: TensorType, axes: tuple[int, ...]) -> TensorType:
            return operand

Calling the class, `Reverse(x, axes=(0,))`, emits the op at the current insertion point and returns its result.
The verifier, the printed op table and the generic tests come from the same declaration.
"""

# pyright: reportGeneralTypeIssues=false, reportCallIssue=false
from __future__ import annotations

import enum
import inspect
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, ClassVar

from blu.dialects.core.dtypes import TensorType, check_size, tensor_type
from blu.dialects.core.fields import (
    ATTRIBUTE_KINDS,
    OPERAND_KINDS,
    VARIADIC_SLOTS,
    Field,
    check_counts,
    decoded,
    segment_sizes,
)
from blu.dialects.core.locations import describe
from blu.dialects.core.marks import marks_of
from blu.dialects.core.mlir import ext, ir
from blu.dialects.core.modules import written_once
from blu.dialects.core.verification import remembered
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ArgumentError, BluError, ShapeError


class BluDialect(ext.Dialect, name="blu"):
    """Deep learning on tensors: the mathematics of a model, before any decision on how to compute it."""

    @classmethod
    def _emit_module(cls) -> ir.Module:
        """The declarations as IR. To go through the classes of all ops takes longer than a small program."""
        return written_once((cls.name, *cls.operations), super()._emit_module)


class Operand:
    """Annotation of a field that holds one tensor."""


class OptionalOperand:
    """Annotation of a field that holds a tensor or nothing."""


class VariadicOperand:
    """Annotation of a field that holds any number of tensors."""


class Ints:
    """Annotation of a field that holds a tuple of integers."""


class Array:
    """Annotation of a field that holds a NumPy array (a constant's value)."""


class Effects(enum.Enum):
    """What an op does besides computing its results.

    NONE: nothing. It may be merged with an equal one, dropped, done again, or moved. ORDERED: something that others
    notice (a collective, a message). It happens once in each run, used or not, after the ops with effects that come
    before it in the program.
    """

    NONE = "none"
    ORDERED = "ordered"


@dataclass(frozen=True)
class Sample:
    """Operands (NumPy arrays, lists of them, or None) and attributes that an op is tested with."""

    operands: tuple[Any, ...]
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ErrorSample:
    """Operand types and attributes that the op must refuse, with a part of the sentence it says."""

    operands: tuple[Any, ...]
    attributes: dict[str, Any]
    message: str


OPS: dict[str, type[Op]] = {}
# Dialects besides this one whose ops only compute values, as long as these are tensors.
PURE_DIALECTS = frozenset(("arith", "linalg", "math", "tensor"))

# The tracer sets this to find the user's file and line for each op; elsewhere MLIR's current location serves.
location_provider: ContextVar[Callable[[], ir.Location] | None] = ContextVar("location_provider", default=None)


class Op:
    """Base of all `blu` ops. A subclass with a `name` is registered under it."""

    name: ClassVar[str]
    fields: ClassVar[tuple[Field, ...]]
    # Why an op has no lowering rule or no gradient, where that is deliberate.
    deliberate: ClassVar[dict[str, str]] = {}
    num_results: ClassVar[int] = 1
    # Passes ask `is_pure`.
    effects: ClassVar[Effects] = Effects.NONE
    # Whether Python numbers alone give a Python number.
    keeps_weak: ClassVar[bool] = False
    # Whether kernels of targets take the op as it is, so that it has no linalg form.
    kernel: ClassVar[bool] = False
    decompose: Callable[..., Any] | None = None
    vjp: Callable[..., Any] | None = None
    reference: ClassVar[Callable[..., Any]]
    samples: ClassVar[Callable[..., Iterator[Sample]]]
    error_samples: ClassVar[Callable[..., Iterator[ErrorSample]]]

    def __init_subclass__(cls, *, name: str = "", **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if not name:
            return
        assert name not in OPS, f"op {name} is declared twice"
        cls.name = name
        cls.fields = _collect_fields(cls)
        OPS[name] = cls
        cls.ext_class = _make_ext_class(cls)

    def __new__(cls, *operands: Any, **attributes: Any) -> Any:
        """Emit the op at the current insertion point; give its result (a Tensor, or a tuple of them)."""
        results = emit(cls, operands, attributes)
        return results[0] if len(results) == 1 else tuple(results)

    @staticmethod
    def infer(*operands: Any, **attributes: Any) -> TensorType | tuple[TensorType, ...]:
        raise AssertionError("every op says what shape and dtype it gives")

    @classmethod
    def infer_all(cls, operands: Sequence[Any], attributes: dict[str, Any]) -> tuple[TensorType, ...]:
        """`infer` with its result always as a tuple."""
        result = cls.infer(*operands, **attributes)
        results = result if isinstance(result, tuple) else (result,)
        for type_ in results:
            check_size(type_)
        return results

    @classmethod
    def operand_fields(cls) -> list[Field]:
        return [item for item in cls.fields if item.is_operand]

    @classmethod
    def attribute_fields(cls) -> list[Field]:
        return [item for item in cls.fields if not item.is_operand]


def _collect_fields(cls: type[Op]) -> tuple[Field, ...]:
    """Annotations of the class and its bases, base classes first."""
    found: dict[str, Field] = {}
    for base in reversed(cls.__mro__):
        for name, kind in inspect.get_annotations(base).items():
            kind_name = kind if isinstance(kind, str) else kind.__name__
            if kind_name in OPERAND_KINDS or kind_name in ATTRIBUTE_KINDS:
                found[name] = Field(name, kind_name)
    return tuple(found.values())


def _make_ext_class(cls: type[Op]) -> type:
    """The MLIR side of the op: named operands and attributes, its effects, and the verifier made from `infer`."""
    annotations: dict[str, Any] = {}
    for item in cls.fields:
        annotations |= _irdl_fields(item)
    for number in range(cls.num_results):
        annotations[f"result_{number}"] = ir.OpResult[Any]
    body = {"__annotations__": annotations, "__doc__": cls.__doc__}
    body["verify_invariants"] = staticmethod(remembered(_verify))
    return types.new_class(
        cls.__name__,
        (BluDialect.Operation,),
        {"name": cls.name, "traits": [ext.Pure] if cls.effects is Effects.NONE else []},
        lambda space: space.update(body),
    )


def _irdl_fields(item: Field) -> dict[str, Any]:
    """IRDL gives all operands of a variadic field one type, so such a field is declared as optional slots instead."""
    if item.kind == "VariadicOperand":
        return {f"{item.name}_{slot}": ir.Value[Any] | None for slot in range(VARIADIC_SLOTS)}
    return {item.name: {"Operand": ir.Value[Any], "OptionalOperand": ir.Value[Any] | None}.get(item.kind, Any)}


def _verify(operation: Any) -> bool:
    """Check a built or parsed op with the same `infer` that the builder uses, and say the same sentence."""
    operation = operation.operation
    cls = OPS[operation.name.removeprefix("blu.")]
    try:
        check_counts(operation, cls.operand_fields())
        operands = [_map_operand(_checked_type, item) for item in operands_of(operation)]
        expected = cls.infer_all(operands, attributes_of(operation))
        found = tuple(tensor_type(result.type) for result in operation.results)
        if expected != found:
            raise ShapeError(f"gives {_listed(expected)}, but the result is declared as {_listed(found)}")
    except BluError as error:
        operation.location.emit_error(f"{operation.name}: {error.message}")
        return False
    return True


def _listed(types: Sequence[TensorType]) -> str:
    return ", ".join(map(str, types))


def _map_operand(function: Callable[[Any], Any], item: Any) -> Any:
    """Apply `function` to one operand field's content: a value, a list of values, or None."""
    if item is None:
        return None
    return [function(entry) for entry in item] if isinstance(item, list) else function(item)


def value_type(value: ir.Value) -> TensorType:
    """The shape and dtype of a value of the `blu` dialect."""
    return tensor_type(value.type)


def _checked_type(value: ir.Value) -> TensorType:
    type_ = value_type(value)
    check_size(type_)
    return type_


def operation_class(operation: ir.Operation) -> type[Op] | None:
    """The declaration of a `blu` operation, or None for other dialects'."""
    name = operation.name
    return OPS.get(name[4:]) if name.startswith("blu.") else None


def is_pure(operation: ir.Operation) -> bool:
    """Whether all that an op on tensors does is to compute its results: see `Effects.NONE`."""
    cls = operation_class(operation)
    return operation.name.partition(".")[0] in PURE_DIALECTS if cls is None else cls.effects is Effects.NONE


def operands_of(operation: ir.Operation) -> list[Any]:
    """The operands by declared field: a value, a list for variadic fields, None for an absent optional one."""
    cls = OPS[operation.name.removeprefix("blu.")]
    declared = cls.operand_fields()
    values = list(operation.operands)
    if all(item.kind == "Operand" for item in declared):
        return values
    sizes = segment_sizes(operation, declared)
    result: list[Any] = []
    for item, size in zip(declared, sizes, strict=True):
        segment, values = values[:size], values[size:]
        single = segment[0] if segment else None
        result.append(segment if item.kind == "VariadicOperand" else single)
    return result


def attributes_of(operation: ir.Operation) -> dict[str, Any]:
    """The attributes by declared field, as Python values. ParseError for what hand-written IR lacks or gets wrong."""
    cls = OPS[operation.name.removeprefix("blu.")]
    found = operation.attributes
    return {item.name: decoded(item, found) for item in cls.attribute_fields()}


def emit(cls: type[Op], operands: Sequence[Any], attributes: dict[str, Any]) -> list[Tensor]:
    """Infer, then create the operation at the current insertion point. Mistakes carry the location of the op."""
    location = _current_location()
    _check_fields(cls, operands, attributes)
    try:
        results = cls.infer_all([_map_operand(lambda tensor: tensor.type, item) for item in operands], attributes)
    except BluError as error:
        if error.location is None:
            error = type(error)(f"{cls.name}: {error.message}", location=describe(location), advice=error.advice)
        raise error from None
    encoded = {item.name: ATTRIBUTE_KINDS[item.kind].encode(attributes[item.name]) for item in cls.attribute_fields()}
    values, segments = _flatten(cls, operands)
    if any(item.kind != "Operand" for item in cls.operand_fields()):
        encoded["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get(segments)
    operation = ir.Operation.create(
        f"blu.{cls.name}",
        results=[result.to_mlir() for result in results],
        operands=values,
        attributes=encoded | marks_of(cls.name),
        loc=location,
    )
    is_weak = cls.keeps_weak and all(tensor.is_weak for tensor in operands if tensor is not None)
    return [Tensor(value, is_weak) for value in operation.results]


def _check_fields(cls: type[Op], operands: Sequence[Any], attributes: dict[str, Any]) -> None:
    """Whether the class is called with what it declares; ArgumentError at the caller's line says how to call it."""
    wanted = [item.name for item in cls.attribute_fields()]
    if len(operands) == len(cls.operand_fields()) and set(attributes) == set(wanted):
        return
    names = [item.name for item in cls.operand_fields()]
    form = f"{cls.__name__}({', '.join([*names, *(f'{name}=...' for name in wanted)])})"
    got = f"{len(operands)} operands and {', '.join(attributes) or 'no attributes'}"
    raise ArgumentError(f"{cls.name} is called as {form}, not with {got}", location=describe(_current_location()))


def _flatten(cls: type[Op], operands: Sequence[Any]) -> tuple[list[ir.Value], list[int]]:
    """All operands in a row, and for each slot of the op whether it is filled."""
    values: list[ir.Value] = []
    segments: list[int] = []
    for item, content in zip(cls.operand_fields(), operands, strict=True):
        group = [] if content is None else content if isinstance(content, (list, tuple)) else [content]
        width = VARIADIC_SLOTS if item.kind == "VariadicOperand" else 1
        if len(group) > width:
            raise ShapeError(f"takes at most {width} {item.name}, got {len(group)}")
        values.extend(tensor.value for tensor in group)
        segments.extend([1] * len(group) + [0] * (width - len(group)))
    return values, segments


def _current_location() -> ir.Location:
    provider = location_provider.get()
    return provider() if provider else (ir.Location.current or ir.Location.unknown())


@contextmanager
def emitting_at(location: ir.Location) -> Iterator[None]:
    """Give all ops emitted inside of the block this location (what a rewrite replaces keeps the user's line)."""
    token = location_provider.set(lambda: location)
    try:
        yield
    finally:
        location_provider.reset(token)


def load(context: ir.Context) -> None:
    """Register the `blu` dialect and its verifiers in a context."""
    with context, ir.Location.unknown():
        if not context.is_dialect_loaded("blu"):
            BluDialect.load()
