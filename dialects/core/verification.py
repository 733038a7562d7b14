"""The verifiers of ops: whether they give what their classes say."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from blu.dialects.core.dtypes import TensorType, check_size, tensor_type
from blu.dialects.core.fields import check_counts, on_operand, read_attributes, read_operands
from blu.dialects.core.mlir import ir
from blu.dialects.core.regions import check_taken, listed, read_region
from blu.dialects.core.remembering import remembered
from blu.errors import BluError, ShapeError

if TYPE_CHECKING:
    from blu.dialects.core.op import Op


def verifier_of(cls: type[Op]) -> Callable[[Any], bool]:
    """Check a built or parsed op with the same `infer` that the builder uses, and say the same sentence."""

    def verify(operation: Any) -> bool:
        operation = operation.operation
        try:
            check_counts(operation, cls.operand_fields())
            expected = _inferred(cls, operation)
            found = tuple(tensor_type(result.type) for result in operation.results)
            if expected != found:
                raise ShapeError(f"gives {listed(expected)}, but the result is declared as {listed(found)}")
        except BluError as error:
            operation.location.emit_error(f"{operation.name}: {error.message}")
            return False
        return True

    return verify if cls.region_fields() else remembered(verify)


def _inferred(cls: type[Op], operation: ir.Operation) -> tuple[TensorType, ...]:
    """What the op gives, after a look at its operands and bodies."""
    operands = [on_operand(_checked_type, item) for item in read_operands(operation, cls.operand_fields())]
    attributes = read_attributes(operation, cls.attribute_fields())
    if not cls.region_fields():
        return cls.infer_all(operands, attributes)
    *given, captured = operands
    fields = zip(cls.region_fields(), operation.regions, strict=True)
    bodies = {item.name: read_region(item.name, region, captured) for item, region in fields}
    check_taken(dict(zip(bodies, cls.region_arguments(*given, **attributes), strict=True)), bodies)
    return cls.infer_all(given, attributes | bodies)


def _checked_type(value: ir.Value) -> TensorType:
    type_ = tensor_type(value.type)
    check_size(type_)
    return type_
