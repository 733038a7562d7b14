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
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any, ClassVar

from blu.dataclass import dataclass, field
from blu.dialects.core import dialect
from blu.dialects.core.dialect import ONE, OPTIONAL, YIELD, BluDialect, Closed, Declared, Pure, Slot, take_back
from blu.dialects.core.dtypes import TensorType, check_results, refuse_float8, tensor_type
from blu.dialects.core.fields import (
    ATTRIBUTE_KINDS,
    OPERAND_KINDS,
    REGION_KIND,
    RESULT_SEGMENTS,
    SEGMENTS,
    VARIADIC_SLOTS,
    Field,
    check_number,
    on_operand,
    read_attributes,
    read_operands,
    slots,
    type_of_operand,
)
from blu.dialects.core.locations import describe, unknown_location
from blu.dialects.core.marks import marks_of
from blu.dialects.core.mlir import ir
from blu.dialects.core.regions import Takes, body_of, tracing_bodies
from blu.dialects.core.verification import verifier_of
from blu.dialects.inside import inside
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ArgumentError, BluError, ShapeError


class Operand:
    """Annotation of a field that holds one tensor."""


class OptionalOperand:
    """Annotation of a field that holds a tensor or nothing."""


class VariadicOperand:
    """Annotation of a field that holds any number of tensors."""


class ManyOperands:
    """Annotation of a field of an op with regions that holds as many tensors as a model has."""


class Captured:
    """Annotation of the last operand field of an op with regions: what their functions read from above."""


class Region:
    """Annotation of a field that holds a body: the op is called with a function of tensors, which is traced."""


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
# It is given the op's name where values of it are checked in a run: see `is_checked`.
location_provider: ContextVar[Callable[[str], ir.Location] | None] = ContextVar("location_provider", default=None)


class Op:
    """Base of all `blu` ops. A subclass with a `name` is registered under it."""

    name: ClassVar[str]
    fields: ClassVar[tuple[Field, ...]]
    # Why an op has no lowering rule or no gradient, where that is deliberate.
    deliberate: ClassVar[dict[str, str]] = {}
    # None: as many as `infer` says, at most `result_slots`, as a tuple.
    num_results: ClassVar[int | None] = 1
    result_slots: ClassVar[int] = VARIADIC_SLOTS
    # Passes ask `is_pure`. Those of what is in its bodies are an op's as well.
    effects: ClassVar[Effects] = Effects.NONE
    # Whether Python numbers alone give a Python number; whether operands and results may be of FLOAT8.
    keeps_weak: ClassVar[bool] = False
    takes_float8: ClassVar[bool] = False
    # Whether kernels of targets take the op as it is, or it is a step of the host program: it has no linalg form then.
    kernel: ClassVar[bool] = False
    host_step: ClassVar[bool] = False
    # Whether a run may report one of its values: under the name of the function that the user called.
    is_checked: ClassVar[bool] = False
    batch: Callable[..., Any] | None = None  # the results of many at once: a rule of `dialects/batching.py`
    decompose: Callable[..., Any] | None = None
    stays_whole: Callable[..., bool] | None = None  # of these attributes, where kernels take the op whole; None: always
    vjp: Callable[..., Any] | None = None
    # The same op giving what its gradient reads; None where it does. Then `vjp` gets None where there is no gradient.
    saving: Callable[..., Any] | None = None
    # Fields with no gradient, where a silent zero would be wrong, and what is said when somebody asks for one.
    without_gradient: ClassVar[dict[str, str]] = {}
    reference: ClassVar[Callable[..., Any]]
    samples: ClassVar[Callable[..., Iterator[Sample]]]
    error_samples: ClassVar[Callable[..., Iterator[ErrorSample]]]

    def __init_subclass__(cls, *, name: str = "", is_checked: bool = False, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        cls.is_checked = cls.is_checked or is_checked
        if not name:
            return
        take_back(OPS.get(name), cls, name)
        cls.name = name
        cls.fields = _collect_fields(cls)
        _check_declaration(cls)
        OPS[name] = cls
        cls.declared = _declared(cls)

    def __new__(cls, *operands: Any, **attributes: Any) -> Any:
        """Emit the op at the current insertion point; give its result (a Tensor, or a tuple of them).

        Regions are given as functions of tensors, by name as attributes are. What these read from above is found by
        tracing them, and not given.
        """
        results = emit(cls, operands, attributes)
        return results[0] if len(results) == 1 and cls.num_results else tuple(results)

    @staticmethod
    def infer(*operands: Any, **attributes: Any) -> TensorType | tuple[TensorType, ...]:
        """The types of the results. Regions are given by name, as a `RegionType` each; what they capture is not."""
        raise AssertionError("every op says what shape and dtype it gives")

    @staticmethod
    def region_arguments(*operands: Any, **attributes: Any) -> tuple[Takes, ...]:
        """For each region, by fields, what it takes before what it reads from above: types, or what gives these."""
        return ()

    @classmethod
    def infer_all(cls, operands: Sequence[Any], attributes: dict[str, Any]) -> tuple[TensorType, ...]:
        """`infer` with its result always as a tuple."""
        refuse_float8(() if cls.takes_float8 else operands)
        result = cls.infer(*operands, **attributes)
        results = result if isinstance(result, tuple) else (result,)
        check_results(results, cls.takes_float8)
        return results

    @classmethod
    def operand_fields(cls) -> list[Field]:
        return [item for item in cls.fields if item.is_operand]

    @classmethod
    def given_fields(cls) -> list[Field]:
        """The operand fields that the class is called with: all but what regions capture."""
        return [item for item in cls.operand_fields() if item.kind != "Captured"]

    @classmethod
    def attribute_fields(cls) -> list[Field]:
        return [item for item in cls.fields if item.is_attribute]

    @classmethod
    def region_fields(cls) -> list[Field]:
        return [item for item in cls.fields if item.is_region]


def _collect_fields(cls: type[Op]) -> tuple[Field, ...]:
    """Annotations of the class and its bases, base classes first."""
    found: dict[str, Field] = {}
    for base in reversed(cls.__mro__):
        for name, kind in inspect.get_annotations(base).items():
            kind_name = kind if isinstance(kind, str) else kind.__name__
            if kind_name in (*OPERAND_KINDS, *ATTRIBUTE_KINDS, REGION_KIND):
                found[name] = Field(name, kind_name)
    return tuple(found.values())


def _check_declaration(cls: type[Op]) -> None:
    captured = [item.kind == "Captured" for item in cls.operand_fields()]
    wanted = [False] * (len(captured) - 1) + [True] if cls.region_fields() else [False] * len(captured)
    assert captured == wanted, f"op {cls.name}: the last operand of an op with regions, and of no other, is Captured"
    assert not (cls.region_fields() and cls.kernel), f"op {cls.name}: kernels take no ops with regions"


def _declared(cls: type[Op]) -> Declared:
    """The MLIR side of the op: named operands and attributes, its effects, and the verifier made from `infer`."""
    fields = [slot for item in cls.fields for slot in _slots(item)]
    count, how_many = (cls.result_slots, OPTIONAL) if cls.num_results is None else (cls.num_results, ONE)
    fields += [dialect.result(f"result_{number}", how_many) for number in range(count)]
    return BluDialect.declare(cls.name, *fields, traits=_traits(cls), verify_invariants=verifier_of(cls))


def _traits(cls: type[Op]) -> tuple[type, ...]:
    if cls.region_fields():
        return Closed, EffectsOfBodies
    return (Pure,) if cls.effects is Effects.NONE else ()


class EffectsOfBodies:
    """The trait of an op that has the effects of what is in its bodies, besides its own."""

    class Answer(ir.MemoryEffectsOpInterface):
        """What MLIR's passes are told: that the op writes something, or that it does nothing."""

        @staticmethod
        def get_effects(operation: Any, effects: Any) -> None:
            """Add to `effects` where there is any."""
            if not is_pure(operation.operation):
                effects.append(ir.MemoryEffect.Write)

    @staticmethod
    def attach(op_name: str) -> None:
        """Give it to an op of the current context."""
        EffectsOfBodies.Answer.attach(op_name)


def _slots(item: Field) -> list[Slot]:
    """IRDL gives all operands of a variadic field one type, so such a field is declared as optional slots instead."""
    if item.is_operand and item.holds_list:
        return [dialect.operand(f"{item.name}_{slot}", OPTIONAL) for slot in range(item.width)]
    if item.is_operand:
        return [dialect.operand(item.name, OPTIONAL if item.kind == "OptionalOperand" else ONE)]
    return [dialect.region(item.name) if item.is_region else dialect.attribute(item.name)]


def value_type(value: ir.Value) -> TensorType:
    """The shape and dtype of a value of the `blu` dialect."""
    return tensor_type(value.type)


def operation_class(operation: ir.Operation) -> type[Op] | None:
    """The declaration of a `blu` operation, or None for other dialects'."""
    name = operation.name
    return OPS.get(name[4:]) if name.startswith("blu.") else None


def is_pure(operation: ir.Operation) -> bool:
    """Whether all that an op on tensors does, its bodies included, is to compute its results: see `Effects.NONE`."""
    cls = operation_class(operation)
    if cls is None:
        return operation.name.partition(".")[0] in PURE_DIALECTS
    inside = (item.operation for region in operation.regions for block in region for item in block.operations)
    return cls.effects is Effects.NONE and all(item.name == YIELD or is_pure(item) for item in inside)


def operands_of(operation: ir.Operation) -> list[Any]:
    """The operands by declared field: a value, a list for variadic fields, None for an absent optional one."""
    return read_operands(operation, OPS[operation.name.removeprefix("blu.")].operand_fields())


def attributes_of(operation: ir.Operation) -> dict[str, Any]:
    """The attributes by declared field, as Python values. ParseError for what hand-written IR lacks or gets wrong."""
    return read_attributes(operation, OPS[operation.name.removeprefix("blu.")].attribute_fields())


def body_blocks_of(operation: ir.Operation) -> dict[str, ir.Block]:
    """The bodies by declared region."""
    cls = OPS[operation.name.removeprefix("blu.")]
    return {item.name: body_of(region) for item, region in zip(cls.region_fields(), operation.regions, strict=True)}


def emit(cls: type[Op], operands: Sequence[Any], attributes: dict[str, Any]) -> list[Tensor]:
    """Infer, then create the operation at the current insertion point. Mistakes carry the location of the op."""
    location = _current_location(cls.name if cls.is_checked else "")
    _check_fields(cls, operands, attributes)
    functions = {item.name: attributes[item.name] for item in cls.region_fields()}
    own = {name: value for name, value in attributes.items() if name not in functions}
    try:
        given = [on_operand(type_of_operand, item) for item in operands]
        if not functions:
            operation = _create(cls, operands, own, cls.infer_all(given, own), location)
        else:
            takes = cls.region_arguments(*given, **own)
            with tracing_bodies(f"blu.{cls.name}", functions, takes, location) as bodies:
                results = cls.infer_all(given, own | bodies.types)
                captured = list(map(Tensor, bodies.captured))
                operation = _create(cls, [*operands, captured], own, results, location)
                bodies.move_to(operation)
    except BluError as error:
        if error.location is None:
            said = error.message if error.message.startswith(f"{cls.name}:") else f"{cls.name}: {error.message}"
            error = type(error)(said, location=describe(location), advice=error.advice)
            error.op = cls.name
        raise error from None
    is_weak = cls.keeps_weak and all(tensor.is_weak for tensor in operands if tensor is not None)
    return [Tensor(value, is_weak) for value in operation.results]


def _create(
    cls: type[Op],
    operands: Sequence[Any],
    attributes: dict[str, Any],
    results: Sequence[TensorType],
    location: ir.Location,
) -> ir.Operation:
    encoded = {item.name: ATTRIBUTE_KINDS[item.kind].encode(attributes[item.name]) for item in cls.attribute_fields()}
    values, segments = _flatten(cls, operands)
    if any(item.kind != "Operand" for item in cls.operand_fields()):
        encoded[SEGMENTS] = ir.DenseI32ArrayAttr.get(segments)
    if cls.num_results is None:
        check_number(len(results), cls.result_slots, f"that {cls.name} gives")
        encoded[RESULT_SEGMENTS] = slots([len(results)], [cls.result_slots])
    return ir.Operation.create(
        f"blu.{cls.name}",
        results=[result.to_mlir() for result in results],
        operands=values,
        attributes=encoded | marks_of(cls.name),
        regions=len(cls.region_fields()),
        loc=location,
    )


def _check_fields(cls: type[Op], operands: Sequence[Any], attributes: dict[str, Any]) -> None:
    """Whether the class is called with what it declares; ArgumentError at the caller's line says how to call it."""
    wanted = [item.name for item in (*cls.attribute_fields(), *cls.region_fields())]
    if len(operands) == len(cls.given_fields()) and set(attributes) == set(wanted):
        return
    form = f"{cls.__name__}({', '.join([own.name for own in cls.given_fields()] + [f'{name}=...' for name in wanted])})"
    got = f"{len(operands)} operands and {', '.join(attributes) or 'no attributes'}"
    raise ArgumentError(f"{cls.name} is called as {form}, not with {got}", location=describe(_current_location("")))


def _flatten(cls: type[Op], operands: Sequence[Any]) -> tuple[list[ir.Value], list[int]]:
    """All operands in a row, and for each slot of the op whether it is filled."""
    values: list[ir.Value] = []
    segments: list[int] = []
    for item, content in zip(cls.operand_fields(), operands, strict=True):
        group = [] if content is None else content if isinstance(content, (list, tuple)) else [content]
        if len(group) > item.width:
            raise ShapeError(f"takes at most {item.width} {item.name}, got {len(group)}")
        values.extend(tensor.value for tensor in group)
        segments.extend([1] * len(group) + [0] * (item.width - len(group)))
    return values, segments


def _current_location(checked: str) -> ir.Location:
    provider = location_provider.get()
    return provider(checked) if provider else (ir.Location.current or unknown_location())


def emitting_at(location: ir.Location) -> AbstractContextManager[None]:
    """Give all ops emitted inside of the block this location (what a rewrite replaces keeps the user's line)."""
    return inside(location_provider, lambda checked: location)


def load(context: ir.Context) -> None:
    """Register the `blu` dialect and its verifiers in a context."""
    with context, ir.Location.unknown():
        BluDialect.load()
