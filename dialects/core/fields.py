"""The fields of an op: how operands and attributes are written in IR, and read back from text that may be wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from blu.dataclass import dataclass
from blu.dialects.core.dtypes import dtype_of_mlir
from blu.dialects.core.mlir import ir
from blu.errors import ArgumentError, ParseError, ShapeError

SEGMENTS = "operandSegmentSizes"
RESULT_SEGMENTS = "resultSegmentSizes"
# How many tensors a variadic field holds at most, and how many an op with bodies takes in each field, reads from above
# it, and gives.
VARIADIC_SLOTS = 16
CAPTURED_SLOTS = 128
# The annotations of fields that hold operands, and how many tensors they hold at most.
OPERAND_KINDS = {
    "Operand": 1,
    "OptionalOperand": 1,
    "VariadicOperand": VARIADIC_SLOTS,
    "ManyOperands": CAPTURED_SLOTS,
    "Captured": CAPTURED_SLOTS,
}
REGION_KIND = "Region"


@dataclass(frozen=True)
class AttributeKind:
    """How a Python value is written as an MLIR attribute and read back, and what that looks like in text."""

    encode: Callable[[Any], ir.Attribute]
    decode: Callable[[Any], Any]
    example: str


def _encode_array(value: np.ndarray) -> ir.Attribute:
    from blu.dialects.core.constants import encode

    return encode(value)


def _decode_array(attribute: ir.Attribute) -> np.ndarray:
    from blu.dialects.core.constants import decode

    return decode(attribute)


def _i64(value: int) -> ir.Attribute:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), int(value))


ATTRIBUTE_KINDS = {
    "int": AttributeKind(_i64, lambda attribute: ir.IntegerAttr(attribute).value, "1 : i64"),
    "float": AttributeKind(
        lambda value: ir.FloatAttr.get(ir.F64Type.get(), float(value)), lambda a: ir.FloatAttr(a).value, "0.5 : f64"
    ),
    "bool": AttributeKind(lambda value: ir.BoolAttr.get(bool(value)), lambda a: ir.BoolAttr(a).value, "true"),
    "str": AttributeKind(ir.StringAttr.get, lambda attribute: ir.StringAttr(attribute).value, '"text"'),
    "Ints": AttributeKind(
        lambda value: ir.DenseI64ArrayAttr.get([int(item) for item in value]),
        lambda attribute: tuple(ir.DenseI64ArrayAttr(attribute)),
        "array<i64: 0, 1>",
    ),
    "DType": AttributeKind(
        lambda value: ir.TypeAttr.get(value.to_mlir()),
        lambda attribute: dtype_of_mlir(ir.TypeAttr(attribute).value),
        "f32",
    ),
    "Array": AttributeKind(_encode_array, _decode_array, "dense<0.5> : tensor<2xf32>"),
}


@dataclass(frozen=True)
class Field:
    """One declared operand, attribute or region of an op."""

    name: str
    kind: str

    @property
    def is_operand(self) -> bool:
        return self.kind in OPERAND_KINDS

    @property
    def is_region(self) -> bool:
        return self.kind == REGION_KIND

    @property
    def is_attribute(self) -> bool:
        return not self.is_operand and not self.is_region

    @property
    def width(self) -> int:
        """The most operands that the field holds."""
        return OPERAND_KINDS[self.kind]

    @property
    def holds_list(self) -> bool:
        """Whether the field holds any number of operands."""
        return self.width > 1


def type_of_operand(operand: Any) -> Any:
    """The type of a tensor that an op is given. ArgumentError for what is none, such as an array or a number."""
    if not hasattr(operand, "value"):
        advice = "Make it one with blu.asarray."
        raise ArgumentError(f"takes tensors, got a value of type {type(operand).__name__}", advice=advice)
    return operand.type


def slots(sizes: Sequence[int], widths: Sequence[int]) -> ir.Attribute:
    """Which slots of operands or results are filled, of groups that have so many each: 1 or 0 for each slot."""
    filled = [int(slot < size) for size, width in zip(sizes, widths, strict=True) for slot in range(width)]
    return ir.DenseI32ArrayAttr.get(filled)


def check_number(number: int, most: int, what: str) -> None:
    """ShapeError where there are more tensors than slots for them."""
    if number > most:
        raise ShapeError(f"there are {number} tensors {what}, and at most {most} are possible")


def segment_sizes(operation: ir.Operation, declared: Sequence[Field]) -> list[int]:
    """How many operands each declared field has. Where only one field may be absent, IRDL asks for no sizes."""
    if SEGMENTS not in operation.attributes:
        fixed = sum(item.kind == "Operand" for item in declared)
        return [1 if item.kind == "Operand" else len(operation.operands) - fixed for item in declared]
    slots = _slots(operation)
    ends = np.cumsum([item.width for item in declared])
    return [sum(slots[end - item.width : end]) for item, end in zip(declared, ends, strict=True)]


def _slots(operation: ir.Operation) -> list[int]:
    return list(ir.DenseI32ArrayAttr(operation.attributes[SEGMENTS]))


def check_counts(operation: ir.Operation, declared: Sequence[Field]) -> None:
    """Whether a parsed op has the operands that its fields ask for. ParseError names the fields."""
    total, names = len(operation.operands), ", ".join(item.name for item in declared)
    most, least = sum(item.width for item in declared), sum(item.kind == "Operand" for item in declared)
    if most == least and total != least:
        raise ParseError(f"takes {_counted(least)}{f' ({names})' if names else ''}, got {total}")
    if most > least:
        _check_segments(operation, declared, f"{SEGMENTS} ({names})")


def _counted(number: int) -> str:
    return f"{number or 'no'} operand{'' if number == 1 else 's'}"


def _check_segments(operation: ir.Operation, declared: Sequence[Field], what: str) -> None:
    """Whether the operands of an op with optional ones belong to its fields as its attribute says."""
    total, most = len(operation.operands), sum(item.width for item in declared)
    optional = most - sum(item.kind == "Operand" for item in declared)
    if SEGMENTS in operation.attributes:
        slots = _read_slots(operation, what)
        if len(slots) != most or not all(slot in (0, 1) for slot in slots) or sum(slots) != total:
            raise ParseError(f"{what} must be {most} times 0 or 1, and {_counted(total)} in all, not {slots}")
    elif optional > 1:
        raise ParseError(f"needs the attribute {what}, {most} times 0 or 1, for its {_counted(total)}")
    for item, size in zip(declared, segment_sizes(operation, declared), strict=True):
        if not (item.kind == "Operand") <= size <= item.width:
            raise ParseError(f"has {_counted(size)} for {item.name}, with {_counted(total)} in all")


def _read_slots(operation: ir.Operation, what: str) -> list[int]:
    try:
        return _slots(operation)
    except ValueError:
        raise ParseError(f"{what} is {operation.attributes[SEGMENTS]}, and no array<i32: 1, 0>") from None


def decoded(item: Field, found: ir.OpAttributeMap) -> Any:
    """The attribute of a field as a Python value. ParseError says what hand-written IR lacks or gets wrong."""
    kind = ATTRIBUTE_KINDS[item.kind]
    try:
        return kind.decode(found[item.name])
    except KeyError:
        raise ParseError(f"needs the attribute {item.name}, as in {item.name} = {kind.example}") from None
    except ValueError:
        raise ParseError(
            f"{item.name} = {found[item.name]} is no attribute of the form {item.name} = {kind.example}"
        ) from None


def read_operands(operation: ir.Operation, declared: Sequence[Field]) -> list[Any]:
    """The operands by declared field: a value, a list for fields of many, None for an absent optional one."""
    values = list(operation.operands)
    if all(item.kind == "Operand" for item in declared):
        return values
    result: list[Any] = []
    for item, size in zip(declared, segment_sizes(operation, declared), strict=True):
        segment, values = values[:size], values[size:]
        single = segment[0] if segment else None
        result.append(segment if item.holds_list else single)
    return result


def read_attributes(operation: ir.Operation, declared: Sequence[Field]) -> dict[str, Any]:
    """The attributes by declared field, as Python values. ParseError for what hand-written IR lacks or gets wrong."""
    found = operation.attributes
    return {item.name: decoded(item, found) for item in declared}


def on_operand(function: Callable[[Any], Any], item: Any) -> Any:
    """Apply `function` to one operand field's content: a value, a list of values, or None."""
    if item is None:
        return None
    return [function(entry) for entry in item] if isinstance(item, list | tuple) else function(item)
